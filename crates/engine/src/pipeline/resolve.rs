//! Applying a block to the coins cache, and taking it back.

use blockmill_block::coin::{Coin, is_unspendable};
use blockmill_block::{Block, BlockUndo, OutPoint, Transaction};
use blockmill_coins::{CoinRef, CoinsCache, FlushEpoch, Overwrite, StoreError};
use blockmill_rules::spend::{self, SpendContext};
use blockmill_rules::{Params, Reject, ScriptFlags, sigops};
use thiserror::Error;

/// What resolving a block needs to know besides its coins.
pub struct ResolveContext<'a> {
    /// Parameters of the network.
    pub params: &'a Params,
    /// Height of the block.
    pub height: u32,
    /// Flags under which its scripts run.
    pub flags: ScriptFlags,
    /// Whether its transactions may not overwrite coins (BIP 30).
    pub enforce_bip30: bool,
    /// The flush epoch at which the store was seen to have none of the block's outputs, if that was
    /// seen.
    pub absent_at: Option<FlushEpoch>,
    /// Median time past of its parent.
    pub parent_median_time_past: u32,
    /// Median time past of its ancestor at a height.
    pub median_time_past: &'a dyn Fn(u32) -> u32,
    /// For each transaction the signature operations in its own scripts.
    pub legacy_sigops: &'a [u64],
}

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
/// unless the error is [`ResolveError::Broken`].
///
/// # Errors
/// [`ResolveError`]; a rule that is broken is the first one in Core's order.
pub fn apply<B: AsRef<[u8]>>(
    block: &Block<B>,
    context: &ResolveContext<'_>,
    cache: &mut CoinsCache,
) -> Result<BlockUndo, ResolveError> {
    if context.enforce_bip30 {
        no_overwriting(block, context.absent_at, cache)?;
    }
    let mut undo = BlockUndo::with_capacity(block.input_count());
    let mut created = 0;
    let outcome = apply_transactions(block, context, cache, &mut undo, &mut created);
    match outcome {
        Ok(()) => Ok(undo),
        Err(error) => {
            disconnect(block, &undo, created, cache).map_err(ResolveError::Broken)?;
            Err(error)
        }
    }
}

/// A block MUST not make an outpoint anew whose coin is unspent (BIP 30).
fn no_overwriting<B: AsRef<[u8]>>(
    block: &Block<B>,
    absent_at: Option<FlushEpoch>,
    cache: &mut CoinsCache,
) -> Result<(), ResolveError> {
    for (index, transaction) in block.transactions().enumerate() {
        for vout in 0..transaction.output_count() as u32 {
            let txid = transaction.txid();
            if cache.contains(&OutPoint { txid, vout }, absent_at)? {
                return Err(spend::BIP30.in_transaction(index).into());
            }
        }
    }
    Ok(())
}

/// `created` counts the transactions whose outputs are in the cache. The coins of a transaction
/// that fails stand at the end of `undo`, without an end of their own.
fn apply_transactions<B: AsRef<[u8]>>(
    block: &Block<B>,
    context: &ResolveContext<'_>,
    cache: &mut CoinsCache,
    undo: &mut BlockUndo,
    created: &mut usize,
) -> Result<(), ResolveError> {
    let mut fees = 0;
    let mut sigops_cost = 0;
    let mut upcoming = Upcoming::new(block);
    for (index, transaction) in block.transactions().enumerate() {
        let blame = |reject: Reject| reject.in_transaction(index);
        upcoming.prefetch(index, cache);
        let coins_start = undo.coins().len();
        if index > 0 {
            for (place, input) in transaction.inputs().enumerate() {
                match cache.spend(&input.previous_output())? {
                    Some(coin) => undo.push_coin(coin),
                    None => return Err(blame(spend::MISSING).at_input(place).into()),
                }
            }
            let spending = SpendContext {
                params: context.params,
                height: context.height,
                parent_median_time_past: context.parent_median_time_past,
                median_time_past: context.median_time_past,
                transaction,
                coins: &undo.coins()[coins_start..],
            };
            let fee = spend::check_spend(&spending).map_err(blame)?;
            fees = spend::add_fee(fees, fee).map_err(blame)?;
            spend::check_sequence_locks(&spending).map_err(blame)?;
        }
        let coins = &undo.coins()[coins_start..];
        let cost = sigops::transaction_cost(&transaction, coins, context.legacy_sigops[index], context.flags);
        sigops_cost = spend::add_sigops_cost(sigops_cost, cost).map_err(blame)?;
        if index > 0 {
            undo.end_transaction();
        }
        create_outputs(&transaction, context.height, index == 0, cache);
        *created = index + 1;
    }
    spend::check_coinbase_amount(&block.transaction(0), context.params, context.height, fees)?;
    Ok(())
}

/// What is asked of the cache in the next moments, so that its entries are on their way before.
struct Upcoming {
    /// Of each transaction the outpoints that it spends, then those that it makes.
    outpoints: Vec<OutPoint>,
    /// Where those of each transaction end.
    ends: Vec<usize>,
    /// So many are on their way.
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

    /// To be called before a transaction is resolved.
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

/// Takes back a block that was applied as far as `undo` and `created` say: the outputs of the first
/// `created` transactions, and the coins that were spent, from the last to the first. Returns
/// whether every output was there.
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
            place if place < undo.transaction_count() => undo.range(place).start,
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

/// The coins that the outputs of a block's coinbase replace: of one that may repeat an older
/// coinbase. Undo data has none of them.
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

/// Puts back what [`replaced_coins`] has found, when its block has been taken back.
pub fn restore_replaced(replaced: &[(OutPoint, Coin)], cache: &mut CoinsCache) {
    for (outpoint, coin) in replaced {
        cache.add(outpoint, CoinRef::from(coin), Overwrite::Possible);
    }
}

/// Whether undo data has a coin for every input of a block but the coinbase's.
pub fn undo_fits<B: AsRef<[u8]>>(block: &Block<B>, undo: &BlockUndo) -> bool {
    undo.transaction_count() + 1 == block.transaction_count()
        && (1..block.transaction_count())
            .all(|index| undo.transaction(index - 1).len() == block.transaction(index).input_count())
}
