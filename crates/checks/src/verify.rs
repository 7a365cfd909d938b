//! One block against the coins that it spends.

use crate::check_pool::{CheckFailure, CheckPool};
use blockmill_block::{Block, BlockUndo, CoinList, CoinRef, Coins, OutPoint, Transaction, Txid};
use blockmill_chain::block_read_error::BlockReadError;
use blockmill_chain::chain_blocks::ChainBlocks;
use blockmill_chain::report::signatures::Signatures;
use blockmill_rules::block::{BlockContext, BlockOptions, check_block, check_block_context};
use blockmill_rules::connect::{
    BlockCoins, BlockError, ConnectContext, MedianTimes, Overwriting, Spent, connect_block,
};
use blockmill_rules::flags::block_script_flags;
use blockmill_rules::{Params, Reject, ScriptFlags, ScriptVerifier, VerifyError, spend};
use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use thiserror::Error;

/// What of a block is verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VerifyOptions {
    /// Height of the block.
    pub height: u32,
    /// Threads for the scripts, the caller included.
    pub threads: usize,
    /// Whether the proof of work is checked; tests that change a block leave it out.
    pub proof_of_work: bool,
    /// How signatures are verified. `Auto` is by libsecp256k1: nothing is known of the work above
    /// the block.
    pub signatures: Signatures,
}

/// Why a block is not verified.
#[derive(Debug, Error)]
pub enum VerifyBlockError {
    /// It breaks a rule.
    #[error("{0}")]
    Reject(#[from] Reject),
    /// The script verifier failed, or threads could not be made.
    #[error("{0}")]
    Verifier(String),
}

/// What a block that was verified amounts to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verified {
    /// Transactions.
    pub transactions: u64,
    /// Inputs, the coinbase's not counted.
    pub inputs: u64,
    /// Fees in satoshi.
    pub fees: i64,
    /// Cost of the signature operations.
    pub sigops_cost: u64,
    /// Weight.
    pub weight: u64,
    /// Whether signatures were verified in lanes.
    pub lanes: bool,
}

/// Verifies a block against its undo data, in this order:
/// - everything that needs no other block: merkle roots, sizes, transactions;
/// - amounts, signature operations, the coinbase's amount, and maturity where the coin's height is
///   known;
/// - all scripts;
/// - that coins made in the block itself are as it makes them.
///
/// The difficulty is not checked, and neither are locks that depend on the times of earlier blocks.
///
/// # Errors
/// [`VerifyBlockError`]; the first rule that is broken.
pub fn verify_block<V: ScriptVerifier + 'static>(
    block: &Arc<Block>,
    undo: &Arc<BlockUndo>,
    params: &Params,
    verifier: &Arc<V>,
    options: VerifyOptions,
) -> Result<Verified, VerifyBlockError> {
    let position = BlockPosition::alone(params, options.height);
    let (verified, flags) = validate(block, undo, &position, verifier.as_ref(), options.proof_of_work)?;
    let pool = CheckPool::new(Arc::clone(verifier), options.threads)
        .map_err(|error| VerifyBlockError::Verifier(format!("worker threads: {error}")))?;
    let lanes = options.signatures == Signatures::Lanes && pool.can_defer();
    script_verdict(block, pool.run(block, undo, flags, lanes).failure)?;
    own_coins_match(block, undo)?;
    Ok(Verified { lanes, ..verified })
}

/// Where a block stands.
pub(crate) struct BlockPosition<'a> {
    params: &'a Params,
    height: u32,
    /// The chain below it, if it is known.
    below: Option<&'a ChainBlocks>,
    /// Median time past of the parent, where the chain is known.
    parent_median_time_past: Option<u32>,
}

impl<'a> BlockPosition<'a> {
    fn alone(params: &'a Params, height: u32) -> Self {
        Self {
            params,
            height,
            below: None,
            parent_median_time_past: None,
        }
    }

    /// A block above the first one.
    pub(crate) fn in_chain(blocks: &'a ChainBlocks, height: u32) -> Result<Self, BlockReadError> {
        Ok(Self {
            params: blocks.params(),
            height,
            below: Some(blocks),
            parent_median_time_past: Some(blocks.median_time_past(height - 1)?),
        })
    }
}

/// Validates a block by all rules but its scripts, with the coins of its undo data. Returns the
/// flags under which the scripts run, too.
pub(crate) fn validate<V: ScriptVerifier>(
    block: &Block,
    undo: &BlockUndo,
    position: &BlockPosition<'_>,
    verifier: &V,
    proof_of_work: bool,
) -> Result<(Verified, ScriptFlags), Reject> {
    let facts = check_block(block, position.params, verifier, BlockOptions { proof_of_work })?;
    check_block_context(
        block,
        &BlockContext {
            params: position.params,
            height: position.height,
            // A block is at least as late as the median before it, so lock times that are open by
            // BIP 113 are open by its own time, too.
            parent_median_time_past: position.parent_median_time_past.unwrap_or(block.header().time),
        },
    )?;
    if !undo.fits(block) {
        return Err(spend::MISSING);
    }
    let flags = block_script_flags(position.params, position.height, &block.hash());
    // Coins are below the block, and heights above the tip are in no chain.
    let at_height = |height| {
        position
            .below
            .map_or(0, |chain| chain.median_time_past(height).unwrap_or(u32::MAX))
    };
    let context = ConnectContext {
        params: position.params,
        height: position.height,
        flags,
        // Whether an output overwrites a coin shows in a set alone.
        overwriting: Overwriting::Allowed,
        median_times: position.parent_median_time_past.map(|parent| MedianTimes {
            parent,
            at_height: &at_height,
        }),
        legacy_sigops: &facts.legacy_sigops,
    };
    let connected = connect_block(block, &context, &mut UndoCoins::new(undo)).map_err(|error| match error {
        BlockError::Reject(reject) => reject,
        BlockError::Coins(never) => match never {},
    })?;
    let verified = Verified {
        transactions: block.transaction_count() as u64,
        inputs: undo.coins().len() as u64,
        fees: connected.fees,
        sigops_cost: connected.sigops_cost,
        weight: block.weight() as u64,
        lanes: false,
    };
    Ok((verified, flags))
}

/// What the failure of a block's scripts says of the block.
pub(crate) fn script_verdict(block: &Block, failure: Option<CheckFailure>) -> Result<(), VerifyBlockError> {
    match failure {
        None => Ok(()),
        Some(CheckFailure {
            input,
            error: VerifyError::Invalid,
        }) => {
            let (transaction, input) = block.locate_input(input);
            Err(spend::SCRIPT_FAILED.in_transaction(transaction).at_input(input).into())
        }
        Some(failure) => Err(VerifyBlockError::Verifier(failure.error.to_string())),
    }
}

/// The coins of a block, in its undo data.
struct UndoCoins<'a> {
    undo: &'a BlockUndo,
    /// The transaction whose coins were spent last.
    index: usize,
    /// Its coins, where some have no height.
    without_heights: CoinList,
}

impl<'a> UndoCoins<'a> {
    fn new(undo: &'a BlockUndo) -> Self {
        Self {
            undo,
            index: 0,
            without_heights: CoinList::default(),
        }
    }
}

impl BlockCoins for UndoCoins<'_> {
    type Error = Infallible;

    fn contains(&mut self, _: usize, _: &Transaction<'_>) -> Result<bool, Infallible> {
        // Never asked, since `overwriting` is `Allowed`.
        Ok(false)
    }

    /// Undo data of old makes has no heights. A coin without a height counts as mature.
    fn spend(&mut self, index: usize, _: &Transaction<'_>) -> Result<Spent, Infallible> {
        let coins = self.undo.transaction(index - 1);
        // The coin of genesis can never be spent, so no coin has height 0.
        let unknown = |coin: &CoinRef<'_>| coin.height == 0;
        self.index = index;
        self.without_heights.clear();
        if coins.iter().any(|coin| unknown(&coin)) {
            self.without_heights.extend(coins.iter().map(|coin| CoinRef {
                is_coinbase: coin.is_coinbase && !unknown(&coin),
                ..coin
            }));
        }
        Ok(Spent::All)
    }

    fn spent(&self) -> Coins<'_> {
        if self.without_heights.is_empty() {
            self.undo.transaction(self.index - 1)
        } else {
            self.without_heights.coins()
        }
    }

    fn create(&mut self, _: usize, _: &Transaction<'_>) {}
}

/// A coin that the block itself makes MUST be spent as it is made, and only by a later transaction.
pub(crate) fn own_coins_match(block: &Block, undo: &BlockUndo) -> Result<(), Reject> {
    let made: HashMap<Txid, usize> = block
        .transactions()
        .enumerate()
        .map(|(index, transaction)| (transaction.txid(), index))
        .collect();
    for (index, transaction) in block.transactions().enumerate().skip(1) {
        for (number, (input, coin)) in transaction.inputs().zip(undo.transaction(index - 1).iter()).enumerate() {
            let OutPoint { txid, vout } = input.previous_output();
            let Some(&maker) = made.get(&txid) else {
                continue;
            };
            let maker_transaction = block.transaction(maker);
            let matches = maker < index && (vout as usize) < maker_transaction.output_count() && {
                let output = maker_transaction.output(vout as usize);
                output.value() == coin.value && output.script_pubkey() == coin.script_pubkey
            };
            if !matches {
                return Err(spend::MISSING.in_transaction(index).at_input(number));
            }
        }
    }
    Ok(())
}
