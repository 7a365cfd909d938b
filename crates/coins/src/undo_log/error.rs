//! What can go wrong in the undo log.

use super::UndoPosition;
use blockmill_block::undo::UndoRecordError;
use blockmill_blockfiles::FileError;
use thiserror::Error;

/// Why a call of the undo log failed.
#[derive(Debug, Error)]
pub enum UndoLogError {
    /// The operating system refused.
    #[error(transparent)]
    Io(FileError),
    /// An earlier write or sync failed, and the log with it; the text says what failed first.
    #[error(transparent)]
    Failed(FileError),
    /// A place that is not in the log.
    #[error("the undo log has no record of {} bytes at offset {}", .0.length, .0.offset)]
    OutOfRange(UndoPosition),
    /// A record that is longer than a position can say.
    #[error("a record of {length} bytes is too long for the undo log")]
    TooLong {
        /// Length of the record in bytes.
        length: usize,
    },
    /// What lies at a place is not the undo data of that block.
    #[error(transparent)]
    Record(#[from] UndoRecordError),
}
