//! Undo data in the files `rev*.dat`, which Bitcoin Core writes beside its block files.
//!
//! A record is magic, length, undo data and a checksum, see [`blockmill_block::undo`]. The checksum
//! covers the undo data and the hash of the block's parent. Nothing else links a record to its
//! block. Records are in the file with the number of the block's file, in the order in which the
//! blocks were connected. Zeros may follow them, which were allocated and not written.
//!
//! Every magic may begin a record, whatever lies around it: a record is believed when its checksum
//! is right. The undo data ends where the block's last coin does; the length is not looked at, as
//! Core does not look at it. Those records that a block may have are found by tables:
//!
//! | block | its records |
//! |---|---|
//! | spends nothing | its record is known, so it is looked up by its checksum |
//! | spends coins | records of as many transactions, nearest first |
//!
//! "Nearest" counts from where records of neighbours were found: any number of other records may
//! lie before, between or after those of a chain, and each is read a few times. Whether a record
//! is that of a block cannot be told without its checksum, so where records of one form come in no
//! order, each block tries each. That has a bound: a block may read a multiple of its own length,
//! and all blocks of the file together a multiple of the file's. Beyond that the search ends with
//! an error, never with "not found".

mod rest;
mod tables;
#[cfg(test)]
mod tests;

use crate::source::{open_regular, will_need};
use crate::window::{Cut, FileWindow};
use crate::{BlockFiles, FileError, ScanProgress, XorKey};
use blockmill_block::Block;
use blockmill_block::network::Magic;
use blockmill_block::reader::DecodeError;
use blockmill_block::undo::{BlockUndo, RECORD_HEAD, RECORD_TAIL, checksum, checksum_without_coins};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::ErrorKind;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use tables::UndoTables;

/// Bytes of a read while records are looked for.
const WINDOW: usize = 64 << 10;

/// Bytes of a record that spends nothing.
const EMPTY_RECORD: usize = RECORD_HEAD + 1 + RECORD_TAIL;

/// Bytes that a block may read of records, as a multiple of its own.
const OWN_BUDGET: u64 = 64;

/// Bytes that all blocks together may read beyond that: this many times the length of the file,
/// plus a constant.
const FILE_BUDGET: u64 = 32;
const FILE_BUDGET_BASE: u64 = 64 << 20;

/// How many times the bytes that a block's coins have at least are read first of a record, and by
/// how much that grows.
const READ_FIRST: u64 = 8;
const READ_GROWTH: u64 = 4;

/// Offsets of records that are kept as hints.
const HINTS_MAX: usize = 1024;

/// One file of undo data: where its records are. The records stay in the file.
#[derive(Debug)]
pub struct UndoFile {
    path: PathBuf,
    file: File,
    length: u64,
    key: XorKey,
    magic: Magic,
    tables: UndoTables,
    budget: AtomicU64,
    /// For ranks of blocks the numbers of their records among those in order.
    hints: Mutex<BTreeMap<usize, usize>>,
}

/// How far the search for the undo data of a block has come: what was found is not found again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UndoCursor {
    /// Records that were tried.
    tried: u64,
    /// Bytes that were read of the block's own budget.
    read: u64,
    /// Where the record is looked for first.
    hint: Option<u32>,
    /// End of the record that was found last.
    found_end: u64,
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
        // Offsets in the tables have 32 bits.
        if length > u64::from(u32::MAX) {
            let error = std::io::Error::other("an undo file of 4 GiB or more is none of Bitcoin Core's");
            return Err(FileError::io(path)(error));
        }
        // All of it is read once for the tables.
        will_need(&file, 0, 0);
        let mut undo_file = Self {
            path,
            file,
            length,
            key,
            magic,
            tables: UndoTables::default(),
            budget: AtomicU64::new(FILE_BUDGET * length + FILE_BUDGET_BASE),
            hints: Mutex::default(),
        };
        let mut go_on = |_: &ScanProgress| ControlFlow::Continue(());
        let mut window = FileWindow::new(&undo_file.file, key, length, WINDOW, &mut go_on);
        let tables = UndoTables::read(magic, &mut window).map_err(|cut| undo_file.error(cut))?;
        undo_file.tables = tables;
        Ok(undo_file)
    }

    /// The file's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Memory of the tables in bytes.
    pub fn memory(&self) -> usize {
        self.tables.memory()
    }

    /// The undo data of a block that has a transaction at least. `None` if the file does not have
    /// it, or if all was found before that `cursor` has gone by: a sibling of the block may have
    /// undo data of the same form, and the checksum does not tell them apart.
    ///
    /// `rank` is the number of the block among the blocks of its file, in the order of the chain.
    /// Records are in the order in which their blocks were connected, so the search begins there.
    ///
    /// # Errors
    /// [`FileError::Read`], or [`FileError::Io`] if there are too many records that the block may
    /// have.
    pub fn find<B: AsRef<[u8]>>(
        &self,
        block: &Block<B>,
        rank: usize,
        cursor: &mut UndoCursor,
    ) -> Result<Option<BlockUndo>, FileError> {
        // The order of a search must not change while it goes on, whatever others find.
        let hint = *cursor.hint.get_or_insert_with(|| self.hint(rank));
        let found = if block.transaction_count() == 1 {
            self.find_empty(block, cursor)?
        } else {
            self.find_spending(block, hint, cursor)?
        };
        match found {
            Some((offset, undo)) => {
                self.note(rank, offset);
                Ok(Some(undo))
            }
            // Some records are in no table, so nobody knows that it is not there.
            None if self.tables.are_full() => Err(self.too_many()),
            None => Ok(None),
        }
    }

    fn find_spending<B: AsRef<[u8]>>(
        &self,
        block: &Block<B>,
        hint: u32,
        cursor: &mut UndoCursor,
    ) -> Result<Option<(u32, BlockUndo)>, FileError> {
        // The coinbase spends nothing.
        let transactions = (block.transaction_count() - 1) as u32;
        while let Some(offset) = self.tables.spending(transactions, hint, cursor.tried) {
            cursor.tried += 1;
            if let Some(undo) = self.read_for(block, offset, cursor)? {
                return Ok(Some((offset, undo)));
            }
        }
        Ok(None)
    }

    /// A record of a block that spends nothing.
    fn find_empty<B: AsRef<[u8]>>(
        &self,
        block: &Block<B>,
        cursor: &mut UndoCursor,
    ) -> Result<Option<(u32, BlockUndo)>, FileError> {
        // All records that spend nothing under one parent are equal: a second one is no news.
        if cursor.tried > 0 {
            return Ok(None);
        }
        cursor.tried = 1;
        let wanted = checksum_without_coins(&block.header().prev_block_hash);
        let [a, b, c, d, ..] = wanted;
        for offset in self.tables.empty([a, b, c, d]) {
            // Records with these bytes and others after them were made to be found.
            self.charge(EMPTY_RECORD as u64, block, cursor)?;
            let start = u64::from(offset) + RECORD_HEAD as u64;
            if self.read(start, 1 + RECORD_TAIL)?.ends_with(&wanted) {
                cursor.found_end = start + (1 + RECORD_TAIL) as u64;
                return Ok(Some((offset, BlockUndo::default())));
            }
        }
        Ok(None)
    }

    /// The undo data of a block in the record that begins at `offset`, if it is the block's.
    fn read_for<B: AsRef<[u8]>>(
        &self,
        block: &Block<B>,
        offset: u32,
        cursor: &mut UndoCursor,
    ) -> Result<Option<BlockUndo>, FileError> {
        let start = u64::from(offset) + RECORD_HEAD as u64;
        let (least, most) = BlockUndo::lengths_for(block).into_inner();
        let tail = RECORD_TAIL as u64;
        // Bytes beyond the longest possible record of this block are never read.
        let most = (most + tail).min(self.length.saturating_sub(start));
        let mut count = (least * READ_FIRST + tail).min(most);
        loop {
            self.charge(count, block, cursor)?;
            let bytes = self.read(start, count as usize)?;
            let (length, needed) = match BlockUndo::length_for(&bytes, block) {
                Ok(Some(length)) => (length, length + RECORD_TAIL),
                Err(DecodeError::UnexpectedEnd { offset, wanted }) => (0, offset + wanted),
                Ok(None) | Err(_) => return Ok(None),
            };
            let needed = needed as u64;
            if needed > most {
                return Ok(None);
            }
            if needed > count {
                // A few reads at most: each is a multiple of the one before.
                count = (count * READ_GROWTH).max(needed).min(most);
                continue;
            }
            let (undo, rest) = bytes.split_at(length);
            if !rest.starts_with(&checksum(&block.header().prev_block_hash, undo)) {
                return Ok(None);
            }
            cursor.found_end = start + (length + RECORD_TAIL) as u64;
            // The checksum may have been made for data that does not decode.
            return Ok(BlockUndo::decode_for(undo, block).ok().flatten());
        }
    }

    /// About where the record of a block is, whose rank is `rank`.
    fn hint(&self, rank: usize) -> u32 {
        let hints = self.hints.lock().unwrap_or_else(PoisonError::into_inner);
        let below = hints.range(..=rank).next_back();
        let number = match (below, hints.range(rank..).next()) {
            (Some((of, number)), _) => number + (rank - of),
            (None, Some((of, number))) => number.saturating_sub(of - rank),
            // Records are in the order of the chain where nothing was connected twice.
            (None, None) => rank,
        };
        self.tables.offset(number).unwrap_or(u32::MAX)
    }

    /// Notes where the record of a block was found.
    fn note(&self, rank: usize, offset: u32) {
        if let Some(number) = self.tables.rank(offset) {
            let mut hints = self.hints.lock().unwrap_or_else(PoisonError::into_inner);
            if hints.len() >= HINTS_MAX {
                // New ones come soon. A hint is never needed.
                hints.clear();
            }
            hints.insert(rank, number);
        }
    }

    /// Charges a read for a block: to its own budget, then to that of the file.
    fn charge<B: AsRef<[u8]>>(&self, cost: u64, block: &Block<B>, cursor: &mut UndoCursor) -> Result<(), FileError> {
        if cursor.read + cost <= OWN_BUDGET * block.bytes().len() as u64 {
            cursor.read += cost;
        } else if !self.spend(cost) {
            return Err(self.too_many());
        }
        Ok(())
    }

    /// Takes from the budget of the file. False if it does not have so much.
    fn spend(&self, cost: u64) -> bool {
        let less = |budget: u64| budget.checked_sub(cost);
        // Relaxed: the number bounds work, and orders nothing.
        let spent = self.budget.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        spent.is_ok()
    }

    fn too_many(&self) -> FileError {
        let error = std::io::Error::other("it has too many records that may be those of a block");
        FileError::io(&self.path)(error)
    }

    fn error(&self, cut: Cut) -> FileError {
        let stopped = || FileError::io(&self.path)(ErrorKind::Interrupted.into());
        cut.error(&self.path).unwrap_or_else(stopped)
    }

    /// Reads bytes of the file.
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
}
