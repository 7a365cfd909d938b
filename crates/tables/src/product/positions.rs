//! Where each transaction lies in the block files.

use super::OfBlock;
use crate::batch::{Batch, Row, Table, Time, row};
use blockmill_block::Txid;
use blockmill_chain::SpendingTransaction;

row! {
    /// The file and the offset are those of the copy of the block that was read. A network's first
    /// block may be in no file.
    struct PositionRow {
        txid: Txid,
        file: Option<String>,
        /// In bytes, from the beginning of the file.
        offset: Option<u64>,
        size: u64,
        height: u32,
        position: u32,
        block_time: Time,
        folder: Option<String>,
    }
}

pub(super) const TABLE: Table = Table {
    name: "positions",
    row: "position",
    columns: PositionRow::COLUMNS,
    without_dictionary: &["txid", "offset"],
    index: "txid",
};

pub(crate) fn add(of: &OfBlock, position: u32, spending: &SpendingTransaction<'_>, rows: &mut Batch) {
    let transaction = &spending.transaction;
    let of_file = of.file.as_ref();
    rows.push(PositionRow {
        txid: transaction.txid(),
        file: of_file.map(|file| file.name.clone()),
        offset: of_file.map(|file| file.offset + transaction.offset() as u64),
        size: transaction.total_size() as u64,
        height: of.height,
        position,
        block_time: of.time,
        folder: of_file.map(|file| file.folder.clone()),
    });
}
