//! The basic filter of each block (BIP 158), as Core's `getblockfilter` gives it.

mod coded_set;

use self::coded_set::CodedSet;
use super::{Complete, OfBlock, Product};
use crate::batch::{Batch, Id, Row, Table, Time, row};
use bitcoin::bip158::{FilterHash, FilterHeader};
use bitcoin::hashes::{Hash, sha256d};
use blockmill_block::{BlockHash, hex};
use blockmill_chain::{BlockReadError, SpendingBlock};

const OP_RETURN: u8 = 0x6a;

row! {
    struct FilterRow {
        height: u32,
        block_hash: BlockHash,
        block_time: Time,
        filter_hash: Id,
        /// It commits to all filters below.
        filter_header: Id,
        filter: String,
    }
}

pub(crate) const TABLE: Table = Table {
    name: "filters",
    row: "filter",
    columns: FilterRow::COLUMNS,
    without_dictionary: &["block_hash", "filter_hash", "filter_header", "filter"],
    index: "block_hash",
};

pub(crate) struct Filters;

/// The filter of a block: of the scripts that it makes, but for those of data, and of those that it
/// spends.
fn filter_of(read: &SpendingBlock) -> Vec<u8> {
    // The key is the beginning of the block's hash.
    let key: [u8; 16] = *read.block.hash().0.first_chunk().unwrap_or(&[0; 16]);
    let [low, high] = [0, 8].map(|at| u64::from_le_bytes(key[at..at + 8].try_into().unwrap_or_default()));
    let mut set = CodedSet::new([low, high]);
    for spending in read.transactions() {
        let made = spending.transaction.outputs().map(|output| output.script_pubkey());
        made.filter(|script| script.first() != Some(&OP_RETURN))
            .for_each(|script| set.add(script));
        spending
            .inputs()
            .filter_map(|(_, coin)| Some(coin?.script_pubkey))
            .for_each(|script| set.add(script));
    }
    set.encode()
}

impl Product for Filters {
    fn add_block(&self, of: &OfBlock, read: &SpendingBlock, rows: &mut Batch) -> Result<(), BlockReadError> {
        let filter = filter_of(read);
        rows.push(FilterRow {
            height: of.height,
            block_hash: of.hash,
            block_time: of.time,
            filter_hash: Id::new(sha256d::Hash::hash(&filter).to_byte_array()),
            // It rests on the filters below.
            filter_header: Id::new([0; 32]),
            filter: hex::encode(&filter),
        });
        Ok(())
    }

    fn completer(&self) -> Option<Box<dyn Complete>> {
        Some(Box::new(Headers(FilterHeader::all_zeros())))
    }
}

/// The header of the last filter.
struct Headers(FilterHeader);

impl Complete for Headers {
    fn complete(&mut self, rows: &mut Batch) -> Result<(), BlockReadError> {
        rows.derive_ids("filter_hash", "filter_header", |mut hash| {
            hash.reverse();
            self.0 = FilterHash::from_byte_array(hash).filter_header(&self.0);
            Id::new(self.0.to_byte_array())
        });
        Ok(())
    }

    fn state(&self) -> Vec<u8> {
        self.0.to_byte_array().to_vec()
    }

    fn resume(&mut self, state: &[u8]) -> bool {
        let header = state.try_into().map(FilterHeader::from_byte_array);
        header.map(|header| self.0 = header).is_ok()
    }
}
