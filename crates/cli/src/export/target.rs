//! Where a table is written: a file that gets its name when it is complete, or standard output.

use crate::failure::Failure;
use blockmill_blockfiles::NewFile;
use std::fs::File;
use std::io::{self, Stdout, Write};
use std::path::Path;

/// The name of standard output on the command line.
const STDOUT: &str = "-";

/// What a table is written to from its beginning to its end.
pub(crate) enum Target {
    File { new: NewFile, file: File },
    Stdout(Stdout),
}

impl Target {
    /// Opens the target of this name.
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        if is_stdout(path) {
            return Ok(Self::Stdout(io::stdout()));
        }
        let new = NewFile::begin(path)?;
        let file = File::create(new.temporary()).map_err(Failure::file(path))?;
        Ok(Self::File { new, file })
    }

    /// Ends it. Returns the length of the file, where there is one.
    pub(crate) fn complete(self) -> Result<Option<u64>, Failure> {
        match self {
            Self::File { new, file } => {
                drop(file);
                Ok(Some(new.complete()?))
            }
            Self::Stdout(mut stdout) => {
                stdout.flush()?;
                Ok(None)
            }
        }
    }
}

impl Write for Target {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::File { file, .. } => file.write(bytes),
            Self::Stdout(stdout) => stdout.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::File { file, .. } => file.flush(),
            Self::Stdout(stdout) => stdout.flush(),
        }
    }
}

/// Whether a name stands for standard output.
pub(crate) fn is_stdout(path: &Path) -> bool {
    path == Path::new(STDOUT)
}
