//! The store of a data directory is opened here.

use crate::DataDir;
use crate::error::OpenError;
use crate::files::{COMMIT_FILE, LOADING_FOLDER, STORE_FOLDER};
use crate::lost_store::{has_store, has_store_if_not_lost};
use crate::marked_store::MarkedStore;
use blockmill_blockfiles::FileError;
use blockmill_blockfiles::disk::Disk;
use blockmill_coins::{CoinStore, StoreError};
use blockmill_pool::Helpers;
use blockmill_store_log::{LogOptions, LogStore};
use std::path::Path;
use std::sync::Arc;

/// Opens the store of a data directory, or makes it. `helpers` help to prepare a flush.
///
/// # Errors
/// [`OpenError::Damaged`] where it is lost, else [`OpenError::Store`].
pub fn open_store(directory: &DataDir, helpers: Helpers) -> Result<Arc<dyn CoinStore>, OpenError> {
    // First: a store without its name would count as lost.
    finish_load(directory)?;
    has_store_if_not_lost(directory.path())?;
    // What is there now is of a load that was cut off.
    remove_store(&**directory.disk(), &directory.file(LOADING_FOLDER))?;
    let path = directory.file(STORE_FOLDER);
    let network = directory.chain_id().text();
    let store = make_store(directory.disk(), &path, &network, helpers)?;
    let marked = MarkedStore::new(store, Arc::clone(directory.disk()), directory.file(COMMIT_FILE))?;
    Ok(Arc::new(marked))
}

/// Whether a store into which a snapshot was loaded only lacks its name: the load was cut off
/// before the last step. The mark of the snapshot comes after the coins, and the empty store that
/// was there goes after the mark.
pub(crate) fn is_nameless(directory: &DataDir) -> Result<bool, StoreError> {
    Ok(directory.snapshot().is_some()
        && !has_store(directory.path())?
        && blockmill_store_log::is_there(&directory.file(LOADING_FOLDER))?)
}

/// Gives a store that only lacks its name this name.
fn finish_load(directory: &DataDir) -> Result<(), OpenError> {
    if !is_nameless(directory)? {
        return Ok(());
    }
    let (loading, path) = (directory.file(LOADING_FOLDER), directory.file(STORE_FOLDER));
    let disk = directory.disk();
    // What is left of the empty store is in the way.
    remove_store(&**disk, &path)?;
    disk.rename(&loading, &path)
        .and_then(|()| disk.sync_name(&path))
        .map_err(FileError::io(&path))?;
    Ok(())
}

/// The folder of a directory's store as it can be read; none where there is no store yet. A store
/// that only lacks its name is read under the one that it has.
pub(crate) fn store_to_read(directory: &DataDir) -> Result<Option<&'static str>, OpenError> {
    if is_nameless(directory)? {
        return Ok(Some(LOADING_FOLDER));
    }
    Ok(has_store_if_not_lost(directory.path())?.then_some(STORE_FOLDER))
}

/// Opens a store, or makes it.
pub(crate) fn make_store(
    disk: &Arc<dyn Disk>,
    path: &Path,
    network: &str,
    helpers: Helpers,
) -> Result<LogStore, StoreError> {
    LogStore::open_on(Arc::clone(disk), path, network, log_options(helpers))
}

fn log_options(helpers: Helpers) -> LogOptions {
    LogOptions {
        helpers,
        ..LogOptions::default()
    }
}

/// Removes a store into which a snapshot was loaded. Nobody else loads one: the directory is
/// locked.
#[doc(hidden)]
pub fn remove_store(disk: &dyn Disk, path: &Path) -> Result<(), StoreError> {
    if std::fs::symlink_metadata(path).is_err() {
        return Ok(());
    }
    blockmill_store_log::remove(disk, path)
}

/// Opens a store to read it: no file is changed.
pub(crate) fn open_to_read(path: &Path, network: &str, helpers: Helpers) -> Result<LogStore, StoreError> {
    LogStore::open_to_read(path, Some(network), log_options(helpers))
}
