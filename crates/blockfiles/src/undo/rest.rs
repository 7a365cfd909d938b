//! What follows a record in an undo file: records of known blocks, a write that is not finished, or
//! damage.

use super::{UndoCursor, UndoFile, WINDOW};
use crate::window::{FileWindow, ReadResult};
use crate::{FileError, RECORD_HEAD, ScanProgress};
use blockmill_block::reader::DecodeError;
use blockmill_block::undo::{RECORD_TAIL, checksum};
use blockmill_block::{BlockHash, BlockUndo};
use std::ops::ControlFlow;

/// Bytes that are read first of a record, by how much they grow, and how many they may be.
const READ_FIRST: usize = 4 << 10;
const READ_GROWTH: usize = 4;
const READ_MAX: usize = 32 << 20;

/// Bytes at the end of a record that was cut off in a preallocated file: none of them was written.
const TORN_TAIL: u64 = 4;

/// Parents of the blocks that are known.
struct Parents<'a> {
    hashes: &'a [BlockHash],
    /// The one after that whose block was recognised last: records are about in this order.
    next: usize,
}

impl UndoFile {
    /// Whether nothing but records of known blocks follows the record that was found last, and at
    /// the end perhaps padding, or a record whose write is not finished. Begins at the start of the
    /// file if `after` is none. `parents` are the parents of the known blocks, best in their order
    /// in the file.
    ///
    /// False says that something is damaged, or that it would take too long to find out: this is
    /// charged to the work that [`find`](Self::find) may do.
    ///
    /// # Errors
    /// [`FileError::Read`].
    pub fn is_rest_known(&self, after: Option<&UndoCursor>, parents: &[BlockHash]) -> Result<bool, FileError> {
        let mut go_on = |_: &ScanProgress| ControlFlow::Continue(());
        let mut window = FileWindow::new(&self.file, self.key, self.length, WINDOW, &mut go_on);
        let mut parents = Parents {
            hashes: parents,
            next: 0,
        };
        let at = after.map_or(0, |cursor| cursor.found_end);
        self.is_known_from(at, &mut window, &mut parents)
            .map_err(|cut| self.error(cut))
    }

    fn is_known_from(&self, start: u64, window: &mut FileWindow<'_>, parents: &mut Parents<'_>) -> ReadResult<bool> {
        let magic = self.magic.0;
        let mut at = start;
        loop {
            let head = window.get(at, magic.len())?;
            let written = head.iter().zip(magic).take_while(|&(&byte, of_magic)| byte == of_magic);
            let written = written.count();
            if written < magic.len() {
                // The end, padding, or a magic that was not written to its end.
                return window.is_padding_to_end(at + written as u64);
            }
            match self.end_of_known(at + RECORD_HEAD, window, parents)? {
                Some(end) => at = end,
                None => return self.is_torn(at, window),
            }
        }
    }

    /// End of the record whose undo data begins at `start`, if a known block may have it. The data
    /// says where it ends: the length before it does not count.
    fn end_of_known(
        &self,
        start: u64,
        window: &mut FileWindow<'_>,
        parents: &mut Parents<'_>,
    ) -> ReadResult<Option<u64>> {
        if start > self.length {
            return Ok(None);
        }
        let mut count = READ_FIRST;
        let (bytes, length) = loop {
            let bytes = window.get(start, count)?;
            let is_all = bytes.len() < count || count >= READ_MAX;
            let whole = BlockUndo::length_in(bytes).map(|length| (length, length + RECORD_TAIL <= bytes.len()));
            match whole {
                Ok((length, true)) => break (window.get(start, length + RECORD_TAIL)?, length),
                Ok(_) | Err(DecodeError::UnexpectedEnd { .. }) if !is_all => count *= READ_GROWTH,
                _ => return Ok(None),
            }
        };
        let (undo, sum) = bytes.split_at(length);
        let count = parents.hashes.len();
        for step in 0..count {
            let number = (parents.next + step) % count;
            if !self.spend(undo.len() as u64) {
                return Ok(None);
            }
            if checksum(&parents.hashes[number], undo) == sum {
                parents.next = number + 1;
                return Ok(Some(start + (length + RECORD_TAIL) as u64));
            }
        }
        Ok(None)
    }

    /// Whether the write of the record at `at`, which no known block has, is unfinished.
    fn is_torn(&self, at: u64, window: &mut FileWindow<'_>) -> ReadResult<bool> {
        let start = at + RECORD_HEAD;
        let head = window.get(at, RECORD_HEAD as usize)?;
        let Some(&length) = head.get(4..).and_then(<[u8]>::first_chunk) else {
            // The file ends inside the head.
            return Ok(true);
        };
        let end = start + u64::from(u32::from_le_bytes(length)) + RECORD_TAIL as u64;
        if end > self.length {
            return Ok(true);
        }
        window.is_padding_to_end((end - TORN_TAIL).max(start))
    }
}
