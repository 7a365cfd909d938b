//! A block, and the coins that it spends.

#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use blockmill_block::{Block, BlockUndo, CoinRef, Coins, Input, Transaction};
use blockmill_rules::sigops::{legacy_count, transaction_cost};
use blockmill_rules::{ScriptFlags, money_range};
use std::path::PathBuf;

/// Where a copy of a block lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundAt {
    /// The block file.
    pub path: PathBuf,
    /// Offset of the block in it in bytes, after magic and length.
    pub offset: u64,
}

/// A block, and the coins that it spends.
#[derive(Debug, Clone)]
pub struct SpendingBlock {
    /// Height of the block.
    pub height: u32,
    /// The block.
    pub block: Block,
    /// The copy of the block that was read. None for a network's first block where it is in no
    /// file.
    pub found_at: Option<FoundAt>,
    /// A coin for each input but the coinbase's.
    pub undo: BlockUndo,
    /// The flags under which its scripts run.
    pub flags: ScriptFlags,
}

/// A transaction of a block, and the coins that it spends.
#[derive(Debug, Clone, Copy)]
pub struct SpendingTransaction<'a> {
    /// The transaction.
    pub transaction: Transaction<'a>,
    /// A coin for each input; the coinbase has none.
    pub coins: Coins<'a>,
    flags: ScriptFlags,
}

impl SpendingBlock {
    /// The transactions in their order.
    pub fn transactions(&self) -> impl ExactSizeIterator<Item = SpendingTransaction<'_>> {
        let transactions = self.block.transactions().enumerate();
        transactions.map(|(number, transaction)| SpendingTransaction {
            transaction,
            coins: match number.checked_sub(1) {
                Some(number) => self.undo.transaction(number),
                None => Coins::NONE,
            },
            flags: self.flags,
        })
    }
}

impl<'a> SpendingTransaction<'a> {
    /// The inputs, each with the coin that it spends; that of the coinbase spends none.
    pub fn inputs(&self) -> impl ExactSizeIterator<Item = (Input<'a>, Option<CoinRef<'a>>)> + use<'a> {
        let coins = self.coins;
        let inputs = self.transaction.inputs().enumerate();
        inputs.map(move |(number, input)| (input, coins.get(number)))
    }

    /// What the coins have more than the outputs, in satoshi. None for the coinbase, and where an
    /// amount, a sum or the fee is out of the range of money: such a transaction is not valid, or
    /// the coins are not its own.
    pub fn fee(&self) -> Option<i64> {
        if self.transaction.is_coinbase() {
            return None;
        }
        let coins = sum_in_range(self.coins.iter().map(|coin| coin.value))?;
        let outputs = sum_in_range(self.transaction.outputs().map(|output| output.value()))?;
        coins.checked_sub(outputs).filter(|&fee| money_range(fee))
    }

    /// Cost of the signature operations (Core's `GetTransactionSigOpCost`).
    pub fn sigop_cost(&self) -> u64 {
        transaction_cost(
            &self.transaction,
            self.coins,
            legacy_count(&self.transaction),
            self.flags,
        )
    }
}

/// The sum of some amounts in satoshi. None if one of them, or the sum so far, is out of range.
fn sum_in_range(mut amounts: impl Iterator<Item = i64>) -> Option<i64> {
    amounts.try_fold(0i64, |sum, amount| {
        let sum = sum.checked_add(amount)?;
        (money_range(amount) && money_range(sum)).then_some(sum)
    })
}
