//! The file under the undo log.

use crate::embedded::sync_parent;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// What the undo log needs of a file; several threads call it at once. Tests put one that fails in its place. Calls
/// must return: who waits for a write waits as long as it takes.
pub trait LogFile: Send + Sync {
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

impl LogFile for File {
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

/// Opens the file at `path`, or makes it, durably as far as its name goes.
pub(super) fn open(path: &Path) -> io::Result<File> {
    let exists = path.exists();
    // Not in append mode: there, Linux ignores the places of writes.
    let file = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)?;
    if !exists {
        sync_parent(path)?;
    }
    Ok(file)
}
