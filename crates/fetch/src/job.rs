//! One fetch: the wanted items, how many are claimed, and what was found.

use blockmill_block::{Coin, OutPoint};
use blockmill_coins::{CoinStore, FlushClock, FlushEpoch, HashedOutPoint};
use blockmill_pool::contain;
use blockmill_sync::{ManualResetEvent, Mutex};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The items of a fetch. Each item stands for some outpoints. The thread that serves a range of
/// items decides at that moment which of their outpoints are worth a read.
pub trait Wanted: Send + Sync {
    /// Number of items.
    fn items(&self) -> usize;

    /// Appends the outpoints of a range of items to `wanted`. May leave out any outpoint. Called at
    /// most once for each item.
    fn outpoints(&self, items: Range<usize>, wanted: &mut Vec<HashedOutPoint>);
}

impl Wanted for Vec<HashedOutPoint> {
    fn items(&self) -> usize {
        self.len()
    }

    fn outpoints(&self, items: Range<usize>, wanted: &mut Vec<HashedOutPoint>) {
        wanted.extend_from_slice(&self[items]);
    }
}

/// A coin that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetched {
    /// Its outpoint, with the hash that it was wanted with.
    pub at: HashedOutPoint,
    /// The coin in the store.
    pub coin: Coin,
    /// The epoch of the store before the read began.
    pub read_epoch: FlushEpoch,
}

/// The result of a fetch.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FoundCoins {
    /// The coins, in the order of the items.
    pub coins: Vec<Fetched>,
    /// Whether the store answered for every wanted outpoint.
    pub complete: bool,
    /// The epoch of the store when the fetch began, before any of its reads.
    pub begin_epoch: FlushEpoch,
}

/// The memory that the found coins of all fetches may take together.
#[derive(Debug)]
pub(crate) struct CoinRoom {
    bytes_max: usize,
    used: AtomicUsize,
}

impl CoinRoom {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self {
            bytes_max,
            used: AtomicUsize::new(0),
        }
    }

    // Relaxed: the number bounds memory, and nothing is read because of it.
    fn is_full(&self) -> bool {
        self.used.load(Ordering::Relaxed) >= self.bytes_max
    }
}

/// The result of a range.
pub(crate) struct RangeRead {
    /// Keys that were looked up in the store.
    pub(crate) keys: usize,
    /// Keys that the store had.
    pub(crate) found: usize,
    /// Whether the read failed.
    pub(crate) failed: bool,
}

/// A running fetch.
pub(crate) struct FetchJob {
    wanted: Box<dyn Wanted>,
    items: usize,
    /// The first unclaimed item.
    claimed: AtomicUsize,
    /// Items whose range is done.
    done: AtomicUsize,
    cancelled: AtomicBool,
    failed: AtomicBool,
    begin_epoch: FlushEpoch,
    room: Arc<CoinRoom>,
    /// What its coins take of the room.
    bytes: AtomicUsize,
    /// Set when all items are done.
    all_done: ManualResetEvent,
    /// Results of ranges, each with the first item of its range.
    found: Mutex<Vec<(usize, Vec<Fetched>)>>,
}

impl FetchJob {
    pub(crate) fn new(wanted: Box<dyn Wanted>, begin_epoch: FlushEpoch, room: Arc<CoinRoom>) -> Self {
        let items = wanted.items();
        let job = Self {
            wanted,
            items,
            claimed: AtomicUsize::new(0),
            done: AtomicUsize::new(0),
            cancelled: AtomicBool::new(false),
            failed: AtomicBool::new(false),
            begin_epoch,
            room,
            bytes: AtomicUsize::new(0),
            all_done: ManualResetEvent::new(),
            found: Mutex::new(Vec::new()),
        };
        // No range would ever end it.
        if items == 0 {
            job.all_done.set();
        }
        job
    }

    /// Number of unclaimed items.
    pub(crate) fn unclaimed(&self) -> usize {
        self.items.saturating_sub(self.claimed.load(Ordering::Relaxed))
    }

    /// Claims the next range, of at most `items_max` items.
    pub(crate) fn claim(&self, items_max: usize) -> Option<Range<usize>> {
        // A claim only assigns items to threads. The items themselves do not change.
        let claim = |claimed: usize| (claimed < self.items).then(|| self.items.min(claimed + items_max));
        let start = self
            .claimed
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, claim)
            .ok()?;
        Some(start..self.items.min(start + items_max))
    }

    /// Reads a claimed range. A panic of the store or of the wanted items counts as a failed read.
    /// Where there is no room for its coins, nothing is read, and the result is incomplete.
    /// [`end_range`](Self::end_range) has to follow.
    pub(crate) fn read(&self, range: Range<usize>, store: &dyn CoinStore, clock: &FlushClock) -> RangeRead {
        let mut read = RangeRead {
            keys: 0,
            found: 0,
            failed: false,
        };
        if self.room.is_full() {
            self.failed.store(true, Ordering::Relaxed);
        } else if !self.cancelled.load(Ordering::Relaxed) {
            let start = range.start;
            match contain(|| self.read_range(range, store, clock)) {
                Ok((keys, found)) => {
                    read.keys = keys;
                    read.failed = found.is_none();
                    let found = found.unwrap_or_default();
                    read.found = found.len();
                    self.take_room(&found);
                    if !found.is_empty() {
                        self.found.lock().push((start, found));
                    }
                }
                Err(_) => read.failed = true,
            }
        }
        if read.failed {
            self.failed.store(true, Ordering::Relaxed);
        }
        read
    }

    /// Ends a range that was read. The owner may go on after the last one.
    pub(crate) fn end_range(&self, items: usize) {
        // AcqRel: the thread with the last range sets the event. Whoever sees the event sees what
        // all ranges have found.
        if self.done.fetch_add(items, Ordering::AcqRel) + items == self.items {
            self.all_done.set();
        }
    }

    fn take_room(&self, found: &[Fetched]) {
        let bytes = found
            .iter()
            .map(|fetched| size_of::<Fetched>() + fetched.coin.script_pubkey.len())
            .sum();
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.room.used.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The number of keys that were looked up, and the coins found; none if the store failed.
    fn read_range(
        &self,
        range: Range<usize>,
        store: &dyn CoinStore,
        clock: &FlushClock,
    ) -> (usize, Option<Vec<Fetched>>) {
        let mut wanted = Vec::with_capacity(range.len());
        self.wanted.outpoints(range, &mut wanted);
        if wanted.is_empty() {
            return (0, Some(Vec::new()));
        }
        let outpoints: Vec<OutPoint> = wanted.iter().map(|at| *at.outpoint()).collect();
        // Before the read: a flush that ends during the read makes its result doubtful.
        let read_epoch = clock.now();
        let mut coins = Vec::with_capacity(outpoints.len());
        if store.get_many(&outpoints, &mut coins).is_err() {
            return (outpoints.len(), None);
        }
        let keys = wanted.len();
        let found = wanted
            .into_iter()
            .zip(coins)
            .filter_map(|(at, coin)| coin.map(|coin| Fetched { at, coin, read_epoch }));
        (keys, Some(found.collect()))
    }

    pub(crate) fn is_done(&self) -> bool {
        // Acquire: pairs with the AcqRel in `read`.
        self.done.load(Ordering::Acquire) == self.items
    }

    pub(crate) fn wait(&self) {
        self.all_done.wait();
    }

    /// Cancels the ranges that have not begun. Returns the number of their items.
    pub(crate) fn cancel(&self) -> usize {
        self.cancelled.store(true, Ordering::Relaxed);
        // All items count as claimed now, so nobody claims any.
        let claimed = self.claimed.swap(self.items, Ordering::Relaxed);
        self.items - claimed
    }

    /// Takes what was found. For when all items are done.
    pub(crate) fn take_found(&self) -> FoundCoins {
        let mut ranges = std::mem::take(&mut *self.found.lock());
        ranges.sort_unstable_by_key(|range| range.0);
        FoundCoins {
            coins: ranges.into_iter().flat_map(|(_, found)| found).collect(),
            // Relaxed: whoever knows that all items are done sees it.
            complete: !self.failed.load(Ordering::Relaxed),
            begin_epoch: self.begin_epoch,
        }
    }
}

impl Drop for FetchJob {
    fn drop(&mut self) {
        self.room.used.fetch_sub(*self.bytes.get_mut(), Ordering::Relaxed);
    }
}

/// A job, shared by its owner and the threads that serve it.
pub(crate) type SharedJob = Arc<FetchJob>;
