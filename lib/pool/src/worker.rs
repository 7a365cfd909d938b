//! The work sources of a pool, and the workers that serve them.

use crate::sleep::{Found, Sleep};
use crate::work_source::WorkSource;
use blockmill_sync::atomic::{AtomicU32, AtomicU64, Ordering};
use blockmill_sync::contain::contain;
use blockmill_sync::{Backoff, CachePadded, Mutex};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time for which an idle worker stays awake before it parks, while there are producers.
pub const AWAKE_FOR: Duration = Duration::from_micros(200);

/// State that the threads of a pool share with the handles of its work sources.
pub(crate) struct Shared {
    sleep: Sleep,
    cores: u32,
    /// Number of producers.
    producers: CachePadded<AtomicU32>,
    /// Number of changes of the list of work sources. The highest bit is `SHUTDOWN`.
    version: CachePadded<AtomicU64>,
    sources: Mutex<Vec<Registered>>,
}

const SHUTDOWN: u64 = 1 << 63;

/// A work source in the list. The list is in order of priority.
#[derive(Clone)]
struct Registered {
    priority: u32,
    id: u64,
    source: Arc<dyn WorkSource>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Shared")
            .field("sleep", &self.sleep)
            .field("producers", &self.producers)
            .finish_non_exhaustive()
    }
}

impl Shared {
    pub(crate) fn new(workers: usize, cores: usize) -> Self {
        Self {
            sleep: Sleep::new(workers),
            cores: u32::try_from(cores).unwrap_or(u32::MAX),
            producers: CachePadded::new(AtomicU32::new(0)),
            version: CachePadded::new(AtomicU64::new(0)),
            sources: Mutex::new(Vec::new()),
        }
    }

    /// Adds a work source to the list. Returns its id.
    pub(crate) fn register(&self, priority: u32, source: Arc<dyn WorkSource>) -> u64 {
        let mut sources = self.sources.lock();
        // Release: pairs with the Acquire in `Worker::refresh_sources`.
        let id = self.version.fetch_add(1, Ordering::Release);
        // After all of the same priority: those that came first are served first.
        let index = sources.partition_point(|other| other.priority <= priority);
        sources.insert(index, Registered { priority, id, source });
        drop(sources);
        // The work source may have work already.
        self.sleep.wake_all();
        id
    }

    pub(crate) fn unregister(&self, id: u64) {
        let mut sources = self.sources.lock();
        let index = sources.iter().position(|other| other.id == id);
        let removed = index.map(|index| sources.remove(index));
        self.version.fetch_add(1, Ordering::Release);
        drop(sources);
        // Parked workers must drop their references too.
        self.sleep.wake_all();
        // After the unlock: the work source may own another handle of this pool.
        drop(removed);
    }

    #[inline]
    pub(crate) fn notify(&self) {
        self.sleep.notify(|| self.awake_max());
    }

    /// Largest number of workers that there are cores for, at least 1.
    fn awake_max(&self) -> u32 {
        // At least one, or work would wait until a producer has nothing to do.
        self.cores.saturating_sub(self.producers.load(Ordering::Relaxed)).max(1)
    }

    pub(crate) fn register_producer(&self) {
        self.producers.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn unregister_producer(&self) {
        self.producers.fetch_sub(1, Ordering::Relaxed);
    }

    /// Ends the workers, after the units that they run.
    pub(crate) fn shut_down(&self) {
        self.version.fetch_or(SHUTDOWN, Ordering::Release);
        // After the bit: a worker that wakes, or that is about to park, must find it.
        self.sleep.wake_all();
    }

    /// Number of workers that are awake.
    pub(crate) fn awake(&self) -> usize {
        self.sleep.awake() as usize
    }

    pub(crate) fn is_served(&self) -> bool {
        self.workers() > 0 && self.version.load(Ordering::Relaxed) & SHUTDOWN == 0
    }

    pub(crate) fn workers(&self) -> usize {
        self.sleep.workers()
    }
}

/// The private state of a worker.
pub(crate) struct Worker<'a> {
    shared: &'a Shared,
    index: usize,
    /// Copy of the list of work sources, and the version of that list.
    sources: Vec<Registered>,
    version: u64,
}

impl<'a> Worker<'a> {
    pub(crate) fn new(shared: &'a Shared, index: usize) -> Self {
        Self {
            shared,
            index,
            sources: Vec::new(),
            version: u64::MAX,
        }
    }

    /// Serves the work sources until the pool shuts down. The worker counts as searching whenever
    /// it runs no work.
    pub(crate) fn run(mut self) {
        let mut idle = Idle::default();
        while self.refresh_sources() {
            if let Some(source) = self.first_pending() {
                // Work came, so more may come soon: the patience begins anew.
                idle = Idle::default();
                self.serve_until_idle(source);
            } else if !idle.stay_awake(self.shared) {
                let (shared, version) = (self.shared, self.version);
                let _ = shared.sleep.park(self.index, || {
                    shared.version.load(Ordering::Relaxed) != version || self.first_pending().is_some()
                });
                idle = Idle::default();
            }
        }
    }

    /// Copies the list of work sources if it has changed. Returns false if the pool shuts down.
    #[inline]
    fn refresh_sources(&mut self) -> bool {
        let version = self.shared.version.load(Ordering::Acquire);
        if version != self.version {
            if version & SHUTDOWN != 0 {
                return false;
            }
            let sources = self.shared.sources.lock();
            // Under the lock, so that version and list belong together. Without the bit, which the
            // next call must still notice.
            self.version = self.shared.version.load(Ordering::Relaxed) & !SHUTDOWN;
            let list = sources.clone();
            drop(sources);
            // After the unlock: dropping the old list may drop a work source, which may own another
            // handle of this pool.
            self.sources = list;
        }
        true
    }

    /// Index of the first work source that has work.
    #[inline]
    fn first_pending(&self) -> Option<usize> {
        self.sources
            .iter()
            .position(|registered| registered.source.pending() > 0)
    }

    /// Serves work source `first`, then the others, until none has work.
    fn serve_until_idle(&mut self, first: usize) {
        let found = self.shared.sleep.found_work();
        // Before the unit runs: it may take long, and nobody else searches.
        if found == Found::LastSearcher && self.has_more_work(first) {
            self.shared.notify();
        }
        let mut next = Some(first);
        while let Some(source) = next {
            let source = &self.sources[source].source;
            if let Err(panic) = contain(|| source.serve(self.index)) {
                source.panicked(panic);
            }
            // The list may have lost the source that is served here.
            if self.shared.version.load(Ordering::Relaxed) != self.version {
                break;
            }
            next = self.first_pending();
        }
        self.shared.sleep.search();
    }

    /// Whether there is more work than the unit that this worker found at work source `first`. The
    /// work sources before `first` count too: they may have work since the search passed them, and
    /// its producer may have relied on this worker.
    fn has_more_work(&self, first: usize) -> bool {
        let mut sources = self.sources.iter().enumerate();
        sources.any(|(index, registered)| registered.source.pending() > usize::from(index == first))
    }
}

/// A worker's idle time.
#[derive(Default)]
struct Idle {
    backoff: Option<Backoff>,
    since: Option<Instant>,
}

impl Idle {
    /// Spins or yields for a while. Returns false if the worker should park.
    fn stay_awake(&mut self, shared: &Shared) -> bool {
        // The first microseconds cost no look at the clock.
        if self.backoff.get_or_insert_default().snooze() {
            return true;
        }
        let producers = shared.producers.load(Ordering::Relaxed);
        if producers == 0 || producers >= shared.cores || shared.sleep.awake() > shared.awake_max() {
            // There are no producers, or they need the core.
            return false;
        }
        if self.since.get_or_insert_with(Instant::now).elapsed() > AWAKE_FOR {
            return false;
        }
        self.backoff = Some(Backoff::after_wake());
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use blockmill_sync::Panic;

    struct Pending(usize);

    impl WorkSource for Pending {
        fn pending(&self) -> usize {
            self.0
        }
        fn serve(&self, _worker: usize) {}
        fn panicked(&self, _panic: Panic) {}
    }

    /// A work source of higher priority may get work after the search has passed it.
    #[test]
    fn more_work_is_found_at_every_work_source() {
        for (pending, first, more) in [
            ([0, 1, 0], 1, false),
            ([0, 2, 0], 1, true),
            ([0, 1, 1], 1, true),
            ([1, 1, 0], 1, true),
            ([1, 0, 0], 0, false),
        ] {
            let shared = Shared::new(0, 1);
            for units in pending {
                shared.register(0, Arc::new(Pending(units)));
            }
            let mut worker = Worker::new(&shared, 0);
            assert!(worker.refresh_sources());
            assert_eq!(worker.has_more_work(first), more, "{pending:?}");
        }
    }
}
