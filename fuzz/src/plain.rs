//! Blocks of a chain over a plain map of coins, which is the referee.

use crate::windows::context;
use crate::world::Planned;
use blockmill_block::coin::is_unspendable;
use blockmill_block::{BlockUndo, Coin, OutPoint};
use blockmill_rules::Reject;
use blockmill_rules::connect::BlockError;
use blockmill_validate::connect_looked_up;
use std::collections::BTreeMap;
use std::convert::Infallible;

/// A set without a cache or a store.
pub type PlainCoins = BTreeMap<OutPoint, Coin>;

/// Connects a block.
///
/// # Errors
/// The rule that the block breaks; the coins are as they were then.
pub fn connect(planned: &Planned, coins: &mut PlainCoins) -> Result<BlockUndo, Reject> {
    let mut lookup = |outpoint: &OutPoint| Ok::<_, Infallible>(coins.get(outpoint).cloned());
    let undo = match connect_looked_up(&planned.block, &context(planned), &mut lookup) {
        Ok((_, undo)) => undo,
        Err(BlockError::Reject(reject)) => return Err(reject),
    };
    for (index, transaction) in planned.block.transactions().enumerate() {
        for input in transaction.inputs().filter(|_| index > 0) {
            coins.remove(&input.previous_output());
        }
        let txid = transaction.txid();
        for (vout, output) in (0..).zip(transaction.outputs()) {
            let coin = Coin {
                value: output.value(),
                height: planned.height,
                is_coinbase: index == 0,
                script_pubkey: output.script_pubkey().into(),
            };
            if !is_unspendable(output.script_pubkey()) {
                coins.insert(OutPoint { txid, vout }, coin);
            }
        }
    }
    Ok(undo)
}

/// Disconnects a block.
pub fn disconnect(planned: &Planned, undo: &BlockUndo, coins: &mut PlainCoins) {
    let transactions: Vec<_> = planned.block.transactions().collect();
    for (index, transaction) in transactions.iter().enumerate().rev() {
        let txid = transaction.txid();
        for vout in 0..transaction.output_count() as u32 {
            coins.remove(&OutPoint { txid, vout });
        }
        if let Some(before) = index.checked_sub(1) {
            for (input, coin) in transaction.inputs().zip(undo.transaction(before).iter()) {
                coins.insert(input.previous_output(), coin.to_coin());
            }
        }
    }
}
