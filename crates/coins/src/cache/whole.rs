//! The whole cache, which one thread changes. Each operation locks a shard of the live entries.

use super::CoinsCache;
use super::entry::{CoinEntries, EntryAccess};
use super::log::EntryLog;
use blockmill_coinmap::{CoinMap, EntryRef, HashedOutPoint, Update};

/// All entries.
#[derive(Debug)]
pub struct WholeMap<'c> {
    live: &'c CoinMap,
    frozen: Option<&'c CoinMap>,
}

/// The cache while its owner changes it; from [`CoinsCache::change`].
pub type Session<'c> = CoinEntries<'c, WholeMap<'c>>;

impl CoinsCache {
    /// Changes entries by their hashes, and counts what was done.
    pub fn change<T>(&mut self, change: impl FnOnce(&mut Session<'_>, &mut EntryLog) -> T) -> T {
        let mut log = EntryLog::default();
        let outcome = change(&mut self.session(), &mut log);
        self.count(&log);
        outcome
    }

    pub(super) fn session(&self) -> Session<'_> {
        CoinEntries {
            access: WholeMap {
                live: &self.map,
                frozen: self.flush.as_ref().map(|flush| &**flush.frozen()),
            },
            below: self.below(),
        }
    }
}

impl EntryAccess for WholeMap<'_> {
    #[inline]
    fn with<R>(&self, at: &HashedOutPoint, visit: impl FnOnce(Option<EntryRef<'_>>) -> R) -> R {
        self.live.with_hashed(at, visit)
    }

    #[inline]
    fn update<'a, R>(
        &mut self,
        at: &HashedOutPoint,
        change: impl FnOnce(Option<EntryRef<'_>>) -> (Update<'a>, R),
    ) -> R {
        self.live.update_hashed(at, change)
    }

    #[inline]
    fn with_frozen<R>(&self, at: &HashedOutPoint, visit: impl FnOnce(Option<EntryRef<'_>>) -> R) -> Option<R> {
        Some(self.frozen?.with_hashed(at, visit))
    }
}

impl Session<'_> {
    /// Starts loading what searches for these hashes read first. For a few dozen hashes that are
    /// searched soon after.
    #[inline]
    pub fn prefetch_words(&self, hashes: &[u64]) {
        self.access.live.prefetch_words(hashes);
    }

    /// Starts loading what searches for these hashes read next. Best a while after
    /// [`prefetch_words`](Self::prefetch_words).
    #[inline]
    pub fn prefetch_records(&self, hashes: &[u64]) {
        self.access.live.prefetch_records(hashes);
    }
}
