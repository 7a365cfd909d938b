//! A block, and the coins that it spends.

use blockmill_block::{Block, BlockUndo, CoinRef, Coins, Input, Transaction};
use blockmill_rules::ScriptFlags;
use blockmill_rules::sigops::{legacy_count, transaction_cost};

/// A block, and the coins that it spends.
#[derive(Debug, Clone)]
pub struct SpendingBlock {
    /// Height of the block.
    pub height: u32,
    /// The block.
    pub block: Block,
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

    /// What the coins have more than the outputs, in satoshi. None for the coinbase.
    pub fn fee(&self) -> Option<i64> {
        if self.transaction.is_coinbase() {
            return None;
        }
        let coins: i64 = self.coins.iter().map(|coin| coin.value).sum();
        let outputs: i64 = self.transaction.outputs().map(|output| output.value()).sum();
        Some(coins - outputs)
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
