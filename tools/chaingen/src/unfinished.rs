//! A folder for the files of a chain that is being written, inside of the chain's directory.
//!
//! The process that writes them holds a lock on the folder. A file in it says whose folder it is;
//! it comes before all others and goes after them. What a killed process has left is removed by the
//! next one. A folder without this file, or with others than those of a chain, is somebody else's,
//! and left alone. A chain is whole once its manifest is in the folder; from then on its files only
//! move, and none of them replaces another.

use crate::chain_spec::{GenerateError, Summary};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The manifest's name.
pub(crate) const MANIFEST: &str = "manifest.json";

/// The folder's name.
pub(crate) const NAME: &str = "incomplete";

/// The file that says whose folder it is.
const OWNER: &str = "generate.txt";

/// What stands in it.
const OWNER_TEXT: &str = "An unfinished chain of blockmill generate. The next one removes this folder.\n";

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
                check_own(&path)?;
                finish_earlier(&path, out)?;
                let unfinished = Self { path, _folder: folder };
                unfinished.clear_and_claim().map_err(failed(&unfinished.path))?;
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
        finish(&self.path, out)
    }

    fn clear_and_claim(&self) -> io::Result<()> {
        clear(&self.path)?;
        fs::write(self.path.join(OWNER), OWNER_TEXT)
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // What cannot be removed says by its folder that it is of no use. What somebody has put
        // there meanwhile stays, and with it the folder.
        let _ = clear(&self.path)
            .and_then(|()| fs::remove_file(self.path.join(OWNER)))
            .and_then(|()| fs::remove_dir(&self.path));
    }
}

pub(crate) fn failed(path: &Path) -> impl FnOnce(io::Error) -> GenerateError + use<> {
    let path = path.to_owned();
    move |source| GenerateError::Write { path, source }
}

/// Whether a file is called as a block file is.
pub(crate) fn is_block_file(name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    name.starts_with(b"blk") && name.ends_with(b".dat")
}

fn names(path: &Path) -> io::Result<Vec<OsString>> {
    fs::read_dir(path)?
        .map(|entry| entry.map(|entry| entry.file_name()))
        .collect()
}

fn is_of_chain(name: &OsStr) -> bool {
    name == MANIFEST || is_block_file(name)
}

/// Fails if the folder is not one of a dead process. One that is empty is nobody's.
fn check_own(path: &Path) -> Result<(), GenerateError> {
    let foreign = || GenerateError::Foreign {
        folder: path.to_owned(),
    };
    let names = names(path).map_err(failed(path))?;
    if names.is_empty() {
        return Ok(());
    }
    for name in &names {
        let is_file = fs::symlink_metadata(path.join(name)).map_err(failed(path))?.is_file();
        // A link is no file here: it could lead to somebody's data.
        if !is_file || name != OWNER && !is_of_chain(name) {
            return Err(foreign());
        }
    }
    let owner = path.join(OWNER);
    match fs::metadata(&owner) {
        // It is longer than the text if it is another one.
        Ok(found) if found.len() <= OWNER_TEXT.len() as u64 => {}
        Ok(_) => return Err(foreign()),
        Err(error) if error.kind() == ErrorKind::NotFound => return Err(foreign()),
        Err(error) => return Err(failed(&owner)(error)),
    }
    // A power cut may have taken its end, or all of it.
    match OWNER_TEXT
        .as_bytes()
        .starts_with(&fs::read(&owner).map_err(failed(&owner))?)
    {
        true => Ok(()),
        false => Err(foreign()),
    }
}

fn finish(path: &Path, out: &Path) -> Result<(), GenerateError> {
    let mut names = names(path).map_err(failed(path))?;
    names.retain(|name| is_of_chain(name));
    // The manifest moves last: a folder with it is whole.
    names.sort_by_key(|name| name == MANIFEST);
    for name in &names {
        let to = out.join(name);
        match fs::symlink_metadata(&to) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(failed(&to)(error)),
            Ok(_) => return Err(GenerateError::Occupied { file: to }),
        }
    }
    for name in names {
        let to = out.join(&name);
        fs::rename(path.join(&name), &to).map_err(failed(&to))?;
    }
    Ok(())
}

/// Finishes the chain of a process that was killed while its files moved.
fn finish_earlier(path: &Path, out: &Path) -> Result<(), GenerateError> {
    let text = match fs::read(path.join(MANIFEST)) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        text => text.map_err(failed(path))?,
    };
    match serde_json::from_slice::<Summary>(&text) {
        Ok(_) => finish(path, out),
        // The manifest was cut off, so nothing has moved.
        Err(_) => Ok(()),
    }
}

/// Removes the files of a chain.
fn clear(path: &Path) -> io::Result<()> {
    for name in names(path)?.iter().filter(|name| is_of_chain(name)) {
        fs::remove_file(path.join(name))?;
    }
    Ok(())
}

/// Opens the folder and locks it. None if it was removed meanwhile.
fn open_locked(path: &Path, out: &Path) -> Result<Option<File>, GenerateError> {
    match fs::create_dir(path) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(failed(path)(error)),
        // To open a pipe would wait for its writer.
        Err(_) if fs::symlink_metadata(path).is_ok_and(|found| !found.is_dir()) => {
            return Err(GenerateError::Foreign {
                folder: path.to_owned(),
            });
        }
        _ => {}
    }
    let folder = match File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        folder => folder.map_err(failed(path))?,
    };
    // Some file systems have no locks: there two writers meet at the names of files.
    if let Err(TryLockError::WouldBlock) = folder.try_lock() {
        return Err(GenerateError::InUse {
            directory: out.to_owned(),
        });
    }
    // The folder that is locked may not be the one that has the name now.
    let own = folder.metadata().map_err(failed(path))?;
    match fs::symlink_metadata(path) {
        Ok(named) => Ok(((named.dev(), named.ino()) == (own.dev(), own.ino())).then_some(folder)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed(path)(error)),
    }
}
