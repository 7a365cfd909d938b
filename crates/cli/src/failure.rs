//! What ends a command early.

use blockmill_chaingen::GenerateError;
use blockmill_coins::StoreError;
use blockmill_engine::EngineError;
use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// Why a command ended early.
#[derive(Debug, Error)]
pub(crate) enum Failure {
    /// The engine failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The generator failed.
    #[error(transparent)]
    Generate(#[from] GenerateError),
    /// A file could not be read or written.
    #[error("{}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        error: io::Error,
    },
    /// Standard input or output failed.
    #[error("standard streams: {0}")]
    Stream(#[from] io::Error),
    /// Input is damaged.
    #[error("{0}")]
    Corrupt(String),
    /// The arguments do not make sense together.
    #[error("{0}")]
    Usage(String),
    /// A result is not the expected one.
    #[error("{0}")]
    Mismatch(String),
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Engine(EngineError::Store(error))
    }
}

impl Failure {
    pub(crate) fn file(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |error| Self::File { path, error }
    }

    /// The message for a person; none if the reader of standard output has gone away.
    pub(crate) fn message(&self) -> Option<String> {
        match self {
            Self::Stream(error) if error.kind() == io::ErrorKind::BrokenPipe => None,
            failure => Some(failure.to_string()),
        }
    }

    /// Whether a signal ended the command.
    pub(crate) fn is_stop(&self) -> bool {
        matches!(
            self,
            Self::Engine(EngineError::Stopped { .. }) | Self::Generate(GenerateError::Stopped { .. })
        )
    }

    /// The exit status.
    pub(crate) fn status(&self) -> u8 {
        match self {
            Self::Engine(error) => error.exit_status(),
            Self::Generate(GenerateError::Stopped { .. }) => 0,
            Self::Mismatch(_) => 1,
            Self::Usage(_)
            | Self::Generate(
                GenerateError::BlockWeight { .. }
                | GenerateError::TooManyBlocks { .. }
                | GenerateError::TooManyEmptyBlocks { .. }
                | GenerateError::Occupied { .. },
            ) => 2,
            Self::Generate(_) | Self::File { .. } | Self::Stream(_) | Self::Corrupt(_) => 3,
        }
    }
}
