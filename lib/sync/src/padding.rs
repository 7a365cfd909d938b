//! Values on cache lines of their own.

use std::ops::{Deref, DerefMut};

/// A value that shares no cache line with another value. It is aligned to 128 bytes, because
/// current processors fetch lines of 64 bytes in pairs.
///
/// ```
/// use blockmill_sync::CachePadded;
///
/// let counters = [CachePadded::new(1u64), CachePadded::new(2)];
/// let distance = &raw const *counters[1] as usize - &raw const *counters[0] as usize;
/// assert_eq!(distance, 128);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(align(128))]
pub struct CachePadded<T>(T);

impl<T> CachePadded<T> {
    /// Pads `value`.
    pub const fn new(value: T) -> Self {
        Self(value)
    }

    /// Returns the value without its padding.
    pub fn into_inner(self) -> T {
        self.0
    }
}

impl<T> Deref for CachePadded<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for CachePadded<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}
