//! Why a block of a chain cannot be read.

use crate::copies::mutated;
use blockmill_block::BlockHash;
use blockmill_rules::Reject;
use std::path::PathBuf;
use thiserror::Error;

/// Why a block of the chain, or the coins that it spends, cannot be read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BlockReadError {
    /// The chain has no block of this height.
    #[error("there is no block of height {height}: the chain ends at height {tip}")]
    AboveTip {
        /// The height.
        height: u32,
        /// Height of the tip.
        tip: u32,
    },
    /// The block is in none of the files in which blocks were found.
    #[error(
        "block {hash} (height {height}) is in no block file that is still there: run connect on the files that have it"
    )]
    InNoFile {
        /// The block.
        hash: BlockHash,
        /// Its height.
        height: u32,
    },
    /// The file has other bytes than when the block was found, or cannot be read.
    #[error("{}: offset {offset}: block {hash} (height {height}): {detail}", path.display())]
    Unreadable {
        /// The block.
        hash: BlockHash,
        /// Its height.
        height: u32,
        /// The file.
        path: PathBuf,
        /// Offset in bytes.
        offset: u64,
        /// What is wrong.
        detail: String,
    },
    /// No copy of the block is what its header commits to. Of a chain that was connected that is
    /// [`Unreadable`](Self::Unreadable): the block was seen.
    #[error("{}: offset {offset}: block {hash} (height {height}): {}", path.display(), mutated(reject))]
    Rejected {
        /// The block.
        hash: BlockHash,
        /// Its height.
        height: u32,
        /// The file with the first copy.
        path: PathBuf,
        /// Offset in bytes.
        offset: u64,
        /// What the engine says of it.
        reject: Box<Reject>,
    },
    /// There is no undo data for the block.
    #[error("block {hash} (height {height}) has no undo data: {why}")]
    NoUndo {
        /// The block.
        hash: BlockHash,
        /// Its height.
        height: u32,
        /// Why not.
        why: &'static str,
    },
    /// There is no undo file beside the block's file, or none that can be read.
    #[error("{}: {why}: block {hash} (height {height}) needs it", path.display())]
    NoUndoFile {
        /// The block.
        hash: BlockHash,
        /// Its height.
        height: u32,
        /// The block's file.
        path: PathBuf,
        /// What there is instead of an undo file.
        why: String,
    },
    /// The undo file beside the block's file does not have the block's undo data.
    #[error("undo data of block {hash} (height {height}): {}: no undo data there has its checksum", path.display())]
    NoUndoRecord {
        /// The block.
        hash: BlockHash,
        /// Its height.
        height: u32,
        /// The undo file.
        path: PathBuf,
    },
    /// The undo data cannot be used.
    #[error("undo data of block {hash} (height {height}): {detail}")]
    Undo {
        /// The block.
        hash: BlockHash,
        /// Its height.
        height: u32,
        /// What is wrong.
        detail: String,
    },
    /// The block, or the coins that it spends, are what no valid chain has.
    #[error("block {hash} (height {height}): {why}")]
    Impossible {
        /// The block.
        hash: BlockHash,
        /// Its height.
        height: u32,
        /// What is wrong.
        why: String,
    },
}
