//! What can go wrong besides invalid blocks.

use blockmill_block::BlockHash;
use blockmill_block::undo::UndoRecordError;
use blockmill_blockfiles::FileError;
use blockmill_coins::{FlushError, SnapshotError, StoreError, UndoLogError};
use std::path::PathBuf;
use thiserror::Error;

/// Why the engine stopped. Blocks that break a rule are no errors: they are reported in the
/// results.
#[derive(Debug, Error)]
pub enum EngineError {
    /// A block file or a file of the data directory cannot be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// The coin store failed.
    #[error("{0}{advice}", advice = advice(.0))]
    Store(#[from] StoreError),
    /// Another process has the data directory.
    #[error("{}: in use by another process", path.display())]
    Locked {
        /// The directory.
        path: PathBuf,
    },
    /// The data directory was made for another network, or is asked for under the wrong name.
    #[error("{}: this data directory is for {found}, not for {wanted}", path.display())]
    WrongNetwork {
        /// The directory.
        path: PathBuf,
        /// The network it was made for.
        found: String,
        /// The network asked for.
        wanted: String,
    },
    /// A directory that is to become a data directory holds something else.
    #[error("{}: this directory has blocks/ and is no data directory; name another for --data", path.display())]
    Foreign {
        /// The directory.
        path: PathBuf,
    },
    /// There is no data directory, and none may be made without knowing the network.
    #[error("{}: no data directory; --network is needed to make one", path.display())]
    NoDataDirectory {
        /// The directory.
        path: PathBuf,
    },
    /// There is no data directory to look at.
    #[error("there is no data directory at {}", path.display())]
    NotThere {
        /// The place.
        path: PathBuf,
    },
    /// A file of the data directory is not what it should be.
    #[error("{}: {detail}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        detail: String,
    },
    /// Undo data that a reorganisation needs is damaged or missing.
    #[error("undo data of block {hash}: {error}")]
    Undo {
        /// The block.
        hash: BlockHash,
        /// What is wrong.
        error: UndoRecordError,
    },
    /// The undo log refused something else.
    #[error(transparent)]
    UndoLog(UndoLogError),
    /// A block that a reorganisation must take back cannot be read.
    #[error(
        "block {hash} (height {height}) must be disconnected and is not readable: {detail}; \
         name the block files that hold it, or connect into a new data directory"
    )]
    BlockMissing {
        /// The block.
        hash: BlockHash,
        /// Its height.
        height: u32,
        /// Why not.
        detail: String,
    },
    /// A snapshot file is not what it should be, or cannot be written.
    #[error("{}: {error}", path.display())]
    Snapshot {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        error: SnapshotError,
    },
    /// A snapshot file, or the data directory, cannot be used so.
    #[error("{}: {detail}", path.display())]
    SnapshotFile {
        /// The file.
        path: PathBuf,
        /// Why not.
        detail: String,
    },
    /// A snapshot was being written or loaded when it was asked to stop.
    #[error("{}: stopped before the end; nothing of it is kept", path.display())]
    Stopped {
        /// The file.
        path: PathBuf,
    },
    /// The coins of a snapshot are not those that they should be.
    #[error("{}: the coins have the hash {found}, not {wanted}", path.display())]
    SnapshotHash {
        /// The file.
        path: PathBuf,
        /// `hash_serialized_3` of the coins in it.
        found: BlockHash,
        /// What it should be.
        wanted: BlockHash,
    },
    /// The base block of a snapshot is not in the best chain of headers.
    #[error("block {hash}, the base of the snapshot: {detail}")]
    SnapshotBase {
        /// The block.
        hash: BlockHash,
        /// What is wrong.
        detail: String,
    },
    /// A block that was asked for is in none of the files.
    #[error("block {hash} is in none of the block files, or a block before it is not")]
    UnknownBlock {
        /// The block.
        hash: BlockHash,
    },
    /// The script verifier failed; this says nothing about the block.
    #[error("block {hash}: {detail}")]
    Verifier {
        /// The block.
        hash: BlockHash,
        /// What it said.
        detail: String,
    },
}

/// What to do with a directory whose coins cannot be had back.
pub(crate) const NEW_DIRECTORY: &str = "connect into a new data directory";

/// Makes an error of the operating system an error about a file.
pub(crate) fn file_error(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> EngineError {
    let path = path.into();
    move |error| EngineError::File(FileError::Io { path, error })
}

/// What to do about an error of the store, where that is certain.
fn advice(error: &StoreError) -> String {
    match error {
        StoreError::Corrupt(_) | StoreError::Damaged { .. } => format!("; {NEW_DIRECTORY}"),
        _ => String::new(),
    }
}

impl From<UndoLogError> for EngineError {
    fn from(error: UndoLogError) -> Self {
        match error {
            UndoLogError::Io(error) | UndoLogError::Failed(error) => Self::File(error),
            other => Self::UndoLog(other),
        }
    }
}

impl From<FlushError> for EngineError {
    fn from(error: FlushError) -> Self {
        match error {
            FlushError::Store(error) => Self::Store(error),
            FlushError::Before(error) => match error.downcast() {
                Ok(error) => *error,
                Err(other) => Self::Store(StoreError::Backend(other.to_string())),
            },
            FlushError::Thread(_) | FlushError::Panicked(_) => Self::Store(StoreError::Backend(error.to_string())),
        }
    }
}

impl EngineError {
    /// Exit status of a command that ends with this error: 0 it was asked to stop, 2 wrong usage, 3
    /// unreadable or corrupt input or data, 4 the store failed.
    pub fn exit_status(&self) -> u8 {
        match self {
            Self::Stopped { .. } => 0,
            Self::WrongNetwork { .. }
            | Self::NoDataDirectory { .. }
            | Self::NotThere { .. }
            | Self::Foreign { .. }
            | Self::SnapshotFile { .. } => 2,
            Self::Store(StoreError::Network { .. }) => 2,
            Self::Store(error) if !error.is_corruption() => 4,
            Self::Locked { .. } => 4,
            Self::File(_)
            | Self::Store(_)
            | Self::Damaged { .. }
            | Self::Undo { .. }
            | Self::UndoLog(_)
            | Self::BlockMissing { .. }
            | Self::Snapshot { .. }
            | Self::SnapshotHash { .. }
            | Self::SnapshotBase { .. }
            | Self::UnknownBlock { .. }
            | Self::Verifier { .. } => 3,
        }
    }
}
