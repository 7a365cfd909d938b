//! The coins of a block: spent and created in the cache, or disconnected from it.

use blockmill_block::coin::{Coin, is_unspendable};
use blockmill_block::{Block, BlockUndo, OutPoint, Transaction};
use blockmill_coins::{CoinRef, CoinsCache, FlushEpoch, Overwrite, StoreError};
use blockmill_rules::Reject;
use blockmill_rules::connect::{BlockCoins, BlockError, ConnectContext, Spent, connect_block};
use thiserror::Error;

/// Why a block is not resolved.
#[derive(Debug, Error)]
pub enum ResolveError {
    /// It breaks a rule.
    #[error("{0}")]
    Reject(#[from] Reject),
    /// The store failed.
    #[error("{0}")]
    Store(#[from] StoreError),
    /// The store failed, and the cache could not be put right.
    #[error("{0}")]
    Broken(StoreError),
}

/// Spends what the block spends, creates what it creates, and judges it by all rules but its
/// scripts. Returns the coins spent. When it fails the cache has the coins that it had before,
/// unless the error is [`ResolveError::Broken`]. `absent_at` is the flush epoch at which the store
/// had none of the block's outputs, if that was seen.
///
/// # Errors
/// [`ResolveError`]; a rule that is broken is the first one in Core's order.
pub fn apply<B: AsRef<[u8]>>(
    block: &Block<B>,
    context: &ConnectContext<'_>,
    absent_at: Option<FlushEpoch>,
    cache: &mut CoinsCache,
) -> Result<BlockUndo, ResolveError> {
    let mut coins = CacheCoins {
        height: context.height,
        absent_at,
        undo: BlockUndo::with_capacity(block.input_count()),
        coins_start: 0,
        created: 0,
        upcoming: Upcoming::new(block),
        cache,
    };
    let outcome = connect_block(block, context, &mut coins);
    let CacheCoins {
        undo, created, cache, ..
    } = coins;
    let error = match outcome {
        Ok(_) => return Ok(undo),
        Err(BlockError::Reject(reject)) => reject.into(),
        Err(BlockError::Coins(error)) => error.into(),
    };
    disconnect(block, &undo, created, cache).map_err(ResolveError::Broken)?;
    Err(error)
}

/// The coins of a block, in the cache.
struct CacheCoins<'a> {
    height: u32,
    absent_at: Option<FlushEpoch>,
    /// The coins spent so far. Those of a transaction that fails stand at the end, without an end
    /// of their own.
    undo: BlockUndo,
    /// Where the coins of the last transaction begin.
    coins_start: usize,
    /// Transactions whose outputs are in the cache.
    created: usize,
    upcoming: Upcoming,
    cache: &'a mut CoinsCache,
}

impl BlockCoins for CacheCoins<'_> {
    type Error = StoreError;

    fn contains(&mut self, outpoint: &OutPoint) -> Result<bool, StoreError> {
        self.cache.contains(outpoint, self.absent_at)
    }

    fn spend(&mut self, index: usize, transaction: &Transaction<'_>) -> Result<Spent, StoreError> {
        self.upcoming.prefetch(index, self.cache);
        self.coins_start = self.undo.coins().len();
        for (number, input) in transaction.inputs().enumerate() {
            match self.cache.spend(&input.previous_output())? {
                Some(coin) => self.undo.push_coin(coin),
                None => return Ok(Spent::Missing(number)),
            }
        }
        Ok(Spent::All)
    }

    fn spent(&self) -> &[Coin] {
        &self.undo.coins()[self.coins_start..]
    }

    fn create(&mut self, index: usize, transaction: &Transaction<'_>) {
        if index > 0 {
            self.undo.end_transaction();
        }
        create_outputs(transaction, self.height, index == 0, self.cache);
        self.created = index + 1;
    }
}

/// What is asked of the cache in the next moments, so that its entries are on their way before.
struct Upcoming {
    /// Of each transaction the outpoints that it spends, then those that it makes.
    outpoints: Vec<OutPoint>,
    /// Where those of each transaction end.
    ends: Vec<usize>,
    /// Number of outpoints that are prefetched.
    begun: usize,
}

impl Upcoming {
    /// How far ahead of the transaction that is resolved.
    const AHEAD: usize = 64;

    fn new<B: AsRef<[u8]>>(block: &Block<B>) -> Self {
        let mut outpoints = Vec::with_capacity(block.input_count() + block.output_count());
        let ends = block.transactions().map(|transaction| {
            let txid = transaction.txid();
            outpoints.extend(transaction.inputs().map(|input| input.previous_output()));
            outpoints.extend((0..transaction.output_count() as u32).map(|vout| OutPoint { txid, vout }));
            outpoints.len()
        });
        Self {
            ends: ends.collect(),
            outpoints,
            begun: 0,
        }
    }

    /// Called before a transaction is resolved.
    fn prefetch(&mut self, index: usize, cache: &CoinsCache) {
        let wanted = (self.ends[index] + Self::AHEAD / 2).min(self.outpoints.len());
        if self.begun < wanted {
            let end = (wanted + Self::AHEAD / 2).min(self.outpoints.len());
            cache.prefetch(&self.outpoints[self.begun..end]);
            self.begun = end;
        }
    }
}

fn create_outputs(transaction: &Transaction<'_>, height: u32, is_coinbase: bool, cache: &mut CoinsCache) {
    let txid = transaction.txid();
    // A coinbase may repeat an older one, in blocks from before BIP 30.
    let overwrite = if is_coinbase {
        Overwrite::Possible
    } else {
        Overwrite::Impossible
    };
    for (vout, output) in transaction.outputs().enumerate() {
        if is_unspendable(output.script_pubkey()) {
            continue;
        }
        let coin = CoinRef {
            value: output.value(),
            height,
            is_coinbase,
            script_pubkey: output.script_pubkey(),
        };
        let vout = vout as u32;
        cache.add(&OutPoint { txid, vout }, coin, overwrite);
    }
}

/// Disconnects a block that was applied as far as `undo` and `created` say: removes the outputs of
/// the first `created` transactions, and restores the coins that were spent, from the last to the
/// first. Returns whether every output was there with its value and script.
///
/// # Errors
/// [`StoreError`].
pub fn disconnect<B: AsRef<[u8]>>(
    block: &Block<B>,
    undo: &BlockUndo,
    created: usize,
    cache: &mut CoinsCache,
) -> Result<bool, StoreError> {
    let mut clean = true;
    let mut coins = undo.coins();
    // A transaction that failed half way has coins after the last end.
    for index in (0..block.transaction_count().min(created + 1)).rev() {
        let transaction = block.transaction(index);
        if index < created {
            clean &= remove_outputs(&transaction, cache)?;
        }
        if index == 0 {
            break;
        }
        let start = match index - 1 {
            number if number < undo.transaction_count() => undo.range(number).start,
            _ if undo.transaction_count() == 0 => 0,
            _ => undo.range(undo.transaction_count() - 1).end,
        };
        let (rest, own) = coins.split_at(start);
        for (input, coin) in transaction.inputs().zip(own) {
            cache.add(&input.previous_output(), CoinRef::from(coin), Overwrite::Possible);
        }
        coins = rest;
    }
    Ok(clean)
}

fn remove_outputs(transaction: &Transaction<'_>, cache: &mut CoinsCache) -> Result<bool, StoreError> {
    let mut clean = true;
    let txid = transaction.txid();
    for (vout, output) in transaction.outputs().enumerate() {
        if !is_unspendable(output.script_pubkey()) {
            let vout = vout as u32;
            let coin = cache.spend(&OutPoint { txid, vout })?;
            clean &=
                coin.is_some_and(|coin| coin.value == output.value() && *coin.script_pubkey == *output.script_pubkey());
        }
    }
    Ok(clean)
}

/// The coins that the outputs of a block's coinbase replace, where it may repeat an older coinbase.
/// Undo data has none of them.
///
/// # Errors
/// [`StoreError`].
pub fn replaced_coins<B: AsRef<[u8]>>(
    block: &Block<B>,
    cache: &mut CoinsCache,
) -> Result<Vec<(OutPoint, Coin)>, StoreError> {
    let coinbase = block.transaction(0);
    let txid = coinbase.txid();
    let mut replaced = Vec::new();
    for vout in 0..coinbase.output_count() as u32 {
        let outpoint = OutPoint { txid, vout };
        replaced.extend(cache.get(&outpoint)?.map(|coin| (outpoint, coin)));
    }
    Ok(replaced)
}

/// Restores the coins that [`replaced_coins`] has found, when their block has been disconnected.
pub fn restore_replaced(replaced: &[(OutPoint, Coin)], cache: &mut CoinsCache) {
    for (outpoint, coin) in replaced {
        cache.add(outpoint, CoinRef::from(coin), Overwrite::Possible);
    }
}
