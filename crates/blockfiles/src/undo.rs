//! Undo data in the files `rev*.dat`, which Bitcoin Core writes beside its block files.
//!
//! A record is magic, length, undo data and a checksum, see [`blockmill_block::undo`]. The checksum
//! covers the undo data and the hash of the block's parent. Nothing else links a record to its
//! block. Records are in the file with the number of the block's file, in the order in which the
//! blocks were connected. Zeros may follow them, which were allocated and not written.
//!
//! Every magic may begin a record, whatever lies around it: a record is believed when its checksum
//! is right. Those that a block may have are found by tables:
//!
//! | block | its records |
//! |---|---|
//! | spends nothing | its record is known, so it is looked up by its checksum |
//! | spends coins | records of as many transactions and of a possible length, nearest first |
//!
//! A block tries the `NEAR_MAX` nearest records, and further ones while the budget of the file
//! lasts. So the bytes that are read are a multiple of the file's length, whatever the file has.

use crate::source::{open_regular, will_need};
use crate::window::{ReadResult, Window};
use crate::{BlockFiles, FileError, ScanProgress, XorKey};
use blockmill_block::Block;
use blockmill_block::network::Magic;
use blockmill_block::reader::Reader;
use blockmill_block::undo::{
    BlockUndo, RECORD_HEAD, RECORD_TAIL, UndoRecordError, checksum_without_coins, read_record_for,
};
use std::fs::File;
use std::io::ErrorKind;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of a read while records are looked for.
const WINDOW: usize = 64 << 10;

/// Bytes of a record besides its undo data.
const RECORD_BYTES_MIN: u64 = (RECORD_HEAD + RECORD_TAIL) as u64;

/// The longest CompactSize.
const COMPACT_SIZE_MAX: usize = 9;

/// Records that a block may always try.
const NEAR_MAX: u64 = 64;

/// Bound of what blocks read of further records, in bytes: this many times the length of the file,
/// plus a constant.
const FAR_BUDGET: u64 = 8;
const FAR_BUDGET_BASE: u64 = 64 << 20;

/// What a record costs of that budget if its length alone rules it out.
const STEP_COST: u64 = 16;

/// A record whose block spends coins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Spending {
    /// Number of transactions by its own count, the coinbase not counted.
    transactions: u32,
    /// Where it begins in the file.
    offset: u32,
    /// Length of its undo data in bytes.
    length: u32,
}

/// A record whose block spends nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Empty {
    /// The first bytes of its checksum.
    checksum: [u8; 4],
    offset: u32,
}

/// One file of undo data: where its records are. The records stay in the file.
#[derive(Debug)]
pub struct UndoFile {
    path: PathBuf,
    file: File,
    length: u64,
    key: XorKey,
    magic: Magic,
    /// Where records begin, in the order of the file.
    offsets: Vec<u32>,
    /// Sorted.
    spending: Vec<Spending>,
    /// Sorted.
    empty: Vec<Empty>,
    far_budget: AtomicU64,
}

/// How far the search for the undo data of a block has come: what was found is not found again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UndoCursor {
    /// Records that were tried.
    tried: u64,
    /// Where the record begins that was found last.
    found: u32,
}

impl BlockFiles {
    /// The undo file beside block file number `file`. `None` if it is missing, or if the block file
    /// does not have a name of Core's.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn undo_file(&self, file: u32, magic: Magic) -> Result<Option<UndoFile>, FileError> {
        let key = self.source(file).key;
        for path in self.undo_paths(file) {
            match open_regular(&path) {
                Err(FileError::Io { error, .. }) if error.kind() == ErrorKind::NotFound => {}
                opened => return UndoFile::new(path, opened?, key, magic).map(Some),
            }
        }
        Ok(None)
    }

    /// Whether there is an undo file beside block file number `file`. One that cannot be looked at
    /// counts.
    pub fn has_undo_file(&self, file: u32) -> bool {
        let is_missing = |path: PathBuf| {
            let found = std::fs::metadata(path);
            found.is_err_and(|error| error.kind() == ErrorKind::NotFound)
        };
        !self.undo_paths(file).all(is_missing)
    }

    /// Beside the name of the block file, and beside the file that the name links to.
    fn undo_paths(&self, file: u32) -> impl Iterator<Item = PathBuf> {
        [self.path(file), self.target(file)].into_iter().filter_map(undo_path)
    }
}

/// The path of the undo file beside a block file, whether it is there or not. None if the block
/// file does not have a name of Core's.
pub fn undo_path(path: &Path) -> Option<PathBuf> {
    let number = path.file_name()?.to_str()?.strip_prefix("blk")?;
    Some(path.with_file_name(format!("rev{number}")))
}

impl UndoFile {
    fn new(path: PathBuf, file: File, key: XorKey, magic: Magic) -> Result<Self, FileError> {
        let length = file.metadata().map_err(FileError::io(&path))?.len();
        if length > u64::from(u32::MAX) {
            let error = std::io::Error::other("an undo file of 4 GiB or more is none of Bitcoin Core's");
            return Err(FileError::io(path)(error));
        }
        will_need(&file, 0, 0);
        let mut undo_file = Self {
            path,
            file,
            length,
            key,
            magic,
            offsets: Vec::new(),
            spending: Vec::new(),
            empty: Vec::new(),
            far_budget: AtomicU64::new(FAR_BUDGET * length + FAR_BUDGET_BASE),
        };
        undo_file.find_records()?;
        Ok(undo_file)
    }

    /// The file's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Memory of the tables in bytes.
    pub fn memory(&self) -> usize {
        self.offsets.capacity() * size_of::<u32>()
            + self.spending.capacity() * size_of::<Spending>()
            + self.empty.capacity() * size_of::<Empty>()
    }

    fn find_records(&mut self) -> Result<(), FileError> {
        let file = self.file.try_clone().map_err(FileError::io(&self.path))?;
        let mut go_on = |_: &ScanProgress| ControlFlow::Continue(());
        let mut window = Window::new(&file, self.key, self.length, WINDOW, &mut go_on);
        self.note_records(&mut window).map_err(|cut| {
            let stopped = || FileError::io(&self.path)(ErrorKind::Interrupted.into());
            cut.error(&self.path).unwrap_or_else(stopped)
        })?;
        self.spending.sort_unstable();
        self.empty.sort_unstable();
        Ok(())
    }

    fn note_records(&mut self, window: &mut Window<'_>) -> ReadResult<()> {
        let mut at = 0;
        while let Some(found) = window.find_magic(self.magic, at)? {
            at = found + 1;
            let head = window.get(found, RECORD_HEAD + COMPACT_SIZE_MAX + RECORD_TAIL)?;
            let Some((&length, rest)) = head.get(4..).and_then(<[u8]>::split_first_chunk) else {
                continue;
            };
            let (length, offset) = (u32::from_le_bytes(length), found as u32);
            let end = found + RECORD_BYTES_MIN + u64::from(length);
            let Ok(transactions) = Reader::new(rest).compact_size() else {
                continue;
            };
            if length == 0 || end > self.length {
                continue;
            }
            self.offsets.push(offset);
            match (transactions, rest.get(1..5).and_then(<[u8]>::first_chunk)) {
                (0, Some(&checksum)) if length == 1 => self.empty.push(Empty { checksum, offset }),
                _ => self.spending.push(Spending {
                    // A CompactSize of a length is below 2^25.
                    transactions: transactions as u32,
                    offset,
                    length,
                }),
            }
        }
        Ok(())
    }

    /// The undo data of a block that has a transaction at least. `None` if the file does not have
    /// it, or if all was found before that `cursor` has gone by: a sibling of the block may have
    /// undo data of the same form, and the checksum does not tell them apart.
    ///
    /// The search begins at record number `rank`. Records are in the order in which their blocks
    /// were connected, so the rank of the block among the blocks of its file is about right.
    ///
    /// # Errors
    /// [`FileError::Read`].
    pub fn find<B: AsRef<[u8]>>(
        &self,
        block: &Block<B>,
        rank: usize,
        cursor: &mut UndoCursor,
    ) -> Result<Option<BlockUndo>, FileError> {
        if block.transaction_count() == 1 {
            return Ok(self.find_empty(block, cursor)?.then(BlockUndo::default));
        }
        let lengths = BlockUndo::lengths_for(block);
        let transactions = (block.transaction_count() - 1) as u32;
        let first = self
            .spending
            .partition_point(|record| record.transactions < transactions);
        let records = &self.spending[first..];
        let records = &records[..records.partition_point(|record| record.transactions == transactions)];
        let hint = self.offsets.get(rank).copied().unwrap_or(u32::MAX);
        let middle = records.partition_point(|record| record.offset < hint);
        while let Some(record) = nearest(middle, records.len(), cursor.tried).map(|index| records[index]) {
            cursor.tried += 1;
            let fits = lengths.contains(&record.length.into());
            let cost = if fits {
                RECORD_BYTES_MIN + u64::from(record.length)
            } else {
                STEP_COST
            };
            if cursor.tried > NEAR_MAX && !self.spend(cost) {
                return Ok(None);
            }
            if !fits {
                continue;
            }
            let bytes = self.read(record.offset, record.length as usize)?;
            match read_record_for(self.magic, block, &bytes) {
                Ok(Some(undo)) => {
                    cursor.found = record.offset;
                    return Ok(Some(undo));
                }
                // The record belongs to another block or is damaged: the checksum cannot tell
                // which.
                Ok(None) | Err(UndoRecordError::Head | UndoRecordError::Checksum | UndoRecordError::Decode(_)) => {}
            }
        }
        Ok(None)
    }

    /// Whether there are records after the one that was found last, or any if `after` is none.
    pub fn has_records_after(&self, after: Option<&UndoCursor>) -> bool {
        let last = self.offsets.last();
        last.is_some_and(|&last| after.is_none_or(|cursor| last > cursor.found))
    }

    /// Whether there is a record of a block that spends nothing.
    fn find_empty<B: AsRef<[u8]>>(&self, block: &Block<B>, cursor: &mut UndoCursor) -> Result<bool, FileError> {
        if cursor.tried > 0 {
            return Ok(false);
        }
        cursor.tried = 1;
        let wanted = checksum_without_coins(&block.header().prev_block_hash);
        let first = self.empty.partition_point(|record| record.checksum[..] < wanted[..4]);
        let same = self.empty[first..]
            .iter()
            .take_while(|record| record.checksum[..] == wanted[..4]);
        for (tried, record) in (1..).zip(same) {
            // Records with these bytes and others after them were made to be found.
            if tried > NEAR_MAX && !self.spend(STEP_COST) {
                break;
            }
            if self.read(record.offset, 1)?.ends_with(&wanted) {
                cursor.found = record.offset;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Takes from the budget of the file. False if it does not have so much.
    fn spend(&self, cost: u64) -> bool {
        let less = |budget: u64| budget.checked_sub(cost);
        let spent = self.far_budget.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        spent.is_ok()
    }

    /// Reads a record with so much undo data.
    fn read(&self, offset: u32, length: usize) -> Result<Vec<u8>, FileError> {
        let offset = u64::from(offset);
        let mut bytes = vec![0; RECORD_HEAD + length + RECORD_TAIL];
        let read = self.file.read_exact_at(&mut bytes, offset);
        read.map_err(|error| FileError::Read {
            path: self.path.clone(),
            offset,
            error,
        })?;
        self.key.apply(&mut bytes, offset);
        Ok(bytes)
    }
}

/// Number `index` of a list of `count`, in the order of the distance from `middle`.
fn nearest(middle: usize, count: usize, index: u64) -> Option<usize> {
    let index = usize::try_from(index).ok().filter(|&index| index < count)?;
    let paired = middle.min(count - middle);
    Some(match index {
        _ if index < 2 * paired && index % 2 == 0 => middle + index / 2,
        _ if index < 2 * paired => middle - 1 - index / 2,
        _ if middle < count - middle => middle + (index - paired),
        _ => middle - 1 - (index - paired),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use blockmill_block::undo::write_record;
    use blockmill_block::{BlockHash, CoinRef};

    const MAGIC: Magic = Magic([0xfa, 0xbf, 0xb5, 0xda]);

    fn parent(number: u8) -> BlockHash {
        BlockHash([number; 32])
    }

    /// A block with this parent and so many transactions of one input, the coinbase not counted.
    fn block(parent: BlockHash, transactions: u8) -> Block {
        let mut bytes = vec![0; 4];
        bytes.extend(parent.0);
        bytes.extend([0; 44]);
        bytes.push(transactions + 1);
        for _ in 0..=transactions {
            bytes.extend([1, 0, 0, 0, 1]);
            bytes.extend([0; 41]);
            bytes.extend([1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        }
        Block::decode(bytes).unwrap()
    }

    fn undo(transactions: u8, value: i64) -> BlockUndo {
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

    fn record(number: u8, transactions: u8, value: i64) -> Vec<u8> {
        let mut bytes = Vec::new();
        write_record(MAGIC, &parent(number), &undo(transactions, value), &mut bytes);
        bytes
    }

    /// An undo file of these bytes, obfuscated with the key.
    fn open(bytes: &[u8], key: [u8; 8]) -> (tempfile::TempDir, UndoFile) {
        let directory = tempfile::tempdir().unwrap();
        let mut bytes = bytes.to_vec();
        XorKey::new(key).apply(&mut bytes, 0);
        std::fs::write(directory.path().join("xor.dat"), key).unwrap();
        std::fs::write(directory.path().join("blk00007.dat"), []).unwrap();
        std::fs::write(directory.path().join("rev00007.dat"), bytes).unwrap();
        let mut files = BlockFiles::new();
        let file = files.add(directory.path()).unwrap()[0];
        assert!(files.has_undo_file(file));
        let undo_file = files.undo_file(file, MAGIC).unwrap().unwrap();
        (directory, undo_file)
    }

    fn find(file: &UndoFile, number: u8, transactions: u8, rank: usize) -> Option<BlockUndo> {
        let block = block(parent(number), transactions);
        file.find(&block, rank, &mut UndoCursor::default()).unwrap()
    }

    #[test]
    fn siblings_are_found_one_after_the_other() {
        let bytes = [1, 2, 3].map(|value| record(7, 1, value)).concat();
        let (_directory, file) = open(&bytes, [0; 8]);
        for rank in 0..4 {
            let mut cursor = UndoCursor::default();
            let found = std::iter::from_fn(|| file.find(&block(parent(7), 1), rank, &mut cursor).unwrap());
            let mut values: Vec<_> = found.map(|undo| undo.coins().at(0).value).collect();
            values.sort_unstable();
            assert_eq!(values, [1, 2, 3]);
        }
    }

    #[test]
    fn records_are_found_by_their_checksums() {
        let mut bytes: Vec<u8> = (1..=4).flat_map(|number| record(number, 2, number.into())).collect();
        // Damage between two records, a record of a block without transactions, and padding that
        // was never written.
        bytes.extend([0xfa, 0xbf, 1, 2, 3]);
        bytes.extend(record(5, 0, 0));
        let key = [9, 8, 7, 6, 5, 4, 3, 2];
        let whole = bytes.len();
        bytes.extend((whole..whole + 1000).map(|at| key[at % 8]));
        let (directory, file) = open(&bytes, key);
        for rank in [0, 2, 4, 5, 6, usize::MAX] {
            for number in [3, 4, 1, 2] {
                assert_eq!(find(&file, number, 2, rank), Some(undo(2, number.into())));
            }
            assert_eq!(find(&file, 5, 0, rank), Some(undo(0, 0)));
            assert!(find(&file, 6, 2, rank).is_none());
            assert!(find(&file, 3, 1, rank).is_none());
            assert!(find(&file, 3, 0, rank).is_none());
        }
        // A file that became shorter.
        let path = directory.path().join("rev00007.dat");
        File::options().write(true).open(path).unwrap().set_len(50).unwrap();
        let error = file.find(&block(parent(4), 2), 3, &mut UndoCursor::default());
        assert!(matches!(error, Err(FileError::Read { offset, .. }) if offset > 0));
    }

    #[test]
    fn a_block_file_without_an_undo_file() {
        let directory = tempfile::tempdir().unwrap();
        let mut files = BlockFiles::new();
        for name in ["blk00007.dat", "other.dat"] {
            std::fs::write(directory.path().join(name), []).unwrap();
            let file = files.add(&directory.path().join(name)).unwrap()[0];
            assert!(!files.has_undo_file(file));
            assert!(files.undo_file(file, MAGIC).unwrap().is_none());
        }
    }

    /// Old files are linked one by one: the undo file is beside the link, or beside the file.
    #[test]
    fn undo_files_of_links() {
        let directory = tempfile::tempdir().unwrap();
        let (blocks, disk) = (directory.path().join("blocks"), directory.path().join("disk"));
        std::fs::create_dir(&blocks).unwrap();
        std::fs::create_dir(&disk).unwrap();
        std::fs::write(disk.join("blk00003.dat"), []).unwrap();
        std::fs::write(disk.join("rev00003.dat"), record(1, 1, 5)).unwrap();
        std::os::unix::fs::symlink(disk.join("blk00003.dat"), blocks.join("blk00000.dat")).unwrap();
        let mut files = BlockFiles::new();
        files.add(&blocks).unwrap();
        let value = |files: &BlockFiles| {
            let undo_file = files.undo_file(0, MAGIC).unwrap().unwrap();
            find(&undo_file, 1, 1, 0).unwrap().coins().at(0).value
        };
        assert_eq!(value(&files), 5);
        std::fs::write(blocks.join("rev00000.dat"), record(1, 1, 6)).unwrap();
        assert_eq!(value(&files), 6);
    }

    /// A record whose length covers those after it hides none of them.
    #[test]
    fn no_record_hides_others() {
        let mut bytes = record(1, 1, 1);
        let inner: Vec<u8> = (2..6).flat_map(|number| record(number, 1, number.into())).collect();
        let length = u32::from_le_bytes(bytes[4..8].try_into().unwrap()) + inner.len() as u32;
        bytes[4..8].copy_from_slice(&length.to_le_bytes());
        bytes.extend(inner);
        let (_directory, file) = open(&bytes, [0; 8]);
        for number in 2..6 {
            assert_eq!(find(&file, number, 1, 0), Some(undo(1, number.into())));
        }
        assert!(find(&file, 1, 1, 0).is_none());
    }

    /// Many records of the same form: a block without coins finds its own at once, and what all
    /// blocks together read has a bound.
    #[test]
    fn many_records_of_one_form() {
        let others: Vec<u8> = record(9, 0, 0).repeat(20_000);
        let (_directory, file) = open(&[others, record(1, 0, 0)].concat(), [0; 8]);
        let start = std::time::Instant::now();
        for _ in 0..10_000 {
            assert!(find(&file, 2, 0, 0).is_none());
            assert!(find(&file, 1, 0, 0).is_some());
        }
        assert!(start.elapsed().as_secs() < 5, "{:?}", start.elapsed());
        let others: Vec<u8> = record(9, 1, 1).repeat(20_000);
        let (_directory, file) = open(&[others, record(1, 1, 1)].concat(), [0; 8]);
        assert!(find(&file, 1, 1, 20_000).is_some());
        let mut read = 0;
        for _ in 0..1_000 {
            let mut cursor = UndoCursor::default();
            assert!(file.find(&block(parent(2), 1), 0, &mut cursor).unwrap().is_none());
            read += cursor.tried;
        }
        let bytes = read * (RECORD_BYTES_MIN + 6);
        assert!(
            bytes < FAR_BUDGET * file.length + FAR_BUDGET_BASE + 1_000 * NEAR_MAX * 50,
            "{read}"
        );
        // The nearest are tried even so.
        assert!(find(&file, 1, 1, 20_000).is_some());
    }

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
