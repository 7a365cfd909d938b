//! The engine: block files in, a validated UTXO set out, kept in a data directory.
//!
//! The modules. Each uses only those below it in this list:
//! - [`inspect`]: the doctor, and blocks verified against undo data;
//! - [`engine`]: the engine that a user opens, over four states;
//! - [`pipeline`]: the way of a block, from its file to the store;
//! - [`datadir`]: what a data directory holds, and snapshots of the set;
//! - [`chain`]: which blocks there are, and which chain of them is the best;
//! - [`report`]: what happened, stage by stage, events and traces.

pub mod chain;
pub mod datadir;
pub mod engine;
pub mod inspect;
pub mod pipeline;
pub mod report;

pub use datadir::{ChainId, DataDir, OpenError, Remedy, SnapshotMark};
pub use engine::{Engine, EngineBuilder, LoadSnapshotError, Options, Submission, Verdict};
pub use pipeline::error::ConnectError;
pub use report::connect_report::{ConnectReport, RunOutcome};
pub use report::events::{Event, Level};
pub use report::findings::Rejected;
pub use report::observer::{Observer, Progress};
pub use report::signatures::Signatures;

#[cfg(test)]
mod rooms;

/// The library code in the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
