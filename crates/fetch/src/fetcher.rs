//! The fetcher: a queue of fetches, and the workers and readers that serve it.

use crate::job::{CoinRoom, FetchJob, FoundCoins, SharedJob, Wanted};
use crate::pace::ReadPace;
use blockmill_coins::{CoinStore, FlushClock};
use blockmill_pool::{Panic, ThreadPool, WorkSource, WorkSourceHandle};
use blockmill_sync::{Mutex, Semaphore};
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Items that a thread claims at once when reads are fast.
const RANGE_FAST: usize = 64;

/// Items that a thread claims at once until reads are known to be fast. Few, so that slow reads
/// show early, and many readers share a block.
const RANGE_SMALL: usize = 8;

/// Options of a fetcher.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Threads that the fetcher owns, for reads that block. With 0 the pool does all reads.
    pub readers: usize,
    /// Memory in bytes that the coins of all fetches may take before they are finished. Beyond that
    /// a fetch reads no more, and its result is incomplete.
    pub coins_bytes_max: usize,
}

impl Default for Options {
    /// 16 readers, 64 MiB.
    fn default() -> Self {
        Self {
            readers: 16,
            coins_bytes_max: 64 << 20,
        }
    }
}

/// Totals of a fetcher.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Statistics {
    /// Keys that were looked up in the store.
    pub keys: u64,
    /// Keys that the store had.
    pub found: u64,
    /// Batches of keys.
    pub batches: u64,
    /// Batches that failed.
    pub failed: u64,
    /// Batches that readers did.
    pub by_readers: u64,
    /// Time of all batches, summed over threads.
    pub time: Duration,
    /// Most batches in flight at once.
    pub in_flight_max: usize,
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

struct FetchQueue {
    store: Arc<dyn CoinStore>,
    clock: FlushClock,
    /// Fetches with unclaimed items, oldest first. Some may have no item left.
    jobs: Mutex<VecDeque<SharedJob>>,
    /// Unclaimed items of all fetches: a hint.
    unclaimed: AtomicUsize,
    pace: ReadPace,
    /// One permit for each range that readers may look for. There may be fewer ranges.
    ranges: Semaphore,
    readers_max: usize,
    /// The readers: none before they are needed.
    readers: Mutex<Vec<JoinHandle<()>>>,
    reading: AtomicUsize,
    stop: AtomicBool,
    room: Arc<CoinRoom>,
    counters: Counters,
}

impl FetchQueue {
    /// Whether readers do the reads.
    fn blocks(&self) -> bool {
        self.pace.blocks() && self.reading.load(Ordering::Relaxed) > 0
    }

    /// Starts the readers when they are needed for the first time. If the system cannot start a
    /// thread, the fetcher goes on with fewer.
    fn start_readers(self: &Arc<Self>) {
        if !self.pace.blocks() || self.readers_max == 0 || self.reading.load(Ordering::Relaxed) > 0 {
            return;
        }
        // Several threads may see slow reads at once.
        let mut readers = self.readers.lock();
        // `drop` takes this lock after it has set `stop`, so no reader starts too late.
        if !readers.is_empty() || self.stop.load(Ordering::Relaxed) {
            return;
        }
        for number in 0..self.readers_max {
            let shared = Arc::clone(self);
            let thread = std::thread::Builder::new().name(format!("reader-{number}"));
            let Ok(reader) = thread.spawn(move || shared.run_reader()) else {
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
        // The lock is released before the read.
        let claimed = {
            let mut jobs = self.jobs.lock();
            loop {
                let Some(job) = jobs.front() else {
                    break None;
                };
                if let Some(range) = job.claim(self.range()) {
                    break Some((Arc::clone(job), range));
                }
                // All of its items are claimed.
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

    fn serve(&self, job: &FetchJob, range: std::ops::Range<usize>, by_reader: bool) {
        let items = range.len();
        // Before the read: what is being read is no work for others.
        self.unclaimed.fetch_sub(items, Ordering::Relaxed);
        self.read(job, range, by_reader);
        // After the counting: whoever has the result has its figures.
        job.end_range(items);
    }

    fn read(&self, job: &FetchJob, range: std::ops::Range<usize>, by_reader: bool) {
        let counters = &self.counters;
        let in_flight = counters.in_flight.fetch_add(1, Ordering::Relaxed) + 1;
        counters.in_flight_max.fetch_max(in_flight, Ordering::Relaxed);
        let start = Instant::now();
        let read = job.read(range, &*self.store, &self.clock);
        let time = start.elapsed();
        counters.in_flight.fetch_sub(1, Ordering::Relaxed);
        counters.time_ns.fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
        // A range whose coins are all known says nothing about the speed of reads.
        if read.keys == 0 {
            return;
        }
        counters.keys.fetch_add(read.keys as u64, Ordering::Relaxed);
        counters.found.fetch_add(read.found as u64, Ordering::Relaxed);
        counters.batches.fetch_add(1, Ordering::Relaxed);
        counters.failed.fetch_add(read.failed.into(), Ordering::Relaxed);
        counters.by_readers.fetch_add(by_reader.into(), Ordering::Relaxed);
        if self.pace.record(read.keys, time) && self.blocks() {
            self.call_readers(self.unclaimed.load(Ordering::Relaxed));
        }
    }

    /// Lets readers look for ranges in this number of items.
    fn call_readers(&self, items: usize) {
        let ranges = items.div_ceil(RANGE_SMALL).try_into().unwrap_or(u32::MAX / 2);
        if ranges > 0 {
            // Too many permits: the readers have enough to look for anyway.
            let _ = self.ranges.release(ranges);
        }
    }

    fn run_reader(&self) {
        loop {
            self.ranges.acquire();
            if self.stop.load(Ordering::Acquire) {
                return;
            }
            // Readers serve this range even if reads have become fast meanwhile: no worker was
            // notified of it.
            self.serve_oldest(true);
        }
    }
}

impl WorkSource for FetchQueue {
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
        // Each read is contained, and a coin that was not read is read again by the thread that
        // needs it.
        self.counters.failed.fetch_add(1, Ordering::Relaxed);
    }
}

/// Reads coins in advance. The [crate] has an example.
pub struct Fetcher {
    shared: Arc<FetchQueue>,
    handle: WorkSourceHandle,
}

impl Fetcher {
    /// A fetcher over `store`, served by a pool and by readers of its own. `clock` counts the
    /// flushes that reach the store
    /// ([`CoinsCache::flush_clock`](blockmill_coins::CoinsCache::flush_clock)). `priority` is that
    /// of a work source of the pool. The readers start when reads block for the first time.
    pub fn new(
        pool: &ThreadPool,
        priority: u32,
        store: Arc<dyn CoinStore>,
        clock: FlushClock,
        options: &Options,
    ) -> Self {
        let shared = Arc::new(FetchQueue {
            store,
            clock,
            jobs: Mutex::new(VecDeque::new()),
            unclaimed: AtomicUsize::new(0),
            pace: ReadPace::default(),
            ranges: Semaphore::new(0),
            readers_max: options.readers,
            readers: Mutex::new(Vec::new()),
            reading: AtomicUsize::new(0),
            stop: AtomicBool::new(false),
            room: Arc::new(CoinRoom::new(options.coins_bytes_max)),
            counters: Counters::default(),
        });
        let handle = pool.register(priority, Arc::<FetchQueue>::clone(&shared));
        Self { shared, handle }
    }

    /// Begins a fetch. [`Fetch::finish`] returns what it finds.
    pub fn begin(&self, wanted: impl Wanted + 'static) -> Fetch {
        let begin_epoch = self.shared.clock.now();
        let job = Arc::new(FetchJob::new(
            Box::new(wanted),
            begin_epoch,
            Arc::clone(&self.shared.room),
        ));
        let items = job.unclaimed();
        if items > 0 {
            // Counted before the job is seen: whoever claims items counts them down.
            self.shared.unclaimed.fetch_add(items, Ordering::Relaxed);
            self.shared.jobs.lock().push_back(Arc::clone(&job));
            self.shared.start_readers();
            if self.shared.blocks() {
                self.shared.call_readers(items);
            } else {
                self.handle.notify();
            }
        }
        Fetch {
            shared: Arc::clone(&self.shared),
            job,
        }
    }

    /// Whether reads block and there are readers for them, so that more reads should be in flight
    /// than there are threads.
    pub fn reads_block(&self) -> bool {
        self.shared.blocks()
    }

    /// Totals so far.
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
        // Release: pairs with the Acquire in `run_reader`.
        self.shared.stop.store(true, Ordering::Release);
        // If there are too many permits already, those wake all readers too.
        let mut readers = self.shared.readers.lock();
        let _ = self.shared.ranges.release(readers.len() as u32);
        for reader in readers.drain(..) {
            let _ = reader.join();
        }
    }
}

/// A running fetch. Dropping it cancels what has not begun.
#[must_use = "dropping a fetch cancels it"]
pub struct Fetch {
    shared: Arc<FetchQueue>,
    job: SharedJob,
}

impl Fetch {
    /// Whether [`finish`](Self::finish) would neither read nor wait.
    pub fn is_done(&self) -> bool {
        self.job.is_done()
    }

    /// Reads the unclaimed items, waits for the others, and returns what was found.
    pub fn finish(self) -> FoundCoins {
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
        // If the owner has served all of the fetch, no other thread would remove it.
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
