//! Which input spends an outpoint.

use super::OfBlock;
use crate::batch::{Batch, Row, Table, Time, row};
use blockmill_block::Txid;
use blockmill_chain::SpendingTransaction;

row! {
    struct SpenderRow {
        txid: Txid,
        vout: u32,
        spending_txid: Txid,
        /// The number of the input in that transaction.
        input: u32,
        height: u32,
        block_time: Time,
    }
}

pub(crate) const TABLE: Table = Table {
    name: "spenders",
    row: "spender",
    columns: SpenderRow::COLUMNS,
    without_dictionary: &["txid", "spending_txid"],
    index: "txid, vout",
};

pub(crate) fn add(of: &OfBlock, _: u32, spending: &SpendingTransaction<'_>, rows: &mut Batch) {
    let transaction = &spending.transaction;
    if transaction.is_coinbase() {
        return;
    }
    let spending_txid = transaction.txid();
    for (number, (input, _)) in (0..).zip(spending.inputs()) {
        let outpoint = input.previous_output();
        rows.push(SpenderRow {
            txid: outpoint.txid,
            vout: outpoint.vout,
            spending_txid,
            input: number,
            height: of.height,
            block_time: of.time,
        });
    }
}
