//! What makes a copy the block. A block may lie in several files, and whoever wrote a copy may have
//! changed what its header does not commit to. A copy is the block if
//! - the bytes decode, and the header has the hash that was asked for;
//! - the transactions have the header's merkle root, none of them doubled (CVE-2012-2459);
//! - the witnesses have the commitment in the coinbase.
//!
//! Everything else is for the rules to say, and says it of the block. Who looks for a block takes
//! the first such copy. Chains of equal work are told apart by it, too: a block came when its
//! content came.

use crate::index::{BlockId, HeaderIndex};
use blockmill_block::{Block, BlockHash};
use blockmill_blockfiles::{BlockFiles, Position};
use blockmill_rules::block::check_commitments;
use blockmill_rules::{Params, Reject};
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};

/// The block that a copy is, by its bytes. A record that is no block, or more than its block, is
/// noted: other records may lie inside.
///
/// # Errors
/// What is wrong with the bytes, in words.
pub fn decode_copy(files: &BlockFiles, position: Position, bytes: Vec<u8>, hash: &BlockHash) -> Result<Block, String> {
    let length = bytes.len();
    let decoded = Block::decode(bytes);
    let is_exact = decoded.as_ref().is_ok_and(|block| block.bytes().len() == length);
    if !is_exact {
        files.note_doubt(position.file);
    }
    match decoded {
        Err(error) => Err(format!("the block does not decode: {error}")),
        Ok(block) if block.hash() != *hash => Err("another block lies here now".to_owned()),
        Ok(block) => Ok(block),
    }
}

/// What is wrong with a copy of a block.
#[derive(Debug)]
pub(crate) enum BadCopy {
    /// It cannot be read, or is no block, or another one; in words.
    Unreadable(String),
    /// It is not what the header commits to.
    Mutated(Reject),
}

/// The block that lies at a position, if it is the block of this hash.
///
/// # Errors
/// [`BadCopy`].
pub(crate) fn read_copy(
    files: &BlockFiles,
    position: Position,
    hash: &BlockHash,
    params: &Params,
    height: u32,
) -> Result<Block, BadCopy> {
    let bytes = files.read(&position).map_err(|error| error.to_string());
    let block = bytes.and_then(|bytes| decode_copy(files, position, bytes, hash));
    let block = block.map_err(BadCopy::Unreadable)?;
    match check_commitments(&block, params, height) {
        Ok(()) => Ok(block),
        Err(reject) => Err(BadCopy::Mutated(reject)),
    }
}

/// That a copy is not what its header commits to, in words.
#[must_use]
pub fn mutated(reject: &Reject) -> String {
    format!("its content is not that of its header ({reject})")
}

/// If several chains have the most work, finds where the blocks of the best one lie, as far as they
/// have several copies, until the best one is known. A block without a sound copy is left as it is:
/// who reads it says so. Ends early when `stop` is set.
pub(crate) fn resolve_ties(index: &mut HeaderIndex, files: &BlockFiles, stop: &AtomicBool) {
    let mut looked_at = HashSet::new();
    while index.is_tied() {
        let best = index.best_header();
        let mut next = Some(best).filter(|id| looked_at.insert(*id));
        while let Some(id) = next {
            if stop.load(Ordering::Relaxed) {
                return;
            }
            if index.has_copies(id)
                && let Some((position, _)) = find_content(index, files, id)
            {
                index.found_at(id, position);
            }
            // Below a block that was looked at all blocks were.
            next = index.entry(id).parent.filter(|parent| looked_at.insert(*parent));
        }
        index.resolve_order();
        if index.best_header() == best {
            return;
        }
    }
}

/// Where the content of a block lies, and its length in bytes.
pub(crate) fn find_content(index: &HeaderIndex, files: &BlockFiles, id: BlockId) -> Option<(Position, u64)> {
    let (entry, params) = (index.entry(id), index.params());
    index.positions(id).find_map(|position| {
        let block = read_copy(files, position, &entry.hash, params, entry.height).ok()?;
        Some((position, block.bytes().len() as u64))
    })
}
