//! Why an audit cannot be made.

use crate::key::KeyError;
use blockmill_blockfiles::FileError;
use blockmill_checks::verify::VerifyBlockError;
use blockmill_coins::{SnapshotError, StoreError};
use blockmill_datadir::OpenError;
use std::path::PathBuf;
use thiserror::Error;

/// Why an audit cannot be made. What speaks against a proof is no error, but a
/// [finding](crate::Finding).
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum AuditError {
    /// A file cannot be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// The key cannot be read or written.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The snapshot is none, or is damaged.
    #[error("{}: {error}", path.display())]
    Snapshot {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        #[source]
        error: SnapshotError,
    },
    /// The data directory cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The store cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Threads cannot be made, or the script verifier failed.
    #[error(transparent)]
    Verifier(#[from] VerifyBlockError),
    /// The directory of a run is not the user's alone: others could put a key or parts into it.
    #[error(
        "{}: {why}: --resume needs a directory that belongs to you, and into which nobody else can write",
        path.display()
    )]
    NotOwn {
        /// The directory, or its key file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// The chain does not have the heights of a part.
    #[error("heights {first} to {last} are not in the chain, which ends at height {tip}")]
    Heights {
        /// The first height.
        first: u32,
        /// The last one.
        last: u32,
        /// Height of the chain.
        tip: u32,
    },
    /// The caller asked to stop.
    #[error("stopped before the end")]
    Stopped,
}
