//! Where records may begin in an undo file.
//!
//! | table | its records |
//! |---|---|
//! | in order | those whose length leads on, and that lie in no other such record |
//! | others | all others: inside of records, damaged, or with a wrong length |
//!
//! A length leads on if another magic, padding or the end of the file is where the record ends.
//! In Core's files all records are in order, unless something is damaged. A file may have magics
//! everywhere, so both tables are bounded; a Core file has fewer records than that, since its
//! blocks lie in a file of 128 MiB.

use crate::RECORD_HEAD;
use crate::window::{FileWindow, ReadResult};
use blockmill_block::network::Magic;
use blockmill_block::reader::Reader;
use blockmill_block::undo::RECORD_TAIL;

/// Records in a table.
const RECORDS_MAX: usize = 1 << 20;

/// Records by which a small table grows.
const GROWTH: usize = 64;

/// The longest CompactSize.
const COMPACT_SIZE_MAX: usize = 9;

/// A record whose block spends coins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Spending {
    /// Number of transactions by its own count, the coinbase not counted.
    transactions: u32,
    /// Where it begins in the file.
    offset: u32,
}

/// A record whose block spends nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Empty {
    /// The first bytes of its checksum.
    checksum: [u8; 4],
    offset: u32,
}

/// Records of one kind.
#[derive(Debug, Default)]
struct UndoTable {
    /// Sorted.
    spending: Vec<Spending>,
    /// Sorted.
    empty: Vec<Empty>,
    /// Whether the file has more than the table.
    is_full: bool,
}

impl UndoTable {
    /// Notes a record. False if there is no room.
    fn push(&mut self, transactions: u32, checksum: Option<[u8; 4]>, offset: u32) -> bool {
        if self.spending.len() + self.empty.len() == RECORDS_MAX {
            self.is_full = true;
            return false;
        }
        match checksum {
            Some(checksum) => push(&mut self.empty, Empty { checksum, offset }),
            None => push(&mut self.spending, Spending { transactions, offset }),
        }
        true
    }

    fn sort(&mut self) {
        self.spending.sort_unstable();
        self.empty.sort_unstable();
    }

    /// The records of so many transactions.
    fn spending(&self, transactions: u32) -> &[Spending] {
        let is_below = |record: &Spending| record.transactions < transactions;
        let from = &self.spending[self.spending.partition_point(is_below)..];
        &from[..from.partition_point(|record| record.transactions == transactions)]
    }

    fn memory(&self) -> usize {
        self.spending.capacity() * size_of::<Spending>() + self.empty.capacity() * size_of::<Empty>()
    }
}

/// Appends without taking twice the room, as tables may be large.
fn push<T>(list: &mut Vec<T>, element: T) {
    if list.len() == list.capacity() {
        list.reserve_exact(GROWTH.max(list.len() / 8));
    }
    list.push(element);
}

/// The tables of a file.
#[derive(Debug, Default)]
pub(super) struct UndoTables {
    in_order: UndoTable,
    others: UndoTable,
    /// Where the records in order begin, in the order of the file.
    offsets: Vec<u32>,
}

impl UndoTables {
    /// Notes all records of a file.
    pub(super) fn read(magic: Magic, window: &mut FileWindow<'_>) -> ReadResult<Self> {
        let mut tables = Self::default();
        // End of the last record in order.
        let mut covered = 0;
        let mut at = 0;
        while let Some(found) = window.find_magic(magic, at)? {
            // The next magic may lie inside this record.
            at = found + 1;
            let head = window.get(found, RECORD_HEAD as usize + COMPACT_SIZE_MAX + RECORD_TAIL)?;
            let Some((&length, rest)) = head.get(4..).and_then(<[u8]>::split_first_chunk) else {
                break;
            };
            let Ok(transactions) = Reader::new(rest).compact_size() else {
                continue;
            };
            let checksum = match transactions {
                0 => rest.get(1..5).and_then(<[u8]>::first_chunk).copied(),
                _ => None,
            };
            let end = found + RECORD_HEAD + u64::from(u32::from_le_bytes(length)) + RECORD_TAIL as u64;
            // A CompactSize of a length is below 2^25, and the file is shorter than 4 GiB.
            let (transactions, offset) = (transactions as u32, found as u32);
            if found >= covered && leads_on(magic, window, end)? {
                covered = end;
                if tables.in_order.push(transactions, checksum, offset) {
                    push(&mut tables.offsets, offset);
                }
            } else {
                tables.others.push(transactions, checksum, offset);
            }
        }
        tables.in_order.sort();
        tables.others.sort();
        Ok(tables)
    }

    /// Whether the file has more records than the tables.
    pub(super) fn are_full(&self) -> bool {
        self.in_order.is_full || self.others.is_full
    }

    /// Memory in bytes.
    pub(super) fn memory(&self) -> usize {
        self.offsets.capacity() * size_of::<u32>() + self.in_order.memory() + self.others.memory()
    }

    /// Where record number `rank` of those in order begins.
    pub(super) fn offset(&self, rank: usize) -> Option<u32> {
        self.offsets.get(rank).copied()
    }

    /// The number of a record among those in order.
    pub(super) fn rank(&self, offset: u32) -> Option<usize> {
        self.offsets.binary_search(&offset).ok()
    }

    /// Number `index` of the records of so many transactions: those in order first, each by the
    /// distance from an offset.
    pub(super) fn spending(&self, transactions: u32, hint: u32, index: u64) -> Option<u32> {
        let mut index = index;
        for table in [&self.in_order, &self.others] {
            let records = table.spending(transactions);
            let middle = records.partition_point(|record| record.offset < hint);
            if let Some(nearest) = nearest(middle, records.len(), index) {
                return Some(records[nearest].offset);
            }
            index = index.checked_sub(records.len() as u64)?;
        }
        None
    }

    /// Where records begin that spend nothing and have a checksum that begins so.
    pub(super) fn empty(&self, checksum: [u8; 4]) -> impl Iterator<Item = u32> {
        [&self.in_order, &self.others].into_iter().flat_map(move |table| {
            let first = table.empty.partition_point(|record| record.checksum < checksum);
            let from = table.empty[first..].iter();
            let same = from.take_while(move |record| record.checksum == checksum);
            same.map(|record| record.offset)
        })
    }
}

/// Whether another record, padding or the end of the file is at `end`.
fn leads_on(magic: Magic, window: &mut FileWindow<'_>, end: u64) -> ReadResult<bool> {
    if end > window.size {
        return Ok(false);
    }
    let (bytes, count) = window.peek(end)?;
    let bytes = &bytes[..count];
    Ok(bytes.starts_with(&magic.0) || window.key.is_padding(bytes, end))
}

/// Number `index` of a list of `count`, in the order of the distance from `middle`.
fn nearest(middle: usize, count: usize, index: u64) -> Option<usize> {
    let index = usize::try_from(index).ok().filter(|&index| index < count)?;
    let paired = middle.min(count - middle);
    Some(match index {
        // Above and below the middle in turn, as long as both sides have some.
        _ if index < 2 * paired && index % 2 == 0 => middle + index / 2,
        _ if index < 2 * paired => middle - 1 - index / 2,
        _ if middle < count - middle => middle + (index - paired),
        _ => middle - 1 - (index - paired),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_come_first() {
        for (middle, count, expected) in [
            (2, 5, vec![2, 1, 3, 0, 4]),
            (0, 3, vec![0, 1, 2]),
            (3, 3, vec![2, 1, 0]),
            (1, 4, vec![1, 0, 2, 3]),
            (0, 0, vec![]),
        ] {
            let found: Vec<_> = (0..).map_while(|index| nearest(middle, count, index)).collect();
            assert_eq!(found, expected);
        }
    }
}
