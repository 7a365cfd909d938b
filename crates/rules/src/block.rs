//! Rules of a block by itself (Core's `CheckBlock`), and among the headers before it (`ContextualCheckBlock`).

use crate::params::{Deployment, Params};
use crate::reject::Reject;
use crate::rule::{Activation, Verdict, rules};
use crate::script::height_push;
use crate::transaction::check_transaction;
use crate::verifier::ScriptVerifier;
use crate::{MAX_BLOCK_SIGOPS_COST, MAX_BLOCK_WEIGHT, WITNESS_SCALE_FACTOR, header, locks, signet, sigops};
use blockmill_block::{Block, Header, merkle};

/// What of a block's content is checked when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockOptions {
    /// Whether the header's proof of work (and on signet the block's signature) is checked.
    pub proof_of_work: bool,
}

/// What [`check_block`] computed on its way.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BlockFacts {
    /// For each transaction the signature operations in its own scripts.
    pub legacy_sigops: Vec<u64>,
}

/// Checks everything about a block that needs nothing else.
///
/// # Errors
/// The first rule that is broken, in Core's order.
pub fn check_block<B: AsRef<[u8]>>(
    block: &Block<B>,
    params: &Params,
    verifier: &impl ScriptVerifier,
    options: BlockOptions,
) -> Result<BlockFacts, Reject> {
    if options.proof_of_work {
        header::check_proof_of_work(&block.hash(), block.header().bits, params)?;
        signet::check_solution(block, params, verifier)?;
    }
    merkle_root(block)?;
    size_limits(block)?;
    coinbase_first_and_only(block)?;
    for (index, transaction) in block.transactions().enumerate() {
        check_transaction(&transaction).map_err(|reject| reject.in_transaction(index))?;
    }
    let legacy_sigops: Vec<u64> = block
        .transactions()
        .map(|transaction| sigops::legacy_count(&transaction))
        .collect();
    legacy_sigops_in_bounds(&legacy_sigops)?;
    Ok(BlockFacts { legacy_sigops })
}

/// The header's merkle root MUST be that of the transactions, in a tree that no other list of them has (CVE-2012-2459).
fn merkle_root<B: AsRef<[u8]>>(block: &Block<B>) -> Verdict {
    let root = block.merkle_root();
    if root.hash != block.header().merkle_root.0 {
        return Err(Reject::mutated("bad-txnmrklroot"));
    }
    if root.mutated {
        return Err(Reject::mutated("bad-txns-duplicate"));
    }
    Ok(())
}

/// A block MUST have a transaction, and without witnesses not outweigh the limit.
fn size_limits<B: AsRef<[u8]>>(block: &Block<B>) -> Verdict {
    let count = block.transaction_count();
    let too_large =
        count * WITNESS_SCALE_FACTOR > MAX_BLOCK_WEIGHT || block.base_size() * WITNESS_SCALE_FACTOR > MAX_BLOCK_WEIGHT;
    if count == 0 || too_large {
        return Err(Reject::consensus("bad-blk-length"));
    }
    Ok(())
}

/// The first transaction MUST be a coinbase, and no other.
fn coinbase_first_and_only<B: AsRef<[u8]>>(block: &Block<B>) -> Verdict {
    if !block.transaction(0).is_coinbase() {
        return Err(Reject::consensus("bad-cb-missing"));
    }
    match block
        .transactions()
        .skip(1)
        .position(|transaction| transaction.is_coinbase())
    {
        Some(index) => Err(Reject::consensus("bad-cb-multiple").in_transaction(index + 1)),
        None => Ok(()),
    }
}

/// The signature operations in the transactions' own scripts MUST not cost more than the limit.
fn legacy_sigops_in_bounds(counts: &[u64]) -> Verdict {
    if counts.iter().sum::<u64>() * WITNESS_SCALE_FACTOR as u64 > MAX_BLOCK_SIGOPS_COST {
        return Err(Reject::consensus("bad-blk-sigops"));
    }
    Ok(())
}

/// A block's place among the headers before it.
#[derive(Debug, Clone, Copy)]
pub struct BlockContext<'a> {
    /// Parameters of the network.
    pub params: &'a Params,
    /// Height of the block.
    pub height: u32,
    /// Median time past of its parent.
    pub parent_median_time_past: u32,
}

/// A check of a block with its place.
pub type ContextCheck = fn(&dyn BlockView, &BlockContext<'_>) -> Verdict;

/// What the rules of this stage see of a block, whoever owns its bytes.
pub trait BlockView {
    /// The header.
    fn header(&self) -> &Header;
    /// Number of transactions.
    fn transaction_count(&self) -> usize;
    /// The transaction at `index`.
    fn transaction(&self, index: usize) -> blockmill_block::Transaction<'_>;
    /// Root over the witness transaction ids.
    fn witness_merkle_root(&self) -> [u8; 32];
    /// Weight.
    fn weight(&self) -> usize;
}

impl<B: AsRef<[u8]>> BlockView for Block<B> {
    fn header(&self) -> &Header {
        self.header()
    }

    fn transaction_count(&self) -> usize {
        self.transaction_count()
    }

    fn transaction(&self, index: usize) -> blockmill_block::Transaction<'_> {
        self.transaction(index)
    }

    fn witness_merkle_root(&self) -> [u8; 32] {
        self.witness_merkle_root()
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

/// Checks what depends on the headers before a block, but not on coins. The block must have passed [`check_block`].
///
/// # Errors
/// The first rule that is broken, in Core's order.
pub fn check_block_context(block: &dyn BlockView, context: &BlockContext<'_>) -> Verdict {
    CONTEXT_RULES
        .iter()
        .filter(|rule| rule.activation.holds(context.params, context.height))
        .try_for_each(|rule| (rule.check)(block, context))
}

/// Every transaction MUST be final at the block's height and time; from BIP 113 on the time is the parent's median.
fn all_transactions_final(block: &dyn BlockView, context: &BlockContext<'_>) -> Verdict {
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

/// Witnesses MUST be those that the coinbase commits to, and there MUST be none where it does not, or before segwit.
fn witness_commitment(block: &dyn BlockView, context: &BlockContext<'_>) -> Verdict {
    let coinbase = block.transaction(0);
    let commitment = merkle::witness_commitment(&coinbase);
    if let (true, Some(commitment)) = (context.params.is_active(Deployment::Segwit, context.height), commitment) {
        let witness = coinbase.input(0).witness();
        let reserved = match witness.last() {
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
        Some(index) => Err(Reject::mutated("unexpected-witness").in_transaction(index)),
        None => Ok(()),
    }
}

/// A block MUST not outweigh the limit.
fn weight_in_bounds(block: &dyn BlockView, _context: &BlockContext<'_>) -> Verdict {
    if block.weight() > MAX_BLOCK_WEIGHT {
        return Err(Reject::consensus("bad-blk-weight"));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
