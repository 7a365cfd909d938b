//! What a block changes in the set of coins.

#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use blockmill_block::BlockHash;
use blockmill_coins::{MuHash, MuHashChange};

/// What a block changes in the set of coins. Amounts are in satoshi.
#[derive(Debug)]
pub(crate) struct SetChange {
    /// The block.
    pub(crate) hash: BlockHash,
    pub(crate) height: u32,
    /// Coins that came.
    pub(crate) made: u64,
    /// Coins that left.
    pub(crate) spent: u64,
    /// By how much Core's measure of size grew, or shrank.
    pub(crate) bogosize: i128,
    /// By how much the sum of all coins grew, or shrank.
    pub(crate) amount: i128,
    /// What nobody will ever spend.
    pub(crate) unspendable: i128,
    /// The coins that came and left. None if one of them is not known.
    pub(crate) coins: Option<MuHashChange>,
    /// What the MuHash of the set before the run of blocks is merged with to become that after
    /// this block. None if a coin is not known of this block or of one before it in the run.
    pub(crate) muhash: Option<MuHash>,
}

impl SetChange {
    /// Notes what the MuHash is merged with after each block of a run.
    pub(crate) fn end_run(run: &mut [Self]) {
        let known: Vec<MuHashChange> = run.iter_mut().map_while(|change| change.coins.take()).collect();
        for (change, muhash) in run.iter_mut().zip(MuHashChange::running(&known)) {
            change.muhash = Some(muhash);
        }
    }
}
