//! Coins and facts that a caller has collected: what bindings to other languages hold.

use crate::block::VerifyBlockError;
use crate::coins::GivenCoins;
use crate::position::BlockPosition;
use blockmill_block::{Block, BlockUndo, Coin, CoinList, CoinRef, OutPoint, Transaction};
use blockmill_rules::connect::Overwriting;
use blockmill_rules::header::HeaderFacts;
use blockmill_rules::{Params, ScriptFlags};
use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;

/// Coins in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CollectedCoins {
    /// The coins as they are before the block, by outpoint.
    ByOutPoint(HashMap<OutPoint, Coin>),
    /// For each input of each transaction but the coinbase its coin, in block order.
    InOrder(CoinList),
    /// The same, as undo data.
    Undo(Arc<BlockUndo>),
}

impl CollectedCoins {
    /// Has a block validated with these coins.
    pub(crate) fn give<T>(
        &self,
        block: &Block,
        take: impl FnOnce(GivenCoins<'_>) -> Result<T, VerifyBlockError>,
    ) -> Result<T, VerifyBlockError> {
        match self {
            Self::ByOutPoint(coins) => take(GivenCoins::Lookup(&mut |outpoint| {
                Ok::<_, Infallible>(coins.get(outpoint).cloned())
            })),
            Self::InOrder(coins) => take(GivenCoins::InOrder(&Arc::new(undo_of(block, coins)))),
            Self::Undo(undo) => take(GivenCoins::InOrder(undo)),
        }
    }

    /// The coins of the inputs of one transaction.
    ///
    /// # Errors
    /// The first input without a coin; the number of inputs, if there are more coins.
    pub(crate) fn of_transaction(&self, transaction: &Transaction<'_>) -> Result<CoinList, usize> {
        let inputs = transaction.input_count();
        let mut list = CoinList::with_capacity(inputs);
        let coins = match self {
            Self::ByOutPoint(coins) => {
                for (number, input) in transaction.inputs().enumerate() {
                    let coin = coins.get(&input.previous_output()).ok_or(number)?;
                    list.push(CoinRef::from(coin));
                }
                return Ok(list);
            }
            Self::InOrder(coins) => coins.coins(),
            Self::Undo(undo) => undo.coins(),
        };
        if coins.len() != inputs {
            return Err(coins.len().min(inputs));
        }
        for coin in coins.iter() {
            list.push(coin);
        }
        Ok(list)
    }
}

/// Coins in block order as undo data. If they are too few or too many, it does not fit the block.
fn undo_of(block: &Block, coins: &CoinList) -> BlockUndo {
    let mut ends = Vec::with_capacity(block.transaction_count());
    let mut end = 0;
    for index in 1..block.transaction_count() {
        end = coins.len().min(end + block.input_range(index).len());
        ends.push(end);
    }
    if end < coins.len() {
        ends.push(coins.len());
    }
    BlockUndo::from_coins(coins.clone(), ends)
}

/// Where a block stands, and what is known of the chain below it: a [`BlockPosition`] that owns
/// what it knows.
#[derive(Debug, Clone)]
pub struct KnownChain {
    /// Parameters of the network.
    pub params: Params,
    /// Height of the block.
    pub height: u32,
    /// What the rules of its header ask for.
    pub facts: HeaderFacts,
    /// Median times past of ancestors, by height.
    pub median_times: HashMap<u32, u32>,
    /// Whether the block may make coins that are there.
    pub overwriting: Option<Overwriting>,
    /// Flags of the scripts.
    pub script_flags: Option<ScriptFlags>,
    /// Whether the proof of work is checked.
    pub proof_of_work: bool,
}

impl KnownChain {
    /// A height on a network, and nothing is known of the chain below it.
    pub fn at_height(params: Params, height: u32) -> Self {
        Self {
            params,
            height,
            facts: HeaderFacts::default(),
            median_times: HashMap::new(),
            overwriting: None,
            script_flags: None,
            proof_of_work: true,
        }
    }

    /// Has a block validated at this position.
    pub(crate) fn at_position<T>(&self, take: impl FnOnce(&BlockPosition<'_>) -> T) -> T {
        let median_time_past = |height: u32| self.median_times.get(&height).copied();
        take(&BlockPosition {
            params: &self.params,
            height: self.height,
            facts: self.facts,
            median_time_past: Some(&median_time_past),
            overwriting: self.overwriting,
            script_flags: self.script_flags,
            proof_of_work: self.proof_of_work,
        })
    }
}
