//! A chain that goes on, since another process connects blocks.

use super::ChainBlocks;
use crate::positions::FoundPositions;
use blockmill_block::{BlockHash, Header};
use blockmill_coins::{UndoLog, UndoPosition};

/// A header without a parent, or a tip without a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unknown(pub BlockHash);

impl ChainBlocks {
    /// Takes in headers that a data directory has got, each after its parent, with the positions of
    /// the undo data in `undo`; and where blocks were found. The chain ends in `tip` then, in
    /// another branch perhaps.
    ///
    /// # Errors
    /// [`Unknown`].
    pub fn advance(
        &mut self,
        headers: impl IntoIterator<Item = (Header, Option<UndoPosition>)>,
        tip: &BlockHash,
        undo: Option<UndoLog>,
        found: &FoundPositions,
    ) -> Result<(), Unknown> {
        for (header, undo) in headers {
            let hash = header.hash();
            let id = self.index.insert_trusted(&header, hash).ok_or(Unknown(hash))?;
            if let Some(undo) = undo {
                self.index.set_undo(id, undo);
            }
        }
        self.undo = undo;
        let mut next = self.index.find(tip).ok_or(Unknown(*tip))?;
        let mut above = Vec::new();
        while self.chain.get(self.index.entry(next).height as usize) != Some(&next) {
            above.push(next);
            // The first block is in every chain.
            next = self.index.entry(next).parent.unwrap_or(self.index.genesis());
        }
        let fork = self.index.entry(next).height;
        self.chain.truncate(fork as usize + 1);
        self.chain.extend(above.into_iter().rev());
        self.copies.retain(|copy| copy.height <= fork);
        self.find_blocks(found);
        Ok(())
    }

    /// Height of a known block, and of the last block of this chain that is it or an ancestor of
    /// it. None if its header is not known.
    pub fn fork_with(&self, hash: &BlockHash) -> Option<(u32, u32)> {
        let id = self.index.find(hash)?;
        let tip = self.chain.last().copied().unwrap_or(self.index.genesis());
        let fork = self.index.fork(id, tip);
        Some((self.index.entry(id).height, self.index.entry(fork).height))
    }
}
