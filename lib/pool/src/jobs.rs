//! The queue of jobs: closures that run once.

use crate::work_source::WorkSource;
use blockmill_sync::Mutex;
use blockmill_sync::atomic::{AtomicU64, Ordering};
use blockmill_sync::contain::Panic;
use std::collections::VecDeque;

/// A job. Its scope keeps its borrows alive.
pub(crate) type Job = Box<dyn FnOnce() + Send>;

/// The queued jobs of all scopes of one priority.
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
    /// An id that no other scope has.
    pub(crate) fn new_scope(&self) -> u64 {
        self.next_scope.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn push(&self, scope: u64, job: Job) {
        let mut scopes = self.scopes.lock();
        match scopes.iter_mut().find(|(id, _)| *id == scope) {
            Some((_, jobs)) => jobs.push_back(job),
            None => scopes.push_back((scope, VecDeque::from([job]))),
        }
        drop(scopes);
        // Release: pairs with the Acquire in `pending`.
        self.queued.fetch_add(1, Ordering::Release);
    }

    /// Queues a job that is the only one of its scope. Returns the id of that scope.
    pub(crate) fn push_alone(&self, job: Job) -> u64 {
        let scope = self.new_scope();
        // No search: there may be very many such jobs.
        self.scopes.lock().push_back((scope, VecDeque::from([job])));
        // Release: pairs with the Acquire in `pending`.
        self.queued.fetch_add(1, Ordering::Release);
        scope
    }

    /// Takes a job of this scope. With `None`, takes one of the scope that has had jobs for
    /// longest.
    pub(crate) fn pop(&self, scope: Option<u64>) -> Option<Job> {
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
        // After the unlock: freeing memory may take a while.
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
