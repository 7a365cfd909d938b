//! Transactions as columns, with lists of their inputs and outputs.

use crate::export::parquet::{Column, Columns};
use crate::export::transaction_row::TransactionRow;
use arrow_array::builder::{ListBuilder, StringBuilder};
use arrow_array::{BooleanArray, Int32Array, Int64Array, StringArray, UInt32Array, UInt64Array};
use arrow_schema::{ArrowError, DataType, Field};

fn text<'r, R: 'r>(rows: impl Iterator<Item = &'r R>, of: fn(&'r R) -> &'r str) -> StringArray {
    rows.map(of).map(Some).collect()
}

fn optional_text<'r, R: 'r>(rows: impl Iterator<Item = &'r R>, of: fn(&'r R) -> Option<&'r str>) -> StringArray {
    rows.map(of).collect()
}

fn input_columns(rows: &[TransactionRow]) -> Vec<Column> {
    let inputs = || rows.iter().flat_map(|row| &row.transaction.inputs);
    let mut witnesses = ListBuilder::new(StringBuilder::new()).with_field(Field::new("item", DataType::Utf8, false));
    for input in inputs() {
        witnesses.append_value(input.witness.iter().map(Some));
    }
    vec![
        Column::nullable("txid", optional_text(inputs(), |input| input.txid.as_deref())),
        Column::nullable("vout", inputs().map(|input| input.vout).collect::<UInt32Array>()),
        Column::new("script_sig", text(inputs(), |input| &input.script_sig)),
        Column::new("witness", witnesses.finish()),
        Column::new(
            "sequence",
            UInt32Array::from_iter_values(inputs().map(|input| input.sequence)),
        ),
        Column::nullable("height", inputs().map(|input| input.height).collect::<UInt32Array>()),
        Column::nullable(
            "coinbase",
            inputs().map(|input| input.coinbase).collect::<BooleanArray>(),
        ),
        Column::nullable("value", inputs().map(|input| input.value).collect::<Int64Array>()),
        Column::nullable("script", optional_text(inputs(), |input| input.script.as_deref())),
        Column::nullable("script_type", optional_text(inputs(), |input| input.script_type)),
        Column::nullable("address", optional_text(inputs(), |input| input.address.as_deref())),
    ]
}

fn output_columns(rows: &[TransactionRow]) -> Vec<Column> {
    let outputs = || rows.iter().flat_map(|row| &row.transaction.outputs);
    vec![
        Column::new(
            "vout",
            UInt32Array::from_iter_values(outputs().map(|output| output.vout)),
        ),
        Column::new(
            "value",
            Int64Array::from_iter_values(outputs().map(|output| output.value)),
        ),
        Column::new("script", text(outputs(), |output| &output.script)),
        Column::new("script_type", text(outputs(), |output| output.script_type)),
        Column::nullable("address", optional_text(outputs(), |output| output.address.as_deref())),
    ]
}

impl Columns for TransactionRow {
    const WITHOUT_DICTIONARY: &[&str] = &[
        "txid",
        "wtxid",
        "inputs.list.item.script_sig",
        "inputs.list.item.witness.list.item",
        "outputs.list.item.script",
    ];

    fn columns(rows: &[Self]) -> Result<Vec<Column>, ArrowError> {
        let string = |of| text(rows.iter(), of);
        let small = |of: fn(&Self) -> u32| UInt32Array::from_iter_values(rows.iter().map(of));
        let large = |of: fn(&Self) -> u64| UInt64Array::from_iter_values(rows.iter().map(of));
        let versions = rows.iter().map(|row| row.block.block_version);
        let coinbases: Vec<bool> = rows.iter().map(|row| row.transaction.coinbase).collect();
        let fees: Int64Array = rows.iter().map(|row| row.transaction.fee).collect();
        let input_counts = rows.iter().map(|row| row.transaction.inputs.len());
        let output_counts = rows.iter().map(|row| row.transaction.outputs.len());
        Ok(vec![
            Column::new("height", small(|row| row.block.height)),
            Column::new("block_hash", string(|row| &row.block.block_hash)),
            Column::new("block_time", small(|row| row.block.block_time)),
            Column::new("block_mediantime", small(|row| row.block.block_mediantime)),
            Column::new("block_version", Int32Array::from_iter_values(versions)),
            Column::new("merkle_root", string(|row| &row.block.merkle_root)),
            Column::new("bits", string(|row| &row.block.bits)),
            Column::new("nonce", small(|row| row.block.nonce)),
            Column::new("block_size", large(|row| row.block.block_size)),
            Column::new("block_weight", large(|row| row.block.block_weight)),
            Column::new("position", small(|row| row.transaction.position)),
            Column::new("txid", string(|row| &row.transaction.txid)),
            Column::new("wtxid", string(|row| &row.transaction.wtxid)),
            Column::new("version", small(|row| row.transaction.version)),
            Column::new("locktime", small(|row| row.transaction.locktime)),
            Column::new("size", large(|row| row.transaction.size)),
            Column::new("vsize", large(|row| row.transaction.vsize)),
            Column::new("weight", large(|row| row.transaction.weight)),
            Column::new("sigop_cost", large(|row| row.transaction.sigop_cost)),
            Column::new("coinbase", BooleanArray::from(coinbases)),
            Column::nullable("fee", fees),
            Column::of_lists("inputs", input_columns(rows), input_counts)?,
            Column::of_lists("outputs", output_columns(rows), output_counts)?,
        ])
    }
}
