//! The state of a scan, and what it decodes.

use super::damage::Damage;
use crate::Record;
use crate::window::{FileWindow, ReadResult};
use blockmill_block::block::Block;
use blockmill_block::hash::sha256d;
use blockmill_block::merkle;
use blockmill_block::network::Magic;
use blockmill_block::reader::DecodeError;
use std::ops::Range;
use std::path::PathBuf;

/// Bytes at the end of a record that was cut off in a preallocated file: none of them was written.
pub(super) const TORN_TAIL: u64 = 16;

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

/// What a scan reads of each record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScanDepth {
    /// Its head and its header.
    Lengths,
    /// All of it.
    Contents,
}

/// The result of a scan.
#[derive(Debug, Clone, Default)]
pub struct Scan {
    /// The records, in the order of the file.
    pub records: Vec<Record>,
    /// The first damages, in the order of the file: of those that are harmless whatever the other
    /// files have, and of all others, so many each.
    pub damages: Vec<Damage>,
    /// Number of further damages that are not harmless.
    pub more_damages: u64,
    /// Length of the file in bytes.
    pub bytes: u64,
}

/// A block with a correct merkle root.
#[derive(Clone, Copy)]
pub(super) struct Decoded {
    pub(super) length: u32,
    pub(super) has_own_witnesses: bool,
}

/// Whether the witnesses of a block are those of its commitment, if it has witnesses at all.
fn has_own_witnesses(block: &Block<&[u8]>) -> bool {
    let coinbase = block.transaction(0);
    let commitment = merkle::witness_commitment(&coinbase);
    let (Some(commitment), true) = (commitment, coinbase.input_count() > 0) else {
        return true;
    };
    let witness = coinbase.input(0).witness();
    // A witness of another form cannot be compared, and the rules refuse such a block.
    let reserved = witness.last().filter(|_| witness.len() == 1);
    reserved.is_none_or(|reserved| sha256d(&[&block.witness_merkle_root()[..], reserved].concat()) == commitment)
}

/// The meaning of the bytes at an offset.
pub(super) enum Boundary {
    End,
    Magic,
    Padding,
    Other,
}

/// A scan under way.
pub(super) struct Scanner<'a> {
    /// Bytes that may still be decoded.
    pub(super) decode_budget: u64,
    /// Whether something was not decoded since they were too few.
    pub(super) is_exhausted: bool,
    /// No believed record begins in these bytes, and one does at their end, or the file ends.
    pub(super) without_belief: Range<u64>,
    /// Damages that are described.
    pub(super) harmless: usize,
    pub(super) harmful: usize,
    pub(super) depth: ScanDepth,
    pub(super) file: u32,
    pub(super) path: PathBuf,
    pub(super) magic: Magic,
    pub(super) window: FileWindow<'a>,
    pub(super) scan: Scan,
}

impl Scanner<'_> {
    /// The meaning of the first bytes at `at`.
    pub(super) fn boundary_of(&self, bytes: &[u8], at: u64) -> Boundary {
        let (magic, key) = (self.magic, self.window.key);
        let length = bytes.len().min(magic.0.len());
        if bytes.is_empty() {
            Boundary::End
        } else if bytes[..length] == magic.0[..length] && (length == magic.0.len() || !key.is_padding(bytes, at)) {
            // At the end of the file a part of the magic is enough: the rest was not written.
            Boundary::Magic
        } else if key.is_padding(&bytes[..1], at) {
            Boundary::Padding
        } else {
            Boundary::Other
        }
    }

    /// Whether zeros stand where the last witnesses of a block should: its write is unfinished, and
    /// they happen to decode.
    pub(super) fn is_torn(&mut self, start: u64, decoded: Decoded) -> ReadResult<bool> {
        let end = start + u64::from(decoded.length);
        Ok(!decoded.has_own_witnesses
            && self
                .window
                .is_padding_to_end(end.saturating_sub(TORN_TAIL).max(start))?)
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
            // Bytes that are decoded again count again.
            self.decode_budget = budget;
            let bytes = self.window.get(start, count as usize)?;
            match Block::decode(bytes) {
                Err(DecodeError::UnexpectedEnd { .. }) if count < length => {
                    count = (count * DECODE_GROWTH).min(length);
                }
                Err(_) => return Ok(None),
                Ok(block) => {
                    let root = block.header().merkle_root.0;
                    // The merkle root covers every transaction, so random bytes do not pass.
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
