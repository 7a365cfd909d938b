//! One fetch: what is wanted, how far it is claimed, and what was found.

use blockmill_block::{Coin, OutPoint};
use blockmill_coins::{CoinStore, FlushClock, FlushEpoch};
use blockmill_pool::contain;
use blockmill_sync::{ManualResetEvent, Mutex};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The outpoints of a fetch. Which of them are worth a read is decided by who serves a range of them, at that moment.
pub trait Wanted: Send + Sync {
    /// How many places there are.
    fn places(&self) -> usize;

    /// Appends the outpoints of these places that should be read. It may leave out any, and is called at most once for each place.
    fn outpoints(&self, places: Range<usize>, wanted: &mut Vec<OutPoint>);
}

impl Wanted for Vec<OutPoint> {
    fn places(&self) -> usize {
        self.len()
    }

    fn outpoints(&self, places: Range<usize>, wanted: &mut Vec<OutPoint>) {
        wanted.extend_from_slice(&self[places]);
    }
}

/// A coin that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetched {
    /// Its outpoint.
    pub outpoint: OutPoint,
    /// What the store had.
    pub coin: Coin,
    /// Flushes that had reached the store before the read began.
    pub read_epoch: FlushEpoch,
}

/// What a fetch came to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Found {
    /// The coins, in the order of the places.
    pub coins: Vec<Fetched>,
    /// Whether the store was asked for everything that was wanted, and answered.
    pub complete: bool,
    /// Flushes that had reached the store when the fetch began: before any of its reads.
    pub begin_epoch: FlushEpoch,
}

/// What a range came to.
pub(crate) struct RangeRead {
    /// Keys that the store was asked for.
    pub(crate) keys: usize,
    /// Of those, how many it had.
    pub(crate) found: usize,
    /// Whether the read failed.
    pub(crate) failed: bool,
}

/// A fetch under way.
pub(crate) struct Job {
    wanted: Box<dyn Wanted>,
    places: usize,
    /// The first place that nobody has claimed.
    claimed: AtomicUsize,
    /// Places whose range is done.
    done: AtomicUsize,
    cancelled: AtomicBool,
    failed: AtomicBool,
    begin_epoch: FlushEpoch,
    /// Set when all places are done.
    all_done: ManualResetEvent,
    /// Ranges by their first places.
    found: Mutex<Vec<(usize, Vec<Fetched>)>>,
}

impl Job {
    pub(crate) fn new(wanted: Box<dyn Wanted>, begin_epoch: FlushEpoch) -> Self {
        let places = wanted.places();
        let job = Self {
            wanted,
            places,
            claimed: AtomicUsize::new(0),
            done: AtomicUsize::new(0),
            cancelled: AtomicBool::new(false),
            failed: AtomicBool::new(false),
            begin_epoch,
            all_done: ManualResetEvent::new(),
            found: Mutex::new(Vec::new()),
        };
        if places == 0 {
            job.all_done.set();
        }
        job
    }

    /// Places that nobody has claimed.
    pub(crate) fn unclaimed(&self) -> usize {
        self.places.saturating_sub(self.claimed.load(Ordering::Relaxed))
    }

    /// Claims the next range of at most so many places.
    pub(crate) fn claim(&self, most: usize) -> Option<Range<usize>> {
        // A claim says only who serves what; the places themselves do not change.
        let claim = |claimed: usize| (claimed < self.places).then(|| self.places.min(claimed + most));
        let start = self
            .claimed
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, claim)
            .ok()?;
        Some(start..self.places.min(start + most))
    }

    /// Reads a range that was claimed. A panic of the store or of what is wanted counts as a failed read.
    pub(crate) fn read(&self, range: Range<usize>, store: &dyn CoinStore, clock: &FlushClock) -> RangeRead {
        let mut read = RangeRead {
            keys: 0,
            found: 0,
            failed: false,
        };
        if !self.cancelled.load(Ordering::Relaxed) {
            match contain(|| self.read_range(range.clone(), store, clock)) {
                Ok((keys, found)) => {
                    read.keys = keys;
                    read.failed = found.is_none();
                    let found = found.unwrap_or_default();
                    read.found = found.len();
                    if !found.is_empty() {
                        self.found.lock().push((range.start, found));
                    }
                }
                Err(_) => read.failed = true,
            }
        }
        if read.failed {
            self.failed.store(true, Ordering::Relaxed);
        }
        let places = range.end - range.start;
        // AcqRel: who does the last range sets the event, and whoever sees that sees what all ranges have found.
        if self.done.fetch_add(places, Ordering::AcqRel) + places == self.places {
            self.all_done.set();
        }
        read
    }

    /// How many keys were asked for, and what was found; none if the store failed.
    fn read_range(
        &self,
        range: Range<usize>,
        store: &dyn CoinStore,
        clock: &FlushClock,
    ) -> (usize, Option<Vec<Fetched>>) {
        let mut outpoints = Vec::with_capacity(range.len());
        self.wanted.outpoints(range, &mut outpoints);
        if outpoints.is_empty() {
            return (0, Some(Vec::new()));
        }
        // Before the read: a flush that ends during it makes what is found doubtful. Acquire: as `CoinsCache::flush_number`.
        let read_epoch = clock.now();
        let mut coins = Vec::with_capacity(outpoints.len());
        if store.get_many(&outpoints, &mut coins).is_err() {
            return (outpoints.len(), None);
        }
        let keys = outpoints.len();
        let found = outpoints.into_iter().zip(coins).filter_map(|(outpoint, coin)| {
            coin.map(|coin| Fetched {
                outpoint,
                coin,
                read_epoch,
            })
        });
        (keys, Some(found.collect()))
    }

    pub(crate) fn is_done(&self) -> bool {
        // Acquire: pairs with the AcqRel in `read`.
        self.done.load(Ordering::Acquire) == self.places
    }

    pub(crate) fn wait(&self) {
        self.all_done.wait();
    }

    /// Keeps ranges that were not begun from being read. Returns how many places that are.
    pub(crate) fn cancel(&self) -> usize {
        self.cancelled.store(true, Ordering::Relaxed);
        let claimed = self.claimed.swap(self.places, Ordering::Relaxed);
        self.places - claimed
    }

    /// Takes out what was found, when all is done.
    pub(crate) fn take_found(&self) -> Found {
        let mut ranges = std::mem::take(&mut *self.found.lock());
        ranges.sort_unstable_by_key(|range| range.0);
        Found {
            coins: ranges.into_iter().flat_map(|(_, found)| found).collect(),
            complete: !self.failed.load(Ordering::Relaxed),
            begin_epoch: self.begin_epoch,
        }
    }
}

/// A job that is shared between its owner and those who serve it.
pub(crate) type SharedJob = Arc<Job>;
