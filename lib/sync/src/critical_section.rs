//! A lock over a semaphore of one permit.

use crate::atomic::const_fn;
use crate::semaphore::Semaphore;
#[cfg(not(blockmill_loom))]
use std::time::{Duration, Instant};

/// A lock of 8 bytes that guards no data of its own: a [`Semaphore`] of one permit, with the speed
/// of that semaphore. Newcomers cannot starve a waiter.
///
/// ```
/// use blockmill_sync::CriticalSection;
///
/// let section = CriticalSection::new();
/// let guard = section.enter();
/// assert!(section.try_enter().is_none());
/// drop(guard);
/// assert!(section.try_enter().is_some());
/// ```
///
/// A guard cannot outlive its section:
///
/// ```compile_fail
/// use blockmill_sync::CriticalSection;
///
/// let section = CriticalSection::new();
/// let guard = section.enter();
/// drop(section);
/// drop(guard);
/// ```
#[derive(Debug)]
pub struct CriticalSection {
    semaphore: Semaphore,
}

impl Default for CriticalSection {
    fn default() -> Self {
        Self::new()
    }
}

impl CriticalSection {
    const_fn! {
        /// A section that no thread is in.
        pub const fn new() -> Self {
            Self {
                semaphore: Semaphore::new(1),
            }
        }
    }

    /// Enters the section. Waits until no other thread is in it.
    #[inline]
    pub fn enter(&self) -> CriticalGuard<'_> {
        self.semaphore.acquire();
        CriticalGuard { section: self }
    }

    /// Enters if no thread is in the section and no waiter is starving.
    #[inline]
    pub fn try_enter(&self) -> Option<CriticalGuard<'_>> {
        self.semaphore.try_acquire().then(|| CriticalGuard { section: self })
    }

    /// Threads that wait to enter at this moment. For diagnosis.
    pub fn waiters(&self) -> u32 {
        self.semaphore.waiters()
    }
}

/// Releases the only permit. The caller must hold it.
#[inline]
fn unlock(semaphore: &Semaphore) {
    // The caller took the permit, so there is room for it.
    let released = semaphore.release(1);
    debug_assert!(released.is_ok(), "unlocked a lock that was not locked");
}

/// Keeps other threads out of the section until it is dropped.
#[derive(Debug)]
#[must_use = "dropping the guard leaves the section"]
pub struct CriticalGuard<'a> {
    section: &'a CriticalSection,
}

impl Drop for CriticalGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        unlock(&self.section.semaphore);
    }
}

/// The critical section as a raw mutex of `lock_api`, which builds mutexes and guards over it.
#[cfg(not(blockmill_loom))]
#[derive(Debug)]
pub struct RawCriticalSection(Semaphore);

#[cfg(not(blockmill_loom))]
#[expect(unsafe_code, reason = "lock_api asks for a promise of mutual exclusion")]
// SAFETY: the semaphore begins with one permit. `lock` and `try_lock` take the permit. `unlock`
// releases it, and only the holder may call `unlock`. So no other `lock` returns in between, and
// exclusion holds.
unsafe impl lock_api::RawMutex for RawCriticalSection {
    const INIT: Self = Self(Semaphore::new(1));
    type GuardMarker = lock_api::GuardSend;

    #[inline]
    fn lock(&self) {
        self.0.acquire();
    }

    #[inline]
    fn try_lock(&self) -> bool {
        self.0.try_acquire()
    }

    #[inline]
    unsafe fn unlock(&self) {
        unlock(&self.0);
    }

    fn is_locked(&self) -> bool {
        // A hint, as the trait wants it: it may be old when the caller reads it.
        self.0.permits() == 0
    }
}

#[cfg(not(blockmill_loom))]
#[expect(unsafe_code, reason = "lock_api asks for a promise of mutual exclusion")]
// SAFETY: as for `RawMutex`. Both methods return true only after taking the permit.
unsafe impl lock_api::RawMutexTimed for RawCriticalSection {
    type Duration = Duration;
    type Instant = Instant;

    fn try_lock_for(&self, time: Duration) -> bool {
        self.0.acquire_timeout(time)
    }

    fn try_lock_until(&self, moment: Instant) -> bool {
        self.0.acquire_timeout(moment.saturating_duration_since(Instant::now()))
    }
}

/// A mutex over [`RawCriticalSection`]: a value and the 8 bytes of its lock. There is no poisoning.
///
/// ```
/// use blockmill_sync::Mutex;
///
/// static COUNT: Mutex<u32> = Mutex::new(0);
/// *COUNT.lock() += 1;
/// assert_eq!(*COUNT.lock(), 1);
/// ```
#[cfg(not(blockmill_loom))]
pub type Mutex<T> = lock_api::Mutex<RawCriticalSection, T>;

/// The guard of a [`Mutex`].
#[cfg(not(blockmill_loom))]
pub type MutexGuard<'a, T> = lock_api::MutexGuard<'a, RawCriticalSection, T>;
