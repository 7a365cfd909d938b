//! A coin as a row of a table.

use crate::export::batch::{Row, Table, row};
use crate::script_pubkey::{ScriptKind, address};
use blockmill_block::{Coin, Network, OutPoint, hex};

row! {
    pub(crate) struct CoinRow {
        txid: String,
        vout: u32,
        height: u32,
        coinbase: bool,
        /// In satoshi.
        value: i64,
        /// In hex.
        script: String,
        /// Core's word.
        script_type: &'static str,
        address: Option<String>,
    }
}

pub(crate) const TABLE: Table = Table {
    name: "coins",
    row: "coin",
    columns: CoinRow::COLUMNS,
    without_dictionary: &["txid", "script", "address"],
    index: "script",
};

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
