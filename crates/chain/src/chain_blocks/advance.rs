//! Extends a chain while another process connects blocks.

use super::ChainBlocks;
use crate::index::BlockId;
use blockmill_block::{BlockHash, Header};
use blockmill_coins::{Tip, UndoLog, UndoPosition};

/// Header without a known parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unknown(pub BlockHash);

impl ChainBlocks {
    /// Adds headers of a data directory to the index, each after its parent, with their hashes and
    /// the positions of the undo data. The chain stays the same.
    ///
    /// # Errors
    /// [`Unknown`]; the headers before it are added.
    pub fn add_headers(&mut self, headers: Vec<(Header, BlockHash, Option<UndoPosition>)>) -> Result<(), Unknown> {
        self.index.reserve(headers.len());
        for (header, hash, undo) in headers {
            let id = self.index.insert_trusted(&header, hash).ok_or(Unknown(hash))?;
            if let Some(undo) = undo {
                self.index.set_undo(id, undo);
            }
        }
        Ok(())
    }

    /// Extends the chain to the block `tip`, whose undo data is in `undo`. Returns `false` and
    /// changes nothing if that block is unknown, or does not descend from the chain's last one.
    #[must_use]
    pub fn extend_to(&mut self, tip: &BlockHash, undo: Option<UndoLog>) -> bool {
        let Some(mut next) = self.index.find(tip) else {
            return false;
        };
        let mut above = Vec::new();
        while self.index.entry(next).height as usize >= self.chain.len() {
            above.push(next);
            next = self.index.entry(next).parent.unwrap_or(self.index.genesis());
        }
        if self.chain.last() != Some(&next) {
            return false;
        }
        self.chain.extend(above.into_iter().rev());
        self.undo = undo;
        true
    }

    /// Returns the last block of the chain.
    pub fn tip(&self) -> Tip {
        self.index.tip_at(self.tip_id())
    }

    fn tip_id(&self) -> BlockId {
        self.chain.last().copied().unwrap_or(self.index.genesis())
    }

    /// Height of a known block, and of the last block of this chain that is it or an ancestor of
    /// it. None if its header is not known.
    pub fn fork_with(&self, hash: &BlockHash) -> Option<(u32, u32)> {
        let id = self.index.find(hash)?;
        let fork = self.index.fork(id, self.tip_id());
        Some((self.index.entry(id).height, self.index.entry(fork).height))
    }
}
