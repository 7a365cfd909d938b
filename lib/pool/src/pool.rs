//! The pool, which joins everything below.

use crate::handle::WorkSourceHandle;
use crate::helpers::Helpers;
use crate::threads::{ThreadPoolOptions, Threads};
use crate::work_source::WorkSource;
use std::io;
use std::ops::Deref;
use std::sync::Arc;

/// A pool of worker threads. Jobs are given to it by the methods of [`Helpers`], which it has too:
/// they have the priority [`ThreadPoolOptions::scope_priority`].
///
/// Dropping the pool lets running units finish and joins all threads, except the current one if a
/// worker drops its own pool. Units that no worker has begun stay with their work sources.
#[derive(Debug)]
pub struct ThreadPool {
    threads: Threads,
    /// For jobs that are given to the pool itself.
    helpers: Helpers,
}

impl ThreadPool {
    /// Starts the threads.
    ///
    /// # Errors
    /// The error of the system, if it cannot start a thread.
    ///
    /// # Panics
    /// If `options.workers` is 65,536 or more.
    pub fn new(options: &ThreadPoolOptions) -> io::Result<Self> {
        let threads = Threads::start(options)?;
        Ok(Self {
            helpers: Helpers::new(threads.shared(), options.scope_priority),
            threads,
        })
    }

    /// Number of workers that are awake at this moment. For diagnosis.
    pub fn awake(&self) -> usize {
        self.threads.shared().awake()
    }

    /// Registers a work source. Workers serve the work source of the lowest priority number first,
    /// and among equal numbers the one that was registered first. Jobs of [`scope`](Helpers::scope)
    /// have a priority of their own ([`ThreadPoolOptions::scope_priority`]).
    pub fn register(&self, priority: u32, source: Arc<dyn WorkSource>) -> WorkSourceHandle {
        WorkSourceHandle::new(self.threads.shared(), priority, source)
    }

    /// The workers as helpers with jobs of this priority among the work sources.
    pub fn helpers(&self, priority: u32) -> Helpers {
        Helpers::new(self.threads.shared(), priority)
    }
}

impl Deref for ThreadPool {
    type Target = Helpers;

    fn deref(&self) -> &Helpers {
        &self.helpers
    }
}
