//! Why tables, sets and feeds do not go on.

use crate::reports::{CursorError, FileError, IncompleteError, usage};
use arrow_schema::ArrowError;
use blockmill_blockfiles::FileError as BadFile;
use blockmill_chain::BlockReadError;
use blockmill_coins::StoreError;
use blockmill_datadir::{FeedError, OpenError, PastError};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use thiserror::Error;

/// Why work has ended before its end.
#[derive(Debug, Clone, Error)]
pub(crate) enum Fault {
    /// Nobody wants it any more.
    #[error("stopped")]
    Stopped,
    /// An argument cannot be used.
    #[error("{0}")]
    Usage(String),
    /// A file, a block or a data directory cannot be read.
    #[error("{0}")]
    File(String),
    /// The same of what a feed reads, which may pass.
    #[error("{0}")]
    Passing(String),
    /// The block files do not hold a whole chain.
    #[error("{0}")]
    Incomplete(String),
    /// There is nothing to go on with from a cursor.
    #[error("{0}")]
    Cursor(String),
    /// A fault of ours.
    #[error("{0}")]
    Inner(String),
}

impl From<Fault> for PyErr {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Usage(why) => usage(why),
            Fault::File(why) | Fault::Passing(why) => FileError::new_err(why),
            Fault::Incomplete(why) => IncompleteError::new_err(why),
            Fault::Cursor(why) => CursorError::new_err(why),
            Fault::Stopped | Fault::Inner(_) => PyRuntimeError::new_err(fault.to_string()),
        }
    }
}

macro_rules! of_files {
    ($($error:ty),*) => {$(
        impl From<$error> for Fault {
            fn from(error: $error) -> Self {
                Self::File(error.to_string())
            }
        }
    )*};
}

of_files!(OpenError, StoreError, BlockReadError, BadFile);

impl From<PastError> for Fault {
    fn from(error: PastError) -> Self {
        match error {
            PastError::Stopped => Self::Stopped,
            PastError::AboveTip { .. } | PastError::BelowSnapshot { .. } => Self::Usage(error.to_string()),
            error => Self::File(error.to_string()),
        }
    }
}

impl From<FeedError> for Fault {
    fn from(error: FeedError) -> Self {
        match error {
            FeedError::UnknownCursor { .. } | FeedError::KeptNoLonger { .. } | FeedError::AboveTip { .. } => {
                Self::Cursor(error.to_string())
            }
            error if error.may_pass() => Self::Passing(error.to_string()),
            error => Self::File(error.to_string()),
        }
    }
}

impl From<ArrowError> for Fault {
    fn from(error: ArrowError) -> Self {
        Self::Inner(error.to_string())
    }
}
