//! One block against the coins that it spends.

use crate::pipeline::checks::CheckPool;
use crate::pipeline::resolve::undo_fits;
use crate::report::signatures::Signatures;
use blockmill_block::{Block, BlockUndo, Coin, OutPoint, Txid};
use blockmill_rules::block::{BlockContext, BlockOptions, check_block, check_block_context};
use blockmill_rules::flags::block_script_flags;
use blockmill_rules::spend::{self, SpendContext};
use blockmill_rules::{Params, Reject, ScriptVerifier, VerifyError, sigops};
use std::collections::HashMap;
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

/// Verifies a block against its undo data: everything that needs no other block (merkle roots,
/// sizes, transactions), then amounts, maturity (for coins whose height is known), signature
/// operations and what the coinbase takes, then all scripts, and last that coins made in the block
/// itself are as it makes them. Locks that depend on the times of earlier blocks are not checked,
/// and neither is the difficulty.
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
    let proof_of_work = options.proof_of_work;
    let facts = check_block(
        block.as_ref(),
        params,
        verifier.as_ref(),
        BlockOptions { proof_of_work },
    )?;
    check_context(block, params, options.height)?;
    if !undo_fits(block, undo) {
        return Err(spend::MISSING.into());
    }
    let flags = block_script_flags(params, options.height, &block.hash());
    let mut fees = 0;
    let mut sigops_cost = 0;
    for (index, transaction) in block.transactions().enumerate() {
        let blame = |reject: Reject| reject.in_transaction(index);
        let coins = if index == 0 {
            &[][..]
        } else {
            undo.transaction(index - 1)
        };
        if index > 0 {
            let spending = SpendContext {
                params,
                height: options.height,
                parent_median_time_past: 0,
                median_time_past: &|_| 0,
                transaction,
                coins,
            };
            fees = spend::add_fee(fees, check_spend_of(&spending).map_err(blame)?).map_err(blame)?;
        }
        let cost = sigops::transaction_cost(&transaction, coins, facts.legacy_sigops[index], flags);
        sigops_cost = spend::add_sigops_cost(sigops_cost, cost).map_err(blame)?;
    }
    spend::check_coinbase_amount(&block.transaction(0), params, options.height, fees)?;
    let pool = CheckPool::new(Arc::clone(verifier), options.threads)
        .map_err(|error| VerifyBlockError::Verifier(format!("worker threads: {error}")))?;
    let lanes = options.signatures == Signatures::Lanes && pool.can_defer();
    if let Some(failure) = pool.run(block, undo, flags, lanes).failure {
        return Err(match failure.error {
            VerifyError::Invalid => {
                let (transaction, input) = block.locate_input(failure.input);
                spend::SCRIPT_FAILED.in_transaction(transaction).at_input(input).into()
            }
            error @ VerifyError::Verifier(_) => VerifyBlockError::Verifier(error.to_string()),
        });
    }
    own_coins_match(block, undo)?;
    Ok(Verified {
        transactions: block.transaction_count() as u64,
        inputs: undo.coins().len() as u64,
        fees,
        sigops_cost,
        weight: block.weight() as u64,
        lanes,
    })
}

/// The rules among the headers, with the block's own time for the median before it: a block is at
/// least as late as that, so lock times that are open by BIP 113 are open here too.
fn check_context(block: &Block, params: &Params, height: u32) -> Result<(), Reject> {
    let place = BlockContext {
        params,
        height,
        parent_median_time_past: block.header().time,
    };
    check_block_context(block, &place)
}

/// The rules of spending. Undo data of old makes has no heights: such a coin counts as mature.
fn check_spend_of(spending: &SpendContext<'_>) -> Result<i64, Reject> {
    let unknown = |coin: &Coin| coin.height == 0;
    if !spending.coins.iter().any(unknown) {
        return spend::check_spend(spending);
    }
    let coins: Vec<_> = spending
        .coins
        .iter()
        .map(|coin| Coin {
            is_coinbase: coin.is_coinbase && !unknown(coin),
            ..coin.clone()
        })
        .collect();
    spend::check_spend(&SpendContext {
        coins: &coins,
        ..*spending
    })
}

/// A coin that the block itself makes MUST be spent as it is made, and only by a later transaction.
fn own_coins_match(block: &Block, undo: &BlockUndo) -> Result<(), Reject> {
    let made: HashMap<Txid, usize> = block
        .transactions()
        .enumerate()
        .map(|(index, transaction)| (transaction.txid(), index))
        .collect();
    for (index, transaction) in block.transactions().enumerate().skip(1) {
        for (place, (input, coin)) in transaction.inputs().zip(undo.transaction(index - 1)).enumerate() {
            let OutPoint { txid, vout } = input.previous_output();
            let Some(&maker) = made.get(&txid) else {
                continue;
            };
            let maker_transaction = block.transaction(maker);
            let matches = maker < index && (vout as usize) < maker_transaction.output_count() && {
                let output = maker_transaction.output(vout as usize);
                output.value() == coin.value && *output.script_pubkey() == *coin.script_pubkey
            };
            if !matches {
                return Err(spend::MISSING.in_transaction(index).at_input(place));
            }
        }
    }
    Ok(())
}
