//! The calls of the file system that change something, behind a trait: so that tests can put a disk in its place that fails, fills up, or
//! forgets what was not synced.
//!
//! Names count as files do: a file that was made, renamed or removed is so after a power cut only when its directory was synced.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// An open file. Several threads may call it at once. Calls must return: who waits for a write waits as long as it takes.
pub trait DiskFile: Send + Sync {
    /// Length in bytes.
    ///
    /// # Errors
    /// What the operating system says.
    fn length(&self) -> io::Result<u64>;

    /// Cuts or extends the file to a length in bytes.
    ///
    /// # Errors
    /// What the operating system says.
    fn set_length(&self, length: u64) -> io::Result<()>;

    /// Fills `bytes` from the file, from a place in bytes on.
    ///
    /// # Errors
    /// What the operating system says; [`io::ErrorKind::UnexpectedEof`] if the file ends before.
    fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()>;

    /// Writes `bytes` to a place in bytes. What lies between it and the end of the file is zero.
    ///
    /// # Errors
    /// What the operating system says; anything may have been written then.
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Makes all writes durable that have returned, and the length with them.
    ///
    /// # Errors
    /// What the operating system says; nothing is known to be durable then, not even after a later success.
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

/// What a file is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Open {
    /// It is made if it is not there; what it has stays.
    Keep,
    /// It is made, or emptied.
    Empty,
    /// It is made; an error if it is there.
    New,
}

/// A file system.
pub trait Disk: Send + Sync + fmt::Debug {
    /// Whether this is the system's own, so that a database may open its file by itself, and lock it.
    fn is_system(&self) -> bool {
        false
    }

    /// Opens a file for reading and writing. That it was made is not durable yet.
    ///
    /// # Errors
    /// What the operating system says.
    fn open(&self, path: &Path, how: Open) -> io::Result<Box<dyn DiskFile>>;

    /// Gives a file another name, in place of any file of that name. Not durable yet.
    ///
    /// # Errors
    /// What the operating system says.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file. Not durable yet.
    ///
    /// # Errors
    /// What the operating system says.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Makes a directory, and those that it lies in. Not durable yet.
    ///
    /// # Errors
    /// What the operating system says.
    fn create_directories(&self, path: &Path) -> io::Result<()>;

    /// Makes durable what files a directory has.
    ///
    /// # Errors
    /// What the operating system says.
    fn sync_directory(&self, path: &Path) -> io::Result<()>;

    /// Makes the name of a file, or that it is gone, durable.
    ///
    /// # Errors
    /// What the operating system says.
    fn sync_name(&self, path: &Path) -> io::Result<()> {
        match path.parent() {
            Some(parent) if parent.as_os_str().is_empty() => self.sync_directory(Path::new(".")),
            Some(parent) => self.sync_directory(parent),
            None => Ok(()),
        }
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
        // Not in append mode: there, Linux ignores the places of writes.
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
        File::open(path)?.sync_all()
    }
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
}
