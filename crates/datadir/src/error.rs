//! Why a data directory cannot be opened or read.

use crate::files::HEADERS_FILE;
use crate::writer::Writer;
use blockmill_block::BlockHash;
use blockmill_blockfiles::FileError;
use blockmill_chain::report::events::Older;
use blockmill_coins::{StoreError, Tip, UndoLogError};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// What helps where a part of a data directory is damaged or lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Remedy {
    /// The blocks are connected again into a new data directory.
    NewDirectory,
    /// The same, but only a reorganisation needs it.
    NewDirectoryToReorganise,
    /// What is left of the file is removed. Opening the directory for its network makes it again.
    RemoveFile,
    /// The blocks are submitted again.
    SubmitAgain,
    /// The blocks are connected again, into the same directory.
    ConnectAgain,
}

/// Why a data directory cannot be opened or read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum OpenError {
    /// A file cannot be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// The coin store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The coin store has an older set than the one that was written last.
    #[error("{}: {older}", path.display())]
    Older {
        /// The store.
        path: PathBuf,
        /// What it has and had.
        older: Older,
    },
    /// The undo log cannot be opened.
    #[error(transparent)]
    UndoLog(UndoLogError),
    /// The system makes no more threads.
    #[error("worker threads: {0}")]
    Threads(#[source] std::io::Error),
    /// Another process has the directory.
    #[error("{}: in use by {writer}", path.display())]
    Locked {
        /// The directory.
        path: PathBuf,
        /// Who writes to it.
        writer: Writer,
    },
    /// The directory belongs to another network than the caller asks for.
    #[error("{}: this data directory is for {found}, not for {wanted}", path.display())]
    WrongNetwork {
        /// The directory.
        path: PathBuf,
        /// The network it belongs to.
        found: String,
        /// The network asked for.
        wanted: String,
    },
    /// The directory has blocks and belongs to another program.
    #[error("{}: this directory has blocks/ and is no data directory", path.display())]
    Foreign {
        /// The directory.
        path: PathBuf,
    },
    /// There is no data directory, and the caller names no network for a new one.
    #[error("{}: no data directory", path.display())]
    NoDataDirectory {
        /// The directory.
        path: PathBuf,
    },
    /// There is no data directory to read.
    #[error("there is no data directory at {}", path.display())]
    NotThere {
        /// The path.
        path: PathBuf,
    },
    /// A file of the directory is damaged or lost.
    #[error("{}: {detail}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        detail: String,
        /// What helps, if anything does.
        remedy: Option<Remedy>,
    },
}

impl From<UndoLogError> for OpenError {
    fn from(error: UndoLogError) -> Self {
        match error {
            UndoLogError::Io(error) | UndoLogError::Failed(error) => Self::File(error),
            other => Self::UndoLog(other),
        }
    }
}

impl OpenError {
    /// A file of the directory is damaged or lost.
    pub(crate) fn damaged(
        path: impl Into<PathBuf>,
        detail: impl Into<String>,
        remedy: impl Into<Option<Remedy>>,
    ) -> Self {
        Self::Damaged {
            path: path.into(),
            detail: detail.into(),
            remedy: remedy.into(),
        }
    }

    /// The headers of a directory are damaged.
    pub(crate) fn damaged_headers(directory: &Path, detail: String) -> Self {
        Self::damaged(directory.join(HEADERS_FILE), detail, Remedy::NewDirectory)
    }

    /// What helps, where the data directory knows.
    pub fn remedy(&self) -> Option<Remedy> {
        match self {
            Self::Damaged { remedy, .. } => *remedy,
            Self::Older { .. } => Some(Remedy::ConnectAgain),
            Self::Store(StoreError::Corrupt(_) | StoreError::Damaged { .. }) => Some(Remedy::NewDirectory),
            _ => None,
        }
    }
}

/// What is wrong where the header of a store's tip is in no file.
pub(crate) fn no_tip_header(tip: &Tip) -> String {
    format!("the header of the tip {} (height {}) is missing", tip.hash, tip.height)
}

/// What is wrong where the parent of a header is in no file.
pub(crate) fn no_parent(block: &BlockHash) -> String {
    format!("the parent of block {block} is missing")
}
