//! The pool, which joins everything below.

use crate::handle::WorkSourceHandle;
use crate::helpers::Helpers;
use crate::scope::Scope;
use crate::spawn::JoinHandle;
use crate::threads::{ThreadPoolOptions, Threads};
use crate::work_source::WorkSource;
use std::io;
use std::sync::Arc;

/// A pool of worker threads.
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

    /// Number of workers.
    pub fn workers(&self) -> usize {
        self.threads.shared().workers()
    }

    /// Number of workers that are awake at this moment. For diagnosis.
    pub fn awake(&self) -> usize {
        self.threads.shared().awake()
    }

    /// Registers a work source. Workers serve the work source of the lowest priority number first,
    /// and among equal numbers the one that was registered first. Jobs of [`scope`](Self::scope)
    /// have a priority of their own ([`ThreadPoolOptions::scope_priority`]).
    pub fn register(&self, priority: u32, source: Arc<dyn WorkSource>) -> WorkSourceHandle {
        WorkSourceHandle::new(self.threads.shared(), priority, source)
    }

    /// The workers as helpers with jobs of this priority among the work sources.
    pub fn helpers(&self, priority: u32) -> Helpers {
        Helpers::new(self.threads.shared(), priority)
    }

    /// [`Helpers::scope`].
    pub fn scope<'env, R>(&'env self, work: impl for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> R) -> R {
        self.helpers.scope(work)
    }

    /// [`Helpers::spawn`].
    pub fn spawn<R: Send + 'static>(&self, job: impl FnOnce() -> R + Send + 'static) -> JoinHandle<R> {
        self.helpers.spawn(job)
    }

    /// [`Helpers::join`].
    pub fn join<A, B: Send>(&self, first: impl FnOnce() -> A, second: impl FnOnce() -> B + Send) -> (A, B) {
        self.helpers.join(first, second)
    }

    /// [`Helpers::for_each`].
    ///
    /// # Errors
    /// That of the first item whose work fails.
    pub fn for_each<I: Send, E: Send>(
        &self,
        items: impl IntoIterator<Item = I, IntoIter: Send>,
        work: impl Fn(I) -> Result<(), E> + Sync,
    ) -> Result<(), E> {
        self.helpers.for_each(items, work)
    }

    /// [`Helpers::in_order`].
    ///
    /// # Errors
    /// The first of `take`.
    pub fn in_order<I: Send, T: Send, E>(
        &self,
        items: impl IntoIterator<Item = I, IntoIter: Send>,
        convert: impl Fn(I) -> T + Sync,
        take: impl FnMut(T) -> Result<(), E>,
    ) -> Result<(), E> {
        self.helpers.in_order(items, convert, take)
    }

    /// [`Helpers::in_order_weighed`].
    ///
    /// # Errors
    /// The first of `take`.
    pub fn in_order_weighed<I: Send, T: Send, E>(
        &self,
        most: usize,
        items: impl IntoIterator<Item = I, IntoIter: Send>,
        convert: impl Fn(I) -> (T, usize) + Sync,
        take: impl FnMut(T) -> Result<(), E>,
    ) -> Result<(), E> {
        self.helpers.in_order_weighed(most, items, convert, take)
    }
}
