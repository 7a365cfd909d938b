//! Blocks that are resolved and not committed.

use crate::checks::{PendingChecks, RoundResult};
use crate::index::BlockId;
use blockmill_block::coin::Coin;
use blockmill_block::{Block, BlockUndo};
use blockmill_rules::ScriptVerifier;
use std::sync::Arc;

/// Bytes that a coin of the undo data takes, about: with the script of a witness program, and what the allocator adds.
const UNDO_COIN_BYTES: usize = size_of::<Coin>() + 48;

/// A block that has changed the cache, and whose checks are under way.
pub(crate) struct InFlight<V: ScriptVerifier + 'static> {
    pub(crate) id: BlockId,
    pub(crate) block: Arc<Block>,
    pub(crate) undo: Arc<BlockUndo>,
    /// Memory in bytes, about.
    pub(crate) memory: usize,
    pub(crate) scripts_skipped: bool,
    /// None when they have ended, or need not run.
    pub(crate) checks: Option<PendingChecks<V>>,
}

impl<V: ScriptVerifier + 'static> InFlight<V> {
    /// Memory in bytes that a block and the coins that it spends take, about.
    pub(crate) fn memory_of(block: &Block, undo: &BlockUndo) -> usize {
        block.memory() + undo.coins().len() * UNDO_COIN_BYTES
    }

    /// Whether its checks have ended.
    pub(crate) fn is_done(&self) -> bool {
        self.checks.as_ref().is_none_or(PendingChecks::is_done)
    }

    /// Runs checks, at most so many; returns how many there were.
    pub(crate) fn help(&self, checks_max: u32) -> u32 {
        self.checks.as_ref().map_or(0, |checks| checks.help(checks_max))
    }

    /// Waits for its checks, running what is left of them. None if there were none.
    pub(crate) fn finish(&mut self) -> Option<RoundResult> {
        self.checks.take().map(PendingChecks::finish)
    }
}
