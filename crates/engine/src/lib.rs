//! The engine: block files in, a validated UTXO set out, kept in a data directory.
//!
//! In reading order:
//! - [`connect`]: the main job, all of its control flow in one place;
//! - [`index`]: the header index and the choice of the best chain;
//! - [`assume_valid`]: when scripts need not run;
//! - [`signatures`]: which blocks have their signatures verified in lanes;
//! - [`resolve`]: applying a block to the coins cache, and taking it back;
//! - [`checks`]: script checks on several threads;
//! - [`data_dir`], [`chain_log`]: what a data directory holds besides coins;
//! - [`store_file`]: the file of the coins in it;
//! - [`submit`]: blocks one by one, with a verdict each;
//! - [`verify`], [`verify_files`]: one block against its undo data, and those of block files
//!   against Core's;
//! - [`snapshot`]: the set to a file, and back;
//! - [`doctor`]: looking a data directory over;
//! - [`report`], [`events`]: what happened, stage by stage, and what is worth a line in a log;
//! - [`error`]: what can go wrong besides invalid blocks.

pub mod assume_valid;
pub mod chain_log;
pub mod checks;
pub mod connect;
pub mod data_dir;
pub mod doctor;
pub mod error;
pub mod events;
pub mod index;
pub mod open;
pub mod report;
pub mod resolve;
pub mod signatures;
pub mod snapshot;
pub mod store_file;
pub mod submit;
pub mod verify;
pub mod verify_files;

mod ahead;
mod body;
mod fetching;
mod flushing;
mod in_flight;
mod inputs;
mod made_ahead;
mod reorganise;
mod sources;
mod timeline;

pub use connect::Engine;
pub use data_dir::{DataDir, Marks, SnapshotMark};
pub use error::EngineError;
pub use events::{Event, Level};
pub use open::Options;
pub use report::{ConnectReport, Observer, Progress, Quiet, Rejected};
pub use signatures::Signatures;
pub use submit::{Submission, Verdict};
pub use timeline::StageHook;

/// The library code in the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
