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
//! - [`engine`]: the engine that a user opens, over four states;
//! - [`pipeline`]: the way of a block, from its file to the store;
//! - `options`: how an engine is to work; `internals`: what only tests and benchmarks change;
//! - [`plan`]: how much memory each part may take;
//! - [`report`]: what happened, stage by stage, events and traces.
//!
//! What reads and verifies, and connects nothing, lies in crates below. Its names are here, too:
//! - [`inspect`]: the doctor, and blocks verified against undo data (`blockmill-checks`);
//! - [`datadir`]: what a data directory holds, and snapshots of the set (`blockmill-datadir`);
//! - [`chain`]: which blocks there are, which chain of them is the best, and its blocks
//!   (`blockmill-chain`).

pub mod engine;
#[doc(hidden)]
pub mod internals;
mod options;
pub mod pipeline;
pub mod plan;
pub mod report;

/// Which blocks there are, which chain of them is the best, and its blocks: the crate
/// `blockmill-chain`.
pub use blockmill_chain as chain;

/// The data directory: the crate `blockmill-datadir`, and the blocks of a chain.
pub mod datadir {
    pub use blockmill_chain::{block_read_error, chain_blocks, chain_bytes};
    pub use blockmill_datadir::*;
}

/// What looks at blocks and data directories without connecting anything.
pub mod inspect {
    pub use blockmill_checks::{verify, verify_blocks, verify_files};
    pub use blockmill_datadir::doctor;
}

pub use blockmill_chain::report::events::Observer;
pub use blockmill_chain::report::events::{BlockChange, Event, Indexing, Level, Older, Progress};
pub use blockmill_chain::report::findings::Rejected;
pub use blockmill_chain::report::signatures::Signatures;
pub use blockmill_chain::report::wholeness::{NotWhole, RunOutcome, Wholeness};
pub use blockmill_chain::{BlockReadError, ChainBlocks, SpendingBlock, SpendingTransaction};
pub use blockmill_datadir::{
    Batch, ChainId, CoinLookup, DataDir, Earlier, OpenError, PastError, Remedy, SnapshotMark, Status, UtxoSet,
    for_each_batch_of,
};
pub use engine::{DurableObserver, Engine, EngineBuilder, Follower, LoadSnapshotError, Submission, Verdict};
pub use options::Options;
pub use pipeline::error::ConnectError;
pub use plan::Plan;
pub use report::connect_report::ConnectReport;

/// The library code in the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
