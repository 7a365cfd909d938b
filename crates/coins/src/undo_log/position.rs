//! Where records lie.

/// The position of a block's undo data in the undo log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UndoPosition {
    /// Offset of the record in bytes.
    pub offset: u64,
    /// Length of the record in bytes.
    pub length: u32,
}

impl UndoPosition {
    /// The offset of the record's end in bytes; none if it exceeds 64 bits.
    pub fn end(&self) -> Option<u64> {
        self.offset.checked_add(self.length.into())
    }
}
