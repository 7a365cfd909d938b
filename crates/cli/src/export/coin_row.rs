//! A coin as a row of a table.

#[cfg(feature = "tables")]
mod columns;

use crate::script_pubkey::{ScriptKind, address};
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
