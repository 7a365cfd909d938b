//! Changes of the cache by outpoints whose hashes are known.

use super::flush::Flush;
use super::{CacheCounters, CoinsCache, DIRTY, FRESH, Overwrite, STORED, USED, dirty_after};
use crate::flush_epoch::{FlushClock, FlushEpoch};
use crate::store::{CoinStore, StoreError};
use blockmill_block::{Coin, CoinList, OutPoint, coin};
use blockmill_coinmap::{CoinMap, CoinRef, HashKey, HashedOutPoint, Update};
use std::time::{Duration, Instant};

/// What the live entries know of an outpoint.
enum LiveEntry {
    Unspent(Coin),
    Spent,
    Absent,
}

/// The cache while its owner changes it, for outpoints that are hashed with
/// [`CoinsCache::hash_key`]; from [`CoinsCache::session`]. The operations are those of the cache.
pub struct Session<'c> {
    live: &'c CoinMap,
    key: HashKey,
    flush: Option<&'c Flush>,
    store: &'c dyn CoinStore,
    clock: &'c FlushClock,
    complete: bool,
    dirty: &'c mut usize,
    counters: &'c mut CacheCounters,
    store_time: &'c mut Duration,
    #[cfg(test)]
    disabled: Option<super::Rule>,
}

impl std::fmt::Debug for Session<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Session")
            .field("dirty", &self.dirty)
            .finish_non_exhaustive()
    }
}

impl CoinsCache {
    /// The cache for changes by hash.
    pub fn session(&mut self) -> Session<'_> {
        Session {
            key: *self.map.hash_key(),
            live: &self.map,
            flush: self.flush.as_ref(),
            store: &*self.store,
            clock: &self.clock,
            complete: self.complete,
            dirty: &mut self.dirty,
            counters: &mut self.counters,
            store_time: &mut self.store_time,
            #[cfg(test)]
            disabled: self.disabled,
        }
    }
}

impl Session<'_> {
    /// Starts loading what searches for these hashes read first. For a few dozen hashes that are
    /// searched soon after.
    #[inline]
    pub fn prefetch_words(&self, hashes: &[u64]) {
        self.live.prefetch_words(hashes);
    }

    /// Starts loading what searches for these hashes read next. Best a while after
    /// [`prefetch_words`](Self::prefetch_words).
    #[inline]
    pub fn prefetch_records(&self, hashes: &[u64]) {
        self.live.prefetch_records(hashes);
    }

    /// The key of the hashes.
    pub fn hash_key(&self) -> &HashKey {
        &self.key
    }

    /// What the frozen entries know of an outpoint: no entry, `Some(None)` if spent, or the coin.
    fn frozen(&self, at: &HashedOutPoint) -> Option<Option<Coin>> {
        self.flush?
            .frozen()
            .with_hashed(at, |entry| entry.map(|entry| entry.coin()))
    }

    fn read_store(&mut self, outpoint: &OutPoint) -> Result<Option<Coin>, StoreError> {
        if self.complete {
            return Ok(None);
        }
        let start = Instant::now();
        let found = self.store.get(outpoint);
        *self.store_time += start.elapsed();
        found
    }

    /// As [`CoinsCache::get`].
    ///
    /// # Errors
    /// Any [`StoreError`].
    pub fn get(&mut self, at: &HashedOutPoint) -> Result<Option<Coin>, StoreError> {
        let live = self.live.update_hashed(at, |entry| match entry {
            None => (Update::Keep, LiveEntry::Absent),
            Some(entry) => match entry.coin() {
                None => (Update::Keep, LiveEntry::Spent),
                Some(coin) => (Update::SetFlags(entry.flags().with(USED)), LiveEntry::Unspent(coin)),
            },
        });
        self.counters.hits += 1;
        match live {
            LiveEntry::Unspent(coin) => return Ok(Some(coin)),
            LiveEntry::Spent => return Ok(None),
            LiveEntry::Absent => {}
        }
        if let Some(known) = self.frozen(at) {
            return Ok(known);
        }
        self.counters.hits -= 1;
        self.counters.misses += 1;
        let found = self.read_store(at.outpoint())?;
        if let Some(coin) = &found {
            self.insert_if_absent(at, coin);
        }
        Ok(found)
    }

    pub(super) fn insert_if_absent(&mut self, at: &HashedOutPoint, coin: &Coin) -> bool {
        self.live.update_hashed(at, |entry| match entry {
            None => (Update::Put(USED, Some(CoinRef::from(coin))), true),
            Some(_) => (Update::Keep, false),
        })
    }

    /// As [`CoinsCache::contains`].
    ///
    /// # Errors
    /// Any [`StoreError`].
    #[inline]
    pub fn contains(&mut self, at: &HashedOutPoint, absent_at: Option<FlushEpoch>) -> Result<bool, StoreError> {
        if let Some(unspent) = self.live.with_hashed(at, |entry| entry.map(|entry| !entry.is_spent())) {
            return Ok(unspent);
        }
        if let Some(known) = self.frozen(at) {
            return Ok(known.is_some());
        }
        // After the look at the frozen entries: see the rule of resurrection.
        if absent_at == Some(self.clock.now()) {
            return Ok(false);
        }
        Ok(self.read_store(at.outpoint())?.is_some())
    }

    /// As [`CoinsCache::spend_into`].
    ///
    /// # Errors
    /// Any [`StoreError`].
    #[inline]
    pub fn spend_into(&mut self, at: &HashedOutPoint, spent: &mut CoinList) -> Result<bool, StoreError> {
        let mut change = 0;
        let live = self.live.update_hashed(at, |entry| {
            let Some(entry) = entry else {
                return (Update::Keep, None);
            };
            if !entry.append_to(spent) {
                return (Update::Keep, Some(false));
            }
            let was_dirty = isize::from(entry.flags().has(DIRTY));
            if entry.flags().has(FRESH) {
                change = -was_dirty;
                (Update::Remove, Some(true))
            } else {
                change = 1 - was_dirty;
                (Update::Put(dirty_after(entry.flags()), None), Some(true))
            }
        });
        *self.dirty = self.dirty.wrapping_add_signed(change);
        self.counters.hits += 1;
        if let Some(was_unspent) = live {
            return Ok(was_unspent);
        }
        self.spend_below(at, spent)
    }

    /// Spends a coin that the live entries do not have.
    fn spend_below(&mut self, at: &HashedOutPoint, spent: &mut CoinList) -> Result<bool, StoreError> {
        let known = match self.frozen(at) {
            Some(known) => known,
            None => {
                self.counters.hits -= 1;
                self.counters.misses += 1;
                self.read_store(at.outpoint())?
            }
        };
        let Some(coin) = known else {
            return Ok(false);
        };
        spent.push(CoinRef::from(&coin));
        if !self.needs_no_marker(at) {
            // The flush may have promoted the coin in between. It is the same coin, and not dirty.
            // The store has it, or gets it with the batch of the flush.
            self.live
                .update_hashed(at, |_| (Update::Put(DIRTY.with(STORED), None), ()));
            *self.dirty += 1;
        }
        Ok(true)
    }

    /// False: every coin from below the flush point leaves a marker.
    #[cfg_attr(not(test), expect(clippy::unused_self, reason = "tests take the rule out here"))]
    fn needs_no_marker(&self, _at: &HashedOutPoint) -> bool {
        #[cfg(test)]
        if self.disabled == Some(super::Rule::FreshAcrossFlushPoint) {
            let is_fresh =
                |entry: Option<blockmill_coinmap::EntryRef<'_>>| entry.is_some_and(|entry| entry.flags().has(FRESH));
            return self
                .flush
                .is_some_and(|flush| flush.frozen().with_hashed(_at, is_fresh));
        }
        false
    }

    /// As [`CoinsCache::add`].
    #[inline]
    pub fn add(&mut self, at: &HashedOutPoint, coin: CoinRef<'_>, overwrite: Overwrite) {
        if coin::is_unspendable(coin.script_pubkey) {
            return;
        }
        let was_dirty = self.live.update_hashed(at, |entry| {
            let (was_dirty, flags) = match entry {
                None if overwrite == Overwrite::Impossible => (false, DIRTY.with(FRESH)),
                None => (false, DIRTY),
                // The store may still have the coin that is spent here. So the new coin is fresh
                // only if the old entry was.
                Some(entry) => (entry.flags().has(DIRTY), dirty_after(entry.flags())),
            };
            (Update::Put(flags, Some(coin)), was_dirty)
        });
        *self.dirty += usize::from(!was_dirty);
    }
}
