//! What hands out work, and its place in a crew.

use crate::contain::Panic;
use crate::crew::Shared;
use std::sync::Arc;

/// Something that hands out units of work. Workers call it, several at once.
///
/// Units must not wait for one another: there may be one worker awake, or none. Only [`serve`](Self::serve) may panic; a panic elsewhere, or in the drop
/// of a station on a worker, ends the process.
pub trait Station: Send + Sync {
    /// Units of work that can be taken now, or more: a hint, but 0 only if there was a moment in this call without any.
    fn pending(&self) -> usize;

    /// Takes a unit of work, if there is one, and does it. `worker` is the number of the calling worker in its crew, below the
    /// number of workers; no two calls at once have the same.
    fn serve(&self, worker: usize);

    /// A unit of work has panicked out of [`serve`](Self::serve).
    fn panicked(&self, panic: Panic);
}

/// A station's place in a crew. When it is dropped the crew serves the station no more; a unit of work that was begun goes on.
#[derive(Debug)]
pub struct StationHandle {
    shared: Arc<Shared>,
    id: u64,
}

impl StationHandle {
    pub(crate) fn new(shared: Arc<Shared>, id: u64) -> Self {
        Self { shared, id }
    }

    /// Tells the crew that the station has more work than before. To be called after the work can be taken. Wakes a worker if none
    /// looks for work and there is a core for it; takes no lock.
    #[inline]
    pub fn notify(&self) {
        self.shared.notify();
    }

    /// While the attendance lives, the calling thread counts as one that makes work: idle workers stay awake for it, and leave it
    /// a core.
    pub fn attend(&self) -> Attendance {
        self.shared.attend();
        Attendance {
            shared: Arc::clone(&self.shared),
        }
    }

    /// Whether the crew has workers, and has not ended.
    pub fn is_served(&self) -> bool {
        self.shared.is_served()
    }

    /// Workers of the crew.
    pub fn workers(&self) -> usize {
        self.shared.workers()
    }
}

impl Drop for StationHandle {
    fn drop(&mut self) {
        self.shared.unregister(self.id);
    }
}

/// That somebody makes work for a station.
#[derive(Debug)]
#[must_use = "the attendance ends when it is dropped"]
pub struct Attendance {
    shared: Arc<Shared>,
}

impl Drop for Attendance {
    fn drop(&mut self) {
        self.shared.leave();
    }
}
