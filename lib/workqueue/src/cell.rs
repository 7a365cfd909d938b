//! The one doorway to cells that threads share: those of `std`, or those of loom, which checks each
//! access.

#[cfg(blockmill_loom)]
pub(crate) use loom::cell::UnsafeCell;

/// A cell whose content is reached through a pointer, with the interface of loom's cell.
#[cfg(not(blockmill_loom))]
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

#[cfg(not(blockmill_loom))]
impl<T> UnsafeCell<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(std::cell::UnsafeCell::new(value))
    }

    /// Calls `reach` with a pointer for reading and writing. Whoever follows the pointer answers
    /// for the access.
    #[inline]
    pub(crate) fn with_mut<R>(&self, reach: impl FnOnce(*mut T) -> R) -> R {
        reach(self.0.get())
    }
}
