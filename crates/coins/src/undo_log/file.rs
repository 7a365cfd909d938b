//! The file of the undo log.

use blockmill_blockfiles::disk::{Disk, DiskFile, Open};
use std::io;
use std::path::Path;

/// Opens the file at `path`. A new file's name is durable when the call returns.
pub(super) fn open(disk: &dyn Disk, path: &Path) -> io::Result<Box<dyn DiskFile>> {
    // Asked first, since opening the file makes it.
    let exists = path.exists();
    let file = disk.open(path, Open::Keep)?;
    if !exists {
        disk.sync_name(path)?;
    }
    Ok(file)
}
