//! The calls of the file system that change files, as a trait. Tests implement the trait with a
//! disk that fails, fills up, or forgets all writes that were not synced.
//!
//! Names need a sync of their own. After a power cut, a created, renamed or removed file is certain
//! to be so only if its directory was synced.

use rustix::io::Errno;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// An open file. Several threads may call it at once. Calls must return: a caller that waits for a
/// write has no timeout.
pub trait DiskFile: Send + Sync {
    /// Length in bytes.
    ///
    /// # Errors
    /// The operating system's error.
    fn length(&self) -> io::Result<u64>;

    /// Cuts or extends the file to a length in bytes.
    ///
    /// # Errors
    /// The operating system's error.
    fn set_length(&self, length: u64) -> io::Result<()>;

    /// Fills `bytes` from the file, from `offset` on.
    ///
    /// # Errors
    /// The operating system's error; [`io::ErrorKind::UnexpectedEof`] if the file is too short.
    fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()>;

    /// Writes `bytes` at `offset`. Bytes between the end of the file and `offset` become zero.
    ///
    /// # Errors
    /// The operating system's error; any part of `bytes` may have been written then.
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Makes all writes durable that have returned, and the length of the file.
    ///
    /// # Errors
    /// The operating system's error; no write is known to be durable then, not even after a later
    /// success.
    fn sync_data(&self) -> io::Result<()>;
}

impl fmt::Debug for dyn DiskFile {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("DiskFile")
    }
}

impl DiskFile for File {
    fn length(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        self.set_len(length)
    }

    fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        FileExt::read_exact_at(self, bytes, offset)
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        FileExt::write_all_at(self, bytes, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        File::sync_data(self)
    }
}

/// How a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Open {
    /// The file is created if it is missing. Its content stays.
    Keep,
    /// The file is created or emptied.
    Empty,
    /// The file is created. An existing file is an error.
    New,
}

/// A file system.
pub trait Disk: Send + Sync + fmt::Debug {
    /// Whether this is the file system of the operating system. A database may open and lock its
    /// file by itself then.
    fn is_system(&self) -> bool {
        false
    }

    /// Opens a file for reading and writing. The name of a new file is not durable yet.
    ///
    /// # Errors
    /// The operating system's error.
    fn open(&self, path: &Path, how: Open) -> io::Result<Box<dyn DiskFile>>;

    /// Renames a file, and replaces any file at `to`. The new name is not durable yet.
    ///
    /// # Errors
    /// The operating system's error.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file. The removal is not durable yet.
    ///
    /// # Errors
    /// The operating system's error.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Creates a directory and its parents. Their names are not durable yet.
    ///
    /// # Errors
    /// The operating system's error.
    fn create_directories(&self, path: &Path) -> io::Result<()>;

    /// Makes the names in a directory durable, as [`sync_directory`] does.
    ///
    /// # Errors
    /// The operating system's error.
    fn sync_directory(&self, path: &Path) -> io::Result<()>;

    /// Makes the name of a file, or its removal, durable.
    ///
    /// # Errors
    /// The operating system's error.
    fn sync_name(&self, path: &Path) -> io::Result<()> {
        match path.parent() {
            // A bare name lies in the current directory.
            Some(parent) if parent.as_os_str().is_empty() => self.sync_directory(Path::new(".")),
            Some(parent) => self.sync_directory(parent),
            // The root has no name.
            None => Ok(()),
        }
    }

    /// Replaces the content of a file, durably. After a power cut the file has its old content or
    /// the new one. The new content is written to a file whose name ends in `.new`.
    ///
    /// # Errors
    /// The operating system's error.
    fn replace(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        let mut new = path.as_os_str().to_owned();
        new.push(".new");
        let new = Path::new(&new);
        let file = self.open(new, Open::Empty)?;
        file.write_all_at(content, 0)?;
        // Before the rename: a power cut must not leave the name with an empty file.
        file.sync_data()?;
        self.rename(new, path)?;
        self.sync_name(path)
    }
}

/// The file system of the operating system.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemDisk;

impl Disk for SystemDisk {
    fn is_system(&self) -> bool {
        true
    }

    fn open(&self, path: &Path, how: Open) -> io::Result<Box<dyn DiskFile>> {
        // Not in append mode: Linux ignores the offsets of writes there.
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        match how {
            Open::Keep => options.create(true),
            Open::Empty => options.create(true).truncate(true),
            Open::New => options.create_new(true),
        };
        Ok(Box::new(options.open(path)?))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn create_directories(&self, path: &Path) -> io::Result<()> {
        std::fs::create_dir_all(path)
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        sync_directory(path)
    }
}

/// Errors of a directory that cannot be synced at all, or not be opened for it. All other errors, EIO
/// above all, may mean that a name is lost.
const NO_DIRECTORY_SYNC: [Errno; 6] = [
    Errno::INVAL,
    Errno::NOTSUP,
    Errno::NOSYS,
    Errno::BADF,
    Errno::ISDIR,
    Errno::ACCESS,
];

/// Makes the names in a directory durable, as far as its file system can: network drives and shared
/// folders of virtual machines often have no fsync of directories, and a directory may be writable
/// but not readable. As in Core's `DirectoryCommit`, that is not an error, since no caller could do
/// more about it.
///
/// # Errors
/// The operating system's error.
pub fn sync_directory(path: &Path) -> io::Result<()> {
    let synced = File::open(path).and_then(|directory| directory.sync_all());
    synced.or_else(|error| match Errno::from_io_error(&error) {
        Some(errno) if NO_DIRECTORY_SYNC.contains(&errno) => Ok(()),
        _ => Err(error),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_opened_as_asked() {
        let directory = tempfile::tempdir().unwrap();
        let folder = directory.path().join("a/b");
        let disk = SystemDisk;
        disk.create_directories(&folder).unwrap();
        let path = folder.join("file");
        let file = disk.open(&path, Open::New).unwrap();
        file.write_all_at(b"abc", 2).unwrap();
        file.sync_data().unwrap();
        disk.sync_name(&path).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"\0\0abc");
        let kept = disk.open(&path, Open::Keep).unwrap();
        assert_eq!(kept.length().unwrap(), 5);
        let mut bytes = [0; 2];
        kept.read_exact_at(&mut bytes, 3).unwrap();
        assert_eq!(&bytes, b"bc");
        assert_eq!(
            kept.read_exact_at(&mut bytes, 4).unwrap_err().kind(),
            io::ErrorKind::UnexpectedEof
        );
        assert!(disk.open(&path, Open::New).is_err());
        assert_eq!(disk.open(&path, Open::Empty).unwrap().length().unwrap(), 0);
        kept.set_length(7).unwrap();
        let other = folder.join("other");
        disk.rename(&path, &other).unwrap();
        assert_eq!(std::fs::metadata(&other).unwrap().len(), 7);
        disk.remove(&other).unwrap();
        assert!(!other.exists() && !path.exists());
    }

    /// procfs and sysfs answer EINVAL to fsync of a directory, as SMB does.
    #[cfg(target_os = "linux")]
    #[test]
    fn directory_without_fsync_is_accepted() {
        for path in ["/proc", "/sys"] {
            let error = File::open(path).and_then(|directory| directory.sync_all());
            assert_eq!(error.unwrap_err().kind(), io::ErrorKind::InvalidInput);
            SystemDisk.sync_directory(Path::new(path)).unwrap();
            SystemDisk.sync_name(&Path::new(path).join("name")).unwrap();
        }
        let missing = sync_directory(Path::new("/proc/missing"));
        assert_eq!(missing.unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
