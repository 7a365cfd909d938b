//! A row for each transaction, without its inputs and outputs.

use super::OfBlock;
use crate::batch::{Batch, Row, Table, Time, row};
use crate::sizes::Sizes;
use blockmill_block::{BlockHash, Txid, Wtxid};
use blockmill_chain::SpendingTransaction;

row! {
    /// The words are Core's; amounts are in satoshi.
    struct TransactionRow {
        height: u32,
        block_hash: BlockHash,
        block_time: Time,
        position: u32,
        txid: Txid,
        wtxid: Wtxid,
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

pub(crate) const TABLE: Table = Table {
    name: "transactions",
    row: "transaction",
    columns: TransactionRow::COLUMNS,
    without_dictionary: &["txid", "wtxid"],
    index: "txid",
};

pub(crate) fn add(of: &OfBlock, position: u32, spending: &SpendingTransaction<'_>, rows: &mut Batch) {
    let transaction = &spending.transaction;
    let sizes = Sizes::of(spending);
    rows.push(TransactionRow {
        height: of.height,
        block_hash: of.hash,
        block_time: of.time,
        position,
        txid: transaction.txid(),
        wtxid: transaction.wtxid(),
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
