//! Ours and the peers, each as a lock that one thread at a time passes. `pass` is
//! `#[inline(always)]` for all of them: the compiler's own choice would change an uncontended pass
//! by more than 10%.

use super::posix::PosixSemaphore;
use super::runner::Passed;
use blockmill_sync::{CriticalSection, Semaphore};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// A lock: one thread at a time does its work.
pub(super) trait Lock: Sync {
    fn with(&self, work: impl FnOnce());
}

/// A lock around a count that loses additions unless one thread at a time adds.
pub(super) struct Counted<L> {
    lock: L,
    count: AtomicU64,
}

impl<L: Lock> Counted<L> {
    pub(super) fn new(lock: L) -> Self {
        Self {
            lock,
            count: AtomicU64::new(0),
        }
    }
}

impl<L: Lock> Passed for Counted<L> {
    #[inline(always)]
    fn pass(&self) {
        self.lock.with(|| {
            let count = self.count.load(Ordering::Relaxed);
            self.count.store(count + 1, Ordering::Relaxed);
        });
    }

    fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }
}

impl Lock for Semaphore {
    #[inline(always)]
    fn with(&self, work: impl FnOnce()) {
        self.acquire();
        work();
        let released = self.release(1);
        debug_assert!(released.is_ok());
    }
}

impl Lock for CriticalSection {
    #[inline(always)]
    fn with(&self, work: impl FnOnce()) {
        let _inside = self.enter();
        work();
    }
}

impl Lock for PosixSemaphore {
    #[inline(always)]
    fn with(&self, work: impl FnOnce()) {
        self.acquire();
        work();
        self.release();
    }
}

impl Passed for Mutex<u64> {
    #[inline(always)]
    fn pass(&self) {
        *self.lock().unwrap_or_else(PoisonError::into_inner) += 1;
    }

    fn count(&self) -> u64 {
        *self.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Passed for parking_lot::Mutex<u64> {
    #[inline(always)]
    fn pass(&self) {
        *self.lock() += 1;
    }

    fn count(&self) -> u64 {
        *self.lock()
    }
}
