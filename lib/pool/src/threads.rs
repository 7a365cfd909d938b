//! The threads of a pool.

use crate::worker::{Shared, Worker};
use blockmill_sync::contain::AbortOnUnwind;
use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

/// Options of a [`ThreadPool`](crate::ThreadPool).
#[derive(Debug, Clone)]
pub struct ThreadPoolOptions {
    /// Number of threads to start, fewer than 65,536. With 0, only scopes run work.
    pub workers: usize,
    /// Number of cores for workers and producers together.
    /// [`notify`](crate::WorkSourceHandle::notify) wakes a worker only while fewer than `cores`
    /// less the number of producers are awake, but always one.
    pub cores: usize,
    /// Prefix of the thread names: worker 3 is `NAME-3`. The system may cut names to 15 bytes.
    pub name: String,
    /// Priority of the jobs of [`scope`](crate::Helpers::scope), among those of the work
    /// sources. At equal numbers jobs come first.
    pub scope_priority: u32,
}

impl Default for ThreadPoolOptions {
    /// One worker for each core but one, which is left to the caller. The thread names begin with
    /// "pool", and jobs of scopes come last.
    fn default() -> Self {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        Self {
            workers: cores - 1,
            cores,
            name: "pool".to_owned(),
            scope_priority: u32::MAX,
        }
    }
}

impl ThreadPoolOptions {
    /// The default options with another number of workers.
    pub fn workers(workers: usize) -> Self {
        Self {
            workers,
            ..Self::default()
        }
    }
}

/// The threads of a pool, and what they share. The drop is that of
/// [`ThreadPool`](crate::ThreadPool).
#[derive(Debug)]
pub(crate) struct Threads {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Threads {
    pub(crate) fn start(options: &ThreadPoolOptions) -> io::Result<Self> {
        let mut started = Self {
            shared: Arc::new(Shared::new(options.workers, options.cores)),
            threads: Vec::with_capacity(options.workers),
        };
        // If a thread cannot be started, the drop of `started` ends those that were.
        for worker in 0..options.workers {
            let shared = Arc::clone(&started.shared);
            let thread = thread::Builder::new()
                .name(format!("{}-{worker}", options.name))
                .spawn(move || {
                    let guard = AbortOnUnwind("a work source panicked outside of its units of work");
                    Worker::new(&shared, worker).run();
                    guard.disarm();
                })?;
            started.threads.push(thread);
        }
        Ok(started)
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.shared.shut_down();
        for thread in self.threads.drain(..) {
            if thread.thread().id() == thread::current().id() {
                // A unit of work drops its own pool. Its worker ends after that unit.
                continue;
            }
            // A worker thread does not panic: it catches the panics of its units.
            let _ = thread.join();
        }
    }
}
