//! Jobs that borrow.
//!
//! A scope lends what its jobs borrow until all of them are done. [`ThreadPool::scope`] does not return before, also when its closure panics; a
//! handle that could be forgotten is never given out, so no soundness rests on a guard's drop.

use crate::contain::{AbortOnUnwind, Panic, contain};
use crate::pool::ThreadPool;
use crate::work_source::WorkSource;
use blockmill_sync::atomic::{AtomicU64, Ordering};
use blockmill_sync::{AutoResetEvent, Mutex};
use std::collections::VecDeque;
use std::marker::PhantomData;
use std::sync::Arc;

/// A job whose borrows are kept alive by its scope.
type Job = Box<dyn FnOnce() + Send>;

/// The jobs of all scopes that wait.
#[derive(Default)]
pub(crate) struct Jobs {
    waiting: AtomicU64,
    /// Scopes that have jobs, with them. Each scope's thread runs its own only: else it might be in another's when its own wait.
    scopes: Mutex<VecDeque<(u64, VecDeque<Job>)>>,
    /// Scopes that were begun.
    begun: AtomicU64,
}

impl std::fmt::Debug for Jobs {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Jobs").field("waiting", &self.waiting).finish()
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
        self.waiting.fetch_add(1, Ordering::Release);
    }

    /// Takes a job of this scope, or of the one that has had some for longest.
    fn pop(&self, scope: Option<u64>) -> Option<Job> {
        if self.pending() == 0 {
            return None;
        }
        let mut scopes = self.scopes.lock();
        let place = match scope {
            None => 0,
            Some(scope) => scopes.iter().position(|(id, _)| *id == scope)?,
        };
        let (_, jobs) = scopes.get_mut(place)?;
        let job = jobs.pop_front()?;
        let emptied = jobs.is_empty().then(|| scopes.remove(place));
        drop(scopes);
        drop(emptied);
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        Some(job)
    }
}

impl WorkSource for Jobs {
    fn pending(&self) -> usize {
        self.waiting.load(Ordering::Acquire) as usize
    }

    fn serve(&self, _worker: usize) {
        if let Some(job) = self.pop(None) {
            job();
        }
    }

    fn panicked(&self, _panic: Panic) {
        // Jobs catch their own panics, for their scope.
    }
}

/// What the jobs of a scope leave behind.
#[derive(Default)]
struct Outcome {
    /// Jobs that are not done, and 1 for the scope itself.
    undone: AtomicU64,
    panic: Mutex<Option<Panic>>,
    /// Set when all are done, and when there is a new one.
    changed: AutoResetEvent,
}

impl Outcome {
    fn one_done(&self) {
        // AcqRel: the last one passes on what all before it did. Pairs with the Acquire in `is_done`.
        if self.undone.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.changed.set();
        }
    }

    fn is_done(&self) -> bool {
        self.undone.load(Ordering::Acquire) == 0
    }
}

/// Where jobs are started that borrow for `'scope` from `'env`.
pub struct Scope<'scope, 'env: 'scope> {
    pool: &'scope ThreadPool,
    /// Its number among the scopes of the pool.
    id: u64,
    outcome: Arc<Outcome>,
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

impl<'scope> Scope<'scope, '_> {
    /// Gives a job to the pool. It runs at any time before the scope ends, on a worker or on the thread of the scope.
    pub fn spawn(&'scope self, job: impl FnOnce() + Send + 'scope) {
        let outcome = Arc::clone(&self.outcome);
        // There is at least the scope's own 1, so this does not begin at 0.
        self.outcome.undone.fetch_add(1, Ordering::Relaxed);
        let job = move || {
            if let Err(panic) = contain(job) {
                outcome.panic.lock().get_or_insert(panic);
            }
            outcome.one_done();
        };
        let job: Box<dyn FnOnce() + Send + 'scope> = Box::new(job);
        #[expect(unsafe_code, reason = "workers outlive the scope, jobs do not")]
        // SAFETY: only the lifetime changes. `ThreadPool::scope` returns, and so ends `'scope`, only when `undone` is 0, which each job
        // counts down as its last act, after it has consumed what it borrowed. A job is never dropped without being run: the
        // queue lives as long as the pool, which the scope borrows, and the scope empties it.
        let job: Job = unsafe { std::mem::transmute(job) };
        let (jobs, handle) = self.pool.jobs();
        jobs.push(self.id, job);
        handle.notify();
        // The thread of the scope may wait already, and all workers be taken.
        self.outcome.changed.set();
    }
}

impl ThreadPool {
    /// Runs `work`, which may start jobs that borrow, and waits for them, doing them meanwhile. A panic of `work` or of a job (of several,
    /// the first that was noticed) goes on in the caller when all have ended.
    ///
    /// Jobs may be started from jobs. What they borrow must outlive the scope:
    ///
    /// ```compile_fail
    /// let pool = blockmill_pool::ThreadPool::new(&Default::default()).unwrap();
    /// pool.scope(|scope| {
    ///     let local = 5;
    ///     scope.spawn(|| println!("{local}"));
    /// });
    /// ```
    pub fn scope<'env, R>(&'env self, work: impl for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> R) -> R {
        let outcome = Arc::new(Outcome::default());
        outcome.undone.store(1, Ordering::Relaxed);
        let (jobs, handle) = self.jobs();
        let scope = Scope {
            pool: self,
            id: jobs.begun.fetch_add(1, Ordering::Relaxed),
            outcome: Arc::clone(&outcome),
            scope: PhantomData,
            env: PhantomData,
        };
        let attendance = handle.register_producer();
        // Nothing here panics; but what jobs borrow rests on it.
        let guard = AbortOnUnwind("a scope ended before its jobs");
        let result = contain(|| work(&scope));
        outcome.one_done();
        drop(attendance);
        loop {
            let attendance = handle.register_producer();
            while let Some(job) = jobs.pop(Some(scope.id)) {
                job();
            }
            drop(attendance);
            if outcome.is_done() {
                break;
            }
            outcome.changed.wait();
        }
        guard.disarm();
        let panic = outcome.panic.lock().take();
        match (result, panic) {
            (Ok(result), None) => result,
            (Err(panic), _) | (Ok(_), Some(panic)) => panic.resume(),
        }
    }
}
