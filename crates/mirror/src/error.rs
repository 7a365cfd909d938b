//! Why a mirror ends.

use crate::sql_error::{self, Fate};
use blockmill_chain::BlockReadError;
use blockmill_coins::StoreError;
use blockmill_datadir::feed::watching::TellError;
use blockmill_datadir::{FeedError, OpenError, PastError};
use std::io;
use thiserror::Error;

/// Why a mirror ends, or an attempt of it.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum MirrorError {
    /// The data directory cannot be opened or read.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The set cannot be had as it was.
    #[error(transparent)]
    Past(#[from] PastError),
    /// A block or its undo data cannot be read.
    #[error(transparent)]
    Block(#[from] BlockReadError),
    /// The feed does not go on.
    #[error(transparent)]
    Feed(#[from] FeedError),
    /// The coin store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A thread cannot be started, or a stream has failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The database fails.
    #[error("{}", sql_error::text(.0))]
    Postgres(#[from] postgres::Error),
    /// A server accepts a connection, and nothing follows.
    #[error("{0}")]
    Unanswered(String),
    /// Another mirror has what is to be changed.
    #[error("{0}")]
    Busy(String),
    /// The data directory is at an earlier block than the tables.
    #[error("{0}")]
    Behind(String),
    /// The stop flag was set before the tables were at the tip.
    #[error("stopped before the end; the same call goes on from there")]
    Stopped,
    /// The tables or the data directory are not as a mirror or a writer left them.
    #[error("{0}")]
    Corrupt(String),
    /// What was asked for is wrong.
    #[error("{0}")]
    Usage(String),
}

impl MirrorError {
    /// What follows from the error of the server, if it is one.
    pub fn fate(&self) -> Option<Fate> {
        match self {
            Self::Postgres(error) => Some(sql_error::fate(error)),
            _ => None,
        }
    }

    /// Whether another attempt may succeed without a change of the call.
    pub(crate) fn is_retried(&self) -> bool {
        self.fate() == Some(Fate::Retry) || matches!(self, Self::Unanswered(_) | Self::Behind(_))
    }
}

impl TellError for MirrorError {
    fn is_stop(&self) -> bool {
        matches!(self, Self::Stopped)
    }

    fn may_pass(&self) -> bool {
        match self {
            Self::Feed(error) => error.may_pass(),
            error => matches!(error, Self::Open(_) | Self::Block(_)),
        }
    }
}
