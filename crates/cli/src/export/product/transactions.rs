//! A row for each transaction, without its inputs and outputs.

use super::{OfBlock, Product};
use crate::export::batch::{Batch, Row, Table, Time, row};
use blockmill_chain::SpendingTransaction;

row! {
    /// The words are Core's; amounts are in satoshi.
    struct TransactionRow {
        height: u32,
        block_hash: String,
        block_time: Time,
        position: u32,
        txid: String,
        wtxid: String,
        version: u32,
        locktime: u32,
        size: u64,
        vsize: u64,
        weight: u64,
        sigop_cost: u64,
        coinbase: bool,
        /// None for a coinbase.
        fee: Option<i64>,
        input_count: u32,
        output_count: u32,
    }
}

const TABLE: Table = Table {
    name: "transactions",
    row: "transaction",
    columns: TransactionRow::COLUMNS,
    without_dictionary: &["txid", "wtxid"],
    index: "txid",
};

pub(crate) struct Transactions;

impl Product for Transactions {
    fn table(&self) -> &'static Table {
        &TABLE
    }

    fn add_transaction(&self, of: &OfBlock, position: u32, spending: &SpendingTransaction<'_>, rows: &mut Batch) {
        let transaction = &spending.transaction;
        let sizes = Sizes::of(spending);
        rows.push(TransactionRow {
            height: of.height,
            block_hash: of.hash.to_string(),
            block_time: of.time,
            position,
            txid: transaction.txid().to_string(),
            wtxid: transaction.wtxid().to_string(),
            version: transaction.version(),
            locktime: transaction.lock_time(),
            size: sizes.size,
            vsize: sizes.vsize,
            weight: sizes.weight,
            sigop_cost: spending.sigop_cost(),
            coinbase: transaction.is_coinbase(),
            fee: spending.fee(),
            input_count: spending.inputs().len() as u32,
            output_count: transaction.outputs().len() as u32,
        });
    }
}

/// The sizes of a transaction.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    pub(crate) size: u64,
    pub(crate) vsize: u64,
    pub(crate) weight: u64,
}

impl Sizes {
    pub(crate) fn of(spending: &SpendingTransaction<'_>) -> Self {
        let transaction = &spending.transaction;
        let (base, size) = (transaction.base_size() as u64, transaction.total_size() as u64);
        // BIP 141: what is no witness counts four times.
        let weight = base * 3 + size;
        Self {
            size,
            vsize: weight.div_ceil(4),
            weight,
        }
    }
}
