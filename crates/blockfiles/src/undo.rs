//! Undo data in the files `rev*.dat`, which Bitcoin Core writes beside its block files.
//!
//! A record is magic, length, undo data and a checksum, see [`blockmill_block::undo`]. The checksum
//! covers the undo data and the hash of the block's parent. Nothing else links a record to its
//! block. Records are in the file with the number of the block's file, in the order in which the
//! blocks were connected. Zeros may follow them, which were allocated and not written.

use crate::{BlockFiles, FileError};
use blockmill_block::hash::BlockHash;
use blockmill_block::network::Magic;
use blockmill_block::reader::Reader;
use blockmill_block::undo::{BlockUndo, RECORD_HEAD, RECORD_TAIL, UndoRecordError, read_record};
use std::ops::Range;
use std::path::PathBuf;

/// A record of an undo file.
#[derive(Debug)]
struct UndoRecord {
    /// Its bytes in the file, head and checksum included.
    range: Range<usize>,
    /// Number of transactions by its own count, the coinbase not counted.
    transactions: usize,
}

/// One file of undo data, in memory. It is no larger than the block file with its number.
#[derive(Debug)]
pub struct UndoFile {
    path: PathBuf,
    magic: Magic,
    bytes: Vec<u8>,
    records: Vec<UndoRecord>,
}

impl BlockFiles {
    /// The undo file beside block file number `file`. `None` if it is missing, or if the block file
    /// does not have a name of Core's.
    ///
    /// # Errors
    /// [`FileError::Io`].
    pub fn undo_file(&self, file: u32, magic: Magic) -> Result<Option<UndoFile>, FileError> {
        let source = self.source(file);
        let name = source.path.file_name().and_then(|name| name.to_str());
        let Some(number) = name.and_then(|name| name.strip_prefix("blk")) else {
            return Ok(None);
        };
        let path = source.path.with_file_name(format!("rev{number}"));
        let mut bytes = match std::fs::read(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            read => read.map_err(FileError::io(&path))?,
        };
        source.key.apply(&mut bytes, 0);
        let records = find_records(&bytes, magic);
        Ok(Some(UndoFile {
            path,
            magic,
            bytes,
            records,
        }))
    }
}

fn find_records(bytes: &[u8], magic: Magic) -> Vec<UndoRecord> {
    let mut records = Vec::new();
    let mut at = 0;
    while at + RECORD_HEAD + RECORD_TAIL <= bytes.len() {
        let length = Reader::new(&bytes[at + 4..])
            .u32()
            .map_or(usize::MAX, |length| length as usize);
        let end = length.saturating_add(at + RECORD_HEAD + RECORD_TAIL);
        if bytes[at..at + 4] != magic.0 || end > bytes.len() {
            // Padding, or damage: the next record may begin anywhere.
            at += 1;
            continue;
        }
        let undo = &bytes[at + RECORD_HEAD..end - RECORD_TAIL];
        if let Ok(transactions) = Reader::new(undo).compact_size() {
            records.push(UndoRecord {
                range: at..end,
                transactions,
            });
        }
        at = end;
    }
    records
}

impl UndoFile {
    /// The file's path.
    pub fn path(&self) -> &std::path::Path {
        &self.path
    }

    /// The undo data of the block with the parent `previous` and this many transactions, the
    /// coinbase not counted, and the number of its record. `None` if the file does not have it.
    ///
    /// The search begins at record number `first` and comes back to those before it. Most records
    /// are in the order of their blocks, so the one after that of the block before is mostly it.
    pub fn find(&self, previous: &BlockHash, transactions: usize, first: usize) -> Option<(usize, BlockUndo)> {
        let count = self.records.len();
        (first..count).chain(0..first.min(count)).find_map(|number| {
            let record = &self.records[number];
            if record.transactions != transactions {
                return None;
            }
            match read_record(self.magic, previous, &self.bytes[record.range.clone()]) {
                Ok(undo) => Some((number, undo)),
                // The record belongs to another block or is damaged: the checksum cannot tell
                // which.
                Err(UndoRecordError::Head | UndoRecordError::Checksum | UndoRecordError::Decode(_)) => None,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::XorKey;
    use blockmill_block::undo::write_record;
    use blockmill_block::{Coin, Network};

    fn undo(transactions: usize, value: i64) -> BlockUndo {
        let mut undo = BlockUndo::default();
        for _ in 0..transactions {
            undo.push_coin(Coin {
                value,
                height: 7,
                is_coinbase: false,
                script_pubkey: Box::new([0x51]),
            });
            undo.end_transaction();
        }
        undo
    }

    #[test]
    fn records_are_found_by_their_checksums() {
        let magic = Network::Regtest.magic();
        let directory = tempfile::tempdir().unwrap();
        let key = [9, 8, 7, 6, 5, 4, 3, 2];
        let parent = |number: u8| BlockHash([number; 32]);
        let mut bytes = Vec::new();
        for number in 1..=4 {
            write_record(magic, &parent(number), &undo(2, number.into()), &mut bytes);
        }
        // Damage between two records, a record of a block without transactions, and padding that
        // was never written.
        bytes.extend([0xfa, 0xbf, 1, 2, 3]);
        write_record(magic, &parent(5), &undo(0, 0), &mut bytes);
        XorKey::new(key).apply(&mut bytes, 0);
        bytes.resize(bytes.len() + 1000, 0);
        std::fs::write(directory.path().join("xor.dat"), key).unwrap();
        std::fs::write(directory.path().join("blk00007.dat"), []).unwrap();
        std::fs::write(directory.path().join("other.dat"), []).unwrap();
        let mut files = BlockFiles::new();
        let file = files.add(directory.path()).unwrap().start;
        assert!(files.undo_file(file, magic).unwrap().is_none());
        std::fs::write(directory.path().join("rev00007.dat"), &bytes).unwrap();
        let found = files.undo_file(file, magic).unwrap().unwrap();
        for first in [0, 2, 4, 5, 6, usize::MAX] {
            for number in [3, 4, 1, 2] {
                let record = usize::from(number) - 1;
                let expected = Some((record, undo(2, number.into())));
                assert_eq!(found.find(&parent(number), 2, first), expected);
            }
            assert_eq!(found.find(&parent(5), 0, first), Some((4, undo(0, 0))));
            assert!(found.find(&parent(6), 2, first).is_none() && found.find(&parent(3), 1, first).is_none());
        }
        let other = files.add(&directory.path().join("other.dat")).unwrap().start;
        assert!(files.undo_file(other, magic).unwrap().is_none());
    }
}
