//! Undo data in the files `rev*.dat`, which Bitcoin Core writes beside its block files.
//!
//! A record is magic, length, undo data and a checksum, see [`blockmill_block::undo`]. The checksum
//! covers the undo data and the hash of the block's parent. Nothing else links a record to its
//! block. Records are in the file with the number of the block's file, in the order in which the
//! blocks were connected. Zeros may follow them, which were allocated and not written.

use crate::source::will_need;
use crate::{BlockFiles, FileError, XorKey};
use blockmill_block::hash::BlockHash;
use blockmill_block::network::Magic;
use blockmill_block::reader::Reader;
use blockmill_block::undo::{BlockUndo, RECORD_HEAD, RECORD_TAIL, UndoRecordError, read_record};
use memchr::memmem;
use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Bytes of a read while record after record follows.
const WINDOW: usize = 4 << 10;

/// Bytes of a read while the next record is looked for.
const SEARCH_WINDOW: usize = 64 << 10;

/// The longest CompactSize.
const COMPACT_SIZE_MAX: usize = 9;

/// A record of an undo file.
#[derive(Debug, Clone, Copy)]
struct UndoRecord {
    /// Where it begins in the file.
    offset: u64,
    /// Its length in bytes, head and checksum included.
    length: u32,
    /// Number of transactions by its own count, the coinbase not counted.
    transactions: u32,
}

/// One file of undo data: where its records are. The records stay in the file.
#[derive(Debug)]
pub struct UndoFile {
    path: PathBuf,
    file: File,
    key: XorKey,
    magic: Magic,
    records: Vec<UndoRecord>,
}

impl BlockFiles {
    /// The undo file beside block file number `file`. `None` if it is missing, or if the block file
    /// does not have a name of Core's.
    ///
    /// # Errors
    /// [`FileError::Io`] or [`FileError::Read`].
    pub fn undo_file(&self, file: u32, magic: Magic) -> Result<Option<UndoFile>, FileError> {
        let source = self.source(file);
        let Some(path) = self.undo_path(file) else {
            return Ok(None);
        };
        let file = match File::open(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(FileError::io(&path))?,
        };
        let mut undo_file = UndoFile {
            path,
            file,
            key: source.key,
            magic,
            records: Vec::new(),
        };
        will_need(&undo_file.file, 0, 0);
        undo_file.find_records()?;
        Ok(Some(undo_file))
    }

    /// Whether there is an undo file beside block file number `file`.
    pub fn has_undo_file(&self, file: u32) -> bool {
        self.undo_path(file).is_some_and(|path| path.exists())
    }

    fn undo_path(&self, file: u32) -> Option<PathBuf> {
        undo_path(self.path(file))
    }
}

/// The path of the undo file beside a block file, whether it is there or not. None if the block
/// file does not have a name of Core's.
pub fn undo_path(path: &Path) -> Option<PathBuf> {
    let number = path.file_name()?.to_str()?.strip_prefix("blk")?;
    Some(path.with_file_name(format!("rev{number}")))
}

impl UndoFile {
    /// The file's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads `length` bytes at `offset`.
    fn read(&self, offset: u64, length: usize) -> Result<Vec<u8>, FileError> {
        let mut bytes = vec![0; length];
        let read = self.file.read_exact_at(&mut bytes, offset);
        read.map_err(|error| FileError::Read {
            path: self.path.clone(),
            offset,
            error,
        })?;
        self.key.apply(&mut bytes, offset);
        Ok(bytes)
    }

    fn find_records(&mut self) -> Result<(), FileError> {
        let end = self.file.metadata().map_err(FileError::io(&self.path))?.len();
        let shortest = (RECORD_HEAD + RECORD_TAIL) as u64;
        let (mut window, mut window_at) = (Vec::new(), 0);
        let mut at = 0;
        while at + shortest <= end {
            let in_window = at.checked_sub(window_at).map(|skipped| skipped as usize);
            let head = in_window.and_then(|skipped| window.get(skipped..skipped + RECORD_HEAD + COMPACT_SIZE_MAX));
            let Some(head) = head else {
                window = self.read(at, WINDOW.min((end - at) as usize))?;
                window.resize(WINDOW, 0);
                window_at = at;
                continue;
            };
            let length = Reader::new(&head[4..]).u32().unwrap_or(u32::MAX);
            let length = u64::from(length) + shortest;
            if head[..4] != self.magic.0 || at + length > end {
                // Padding, or damage: the next record may begin anywhere.
                at = self.find_magic(at + 1, end)?;
                continue;
            }
            if let (Ok(transactions), Ok(length)) =
                (Reader::new(&head[RECORD_HEAD..]).compact_size(), u32::try_from(length))
            {
                self.records.push(UndoRecord {
                    offset: at,
                    length,
                    // A CompactSize of a length is below 2^25.
                    transactions: transactions as u32,
                });
            }
            at += length;
        }
        Ok(())
    }

    /// Where the next magic is, or the end.
    fn find_magic(&self, mut at: u64, end: u64) -> Result<u64, FileError> {
        let finder = memmem::Finder::new(&self.magic.0);
        let overlap = self.magic.0.len() as u64 - 1;
        while at + overlap < end {
            let window = self.read(at, SEARCH_WINDOW.min((end - at) as usize))?;
            if let Some(found) = finder.find(&window) {
                return Ok(at + found as u64);
            }
            at += window.len() as u64 - overlap;
        }
        Ok(end)
    }

    /// The undo data of the block with the parent `previous` and this many transactions, the
    /// coinbase not counted. `None` if the file does not have it. A sibling of the block may have
    /// other undo data of that kind: `fits` judges what is found, until it says yes.
    ///
    /// The search begins at record number `first` and goes on to both sides. Records are in the
    /// order in which their blocks were connected, so the place of the block among the blocks of
    /// its file is about right.
    ///
    /// # Errors
    /// [`FileError::Read`].
    pub fn find(
        &self,
        previous: &BlockHash,
        transactions: usize,
        first: usize,
        fits: &mut dyn FnMut(&BlockUndo) -> bool,
    ) -> Result<Option<BlockUndo>, FileError> {
        let count = self.records.len();
        let first = first.min(count);
        let after = (first..count).map(Some).chain(std::iter::repeat(None));
        let before = (0..first).rev().map(Some).chain(std::iter::repeat(None));
        let pairs = after.zip(before).take(count.max(first));
        for number in pairs.flat_map(|(after, before)| after.into_iter().chain(before)) {
            let record = &self.records[number];
            if record.transactions as usize != transactions {
                continue;
            }
            let bytes = self.read(record.offset, record.length as usize)?;
            match read_record(self.magic, previous, &bytes) {
                Ok(undo) if fits(&undo) => return Ok(Some(undo)),
                // The record belongs to another block or is damaged: the checksum cannot tell
                // which.
                Ok(_) | Err(UndoRecordError::Head | UndoRecordError::Checksum | UndoRecordError::Decode(_)) => {}
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::XorKey;
    use blockmill_block::undo::write_record;
    use blockmill_block::{CoinRef, Network};

    fn undo(transactions: usize, value: i64) -> BlockUndo {
        let mut undo = BlockUndo::default();
        for _ in 0..transactions {
            undo.push_coin(CoinRef {
                value,
                height: 7,
                is_coinbase: false,
                script_pubkey: &[0x51],
            });
            undo.end_transaction();
        }
        undo
    }

    fn find(
        file: &UndoFile,
        parent: &BlockHash,
        transactions: usize,
        first: usize,
    ) -> Result<Option<BlockUndo>, FileError> {
        file.find(parent, transactions, first, &mut |_| true)
    }

    #[test]
    fn siblings_are_told_apart_by_the_caller() {
        let magic = Network::Regtest.magic();
        let directory = tempfile::tempdir().unwrap();
        let mut bytes = Vec::new();
        for value in [1, 2, 3] {
            write_record(magic, &BlockHash([7; 32]), &undo(1, value), &mut bytes);
        }
        std::fs::write(directory.path().join("blk00000.dat"), []).unwrap();
        std::fs::write(directory.path().join("rev00000.dat"), bytes).unwrap();
        let mut files = BlockFiles::new();
        let file = files.add(directory.path()).unwrap().start;
        assert!(files.has_undo_file(file));
        let file = files.undo_file(file, magic).unwrap().unwrap();
        for first in 0..4 {
            for value in 1..=4 {
                let mut fits = |found: &BlockUndo| found.coins().at(0).value == value;
                let found = file.find(&BlockHash([7; 32]), 1, first, &mut fits).unwrap();
                assert_eq!(found, (value < 4).then(|| undo(1, value)));
            }
        }
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
                let expected = Some(undo(2, number.into()));
                assert_eq!(find(&found, &parent(number), 2, first).unwrap(), expected);
            }
            assert_eq!(find(&found, &parent(5), 0, first).unwrap(), Some(undo(0, 0)));
            assert!(find(&found, &parent(6), 2, first).unwrap().is_none());
            assert!(find(&found, &parent(3), 1, first).unwrap().is_none());
        }
        // A file that became shorter.
        std::fs::write(directory.path().join("rev00007.dat"), &bytes[..50]).unwrap();
        let error = find(&found, &parent(4), 2, 3).unwrap_err();
        assert!(matches!(error, FileError::Read { offset, .. } if offset > 0), "{error}");
        let other = files.add(&directory.path().join("other.dat")).unwrap().start;
        assert!(files.undo_file(other, magic).unwrap().is_none());
    }
}
