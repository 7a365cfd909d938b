//! What the store in a directory says by itself: whether it is lost, and which chain it belongs to.

use crate::datadir::error::{OpenError, Remedy, file_error};
use crate::datadir::files::{HEADERS_FILE, STORE_FILE, UNDO_FILE};
use crate::datadir::meta::ChainId;
use blockmill_store_redb::{RedbStore, is_there};
use std::io::ErrorKind;
use std::path::Path;

/// Bytes of memory for pages of the store while only its network is read.
const NETWORK_CACHE: usize = 1 << 20;

/// Refuses a directory whose store is gone. The store is made, durably, before anything is written
/// to the log of connected blocks. So where there is a log, there was a store. A new store would
/// append to the log of another chain.
pub(crate) fn check_not_lost(directory: &Path) -> Result<(), OpenError> {
    let store = directory.join(STORE_FILE);
    if is_there(&store)? {
        return Ok(());
    }
    for name in [HEADERS_FILE, UNDO_FILE] {
        let path = directory.join(name);
        let length = match std::fs::metadata(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => 0,
            found => found.map_err(file_error(&path))?.len(),
        };
        if length > 0 {
            return Err(OpenError::Damaged {
                path: store,
                detail: format!(
                    "the file is gone, and the coins with it, while {name} is of a chain that was connected"
                ),
                remedy: Some(Remedy::NewDirectory),
            });
        }
    }
    Ok(())
}

/// The chain that the store of a directory belongs to. None where there is no store.
pub(crate) fn network_of(directory: &Path) -> Result<Option<ChainId>, OpenError> {
    let path = directory.join(STORE_FILE);
    if !is_there(&path)? {
        return Ok(None);
    }
    let store = RedbStore::open_to_read(&path, None, NETWORK_CACHE)?;
    match ChainId::from_text(store.network()) {
        Some(chain_id) => Ok(Some(chain_id)),
        None => Err(OpenError::Damaged {
            path,
            detail: format!("it belongs to {:?}, which is no network", store.network()),
            remedy: Some(Remedy::NewDirectory),
        }),
    }
}
