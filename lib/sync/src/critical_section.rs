//! A lock over a semaphore of one permit.

use crate::semaphore::Semaphore;
#[cfg(not(blockmill_loom))]
use std::time::{Duration, Instant};

/// A lock that guards no data of its own: 8 bytes, as fast as its semaphore, and like it without starvation.
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
    /// A section with nobody in it.
    #[cfg(not(blockmill_loom))]
    pub const fn new() -> Self {
        Self {
            semaphore: Semaphore::new(1),
        }
    }

    /// A section with nobody in it.
    #[cfg(blockmill_loom)]
    pub fn new() -> Self {
        Self {
            semaphore: Semaphore::new(1),
        }
    }

    /// Enters, and waits until nobody else is in it.
    #[inline]
    pub fn enter(&self) -> CriticalGuard<'_> {
        self.semaphore.acquire();
        CriticalGuard { section: self }
    }

    /// Enters if nobody is in it, and nobody starves for it.
    #[inline]
    pub fn try_enter(&self) -> Option<CriticalGuard<'_>> {
        self.semaphore.try_acquire().then(|| CriticalGuard { section: self })
    }

    /// Threads that wait to enter at this moment; for diagnosis.
    pub fn waiters(&self) -> u32 {
        self.semaphore.waiters()
    }
}

/// Gives back the only permit, to whom it was given.
#[inline]
fn unlock(semaphore: &Semaphore) {
    // The permit was taken, so there is room for it.
    let released = semaphore.release(1);
    debug_assert!(released.is_ok(), "a lock was unlocked that was not locked");
}

/// Leaves the section when it is dropped.
#[derive(Debug)]
#[must_use = "the section is left when the guard is dropped"]
pub struct CriticalGuard<'a> {
    section: &'a CriticalSection,
}

impl Drop for CriticalGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        unlock(&self.section.semaphore);
    }
}

/// The critical section for `lock_api`.
#[cfg(not(blockmill_loom))]
#[derive(Debug)]
pub struct RawCriticalSection(Semaphore);

#[cfg(not(blockmill_loom))]
#[expect(unsafe_code, reason = "lock_api asks for a promise of mutual exclusion")]
// SAFETY: the semaphore begins with one permit; `lock` and `try_lock` take it and `unlock`, which may only be called by who has
// it, gives it back. So between them no other `lock` returns: exclusion holds.
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
        self.0.permits() == 0
    }
}

#[cfg(not(blockmill_loom))]
#[expect(unsafe_code, reason = "lock_api asks for a promise of mutual exclusion")]
// SAFETY: as for `RawMutex`: true is returned only by who has taken the permit.
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

/// A mutex over [`RawCriticalSection`].
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
