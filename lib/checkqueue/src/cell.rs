//! The one doorway to cells that threads share: those of `std`, or those of loom, which checks each
//! access.

#[cfg(blockmill_loom)]
pub(crate) use loom::cell::UnsafeCell as Cell;

/// A value that callers reach through pointers, under rules of their own.
#[cfg(not(blockmill_loom))]
#[derive(Debug, Default)]
pub(crate) struct Cell<T>(std::cell::UnsafeCell<T>);

#[cfg(not(blockmill_loom))]
impl<T> Cell<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(std::cell::UnsafeCell::new(value))
    }

    /// Calls `work` with a pointer. Reading through the pointer is valid while no thread writes.
    #[inline]
    pub(crate) fn with<R>(&self, work: impl FnOnce(*const T) -> R) -> R {
        work(self.0.get())
    }

    /// Calls `work` with a pointer. Reading and writing through the pointer is valid while no other
    /// thread does either.
    #[inline]
    pub(crate) fn with_mut<R>(&self, work: impl FnOnce(*mut T) -> R) -> R {
        work(self.0.get())
    }
}
