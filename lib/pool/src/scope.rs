//! Jobs that borrow.
//!
//! A scope keeps alive what its jobs borrow until all jobs have ended. [`Helpers::scope`]
//! returns only then, even if its closure panics. The caller gets no handle that it could leak, so
//! soundness does not rest on the drop of a guard.

use crate::helpers::Helpers;
use crate::jobs::Job;
use blockmill_sync::atomic::{AtomicU64, Ordering};
use blockmill_sync::contain::{AbortOnUnwind, Panic, contain};
use blockmill_sync::{AutoResetEvent, Mutex};
use std::marker::PhantomData;
use std::sync::Arc;

/// State that a scope shares with its jobs.
#[derive(Default)]
struct Progress {
    /// Jobs that have not ended, and 1 for the closure of the scope.
    unfinished: AtomicU64,
    /// The first panic of a job.
    panic: Mutex<Option<Panic>>,
    /// Set when all jobs have ended, and when there is a new job.
    changed: AutoResetEvent,
}

impl Progress {
    fn finish_one(&self) {
        // AcqRel: the last decrement passes on the writes before all others. Pairs with the Acquire
        // in `is_done`.
        if self.unfinished.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.changed.set();
        }
    }

    fn is_done(&self) -> bool {
        self.unfinished.load(Ordering::Acquire) == 0
    }
}

/// A scope in which jobs start that borrow for `'scope` from `'env`. See [`Helpers::scope`].
pub struct Scope<'scope, 'env: 'scope> {
    helpers: &'scope Helpers,
    /// Id among the scopes of these helpers.
    id: u64,
    progress: Arc<Progress>,
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

impl<'scope> Scope<'scope, '_> {
    /// Queues a job. The job runs before the scope ends, on a worker or on the thread of the scope.
    pub fn spawn(&'scope self, job: impl FnOnce() + Send + 'scope) {
        let progress = Arc::clone(&self.progress);
        // The closure or the calling job has not ended, so the count is not 0 here.
        self.progress.unfinished.fetch_add(1, Ordering::Relaxed);
        let job = move || {
            if let Err(panic) = contain(job) {
                progress.panic.lock().get_or_insert(panic);
            }
            progress.finish_one();
        };
        let job: Box<dyn FnOnce() + Send + 'scope> = Box::new(job);
        #[expect(unsafe_code, reason = "workers outlive the scope, jobs do not")]
        // SAFETY: only the lifetime changes. `Helpers::scope` returns, and so ends `'scope`,
        // only when `unfinished` is 0. Each job decrements `unfinished` as its last act, after it
        // has consumed what it borrowed. No job is dropped without running: the scope borrows
        // the helpers, which own the queue, and empties it.
        let job: Job = unsafe { std::mem::transmute(job) };
        self.helpers.push(self.id, job);
        // The thread of the scope may be waiting already, and all workers may be busy.
        // The event stays set until the thread of the scope looks, so an early one is not lost.
        self.progress.changed.set();
    }
}

impl Helpers {
    /// Runs `work`, which may start jobs that borrow. Returns when all jobs have ended. The calling
    /// thread runs jobs of the scope while it waits, so without workers it runs all of them.
    ///
    /// Jobs may start jobs:
    ///
    /// ```
    /// use std::sync::atomic::{AtomicU32, Ordering};
    ///
    /// let pool = blockmill_pool::ThreadPool::new(&Default::default())?;
    /// let sum = AtomicU32::new(0);
    /// pool.scope(|scope| {
    ///     scope.spawn(|| {
    ///         sum.fetch_add(1, Ordering::Relaxed);
    ///         scope.spawn(|| {
    ///             sum.fetch_add(2, Ordering::Relaxed);
    ///         });
    ///     });
    /// });
    /// assert_eq!(sum.into_inner(), 3);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// What jobs borrow must outlive the scope:
    ///
    /// ```compile_fail
    /// let pool = blockmill_pool::ThreadPool::new(&Default::default()).unwrap();
    /// pool.scope(|scope| {
    ///     let local = 5;
    ///     scope.spawn(|| println!("{local}"));
    /// });
    /// ```
    ///
    /// # Panics
    /// With the panic of `work`, or else with the first noticed panic of a job, after all jobs have
    /// ended.
    pub fn scope<'env, R>(&'env self, work: impl for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> R) -> R {
        let progress = Arc::new(Progress::default());
        progress.unfinished.store(1, Ordering::Relaxed);
        let scope = Scope {
            helpers: self,
            id: self.jobs().new_scope(),
            progress: Arc::clone(&progress),
            scope: PhantomData,
            env: PhantomData,
        };
        // While the closure runs, this thread makes work, and needs a core.
        let producer = self.handle().register_producer();
        // No code below panics. The guard makes sure, because the borrows of jobs rest on it.
        let guard = AbortOnUnwind("a scope ended before its jobs");
        let result = contain(|| work(&scope));
        progress.finish_one();
        drop(producer);
        loop {
            let producer = self.handle().register_producer();
            // A job here does not unwind: it contains its own panic.
            while let Some(job) = self.jobs().pop(Some(scope.id)) {
                job();
            }
            drop(producer);
            if progress.is_done() {
                break;
            }
            progress.changed.wait();
        }
        guard.disarm();
        let panic = progress.panic.lock().take();
        match (result, panic) {
            (Ok(result), None) => result,
            (Err(panic), _) | (Ok(_), Some(panic)) => panic.resume(),
        }
    }
}
