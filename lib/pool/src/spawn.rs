//! Jobs that own what they use, and pairs of jobs.

use crate::helpers::Helpers;
use blockmill_sync::contain::{Panic, contain};
use blockmill_sync::{ManualResetEvent, Mutex};
use std::fmt;
use std::sync::Arc;

/// A job that was spawned, and its result. Dropping the handle lets the job run all the same.
#[must_use = "dropping the handle drops the result, and a panic of the job"]
pub struct JoinHandle<R> {
    helpers: Helpers,
    /// The scope of the job, which has no other.
    scope: u64,
    outcome: Arc<Outcome<R>>,
}

struct Outcome<R> {
    result: Mutex<Option<Result<R, Panic>>>,
    is_there: ManualResetEvent,
}

impl<R> JoinHandle<R> {
    /// Whether the job has ended.
    pub fn is_finished(&self) -> bool {
        self.outcome.result.lock().is_some()
    }

    /// Waits for the job and returns its result. If no worker has begun the job, it runs here.
    ///
    /// # Errors
    /// The [`Panic`] of the job.
    pub fn join(self) -> Result<R, Panic> {
        // Not only to help: there may be no worker, and workers may wait here for one another.
        if let Some(job) = self.helpers.jobs().pop(Some(self.scope)) {
            job();
        }
        self.outcome.is_there.wait();
        match self.outcome.result.lock().take() {
            Some(result) => result,
            None => unreachable!("the result is there before the event"),
        }
    }
}

impl<R> fmt::Debug for JoinHandle<R> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("JoinHandle")
            .field("is_finished", &self.is_finished())
            .finish_non_exhaustive()
    }
}

impl Helpers {
    /// Queues a job, and returns at once.
    ///
    /// Without workers, and after the pool was dropped, a job runs only in [`JoinHandle::join`].
    ///
    /// ```
    /// let pool = blockmill_pool::ThreadPool::new(&Default::default())?;
    /// let sum = pool.spawn(|| (1..=100).sum::<u32>());
    /// assert_eq!(sum.join().unwrap(), 5_050);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn spawn<R: Send + 'static>(&self, job: impl FnOnce() -> R + Send + 'static) -> JoinHandle<R> {
        let outcome = Arc::new(Outcome {
            result: Mutex::new(None),
            is_there: ManualResetEvent::new(),
        });
        let job_outcome = Arc::clone(&outcome);
        let scope = self.jobs().push_alone(Box::new(move || {
            let result = contain(job);
            // Before the event. Dropping the closure's captures has happened in `contain`.
            *job_outcome.result.lock() = Some(result);
            job_outcome.is_there.set();
        }));
        self.handle().notify();
        JoinHandle {
            helpers: self.clone(),
            scope,
            outcome,
        }
    }

    /// Calls two closures and returns both results. The second runs on a worker, if one comes
    /// before the first has ended.
    ///
    /// ```
    /// fn sum(pool: &blockmill_pool::ThreadPool, numbers: &[u64]) -> u64 {
    ///     if numbers.len() < 1_000 {
    ///         return numbers.iter().sum();
    ///     }
    ///     let (low, high) = numbers.split_at(numbers.len() / 2);
    ///     let (low, high) = pool.join(|| sum(pool, low), || sum(pool, high));
    ///     low + high
    /// }
    ///
    /// let pool = blockmill_pool::ThreadPool::new(&Default::default())?;
    /// let numbers: Vec<u64> = (0..10_000).collect();
    /// assert_eq!(sum(&pool, &numbers), 49_995_000);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Panics
    /// With the panic of a closure, after both have ended.
    pub fn join<A, B: Send>(&self, first: impl FnOnce() -> A, second: impl FnOnce() -> B + Send) -> (A, B) {
        let mut result = None;
        let first = self.scope(|scope| {
            scope.spawn(|| result = Some(second()));
            first()
        });
        match result {
            Some(second) => (first, second),
            None => unreachable!("a scope ends after its jobs, or panics"),
        }
    }
}
