//! A block as a row of a flat table, without its transactions.

use crate::batch::{Batch, Id, Row, Table, Time, row};
use blockmill_block::BlockHash;
use blockmill_chain::SpendingBlock;

row! {
    /// The names are those of a block in the feed, and the number of its transactions.
    struct FlatBlock {
        height: u32,
        block_hash: BlockHash,
        previous_block_hash: BlockHash,
        block_time: Time,
        /// The median of the times of this block and the ten before it.
        block_mediantime: Time,
        block_version: i64,
        merkle_root: Id,
        bits: String,
        nonce: u32,
        block_size: u64,
        block_weight: u64,
        transaction_count: u32,
    }
}

/// The table of blocks.
pub const TABLE: Table = Table {
    name: "blocks",
    row: "block",
    columns: FlatBlock::COLUMNS,
    without_dictionary: &["block_hash", "previous_block_hash", "merkle_root"],
    index: "height",
};

/// Adds the row of a block, with the median of the times of it and the ten before it.
pub fn add(rows: &mut Batch, read: &SpendingBlock, median_time: u32) {
    let header = read.block.header();
    rows.push(FlatBlock {
        height: read.height,
        block_hash: read.block.hash(),
        previous_block_hash: header.prev_block_hash,
        block_time: Time(header.time),
        block_mediantime: Time(median_time),
        block_version: header.version.into(),
        merkle_root: Id::new(header.merkle_root.0),
        bits: format!("{:08x}", header.bits),
        nonce: header.nonce,
        block_size: read.block.bytes().len() as u64,
        block_weight: read.block.weight() as u64,
        transaction_count: read.block.transaction_count() as u32,
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Event;
    use blockmill_block::{Block, BlockUndo, Network};
    use blockmill_datadir::FeedBlock;
    use blockmill_rules::{Params, ScriptFlags};

    /// A block of the feed has the same names and values.
    #[test]
    fn names_and_values_are_those_of_the_feed() {
        let params = Params::new(Network::Regtest, None);
        let read = SpendingBlock {
            height: 0,
            block: Block::decode(params.genesis_block()).unwrap(),
            found_at: None,
            undo: BlockUndo::default(),
            flags: ScriptFlags::default(),
        };
        let mut rows = Batch::new(TABLE.columns);
        add(&mut rows, &read, 7);
        let row: serde_json::Value = serde_json::from_slice(&rows.jsonl()).unwrap();
        let feed = FeedBlock {
            is_connected: true,
            block: read,
            median_time_past: 7,
            coin_times: Vec::new(),
        };
        let event = Event::of_block(&feed, Network::Regtest).line().unwrap();
        let event: serde_json::Value = serde_json::from_slice(&event).unwrap();
        for column in TABLE.columns.iter().filter(|column| column.name != "transaction_count") {
            assert_eq!(row[column.name], event[column.name], "{}", column.name);
        }
        assert_eq!(row["transaction_count"], 1);
    }
}
