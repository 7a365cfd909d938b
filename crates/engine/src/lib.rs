//! The engine: block files in, a validated UTXO set out, kept in a data directory.
//!
//! The rooms, in reading order:
//! - [`pipeline`]: the way of a block, from its file to the store;
//! - [`chain`]: which blocks there are, and which chain of them is the best;
//! - [`datadir`]: what a data directory holds, and snapshots of the set;
//! - [`inspect`]: the doctor, and blocks verified against undo data;
//! - [`report`]: what happened, stage by stage, events and traces;
//! - [`open`]: an engine on a data directory, and its options;
//! - [`error`]: what can go wrong besides invalid blocks.

pub mod chain;
pub mod datadir;
pub mod error;
pub mod inspect;
pub mod open;
pub mod pipeline;
pub mod report;

pub use chain::submit::{Submission, Verdict};
pub use datadir::{ChainId, DataDir, SnapshotMark};
pub use error::EngineError;
pub use open::Options;
pub use pipeline::connect::Engine;
pub use pipeline::signatures::Signatures;
pub use report::events::{Event, Level};
pub use report::trace::StageHook;
pub use report::{ConnectReport, Observer, Progress, Rejected};

/// The library code in the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
