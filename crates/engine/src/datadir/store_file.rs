//! The embedded store of a data directory is opened here.

use crate::datadir::DataDir;
use crate::datadir::error::{OpenError, file_error};
use crate::datadir::files::COMMIT_FILE;
use crate::datadir::lost_store::{kind_if_not_lost, kind_of};
use crate::datadir::marked_store::MarkedStore;
use crate::datadir::store_kind::StoreKind;
use blockmill_blockfiles::disk::Disk;
use blockmill_coins::{CoinStore, StoreError};
use blockmill_store_log::{LogStore, Options as LogOptions};
use blockmill_store_redb::RedbStore;
use std::path::Path;
use std::sync::Arc;

/// What a store may use.
#[derive(Debug, Clone, Copy)]
pub struct StoreLimits {
    /// Memory in bytes for pages of its files, where it keeps any.
    pub cache_bytes: usize,
    /// Threads that prepare a flush.
    pub threads: usize,
}

/// Opens the embedded store of a data directory, or makes one of this kind. If none is named it is
/// the kind that the directory had, else the default.
///
/// # Errors
/// [`OpenError::Damaged`] where it is lost, [`OpenError::WrongStore`] where it is of another kind,
/// else [`OpenError::Store`].
pub fn open_store(
    directory: &DataDir,
    kind: Option<StoreKind>,
    limits: StoreLimits,
) -> Result<Arc<dyn CoinStore>, OpenError> {
    finish_load(directory)?;
    let noted = directory.noted_store();
    let found = kind_if_not_lost(directory.path(), noted)?;
    if let (Some(found), Some(wanted)) = (found, kind)
        && found != wanted
    {
        return Err(OpenError::WrongStore {
            path: directory.path().to_owned(),
            found,
            wanted,
        });
    }
    for kind in StoreKind::ALL {
        remove_store(&**directory.disk(), kind, &directory.file(kind.loading())).map_err(OpenError::Store)?;
    }
    let kind = found.or(kind).or(noted).unwrap_or_default();
    let path = directory.file(kind.part());
    let network = directory.chain_id().text();
    let store = make_store(directory.disk(), kind, &path, &network, limits)?;
    let marked = MarkedStore::new(store, Arc::clone(directory.disk()), directory.file(COMMIT_FILE))?;
    Ok(Arc::new(marked))
}

/// Whether a log into which a snapshot was loaded only lacks its name: the load was cut off before
/// the last step. The mark of the snapshot comes after the coins, and the empty log that was there
/// goes after the mark.
pub(crate) fn is_nameless(directory: &DataDir, kind: StoreKind) -> Result<bool, OpenError> {
    // A file gets the name of the one that was there, in one step.
    Ok(kind == StoreKind::Log
        && directory.snapshot().is_some()
        && kind_of(directory.path())?.is_none()
        && blockmill_store_log::is_there(&directory.file(kind.loading()))?)
}

/// Gives a log that only lacks its name this name.
fn finish_load(directory: &DataDir) -> Result<(), OpenError> {
    let kind = StoreKind::Log;
    if !is_nameless(directory, kind)? {
        return Ok(());
    }
    let (loading, path) = (directory.file(kind.loading()), directory.file(kind.part()));
    let disk = directory.disk();
    // What is left of the empty log is in the way.
    remove_store(&**disk, kind, &path)?;
    disk.rename(&loading, &path)
        .and_then(|()| disk.sync_name(&path))
        .map_err(file_error(&path))?;
    Ok(())
}

/// The store of a directory as it can be read, and the name of its file or folder; none where there
/// is none yet. A log that only lacks its name is read under the one that it has.
pub(crate) fn store_to_read(directory: &DataDir) -> Result<Option<(StoreKind, &'static str)>, OpenError> {
    let kind = StoreKind::Log;
    if is_nameless(directory, kind)? {
        return Ok(Some((kind, kind.loading())));
    }
    let found = kind_if_not_lost(directory.path(), directory.noted_store())?;
    Ok(found.map(|kind| (kind, kind.part())))
}

/// Opens a store, or makes it.
pub(crate) fn make_store(
    disk: &Arc<dyn Disk>,
    kind: StoreKind,
    path: &Path,
    network: &str,
    limits: StoreLimits,
) -> Result<Arc<dyn CoinStore>, StoreError> {
    Ok(match kind {
        StoreKind::Redb => Arc::new(RedbStore::open_on(&**disk, path, network, limits.cache_bytes)?),
        StoreKind::Log => Arc::new(LogStore::open_on(
            Arc::clone(disk),
            path,
            network,
            log_options(limits.threads),
        )?),
    })
}

fn log_options(threads: usize) -> LogOptions {
    LogOptions {
        threads,
        ..LogOptions::default()
    }
}

/// Removes a store into which a snapshot was loaded. Nobody else loads one: the directory is
/// locked.
pub(crate) fn remove_store(disk: &dyn Disk, kind: StoreKind, path: &Path) -> Result<(), StoreError> {
    if std::fs::symlink_metadata(path).is_err() {
        return Ok(());
    }
    match kind {
        StoreKind::Redb => disk
            .remove(path)
            .map_err(|error| StoreError::Backend(format!("{}: {error}", path.display()))),
        StoreKind::Log => blockmill_store_log::remove(disk, path),
    }
}

/// Opens a store to read it: no file is changed.
pub(crate) fn open_to_read(
    kind: StoreKind,
    path: &Path,
    network: &str,
    limits: StoreLimits,
) -> Result<Arc<dyn CoinStore>, StoreError> {
    Ok(match kind {
        StoreKind::Redb => Arc::new(RedbStore::open_to_read(path, Some(network), limits.cache_bytes)?),
        StoreKind::Log => Arc::new(LogStore::open_to_read(
            path,
            Some(network),
            log_options(limits.threads),
        )?),
    })
}
