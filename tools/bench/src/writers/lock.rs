//! The lock that the critical section replaced, for the undo log: a semaphore of one permit that
//! spins over a kernel object.

use crate::locks::kernel_object::SpinningSemaphore;
use blockmill_coins::undo_log::{Guarded, LockKind};
use std::sync::{Mutex, TryLockError};

/// Spins of a thread before it waits for the kernel object.
pub(super) const SPINS: u32 = 1_000;

/// [`SpinningSemaphore`] with one permit.
#[derive(Debug, Clone, Copy)]
pub(super) struct KernelObjectLock;

impl LockKind for KernelObjectLock {
    type Lock<T: Send> = Permitted<T>;
}

/// A value for the holder of the permit. The holder only calls `try_lock` on the mutex around it,
/// so no thread waits there.
pub(super) struct Permitted<T> {
    semaphore: SpinningSemaphore,
    value: Mutex<T>,
}

/// Releases the permit, even if the work panics.
struct Permit<'a>(&'a SpinningSemaphore);

impl Drop for Permit<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.release();
    }
}

impl<T: Send> Guarded<T> for Permitted<T> {
    fn new(value: T) -> Self {
        Self {
            semaphore: SpinningSemaphore::new(1, SPINS),
            value: Mutex::new(value),
        }
    }

    #[inline]
    fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        self.semaphore.acquire();
        // Dropped after the guard below, so that the mutex is free when the next thread tries it.
        let _permit = Permit(&self.semaphore);
        let mut value = match self.value.try_lock() {
            Ok(value) => value,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => unreachable!("there is one permit"),
        };
        work(&mut value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn one_at_a_time() {
        let lock = Permitted::new(0_u64);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..20_000 {
                        lock.with(|count| *count += 1);
                    }
                });
            }
        });
        assert_eq!(lock.with(|count| *count), 80_000);
    }

    #[test]
    fn a_panic_gives_the_permit_back() {
        let lock = Permitted::new(7);
        let panicked = catch_unwind(AssertUnwindSafe(|| lock.with(|_| panic!("inside"))));
        assert!(panicked.is_err());
        assert_eq!(lock.with(|value| *value), 7);
    }
}
