//! The engine through its public interface. Each module is about one promise. Some use Core's
//! kernel library, which a cfg leaves out.

#![cfg_attr(blockmill_without_kernel, allow(dead_code, reason = "what they alone use"))]

mod assume_valid;
mod chain_blocks;
mod changing_files;
mod common;
mod conformance;
#[cfg(not(blockmill_without_kernel))]
mod delays;
#[cfg(not(blockmill_without_kernel))]
mod differential;
#[cfg(blockmill_without_kernel)]
mod differential {
    pub(crate) mod random;
}
mod doctor;
mod durable_observer;
mod failing_store;
mod feeds;
mod fetching;
mod follow;
#[cfg(not(blockmill_without_kernel))]
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
#[cfg(not(blockmill_without_kernel))]
mod signet_copies;
mod snapshots;
mod stops;
mod ties;
#[cfg(not(blockmill_without_kernel))]
mod verify_signatures;
mod window;
mod windows;

use blockmill_engine::Signatures;
use common::options;

/// How signatures are verified in most tests. The module `lanes` runs some of them with another
/// value.
const SIGNATURES: Signatures = Signatures::OneByOne;
