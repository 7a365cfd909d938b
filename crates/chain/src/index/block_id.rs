//! The number of a header in the index.

use std::num::NonZeroU32;

/// A header's number in the index, from one on. Parents have lower numbers than their children.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockId(NonZeroU32);

impl BlockId {
    pub(super) const GENESIS: Self = Self(NonZeroU32::MIN);

    /// The id of the header at an index among all entries.
    pub(super) fn from_index(index: usize) -> Self {
        Self(NonZeroU32::MIN.saturating_add(index as u32))
    }

    /// The index of its entry.
    pub(super) fn index(self) -> usize {
        self.0.get() as usize - 1
    }
}
