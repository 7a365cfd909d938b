//! A block is disconnected from the cache, shard by shard.

use crate::pipeline::outline::{Create, Outline};
use blockmill_block::{Block, BlockUndo, CoinRef, Coins};
use blockmill_coins::{CacheShard, CoinsCache, EntryLog, Overwrite, StoreError};

/// Disconnects a block: removes the coins that it creates, and restores those that it spends, from
/// the last transaction to the first. Returns whether every coin was there with its value and
/// script. `outline` is the block's, under the key of the cache.
///
/// Undo data is enough. A log would not do: once a flush has ended, its flags may be wrong about
/// the store.
///
/// # Errors
/// [`StoreError`]; the block is disconnected in part then.
pub fn disconnect<B: AsRef<[u8]>>(
    block: &Block<B>,
    outline: &Outline,
    undo: &BlockUndo,
    cache: &mut CoinsCache,
) -> Result<bool, StoreError> {
    let disconnecting = Disconnecting {
        block,
        outline,
        coins: undo.coins(),
    };
    let mut log = EntryLog::default();
    let shards = cache.shards();
    let outcome = outline.shards().try_fold(true, |is_clean, number| {
        Ok(disconnecting.in_shard(number, &mut shards.lock(number), &mut log)? && is_clean)
    });
    cache.end_shards([&log]);
    outcome
}

struct Disconnecting<'b, B> {
    block: &'b Block<B>,
    outline: &'b Outline,
    /// Those that the block spends.
    coins: Coins<'b>,
}

impl<B: AsRef<[u8]>> Disconnecting<'_, B> {
    fn in_shard(&self, number: usize, shard: &mut CacheShard<'_>, log: &mut EntryLog) -> Result<bool, StoreError> {
        // The coinbase spends nothing, so coins count from the first input after it.
        let first = self.block.input_range(0).end;
        let (mut spends, mut creates) = (self.outline.spends(number), self.outline.creates(number));
        let mut is_clean = true;
        loop {
            match (spends.split_last(), creates.split_last()) {
                // Of a transaction the outputs go before the inputs come back.
                (Some((spend, rest)), create) if create.is_none_or(|(it, _)| it.transaction < spend.transaction) => {
                    let coin = self.coins.at(spend.input as usize - first);
                    shard.add(&spend.at, coin, Overwrite::Possible, log);
                    spends = rest;
                }
                (_, Some((create, rest))) => {
                    is_clean &= self.remove(create, shard, log)?;
                    creates = rest;
                }
                (_, None) => return Ok(is_clean),
            }
            // Nobody takes this back, and coins that were removed would only take memory.
            log.forget_changes();
        }
    }

    /// Removes a coin. Returns whether it was there as it was created.
    fn remove(&self, create: &Create, shard: &mut CacheShard<'_>, log: &mut EntryLog) -> Result<bool, StoreError> {
        let created = create.coin(self.block, 0);
        let is_as_created =
            |spent: CoinRef<'_>| (spent.value, spent.script_pubkey) == (created.value, created.script_pubkey);
        Ok(shard.spend(&create.at, log)? && log.spent().get(0).is_some_and(is_as_created))
    }
}
