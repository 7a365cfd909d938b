//! A handle through which callers give jobs to a pool.

use crate::handle::WorkSourceHandle;
use crate::jobs::{Job, Jobs};
use crate::threads::{ThreadPoolOptions, Threads};
use crate::worker::Shared;
use std::io;
use std::sync::Arc;

/// The threads that help a caller with its jobs: the workers of a pool, for jobs of one priority.
///
/// A part of a program that may run with a pool or without one takes `Helpers`. The calling thread
/// always works too. It does all the work if there are no helpers, or after the pool was dropped.
///
/// ```
/// use blockmill_pool::{Helpers, ThreadPool};
///
/// fn sum(helpers: &Helpers, numbers: &[u64]) -> u64 {
///     let mut sum = 0;
///     let add = |part: u64| {
///         sum += part;
///         Ok::<(), ()>(())
///     };
///     helpers.in_order(numbers.chunks(1_000), |part| part.iter().sum::<u64>(), add).unwrap();
///     sum
/// }
///
/// let numbers: Vec<u64> = (0..10_000).collect();
/// // The workers of a pool that serves other work too, threads of its own, and nobody else.
/// let pool = ThreadPool::new(&Default::default())?;
/// for helpers in [pool.helpers(7), Helpers::start(3)?, Helpers::default()] {
///     assert_eq!(sum(&helpers, &numbers), 49_995_000);
/// }
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Helpers {
    /// Threads that serve nothing else. They end before the queue of jobs goes.
    own_threads: Option<Arc<Threads>>,
    jobs: Arc<Jobs>,
    handle: Arc<WorkSourceHandle>,
}

impl Default for Helpers {
    /// No helpers.
    fn default() -> Self {
        Self::new(&Arc::new(Shared::new(0, 0)), 0)
    }
}

impl Helpers {
    pub(crate) fn new(shared: &Arc<Shared>, priority: u32) -> Self {
        let jobs = Arc::new(Jobs::default());
        let handle = WorkSourceHandle::new(shared, priority, Arc::<Jobs>::clone(&jobs));
        Self {
            own_threads: None,
            jobs,
            handle: Arc::new(handle),
        }
    }

    /// Starts helpers, so that together with the caller `threads` threads work. They end when the
    /// last clone is dropped.
    ///
    /// # Errors
    /// The error of the operating system, if it cannot start a thread.
    pub fn start(threads: usize) -> io::Result<Self> {
        let options = ThreadPoolOptions {
            name: "helper".to_owned(),
            // The caller asked for this many: more than cores are meant.
            cores: threads,
            ..ThreadPoolOptions::workers(threads.saturating_sub(1))
        };
        let threads = Threads::start(&options)?;
        let mut helpers = Self::new(threads.shared(), options.scope_priority);
        helpers.own_threads = Some(Arc::new(threads));
        Ok(helpers)
    }

    /// Number of threads that work on a call: the calling thread, and the workers of the pool.
    pub fn threads(&self) -> usize {
        1 + self.workers()
    }

    /// Number of workers, 0 after the pool was dropped.
    pub fn workers(&self) -> usize {
        if self.handle.is_served() {
            self.handle.workers()
        } else {
            0
        }
    }

    pub(crate) fn jobs(&self) -> &Jobs {
        &self.jobs
    }

    pub(crate) fn handle(&self) -> &WorkSourceHandle {
        &self.handle
    }

    /// Queues a job of a scope.
    pub(crate) fn push(&self, scope: u64, job: Job) {
        self.jobs.push(scope, job);
        self.handle.notify();
    }
}
