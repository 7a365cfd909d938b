//! A file that gets its name when it is complete.

use crate::FileError;
use std::fs::File;
use std::path::{Path, PathBuf};

/// A file that is not complete yet. Until it is, it is called `NAME.incomplete`. Dropped before
/// that, it is removed.
///
/// ```
/// # use blockmill_blockfiles::NewFile;
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("table.csv");
/// let new = NewFile::begin(&path)?;
/// std::fs::write(new.temporary(), "height\n0\n")?;
/// assert!(!path.exists());
/// assert_eq!(new.complete()?, 9);
/// assert_eq!(std::fs::read(&path)?, b"height\n0\n");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct NewFile {
    path: PathBuf,
    temporary: PathBuf,
    is_complete: bool,
}

impl NewFile {
    /// Begins a file. It is the caller's to make, under its [temporary](Self::temporary) name.
    ///
    /// # Errors
    /// [`FileError::Exists`] if there is a file of this name.
    pub fn begin(path: &Path) -> Result<Self, FileError> {
        if std::fs::symlink_metadata(path).is_ok() {
            return Err(FileError::Exists { path: path.to_owned() });
        }
        let mut temporary = path.as_os_str().to_owned();
        temporary.push(".incomplete");
        Ok(Self {
            path: path.to_owned(),
            temporary: temporary.into(),
            is_complete: false,
        })
    }

    /// The name until it is complete.
    pub fn temporary(&self) -> &Path {
        &self.temporary
    }

    /// Makes the file durable, and gives it its name. Returns its length in bytes.
    ///
    /// # Errors
    /// [`FileError::Io`]. The file is removed then.
    pub fn complete(mut self) -> Result<u64, FileError> {
        let finish = || {
            let file = File::open(&self.temporary)?;
            file.sync_all()?;
            std::fs::rename(&self.temporary, &self.path)?;
            let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
            File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?;
            Ok(file.metadata()?.len())
        };
        let bytes = finish().map_err(FileError::io(&self.path))?;
        self.is_complete = true;
        Ok(bytes)
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.is_complete {
            // What is left says by its name that it is of no use, if it cannot be removed.
            let _ = std::fs::remove_file(&self.temporary);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_not_complete_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("table");
        let new = NewFile::begin(&path).unwrap();
        std::fs::write(new.temporary(), "half").unwrap();
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
        drop(new);
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_file_that_is_there_stays() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("table");
        std::fs::write(&path, "old").unwrap();
        let error = NewFile::begin(&path).unwrap_err();
        assert!(matches!(error, FileError::Exists { .. }), "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
    }
}
