//! The file of the embedded store in a data directory: telling one that was lost from one that was
//! never made, and opening it.

use crate::datadir::{ChainId, DataDir, file_error};
use crate::error::EngineError;
use blockmill_coins::{CoinStore, MemoryStore};
use blockmill_store_redb::{RedbStore, is_there};
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

/// Name of the file of the embedded store.
pub(crate) const STORE_FILE: &str = "coins.redb";

/// Name of the file that a snapshot is loaded into.
pub(crate) const LOADING_FILE: &str = "coins.redb.loading";

/// Memory for pages of the store while only what it belongs to is read, in bytes.
const MARKS_CACHE: usize = 1 << 20;

/// What to do with a directory whose coins cannot be had back.
pub(crate) const NEW_DIRECTORY: &str = "connect into a new data directory";

/// Refuses a directory whose store is gone. The store is made, durably, before anything is written
/// to the log of connected blocks: so where there is a log there was a store, and to begin with
/// another would append to the log of what was connected.
pub(crate) fn check_not_lost(directory: &Path) -> Result<(), EngineError> {
    let store = directory.join(STORE_FILE);
    if is_there(&store)? {
        return Ok(());
    }
    for name in ["headers.dat", "undo.dat"] {
        let path = directory.join(name);
        let length = match std::fs::metadata(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => 0,
            found => found.map_err(file_error(&path))?.len(),
        };
        if length > 0 {
            return Err(EngineError::Damaged {
                path: store,
                detail: format!(
                    "the file is gone, and the coins with it, while {name} is of a chain that was connected; {NEW_DIRECTORY}"
                ),
            });
        }
    }
    Ok(())
}

/// What the store of a directory says that it belongs to; none where there is no store.
pub(crate) fn network_of(directory: &Path) -> Result<Option<ChainId>, EngineError> {
    let path = directory.join(STORE_FILE);
    if !is_there(&path)? {
        return Ok(None);
    }
    let store = RedbStore::open_to_read(&path, None, MARKS_CACHE)?;
    match ChainId::from_text(store.network()) {
        Some(chain_id) => Ok(Some(chain_id)),
        None => Err(EngineError::Damaged {
            path,
            detail: format!(
                "it belongs to {:?}, which is no network; {NEW_DIRECTORY}",
                store.network()
            ),
        }),
    }
}

/// Opens the embedded store of a data directory, or makes it, with `cache_bytes` of memory for its
/// pages.
///
/// # Errors
/// [`EngineError::Damaged`] where it is lost, else [`EngineError::Store`].
pub fn open_store(directory: &DataDir, cache_bytes: usize) -> Result<Arc<dyn CoinStore>, EngineError> {
    check_not_lost(directory.path())?;
    remove_unfinished(directory)?;
    let path = directory.file(STORE_FILE);
    let store = RedbStore::open_on(&**directory.disk(), &path, &directory.chain_id().text(), cache_bytes)?;
    Ok(Arc::new(store))
}

/// Removes what a load of a snapshot has left that was cut off. Nobody else loads one: the
/// directory is locked.
fn remove_unfinished(directory: &DataDir) -> Result<(), EngineError> {
    let path = directory.file(LOADING_FILE);
    if std::fs::symlink_metadata(&path).is_ok() {
        directory.disk().remove(&path).map_err(file_error(&path))?;
    }
    Ok(())
}

/// Opens the embedded store of a data directory to read it: no file is changed. Where there is none
/// yet it is an empty one in memory.
///
/// # Errors
/// As for [`open_store`].
pub fn read_store(directory: &DataDir, cache_bytes: usize) -> Result<Arc<dyn CoinStore>, EngineError> {
    check_not_lost(directory.path())?;
    let path = directory.file(STORE_FILE);
    if !is_there(&path)? {
        return Ok(Arc::new(MemoryStore::default()));
    }
    let store = RedbStore::open_to_read(&path, Some(&directory.chain_id().text()), cache_bytes)?;
    Ok(Arc::new(store))
}
