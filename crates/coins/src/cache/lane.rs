//! Lanes: parts of the cache that several threads change at once, each its own.
//!
//! A lane is a shard of the live entries, and what becomes of an outpoint is decided in its lane
//! alone. A lane keeps a log of what it spends, with which all that it did can be taken back. It
//! never decides what is wrong with a block: where it cannot tell that all is well, it says so, and
//! its user has it take everything back.

use super::flush::Flush;
use super::{CacheCounters, CoinsCache, DIRTY, FRESH, Overwrite, STORED, dirty_after};
use crate::flush_epoch::{FlushClock, FlushEpoch};
use crate::store::{CoinStore, StoreError};
use blockmill_block::{Coin, CoinList, Coins};
use blockmill_coinmap::{CoinMap, CoinRef, EntryFlags, HashedOutPoint, LockedShard, ReadShard, SHARDS, Update};
use std::time::{Duration, Instant};

/// Number of lanes.
pub const LANES: usize = SHARDS;

/// The lane of the outpoints with this hash.
#[inline]
pub fn lane_of(hash: u64) -> usize {
    CoinMap::shard_of(hash)
}

/// The cache while its lanes are dealt out; from [`CoinsCache::lanes`].
pub struct Lanes<'c> {
    live: &'c CoinMap,
    flush: Option<&'c Flush>,
    store: &'c dyn CoinStore,
    clock: &'c FlushClock,
    complete: bool,
    #[cfg(test)]
    disabled: Option<super::Rule>,
}

impl std::fmt::Debug for Lanes<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Lanes").finish_non_exhaustive()
    }
}

/// Where a coin was that a lane has spent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Before {
    /// A live entry with these flags.
    Live(EntryFlags),
    /// Frozen, or in the store alone.
    Below,
    /// Not in the cache.
    Elsewhere,
}

/// What a lane has done.
#[derive(Debug, Default)]
pub struct LaneLog {
    /// The coins that were spent.
    spent: CoinList,
    /// For each of them where it was.
    before: Vec<Before>,
    /// The markers of spent outpoints that coins were made over.
    made_over: Vec<(HashedOutPoint, EntryFlags)>,
    /// By how much the number of dirty entries has changed.
    dirty: isize,
    counters: CacheCounters,
    store_time: Duration,
}

impl LaneLog {
    /// Makes room for coins that will be spent.
    pub fn reserve(&mut self, coins: usize) {
        self.spent.reserve(coins);
        self.before.reserve(coins);
    }

    /// The coins that were spent, in their order.
    pub fn spent(&self) -> Coins<'_> {
        self.spent.coins()
    }

    /// Notes that a coin was spent which is not in the cache.
    #[inline]
    pub fn push_elsewhere(&mut self, coin: CoinRef<'_>) {
        self.counters.hits += 1;
        self.spent.push(coin);
        self.before.push(Before::Elsewhere);
    }

    /// Forgets how many coins were found in the cache and how many were not. For a lane that takes
    /// back what it has done: what replaces it counts them again.
    pub fn forget_counts(&mut self) {
        self.counters = CacheCounters::default();
    }

    /// Bytes of the coins that were spent, unused capacity not counted.
    pub fn spent_bytes(&self) -> usize {
        self.spent.used()
    }
}

/// What is known of an outpoint for which a coin is to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MustBeNew {
    /// The coin may be there already, by the rules of its block.
    No,
    /// No unspent coin may be there (BIP 30). At this epoch the store had none, if that was seen.
    Yes(Option<FlushEpoch>),
}

impl CoinsCache {
    /// The cache for changes in lanes. What the lanes have done MUST be given to
    /// [`end_lanes`](Self::end_lanes).
    pub fn lanes(&mut self) -> Lanes<'_> {
        Lanes {
            live: &self.map,
            flush: self.flush.as_ref(),
            store: &*self.store,
            clock: &self.clock,
            complete: self.complete,
            #[cfg(test)]
            disabled: self.disabled,
        }
    }

    /// Counts what lanes have done.
    pub fn end_lanes<'l>(&mut self, logs: impl IntoIterator<Item = &'l LaneLog>) {
        for log in logs {
            self.dirty = self.dirty.wrapping_add_signed(log.dirty);
            self.counters.hits += log.counters.hits;
            self.counters.misses += log.counters.misses;
            self.store_time += log.store_time;
        }
    }
}

impl Lanes<'_> {
    /// Takes a lane. Another thread that wants it waits.
    ///
    /// # Panics
    /// If `number` is not below [`LANES`].
    pub fn lane(&self, number: usize) -> Lane<'_> {
        Lane {
            live: self.live.lock_shard(number),
            frozen: self.flush.map(|flush| flush.frozen().read_shard(number)),
            lanes: self,
        }
    }
}

/// A lane that one thread has.
#[derive(Debug)]
pub struct Lane<'l> {
    live: LockedShard<'l>,
    /// The frozen entries, if there is a flush. Its promotion waits for the lane.
    frozen: Option<ReadShard<'l>>,
    lanes: &'l Lanes<'l>,
}

impl Lane<'_> {
    /// Starts loading what a search for this hash reads first.
    #[inline]
    pub fn prefetch_word(&self, hash: u64) {
        self.live.prefetch_word(hash);
    }

    /// Starts loading what an insertion with this hash reads and moves.
    #[inline]
    pub fn prefetch_insertion(&self, hash: u64) {
        self.live.prefetch_insertion(hash);
        if let Some(frozen) = &self.frozen {
            frozen.prefetch_word(hash);
        }
    }

    /// Starts loading what a search for this hash reads next.
    #[inline]
    pub fn prefetch_record(&self, hash: u64) {
        if !self.live.prefetch_record(hash)
            && let Some(frozen) = &self.frozen
        {
            frozen.prefetch_word(hash);
        }
    }

    /// What the frozen entries know of an outpoint: no entry, `Some(None)` if spent, or the coin.
    fn frozen(&self, at: &HashedOutPoint) -> Option<Option<Coin>> {
        let frozen = self.frozen.as_ref()?;
        #[cfg(test)]
        if self.lanes.disabled == Some(super::Rule::FrozenInLanes) {
            return None;
        }
        frozen.with(at, |entry| entry.map(|entry| entry.coin()))
    }

    /// Spends the coin of an outpoint, as [`CoinsCache::spend_into`] with the coins of `log`.
    ///
    /// # Errors
    /// Any [`StoreError`].
    #[inline]
    pub fn spend(&mut self, at: &HashedOutPoint, log: &mut LaneLog) -> Result<bool, StoreError> {
        let LaneLog {
            spent, before, dirty, ..
        } = log;
        let live = self.live.update(at, |entry| {
            let Some(entry) = entry else {
                return (Update::Keep, None);
            };
            if !entry.append_to(spent) {
                return (Update::Keep, Some(false));
            }
            let flags = entry.flags();
            before.push(Before::Live(flags));
            let was_dirty = isize::from(flags.has(DIRTY));
            if flags.has(FRESH) {
                *dirty -= was_dirty;
                (Update::Remove, Some(true))
            } else {
                *dirty += 1 - was_dirty;
                (Update::Put(dirty_after(flags), None), Some(true))
            }
        });
        log.counters.hits += 1;
        match live {
            Some(was_unspent) => Ok(was_unspent),
            None => self.spend_below(at, log),
        }
    }

    /// Spends a coin that the live entries do not have.
    fn spend_below(&mut self, at: &HashedOutPoint, log: &mut LaneLog) -> Result<bool, StoreError> {
        let known = match self.frozen(at) {
            Some(known) => known,
            None => {
                log.counters.hits -= 1;
                log.counters.misses += 1;
                self.read_store(at, log)?
            }
        };
        let Some(coin) = known else {
            return Ok(false);
        };
        log.spent.push(CoinRef::from(&coin));
        log.before.push(Before::Below);
        log.dirty += 1;
        self.live.update(at, |_| (Update::Put(DIRTY.with(STORED), None), ()));
        Ok(true)
    }

    fn read_store(&self, at: &HashedOutPoint, log: &mut LaneLog) -> Result<Option<Coin>, StoreError> {
        if self.lanes.complete {
            return Ok(None);
        }
        let start = Instant::now();
        let found = self.lanes.store.get(at.outpoint());
        log.store_time += start.elapsed();
        found
    }

    /// Takes back the last spending that has not been taken back, which was of this outpoint.
    ///
    /// # Panics
    /// If `number` is not that of a coin of the log.
    pub fn take_back_spend(&mut self, at: &HashedOutPoint, number: usize, log: &mut LaneLog) {
        let coin = log.spent.coins().at(number);
        match log.before[number] {
            Before::Live(flags) => {
                #[cfg(test)]
                let flags = match self.lanes.disabled {
                    Some(super::Rule::FlagsTakenBack) => flags.without(FRESH).without(STORED),
                    _ => flags,
                };
                let was_dirty = isize::from(flags.has(DIRTY));
                log.dirty += if flags.has(FRESH) { was_dirty } else { was_dirty - 1 };
                self.live.update(at, |_| (Update::Put(flags, Some(coin)), ()));
            }
            Before::Below => {
                log.dirty -= 1;
                self.live.update(at, |_| (Update::Remove, ()));
            }
            Before::Elsewhere => {}
        }
    }

    /// Whether an outpoint can get a coin: false if that is not certain. The outpoint has no live
    /// entry then, and `MustBeNew` is seen to.
    ///
    /// # Errors
    /// Any [`StoreError`].
    #[inline]
    fn is_new_below(&self, at: &HashedOutPoint, must_be_new: MustBeNew, log: &mut LaneLog) -> Result<bool, StoreError> {
        let MustBeNew::Yes(absent_at) = must_be_new else {
            return Ok(true);
        };
        if let Some(known) = self.frozen(at) {
            return Ok(known.is_none());
        }
        #[cfg(test)]
        if self.lanes.disabled == Some(super::Rule::EpochsInLanes) && absent_at.is_some() {
            return Ok(true);
        }
        // After the look at the frozen entries: see the rule of resurrection.
        if self.lanes.complete || absent_at == Some(self.lanes.clock.now()) {
            return Ok(true);
        }
        Ok(self.read_store(at, log)?.is_none())
    }

    /// Whether a coin can be made and spent at this outpoint without an entry. False if that is not
    /// certain.
    ///
    /// # Errors
    /// Any [`StoreError`].
    #[inline]
    pub fn is_free(&self, at: &HashedOutPoint, must_be_new: MustBeNew, log: &mut LaneLog) -> Result<bool, StoreError> {
        if must_be_new == MustBeNew::No {
            return Ok(true);
        }
        match self.live.with(at, |entry| entry.map(|entry| entry.is_spent())) {
            Some(is_spent) => Ok(is_spent),
            None => self.is_new_below(at, must_be_new, log),
        }
    }

    /// Makes a coin. Returns false, with nothing done, if it is not certain that the outpoint can
    /// get one: something is known of it.
    ///
    /// # Errors
    /// Any [`StoreError`].
    #[inline]
    pub fn create(
        &mut self,
        at: &HashedOutPoint,
        coin: CoinRef<'_>,
        overwrite: Overwrite,
        must_be_new: MustBeNew,
        log: &mut LaneLog,
    ) -> Result<bool, StoreError> {
        if !self.is_new_below(at, must_be_new, log)? {
            return Ok(false);
        }
        let flags = match overwrite {
            Overwrite::Impossible => DIRTY.with(FRESH),
            Overwrite::Possible => DIRTY,
        };
        // What the entry was: none, the flags of a spent marker, or a coin.
        let before = self.live.update(at, |entry| match entry {
            None => (Update::Put(flags, Some(coin)), Ok(None)),
            Some(entry) if entry.is_spent() => {
                let before = entry.flags();
                (Update::Put(dirty_after(before), Some(coin)), Ok(Some(before)))
            }
            Some(_) => (Update::Keep, Err(())),
        });
        let Ok(before) = before else {
            return Ok(false);
        };
        log.dirty += isize::from(before.is_none_or(|flags| !flags.has(DIRTY)));
        if let Some(flags) = before {
            log.made_over.push((*at, flags));
        }
        Ok(true)
    }

    /// Takes back the last making of a coin that has not been taken back, which was of this
    /// outpoint.
    pub fn take_back_create(&mut self, at: &HashedOutPoint, log: &mut LaneLog) {
        let before = log.made_over.pop_if(|(made, _)| made == at);
        #[cfg(test)]
        let before = before.filter(|_| self.lanes.disabled != Some(super::Rule::MarkersTakenBack));
        let restored = before.map_or(Update::Remove, |(_, flags)| Update::Put(flags, None));
        log.dirty -= isize::from(before.is_none_or(|(_, flags)| !flags.has(DIRTY)));
        self.live.update(at, |_| (restored, ()));
    }
}
