//! What the store in a directory says by itself: whether it is lost, and which chain it belongs to.

use crate::datadir::error::{OpenError, Remedy, file_error};
use crate::datadir::files::{COMMIT_FILE, HEADERS_FILE, UNDO_FILE};
use crate::datadir::meta::ChainId;
use crate::datadir::store_kind::StoreKind;
use blockmill_coins::CoinStore;
use blockmill_store_log::Lookup;
use blockmill_store_redb::RedbStore;
use std::io::ErrorKind;
use std::path::Path;

/// Bytes of memory for pages of the store while only its network is read.
const NETWORK_CACHE: usize = 1 << 20;

/// The kind of a directory's store; none if it has none.
///
/// # Errors
/// [`OpenError::Damaged`] if it has two, [`OpenError::Store`] if they cannot be looked at.
pub(crate) fn kind_of(directory: &Path) -> Result<Option<StoreKind>, OpenError> {
    let mut found = None;
    for kind in StoreKind::ALL {
        let path = directory.join(kind.part());
        let is_there = match kind {
            StoreKind::Redb => blockmill_store_redb::is_there(&path)?,
            StoreKind::Log => blockmill_store_log::is_there(&path)?,
        };
        if is_there && found.replace(kind).is_some() {
            return Err(OpenError::Damaged {
                path: directory.to_owned(),
                detail: format!(
                    "it has two stores, {} and {}",
                    StoreKind::Redb.part(),
                    StoreKind::Log.part()
                ),
                remedy: None,
            });
        }
    }
    Ok(found)
}

/// Whether the store of a directory, if it has one, is at no block. One that cannot be read may be.
pub(crate) fn has_no_coins(directory: &Path) -> bool {
    let path = |kind: StoreKind| directory.join(kind.part());
    match kind_of(directory) {
        Ok(None) => true,
        Ok(Some(kind @ StoreKind::Log)) => Lookup::open(&path(kind), None).is_ok_and(|store| store.tip().is_none()),
        Ok(Some(kind @ StoreKind::Redb)) => RedbStore::open_to_read(&path(kind), None, NETWORK_CACHE)
            .and_then(|store| store.tip())
            .is_ok_and(|tip| tip.is_none()),
        Err(_) => false,
    }
}

/// The kind of a directory's store, which is refused if it is gone; none where there was none. The
/// store is made and noted, durably, before anything is written to the log of connected blocks. So
/// where there is such a log, or the mark of a commit, there was a store. A new store would append
/// to the log of another chain. `noted` is the kind that `meta.json` names.
pub(crate) fn kind_if_not_lost(directory: &Path, noted: Option<StoreKind>) -> Result<Option<StoreKind>, OpenError> {
    if let Some(kind) = kind_of(directory)? {
        return Ok(Some(kind));
    }
    for name in [HEADERS_FILE, UNDO_FILE, COMMIT_FILE] {
        let path = directory.join(name);
        let length = match std::fs::metadata(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => 0,
            found => found.map_err(file_error(&path))?.len(),
        };
        if length > 0 {
            return Err(gone(directory, noted, name));
        }
    }
    Ok(None)
}

/// The error where there is no store, while a file is there that comes after one.
fn gone(directory: &Path, noted: Option<StoreKind>, name: &str) -> OpenError {
    let what = match noted {
        Some(StoreKind::Redb) => "the file is gone".to_owned(),
        Some(StoreKind::Log) => "the log is gone".to_owned(),
        // Nobody knows which one it was.
        None => {
            let [one, other] = StoreKind::ALL.map(StoreKind::part);
            format!("the store is gone, {one} or {other}")
        }
    };
    OpenError::Damaged {
        path: noted.map_or_else(|| directory.to_owned(), |kind| directory.join(kind.part())),
        detail: format!("{what}, and the coins with it, while {name} is of a chain that was connected"),
        remedy: Some(Remedy::NewDirectory),
    }
}

/// The chain that the store of a directory belongs to. None where there is no store.
pub(crate) fn network_of(directory: &Path) -> Result<Option<ChainId>, OpenError> {
    let Some(kind) = kind_of(directory)? else {
        return Ok(None);
    };
    let path = directory.join(kind.part());
    let network = match kind {
        StoreKind::Redb => RedbStore::open_to_read(&path, None, NETWORK_CACHE)?
            .network()
            .to_owned(),
        StoreKind::Log => blockmill_store_log::network(&path)?,
    };
    match ChainId::from_text(&network) {
        Some(chain_id) => Ok(Some(chain_id)),
        None => Err(OpenError::Damaged {
            path,
            detail: format!("it belongs to {network:?}, which is no network"),
            remedy: Some(Remedy::NewDirectory),
        }),
    }
}
