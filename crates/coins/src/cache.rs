//! The coins cache: changes since the last flush, changes that a flush writes at this moment, and
//! coins that were read from the store.
//!
//! # Entries
//!
//! | entry | dirty | fresh | the store |
//! |---|---|---|---|
//! | coin | no | no | has the same coin |
//! | coin | yes | yes | has nothing under this outpoint |
//! | coin | yes | no | may have anything: an older coin, or nothing |
//! | spent | yes | no | has the coin, or may have it |
//!
//! A fresh coin that is spent is dropped. The store never sees it. A dirty entry that is *stored*
//! says that the store has a coin under this outpoint for certain, so that the store need not look.
//!
//! # The flush point
//!
//! A flush freezes the entries: they stay in a map that nobody writes, and the cache gets a new,
//! empty map. Entries of the new map are *above* the flush point. A thread writes the dirty frozen
//! entries to the store, in one batch, sorted by key. The cache works on above the flush point at
//! the same time. A look-up asks the live entries first, then the frozen entries, then the store.
//!
//! | state of a flush | frozen entries | the store | ends with |
//! |---|---|---|---|
//! | writing | unchanged | before or after the batch, for these entries only | the commit |
//! | promoting | become live entries, or are dropped | has the batch | the last frozen entry |
//! | failed | unchanged | unknown | [`CoinsCache::finish_flush`], which restores them |
//!
//! # Rules
//!
//! - *Resurrection.* A coin that was read from the store comes with the [`FlushEpoch`] before the
//!   read. If a flush has ended since, the coin is refused: it may have been spent, and its marker
//!   written and dropped. The check looks at the frozen entries first, and at the epoch second. The
//!   flush begins the next epoch before it drops the first marker, so a thread that finds no marker
//!   sees the new epoch. The cache knows what the last finished flush has changed. A coin that was
//!   read one epoch ago, and is not among those changes, is accepted.
//! - *Fresh across the flush point.* A coin from below the flush point that is spent above it
//!   leaves a marker, fresh or not: the batch may bring the coin into the store.
//! - *Stale fetch.* A coin that was read from the store never replaces an entry, live or frozen.
//!   Neither does a promoted coin.
//!
//! The cache has one writer, its owner, who may deal out the shards to threads ([`CacheShards`]).
//! Then each shard has one writer. Besides them only the flush inserts: it promotes coins whose
//! outpoints have no live entry. Readers are: who has a reference to the cache
//! ([`CoinsCache::peek`], [`CoinsCache::coins`]); threads with a [`CacheView`], which says only
//! which outpoints have an entry; threads that have a shard; the flush. Each shard of the map has a
//! lock for many readers or one writer.
//!
//! In reading order:
//! - `entry`: the state machine of an entry;
//! - `log`: what was done, so that it can be taken back;
//! - `shard`: the only way to reach entries that change;
//! - `flush`: the thread that writes frozen entries.

mod entry;
mod flush;
mod log;
mod shard;
#[cfg(test)]
mod tests;

pub use entry::MustBeNew;
pub use flush::FlushError;
pub use log::EntryLog;
pub use shard::{CacheShard, CacheShards, shard_of};

use crate::flush_epoch::{FlushClock, FlushEpoch};
use crate::merged::MergedCoins;
use crate::store::{CoinIterator, CoinStore, OwnedChange, StoreError, Tip};
use blockmill_block::{Coin, OutPoint};
use blockmill_coinmap::{CoinMap, CoinRef, EntryFlags, HashKey, HashedOutPoint};
use flush::{Changed, Flush, FlushJob};
use std::sync::Arc;
use std::time::Duration;

/// The store may say something else than the entry.
const DIRTY: EntryFlags = EntryFlags::bit(0);
/// The store has nothing under the outpoint.
const FRESH: EntryFlags = EntryFlags::bit(1);
/// The store has a coin under the outpoint.
const STORED: EntryFlags = EntryFlags::bit(3);
/// The coin was asked for.
const USED: EntryFlags = EntryFlags::bit(2);

/// Sixteenths of the limit that should be free when a flush begins, for new entries while it runs.
const FREE_AT_FLUSH_16: usize = 5;

/// Bytes that should be free when a flush begins, but at most half of the limit: a few large
/// blocks, and the first memory that the map takes for them.
const FREE_AT_FLUSH_MIN: usize = 7 << 20;

/// Sixteenths of the limit that should be free for new entries between two flushes.
const BETWEEN_FLUSHES_16: usize = 4;

/// What may exist under an outpoint that gets a coin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overwrite {
    /// Nothing. The caller has made sure.
    Impossible,
    /// An unspent coin, which is replaced.
    Possible,
}

/// How often the cache had an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CacheCounters {
    /// Look-ups that the cache answered.
    pub hits: u64,
    /// Look-ups that asked the store.
    pub misses: u64,
}

/// Totals of all flushes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FlushCounters {
    /// Flushes that succeeded.
    pub flushes: u64,
    /// Coins written, and coins removed.
    pub changes: u64,
    /// Coins that stayed in memory after their flush.
    pub kept: u64,
    /// Time of the flush threads.
    pub time: Duration,
}

/// A rule that a test disables, to show that another test depends on it.
#[cfg(test)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rule {
    Resurrection,
    FreshAcrossFlushPoint,
    StaleFetch,
    /// A spend that is taken back leaves the flags that the entry had.
    FlagsTakenBack,
    /// A coin that is taken back leaves the entry that it was created over.
    MarkersTakenBack,
    /// The frozen entries are looked at before the store.
    Frozen,
    /// An outpoint that was seen to be absent in an older epoch is looked for again.
    Epochs,
}

/// A cache over a store. The head of the module has the states of an entry and the rules.
///
/// ```
/// use blockmill_block::{BlockHash, Coin, OutPoint, Txid};
/// use blockmill_coins::{CoinRef, CoinStore, CoinsCache, MemoryStore, Overwrite, Tip};
/// use std::sync::Arc;
///
/// let store = Arc::new(MemoryStore::new());
/// let mut cache = CoinsCache::new(store.clone(), 64 << 20);
/// let outpoint = OutPoint { txid: Txid([7; 32]), vout: 0 };
/// let coin = Coin { value: 5_000, height: 1, is_coinbase: false, script_pubkey: [0x51].into() };
///
/// cache.add(&outpoint, CoinRef::from(&coin), Overwrite::Impossible);
/// assert_eq!(store.get(&outpoint)?, None);
/// let tip = Tip { hash: BlockHash([1; 32]), height: 1 };
/// cache.flush(&tip, || Ok(()))?;
/// assert_eq!(store.get(&outpoint)?, Some(coin.clone()));
/// assert_eq!(cache.spend(&outpoint)?, Some(coin));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct CoinsCache {
    store: Arc<dyn CoinStore>,
    map: Arc<CoinMap>,
    flush: Option<Flush>,
    /// Counts the flushes that have reached the store.
    clock: FlushClock,
    /// The changes of the last finished flush, and the epoch that it began.
    changed: Option<(FlushEpoch, Changed)>,
    limit: usize,
    dirty: usize,
    /// Whether every coin of the store is in the cache: the store was empty, and no coin has left
    /// the cache since.
    complete: bool,
    counters: CacheCounters,
    flush_counters: FlushCounters,
    store_time: Duration,
    #[cfg(test)]
    disabled: Option<Rule>,
}

/// A view of the cache's entries, for threads that decide whether a read from the store is worth
/// it. The answers are hints. The view follows the owner's changes, until entries move to maps that
/// it does not have.
#[derive(Debug, Clone)]
pub struct CacheView {
    live: Arc<CoinMap>,
    frozen: Option<Arc<CoinMap>>,
}

impl CacheView {
    /// Removes the outpoints that the cache has an entry of.
    pub fn retain_unknown(&self, outpoints: &mut Vec<HashedOutPoint>) {
        for map in std::iter::once(&self.live).chain(&self.frozen) {
            let mut known = vec![false; outpoints.len()];
            map.get_many(outpoints, |index, entry| known[index] = entry.is_some());
            let mut index = 0;
            outpoints.retain(|_| {
                index += 1;
                !known[index - 1]
            });
        }
    }
}

impl CoinsCache {
    /// An empty cache over `store`, with a limit of `limit` bytes.
    pub fn new(store: Arc<dyn CoinStore>, limit: usize) -> Self {
        // If the store cannot tell now, reads will report the error.
        let complete = matches!(store.tip(), Ok(None));
        Self {
            store,
            complete,
            map: Arc::new(CoinMap::new()),
            flush: None,
            clock: FlushClock::default(),
            changed: None,
            limit,
            dirty: 0,
            counters: CacheCounters::default(),
            flush_counters: FlushCounters::default(),
            store_time: Duration::ZERO,
            #[cfg(test)]
            disabled: None,
        }
    }

    /// The store.
    pub fn store(&self) -> &Arc<dyn CoinStore> {
        &self.store
    }

    /// Number of entries, spent and frozen entries included.
    pub fn len(&self) -> usize {
        self.map.len() + self.flush.as_ref().map_or(0, |flush| flush.frozen().len())
    }

    /// Whether the cache has no entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of live entries that the next flush writes.
    pub fn dirty_len(&self) -> usize {
        self.dirty
    }

    /// Memory in bytes: all entries, their index, its free memory, and the memory in which a flush
    /// sorts its changes.
    pub fn bytes(&self) -> usize {
        self.map.bytes()
            + self.flush.as_ref().map_or(0, Flush::bytes)
            + self.changed.as_ref().map_or(0, |(_, changed)| changed.bytes())
    }

    /// The limit of the memory in bytes.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Bytes at which a flush should begin.
    fn flush_at(&self) -> usize {
        // While the flush runs, both maps take memory.
        let free = (self.limit / 16 * FREE_AT_FLUSH_16).max(FREE_AT_FLUSH_MIN.min(self.limit / 2));
        self.limit - free
    }

    /// Whether a flush should begin now, so that the cache is not full before the flush has ended.
    pub fn wants_flush(&self) -> bool {
        self.flush.is_none() && self.map.bytes() > self.flush_at()
    }

    /// Whether nothing should be added before a flush has ended.
    pub fn is_full(&self) -> bool {
        self.bytes() > self.limit
    }

    /// Hits and misses so far.
    pub fn counters(&self) -> CacheCounters {
        self.counters
    }

    /// Totals of all flushes so far.
    pub fn flush_counters(&self) -> FlushCounters {
        self.flush_counters
    }

    /// Time that reads from the store have taken so far.
    pub fn store_time(&self) -> Duration {
        self.store_time
    }

    /// The coin of an outpoint; none if it is spent or never existed.
    ///
    /// # Errors
    /// Any [`StoreError`].
    pub fn get(&mut self, outpoint: &OutPoint) -> Result<Option<Coin>, StoreError> {
        let at = self.hashed(outpoint);
        self.change(&at, |shard, log| shard.get(&at, log))
    }

    /// As [`get`](Self::get), for somebody who only looks: nothing is counted or kept.
    ///
    /// # Errors
    /// Any [`StoreError`].
    pub fn peek(&self, outpoint: &OutPoint) -> Result<Option<Coin>, StoreError> {
        let at = self.hashed(outpoint);
        // Live entries first: they are newer than frozen ones.
        if let Some(known) = self.map.with_hashed(&at, |entry| entry.map(|entry| entry.coin())) {
            return Ok(known);
        }
        let frozen = self.flush.as_ref().map(Flush::frozen);
        match frozen.and_then(|frozen| frozen.with_hashed(&at, |entry| entry.map(|entry| entry.coin()))) {
            Some(known) => Ok(known),
            None if self.complete => Ok(None),
            None => self.store.get(outpoint),
        }
    }

    /// The key under which the cache hashes outpoints. It stays the same.
    pub fn hash_key(&self) -> &HashKey {
        self.map.hash_key()
    }

    fn hashed(&self, outpoint: &OutPoint) -> HashedOutPoint {
        self.map.hash_key().hashed(outpoint)
    }

    /// Whether an outpoint has an unspent coin.
    ///
    /// For outpoints that nearly never have a coin: the call is not counted as a hit or a miss, and
    /// the store's answer is not kept. `absent_at` is an epoch at which the store had no coin here.
    /// If that epoch still lasts the store is not asked again.
    ///
    /// # Errors
    /// Any [`StoreError`].
    pub fn contains(&mut self, outpoint: &OutPoint, absent_at: Option<FlushEpoch>) -> Result<bool, StoreError> {
        let at = self.hashed(outpoint);
        self.change(&at, |shard, log| shard.contains(&at, absent_at, log))
    }

    /// Spends the coin of an outpoint and returns it; none if it is spent or never existed.
    ///
    /// # Errors
    /// Any [`StoreError`].
    pub fn spend(&mut self, outpoint: &OutPoint) -> Result<Option<Coin>, StoreError> {
        let at = self.hashed(outpoint);
        self.change(&at, |shard, log| {
            shard.spend(&at, log)?;
            Ok(log.spent().get(0).map(|coin| coin.to_coin()))
        })
    }

    /// Adds a coin. An output that can never be spent is left out.
    pub fn add(&mut self, outpoint: &OutPoint, coin: CoinRef<'_>, overwrite: Overwrite) {
        let at = self.hashed(outpoint);
        self.change(&at, |shard, log| shard.add(&at, coin, overwrite, log));
    }

    /// The epoch of the store. A thread that reads from the store for
    /// [`insert_if_fresh_read`](Self::insert_if_fresh_read) asks for the epoch before it reads.
    pub fn flush_epoch(&self) -> FlushEpoch {
        self.clock.now()
    }

    /// The counter of [`flush_epoch`](Self::flush_epoch), for other threads.
    pub fn flush_clock(&self) -> FlushClock {
        self.clock.clone()
    }

    /// Whether the store may have coins that the cache lacks. If not, the store is never read.
    pub fn may_miss(&self) -> bool {
        !self.complete
    }

    /// A view of the entries, for other threads.
    pub fn view(&self) -> CacheView {
        CacheView {
            live: Arc::clone(&self.map),
            frozen: self.flush.as_ref().map(|flush| Arc::clone(flush.frozen())),
        }
    }

    /// Inserts a coin that was read from the store when its epoch was `read_epoch`. Returns whether
    /// the coin was inserted: not if a later flush may have changed it, nor if the cache has an
    /// entry of the outpoint.
    pub fn insert_if_fresh_read(&mut self, at: &HashedOutPoint, coin: &Coin, read_epoch: FlushEpoch) -> bool {
        #[cfg(test)]
        if self.disabled == Some(Rule::StaleFetch) {
            self.map.insert(at.outpoint(), USED, Some(CoinRef::from(coin)));
            return true;
        }
        let mut shard = self.lock(at);
        // First the frozen entries, then the epoch: see the rule of resurrection.
        if shard.frozen_coin(at).is_some() {
            return false;
        }
        let may_be_stale = self.may_have_changed_since(at, read_epoch);
        #[cfg(test)]
        let may_be_stale = may_be_stale && self.disabled != Some(Rule::Resurrection);
        !may_be_stale && shard.insert_if_absent(at, coin)
    }

    /// Whether the store may say something else of an outpoint than it did at `read_epoch`.
    fn may_have_changed_since(&self, at: &HashedOutPoint, read_epoch: FlushEpoch) -> bool {
        let epoch = self.flush_epoch();
        if epoch == read_epoch {
            return false;
        }
        // One flush has ended since, and its changes are known.
        let changed = self
            .changed
            .as_ref()
            .filter(|&&(last, _)| last == epoch && epoch == read_epoch.next());
        changed.is_none_or(|(_, changed)| changed.may_contain(at.hash()))
    }

    /// All unspent coins of cache and store together, sorted by key.
    ///
    /// # Errors
    /// Any [`StoreError`].
    pub fn coins(&self) -> Result<CoinIterator, StoreError> {
        // From the live entries down: an entry that moves meanwhile is seen twice, never missed.
        let live = changes_in_order(&self.map);
        let frozen = self
            .flush
            .as_ref()
            .map_or_else(Vec::new, |flush| changes_in_order(flush.frozen()));
        let stored = self.store.coins()?;
        Ok(Box::new(MergedCoins::new(
            live.into_iter(),
            MergedCoins::new(frozen.into_iter(), stored),
        )))
    }
}

fn changes_in_order(map: &CoinMap) -> Vec<OwnedChange> {
    let mut changes = Vec::new();
    map.for_each(|entry| {
        if entry.flags().has(DIRTY) {
            changes.push((entry.outpoint(), entry.coin()));
        }
    });
    changes.sort_unstable_by_key(|change| change.0);
    changes
}

/// Flushing.
impl CoinsCache {
    /// Begins to write all changes, and the tip that they lead to, on a thread of its own. `before`
    /// runs first on that thread, for what must be durable before the store changes. Does nothing
    /// during a flush.
    ///
    /// # Errors
    /// [`FlushError::Thread`]; the cache is unchanged.
    pub fn begin_flush(
        &mut self,
        tip: &Tip,
        before: impl FnOnce() -> Result<(), Box<dyn std::error::Error + Send + Sync>> + Send + 'static,
    ) -> Result<(), FlushError> {
        self.begin(tip, before, false)
    }

    fn begin(
        &mut self,
        tip: &Tip,
        before: impl FnOnce() -> Result<(), Box<dyn std::error::Error + Send + Sync>> + Send + 'static,
        thaws: bool,
    ) -> Result<(), FlushError> {
        if self.flush.is_some() {
            return Ok(());
        }
        // One key for both maps: an outpoint is hashed once for both.
        let live = Arc::new(CoinMap::with_key(*self.hash_key()));
        let job = FlushJob {
            thaws,
            store: Arc::clone(&self.store),
            frozen: Arc::clone(&self.map),
            live: Arc::clone(&live),
            clock: self.clock.clone(),
            tip: *tip,
            dirty: self.dirty,
            // The rest stays free for new entries before the next flush is due.
            keep_bytes: self.flush_at() - self.limit / 16 * BETWEEN_FLUSHES_16,
        };
        self.flush = Some(Flush::begin(job, before)?);
        // Promotion may drop coins for lack of room.
        self.complete &= thaws;
        self.map = live;
        self.dirty = 0;
        Ok(())
    }

    /// Whether there is a flush that [`finish_flush`](Self::finish_flush) has not finished.
    pub fn is_flushing(&self) -> bool {
        self.flush.is_some()
    }

    /// Whether there is a flush that can be finished without waiting.
    pub fn is_flush_done(&self) -> bool {
        self.flush.as_ref().is_some_and(Flush::is_done)
    }

    /// Waits for the end of the flush, if there is one. After a failure the cache has all its coins
    /// again, and none of them counts as fresh or stored: nobody knows what the store has.
    ///
    /// # Errors
    /// [`FlushError`]: that of the store, or that of `before`.
    pub fn finish_flush(&mut self) -> Result<(), FlushError> {
        let Some(flush) = self.flush.take() else {
            return Ok(());
        };
        let (frozen, outcome) = flush.finish();
        match outcome {
            Ok(done) => {
                if done.thaws {
                    self.map = frozen;
                }
                self.flush_counters.flushes += 1;
                self.flush_counters.changes += done.changes;
                self.flush_counters.kept += done.kept;
                self.flush_counters.time += done.time;
                // No other flush can have ended since, so this is the epoch that it began.
                self.changed = Some((self.flush_epoch(), done.changed));
                Ok(())
            }
            Err(error) => {
                self.restore_frozen(&frozen);
                Err(error)
            }
        }
    }

    /// Puts frozen entries back where there is no live entry.
    fn restore_frozen(&mut self, frozen: &CoinMap) {
        for shard in 0..blockmill_coinmap::SHARDS {
            self.map.adopt_shard(frozen, shard, |old| Some(old.flags()));
        }
        self.map
            // The batch may or may not be in the store.
            .retain_with_flags(|entry| Some(entry.flags().without(FRESH).without(STORED)));
        self.dirty = 0;
        self.map
            .for_each(|entry| self.dirty += usize::from(entry.flags().has(DIRTY)));
    }

    /// Writes all changes and the tip that they lead to, and waits for the end. A running flush is
    /// finished first. If there is room the coins stay in memory.
    ///
    /// # Errors
    /// As [`finish_flush`](Self::finish_flush).
    pub fn flush(
        &mut self,
        tip: &Tip,
        before: impl FnOnce() -> Result<(), Box<dyn std::error::Error + Send + Sync>> + Send + 'static,
    ) -> Result<(), FlushError> {
        self.finish_flush()?;
        // This call waits, so nothing changes above the frozen map, and it may be live again.
        let thaws = !self.wants_flush();
        self.begin(tip, before, thaws)?;
        self.finish_flush()
    }
}
