//! A store that checks what the cache says of it, and whose reads fail when a test says so.

use super::*;
use blockmill_coins::{Before, Changes, CoinIterator, StoreError};
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;

/// Changes of a commit, with what the cache says of the store before them.
pub(super) type Commit = Vec<Change>;

/// An outpoint, its coin after the commit, and what the store has before it.
pub(super) type Change = (OutPoint, Option<Coin>, Before);

/// A store in memory.
#[derive(Debug, Default)]
pub(super) struct CheckedStore {
    inner: MemoryStore,
    last: Mutex<Commit>,
    /// Changes of which the cache said something wrong.
    wrong: AtomicU64,
    reads: AtomicU64,
    /// Numbers of the reads that fail.
    failing: Mutex<Range<u64>>,
}

impl CheckedStore {
    /// What the last commit changed, and how many changes so far had something wrong.
    pub(super) fn last_commit(&self) -> (Commit, u64) {
        (self.last.lock().unwrap().clone(), self.wrong.load(Ordering::Relaxed))
    }

    pub(super) fn reads(&self) -> u64 {
        self.reads.load(Ordering::Relaxed)
    }

    /// Reads fail that have these numbers from here on.
    pub(super) fn fail(&self, numbers: Range<u64>) {
        let first = self.reads();
        *self.failing.lock().unwrap() = first.saturating_add(numbers.start)..first.saturating_add(numbers.end);
    }
}

impl CoinStore for CheckedStore {
    fn get(&self, outpoint: &OutPoint) -> Result<Option<Coin>, StoreError> {
        let number = self.reads.fetch_add(1, Ordering::Relaxed);
        if self.failing.lock().unwrap().contains(&number) {
            return Err(StoreError::Backend("a fault of the test".to_owned()));
        }
        self.inner.get(outpoint)
    }

    fn tip(&self) -> Result<Option<Tip>, StoreError> {
        self.inner.tip()
    }

    fn commit(&self, changes: &dyn Changes, tip: &Tip) -> Result<(), StoreError> {
        let mut last = Commit::new();
        changes.visit_all(&mut |change| {
            let stored = self.inner.get(&change.outpoint).unwrap();
            let is_wrong = match change.before {
                Before::Coin => stored.is_none(),
                Before::Nothing => stored.is_some(),
                Before::Unknown => false,
            };
            self.wrong.fetch_add(u64::from(is_wrong), Ordering::Relaxed);
            // A coinbase that is made and spent may leave a marker, which changes nothing.
            let is_change = change.coin.is_some() || stored.is_some() || change.before != Before::Unknown;
            if !is_change {
                return;
            }
            last.push((change.outpoint, change.coin.map(|coin| coin.to_coin()), change.before));
        });
        *self.last.lock().unwrap() = last;
        self.inner.commit(changes, tip)
    }

    fn coins(&self) -> Result<CoinIterator, StoreError> {
        self.inner.coins()
    }

    fn disk_size(&self) -> Result<u64, StoreError> {
        Ok(0)
    }
}
