//! Why blocks cannot be connected, besides rules that they break.

use blockmill_block::BlockHash;
use blockmill_block::undo::UndoRecordError;
use blockmill_blockfiles::FileError;
use blockmill_coins::{FlushError, StoreError, UndoLogError};
use thiserror::Error;

/// Why connecting stopped. Blocks that break a rule are no errors: the results report them. What
/// was flushed before is kept.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// A block file or a file of the data directory cannot be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// The coin store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A flush failed in another way.
    #[error("coin store: {0}")]
    Flush(#[source] FlushError),
    /// Undo data that a reorganisation needs is damaged or missing.
    #[error("undo data of block {hash}: {error}")]
    Undo {
        /// The block.
        hash: BlockHash,
        /// What is wrong.
        #[source]
        error: UndoRecordError,
    },
    /// The undo log refused a record.
    #[error(transparent)]
    UndoLog(UndoLogError),
    /// A reorganisation must disconnect a block and cannot: the block or its undo data cannot be
    /// had, or the set lacks its outputs.
    #[error("block {hash} (height {height}) cannot be disconnected: {detail}")]
    CannotDisconnect {
        /// The block.
        hash: BlockHash,
        /// Its height.
        height: u32,
        /// Why not.
        detail: String,
    },
    /// The coins cache does not take a block whose coins were found right. This says nothing about
    /// the block. Memory may be faulty, or this program.
    #[error(
        "block {hash} (height {height}): its coins were found right, and the coins cache does not take them: \
         the memory of this machine may be faulty, or this program"
    )]
    Contradiction {
        /// The block.
        hash: BlockHash,
        /// Its height.
        height: u32,
    },
    /// The script verifier failed. This says nothing about the block.
    #[error("block {hash}: {detail}")]
    Verifier {
        /// The block.
        hash: BlockHash,
        /// What the verifier reported.
        detail: String,
    },
}

impl From<UndoLogError> for ConnectError {
    fn from(error: UndoLogError) -> Self {
        match error {
            UndoLogError::Io(error) | UndoLogError::Failed(error) => Self::File(error),
            other => Self::UndoLog(other),
        }
    }
}

impl From<FlushError> for ConnectError {
    fn from(error: FlushError) -> Self {
        match error {
            FlushError::Store(error) => Self::Store(error),
            // Before a flush the undo log is synced, so its own error is what the caller needs.
            FlushError::Before(error) => match error.downcast::<UndoLogError>() {
                Ok(error) => (*error).into(),
                Err(other) => Self::Flush(FlushError::Before(other)),
            },
            FlushError::Thread(_) | FlushError::Panicked(_) => Self::Flush(error),
        }
    }
}
