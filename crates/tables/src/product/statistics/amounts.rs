//! Sums over the transactions of a block.

#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use super::fees::Fees;
use crate::product::{OfBlock, OfChain};
use crate::sizes::Sizes;
use blockmill_block::Transaction;
use blockmill_block::coin::is_unspendable;
use blockmill_chain::{SpendingBlock, SpendingTransaction};
use blockmill_coins::stats::bogosize;
use blockmill_descriptors::script_kind::ScriptKind;
use blockmill_rules::money_range;

/// Numbers of outputs by the kind of their scripts.
#[derive(Default)]
pub(super) struct Kinds {
    pub(super) nonstandard: u64,
    pub(super) anchor: u64,
    pub(super) pubkey: u64,
    pub(super) pubkeyhash: u64,
    pub(super) scripthash: u64,
    pub(super) multisig: u64,
    pub(super) nulldata: u64,
    pub(super) witness_v0_keyhash: u64,
    pub(super) witness_v0_scripthash: u64,
    pub(super) witness_v1_taproot: u64,
    pub(super) witness_unknown: u64,
}

impl Kinds {
    fn count(&mut self, script: &[u8]) {
        *match ScriptKind::of(script) {
            ScriptKind::NonStandard => &mut self.nonstandard,
            ScriptKind::Anchor => &mut self.anchor,
            ScriptKind::PubKey(_) => &mut self.pubkey,
            ScriptKind::PubKeyHash => &mut self.pubkeyhash,
            ScriptKind::ScriptHash => &mut self.scripthash,
            ScriptKind::MultiSig(..) => &mut self.multisig,
            ScriptKind::NullData => &mut self.nulldata,
            ScriptKind::WitnessV0KeyHash => &mut self.witness_v0_keyhash,
            ScriptKind::WitnessV0ScriptHash => &mut self.witness_v0_scripthash,
            ScriptKind::WitnessV1Taproot(_) => &mut self.witness_v1_taproot,
            ScriptKind::WitnessUnknown => &mut self.witness_unknown,
        } += 1;
    }
}

/// Sums over the transactions of a block. Amounts are in satoshi; they are wide, since a block that
/// nobody has validated may have as many transactions as it likes that each move all money.
#[derive(Default)]
pub(super) struct Sums {
    pub(super) prevout_spent: i128,
    /// Coins of the coinbase.
    pub(super) coinbase: i128,
    /// Coins of the other transactions.
    pub(super) new_outputs_ex_coinbase: i128,
    /// Outputs whose scripts nobody can spend.
    pub(super) scripts: i128,
    pub(super) totalfee: i128,
    pub(super) fees: Fees,
    /// Inputs but the coinbase's, and outputs.
    pub(super) ins: u64,
    pub(super) outs: u64,
    /// Of all transactions but the coinbase.
    pub(super) total_size: u64,
    pub(super) total_weight: u64,
    /// Those with a witness.
    pub(super) swtxs: u64,
    pub(super) made: u64,
    /// Core's measure of the size of the coins that come, less that of those that leave.
    pub(super) bogosize: i128,
    pub(super) kinds: Kinds,
}

impl Sums {
    /// # Errors
    /// What no valid block has.
    pub(super) fn of(chain: &OfChain, of: &OfBlock, read: &SpendingBlock) -> Result<Self, String> {
        let mut sums = Self::default();
        for (position, spending) in read.transactions().enumerate() {
            let transaction = &spending.transaction;
            let is_added = if transaction.is_coinbase() {
                sums.add_outputs(transaction, chain.is_without_coinbase(of))
            } else {
                sums.add_outputs(transaction, false)
                    .and_then(|()| sums.add_spending(&spending))
            };
            is_added.ok_or_else(|| {
                format!(
                    "an amount, a sum of amounts or the fee of transaction {position} is out of the range of money: \
                     the block is not valid, or the undo data is not its own"
                )
            })?;
        }
        Ok(sums)
    }

    /// None if an amount is out of range.
    fn add_outputs(&mut self, transaction: &Transaction<'_>, is_without_coins: bool) -> Option<()> {
        let is_coinbase = transaction.is_coinbase();
        for output in transaction.outputs() {
            let (worth, script) = (output.value(), output.script_pubkey());
            self.outs += 1;
            self.kinds.count(script);
            if !money_range(worth) {
                return None;
            }
            let sum = match (is_without_coins, is_unspendable(script), is_coinbase) {
                (true, ..) => continue,
                (_, true, _) => {
                    self.scripts += i128::from(worth);
                    continue;
                }
                (_, _, true) => &mut self.coinbase,
                (_, _, false) => &mut self.new_outputs_ex_coinbase,
            };
            *sum += i128::from(worth);
            self.made += 1;
            self.bogosize += i128::from(bogosize(script));
        }
        Some(())
    }

    /// None if the fee is out of range.
    fn add_spending(&mut self, spending: &SpendingTransaction<'_>) -> Option<()> {
        let paid = spending.fee()?;
        let Sizes { size, weight, .. } = Sizes::of(spending);
        self.fees.add(paid, weight);
        self.totalfee += i128::from(paid);
        self.total_size += size;
        self.total_weight += weight;
        self.swtxs += u64::from(spending.transaction.has_witness());
        for coin in spending.coins.iter() {
            self.ins += 1;
            self.prevout_spent += i128::from(coin.value);
            self.bogosize -= i128::from(bogosize(coin.script_pubkey));
        }
        Some(())
    }
}
