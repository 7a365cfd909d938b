//! A row for each input, with the coin that it spends.

use super::OfBlock;
use crate::batch::{Batch, Hex, Row, Table, Time, row};
use crate::transaction_row;
use blockmill_block::Txid;
use blockmill_chain::SpendingTransaction;

row! {
    struct InputRow {
        height: u32,
        block_time: Time,
        /// Of the transaction that spends.
        spending_txid: Txid,
        /// The number of the input in it.
        input: u32,
        /// What a coinbase's input has for an outpoint names nothing; and so with the coin.
        txid: Option<Txid>,
        vout: Option<u32>,
        script_sig: Hex,
        /// Its items in hex, with spaces between them.
        witness: String,
        sequence: u32,
        /// None also where undo data of an old version of Core does not tell.
        coin_height: Option<u32>,
        coinbase: Option<bool>,
        value: Option<i64>,
        script: Option<Hex>,
        script_type: Option<&'static str>,
        address: Option<String>,
    }
}

pub(crate) const TABLE: Table = Table {
    name: "inputs",
    row: "input",
    columns: InputRow::COLUMNS,
    without_dictionary: &["spending_txid", "txid", "script_sig", "witness"],
    index: "txid, vout",
};

pub(crate) fn add(of: &OfBlock, _: u32, spending: &SpendingTransaction<'_>, rows: &mut Batch) {
    let spending_txid = spending.transaction.txid();
    for (number, (input, coin)) in (0..).zip(spending.inputs()) {
        let outpoint = coin.map(|_| input.previous_output());
        let input = transaction_row::InputRow::new(&input, coin, of.network);
        rows.push(InputRow {
            height: of.height,
            block_time: of.time,
            spending_txid,
            input: number,
            txid: outpoint.map(|outpoint| outpoint.txid),
            vout: input.vout,
            script_sig: Hex(input.script_sig),
            witness: input.witness.joined(),
            sequence: input.sequence,
            coin_height: input.height,
            coinbase: input.coinbase,
            value: input.value,
            script: input.script.map(Hex),
            script_type: input.script_type,
            address: input.address,
        });
    }
}
