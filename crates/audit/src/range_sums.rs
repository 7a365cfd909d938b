//! What the blocks of a range of heights come to.

use crate::conditions::Repeat;
use crate::finding::{Finding, FindingKind};
use crate::fingerprint::{Adder, Fingerprint, Fingerprinter, OfTransaction};
use blockmill_block::coin::is_unspendable;
use blockmill_block::{Block, BlockHash, Output, Txid};
use blockmill_chain::BlockChange;
use std::collections::HashMap;

/// Sums over blocks, which may be added in any order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RangeSums {
    /// Coins that the blocks create.
    pub(crate) created: Fingerprint,
    /// Coins that they spend, by their undo data; and those that are lost to a repeated coinbase.
    pub(crate) spent: Fingerprint,
    /// Transactions.
    pub(crate) transactions: u64,
    /// Inputs, coinbases not counted.
    pub(crate) inputs: u64,
    /// The id of each coinbase, by height.
    pub(crate) coinbases: Vec<(u32, Txid)>,
    /// What speaks against a proof.
    pub(crate) findings: Vec<Finding>,
}

impl RangeSums {
    /// Adds the sums of other blocks.
    pub(crate) fn add(&mut self, other: Self) {
        self.created.add(&other.created);
        self.spent.add(&other.spent);
        // What a part says of itself may be any number.
        self.transactions = self.transactions.saturating_add(other.transactions);
        self.inputs = self.inputs.saturating_add(other.inputs);
        self.coinbases.extend(other.coinbases);
        self.findings.extend(other.findings);
    }

    /// What of each kind was found first is kept, so that a part stays small.
    pub(crate) fn sort(&mut self) {
        self.coinbases.sort_unstable();
        self.findings.sort();
        let mut counts: HashMap<FindingKind, usize> = HashMap::new();
        self.findings.retain(|finding| {
            let count = counts.entry(finding.kind).or_default();
            *count += 1;
            *count <= FINDINGS_MAX
        });
    }
}

/// Findings of a kind that are kept.
pub(crate) const FINDINGS_MAX: usize = 100;

/// Sums blocks up.
pub(crate) struct Summing<'a> {
    pub(crate) fingerprinter: &'a Fingerprinter,
    pub(crate) repeats: &'a [Repeat],
    pub(crate) check_order: bool,
}

impl Summing<'_> {
    /// Adds a block and the coins that it spends.
    pub(crate) fn add(&self, change: &BlockChange<'_>, sums: &mut RangeSums) {
        let (block, height) = (change.block, change.height);
        let hash = block.hash();
        sums.transactions += block.transaction_count() as u64;
        sums.inputs += change.undo.coins().len() as u64;
        sums.coinbases.push((height, block.transaction(0).txid()));
        let [mut created, mut spent] = [(); 2].map(|()| Adder::new(self.fingerprinter));
        for transaction in block.transactions() {
            let (txid, is_coinbase) = (transaction.txid(), transaction.is_coinbase());
            let of = self.fingerprinter.of_transaction(&txid, height, is_coinbase);
            for (vout, output) in (0..).zip(transaction.outputs()) {
                add_output(&of, vout, &output, &mut created);
            }
        }
        let outpoints = block
            .transactions()
            .skip(1)
            .flat_map(|transaction| transaction.inputs());
        for (input, coin) in outpoints.zip(change.undo.coins().iter()) {
            spent.add_coin(&input.previous_output(), coin);
        }
        self.lose_repeated(block, height, &hash, &mut spent);
        sums.created.add(&created.finish());
        sums.spent.add(&spent.finish());
        if self.check_order {
            sums.findings.extend(order(change, &hash));
        }
    }

    /// Where the block repeats an earlier coinbase, the coins of that one are lost: as good as
    /// spent.
    fn lose_repeated(&self, block: &Block, height: u32, hash: &BlockHash, spent: &mut Adder<'_>) {
        let is_this = |repeat: &&Repeat| (repeat.height, repeat.hash) == (height, *hash);
        let Some(repeat) = self.repeats.iter().find(is_this) else {
            return;
        };
        let coinbase = block.transaction(0);
        let of = self
            .fingerprinter
            .of_transaction(&coinbase.txid(), repeat.earlier, true);
        for (vout, output) in (0..).zip(coinbase.outputs()) {
            add_output(&of, vout, &output, spent);
        }
    }
}

/// Adds an output, if the set can have it.
fn add_output(of: &OfTransaction, vout: u32, output: &Output<'_>, to: &mut Adder<'_>) {
    let script = output.script_pubkey();
    if !is_unspendable(script) {
        to.add(of, vout, output.value(), script);
    }
}

/// Why undo data of an old Core does not say whether coins are true.
const NO_HEIGHT: &str = "its undo data does not have the heights of all coins: a Bitcoin Core before 0.15 wrote it; a newer \
     one with -reindex makes it anew, or connect these blocks, and audit the data directory";

/// What a block spends out of order: the first coin that is not created below it, nor earlier in
/// it. And whether there is a coin without a height, of which nothing can be said.
fn order(change: &BlockChange<'_>, hash: &BlockHash) -> impl Iterator<Item = Finding> {
    let (block, height) = (change.block, change.height);
    // By id, the first transaction that has it.
    let mut creators: Option<HashMap<Txid, usize>> = None;
    let (mut out_of_order, mut without_height) = (None, None);
    for (index, transaction) in block.transactions().enumerate().skip(1) {
        for (input, coin) in transaction.inputs().zip(change.undo.transaction(index - 1).iter()) {
            if coin.height == 0 {
                without_height
                    .get_or_insert_with(|| Finding::of_block(FindingKind::Unreadable, height, *hash, NO_HEIGHT));
                continue;
            }
            // A coin of a lower block is in order, and one finding is enough.
            if coin.height < height || out_of_order.is_some() {
                continue;
            }
            let outpoint = input.previous_output();
            let creators = creators.get_or_insert_with(|| {
                // The last one first: of two with one id the first stays in the map.
                let indices = (0..block.transaction_count()).rev();
                indices.map(|index| (block.transaction(index).txid(), index)).collect()
            });
            let is_created_before = creators.get(&outpoint.txid).is_some_and(|&creator| creator < index);
            if coin.height > height || !is_created_before {
                let reason = format!(
                    "transaction {index} spends coin {outpoint}, which is of height {} and not made before it",
                    coin.height
                );
                out_of_order = Some(Finding::of_block(FindingKind::Order, height, *hash, reason));
            }
        }
    }
    out_of_order.into_iter().chain(without_height)
}
