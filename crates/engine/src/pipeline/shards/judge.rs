//! What is wrong with a block. Nothing else in the pipeline rejects a block for its coins.

use super::WindowBlock;
use blockmill_block::OutPoint;
use blockmill_coins::{CoinsCache, StoreError};
use blockmill_rules::connect::BlockError;
use blockmill_validate::connect_looked_up;

/// Validates a block by every rule that needs coins, with those that cache and store have before
/// it. Nothing changes.
///
/// # Errors
/// [`BlockError`]; a rule that is broken is the first one in Core's order.
pub fn judge(of: &WindowBlock<'_>, cache: &CoinsCache) -> Result<(), BlockError<StoreError>> {
    let mut lookup = |outpoint: &OutPoint| cache.peek(outpoint);
    connect_looked_up(of.block, &of.context, &mut lookup).map(drop)
}
