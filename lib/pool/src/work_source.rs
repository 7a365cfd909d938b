//! What a pool asks of a source of work.

use blockmill_sync::Panic;

/// A source of units of work. Workers call its methods, several workers at once.
///
/// A unit must not wait for another unit: only one worker may be awake, or none.
///
/// Only [`serve`](Self::serve) may panic. A panic in another method, or in the drop of a work
/// source on a worker, aborts the process.
pub trait WorkSource: Send + Sync {
    /// Units of work that can be taken now. The number is a hint and may be too high. Return 0 only
    /// if the source was empty at some moment of the call.
    fn pending(&self) -> usize;

    /// Takes a unit of work, if there is one, and runs it. `worker` is the index of the calling
    /// worker in its pool, below the number of workers. No two calls at the same time have the same
    /// index.
    fn serve(&self, worker: usize);

    /// Called when [`serve`](Self::serve) has panicked, on the same worker.
    fn panicked(&self, panic: Panic);
}
