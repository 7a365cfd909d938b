//! Blocks in flight: resolved, and not committed yet.

use crate::pipeline::outline::Outline;
use crate::pipeline::replaced::Replaced;
use crate::pipeline::shards::disconnect;
use blockmill_block::{Block, BlockUndo};
use blockmill_chain::index::BlockId;
use blockmill_chain::report::signatures::SignatureWay;
use blockmill_coins::{CoinsCache, StoreError};
use blockmill_rules::ScriptVerifier;
use blockmill_validate::check_pool::{PendingChecks, RoundResult};
use std::collections::VecDeque;
use std::sync::Arc;

/// A block that has changed the cache, and whose checks are under way.
pub(crate) struct InFlight<V: ScriptVerifier + 'static> {
    pub(crate) id: BlockId,
    pub(crate) block: Arc<Block>,
    pub(crate) undo: Arc<BlockUndo>,
    /// The undo data as a record of the undo log.
    pub(crate) record: Vec<u8>,
    /// Coins that it has replaced.
    pub(crate) replaced: Replaced,
    /// How its signatures are verified. None if its scripts need not run.
    pub(crate) signatures: Option<SignatureWay>,
    /// None where its scripts need not run, and once the block has its verdict.
    pub(crate) checks: Option<PendingChecks<V>>,
    /// Memory in bytes of the block and the coins that it spends, about.
    memory: usize,
}

impl<V: ScriptVerifier + 'static> InFlight<V> {
    pub(crate) fn new(
        id: BlockId,
        block: Arc<Block>,
        undo: Arc<BlockUndo>,
        record: Vec<u8>,
        replaced: Replaced,
        signatures: Option<SignatureWay>,
        checks: Option<PendingChecks<V>>,
    ) -> Self {
        Self {
            id,
            memory: block.memory() + undo.memory() + record.capacity(),
            block,
            undo,
            record,
            replaced,
            signatures,
            checks,
        }
    }

    /// Whether its checks have ended and its scripts have their verdicts.
    fn is_done(&mut self) -> bool {
        self.checks.as_mut().is_none_or(PendingChecks::is_done)
    }

    /// Whether its checks are in the check queue.
    fn is_in_round(&self) -> bool {
        self.checks.as_ref().is_some_and(|checks| !checks.is_round_over())
    }

    /// Leaves the check queue if all its checks have been run. Returns whether it is not, or no
    /// longer, in the queue.
    fn end_round_if_done(&mut self) -> bool {
        self.checks.as_mut().is_none_or(PendingChecks::end_round_if_done)
    }

    /// Waits for its checks and runs what is left of them, then has deferred checks verified. None
    /// if there were no checks.
    pub(crate) fn finish(&mut self) -> Option<RoundResult> {
        self.checks.take().map(PendingChecks::finish)
    }
}

/// All blocks in flight, in order of height.
pub(crate) struct InFlightBlocks<V: ScriptVerifier + 'static>(VecDeque<InFlight<V>>);

impl<V: ScriptVerifier + 'static> Default for InFlightBlocks<V> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<V: ScriptVerifier + 'static> InFlightBlocks<V> {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The block of a number, from 0.
    pub(crate) fn id(&self, number: usize) -> Option<BlockId> {
        self.0.get(number).map(|block| block.id)
    }

    /// The lowest block.
    pub(crate) fn first_mut(&mut self) -> Option<&mut InFlight<V>> {
        self.0.front_mut()
    }

    /// Adds a block above all others.
    pub(crate) fn push(&mut self, block: InFlight<V>) {
        self.0.push_back(block);
    }

    /// Removes the lowest block.
    pub(crate) fn pop_first(&mut self) -> Option<InFlight<V>> {
        self.0.pop_front()
    }

    /// Memory in bytes, about.
    pub(crate) fn memory(&self) -> usize {
        self.0.iter().map(|block| block.memory).sum()
    }

    /// Blocks with checks in the check queue.
    pub(crate) fn rounds(&self) -> usize {
        self.0.iter().filter(|block| block.is_in_round()).count()
    }

    /// Whether the lowest block has its verdict.
    pub(crate) fn is_first_done(&mut self) -> bool {
        self.0.front_mut().is_some_and(InFlight::is_done)
    }

    /// Runs checks of the lowest block that has any left, at most so many. Returns false if no
    /// block has.
    pub(crate) fn help(&self, checks_max: u32) -> bool {
        let checks = self.0.iter().filter_map(|block| block.checks.as_ref());
        checks.into_iter().any(|checks| checks.help(checks_max) > 0)
    }

    /// Ends the rounds of the lowest blocks, up to the first whose checks still run.
    pub(crate) fn end_rounds(&mut self) {
        // `all` stops at the first block whose checks still run.
        let _ = self.0.iter_mut().all(InFlight::end_round_if_done);
    }

    /// Waits for the checks of the lowest block and runs what is left of them, but not for deferred
    /// scripts. Returns false if there is nothing to wait for.
    pub(crate) fn end_first_round(&mut self) -> bool {
        let checks = self.0.front_mut().and_then(|block| block.checks.as_mut());
        checks.is_some_and(PendingChecks::end_round)
    }

    /// Disconnects all blocks from the cache, the highest one first. Checks that have not begun are
    /// not run.
    pub(crate) fn disconnect_all(&mut self, cache: &mut CoinsCache) -> Result<(), StoreError> {
        while let Some(block) = self.0.pop_back() {
            drop(block.checks);
            // It was dropped when the block was resolved: its memory is better used for more
            // blocks.
            let outline = Outline::new(&block.block, cache.hash_key());
            disconnect(&block.block, &outline, &block.undo, cache)?;
            block.replaced.restore(cache);
        }
        Ok(())
    }
}
