//! What hands out work, and its place in a pool.

use crate::contain::Panic;
use crate::pool::Shared;
use std::sync::Arc;

/// Something that hands out units of work. Workers call it, several at once.
///
/// Units must not wait for one another: there may be one worker awake, or none. Only [`serve`](Self::serve) may panic; a panic elsewhere, or in the drop
/// of a work source on a worker, ends the process.
pub trait WorkSource: Send + Sync {
    /// Units of work that can be taken now, or more: a hint, but 0 only if there was a moment in this call without any.
    fn pending(&self) -> usize;

    /// Takes a unit of work, if there is one, and does it. `worker` is the number of the calling worker in its pool, below the
    /// number of workers; no two calls at once have the same.
    fn serve(&self, worker: usize);

    /// A unit of work has panicked out of [`serve`](Self::serve).
    fn panicked(&self, panic: Panic);
}

/// A work source's place in a pool. When it is dropped the pool serves the work source no more; a unit of work that was begun goes on.
#[derive(Debug)]
pub struct WorkSourceHandle {
    shared: Arc<Shared>,
    id: u64,
}

impl WorkSourceHandle {
    pub(crate) fn new(shared: Arc<Shared>, id: u64) -> Self {
        Self { shared, id }
    }

    /// Tells the pool that the work source has more work than before. To be called after the work can be taken. Wakes a worker if none
    /// looks for work and there is a core for it; takes no lock.
    #[inline]
    pub fn notify(&self) {
        self.shared.notify();
    }

    /// While the attendance lives, the calling thread counts as one that makes work: idle workers stay awake for it, and leave it
    /// a core.
    pub fn register_producer(&self) -> Producer {
        self.shared.register_producer();
        Producer {
            shared: Arc::clone(&self.shared),
        }
    }

    /// Whether the pool has workers, and has not ended.
    pub fn is_served(&self) -> bool {
        self.shared.is_served()
    }

    /// Workers of the pool.
    pub fn workers(&self) -> usize {
        self.shared.workers()
    }
}

impl Drop for WorkSourceHandle {
    fn drop(&mut self) {
        self.shared.unregister(self.id);
    }
}

/// That somebody makes work for a work source.
#[derive(Debug)]
#[must_use = "the attendance ends when it is dropped"]
pub struct Producer {
    shared: Arc<Shared>,
}

impl Drop for Producer {
    fn drop(&mut self) {
        self.shared.leave();
    }
}
