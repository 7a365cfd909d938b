//! The registration of work sources and producers in a pool.

use crate::work_source::WorkSource;
use crate::worker::Shared;
use std::sync::Arc;

/// The registration of a work source in a pool. Dropping the handle ends the registration: the pool
/// starts no more units of the work source, and running units go on.
#[derive(Debug)]
pub struct WorkSourceHandle {
    shared: Arc<Shared>,
    id: u64,
}

impl WorkSourceHandle {
    pub(crate) fn new(shared: &Arc<Shared>, priority: u32, source: Arc<dyn WorkSource>) -> Self {
        Self {
            id: shared.register(priority, source),
            shared: Arc::clone(shared),
        }
    }

    /// Notifies the pool of new work. The caller must publish the work first. Wakes a worker if
    /// none is searching for work and a core is free for one. Takes no lock.
    #[inline]
    pub fn notify(&self) {
        self.shared.notify();
    }

    /// Registers this thread as a producer of work, until the [`Producer`] is dropped. Idle workers
    /// then stay awake for longer, and leave the producer a core.
    pub fn register_producer(&self) -> Producer {
        self.shared.register_producer();
        Producer {
            shared: Arc::clone(&self.shared),
        }
    }

    /// Whether the pool has workers and has not been dropped.
    pub fn is_served(&self) -> bool {
        self.shared.is_served()
    }

    /// Number of workers of the pool.
    pub fn workers(&self) -> usize {
        self.shared.workers()
    }
}

impl Drop for WorkSourceHandle {
    fn drop(&mut self) {
        // Units that are running go on: their workers hold the source.
        self.shared.unregister(self.id);
    }
}

/// The registration of a thread as a producer of work.
///
/// Leaking a `Producer` leaves the thread counted: one worker fewer stays awake.
#[derive(Debug)]
#[must_use = "dropping the producer ends its registration"]
pub struct Producer {
    shared: Arc<Shared>,
}

impl Drop for Producer {
    fn drop(&mut self) {
        self.shared.unregister_producer();
    }
}
