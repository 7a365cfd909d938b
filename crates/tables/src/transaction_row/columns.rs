//! Transactions as columns, with lists of their inputs and outputs.

use crate::column::Column;
use crate::transaction_row::{BlockRow, TransactionFields, TransactionRow};
use arrow_array::builder::{ListBuilder, StringBuilder};
use arrow_array::{BooleanArray, Int32Array, Int64Array, StringArray, UInt32Array, UInt64Array};
use arrow_schema::{ArrowError, DataType, Field};

fn text<'r, R: 'r>(rows: impl Iterator<Item = &'r R>, of: fn(&'r R) -> &'r str) -> StringArray {
    rows.map(of).map(Some).collect()
}

fn optional_text<'r, R: 'r>(rows: impl Iterator<Item = &'r R>, of: fn(&'r R) -> Option<&'r str>) -> StringArray {
    rows.map(of).collect()
}

fn input_columns(transactions: &[&TransactionFields]) -> Vec<Column> {
    let inputs = || transactions.iter().flat_map(|transaction| &transaction.inputs);
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

fn output_columns(transactions: &[&TransactionFields]) -> Vec<Column> {
    let outputs = || transactions.iter().flat_map(|transaction| &transaction.outputs);
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

/// The columns of blocks, after height and hash. Rows without a block have nulls.
pub(crate) fn header_columns(blocks: &[Option<&BlockRow>]) -> Vec<Column> {
    let strings = |of: fn(&BlockRow) -> &str| blocks.iter().map(|block| block.map(of)).collect::<StringArray>();
    let small = |of: fn(&BlockRow) -> u32| blocks.iter().map(|block| block.map(of)).collect::<UInt32Array>();
    let large = |of: fn(&BlockRow) -> u64| blocks.iter().map(|block| block.map(of)).collect::<UInt64Array>();
    let versions = blocks.iter().map(|block| block.map(|block| block.block_version));
    vec![
        Column::nullable("block_time", small(|block| block.block_time)),
        Column::nullable("block_mediantime", small(|block| block.block_mediantime)),
        Column::nullable("block_version", versions.collect::<Int32Array>()),
        Column::nullable("merkle_root", strings(|block| &block.merkle_root)),
        Column::nullable("bits", strings(|block| &block.bits)),
        Column::nullable("nonce", small(|block| block.nonce)),
        Column::nullable("block_size", large(|block| block.block_size)),
        Column::nullable("block_weight", large(|block| block.block_weight)),
    ]
}

/// The columns of transactions, with lists of their inputs and outputs.
pub(crate) fn transaction_columns(transactions: &[&TransactionFields]) -> Result<Vec<Column>, ArrowError> {
    let rows = || transactions.iter().copied();
    let string = |of| text(rows(), of);
    let small = |of: fn(&TransactionFields) -> u32| UInt32Array::from_iter_values(rows().map(of));
    let large = |of: fn(&TransactionFields) -> u64| UInt64Array::from_iter_values(rows().map(of));
    let coinbases: Vec<bool> = rows().map(|row| row.coinbase).collect();
    let fees: Int64Array = rows().map(|row| row.fee).collect();
    let input_counts = rows().map(|row| Some(row.inputs.len()));
    let output_counts = rows().map(|row| Some(row.outputs.len()));
    Ok(vec![
        Column::new("position", small(|row| row.position)),
        Column::new("txid", string(|row| &row.txid)),
        Column::new("wtxid", string(|row| &row.wtxid)),
        Column::new("version", small(|row| row.version)),
        Column::new("locktime", small(|row| row.locktime)),
        Column::new("size", large(|row| row.size)),
        Column::new("vsize", large(|row| row.vsize)),
        Column::new("weight", large(|row| row.weight)),
        Column::new("sigop_cost", large(|row| row.sigop_cost)),
        Column::new("coinbase", BooleanArray::from(coinbases)),
        Column::nullable("fee", fees),
        Column::of_lists("inputs", input_columns(transactions), input_counts)?.without_nulls(),
        Column::of_lists("outputs", output_columns(transactions), output_counts)?.without_nulls(),
    ])
}

impl TransactionRow {
    /// Columns in which hardly a value comes twice: a dictionary of them is of no use.
    pub const WITHOUT_DICTIONARY: &[&str] = &[
        "txid",
        "wtxid",
        "inputs.list.item.script_sig",
        "inputs.list.item.witness.list.item",
        "outputs.list.item.script",
    ];

    /// The columns of some rows; of no rows, too.
    ///
    /// # Errors
    /// That a list has more items than fit into a column.
    pub fn columns(rows: &[Self]) -> Result<Vec<Column>, ArrowError> {
        let heights = rows.iter().map(|row| row.block.height);
        let blocks: Vec<_> = rows.iter().map(|row| Some(&row.block)).collect();
        let transactions: Vec<_> = rows.iter().map(|row| &row.transaction).collect();
        let mut columns = vec![
            Column::new("height", UInt32Array::from_iter_values(heights)),
            Column::new("block_hash", text(rows.iter(), |row| &row.block.block_hash)),
        ];
        columns.extend(header_columns(&blocks).into_iter().map(Column::without_nulls));
        columns.append(&mut transaction_columns(&transactions)?);
        Ok(columns)
    }
}
