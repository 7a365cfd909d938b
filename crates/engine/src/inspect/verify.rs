//! One block against the coins that it spends.

use crate::pipeline::checks::CheckPool;
use crate::report::signatures::Signatures;
use blockmill_block::{Block, BlockUndo, Coin, OutPoint, Transaction, Txid};
use blockmill_rules::block::{BlockContext, BlockOptions, check_block, check_block_context};
use blockmill_rules::connect::{BlockCoins, BlockError, ConnectContext, Overwriting, Spent, connect_block};
use blockmill_rules::flags::block_script_flags;
use blockmill_rules::{Params, Reject, ScriptVerifier, VerifyError, spend};
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
    let proof_of_work = options.proof_of_work;
    let facts = check_block(
        block.as_ref(),
        params,
        verifier.as_ref(),
        BlockOptions { proof_of_work },
    )?;
    check_context(block, params, options.height)?;
    if !undo.fits(block) {
        return Err(spend::MISSING.into());
    }
    let flags = block_script_flags(params, options.height, &block.hash());
    let context = ConnectContext {
        params,
        height: options.height,
        flags,
        overwriting: Overwriting::Allowed,
        median_times: None,
        legacy_sigops: &facts.legacy_sigops,
    };
    let connected = connect_block(block, &context, &mut UndoCoins::new(undo)).map_err(|error| match error {
        BlockError::Reject(reject) => reject,
        BlockError::Coins(never) => match never {},
    })?;
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
        fees: connected.fees,
        sigops_cost: connected.sigops_cost,
        weight: block.weight() as u64,
        lanes,
    })
}

/// The rules among the headers, with the block's own time for the median before it: a block is at
/// least as late as that, so lock times that are open by BIP 113 are open here too.
fn check_context(block: &Block, params: &Params, height: u32) -> Result<(), Reject> {
    let context = BlockContext {
        params,
        height,
        parent_median_time_past: block.header().time,
    };
    check_block_context(block, &context)
}

/// The coins of a block, in its undo data.
struct UndoCoins<'a> {
    undo: &'a BlockUndo,
    /// The transaction whose coins were spent last.
    index: usize,
    /// Its coins, where some have no height.
    without_heights: Vec<Coin>,
}

impl<'a> UndoCoins<'a> {
    fn new(undo: &'a BlockUndo) -> Self {
        Self {
            undo,
            index: 0,
            without_heights: Vec::new(),
        }
    }
}

impl BlockCoins for UndoCoins<'_> {
    type Error = Infallible;

    fn contains(&mut self, _: &OutPoint) -> Result<bool, Infallible> {
        Ok(false)
    }

    /// Undo data of old makes has no heights. A coin without a height counts as mature.
    fn spend(&mut self, index: usize, _: &Transaction<'_>) -> Result<Spent, Infallible> {
        let coins = self.undo.transaction(index - 1);
        let unknown = |coin: &Coin| coin.height == 0;
        self.index = index;
        self.without_heights.clear();
        if coins.iter().any(unknown) {
            self.without_heights.extend(coins.iter().map(|coin| Coin {
                is_coinbase: coin.is_coinbase && !unknown(coin),
                ..coin.clone()
            }));
        }
        Ok(Spent::All)
    }

    fn spent(&self) -> &[Coin] {
        if self.without_heights.is_empty() {
            self.undo.transaction(self.index - 1)
        } else {
            &self.without_heights
        }
    }

    fn create(&mut self, _: usize, _: &Transaction<'_>) {}
}

/// A coin that the block itself makes MUST be spent as it is made, and only by a later transaction.
fn own_coins_match(block: &Block, undo: &BlockUndo) -> Result<(), Reject> {
    let made: HashMap<Txid, usize> = block
        .transactions()
        .enumerate()
        .map(|(index, transaction)| (transaction.txid(), index))
        .collect();
    for (index, transaction) in block.transactions().enumerate().skip(1) {
        for (number, (input, coin)) in transaction.inputs().zip(undo.transaction(index - 1)).enumerate() {
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
                return Err(spend::MISSING.in_transaction(index).at_input(number));
            }
        }
    }
    Ok(())
}
