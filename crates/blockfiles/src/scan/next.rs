//! What ends a damage: the next record of which more is known than its magic.
//!
//! A block may have the magic in its scripts, and any length after it. So a magic inside a damage
//! ends it only if a record begins there that is
//!
//! | record | the magic is followed by |
//! |---|---|
//! | believed | a whole block with the right merkle root, not longer than the length |
//! | likely | a length that leads to another magic, or to the end of the file |
//!
//! A likely record ends a damage, so that a damaged block after it is said, too. But it is no
//! evidence that the file goes on: only after a believed one is a damage no unfinished write.
//!
//! Every magic is decoded once at most, and all decoding together is bounded by the file's length.
//! Where the bound is reached nothing is believed, and no damage is taken for harmless.

use super::scanner::{Boundary, Scanner};
use crate::window::ReadResult;
use crate::{BLOCK_SIZE_MAX, RECORD_HEAD};
use blockmill_block::header::Header;

/// The records that may end a damage.
pub(super) struct NextRecords {
    /// Offset of the next believed record.
    pub(super) believed: Option<u64>,
    /// Offset of the next likely record before that.
    likely: Option<u64>,
}

impl NextRecords {
    /// Where the damage ends; none for the end of the file.
    pub(super) fn first(&self) -> Option<u64> {
        self.likely.or(self.believed)
    }

    /// Whether it ends with a whole block.
    pub(super) fn is_believed(&self) -> bool {
        self.likely.is_none() && self.believed.is_some()
    }
}

impl Scanner<'_> {
    /// The next records from `from` on.
    pub(super) fn next_record(&mut self, from: u64) -> ReadResult<NextRecords> {
        let believed = self.next_believed(from)?;
        let mut at = from;
        let likely = loop {
            let Some(found) = self.window.find_magic(self.magic, at)? else {
                break None;
            };
            if believed.is_some_and(|believed| found >= believed) {
                break None;
            }
            if self.is_likely(found)? {
                break Some(found);
            }
            at = found + 1;
        };
        Ok(NextRecords { believed, likely })
    }

    fn next_believed(&mut self, from: u64) -> ReadResult<Option<u64>> {
        let size = self.window.size;
        if self.is_exhausted {
            return Ok(None);
        }
        let mut at = from;
        // Bytes that were searched before are not searched again.
        if !(self.without_belief.start..=self.without_belief.end).contains(&from) {
            self.without_belief = from..size;
            while let Some(found) = self.window.find_magic(self.magic, at)? {
                if self.is_believed(found)? {
                    self.without_belief.end = found;
                    break;
                }
                if self.is_exhausted {
                    return Ok(None);
                }
                at = found + 1;
            }
        }
        Ok(Some(self.without_belief.end).filter(|&end| end < size))
    }

    /// The length of the block after a magic, if it is possible and the file has so much.
    fn possible_length(&mut self, at: u64) -> ReadResult<Option<u32>> {
        let head = self.window.get(at, RECORD_HEAD as usize)?;
        let Some(&length) = head.get(4..).and_then(<[u8]>::first_chunk) else {
            return Ok(None);
        };
        let length = u32::from_le_bytes(length);
        let end = at + RECORD_HEAD + u64::from(length);
        let is_possible = (Header::LENGTH as u32..=BLOCK_SIZE_MAX).contains(&length) && end <= self.window.size;
        Ok(is_possible.then_some(length))
    }

    fn is_believed(&mut self, at: u64) -> ReadResult<bool> {
        let Some(length) = self.possible_length(at)? else {
            return Ok(false);
        };
        let start = at + RECORD_HEAD;
        match self.decode(start, length)? {
            Some(decoded) => Ok(!self.is_torn(start, decoded)?),
            None => Ok(false),
        }
    }

    fn is_likely(&mut self, at: u64) -> ReadResult<bool> {
        let Some(length) = self.possible_length(at)? else {
            return Ok(false);
        };
        let end = at + RECORD_HEAD + u64::from(length);
        let (bytes, count) = self.window.peek(end)?;
        let boundary = self.boundary_of(&bytes[..count], end);
        Ok(matches!(boundary, Boundary::End | Boundary::Magic))
    }
}
