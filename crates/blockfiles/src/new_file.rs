//! A file that gets its name when it is complete.
//!
//! Until then it is called `NAME.incomplete`, and the process that writes it holds a lock on it,
//! which the system releases when the process ends. So a second writer can tell a file in writing,
//! and is refused, from one that a killed process left, and removes it. It does not truncate that
//! one: the file may have another name, too.

use crate::FileError;
use crate::disk::{Disk, SystemDisk};
use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions, TryLockError, symlink_metadata};
use std::io::{self, ErrorKind, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use tempfile::TempPath;

/// What the name of an unfinished file ends with.
const ENDING: &str = "incomplete";

/// Permissions of a usual file, before the process's mask.
const MODE: u32 = 0o666;

/// Permissions of a file that its owner alone can read.
const PRIVATE_MODE: u32 = 0o600;

/// How often the temporary name is tried. Another try is due only where another process creates and
/// removes it at the same moment.
const ATTEMPTS: u32 = 100;

/// A file that is not complete yet. Dropped before that, it is removed.
///
/// ```
/// # use blockmill_blockfiles::NewFile;
/// # use std::io::Write;
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("table.csv");
/// let mut new = NewFile::begin(&path)?;
/// new.write_all(b"height\n0\n")?;
/// assert!(!path.exists());
/// assert_eq!(new.complete()?, 9);
/// assert_eq!(std::fs::read(&path)?, b"height\n0\n");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct NewFile {
    path: PathBuf,
    /// Removed when it is dropped, while the lock is still held.
    temporary: TempPath,
    /// Locked.
    file: File,
    replaces: bool,
}

impl NewFile {
    /// Begins a file.
    ///
    /// # Errors
    /// [`FileError::Exists`] if there is a file of this name, [`FileError::InUse`] if another
    /// process is writing it, [`FileError::Reserved`], or [`FileError::Io`].
    pub fn begin(path: &Path) -> Result<Self, FileError> {
        Self::open(path, "", path.file_name(), MODE, false)
    }

    /// As [`begin`](Self::begin), for a file that its owner alone can read.
    ///
    /// # Errors
    /// As [`begin`](Self::begin).
    pub fn begin_private(path: &Path) -> Result<Self, FileError> {
        Self::open(path, "", path.file_name(), PRIVATE_MODE, false)
    }

    /// As [`begin`](Self::begin), and a file of this name is replaced once this one is complete.
    /// What is no file, such as a folder or a pipe, is not replaced.
    ///
    /// # Errors
    /// As [`begin`](Self::begin).
    pub fn replacing(path: &Path) -> Result<Self, FileError> {
        Self::open(path, "", path.file_name(), MODE, true)
    }

    /// As [`begin`](Self::begin), or [`replacing`](Self::replacing), for a file of a directory that
    /// programs read as a whole: until `NAME.csv` is complete, it is called `_NAME.incomplete`,
    /// which they skip.
    ///
    /// # Errors
    /// As [`begin`](Self::begin).
    pub fn hidden(path: &Path, replaces: bool) -> Result<Self, FileError> {
        Self::open(path, "_", path.file_stem(), MODE, replaces)
    }

    fn open(path: &Path, prefix: &str, name: Option<&OsStr>, mode: u32, replaces: bool) -> Result<Self, FileError> {
        if path.extension().is_some_and(|ending| ending == ENDING) {
            return Err(FileError::Reserved { path: path.to_owned() });
        }
        check_free(path, replaces)?;
        let mut temporary = OsString::from(prefix);
        temporary.push(name.unwrap_or_default());
        temporary.push(".");
        temporary.push(ENDING);
        // Absolute, so that it is found again whatever the working directory is then.
        let temporary = std::path::absolute(path.with_file_name(temporary)).map_err(FileError::io(path))?;
        Ok(Self {
            path: path.to_owned(),
            file: claim(path, &temporary, mode)?,
            temporary: TempPath::try_from_path(temporary).map_err(FileError::io(path))?,
            replaces,
        })
    }

    /// The name that it gets.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The name until it is complete.
    pub fn temporary(&self) -> &Path {
        &self.temporary
    }

    /// Its length in bytes so far.
    ///
    /// # Errors
    /// [`FileError::Io`].
    pub fn length(&self) -> Result<u64, FileError> {
        let found = self.file.metadata().map_err(FileError::io(&self.path))?;
        Ok(found.len())
    }

    /// Makes the file durable, and gives it its name. Returns its length in bytes.
    ///
    /// # Errors
    /// [`FileError::Exists`] if another process has made a file of this name meanwhile, or
    /// [`FileError::Io`]. The file is removed then.
    pub fn complete(self) -> Result<u64, FileError> {
        let Self {
            path,
            temporary,
            file,
            replaces,
        } = self;
        // A power loss must not leave a complete name on half a file.
        file.sync_all().map_err(FileError::io(&path))?;
        check_free(&path, replaces)?;
        give_name(temporary, &path, replaces)?;
        SystemDisk.sync_name(&path).map_err(FileError::io(&path))?;
        Ok(file.metadata().map_err(FileError::io(&path))?.len())
    }
}

/// Renames the file. `rename` would replace a file that was created meanwhile: `renameat2` with
/// `RENAME_NOREPLACE`, or else a hard link, fails instead.
fn give_name(mut temporary: TempPath, path: &Path, replaces: bool) -> Result<(), FileError> {
    if !replaces {
        match temporary.persist_noclobber(path) {
            Ok(()) => return Ok(()),
            Err(refused) if refused.error.kind() == ErrorKind::AlreadyExists => {
                return Err(FileError::Exists { path: path.to_owned() });
            }
            // The file system has neither; the name was free just before.
            Err(refused) => temporary = refused.path,
        }
    }
    let named = temporary.persist(path);
    named.map_err(|refused| FileError::io(path)(refused.error))
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Seek for NewFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}

/// Whether the name may be taken.
fn check_free(path: &Path, replaces: bool) -> Result<(), FileError> {
    match symlink_metadata(path) {
        Ok(found) if replaces && found.is_file() => Ok(()),
        Ok(_) => Err(FileError::Exists { path: path.to_owned() }),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(FileError::io(path)(error)),
    }
}

/// Creates the file under its temporary name, locked, once what a killed process left is removed.
fn claim(path: &Path, temporary: &Path, mode: u32) -> Result<File, FileError> {
    let taken = || FileError::Exists {
        path: temporary.to_owned(),
    };
    for _ in 0..ATTEMPTS {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true).mode(mode);
        let created = options.open(temporary);
        let is_new = created.is_ok();
        let opened = match created {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => match symlink_metadata(temporary) {
                // A link leads to a file of the user, and to open a pipe would wait for its writer.
                Ok(found) if !found.is_file() => return Err(taken()),
                found => found.and_then(|_| File::open(temporary)),
            },
            Err(error) => return Err(FileError::io(path)(error)),
            created => created,
        };
        let file = match opened {
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            opened => opened.map_err(FileError::io(temporary))?,
        };
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => return Err(FileError::InUse { path: path.to_owned() }),
            // The file system has no locks: a living process may have the name.
            Err(TryLockError::Error(_)) if !is_new => return Err(taken()),
            Ok(()) | Err(TryLockError::Error(_)) => {}
        }
        // Between the two another process may have removed the name.
        match is_named(&file, temporary).map_err(FileError::io(temporary))? {
            true if is_new => return Ok(file),
            true => std::fs::remove_file(temporary).map_err(FileError::io(temporary))?,
            false => {}
        }
    }
    Err(FileError::InUse { path: path.to_owned() })
}

/// Whether the file is the one of this name.
fn is_named(file: &File, path: &Path) -> io::Result<bool> {
    let own = file.metadata()?;
    match symlink_metadata(path) {
        Ok(named) => Ok((named.dev(), named.ino()) == (own.dev(), own.ino())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    fn names(directory: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(directory).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_that_is_not_complete_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("table");
        let mut new = NewFile::begin(&path).unwrap();
        new.write_all(b"half").unwrap();
        assert_eq!(names(directory.path()), ["table.incomplete"]);
        drop(new);
        assert_eq!(names(directory.path()), [""; 0]);
    }

    #[test]
    fn a_file_that_is_there_stays() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("table");
        std::fs::write(&path, "old").unwrap();
        let error = NewFile::begin(&path).unwrap_err();
        assert!(matches!(error, FileError::Exists { .. }), "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        std::fs::remove_file(&path).unwrap();
        // Also one that is made meanwhile.
        let mut new = NewFile::begin(&path).unwrap();
        new.write_all(b"new").unwrap();
        std::fs::write(&path, "old").unwrap();
        let error = new.complete().unwrap_err();
        assert!(matches!(error, FileError::Exists { .. }), "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        assert_eq!(names(directory.path()), ["table"]);
    }

    #[test]
    fn a_file_is_replaced_where_that_is_asked_for() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("table");
        for content in ["old", "new"] {
            let mut new = NewFile::replacing(&path).unwrap();
            new.write_all(content.as_bytes()).unwrap();
            new.complete().unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), content);
        }
        // What fails leaves the old one.
        drop(NewFile::replacing(&path).unwrap());
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
        let folder = directory.path().join("folder");
        std::fs::create_dir(&folder).unwrap();
        let link = directory.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        for kept in [&folder, &link, Path::new("/dev/null")] {
            let error = NewFile::replacing(kept).unwrap_err();
            assert!(matches!(error, FileError::Exists { .. }), "{error}");
        }
        assert_eq!(names(directory.path()), ["folder", "link", "table"]);
    }

    /// It would be removed as what a dead process has left.
    #[test]
    fn a_whole_file_has_no_name_of_an_unfinished_one() {
        let directory = tempfile::tempdir().unwrap();
        let error = NewFile::begin(&directory.path().join("table.incomplete")).unwrap_err();
        assert!(matches!(error, FileError::Reserved { .. }), "{error}");
        assert_eq!(names(directory.path()), [""; 0]);
    }

    #[test]
    fn a_second_writer_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("table");
        let mut new = NewFile::begin(&path).unwrap();
        new.write_all(b"first").unwrap();
        for second in [NewFile::begin(&path), NewFile::replacing(&path)] {
            let error = second.unwrap_err();
            assert!(matches!(error, FileError::InUse { .. }), "{error}");
        }
        new.complete().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"first");
        assert_eq!(names(directory.path()), ["table"]);
    }

    #[test]
    fn what_a_dead_process_has_left_is_removed_and_not_written_to() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("table");
        let left = directory.path().join("table.incomplete");
        std::fs::write(&left, "left by a dead process").unwrap();
        // The same file under another name, as a kill between two steps leaves it.
        let other = directory.path().join("other");
        std::fs::hard_link(&left, &other).unwrap();
        let mut new = NewFile::begin(&path).unwrap();
        new.write_all(b"new").unwrap();
        new.complete().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
        assert_eq!(std::fs::read(&other).unwrap(), b"left by a dead process");
        assert_eq!(names(directory.path()), ["other", "table"]);
        // What no process of ours leaves is refused.
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(&other, &left).unwrap();
        let error = NewFile::begin(&path).unwrap_err();
        assert!(matches!(error, FileError::Exists { path } if path == left));
        assert_eq!(std::fs::read(&other).unwrap(), b"left by a dead process");
    }

    #[test]
    fn a_private_file_is_its_owners_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key");
        let new = NewFile::begin_private(&path).unwrap();
        assert_eq!(std::fs::metadata(new.temporary()).unwrap().mode() & 0o777, 0o600);
        new.complete().unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    }

    /// Of several that begin at once, over what a dead one has left, those that get to the end have
    /// written whole files.
    #[test]
    fn writers_at_the_same_time_leave_a_whole_file() {
        const WRITERS: usize = 4;
        for round in 0..200 {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("table");
            if round % 2 == 0 {
                std::fs::write(directory.path().join("table.incomplete"), "left").unwrap();
            }
            let start = Barrier::new(WRITERS);
            let write = |number: usize| {
                start.wait();
                let mut new = match round % 3 {
                    0 => NewFile::replacing(&path)?,
                    _ => NewFile::begin(&path)?,
                };
                for _ in 0..10 {
                    new.write_all(&[number as u8; 100]).unwrap();
                }
                new.complete()
            };
            let done = std::thread::scope(|scope| {
                let writers: Vec<_> = (0..WRITERS).map(|number| scope.spawn(move || write(number))).collect();
                let ends = writers.into_iter().map(|writer| writer.join().unwrap());
                ends.filter(|end| match end {
                    Ok(length) => *length == 1000,
                    Err(FileError::InUse { .. } | FileError::Exists { .. }) => false,
                    Err(error) => panic!("{error}"),
                })
                .count()
            });
            assert!(done > 0, "round {round}");
            assert!(done == 1 || round % 3 == 0, "round {round}: {done} writers");
            let bytes = std::fs::read(&path).unwrap();
            assert!(
                bytes.len() == 1000 && bytes.iter().all(|byte| *byte == bytes[0]),
                "round {round}"
            );
            assert_eq!(names(directory.path()), ["table"], "round {round}");
        }
    }
}
