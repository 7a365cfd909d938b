//! What the store in a directory says by itself: whether it is lost, and which chain it belongs to.

use crate::error::{OpenError, Remedy};
use crate::files::{COMMIT_FILE, HEADERS_FILE, STORE_FOLDER, UNDO_FILE};
use crate::meta::ChainId;
use blockmill_blockfiles::FileError;
use blockmill_coins::StoreError;
use blockmill_store_log::Lookup;
use std::io::ErrorKind;
use std::path::Path;

/// Whether a directory has a store.
pub fn has_store(directory: &Path) -> Result<bool, StoreError> {
    blockmill_store_log::is_there(&directory.join(STORE_FOLDER))
}

/// Whether the store of a directory, if it has one, is at no block. One that cannot be read may be.
pub(crate) fn has_no_coins(directory: &Path) -> bool {
    match has_store(directory) {
        Ok(false) => true,
        Ok(true) => Lookup::open(&directory.join(STORE_FOLDER), None).is_ok_and(|store| store.tip().is_none()),
        Err(_) => false,
    }
}

/// Whether a directory has a store. It is refused if its store is gone. The store is made, durably,
/// before anything is written to the log of connected blocks. So where there is such a log, or the
/// mark of a commit, there was a store. A new store would append to the log of another chain.
pub(crate) fn has_store_if_not_lost(directory: &Path) -> Result<bool, OpenError> {
    if has_store(directory)? {
        return Ok(true);
    }
    for name in [HEADERS_FILE, UNDO_FILE, COMMIT_FILE] {
        if length(&directory.join(name))? > 0 {
            let detail =
                format!("the log is gone, and the coins with it, while {name} is of a chain that was connected");
            let store = directory.join(STORE_FOLDER);
            return Err(OpenError::damaged(store, detail, Remedy::NewDirectory));
        }
    }
    Ok(false)
}

/// Bytes of a file; 0 where it is not there.
pub(crate) fn length(path: &Path) -> Result<u64, FileError> {
    match std::fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(0),
        found => Ok(found.map_err(FileError::io(path))?.len()),
    }
}

/// The chain that the store of a directory belongs to. None where there is no store.
pub(crate) fn network_of(directory: &Path) -> Result<Option<ChainId>, OpenError> {
    if !has_store(directory)? {
        return Ok(None);
    }
    let path = directory.join(STORE_FOLDER);
    let network = blockmill_store_log::network(&path)?;
    match ChainId::from_text(&network) {
        Some(chain_id) => Ok(Some(chain_id)),
        None => {
            let detail = format!("it belongs to {network:?}, which is no network");
            Err(OpenError::damaged(path, detail, Remedy::NewDirectory))
        }
    }
}
