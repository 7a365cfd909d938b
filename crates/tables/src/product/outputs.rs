//! A row for each output.

use super::OfBlock;
use crate::batch::{Batch, Hex, Row, Table, Time, row};
use crate::transaction_row;
use blockmill_block::Txid;
use blockmill_chain::SpendingTransaction;

row! {
    struct OutputRow {
        height: u32,
        block_time: Time,
        txid: Txid,
        vout: u32,
        /// Whether its transaction is a coinbase.
        coinbase: bool,
        value: i64,
        script: Hex,
        script_type: &'static str,
        address: Option<String>,
    }
}

pub(crate) const TABLE: Table = Table {
    name: "outputs",
    row: "output",
    columns: OutputRow::COLUMNS,
    without_dictionary: &["txid", "script", "address"],
    index: "script",
};

pub(crate) fn add(of: &OfBlock, _: u32, spending: &SpendingTransaction<'_>, rows: &mut Batch) {
    let transaction = &spending.transaction;
    let txid = transaction.txid();
    for (vout, output) in (0..).zip(transaction.outputs()) {
        let output = transaction_row::OutputRow::new(vout, &output, of.network);
        rows.push(OutputRow {
            height: of.height,
            block_time: of.time,
            txid,
            vout,
            coinbase: transaction.is_coinbase(),
            value: output.value,
            script: Hex(output.script),
            script_type: output.script_type,
            address: output.address,
        });
    }
}
