//! The coins cache: what has changed since the last flush, what is being written at the moment, and what was read lately.
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
//! A fresh coin that is spent is dropped, and the store never hears of it.
//!
//! # The flush point
//!
//! A flush freezes the entries as they are: they become a map of their own, which nobody writes, and an empty one takes their
//! place. A thread writes what is dirty among the frozen ones, in one batch, in the order of the keys, while the cache goes on above them.
//! An outpoint is looked up above, then among the frozen, then in the store.
//!
//! | state of a flush | the frozen entries | the store | ends by |
//! |---|---|---|---|
//! | writing | as they were frozen | before or after the batch, for them only | the commit |
//! | thawing | move up, or go | has the batch | the last one gone |
//! | failed | as they were frozen | not known | [`CoinsCache::finish_flush`], which takes them back |
//!
//! # Rules
//!
//! - *Resurrection.* A coin that was read from the store is offered with the number of flushes at the time before it was read. If one has ended
//!   since, it is refused: the coin may have been spent, and its marker written and gone. Both are looked up in this order: frozen
//!   entries, number of flushes. The thread counts the flush before the first marker goes, so who sees no marker sees the count. Of the last flush
//!   that was finished it is known what it has changed; what was read before it and is not among that is taken.
//! - *Fresh across the flush point.* What is spent above although it was made below leaves a marker, fresh or not: the batch may bring it into
//!   the store.
//! - *Stale fetch.* An offered coin never takes the place of an entry, frozen or not, and neither does one that thaws.
//!
//! The cache has one writer, its owner; beside it only thawing coins come in, each only where nothing stands.

mod flush;
#[cfg(test)]
mod tests;

pub use flush::FlushError;

use crate::flush_epoch::{FlushClock, FlushEpoch};
use crate::merged::Merged;
use crate::store::{Change, CoinIterator, CoinStore, StoreError, Tip};
use blockmill_block::{Coin, OutPoint, coin};
use blockmill_coinmap::{CoinMap, CoinRef, EntryFlags, Update};
use flush::{Changed, Flush, Job};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The store does not know what the entry says.
const DIRTY: EntryFlags = EntryFlags::bit(0);
/// The store has nothing under the outpoint.
const FRESH: EntryFlags = EntryFlags::bit(1);
/// Somebody has asked for the coin.
const USED: EntryFlags = EntryFlags::bit(2);

/// Sixteenths of the limit that should be free when a flush begins, for what comes while it goes on.
const ROOM_16: usize = 5;

/// Bytes that should be free then if that is less than half of the limit: a few large blocks, and the first memory of the map for them.
const ROOM_MIN: usize = 7 << 20;

/// Sixteenths of the limit that should be free for what comes between two flushes.
const BETWEEN_16: usize = 4;

/// What may already stand under an outpoint that gets a coin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overwrite {
    /// Nothing: the caller has made sure of that.
    Impossible,
    /// An unspent coin, which is then replaced.
    Possible,
}

/// How often the cache had what was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CacheCounters {
    /// Look-ups that the cache answered.
    pub hits: u64,
    /// Look-ups that went to the store.
    pub misses: u64,
}

impl CacheCounters {
    /// What was counted since then.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            hits: self.hits - before.hits,
            misses: self.misses - before.misses,
        }
    }
}

/// What flushes have done so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FlushCounters {
    /// Flushes that ended well.
    pub flushes: u64,
    /// Coins written and coins removed.
    pub changes: u64,
    /// Coins that stayed in memory afterwards.
    pub kept: u64,
    /// Time that their threads took.
    pub time: Duration,
}

/// A rule that a test takes out, to show that another test would see it.
#[cfg(test)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rule {
    Resurrection,
    FreshAcrossFlushPoint,
    StaleFetch,
}

/// A cache over a store.
pub struct CoinsCache {
    store: Arc<dyn CoinStore>,
    map: Arc<CoinMap>,
    flush: Option<Flush>,
    /// Counts the flushes that have reached the store.
    clock: FlushClock,
    /// What the last one that was finished has changed, and its number.
    changed: Option<(FlushEpoch, Changed)>,
    limit: usize,
    dirty: usize,
    /// Whether the store has nothing that is not here: it was empty, and no coin has left the cache since.
    complete: bool,
    counters: CacheCounters,
    flush_counters: FlushCounters,
    store_time: Duration,
    #[cfg(test)]
    without: Option<Rule>,
}

/// The entries of a cache, for threads that want to know whether a read from the store is worth it. What it says is a hint: it sees what
/// the owner does, until entries leave the maps that it knows.
#[derive(Debug, Clone)]
pub struct CacheView {
    above: Arc<CoinMap>,
    frozen: Option<Arc<CoinMap>>,
}

impl CacheView {
    /// Leaves those outpoints of which the cache knows nothing, in any order.
    pub fn retain_unknown(&self, outpoints: &mut Vec<OutPoint>) {
        for map in std::iter::once(&self.above).chain(&self.frozen) {
            let mut known = vec![false; outpoints.len()];
            map.get_many(outpoints, |place, entry| known[place] = entry.is_some());
            let mut place = 0;
            outpoints.retain(|_| {
                place += 1;
                !known[place - 1]
            });
        }
    }
}

/// What the entries above the flush point know of an outpoint.
enum Above {
    Unspent(Coin),
    Spent,
    Nothing,
}

impl CoinsCache {
    /// An empty cache over `store` that is to take no more than `limit` bytes.
    pub fn new(store: Arc<dyn CoinStore>, limit: usize) -> Self {
        // If it does not say, reads will.
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
            without: None,
        }
    }

    /// The store below.
    pub fn store(&self) -> &Arc<dyn CoinStore> {
        &self.store
    }

    /// Entries, spent and frozen ones included.
    pub fn len(&self) -> usize {
        self.map.len() + self.flush.as_ref().map_or(0, |flush| flush.frozen().len())
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Entries above the flush point that the next flush writes.
    pub fn dirty_len(&self) -> usize {
        self.dirty
    }

    /// Memory in bytes: all entries, their index, the room that is kept free, and what a flush takes to sort its changes.
    pub fn bytes(&self) -> usize {
        self.map.bytes()
            + self.flush.as_ref().map_or(0, Flush::bytes)
            + self.changed.as_ref().map_or(0, |(_, changed)| changed.bytes())
    }

    /// The limit in bytes.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Bytes at which a flush should begin.
    fn flush_at(&self) -> usize {
        let room = (self.limit / 16 * ROOM_16).max(ROOM_MIN.min(self.limit / 2));
        self.limit - room
    }

    /// Whether it is time for a flush, so that the cache need not wait for it when it is full.
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

    /// What flushes have done so far.
    pub fn flush_counters(&self) -> FlushCounters {
        self.flush_counters
    }

    /// Time spent on reads from the store so far.
    pub fn store_time(&self) -> Duration {
        self.store_time
    }

    /// What the frozen entries know of an outpoint: nothing, that it is spent, or its coin.
    fn frozen(&self, outpoint: &OutPoint) -> Option<Option<Coin>> {
        let flush = self.flush.as_ref()?;
        flush.frozen().with(outpoint, |entry| entry.map(|entry| entry.coin()))
    }

    fn read_store(&mut self, outpoint: &OutPoint) -> Result<Option<Coin>, StoreError> {
        if self.complete {
            return Ok(None);
        }
        let start = Instant::now();
        let found = self.store.get(outpoint);
        self.store_time += start.elapsed();
        found
    }

    /// The coin of an outpoint, if it is unspent.
    ///
    /// # Errors
    /// Any [`StoreError`].
    pub fn get(&mut self, outpoint: &OutPoint) -> Result<Option<Coin>, StoreError> {
        let above = self.map.update(outpoint, |entry| match entry {
            None => (Update::Keep, Above::Nothing),
            Some(entry) => match entry.coin() {
                None => (Update::Keep, Above::Spent),
                Some(coin) => (Update::SetFlags(entry.flags().with(USED)), Above::Unspent(coin)),
            },
        });
        self.counters.hits += 1;
        match above {
            Above::Unspent(coin) => return Ok(Some(coin)),
            Above::Spent => return Ok(None),
            Above::Nothing => {}
        }
        if let Some(known) = self.frozen(outpoint) {
            return Ok(known);
        }
        self.counters.hits -= 1;
        self.counters.misses += 1;
        let found = self.read_store(outpoint)?;
        if let Some(coin) = &found {
            self.insert_if_absent(outpoint, coin);
        }
        Ok(found)
    }

    /// Begins to bring the entries of these outpoints into the processor's caches: for a few dozen that are asked for soon after.
    pub fn prefetch(&self, outpoints: &[OutPoint]) {
        self.map.prefetch(outpoints);
    }

    fn insert_if_absent(&self, outpoint: &OutPoint, coin: &Coin) -> bool {
        self.map.update(outpoint, |entry| match entry {
            None => (Update::Put(USED, Some(CoinRef::from(coin))), true),
            Some(_) => (Update::Keep, false),
        })
    }

    /// Whether an outpoint has an unspent coin. This is for outpoints that hardly ever have one: it does not count as a
    /// hit or a miss, and nothing is kept of what the store says. `absent_at` says that the store had none when so many flushes had reached
    /// it; if there has been none since it is not asked again.
    ///
    /// # Errors
    /// Any [`StoreError`].
    pub fn contains(&mut self, outpoint: &OutPoint, absent_at: Option<FlushEpoch>) -> Result<bool, StoreError> {
        if let Some(unspent) = self.map.with(outpoint, |entry| entry.map(|entry| !entry.is_spent())) {
            return Ok(unspent);
        }
        if let Some(known) = self.frozen(outpoint) {
            return Ok(known.is_some());
        }
        // Looked up after the frozen entries: see the rule of resurrection.
        if absent_at == Some(self.flush_epoch()) {
            return Ok(false);
        }
        Ok(self.read_store(outpoint)?.is_some())
    }

    /// Takes the coin of an outpoint, if it is unspent.
    ///
    /// # Errors
    /// Any [`StoreError`].
    pub fn spend(&mut self, outpoint: &OutPoint) -> Result<Option<Coin>, StoreError> {
        let mut change = 0;
        let above = self.map.update(outpoint, |entry| {
            let Some(entry) = entry else {
                return (Update::Keep, Above::Nothing);
            };
            let Some(coin) = entry.coin() else {
                return (Update::Keep, Above::Spent);
            };
            let was_dirty = isize::from(entry.flags().has(DIRTY));
            if entry.flags().has(FRESH) {
                change = -was_dirty;
                (Update::Remove, Above::Unspent(coin))
            } else {
                change = 1 - was_dirty;
                (Update::Put(DIRTY, None), Above::Unspent(coin))
            }
        });
        self.dirty = self.dirty.wrapping_add_signed(change);
        self.counters.hits += 1;
        match above {
            Above::Unspent(coin) => return Ok(Some(coin)),
            Above::Spent => return Ok(None),
            Above::Nothing => {}
        }
        let known = match self.frozen(outpoint) {
            Some(known) => known,
            None => {
                self.counters.hits -= 1;
                self.counters.misses += 1;
                self.read_store(outpoint)?
            }
        };
        if known.is_some() && !self.needs_no_marker(outpoint) {
            // A coin may have thawed in between: it is the same one, and not dirty.
            self.map.insert(outpoint, DIRTY, None);
            self.dirty += 1;
        }
        Ok(known)
    }

    /// False: every coin from below the flush point leaves a marker.
    #[cfg_attr(not(test), expect(clippy::unused_self, reason = "tests take the rule out here"))]
    fn needs_no_marker(&self, _outpoint: &OutPoint) -> bool {
        #[cfg(test)]
        if self.without == Some(Rule::FreshAcrossFlushPoint) {
            let fresh = |flush: &Flush| {
                let is_fresh = |entry: Option<blockmill_coinmap::EntryRef<'_>>| {
                    entry.is_some_and(|entry| entry.flags().has(FRESH))
                };
                flush.frozen().with(_outpoint, is_fresh)
            };
            return self.flush.as_ref().is_some_and(fresh);
        }
        false
    }

    /// Puts a coin in. An output that can never be spent is left out.
    pub fn add(&mut self, outpoint: &OutPoint, coin: CoinRef<'_>, overwrite: Overwrite) {
        if coin::is_unspendable(coin.script_pubkey) {
            return;
        }
        let was_dirty = self.map.update(outpoint, |entry| {
            let (was_dirty, fresh) = match entry {
                None => (false, overwrite == Overwrite::Impossible),
                // What is spent here may still stand in the store, so this coin is not fresh unless it was.
                Some(entry) => (entry.flags().has(DIRTY), entry.flags().has(FRESH)),
            };
            let flags = if fresh { DIRTY.with(FRESH) } else { DIRTY };
            (Update::Put(flags, Some(coin)), was_dirty)
        });
        self.dirty += usize::from(!was_dirty);
    }

    /// Flushes that have reached the store. Who reads from it to [`offer`](Self::offer) what it finds asks for this before.
    pub fn flush_epoch(&self) -> FlushEpoch {
        self.clock.now()
    }

    /// A counter that other threads can ask for [`flush_number`](Self::flush_number), with Acquire.
    pub fn flush_clock(&self) -> FlushClock {
        self.clock.clone()
    }

    /// Whether the store may have coins that the cache has not. If not it is never read.
    pub fn may_miss(&self) -> bool {
        !self.complete
    }

    /// What other threads may ask of the cache while it goes on.
    pub fn view(&self) -> CacheView {
        CacheView {
            above: Arc::clone(&self.map),
            frozen: self.flush.as_ref().map(|flush| Arc::clone(flush.frozen())),
        }
    }

    /// Takes a coin in that somebody has read from the store, when the number of flushes was `read_at`. Returns whether it was taken:
    /// not if a flush since may have changed it, or if anything is known of the outpoint already.
    pub fn insert_if_fresh_read(&mut self, outpoint: &OutPoint, coin: &Coin, read_epoch: FlushEpoch) -> bool {
        #[cfg(test)]
        if self.without == Some(Rule::StaleFetch) {
            self.map.insert(outpoint, USED, Some(CoinRef::from(coin)));
            return true;
        }
        // First the frozen entries, then the number: see the rule of resurrection.
        if self.frozen(outpoint).is_some() {
            return false;
        }
        let may_be_stale = self.may_have_changed_since(outpoint, read_epoch);
        #[cfg(test)]
        let may_be_stale = may_be_stale && self.without != Some(Rule::Resurrection);
        !may_be_stale && self.insert_if_absent(outpoint, coin)
    }

    /// Whether the store may say something else of an outpoint than it did when the number of flushes was `read_at`.
    fn may_have_changed_since(&self, outpoint: &OutPoint, read_epoch: FlushEpoch) -> bool {
        let epoch = self.flush_epoch();
        if epoch == read_epoch {
            return false;
        }
        // One flush has ended since, and it is known what it has changed.
        let changed = self
            .changed
            .as_ref()
            .filter(|&&(last, _)| last == epoch && epoch == read_epoch.next());
        changed.is_none_or(|(_, changed)| changed.may_have(outpoint))
    }

    /// All unspent coins, of cache and store together, in the order of their keys.
    ///
    /// # Errors
    /// Any [`StoreError`].
    pub fn coins(&self) -> Result<CoinIterator, StoreError> {
        // From above to below, so that what moves meanwhile is seen twice and not missed.
        let above = changes_in_order(&self.map);
        let frozen = self
            .flush
            .as_ref()
            .map_or_else(Vec::new, |flush| changes_in_order(flush.frozen()));
        let stored = self.store.coins()?;
        Ok(Box::new(Merged::new(
            above.into_iter(),
            Merged::new(frozen.into_iter(), stored),
        )))
    }
}

fn changes_in_order(map: &CoinMap) -> Vec<Change> {
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
    /// Begins to write all changes with the tip that they lead to, on a thread of its own. `before` runs on it first: what
    /// must be durable before the store moves on. Nothing happens if a flush is going on.
    ///
    /// # Errors
    /// [`FlushError::Thread`]; the cache is as it was.
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
        in_place: bool,
    ) -> Result<(), FlushError> {
        if self.flush.is_some() {
            return Ok(());
        }
        let above = Arc::new(CoinMap::new());
        let job = Job {
            in_place,
            store: Arc::clone(&self.store),
            frozen: Arc::clone(&self.map),
            above: Arc::clone(&above),
            clock: self.clock.clone(),
            tip: *tip,
            keep_bytes: self.flush_at() - self.limit / 16 * BETWEEN_16,
        };
        self.flush = Some(Flush::begin(job, before)?);
        self.complete &= in_place;
        self.map = above;
        self.dirty = 0;
        Ok(())
    }

    /// Whether a flush is going on, or has ended and was not finished.
    pub fn is_flushing(&self) -> bool {
        self.flush.is_some()
    }

    /// Whether there is a flush that can be finished without waiting.
    pub fn is_flush_done(&self) -> bool {
        self.flush.as_ref().is_some_and(Flush::is_done)
    }

    /// Waits for the end of the flush, if there is one. When it has failed the cache has all the coins that it had, and takes none for fresh:
    /// who knows what the store has got.
    ///
    /// # Errors
    /// [`FlushError`]: that of the store, or of what had to be done before.
    pub fn finish_flush(&mut self) -> Result<(), FlushError> {
        let Some(flush) = self.flush.take() else {
            return Ok(());
        };
        let (frozen, outcome) = flush.end();
        match outcome {
            Ok(done) => {
                if done.in_place {
                    self.map = frozen;
                }
                self.flush_counters.flushes += 1;
                self.flush_counters.changes += done.changes;
                self.flush_counters.kept += done.kept;
                self.flush_counters.time += done.time;
                self.changed = Some((self.flush_epoch(), done.changed));
                Ok(())
            }
            Err(error) => {
                self.take_back(&frozen);
                Err(error)
            }
        }
    }

    /// Puts frozen entries back where nothing stands above them.
    fn take_back(&mut self, frozen: &CoinMap) {
        for shard in 0..blockmill_coinmap::SHARDS {
            frozen.drain_shard(shard, |old| {
                let coin = old.coin();
                let back = Update::Put(old.flags(), coin.as_ref().map(CoinRef::from));
                self.map.update(&old.outpoint(), |entry| match entry {
                    None => (back, ()),
                    Some(_) => (Update::Keep, ()),
                });
            });
        }
        self.map.retain_with_flags(|entry| Some(entry.flags().without(FRESH)));
        self.dirty = 0;
        self.map
            .for_each(|entry| self.dirty += usize::from(entry.flags().has(DIRTY)));
    }

    /// Writes all changes with the tip that they lead to, and waits for it: for that of an earlier flush too. While there is room coins stay
    /// where they are.
    ///
    /// # Errors
    /// [`FlushError`], as [`finish_flush`](Self::finish_flush).
    pub fn flush(
        &mut self,
        tip: &Tip,
        before: impl FnOnce() -> Result<(), Box<dyn std::error::Error + Send + Sync>> + Send + 'static,
    ) -> Result<(), FlushError> {
        self.finish_flush()?;
        let in_place = !self.wants_flush();
        self.begin(tip, before, in_place)?;
        self.finish_flush()
    }
}
