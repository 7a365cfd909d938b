//! The undo log is generic over its lock, so that a benchmark can run it with another lock.

use std::sync::PoisonError;

/// A value that a lock guards.
pub trait Guarded<T>: Send + Sync {
    /// An unlocked value.
    fn new(value: T) -> Self;

    /// Waits for the lock, and calls `work` with the value.
    fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> R;
}

/// A kind of lock, for values of any type.
pub trait LockKind {
    /// A value under a lock of this kind.
    type Lock<T: Send>: Guarded<T>;
}

/// [`blockmill_sync::Mutex`].
#[derive(Debug, Clone, Copy)]
pub struct SectionLock;

impl LockKind for SectionLock {
    type Lock<T: Send> = blockmill_sync::Mutex<T>;
}

/// [`std::sync::Mutex`].
#[derive(Debug, Clone, Copy)]
pub struct StandardLock;

impl LockKind for StandardLock {
    type Lock<T: Send> = std::sync::Mutex<T>;
}

impl<T: Send> Guarded<T> for blockmill_sync::Mutex<T> {
    fn new(value: T) -> Self {
        Self::new(value)
    }

    #[inline]
    fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        work(&mut self.lock())
    }
}

impl<T: Send> Guarded<T> for std::sync::Mutex<T> {
    fn new(value: T) -> Self {
        Self::new(value)
    }

    #[inline]
    fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        work(&mut self.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
