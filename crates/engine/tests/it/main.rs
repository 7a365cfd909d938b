//! The engine through its public interface. Each module is about one promise.

mod assume_valid;
mod chain_blocks;
mod changing_files;
mod common;
mod conformance;
mod delays;
mod differential;
mod doctor;
mod failing_store;
mod fetching;
mod follow;
mod gathering;
mod growing_files;
mod invalid_branches;
mod lanes;
mod older;
mod past;
mod positions;
mod power_cuts;
mod reorganise;
mod reports;
mod resume;
mod rules_in_blocks;
mod signet_copies;
mod snapshots;
mod stops;
mod ties;
mod verify_signatures;
mod window;
mod windows;

use blockmill_engine::Signatures;
use common::options;

/// How signatures are verified in most tests. The module `lanes` runs some of them with another
/// value.
const SIGNATURES: Signatures = Signatures::OneByOne;
