//! Rules of a block by itself (Core's `CheckBlock`), and among the headers before it
//! (`ContextualCheckBlock`).

use crate::params::{Deployment, Params};
use crate::reject::Reject;
use crate::rule::{Activation, Rule, Verdict, rules};
use crate::script::height_push;
use crate::transaction::check_transaction;
use crate::verifier::ScriptVerifier;
use crate::{MAX_BLOCK_SIGOPS_COST, MAX_BLOCK_WEIGHT, WITNESS_SCALE_FACTOR, header, locks, signet, sigops};
use blockmill_block::{Block, BlockHash, Header, Transaction, merkle};
use std::cell::OnceCell;

/// Which rules of a block by itself hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockOptions {
    /// Whether the proof of work in the header is checked, and on signet the block's signature.
    pub proof_of_work: bool,
}

/// Facts about a block that [`check_block`] has computed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BlockFacts {
    /// For each transaction the signature operations in its own scripts.
    pub legacy_sigops: Vec<u64>,
}

/// A block by itself, and what its rules need besides the block.
pub struct LoneBlock<'a> {
    /// The block.
    pub block: &'a dyn BlockView,
    /// Parameters of the network.
    pub params: &'a Params,
    /// Which rules hold.
    pub options: BlockOptions,
    /// Checks the signature of a signet block with the caller's verifier.
    pub signet_solution: &'a dyn Fn() -> Verdict,
    /// Counted at the first use.
    legacy_sigops: OnceCell<Vec<u64>>,
}

impl<'a> LoneBlock<'a> {
    /// A block, with what its rules need besides it.
    pub fn new(
        block: &'a dyn BlockView,
        params: &'a Params,
        options: BlockOptions,
        signet_solution: &'a dyn Fn() -> Verdict,
    ) -> Self {
        Self {
            block,
            params,
            options,
            signet_solution,
            legacy_sigops: OnceCell::new(),
        }
    }

    /// For each transaction the signature operations in its own scripts.
    pub fn legacy_sigops(&self) -> &[u64] {
        self.legacy_sigops.get_or_init(|| count_legacy_sigops(self.block))
    }
}

/// A check of a block by itself.
pub type BlockCheck = fn(&LoneBlock<'_>) -> Verdict;

rules! {
    /// The rules of a block by itself, in Core's order. None depends on the height.
    pub BLOCK_RULES: BlockCheck = [
        proof_of_work, "CheckBlockHeader", Activation::Always;
        signed_on_signet, "CheckSignetBlockSolution, BIP 325", Activation::Signet;
        merkle_root, "CheckMerkleRoot, CVE-2012-2459", Activation::Always;
        size_limits, "CheckBlock", Activation::Always;
        coinbase_first, "CheckBlock", Activation::Always;
        no_other_coinbase, "CheckBlock", Activation::Always;
        valid_transactions, "CheckTransaction", Activation::Always;
        legacy_sigops_in_bounds, "CheckBlock", Activation::Always;
    ]
}

/// Runs all rules of a block by itself.
///
/// # Errors
/// The first rule that is broken, in Core's order.
pub fn check_block<B: AsRef<[u8]>>(
    block: &Block<B>,
    params: &Params,
    verifier: &impl ScriptVerifier,
    options: BlockOptions,
) -> Result<BlockFacts, Reject> {
    let signet_solution = || signet::check_solution(block, params, verifier);
    let lone = LoneBlock::new(block, params, options, &signet_solution);
    // No rule begins at a height, so any height will do.
    let holds = |rule: &&Rule<BlockCheck>| rule.activation.holds(params, 0);
    BLOCK_RULES
        .iter()
        .filter(holds)
        .try_for_each(|rule| (rule.check)(&lone))?;
    // The rule on signature operations has counted them.
    let counted = lone.legacy_sigops.into_inner();
    let legacy_sigops = counted.unwrap_or_else(|| count_legacy_sigops(block));
    Ok(BlockFacts { legacy_sigops })
}

/// For each transaction of a block the signature operations in its own scripts.
fn count_legacy_sigops(block: &dyn BlockView) -> Vec<u64> {
    transactions(block)
        .map(|transaction| sigops::legacy_count(&transaction))
        .collect()
}

/// The transactions of a block, in order.
fn transactions(block: &dyn BlockView) -> impl Iterator<Item = Transaction<'_>> {
    // The trait is used as an object, so it cannot return an iterator.
    (0..block.transaction_count()).map(|index| block.transaction(index))
}

/// The hash MUST meet the target in the header, unless the caller has checked the header.
fn proof_of_work(lone: &LoneBlock<'_>) -> Verdict {
    if !lone.options.proof_of_work {
        return Ok(());
    }
    header::check_proof_of_work(&lone.block.hash(), lone.block.header().bits, lone.params)
}

/// A block of a signet MUST be signed as the challenge asks, unless the caller trusts the header.
fn signed_on_signet(lone: &LoneBlock<'_>) -> Verdict {
    if !lone.options.proof_of_work {
        return Ok(());
    }
    (lone.signet_solution)()
}

/// The header's merkle root MUST be the root of the transactions. The tree MUST NOT repeat nodes: a
/// shorter list of transactions would have the same root (CVE-2012-2459).
fn merkle_root(lone: &LoneBlock<'_>) -> Verdict {
    check_merkle_root(lone.block)
}

fn check_merkle_root(block: &dyn BlockView) -> Verdict {
    // A mutated tree has the right root, so the root is compared first.
    let root = block.merkle_root();
    if root.hash != block.header().merkle_root.0 {
        return Err(Reject::mutated("bad-txnmrklroot"));
    }
    if root.mutated {
        return Err(Reject::mutated("bad-txns-duplicate"));
    }
    Ok(())
}

/// A block MUST have a transaction, and MUST NOT weigh more than the limit without its witnesses.
fn size_limits(lone: &LoneBlock<'_>) -> Verdict {
    let count = lone.block.transaction_count();
    let too_large = count * WITNESS_SCALE_FACTOR > MAX_BLOCK_WEIGHT
        || lone.block.base_size() * WITNESS_SCALE_FACTOR > MAX_BLOCK_WEIGHT;
    if count == 0 || too_large {
        return Err(Reject::consensus("bad-blk-length"));
    }
    Ok(())
}

/// The first transaction MUST be a coinbase.
fn coinbase_first(lone: &LoneBlock<'_>) -> Verdict {
    // `size_limits` comes first, so there is a transaction.
    if lone.block.transaction(0).is_coinbase() {
        Ok(())
    } else {
        Err(Reject::consensus("bad-cb-missing"))
    }
}

/// Transactions after the first MUST NOT be coinbases.
fn no_other_coinbase(lone: &LoneBlock<'_>) -> Verdict {
    match (1..lone.block.transaction_count()).find(|&index| lone.block.transaction(index).is_coinbase()) {
        Some(index) => Err(Reject::consensus("bad-cb-multiple").in_transaction(index)),
        None => Ok(()),
    }
}

/// Every transaction MUST keep the rules of a transaction by itself.
fn valid_transactions(lone: &LoneBlock<'_>) -> Verdict {
    transactions(lone.block)
        .enumerate()
        .try_for_each(|(index, transaction)| {
            check_transaction(&transaction).map_err(|reject| reject.in_transaction(index))
        })
}

/// The signature operations in the transactions' own scripts MUST NOT cost more than the limit.
fn legacy_sigops_in_bounds(lone: &LoneBlock<'_>) -> Verdict {
    // Witnesses and redeem scripts are not known yet: Core counts them with the coins.
    let count: u64 = lone.legacy_sigops().iter().sum();
    if count * WITNESS_SCALE_FACTOR as u64 > MAX_BLOCK_SIGOPS_COST {
        return Err(Reject::consensus("bad-blk-sigops"));
    }
    Ok(())
}

/// The position of a block in its chain.
#[derive(Debug, Clone, Copy)]
pub struct BlockContext<'a> {
    /// Parameters of the network.
    pub params: &'a Params,
    /// Height of the block.
    pub height: u32,
    /// Median time past of the block's parent.
    pub parent_median_time_past: u32,
}

/// A check of a block in its chain.
pub type ContextCheck = fn(&dyn BlockView, &BlockContext<'_>) -> Verdict;

/// A block as rules see it, independent of the owner of its bytes.
pub trait BlockView {
    /// The header.
    fn header(&self) -> &Header;
    /// Hash of the header.
    fn hash(&self) -> BlockHash;
    /// Number of transactions.
    fn transaction_count(&self) -> usize;
    /// The transaction at `index`.
    ///
    /// # Panics
    /// If the block has no transaction at `index`.
    fn transaction(&self, index: usize) -> Transaction<'_>;
    /// Merkle root of the transaction ids.
    fn merkle_root(&self) -> merkle::Root;
    /// Merkle root of the witness transaction ids.
    fn witness_merkle_root(&self) -> [u8; 32];
    /// Length in bytes without witnesses.
    fn base_size(&self) -> usize;
    /// Weight (BIP 141).
    fn weight(&self) -> usize;
}

impl<B: AsRef<[u8]>> BlockView for Block<B> {
    fn header(&self) -> &Header {
        self.header()
    }

    fn hash(&self) -> BlockHash {
        self.hash()
    }

    fn transaction_count(&self) -> usize {
        self.transaction_count()
    }

    fn transaction(&self, index: usize) -> Transaction<'_> {
        self.transaction(index)
    }

    fn merkle_root(&self) -> merkle::Root {
        self.merkle_root()
    }

    fn witness_merkle_root(&self) -> [u8; 32] {
        self.witness_merkle_root()
    }

    fn base_size(&self) -> usize {
        self.base_size()
    }

    fn weight(&self) -> usize {
        self.weight()
    }
}

rules! {
    /// The rules of a block among the headers before it, in Core's order.
    pub CONTEXT_RULES: ContextCheck = [
        all_transactions_final, "ContextualCheckBlock, BIP 113", Activation::Always;
        height_in_coinbase, "BIP 34", Activation::From(Deployment::HeightInCoinbase);
        witness_commitment, "CheckWitnessMalleation, BIP 141", Activation::Always;
        weight_in_bounds, "BIP 141", Activation::Always;
    ]
}

/// Runs all rules of a block among the headers before it. None needs coins. The block must have
/// passed [`check_block`]; a block without transactions panics.
///
/// # Errors
/// The first rule that is broken, in Core's order.
pub fn check_block_context(block: &dyn BlockView, context: &BlockContext<'_>) -> Verdict {
    CONTEXT_RULES
        .iter()
        .filter(|rule| rule.activation.holds(context.params, context.height))
        .try_for_each(|rule| (rule.check)(block, context))
}

/// Every transaction MUST be final at the block's height and time. From BIP 113 on, the time is the
/// parent's median time past.
fn all_transactions_final(block: &dyn BlockView, context: &BlockContext<'_>) -> Verdict {
    // Before BIP 113 a miner could choose the time by which locks open.
    let cutoff = if context.params.is_active(Deployment::Csv, context.height) {
        context.parent_median_time_past
    } else {
        block.header().time
    };
    match (0..block.transaction_count())
        .find(|&index| !locks::is_final(&block.transaction(index), context.height, cutoff))
    {
        Some(index) => Err(Reject::consensus("bad-txns-nonfinal").in_transaction(index)),
        None => Ok(()),
    }
}

/// The coinbase's script MUST begin with the push of the block's height.
fn height_in_coinbase(block: &dyn BlockView, context: &BlockContext<'_>) -> Verdict {
    if block
        .transaction(0)
        .input(0)
        .script_sig()
        .starts_with(&height_push(context.height))
    {
        return Ok(());
    }
    Err(Reject::consensus("bad-cb-height"))
}

/// Witnesses MUST match the commitment in the coinbase. A block without commitment, or before
/// segwit, MUST NOT have witnesses.
fn witness_commitment(block: &dyn BlockView, context: &BlockContext<'_>) -> Verdict {
    let coinbase = block.transaction(0);
    let commitment = merkle::witness_commitment(&coinbase);
    if let (true, Some(commitment)) = (context.params.is_active(Deployment::Segwit, context.height), commitment) {
        let witness = coinbase.input(0).witness();
        let reserved = match witness.last() {
            // The coinbase has no script to run, so its witness has one meaning.
            Some(item) if witness.len() == 1 && item.len() == 32 => item,
            _ => return Err(Reject::mutated("bad-witness-nonce-size")),
        };
        let root = block.witness_merkle_root();
        let computed = blockmill_block::hash::sha256d(&[&root, reserved].concat());
        if computed != commitment {
            return Err(Reject::mutated("bad-witness-merkle-match"));
        }
        return Ok(());
    }
    match (0..block.transaction_count()).find(|&index| block.transaction(index).has_witness()) {
        // Anyone may have added a witness that no commitment covers.
        Some(index) => Err(Reject::mutated("unexpected-witness").in_transaction(index)),
        None => Ok(()),
    }
}

/// Runs the rules that the header's commitments make: merkle root and witness commitment. A block
/// that breaks one has content of another's, which says nothing about its header.
///
/// # Errors
/// The first of these rules that is broken.
pub fn check_commitments(block: &dyn BlockView, params: &Params, height: u32) -> Verdict {
    check_merkle_root(block)?;
    if block.transaction_count() == 0 || block.transaction(0).input_count() == 0 {
        // There is no coinbase, so there is no commitment. Another rule says so.
        return Ok(());
    }
    let context = BlockContext {
        params,
        height,
        // No lock is looked at.
        parent_median_time_past: 0,
    };
    witness_commitment(block, &context)
}

/// A block MUST NOT weigh more than the limit.
fn weight_in_bounds(block: &dyn BlockView, _context: &BlockContext<'_>) -> Verdict {
    if block.weight() > MAX_BLOCK_WEIGHT {
        return Err(Reject::consensus("bad-blk-weight"));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
