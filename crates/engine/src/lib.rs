//! The engine: block files in, a validated UTXO set out, kept in a data directory.
//!
//! ```
//! use blockmill_block::Network;
//! use blockmill_engine::{Engine, RunOutcome};
//! use blockmill_kernel::KernelVerifier;
//! # use blockmill_chaingen::{ChainSpec, Profile, write_chain};
//! # let directory = tempfile::tempdir()?;
//! # let blocks = directory.path().join("blocks");
//! # let data = directory.path().join("data");
//! # let summary = write_chain(&blocks, &ChainSpec::new(Profile::Utxo, 110, 1), &mut |_| ())?;
//!
//! let mut engine = Engine::builder(&data).network(Network::Regtest).open(KernelVerifier)?;
//! // The observer of this run is nobody.
//! let report = engine.connect(&[blocks], &mut ())?;
//! assert_eq!(report.outcome(), RunOutcome::Complete);
//! println!("height {}, tip {}, {} inputs", report.height, report.tip, report.totals.inputs);
//! # assert_eq!(report.tip.to_string(), summary.tip);
//! drop(engine);
//!
//! // The set is in the data directory, and the engine goes on from there.
//! let engine = Engine::builder(&data).open(KernelVerifier)?;
//! assert_eq!(engine.height(), report.height);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! `examples/other_verifier.rs` has an engine with another script verifier,
//! `examples/address_index.rs` an index that is built while blocks are connected.
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

pub use datadir::batches::{Batch, for_each_batch_of};
pub use datadir::block_read_error::BlockReadError;
pub use datadir::chain_blocks::ChainBlocks;
pub use datadir::past::{Earlier, PastError};
pub use datadir::spending_block::{SpendingBlock, SpendingTransaction};
pub use datadir::status::Status;
pub use datadir::utxo_set::{CoinLookup, Reach, UtxoSet};
pub use datadir::{ChainId, DataDir, OpenError, Remedy, SnapshotMark};
pub use engine::{Engine, EngineBuilder, LoadSnapshotError, Options, Submission, Verdict};
pub use pipeline::error::ConnectError;
pub use report::connect_report::ConnectReport;
pub use report::events::{Event, Level, Older};
pub use report::findings::Rejected;
pub use report::observer::{BlockChange, Observer, Progress};
pub use report::signatures::Signatures;
pub use report::wholeness::{NotWhole, RunOutcome, Wholeness};

#[cfg(test)]
mod rooms;

/// The library code in the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
