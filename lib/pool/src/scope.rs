//! Jobs that borrow.
//!
//! A scope keeps alive what its jobs borrow until all jobs have ended. [`ThreadPool::scope`]
//! returns only then, even if its closure panics. The caller gets no handle that it could leak, so
//! soundness does not rest on the drop of a guard.

use crate::pool::ThreadPool;
use crate::work_source::WorkSource;
use blockmill_sync::atomic::{AtomicU64, Ordering};
use blockmill_sync::contain::{AbortOnUnwind, Panic, contain};
use blockmill_sync::{AutoResetEvent, Mutex};
use std::collections::VecDeque;
use std::marker::PhantomData;
use std::sync::Arc;

/// A job. Its scope keeps its borrows alive.
type Job = Box<dyn FnOnce() + Send>;

/// The queued jobs of all scopes.
#[derive(Default)]
pub(crate) struct Jobs {
    queued: AtomicU64,
    /// Ids of the scopes that have queued jobs, with these jobs. The thread of a scope runs only
    /// jobs of its own scope: a job of another scope could hold it up while its own jobs wait.
    scopes: Mutex<VecDeque<(u64, VecDeque<Job>)>>,
    /// Id of the next scope.
    next_scope: AtomicU64,
}

impl std::fmt::Debug for Jobs {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Jobs").field("queued", &self.queued).finish()
    }
}

impl Jobs {
    fn push(&self, scope: u64, job: Job) {
        let mut scopes = self.scopes.lock();
        match scopes.iter_mut().find(|(id, _)| *id == scope) {
            Some((_, jobs)) => jobs.push_back(job),
            None => scopes.push_back((scope, VecDeque::from([job]))),
        }
        drop(scopes);
        // Release: pairs with the Acquire in `pending`.
        self.queued.fetch_add(1, Ordering::Release);
    }

    /// Takes a job of this scope. With `None`, takes one of the scope that has had jobs for
    /// longest.
    fn pop(&self, scope: Option<u64>) -> Option<Job> {
        if self.pending() == 0 {
            return None;
        }
        let mut scopes = self.scopes.lock();
        let index = match scope {
            None => 0,
            Some(scope) => scopes.iter().position(|(id, _)| *id == scope)?,
        };
        let (_, jobs) = scopes.get_mut(index)?;
        let job = jobs.pop_front()?;
        let emptied = jobs.is_empty().then(|| scopes.remove(index));
        drop(scopes);
        drop(emptied);
        self.queued.fetch_sub(1, Ordering::Relaxed);
        Some(job)
    }
}

impl WorkSource for Jobs {
    fn pending(&self) -> usize {
        self.queued.load(Ordering::Acquire) as usize
    }

    fn serve(&self, _worker: usize) {
        if let Some(job) = self.pop(None) {
            job();
        }
    }

    fn panicked(&self, _panic: Panic) {
        // A job catches its own panic and keeps it for its scope.
    }
}

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

/// A scope in which jobs start that borrow for `'scope` from `'env`. See [`ThreadPool::scope`].
pub struct Scope<'scope, 'env: 'scope> {
    pool: &'scope ThreadPool,
    /// Id among the scopes of the pool.
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
        // SAFETY: only the lifetime changes. `ThreadPool::scope` returns, and so ends `'scope`,
        // only when `unfinished` is 0. Each job decrements `unfinished` as its last act, after it
        // has consumed what it borrowed. No job is dropped without running: the queue lives as long
        // as the pool, which the scope borrows, and the scope empties it.
        let job: Job = unsafe { std::mem::transmute(job) };
        let (jobs, handle) = self.pool.jobs();
        jobs.push(self.id, job);
        handle.notify();
        // The thread of the scope may be waiting already, and all workers may be busy.
        self.progress.changed.set();
    }
}

impl ThreadPool {
    /// Runs `work`, which may start jobs that borrow. Returns when all jobs have ended. The calling
    /// thread runs jobs of the scope while it waits, so a pool without workers runs all of them
    /// there.
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
        let (jobs, handle) = self.jobs();
        let scope = Scope {
            pool: self,
            id: jobs.next_scope.fetch_add(1, Ordering::Relaxed),
            progress: Arc::clone(&progress),
            scope: PhantomData,
            env: PhantomData,
        };
        let producer = handle.register_producer();
        // No code below panics. The guard makes sure, because the borrows of jobs rest on it.
        let guard = AbortOnUnwind("a scope ended before its jobs");
        let result = contain(|| work(&scope));
        progress.finish_one();
        drop(producer);
        loop {
            let producer = handle.register_producer();
            while let Some(job) = jobs.pop(Some(scope.id)) {
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
