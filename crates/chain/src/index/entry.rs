//! What the index knows of one block, in 192 bytes: a chain has a million of them.

use super::block_id::BlockId;
use super::linking::NOT_LINKED;
use blockmill_block::{BlockHash, Header, MerkleRoot};
use blockmill_blockfiles::Position;
use blockmill_coins::UndoPosition;
use blockmill_rules::Work;

/// What is known of a block.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The hash of its header.
    pub hash: BlockHash,
    /// Work of the chain up to here.
    pub work: Work,
    /// The parent; none for the first block.
    pub parent: Option<BlockId>,
    /// Height.
    pub height: u32,
    /// Median time past of this block.
    pub median_time_past: u32,
    /// Seconds since 1970, as the header states them.
    pub time: u32,
    /// The header's target in compact form.
    pub bits: u32,
    /// The number that the block got when it was linked: of blocks of equal work the one with the
    /// lowest number is first. Zero: connected in an earlier run.
    pub sequence: u64,
    /// When the content came, as against when it could be connected.
    pub(super) arrival: u64,
    /// Whether the block or an ancestor is known to be invalid.
    pub failed: bool,
    pub(super) linked: bool,
    /// Whether the content was read and is the block. Then the block's rank is final.
    pub(super) is_sound: bool,
    has_content: bool,
    has_undo: bool,
    pub(super) first_child: Option<BlockId>,
    pub(super) next_sibling: Option<BlockId>,
    /// An ancestor further back, so that ancestors are found in few steps.
    pub(super) skip: BlockId,
    // The rest of the header.
    merkle_root: MerkleRoot,
    version: i32,
    nonce: u32,
    // The position of the content, and that of the undo data: field by field, since options of them
    // would take more.
    file: u32,
    length: u32,
    offset: u64,
    undo_offset: u64,
    undo_length: u32,
}

impl Entry {
    /// A block of which the header is known; the first one, until its parent is set.
    pub(super) fn new(header: &Header, hash: BlockHash, work: Work, skip: BlockId) -> Self {
        Self {
            hash,
            work,
            parent: None,
            height: 0,
            median_time_past: 0,
            time: header.time,
            bits: header.bits,
            sequence: NOT_LINKED,
            arrival: 0,
            failed: false,
            linked: false,
            is_sound: false,
            has_content: false,
            has_undo: false,
            first_child: None,
            next_sibling: None,
            skip,
            merkle_root: header.merkle_root,
            version: header.version,
            nonce: header.nonce,
            file: 0,
            length: 0,
            offset: 0,
            undo_offset: 0,
            undo_length: 0,
        }
    }

    pub(super) fn header(&self, prev_block_hash: BlockHash) -> Header {
        Header {
            version: self.version,
            prev_block_hash,
            merkle_root: self.merkle_root,
            time: self.time,
            bits: self.bits,
            nonce: self.nonce,
        }
    }

    /// Whether a position of the block is known.
    pub fn has_content(&self) -> bool {
        self.has_content
    }

    /// Where the block lies: the first of several positions.
    pub fn position(&self) -> Option<Position> {
        self.has_content.then_some(Position {
            file: self.file,
            length: self.length,
            offset: self.offset,
        })
    }

    pub(super) fn set_position(&mut self, position: Option<Position>) {
        self.has_content = position.is_some();
        if let Some(Position { file, length, offset }) = position {
            (self.file, self.length, self.offset) = (file, length, offset);
        }
    }

    /// Undo data, once the block has been connected.
    pub fn undo(&self) -> Option<UndoPosition> {
        self.has_undo.then_some(UndoPosition {
            offset: self.undo_offset,
            length: self.undo_length,
        })
    }

    pub(super) fn set_undo(&mut self, undo: UndoPosition) {
        (self.undo_offset, self.undo_length, self.has_undo) = (undo.offset, undo.length, true);
    }

    /// Length of the block in bytes; zero if it is not there.
    pub fn block_length(&self) -> u64 {
        self.position().map_or(0, |position| position.length.into())
    }
}
