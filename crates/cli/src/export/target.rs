//! Where a table is written: a file that gets its name when it is complete, or standard output.

use crate::failure::Failure;
use std::fs::File;
use std::io::{self, Stdout, Write};
use std::path::{Path, PathBuf};

/// The name of standard output on the command line.
const STDOUT: &str = "-";

/// A file that is not complete yet. Dropped before that, it is removed.
pub(crate) struct NewFile {
    path: PathBuf,
    temporary: PathBuf,
    complete: bool,
}

impl NewFile {
    /// Begins a file, of whose name there must be none yet.
    pub(crate) fn begin(path: &Path) -> Result<Self, Failure> {
        if std::fs::symlink_metadata(path).is_ok() {
            return Err(Failure::Usage(format!(
                "{}: there is a file of this name already",
                path.display()
            )));
        }
        let mut temporary = path.as_os_str().to_owned();
        temporary.push(".incomplete");
        Ok(Self {
            path: path.to_owned(),
            temporary: temporary.into(),
            complete: false,
        })
    }

    /// The name until it is complete.
    pub(crate) fn temporary(&self) -> &Path {
        &self.temporary
    }

    /// Makes the file durable, and gives it its name.
    pub(crate) fn complete(mut self) -> Result<u64, Failure> {
        let finish = || {
            let file = File::open(&self.temporary)?;
            file.sync_all()?;
            std::fs::rename(&self.temporary, &self.path)?;
            let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
            File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?;
            Ok(file.metadata()?.len())
        };
        let bytes = finish().map_err(Failure::file(&self.path))?;
        self.complete = true;
        Ok(bytes)
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.complete {
            // What is left says by its name that it is of no use, if it cannot be removed.
            let _ = std::fs::remove_file(&self.temporary);
        }
    }
}

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
                new.complete().map(Some)
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
