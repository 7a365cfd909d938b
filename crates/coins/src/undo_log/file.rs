//! The file under the undo log.

use blockmill_blockfiles::disk::{Disk, DiskFile, Open};
use std::io;
use std::path::Path;

/// Opens the file at `path`, or makes it, durably as far as its name goes.
pub(super) fn open(disk: &dyn Disk, path: &Path) -> io::Result<Box<dyn DiskFile>> {
    let exists = path.exists();
    let file = disk.open(path, Open::Keep)?;
    if !exists {
        disk.sync_name(path)?;
    }
    Ok(file)
}
