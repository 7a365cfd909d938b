//! Errors of the undo log.

use super::position::UndoPosition;
use blockmill_block::undo::UndoRecordError;
use blockmill_blockfiles::FileError;
use thiserror::Error;

/// Why a call of the undo log failed.
#[derive(Debug, Error)]
pub enum UndoLogError {
    /// The operating system reported an error.
    #[error(transparent)]
    Io(FileError),
    /// An earlier write or sync failed, and the log has failed for good. The text names what failed
    /// first.
    #[error(transparent)]
    Failed(FileError),
    /// A position outside of the log.
    #[error("the undo log has no record of {} bytes at offset {}", .0.length, .0.offset)]
    OutOfRange(UndoPosition),
    /// A record whose length does not fit into a position.
    #[error("a record of {length} bytes is too long for the undo log")]
    TooLong {
        /// Length of the record in bytes.
        length: usize,
    },
    /// The bytes at the position are not the undo data of that block.
    #[error(transparent)]
    Record(#[from] UndoRecordError),
}
