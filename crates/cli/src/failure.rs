//! What ends a command early.

use crate::advice;
use crate::signals;
#[cfg(feature = "tables")]
use arrow_schema::ArrowError;
use blockmill_audit::{AuditError, KeyError};
use blockmill_blockfiles::FileError;
use blockmill_chain::{BlockReadError, Wholeness};
#[cfg(feature = "generate")]
use blockmill_chaingen::GenerateError;
use blockmill_checks::verify_files::VerifyFilesError;
use blockmill_coins::StoreError;
use blockmill_datadir::snapshot::DumpSnapshotError;
use blockmill_datadir::{FeedError, OpenError, PastError};
use blockmill_engine::ConnectError;
use blockmill_engine::engine::LoadSnapshotError;
#[cfg(feature = "postgres")]
use blockmill_mirror::{Fate, MirrorError};
#[cfg(feature = "tables")]
use parquet::errors::ParquetError;
#[cfg(feature = "tables")]
use rusqlite::ffi::SQLITE_IOERR_WRITE;
use rustix::io::Errno;
use std::error::Error;
use std::io;
use std::path::PathBuf;
use thiserror::Error as ThisError;

/// Why a command ended early.
#[derive(Debug, ThisError)]
pub(crate) enum Failure {
    /// A data directory cannot be opened or read.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The set cannot be had as it was.
    #[error(transparent)]
    Past(#[from] PastError),
    /// A block or its undo data cannot be read.
    #[error(transparent)]
    Block(#[from] BlockReadError),
    /// A feed does not go on.
    #[error(transparent)]
    Feed(#[from] FeedError),
    /// Records of blocks hide others, so an export without a data directory may lack blocks.
    #[error("{}", .0.reasons.first().map(ToString::to_string).unwrap_or_default())]
    Hidden(Wholeness),
    /// A signal came before a file was complete.
    #[error("{}: stopped before the end; nothing of it is kept", .0.display())]
    Stopped(PathBuf),
    /// A signal came before a file was complete that goes on.
    #[cfg(feature = "tables")]
    #[error("{}: stopped before the end; the file is as it was", .0.display())]
    StoppedAppend(PathBuf),
    /// A signal came before a table in a folder was complete.
    #[error("{}: stopped before the end; complete partitions are kept, and --append goes on", .0.display())]
    StoppedBetween(PathBuf),
    /// A Parquet file cannot be written.
    #[cfg(feature = "tables")]
    #[error("{0}")]
    Parquet(#[from] ParquetError),
    /// A stream of Arrow cannot be written.
    #[cfg(feature = "tables")]
    #[error("Arrow: {0}")]
    Arrow(#[from] ArrowError),
    /// A SQLite database cannot be read or written.
    #[cfg(feature = "tables")]
    #[error("{}: SQLite: {error}", path.display())]
    Sqlite {
        /// The file.
        path: PathBuf,
        /// SQLite's error.
        #[source]
        error: rusqlite::Error,
    },
    /// A mirror does not go on, by what is no other failure.
    #[cfg(feature = "postgres")]
    #[error(transparent)]
    Mirror(MirrorError),
    /// Blocks cannot be connected.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// A snapshot is not written.
    #[error(transparent)]
    DumpSnapshot(#[from] DumpSnapshotError),
    /// A snapshot is not loaded.
    #[error(transparent)]
    LoadSnapshot(#[from] LoadSnapshotError),
    /// Block files are not verified.
    #[error(transparent)]
    VerifyFiles(#[from] VerifyFilesError),
    /// An audit cannot be made.
    #[error(transparent)]
    Audit(#[from] AuditError),
    /// Block files cannot be read.
    #[error(transparent)]
    BlockFiles(#[from] FileError),
    /// The coin store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The generator failed.
    #[cfg(feature = "generate")]
    #[error(transparent)]
    Generate(#[from] GenerateError),
    /// A file could not be read or written.
    #[error("{}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        #[source]
        error: io::Error,
    },
    /// Standard input or output failed, or the process has no more files.
    #[error("{}: {}", stream(.0), .0)]
    Stream(#[from] io::Error),
    /// Input is damaged.
    #[error("{0}")]
    Corrupt(String),
    /// The arguments do not make sense together.
    #[error("{0}")]
    Usage(String),
    /// A result is not the expected one.
    #[cfg(feature = "generate")]
    #[error("{0}")]
    Mismatch(String),
}

impl Failure {
    pub(crate) fn file(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |error| Self::File { path, error }
    }

    #[cfg(feature = "tables")]
    pub(crate) fn sqlite(path: impl Into<PathBuf>) -> impl FnOnce(rusqlite::Error) -> Self {
        let path = path.into();
        move |error| match error.sqlite_error_code() {
            Some(rusqlite::ErrorCode::DatabaseBusy | rusqlite::ErrorCode::DatabaseLocked) => {
                FileError::InUse { path }.into()
            }
            _ => Self::Sqlite { path, error },
        }
    }

    /// The message for a person.
    pub(crate) fn message(&self) -> String {
        advice::with_advice(self.to_string(), self.advice())
    }

    /// Whether a signal ended the command.
    pub(crate) fn is_stop(&self) -> bool {
        match self {
            #[cfg(feature = "generate")]
            Self::Generate(error) => matches!(error, GenerateError::Stopped { .. }),
            #[cfg(feature = "postgres")]
            Self::Mirror(MirrorError::Stopped) => true,
            #[cfg(feature = "tables")]
            Self::StoppedAppend(_) => true,
            Self::Stopped(_)
            | Self::StoppedBetween(_)
            | Self::Past(PastError::Stopped)
            | Self::Audit(AuditError::Stopped)
            | Self::DumpSnapshot(DumpSnapshotError::Stopped { .. })
            | Self::LoadSnapshot(LoadSnapshotError::Stopped { .. }) => true,
            _ => false,
        }
    }

    /// What the user can do about it.
    fn advice(&self) -> Option<&'static str> {
        match self {
            Self::Open(error)
            | Self::Past(PastError::Open(error))
            | Self::Feed(FeedError::Open(error))
            | Self::Audit(AuditError::Open(error)) => advice::of_open(error),
            Self::Feed(FeedError::Behind { .. }) => Some("wait for connect or follow to catch up, or run connect"),
            // Only the second part loses work: a directory that was restored or recreated may still
            // come to the block.
            Self::Feed(FeedError::UnknownCursor { .. }) => Some(
                "if the data directory has not caught up with its block files, run connect first; otherwise start over \
                 with --from 0, and drop what was made of the events before",
            ),
            Self::Feed(FeedError::KeptNoLonger { .. }) => {
                Some("start over with --from 0, and drop what was made of the events before")
            }
            Self::Connect(error) => advice::of_connect(error),
            Self::LoadSnapshot(error) => advice::of_load(error),
            Self::Store(error) | Self::DumpSnapshot(DumpSnapshotError::Store(error)) => advice::of_store(error),
            Self::Hidden(_) => Some(advice::OF_HIDDEN),
            _ => None,
        }
    }

    /// The exit status.
    pub(crate) fn status(&self) -> u8 {
        match self {
            _ if self.is_stop() => signals::status(),
            // Before all others: a write of any kind may meet it.
            _ if is_disk_full(self) => 4,
            Self::Open(error)
            | Self::Past(PastError::Open(error))
            | Self::Feed(FeedError::Open(error))
            | Self::Audit(AuditError::Open(error)) => open_status(error),
            Self::Feed(
                FeedError::UnknownCursor { .. }
                | FeedError::KeptNoLonger { .. }
                | FeedError::AboveTip { .. }
                | FeedError::Behind { .. },
            ) => 2,
            Self::Past(PastError::AboveTip { .. } | PastError::BelowSnapshot { .. }) => 2,
            Self::Store(error)
            | Self::Connect(ConnectError::Store(error))
            | Self::Audit(AuditError::Store(error))
            | Self::DumpSnapshot(DumpSnapshotError::Store(error))
            | Self::LoadSnapshot(LoadSnapshotError::Store(error)) => store_status(error),
            Self::Connect(ConnectError::Flush(_) | ConnectError::Contradiction { .. }) => 4,
            Self::BlockFiles(error)
            | Self::Audit(AuditError::File(error) | AuditError::Key(KeyError::File(error)))
            | Self::DumpSnapshot(DumpSnapshotError::File(error))
                if error.is_name_taken() =>
            {
                2
            }
            Self::Audit(AuditError::Heights { .. } | AuditError::NotOwn { .. })
            | Self::LoadSnapshot(LoadSnapshotError::SetExists { .. } | LoadSnapshotError::UnknownHash { .. }) => 2,
            #[cfg(feature = "generate")]
            Self::Mismatch(_) => 1,
            Self::Block(BlockReadError::Rejected { .. }) => 1,
            Self::Usage(_) => 2,
            #[cfg(feature = "generate")]
            Self::Generate(
                GenerateError::BlockWeight { .. }
                | GenerateError::TooManyBlocks { .. }
                | GenerateError::TooManyEmptyBlocks { .. }
                | GenerateError::Occupied { .. },
            ) => 2,
            #[cfg(feature = "generate")]
            Self::Generate(_) => 3,
            #[cfg(feature = "tables")]
            Self::Parquet(_) | Self::Arrow(_) | Self::Sqlite { .. } | Self::StoppedAppend(_) => 3,
            #[cfg(feature = "postgres")]
            Self::Mirror(error) => mirror_status(error),
            Self::Past(_)
            | Self::Feed(_)
            | Self::Stopped(_)
            | Self::StoppedBetween(_)
            | Self::Block(_)
            | Self::Hidden(_)
            | Self::Connect(_)
            | Self::DumpSnapshot(_)
            | Self::LoadSnapshot(_)
            | Self::VerifyFiles(_)
            | Self::Audit(_)
            | Self::BlockFiles(_)
            | Self::File { .. }
            | Self::Stream(_)
            | Self::Corrupt(_) => 3,
        }
    }
}

/// What an error of the system that belongs to no file is about.
fn stream(error: &io::Error) -> &'static str {
    match Errno::from_io_error(error) {
        Some(Errno::MFILE | Errno::NFILE) => "the limit of open files (ulimit -n) is too low",
        _ => "standard streams",
    }
}

/// Whether a write failed since the disk is full, or the quota or the file-size limit is reached.
fn is_disk_full(failure: &Failure) -> bool {
    #[cfg(feature = "tables")]
    if let Failure::Sqlite { error, .. } = failure {
        // SQLite has a code for ENOSPC alone; any other failed write is this extended code.
        let is_failed_write = error
            .sqlite_error()
            .is_some_and(|error| error.extended_code == SQLITE_IOERR_WRITE);
        return is_failed_write || error.sqlite_error_code() == Some(rusqlite::ErrorCode::DiskFull);
    }
    let mut next: Option<&(dyn Error + 'static)> = Some(failure);
    // The error of the system is the cause of another one.
    while let Some(error) = next {
        let kind = error.downcast_ref::<io::Error>().map(io::Error::kind);
        if matches!(
            kind,
            Some(io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge)
        ) {
            return true;
        }
        next = error.source();
    }
    false
}

/// 2 for wrong usage, 4 where the directory is in use or the store failed, else 3.
fn open_status(error: &OpenError) -> u8 {
    match error {
        OpenError::WrongNetwork { .. }
        | OpenError::NoDataDirectory { .. }
        | OpenError::NotThere { .. }
        | OpenError::Foreign { .. } => 2,
        OpenError::Store(error) => store_status(error),
        OpenError::Locked { .. } => 4,
        _ => 3,
    }
}

#[cfg(feature = "postgres")]
fn mirror_status(error: &MirrorError) -> u8 {
    match (error, error.fate()) {
        (MirrorError::Behind(_), _) | (_, Some(Fate::Usage | Fate::Encoding)) => 2,
        (MirrorError::Unanswered(_) | MirrorError::Busy(_), _) | (_, Some(Fate::Retry | Fate::Fatal)) => 4,
        _ => 3,
    }
}

#[cfg(feature = "postgres")]
impl From<MirrorError> for Failure {
    fn from(error: MirrorError) -> Self {
        match error {
            MirrorError::Open(error) => error.into(),
            MirrorError::Past(error) => error.into(),
            MirrorError::Block(error) => error.into(),
            MirrorError::Feed(error) => error.into(),
            MirrorError::Store(error) => error.into(),
            MirrorError::Io(error) => error.into(),
            MirrorError::Corrupt(text) => Self::Corrupt(text),
            MirrorError::Usage(text) => Self::Usage(text),
            error => Self::Mirror(error),
        }
    }
}

/// 2 where the store belongs to another network, 3 where it is damaged, else 4.
fn store_status(error: &StoreError) -> u8 {
    match error {
        StoreError::Network { .. } => 2,
        error if error.is_corruption() => 3,
        _ => 4,
    }
}

impl From<KeyError> for Failure {
    fn from(error: KeyError) -> Self {
        Self::Audit(error.into())
    }
}
