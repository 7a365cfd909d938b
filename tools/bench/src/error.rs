//! The errors of a benchmark.

use crate::NAMES;
use bitcoinkernel::KernelError;
use blockmill_blockfiles::FileError;
use blockmill_chaingen::GenerateError;
use blockmill_coins::{StoreError, UndoLogError};
use blockmill_datadir::OpenError;
use blockmill_engine::ConnectError;
use blockmill_rules::VerifyError;
use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// Why a benchmark failed.
#[derive(Debug, Error)]
pub enum BenchError {
    /// There is no such benchmark.
    #[error("there is no benchmark '{name}' (there are: {})", names())]
    UnknownName {
        /// The name asked for.
        name: String,
    },
    /// A result differs from the expected one.
    #[error("{run}: {what} is {found}, expected {wanted}")]
    Mismatch {
        /// The run.
        run: String,
        /// The part of its result.
        what: &'static str,
        /// The value found.
        found: String,
        /// The value expected.
        wanted: String,
    },
    /// The engine cannot open a data directory.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The engine cannot connect blocks.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The coin store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The undo log failed.
    #[error(transparent)]
    UndoLog(#[from] UndoLogError),
    /// The kernel's ChainstateManager failed.
    #[error("bitcoinkernel: {0}")]
    Kernel(#[from] KernelError),
    /// The kernel rejected a valid block.
    #[error("bitcoinkernel: block {hash} was rejected")]
    KernelRejected {
        /// The block.
        hash: String,
    },
    /// The chain could not be made.
    #[error(transparent)]
    Generate(#[from] GenerateError),
    /// A block file could not be read.
    #[error(transparent)]
    BlockFile(#[from] FileError),
    /// A file or directory could not be made, written or named.
    #[error("{}: {error}", path.display())]
    File {
        /// The file or directory.
        path: PathBuf,
        /// The operating system's error.
        error: io::Error,
    },
    /// A run in a process of its own failed.
    #[error("{run}: {detail}")]
    Process {
        /// The run.
        run: String,
        /// The reason.
        detail: String,
    },
    /// A script verifier failed. This says nothing about the script.
    #[error("{run}: {error}")]
    Verifier {
        /// The run.
        run: String,
        /// The verifier's error.
        error: VerifyError,
    },
    /// Threads could not be started.
    #[error("threads could not be started: {0}")]
    Threads(io::Error),
    /// The table could not be printed.
    #[error("the table could not be printed: {0}")]
    Output(io::Error),
}

impl BenchError {
    pub(crate) fn file(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |error| Self::File { path, error }
    }
}

/// The names of the benchmarks.
fn names() -> String {
    let names: Vec<&str> = NAMES.iter().map(|(name, _)| *name).collect();
    names.join(", ")
}
