//! The threads of a pool.

use crate::contain::{AbortOnUnwind, contain};
use crate::scope::Jobs;
use crate::sleep::{Found, Sleep};
use crate::work_source::{WorkSource, WorkSourceHandle};
use blockmill_sync::atomic::{AtomicU32, AtomicU64, Ordering};
use blockmill_sync::{Backoff, CachePadded, Mutex};
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Time for which an idle worker stays awake while a work source is attended.
pub const AWAKE_FOR: Duration = Duration::from_micros(200);

/// How a pool is to be.
#[derive(Debug, Clone)]
pub struct ThreadPoolOptions {
    /// Threads to start.
    pub workers: usize,
    /// Threads that have cores to run on, those that attend included.
    pub cores: usize,
    /// What the threads are called, with their numbers behind it; the system may cut it to 15 bytes.
    pub name: String,
    /// Whether worker `i` is bound to core `i` modulo the cores of the machine. Only on Linux; elsewhere nothing happens.
    pub pin: bool,
}

impl Default for ThreadPoolOptions {
    /// A worker for every core but one, which is the caller's.
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            workers: cores - 1,
            cores,
            name: "pool".to_owned(),
            pin: false,
        }
    }
}

impl ThreadPoolOptions {
    /// So many workers, on the cores that there are.
    pub fn workers(workers: usize) -> Self {
        Self {
            workers,
            ..Self::default()
        }
    }
}

/// A pool of worker threads. Dropping it ends them, after the units of work that they have begun; it waits for them, but for the one that it is
/// dropped on.
#[derive(Debug)]
pub struct ThreadPool {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    jobs: Arc<Jobs>,
    jobs_handle: WorkSourceHandle,
}

/// What the threads of a pool and the handles of its work sources share.
pub(crate) struct Shared {
    sleep: Sleep,
    cores: u32,
    /// Threads that attend.
    attending: CachePadded<AtomicU32>,
    /// Counts the changes of the list of work sources; its highest bit says that the pool ends.
    version: CachePadded<AtomicU64>,
    sources: Mutex<Vec<Registered>>,
}

const ENDS: u64 = 1 << 63;

/// A work source in the list, which is in the order of service.
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
            .field("attending", &self.attending)
            .finish_non_exhaustive()
    }
}

impl ThreadPool {
    /// Starts the threads.
    ///
    /// # Errors
    /// That of the system when a thread cannot be started.
    ///
    /// # Panics
    /// With 65,536 workers or more.
    pub fn new(options: &ThreadPoolOptions) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            sleep: Sleep::new(options.workers),
            cores: u32::try_from(options.cores).unwrap_or(u32::MAX),
            attending: CachePadded::new(AtomicU32::new(0)),
            version: CachePadded::new(AtomicU64::new(0)),
            sources: Mutex::new(Vec::new()),
        });
        let jobs = Arc::new(Jobs::default());
        let jobs_handle = shared.register(u32::MAX, Arc::<Jobs>::clone(&jobs));
        let mut pool = Self {
            shared,
            threads: Vec::with_capacity(options.workers),
            jobs,
            jobs_handle,
        };
        for worker in 0..options.workers {
            let shared = Arc::clone(&pool.shared);
            let pin = options.pin;
            let thread = std::thread::Builder::new()
                .name(format!("{}-{worker}", options.name))
                .spawn(move || {
                    let guard = AbortOnUnwind("a work source of the pool panicked outside of its units of work");
                    let home = shared.sleep.home(worker);
                    if pin {
                        pin_to_core(worker);
                    } else {
                        home.enter();
                    }
                    Worker::new(&shared, worker).work();
                    home.leave();
                    guard.disarm();
                })?;
            pool.threads.push(thread);
        }
        Ok(pool)
    }

    /// Workers of the pool.
    pub fn workers(&self) -> usize {
        self.threads.len()
    }

    /// Workers that are awake at this moment; for diagnosis.
    pub fn awake(&self) -> usize {
        self.shared.sleep.awake() as usize
    }

    /// Takes a work source in. Stations of a lower number are served first; of several with the same the one that came first.
    /// Jobs of [`scope`](Self::scope) come last.
    pub fn register(&self, priority: u32, source: Arc<dyn WorkSource>) -> WorkSourceHandle {
        self.shared.register(priority, source)
    }

    pub(crate) fn jobs(&self) -> (&Arc<Jobs>, &WorkSourceHandle) {
        (&self.jobs, &self.jobs_handle)
    }
}

impl Drop for ThreadPool {
    fn drop(&mut self) {
        self.shared.version.fetch_or(ENDS, Ordering::Release);
        self.shared.sleep.wake_all();
        for thread in self.threads.drain(..) {
            if thread.thread().id() == std::thread::current().id() {
                // A unit of work has dropped its own pool: this worker ends after it.
                continue;
            }
            // A worker catches the panics of its units, so it does not panic.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn register(self: &Arc<Self>, priority: u32, source: Arc<dyn WorkSource>) -> WorkSourceHandle {
        let mut sources = self.sources.lock();
        // Release: pairs with the Acquire in `Worker::refresh`.
        let id = self.version.fetch_add(1, Ordering::Release);
        let place = sources.partition_point(|other| other.priority <= priority);
        sources.insert(place, Registered { priority, id, source });
        drop(sources);
        // The work source may have work already.
        self.sleep.wake_all();
        WorkSourceHandle::new(Arc::clone(self), id)
    }

    pub(crate) fn unregister(&self, id: u64) {
        let mut sources = self.sources.lock();
        let removed: Vec<_> = sources.extract_if(.., |other| other.id == id).collect();
        self.version.fetch_add(1, Ordering::Release);
        drop(sources);
        // So that parked workers let go of it too.
        self.sleep.wake_all();
        // Not under the lock: the work source may own another place in this pool.
        drop(removed);
    }

    #[inline]
    pub(crate) fn notify(&self) {
        self.sleep.notify(|| self.awake_max());
    }

    /// Most workers for which there are cores.
    fn awake_max(&self) -> u32 {
        self.cores.saturating_sub(self.attending.load(Ordering::Relaxed)).max(1)
    }

    pub(crate) fn register_producer(&self) {
        self.attending.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn leave(&self) {
        self.attending.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn is_served(&self) -> bool {
        self.workers() > 0 && self.version.load(Ordering::Relaxed) & ENDS == 0
    }

    pub(crate) fn workers(&self) -> usize {
        self.sleep.workers()
    }
}

/// A worker's own view.
struct Worker<'a> {
    shared: &'a Shared,
    number: usize,
    sources: Vec<Registered>,
    version: u64,
}

impl<'a> Worker<'a> {
    fn new(shared: &'a Shared, number: usize) -> Self {
        Self {
            shared,
            number,
            sources: Vec::new(),
            version: u64::MAX,
        }
    }

    /// Serves until the pool ends. Between the units of work it counts as looking.
    fn work(mut self) {
        let mut idle = Idle::default();
        while self.refresh() {
            if let Some(source) = self.with_work() {
                idle = Idle::default();
                self.serve_while_there_is_work(source);
            } else if !idle.stay_awake(self.shared) {
                let (shared, version) = (self.shared, self.version);
                let _ = shared.sleep.park(self.number, || {
                    shared.version.load(Ordering::Relaxed) != version || self.with_work().is_some()
                });
                idle = Idle::default();
            }
        }
    }

    /// Takes over changes of the list of work sources. Returns whether the pool goes on.
    #[inline]
    fn refresh(&mut self) -> bool {
        let version = self.shared.version.load(Ordering::Acquire);
        if version != self.version {
            if version & ENDS != 0 {
                return false;
            }
            let sources = self.shared.sources.lock();
            self.version = self.shared.version.load(Ordering::Relaxed) & !ENDS;
            let list = sources.clone();
            drop(sources);
            // Not under the lock: a work source may go with the old list, and it may own another place in this pool.
            self.sources = list;
        }
        true
    }

    /// The first work source that has work.
    #[inline]
    fn with_work(&self) -> Option<usize> {
        self.sources
            .iter()
            .position(|registered| registered.source.pending() > 0)
    }

    /// Serves the work sources, beginning with this one, until none has work.
    fn serve_while_there_is_work(&mut self, first: usize) {
        self.shared.sleep.home(self.number).take_back();
        let found = self.shared.sleep.found_work();
        if found == Found::NobodyLooks && self.more_than_one_unit(first) {
            self.shared.notify();
        }
        let mut next = Some(first);
        while let Some(source) = next {
            let source = &self.sources[source].source;
            if let Err(panic) = contain(|| source.serve(self.number)) {
                source.panicked(panic);
            }
            if self.shared.version.load(Ordering::Relaxed) != self.version {
                break;
            }
            next = self.with_work();
        }
        self.shared.sleep.look();
    }

    /// Whether there is more work than the unit of work source `first` that was found. At work sources before that one too: it may have come since
    /// they were looked at, and who made it may have relied on this worker.
    fn more_than_one_unit(&self, first: usize) -> bool {
        let mut sources = self.sources.iter().enumerate();
        sources.any(|(number, registered)| registered.source.pending() > usize::from(number == first))
    }
}

/// How long a worker has been idle.
#[derive(Default)]
struct Idle {
    backoff: Option<Backoff>,
    since: Option<Instant>,
}

impl Idle {
    /// Spins or yields for a while. Returns whether it did; else it is time to park.
    fn stay_awake(&mut self, shared: &Shared) -> bool {
        if self.backoff.get_or_insert_default().snooze() {
            return true;
        }
        let attending = shared.attending.load(Ordering::Relaxed);
        if attending == 0 || attending >= shared.cores || shared.sleep.awake() > shared.awake_max() {
            // Nobody makes work, or those who do need the core.
            return false;
        }
        if self.since.get_or_insert_with(Instant::now).elapsed() > AWAKE_FOR {
            return false;
        }
        self.backoff = Some(Backoff::after_wake());
        true
    }
}

/// Binds this thread to a core; where that is not possible it stays free.
fn pin_to_core(worker: usize) {
    #[cfg(target_os = "linux")]
    {
        use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
        let Ok(allowed) = sched_getaffinity(None) else {
            return;
        };
        let cores: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&core| allowed.is_set(core)).collect();
        if let Some(&core) = cores.get(worker % cores.len().max(1)) {
            let mut one = CpuSet::new();
            one.set(core);
            let _ = sched_setaffinity(None, &one);
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = worker;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contain::Panic;

    struct Pending(usize);

    impl WorkSource for Pending {
        fn pending(&self) -> usize {
            self.0
        }
        fn serve(&self, _worker: usize) {}
        fn panicked(&self, _panic: Panic) {}
    }

    /// Work may come to a work source of higher priority between the look at it and the unit that was found.
    #[test]
    fn work_is_told_of_at_whatever_station_it_is() {
        let pool = ThreadPool::new(&ThreadPoolOptions::workers(0)).unwrap();
        for (pending, first, more) in [
            ([0, 1, 0], 1, false),
            ([0, 2, 0], 1, true),
            ([0, 1, 1], 1, true),
            ([1, 1, 0], 1, true),
            ([1, 0, 0], 0, false),
        ] {
            let handles = pending.map(|units| pool.register(0, Arc::new(Pending(units))));
            let mut worker = Worker::new(&pool.shared, 0);
            assert!(worker.refresh());
            assert_eq!(worker.more_than_one_unit(first), more, "{pending:?}");
            drop(handles);
        }
    }
}
