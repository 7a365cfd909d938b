//! The store with the mark of its last commit (`commit_mark`).

use crate::commit_mark::MarkFile;
use blockmill_block::{Coin, OutPoint};
use blockmill_blockfiles::FileError;
use blockmill_blockfiles::disk::Disk;
use blockmill_coins::store::CoinParts;
use blockmill_coins::{Changes, CoinIterator, CoinStore, LastCommit, StoreError, Tip};
use blockmill_store_log::LogStore;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// A store whose commits are marked when they are synced.
pub(super) struct MarkedStore {
    store: LogStore,
    mark: Mutex<MarkFile>,
}

fn failed(error: FileError) -> StoreError {
    StoreError::Backend(error.to_string())
}

impl MarkedStore {
    /// A store that was opened to be written, so that what it has is synced. The mark at `path`
    /// gets the store's last commit, unless it names a later one.
    pub(super) fn new(store: LogStore, disk: Arc<dyn Disk>, path: PathBuf) -> Result<Self, StoreError> {
        let mut mark = MarkFile::open(disk, path).map_err(failed)?;
        if let Some(found) = store.last_commit()?
            // Before its first commit the store has nothing to mark.
            && found.number > 0
            && mark.ahead_of(&found).is_none()
            && !mark.is_at(&found)
        {
            mark.write(&found).map_err(failed)?;
        }
        Ok(Self {
            store,
            mark: Mutex::new(mark),
        })
    }
}

impl CoinStore for MarkedStore {
    fn get(&self, outpoint: &OutPoint) -> Result<Option<Coin>, StoreError> {
        self.store.get(outpoint)
    }

    fn get_many(&self, outpoints: &[OutPoint], coins: &mut Vec<Option<Coin>>) -> Result<(), StoreError> {
        self.store.get_many(outpoints, coins)
    }

    fn tip(&self) -> Result<Option<Tip>, StoreError> {
        self.store.tip()
    }

    fn identity(&self) -> Result<Option<[u8; 16]>, StoreError> {
        self.store.identity()
    }

    fn last_commit(&self) -> Result<Option<LastCommit>, StoreError> {
        self.store.last_commit()
    }

    /// The store is not unchanged where the mark alone cannot be written: the caller must not rely
    /// on what it has then.
    fn commit(&self, changes: &dyn Changes, tip: &Tip) -> Result<(), StoreError> {
        let mut mark = self.mark.lock().unwrap_or_else(PoisonError::into_inner);
        let found = self.store.last_commit()?;
        match found.and_then(|found| Some((found, mark.ahead_of(&found)?))) {
            None => self.store.commit(changes, tip)?,
            Some((found, lost)) => {
                // The numbers that follow are given a second time, so the later mark must go first.
                let set_back = mark.write(&found).map_err(failed);
                if let Err(error) = set_back.and_then(|()| self.store.commit(changes, tip)) {
                    // The later commits are missing as before. Where the disk takes nothing more,
                    // this writer alone has said so.
                    let _ = mark.write(&lost);
                    return Err(error);
                }
            }
        }
        match self.store.last_commit()? {
            Some(commit) => mark.write(&commit).map_err(failed),
            None => Ok(()),
        }
    }

    fn coins(&self) -> Result<CoinIterator, StoreError> {
        self.store.coins()
    }

    fn coins_in_parts(&self) -> Result<Option<Box<dyn CoinParts>>, StoreError> {
        self.store.coins_in_parts()
    }

    fn memory(&self) -> usize {
        self.store.memory()
    }

    fn disk_size(&self) -> Result<u64, StoreError> {
        self.store.disk_size()
    }
}
