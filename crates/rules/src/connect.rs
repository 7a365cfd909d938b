//! The order in which a block is connected (Core's `ConnectBlock`): which rule comes when. The
//! coins are the caller's.
//!
//! Scripts are not run here. Core runs them beside this, and asks for their verdict last.

use crate::reject::Reject;
use crate::spend::{self, SpendContext};
use crate::{Params, ScriptFlags, sigops};
use blockmill_block::{Block, Coins, Transaction};

/// Where the coins of a block come from, and where they go.
pub trait BlockCoins {
    /// Why coins cannot be had. This says nothing about the block.
    type Error;

    /// Whether an output of a transaction has an unspent coin already. If it is asked at all, it is
    /// asked of each transaction in order, before any coin is spent.
    ///
    /// # Errors
    /// The caller's.
    fn contains(&mut self, index: usize, transaction: &Transaction<'_>) -> Result<bool, Self::Error>;

    /// Spends the inputs of a transaction, which is not the coinbase.
    ///
    /// # Errors
    /// The caller's.
    fn spend(&mut self, index: usize, transaction: &Transaction<'_>) -> Result<Spent, Self::Error>;

    /// The coins of the last [`spend`](Self::spend), one per input.
    fn spent(&self) -> Coins<'_>;

    /// Creates the outputs of a transaction.
    fn create(&mut self, index: usize, transaction: &Transaction<'_>);
}

/// What became of the inputs of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Spent {
    /// All are spent.
    All,
    /// The coin of this input does not exist, or is spent. It is the first such input.
    Missing(usize),
}

/// Whether a block may make coins that exist and are unspent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overwriting {
    /// It may.
    Allowed,
    /// It MUST NOT (BIP 30).
    Forbidden,
}

/// The median times past that sequence locks need.
#[derive(Clone, Copy)]
pub struct MedianTimes<'a> {
    /// Of the block's parent.
    pub parent: u32,
    /// Of the block's ancestor at a height.
    pub at_height: &'a (dyn Fn(u32) -> u32 + Sync),
}

/// A block's position in the chain.
#[derive(Clone, Copy)]
pub struct ConnectContext<'a> {
    /// Parameters of the network.
    pub params: &'a Params,
    /// Height of the block.
    pub height: u32,
    /// Flags under which its scripts run.
    pub flags: ScriptFlags,
    /// Whether it may overwrite coins.
    pub overwriting: Overwriting,
    /// Without them sequence locks are not checked.
    pub median_times: Option<MedianTimes<'a>>,
    /// For each transaction the signature operations in its own scripts.
    pub legacy_sigops: &'a [u64],
}

/// What a connected block amounts to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Connected {
    /// Fees in satoshi.
    pub fees: i64,
    /// Cost of the signature operations.
    pub sigops_cost: u64,
}

/// Why a block is not connected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BlockError<E> {
    /// It breaks a rule.
    Reject(Reject),
    /// Its coins cannot be had.
    Coins(E),
}

impl<E> From<Reject> for BlockError<E> {
    fn from(reject: Reject) -> Self {
        Self::Reject(reject)
    }
}

/// Spends and creates the coins of a block, and checks every rule that needs coins. Scripts are the
/// caller's.
///
/// # Errors
/// [`BlockError`]; a rule that is broken is the first one in Core's order. Coins that were spent
/// and created until then stay so.
pub fn connect_block<B: AsRef<[u8]>, C: BlockCoins>(
    block: &Block<B>,
    context: &ConnectContext<'_>,
    coins: &mut C,
) -> Result<Connected, BlockError<C::Error>> {
    if context.overwriting == Overwriting::Forbidden {
        check_overwriting(block, coins)?;
    }
    let mut connected = Connected {
        fees: 0,
        sigops_cost: 0,
    };
    for (index, transaction) in block.transactions().enumerate() {
        let blame = |reject: Reject| reject.in_transaction(index);
        if index > 0 {
            if let Spent::Missing(input) = coins.spend(index, &transaction).map_err(BlockError::Coins)? {
                return Err(blame(spend::MISSING).at_input(input).into());
            }
            let fees = check_spending(context, &transaction, coins.spent(), connected.fees);
            connected.fees = fees.map_err(blame)?;
        }
        let spent = if index > 0 { coins.spent() } else { Coins::NONE };
        let legacy = context.legacy_sigops[index];
        let cost = sigops::transaction_cost(&transaction, spent, legacy, context.flags);
        connected.sigops_cost = spend::add_sigops_cost(connected.sigops_cost, cost).map_err(blame)?;
        // After the inputs: a transaction cannot spend its own outputs.
        coins.create(index, &transaction);
    }
    // Core, too, looks at this amount after the last transaction, and then at the scripts.
    spend::check_coinbase_amount(&block.transaction(0), context.params, context.height, connected.fees)?;
    Ok(connected)
}

/// A block MUST not make an outpoint anew whose coin is unspent (BIP 30).
fn check_overwriting<B: AsRef<[u8]>, C: BlockCoins>(
    block: &Block<B>,
    coins: &mut C,
) -> Result<(), BlockError<C::Error>> {
    for (index, transaction) in block.transactions().enumerate() {
        if coins.contains(index, &transaction).map_err(BlockError::Coins)? {
            return Err(spend::BIP30.in_transaction(index).into());
        }
    }
    Ok(())
}

/// Validates a transaction and its coins. Adds its fee to the block's fees so far.
fn check_spending(
    context: &ConnectContext<'_>,
    transaction: &Transaction<'_>,
    coins: Coins<'_>,
    fees: i64,
) -> Result<i64, Reject> {
    let times = context.median_times;
    let spending = SpendContext {
        params: context.params,
        height: context.height,
        parent_median_time_past: times.map_or(0, |times| times.parent),
        median_time_past: times.map_or(&|_| 0, |times| times.at_height),
        transaction: *transaction,
        coins,
    };
    let fee = spend::check_spend(&spending)?;
    // Core adds the fee before it looks at sequence locks.
    let fees = spend::add_fee(fees, fee)?;
    if times.is_some() {
        spend::check_sequence_locks(&spending)?;
    }
    Ok(fees)
}

#[cfg(test)]
mod tests;
