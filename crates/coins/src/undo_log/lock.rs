//! The locks of the undo log are of a kind that can be chosen, so that a benchmark can run the same log under another
//! lock.

use std::sync::PoisonError;

/// A value behind a lock.
pub trait Guarded<T>: Send + Sync {
    /// Puts a value behind a lock.
    fn new(value: T) -> Self;

    /// Works on the value while nobody else does; waits until nobody does.
    fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> R;
}

/// A kind of lock, which can guard any value.
pub trait LockKind {
    /// A value behind such a lock.
    type Lock<T: Send>: Guarded<T>;
}

/// [`blockmill_sync::Mutex`], a critical section around the value.
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
