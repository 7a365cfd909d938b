//! The embedded store of a data directory is opened here.

use crate::datadir::DataDir;
use crate::datadir::error::{OpenError, file_error};
use crate::datadir::files::{LOADING_FILE, STORE_FILE};
use crate::datadir::lost_store::check_not_lost;
use blockmill_coins::{CoinStore, MemoryStore};
use blockmill_store_redb::{RedbStore, is_there};
use std::sync::Arc;

/// Opens the embedded store of a data directory, or makes it, with `cache_bytes` of memory for its
/// pages.
///
/// # Errors
/// [`OpenError::Damaged`] where it is lost, else [`OpenError::Store`].
pub fn open_store(directory: &DataDir, cache_bytes: usize) -> Result<Arc<dyn CoinStore>, OpenError> {
    check_not_lost(directory.path())?;
    remove_unfinished(directory)?;
    let path = directory.file(STORE_FILE);
    let store = RedbStore::open_on(&**directory.disk(), &path, &directory.chain_id().text(), cache_bytes)?;
    Ok(Arc::new(store))
}

/// Removes what a load of a snapshot has left that was cut off. Nobody else loads one: the
/// directory is locked.
fn remove_unfinished(directory: &DataDir) -> Result<(), OpenError> {
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
pub fn read_store(directory: &DataDir, cache_bytes: usize) -> Result<Arc<dyn CoinStore>, OpenError> {
    check_not_lost(directory.path())?;
    let path = directory.file(STORE_FILE);
    if !is_there(&path)? {
        return Ok(Arc::new(MemoryStore::default()));
    }
    let store = RedbStore::open_to_read(&path, Some(&directory.chain_id().text()), cache_bytes)?;
    Ok(Arc::new(store))
}
