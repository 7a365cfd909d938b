//! Coins as columns.

use crate::export::coin_row::{COLUMNS, CoinRow};
use crate::export::column::Column;
use crate::export::parquet::Columns;
use arrow_array::{BooleanArray, Int64Array, StringArray, UInt32Array};
use arrow_schema::ArrowError;

impl Columns for CoinRow {
    const WITHOUT_DICTIONARY: &[&str] = &["txid", "script", "address"];

    fn columns(rows: &[Self]) -> Result<Vec<Column>, ArrowError> {
        let text = |of: fn(&Self) -> &str| StringArray::from_iter_values(rows.iter().map(of));
        let number = |of: fn(&Self) -> u32| UInt32Array::from_iter_values(rows.iter().map(of));
        let [txid, vout, height, coinbase, value, script, script_type, address] = COLUMNS;
        let coinbases: Vec<bool> = rows.iter().map(|row| row.coinbase).collect();
        let values = rows.iter().map(|row| row.value);
        let addresses: StringArray = rows.iter().map(|row| row.address.as_deref()).collect();
        Ok(vec![
            Column::new(txid, text(|row| &row.txid)),
            Column::new(vout, number(|row| row.vout)),
            Column::new(height, number(|row| row.height)),
            Column::new(coinbase, BooleanArray::from(coinbases)),
            Column::new(value, Int64Array::from_iter_values(values)),
            Column::new(script, text(|row| &row.script)),
            Column::new(script_type, text(|row| row.script_type)),
            Column::nullable(address, addresses),
        ])
    }
}
