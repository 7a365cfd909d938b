//! A folder for the files of a chain that is being written, inside of the chain's directory.
//!
//! The process that writes them holds a lock on the folder. What a killed process has left in it is
//! removed by the next one. A chain is whole once its manifest is in the folder; from then on its
//! files only move.

use crate::chain_spec::{GenerateError, Summary};
use crate::files::{MANIFEST, failed};
use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The folder's name.
pub(crate) const NAME: &str = "incomplete";

/// How often the folder is opened. Another process may remove it at the same moment.
const ATTEMPTS: u32 = 100;

/// The folder, for this process alone. It is removed at the end.
pub(crate) struct Unfinished {
    path: PathBuf,
    /// Locked.
    _folder: File,
}

impl Unfinished {
    /// Makes the folder in `out`, or takes over what a dead process has left.
    pub(crate) fn open(out: &Path) -> Result<Self, GenerateError> {
        let path = out.join(NAME);
        for _ in 0..ATTEMPTS {
            if let Some(folder) = open_locked(&path, out)? {
                let unfinished = Self { path, _folder: folder };
                unfinished.finish_earlier(out)?;
                unfinished.clear().map_err(failed(&unfinished.path))?;
                return Ok(unfinished);
            }
        }
        Err(GenerateError::InUse {
            directory: out.to_owned(),
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Moves the files of a whole chain to `out`, the manifest last.
    pub(crate) fn finish(&self, out: &Path) -> Result<(), GenerateError> {
        let entries = fs::read_dir(&self.path).and_then(Iterator::collect::<io::Result<Vec<_>>>);
        let mut names: Vec<OsString> = entries
            .map_err(failed(&self.path))?
            .into_iter()
            .map(|entry| entry.file_name())
            .collect();
        names.sort_by_key(|name| name == MANIFEST);
        for name in names {
            let to = out.join(&name);
            fs::rename(self.path.join(&name), &to).map_err(failed(&to))?;
        }
        Ok(())
    }

    /// Finishes the chain of a process that was killed while its files moved.
    fn finish_earlier(&self, out: &Path) -> Result<(), GenerateError> {
        let text = match fs::read(self.path.join(MANIFEST)) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            text => text.map_err(failed(&self.path))?,
        };
        match serde_json::from_slice::<Summary>(&text) {
            Ok(_) => self.finish(out),
            // The manifest was cut off, so nothing has moved.
            Err(_) => Ok(()),
        }
    }

    fn clear(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.path)? {
            fs::remove_file(entry?.path())?;
        }
        Ok(())
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // What cannot be removed says by its folder that it is of no use.
        let _ = self.clear().and_then(|()| fs::remove_dir(&self.path));
    }
}

/// Opens the folder and locks it. None if it was removed meanwhile.
fn open_locked(path: &Path, out: &Path) -> Result<Option<File>, GenerateError> {
    match fs::create_dir(path) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(failed(path)(error)),
        _ => {}
    }
    let folder = match File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        folder => folder.map_err(failed(path))?,
    };
    if let Err(TryLockError::WouldBlock) = folder.try_lock() {
        return Err(GenerateError::InUse {
            directory: out.to_owned(),
        });
    }
    let own = folder.metadata().map_err(failed(path))?;
    match fs::symlink_metadata(path) {
        Ok(named) => Ok(((named.dev(), named.ino()) == (own.dev(), own.ino())).then_some(folder)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed(path)(error)),
    }
}
