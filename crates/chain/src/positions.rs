//! What searches of block files have found, kept in the data directory: a file that has not changed
//! is not read again, and readers of the directory find the blocks.
//!
//! The file has an entry for each search of a block file, in order; the last one of a path counts.
//! `entry` has the form of the file. A search is trusted once its block file is *settled*: `mark`
//! says when that is.
//!
//! Nothing rests on this file: whatever is wrong with it, the block files are searched, and a block
//! that is read has the hash that was asked for.

mod entry;
mod health;
mod mark;
mod reader;

pub(crate) use entry::FileSearch;
pub use health::PositionsHealth;
pub(crate) use mark::Begun;
pub use reader::PositionsReader;

use blockmill_block::BlockHash;
use blockmill_blockfiles::disk::{Disk, DiskFile, Open};
use blockmill_blockfiles::{BlockFiles, FileError, Record, ScanDepth, is_there, read_regular};
use entry::{FoundBlock, MAGIC, read_entry, write_entry};
use mark::{Mark, Moment, SETTLED_AFTER, note_old};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Bytes of entries that no longer count, from which the file is written anew, if they are more
/// than those that do.
const GARBAGE_MAX: u64 = 1 << 20;

/// How a block file has changed since it was searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    None,
    /// It has changed, or may have.
    Some,
    /// It is another file, or has another key.
    Replaced,
}

/// The file.
struct PositionsFile {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    /// None before the first entry of a new file.
    file: Option<Box<dyn DiskFile>>,
    end: u64,
}

/// Everything that searches have found.
#[derive(Default)]
pub struct FoundPositions {
    searches: HashMap<PathBuf, FileSearch>,
    /// None for those of a process alone.
    store: Option<PositionsFile>,
}

impl FoundPositions {
    /// Those in the file at `path`, which further ones are appended to.
    ///
    /// # Errors
    /// [`FileError`] if the file is there and cannot be read.
    pub fn open(disk: Arc<dyn Disk>, path: PathBuf) -> Result<Self, FileError> {
        let searches = HashMap::new();
        let mut positions = Self { searches, store: None };
        let mut store = PositionsFile {
            disk,
            path,
            file: None,
            end: MAGIC.len() as u64,
        };
        if is_there(&store.path)? {
            let file = store
                .disk
                .open(&store.path, Open::Keep)
                .map_err(FileError::io(&store.path))?;
            let mut bytes = vec![0; file.length().map_err(FileError::io(&store.path))? as usize];
            file.read_exact_at(&mut bytes, 0).map_err(FileError::io(&store.path))?;
            // A file of another format stays unopened: the first entry empties it.
            if let Some(end) = positions.decode(&bytes) {
                (store.file, store.end) = (Some(file), end);
            }
        }
        positions.store = Some(store);
        positions.compact()?;
        Ok(positions)
    }

    /// Those in the file at `path`, to be read. None where there is no such file.
    ///
    /// # Errors
    /// [`FileError`] if the file is there and cannot be read.
    pub fn read(path: &Path) -> Result<Self, FileError> {
        let mut positions = Self::default();
        if let Some(bytes) = read_regular(path)? {
            // A file of another format says nothing, and readers look for blocks elsewhere.
            let _ = positions.decode(&bytes);
        }
        Ok(positions)
    }

    /// Takes in the entries of a file up to the first that is not whole. Returns where that is;
    /// none if it is no such file.
    fn decode(&mut self, bytes: &[u8]) -> Option<u64> {
        let entries = bytes.strip_prefix(MAGIC)?;
        Some((bytes.len() - entries.len()) as u64 + self.decode_entries(entries))
    }

    /// Takes in entries up to the first that is not whole. Returns where that is.
    fn decode_entries(&mut self, entries: &[u8]) -> u64 {
        let mut rest = entries;
        while let Some((path, search)) = read_entry(&mut rest) {
            self.searches.insert(path, search);
        }
        (entries.len() - rest.len()) as u64
    }

    /// Begins a search of a block file.
    pub(crate) fn begin(&self, files: &BlockFiles, file: u32) -> Result<Begun, FileError> {
        let path = files.path(file);
        let metadata = std::fs::metadata(path).map_err(FileError::io(path))?;
        Ok(Begun {
            path: path.to_owned(),
            mark: Mark::new(&metadata, files.key(file)),
            at: Moment::now(),
            is_old: false,
        })
    }

    /// Begins a search of several block files.
    pub(crate) fn begin_all(&self, files: &BlockFiles, numbers: &[u32]) -> Result<Vec<Begun>, FileError> {
        let begun = numbers.iter().map(|&file| self.begin(files, file));
        let mut begun = begun.collect::<Result<Vec<_>, _>>()?;
        note_old(&mut begun);
        Ok(begun)
    }

    /// How deep a search of the file has to be: once records there have hidden others, contents are
    /// read for good.
    pub(crate) fn depth(&self, begun: &Begun) -> ScanDepth {
        let search = self.searches.get(&begun.path);
        search.map_or(ScanDepth::Lengths, |search| search.depth)
    }

    /// The records of the file, if an earlier search was the last that is needed, and nothing has
    /// changed since.
    pub(crate) fn known(&self, begun: &Begun, file: u32, depth: ScanDepth) -> Option<impl Iterator<Item = Record>> {
        let search = self.searches.get(&begun.path)?;
        let is_enough = search.depth == depth || search.depth == ScanDepth::Contents;
        let is_known = is_enough && !search.again && search.mark == begun.mark;
        is_known.then(|| search.records(file))
    }

    /// How a file has changed since it was searched. Damage does not count: it is there until the
    /// file changes.
    pub(crate) fn change(&self, files: &BlockFiles, file: u32) -> Result<Change, FileError> {
        let begun = self.begin(files, file)?;
        let Some(FileSearch { mark, is_settled, .. }) = self.searches.get(&begun.path) else {
            return Ok(Change::Some);
        };
        let is_same = mark.key == begun.mark.key && mark.device == begun.mark.device && mark.inode == begun.mark.inode;
        Ok(if !is_same {
            Change::Replaced
        } else if *is_settled && *mark == begun.mark {
            Change::None
        } else {
            Change::Some
        })
    }

    /// Notes what a search of this depth has found; with `again` the file is searched again even if
    /// nothing changes. The file of searches gets it with [`write`](Self::write).
    pub(crate) fn note(
        &mut self,
        begun: Begun,
        records: &[Record],
        (depth, again): (ScanDepth, bool),
        entries: &mut Vec<u8>,
    ) {
        let blocks = records.iter().map(|record| FoundBlock {
            offset: record.position.offset,
            length: record.position.length,
            header: record.header,
        });
        let before = self
            .searches
            .get(&begun.path)
            .filter(|search| search.mark == begun.mark);
        let seen_for = before.and_then(|search| Some((search.since, begun.at.since(&search.since)?)));
        let (since, seen_for) = seen_for.unwrap_or((begun.at, Duration::ZERO));
        let is_settled = begun.is_old || seen_for >= SETTLED_AFTER;
        let mut search = FileSearch {
            mark: begun.mark,
            since,
            depth,
            again: again || !is_settled,
            is_settled,
            blocks: blocks.collect(),
            bytes: 0,
        };
        let before = entries.len();
        write_entry(&begun.path, &search, entries);
        search.bytes = (entries.len() - before) as u64;
        self.searches.insert(begun.path, search);
    }

    /// Appends entries to the file.
    ///
    /// # Errors
    /// [`FileError`]; what was in the file stays.
    pub(crate) fn write(&mut self, entries: &[u8]) -> Result<(), FileError> {
        let Some(store) = self.store.as_mut().filter(|_| !entries.is_empty()) else {
            return Ok(());
        };
        if store.file.is_none() {
            let file = store
                .disk
                .open(&store.path, Open::Empty)
                .map_err(FileError::io(&store.path))?;
            file.write_all_at(MAGIC, 0).map_err(FileError::io(&store.path))?;
            store.file = Some(file);
        }
        if let Some(file) = &store.file {
            // After the last whole entry, over what a kill has left of another.
            file.write_all_at(entries, store.end)
                .map_err(FileError::io(&store.path))?;
            store.end += entries.len() as u64;
        }
        // Who follows a node searches its last file again and again.
        self.compact()
    }

    /// Writes the file anew where most of it no longer counts.
    fn compact(&mut self) -> Result<(), FileError> {
        let live: u64 = self.searches.values().map(|search| search.bytes).sum();
        let Some(store) = &mut self.store else {
            return Ok(());
        };
        let garbage = store.end - MAGIC.len() as u64 - live;
        if garbage < live.max(GARBAGE_MAX) {
            return Ok(());
        }
        // What cannot be looked at now may be there again later.
        self.searches.retain(|path, _| is_there(path).unwrap_or(true));
        let mut bytes = MAGIC.to_vec();
        for (path, search) in &self.searches {
            write_entry(path, search, &mut bytes);
        }
        let mut temporary = store.path.as_os_str().to_owned();
        temporary.push(".new");
        let temporary = PathBuf::from(temporary);
        let file = store
            .disk
            .open(&temporary, Open::Empty)
            .map_err(FileError::io(&store.path))?;
        // Not synced: entries have checksums, and a block file without one is searched again.
        file.write_all_at(&bytes, 0)
            .and_then(|()| store.disk.rename(&temporary, &store.path))
            .map_err(FileError::io(&store.path))?;
        (store.file, store.end) = (Some(file), bytes.len() as u64);
        Ok(())
    }

    /// The block files that were searched, and the blocks that were found in each.
    pub fn blocks(&self) -> impl Iterator<Item = (&Path, impl Iterator<Item = BlockHash>)> {
        let searches = self.searches.iter();
        searches.map(|(path, search)| (path.as_path(), search.blocks.iter().map(|block| block.header.hash())))
    }

    /// Returns the block files' blocks, each with its parent.
    pub fn parents(&self) -> impl Iterator<Item = (BlockHash, BlockHash)> {
        let blocks = self.searches.values().flat_map(|search| &search.blocks);
        blocks.map(|block| (block.header.hash(), block.header.prev_block_hash))
    }

    /// The block files that were searched, in the order of their paths, and what was found in each.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&Path, &FileSearch)> {
        let mut searches: Vec<_> = self.searches.iter().collect();
        searches.sort_unstable_by_key(|(path, _)| *path);
        searches.into_iter().map(|(path, search)| (path.as_path(), search))
    }
}

#[cfg(test)]
mod tests;
