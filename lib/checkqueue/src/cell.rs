//! Interior mutability without a lock; under loom, which checks every access, its own.

#[cfg(blockmill_loom)]
pub(crate) use loom::cell::UnsafeCell as Cell;

/// A value that is reached through pointers, under rules of the caller's.
#[cfg(not(blockmill_loom))]
#[derive(Debug, Default)]
pub(crate) struct Cell<T>(std::cell::UnsafeCell<T>);

#[cfg(not(blockmill_loom))]
impl<T> Cell<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(std::cell::UnsafeCell::new(value))
    }

    /// Reads through a pointer, which is valid to read while nobody writes.
    #[inline]
    pub(crate) fn with<R>(&self, work: impl FnOnce(*const T) -> R) -> R {
        work(self.0.get())
    }

    /// Reads and writes through a pointer, which is valid to do so while nobody else does.
    #[inline]
    pub(crate) fn with_mut<R>(&self, work: impl FnOnce(*mut T) -> R) -> R {
        work(self.0.get())
    }
}
