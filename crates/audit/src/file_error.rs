//! Errors of the operating system, with the file that they are about.

use blockmill_blockfiles::FileError;
use std::io;
use std::path::Path;

/// The error of the system for a file.
pub(crate) fn file_error(path: &Path) -> impl Fn(io::Error) -> FileError + '_ {
    |error| FileError::Io {
        path: path.to_owned(),
        error,
    }
}
