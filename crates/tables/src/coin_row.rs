//! A coin as a row of a table.

use crate::batch::{Batch, Hex, Row, Table, Time, row};
use blockmill_block::{Coin, Network, OutPoint, Txid, hex};
use blockmill_descriptors::script_kind::{ScriptKind, address};

row! {
    struct CoinRow {
        txid: Txid,
        vout: u32,
        height: u32,
        /// Of its block; none where a snapshot has no blocks.
        block_time: Option<Time>,
        coinbase: bool,
        /// In satoshi.
        value: i64,
        script: Hex,
        /// Core's word.
        script_type: &'static str,
        address: Option<String>,
    }
}

/// The table of coins.
pub const TABLE: Table = Table {
    name: "coins",
    row: "coin",
    columns: CoinRow::COLUMNS,
    without_dictionary: &["txid", "script", "address"],
    index: "script",
};

/// Coins of this network as rows. The times are those of the blocks of a chain, by height; they may
/// be unknown.
pub fn rows(coins: impl IntoIterator<Item = (OutPoint, Coin)>, times: &[u32], network: Network) -> Batch {
    let with_time = |(outpoint, coin): (OutPoint, Coin)| {
        let time = times.get(coin.height as usize).copied();
        (outpoint, coin, time)
    };
    rows_with_times(coins.into_iter().map(with_time), network)
}

/// Coins of this network as rows, each with the time of its block, if that is known.
pub fn rows_with_times(coins: impl IntoIterator<Item = (OutPoint, Coin, Option<u32>)>, network: Network) -> Batch {
    let mut rows = Batch::new(TABLE.columns);
    for (outpoint, coin, time) in coins {
        rows.push(CoinRow {
            txid: outpoint.txid,
            vout: outpoint.vout,
            height: coin.height,
            block_time: time.map(Time),
            coinbase: coin.is_coinbase,
            value: coin.value,
            script: Hex(hex::encode(&coin.script_pubkey)),
            script_type: ScriptKind::of(&coin.script_pubkey).word(),
            address: address(&coin.script_pubkey, network),
        });
    }
    rows
}
