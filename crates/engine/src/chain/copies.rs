//! The one judge of copies. A block may lie in several files, and whoever wrote a copy may have
//! changed what its header does not commit to. A copy is the block if
//! - the bytes decode, and the header has the hash that was asked for;
//! - the transactions have the header's merkle root, none of them doubled (CVE-2012-2459);
//! - the witnesses have the commitment in the coinbase.
//!
//! Everything else is for the rules to say, and says it of the block. Who looks for a block takes
//! the first such copy; the order of the copies is that of files and offsets.

use blockmill_block::{Block, BlockHash};
use blockmill_blockfiles::{BlockFiles, Position};
use blockmill_rules::Params;
use blockmill_rules::block::check_commitments;

/// The block that a copy is, by its bytes. A record that is no block, or more than its block, is
/// noted: other records may lie inside.
///
/// # Errors
/// What is wrong with the bytes, in words.
pub(crate) fn decode_copy(
    files: &BlockFiles,
    position: Position,
    bytes: Vec<u8>,
    hash: &BlockHash,
) -> Result<Block, String> {
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

/// What shows that a copy is not the block of its header, in words. None if it is the block.
pub(crate) fn content_problem(block: &Block, params: &Params, height: u32) -> Option<String> {
    let reject = check_commitments(block, params, height).err()?;
    Some(format!("its content is not that of its header ({reject})"))
}
