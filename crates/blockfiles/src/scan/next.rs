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

use super::{Boundary, Decoded, Scanner, has_own_witnesses};
use crate::window::ReadResult;
use crate::{BLOCK_SIZE_MAX, RECORD_HEAD};
use blockmill_block::block::Block;
use blockmill_block::header::Header;
use blockmill_block::reader::DecodeError;

/// Bound of decoding, in bytes: this many times the length of the file, plus a constant.
const DECODE_BUDGET: u64 = 16;
const DECODE_BUDGET_BASE: u64 = 64 << 20;

/// Bytes that are tried first to decode a block, and by how much they grow.
const DECODE_FIRST: u64 = 512;
const DECODE_GROWTH: u64 = 4;

/// Bytes that may be decoded in a file of this length.
pub(super) fn decode_budget(size: u64) -> u64 {
    DECODE_BUDGET * size + DECODE_BUDGET_BASE
}

/// The records that may end a damage.
pub(super) struct Next {
    /// Offset of the next believed record.
    pub(super) believed: Option<u64>,
    /// Offset of the next likely record before that.
    likely: Option<u64>,
}

impl Next {
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
    pub(super) fn next_record(&mut self, from: u64) -> ReadResult<Next> {
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
        Ok(Next { believed, likely })
    }

    fn next_believed(&mut self, from: u64) -> ReadResult<Option<u64>> {
        let size = self.window.size;
        if self.is_exhausted {
            return Ok(None);
        }
        let mut at = from;
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

    /// The block that begins at `start` and has at most `length` bytes; none if there is no block
    /// with a correct merkle root. Bytes are read as the block needs them, whatever `length` says.
    pub(super) fn decode(&mut self, start: u64, length: u32) -> ReadResult<Option<Decoded>> {
        let length = u64::from(length).min(self.window.size - start);
        let mut count = DECODE_FIRST.min(length);
        loop {
            let Some(budget) = self.decode_budget.checked_sub(count) else {
                self.is_exhausted = true;
                return Ok(None);
            };
            self.decode_budget = budget;
            let bytes = self.window.get(start, count as usize)?;
            match Block::decode(bytes) {
                Err(DecodeError::UnexpectedEnd { .. }) if count < length => {
                    count = (count * DECODE_GROWTH).min(length);
                }
                Err(_) => return Ok(None),
                Ok(block) => {
                    let root = block.header().merkle_root.0;
                    let is_whole = block.transaction_count() > 0 && block.merkle_root().hash == root;
                    return Ok(is_whole.then(|| Decoded {
                        length: block.bytes().len() as u32,
                        has_own_witnesses: has_own_witnesses(&block),
                    }));
                }
            }
        }
    }
}
