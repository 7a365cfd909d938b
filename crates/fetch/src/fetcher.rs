//! The fetcher: fetches in a row, workers of a pool and readers that serve them.

use crate::job::{Found, Job, SharedJob, Wanted};
use crate::pace::Pace;
use blockmill_coins::{CoinStore, FlushClock};
use blockmill_pool::{Panic, ThreadPool, WorkSource, WorkSourceHandle};
use blockmill_sync::{Mutex, Semaphore};
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Places that are claimed at once when reads are fast.
const RANGE_FAST: usize = 64;

/// Places that are claimed at once as long as that is not sure: few, so that it shows soon, and that many readers share a block.
const RANGE_SMALL: usize = 8;

/// How a fetcher is to work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Threads of its own, for reads that block. With 0 the pool does all reads.
    pub readers: usize,
}

impl Default for Options {
    /// 16 readers.
    fn default() -> Self {
        Self { readers: 16 }
    }
}

/// What a fetcher has done so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Statistics {
    /// Keys that the store was asked for.
    pub keys: u64,
    /// Of those, how many it had.
    pub found: u64,
    /// Batches in which it was asked.
    pub batches: u64,
    /// Batches that failed.
    pub failed: u64,
    /// Batches done by readers.
    pub by_readers: u64,
    /// Time that threads spent on batches, added up.
    pub time: Duration,
    /// Most batches in flight at once.
    pub in_flight_max: usize,
}

impl Statistics {
    /// What was done since then. The maximum is that of all.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            keys: self.keys - before.keys,
            found: self.found - before.found,
            batches: self.batches - before.batches,
            failed: self.failed - before.failed,
            by_readers: self.by_readers - before.by_readers,
            time: self.time.saturating_sub(before.time),
            in_flight_max: self.in_flight_max,
        }
    }
}

#[derive(Debug, Default)]
struct Counters {
    keys: AtomicU64,
    found: AtomicU64,
    batches: AtomicU64,
    failed: AtomicU64,
    by_readers: AtomicU64,
    time_ns: AtomicU64,
    in_flight: AtomicUsize,
    in_flight_max: AtomicUsize,
}

struct Shared {
    store: Arc<dyn CoinStore>,
    clock: FlushClock,
    /// Fetches with places to claim, the oldest first; some may have none left.
    jobs: Mutex<VecDeque<SharedJob>>,
    /// Places to claim, of all fetches: a hint.
    unclaimed: AtomicUsize,
    pace: Pace,
    /// Ranges that readers may look for; there may be fewer.
    ranges: Semaphore,
    readers_max: usize,
    /// Readers that were started: none before they are needed.
    readers: Mutex<Vec<JoinHandle<()>>>,
    reading: AtomicUsize,
    stop: AtomicBool,
    counters: Counters,
}

impl Shared {
    /// Whether readers do the reads.
    fn blocks(&self) -> bool {
        self.pace.blocks() && self.reading.load(Ordering::Relaxed) > 0
    }

    /// Starts the readers if they are wanted for the first time. If the system has no more threads the others go on without.
    fn start_readers(self: &Arc<Self>) {
        if !self.pace.blocks() || self.readers_max == 0 || self.reading.load(Ordering::Relaxed) > 0 {
            return;
        }
        let mut readers = self.readers.lock();
        if !readers.is_empty() || self.stop.load(Ordering::Relaxed) {
            return;
        }
        for number in 0..self.readers_max {
            let shared = Arc::clone(self);
            let thread = std::thread::Builder::new().name(format!("reader-{number}"));
            let Ok(reader) = thread.spawn(move || shared.be_reader()) else {
                break;
            };
            readers.push(reader);
        }
        self.reading.store(readers.len(), Ordering::Relaxed);
        self.call_readers(self.unclaimed.load(Ordering::Relaxed));
    }

    fn range(&self) -> usize {
        if self.pace.is_surely_fast() {
            RANGE_FAST
        } else {
            RANGE_SMALL
        }
    }

    /// Serves a range of the oldest fetch. Returns false if there is none.
    fn serve_oldest(&self, by_reader: bool) -> bool {
        let claimed = {
            let mut jobs = self.jobs.lock();
            loop {
                let Some(job) = jobs.front() else {
                    break None;
                };
                if let Some(range) = job.claim(self.range()) {
                    break Some((Arc::clone(job), range));
                }
                jobs.pop_front();
            }
        };
        match claimed {
            Some((job, range)) => {
                self.serve(&job, range, by_reader);
                true
            }
            None => false,
        }
    }

    fn serve(&self, job: &Job, range: std::ops::Range<usize>, by_reader: bool) {
        let counters = &self.counters;
        self.unclaimed.fetch_sub(range.len(), Ordering::Relaxed);
        let in_flight = counters.in_flight.fetch_add(1, Ordering::Relaxed) + 1;
        counters.in_flight_max.fetch_max(in_flight, Ordering::Relaxed);
        let start = Instant::now();
        let read = job.read(range, &*self.store, &self.clock);
        let time = start.elapsed();
        counters.in_flight.fetch_sub(1, Ordering::Relaxed);
        counters.time_ns.fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
        if read.keys == 0 {
            return;
        }
        counters.keys.fetch_add(read.keys as u64, Ordering::Relaxed);
        counters.found.fetch_add(read.found as u64, Ordering::Relaxed);
        counters.batches.fetch_add(1, Ordering::Relaxed);
        counters.failed.fetch_add(read.failed.into(), Ordering::Relaxed);
        counters.by_readers.fetch_add(by_reader.into(), Ordering::Relaxed);
        if self.pace.took(read.keys, time) && self.blocks() {
            self.call_readers(self.unclaimed.load(Ordering::Relaxed));
        }
    }

    /// Lets readers look for ranges in so many places.
    fn call_readers(&self, places: usize) {
        let ranges = places.div_ceil(RANGE_SMALL).try_into().unwrap_or(u32::MAX / 2);
        if ranges > 0 {
            // Too many permits: then readers have more to do than they can count, and look anyway.
            let _ = self.ranges.release(ranges);
        }
    }

    fn be_reader(&self) {
        loop {
            self.ranges.acquire();
            if self.stop.load(Ordering::Acquire) {
                return;
            }
            // Also when reads have become fast meanwhile: workers were not told of this range.
            self.serve_oldest(true);
        }
    }
}

impl WorkSource for Shared {
    fn pending(&self) -> usize {
        if self.blocks() {
            0
        } else {
            self.unclaimed.load(Ordering::Relaxed).div_ceil(RANGE_FAST)
        }
    }

    fn serve(&self, _worker: usize) {
        self.serve_oldest(false);
    }

    fn panicked(&self, _panic: Panic) {
        // Reads are contained one by one, and what is not read is read again by who needs it.
        self.counters.failed.fetch_add(1, Ordering::Relaxed);
    }
}

/// Reads coins ahead. See the [crate](crate) for how it is used.
pub struct Fetcher {
    shared: Arc<Shared>,
    handle: WorkSourceHandle,
}

impl Fetcher {
    /// A fetcher over `store`, served by a pool and by readers of its own. `flush_number` counts the flushes that have reached the store.
    /// Its readers are started when reads block for the first time.
    pub fn new(
        pool: &ThreadPool,
        priority: u32,
        store: Arc<dyn CoinStore>,
        clock: FlushClock,
        options: &Options,
    ) -> Self {
        let shared = Arc::new(Shared {
            store,
            clock,
            jobs: Mutex::new(VecDeque::new()),
            unclaimed: AtomicUsize::new(0),
            pace: Pace::default(),
            ranges: Semaphore::new(0),
            readers_max: options.readers,
            readers: Mutex::new(Vec::new()),
            reading: AtomicUsize::new(0),
            stop: AtomicBool::new(false),
            counters: Counters::default(),
        });
        let handle = pool.register(priority, Arc::<Shared>::clone(&shared));
        Self { shared, handle }
    }

    /// Begins to fetch. What is found is asked for with [`Fetch::finish`].
    pub fn begin(&self, wanted: impl Wanted + 'static) -> Fetch {
        let begin_epoch = self.shared.clock.now();
        let job = Arc::new(Job::new(Box::new(wanted), begin_epoch));
        let places = job.unclaimed();
        if places > 0 {
            self.shared.unclaimed.fetch_add(places, Ordering::Relaxed);
            self.shared.jobs.lock().push_back(Arc::clone(&job));
            self.shared.start_readers();
            if self.shared.blocks() {
                self.shared.call_readers(places);
            } else {
                self.handle.notify();
            }
        }
        Fetch {
            shared: Arc::clone(&self.shared),
            job,
        }
    }

    /// Whether reads have turned out to block, so that it is worth having more of them under way than threads.
    pub fn reads_block(&self) -> bool {
        self.shared.blocks()
    }

    /// What was done so far.
    pub fn statistics(&self) -> Statistics {
        let counters = &self.shared.counters;
        Statistics {
            keys: counters.keys.load(Ordering::Relaxed),
            found: counters.found.load(Ordering::Relaxed),
            batches: counters.batches.load(Ordering::Relaxed),
            failed: counters.failed.load(Ordering::Relaxed),
            by_readers: counters.by_readers.load(Ordering::Relaxed),
            time: Duration::from_nanos(counters.time_ns.load(Ordering::Relaxed)),
            in_flight_max: counters.in_flight_max.load(Ordering::Relaxed),
        }
    }
}

impl fmt::Debug for Fetcher {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Fetcher")
            .field("readers", &self.shared.reading.load(Ordering::Relaxed))
            .field("statistics", &self.statistics())
            .finish_non_exhaustive()
    }
}

impl Drop for Fetcher {
    fn drop(&mut self) {
        // Release: pairs with the Acquire in `be_reader`.
        self.shared.stop.store(true, Ordering::Release);
        // If there are too many permits already they wake all readers too.
        let mut readers = self.shared.readers.lock();
        let _ = self.shared.ranges.release(readers.len() as u32);
        for reader in readers.drain(..) {
            let _ = reader.join();
        }
    }
}

/// A fetch under way. Dropping it gives up what has not been begun.
#[must_use = "a fetch that is dropped is given up"]
pub struct Fetch {
    shared: Arc<Shared>,
    job: SharedJob,
}

impl Fetch {
    /// Whether [`finish`](Self::finish) would neither read nor wait.
    pub fn is_done(&self) -> bool {
        self.job.is_done()
    }

    /// Reads what nobody has begun, waits for the rest, and returns what was found.
    pub fn finish(self) -> Found {
        while let Some(range) = self.job.claim(self.shared.range()) {
            self.shared.serve(&self.job, range, false);
            self.shared.start_readers();
        }
        self.job.wait();
        self.job.take_found()
    }
}

impl Drop for Fetch {
    fn drop(&mut self) {
        let rest = self.job.cancel();
        self.shared.unclaimed.fetch_sub(rest, Ordering::Relaxed);
        // Its owner may have done all of it, and then nobody else would come by.
        self.shared.jobs.lock().retain(|job| job.unclaimed() > 0);
    }
}

impl fmt::Debug for Fetch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Fetch")
            .field("is_done", &self.is_done())
            .finish_non_exhaustive()
    }
}
