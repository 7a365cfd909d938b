//! Flush epochs: they tell which reads of the store are older than its last change.
//!
//! The epoch of a store is the number of flushes that have reached it. A reader notes the epoch
//! before it reads. If the epoch is the same when the coin is used, the store still says the same.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How many flushes had reached the store at some moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct FlushEpoch(u64);

impl FlushEpoch {
    /// The epoch after one more flush.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// The epoch of a store, shared by the cache that flushes and the threads that read. Clones show
/// the same epoch.
///
/// ```
/// use blockmill_coins::FlushClock;
///
/// let clock = FlushClock::default();
/// let read_epoch = clock.now();
/// assert_eq!(clock.now(), read_epoch);
/// clock.advance();
/// assert_eq!(clock.now(), read_epoch.next());
/// ```
#[derive(Debug, Clone, Default)]
pub struct FlushClock(Arc<AtomicU64>);

impl FlushClock {
    /// The epoch at this moment. What the caller reads from the store afterwards is at least as new
    /// as the last flush of this epoch.
    #[inline]
    pub fn now(&self) -> FlushEpoch {
        // Acquire: pairs with the Release in `advance`. A thread that sees the epoch reads the
        // store as that flush left it.
        FlushEpoch(self.0.load(Ordering::Acquire))
    }

    /// Begins the next epoch. To be called when a commit has returned, by the thread that made the
    /// commit. [`CoinsCache`](crate::CoinsCache) does so in its flushes.
    pub fn advance(&self) {
        // Release: pairs with the Acquire in `now`.
        self.0.fetch_add(1, Ordering::Release);
    }
}
