//! A coin as a row of a table.

use crate::export::parquet::{Column, Columns};
use crate::script_pubkey::{ScriptKind, address};
use arrow_array::{BooleanArray, Int64Array, StringArray, UInt32Array};
use arrow_schema::ArrowError;
use blockmill_block::{Coin, Network, OutPoint, hex};
use serde::Serialize;

/// The names of the columns.
pub(crate) const COLUMNS: [&str; 8] = [
    "txid",
    "vout",
    "height",
    "coinbase",
    "value",
    "script",
    "script_type",
    "address",
];

/// A row.
#[derive(Debug, Serialize)]
pub(crate) struct CoinRow {
    pub(crate) txid: String,
    pub(crate) vout: u32,
    pub(crate) height: u32,
    pub(crate) coinbase: bool,
    /// In satoshi.
    pub(crate) value: i64,
    /// In hex.
    pub(crate) script: String,
    /// Core's word.
    pub(crate) script_type: &'static str,
    pub(crate) address: Option<String>,
}

impl CoinRow {
    pub(crate) fn new(outpoint: &OutPoint, coin: &Coin, network: Network) -> Self {
        Self {
            txid: outpoint.txid.to_string(),
            vout: outpoint.vout,
            height: coin.height,
            coinbase: coin.is_coinbase,
            value: coin.value,
            script: hex::encode(&coin.script_pubkey),
            script_type: ScriptKind::of(&coin.script_pubkey).word(),
            address: address(&coin.script_pubkey, network),
        }
    }
}

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
