//! What searches of block files have found, kept in the data directory: a file that has not changed
//! is not read again, and readers of the directory find the blocks.
//!
//! The file is a magic, then entries: one for each search of a block file, in order; the last one
//! of a path counts. An entry is its length (4 bytes), the CRC-32 of its body (4), and the body.
//! All numbers are little-endian. The body:
//!
//! | bytes | |
//! |---|---|
//! | 8, 8 | device and inode of the block file |
//! | 8 | its length |
//! | 16, 16 | time of its last change, and of the last change of its inode, in nanoseconds |
//! | 8 | the key it is obfuscated with |
//! | 8, 8 | boot and monotonic time, in nanoseconds, when the file was first seen as it is |
//! | 1 | what was read of records: 1 lengths, 2 contents; 0 and 3 if it is to be searched again |
//! | 4, then so many | length of its path, and the path |
//! | 92 each | records: offset of the block (8), its length (4), its header (80) |
//!
//! A change shows in the times of a file only if they differ from those before it. File systems have
//! times in grains (FAT of 2 s, many network drives of 1 s), by a clock that may be another machine's.
//! So a search is trusted only once the file is *settled*: seen with the same length and times
//! `SETTLED_AFTER` before the search, by the clock of this machine alone, or older than another
//! file of its file system. Until then it is searched again.
//!
//! Nothing rests on this file: whatever is wrong with it, the block files are searched, and a block
//! that is read has the hash that was asked for.

use blockmill_block::{BlockHash, Header};
use blockmill_blockfiles::disk::{Disk, DiskFile, Open};
use blockmill_blockfiles::{
    BlockFiles, FileError, Position, Record, ScanDepth, XorKey, find_regular, is_there, read_regular,
};
use rustix::time::{ClockId, clock_gettime};
use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::hash::{BuildHasher, RandomState};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

/// The first bytes of the file, with the version of its format.
const MAGIC: &[u8; 8] = b"BMPLACE2";

/// Between two searches that have seen a file the same, before it is settled. More than the grain
/// of the times of any file system, so that a change after the second has another time.
const SETTLED_AFTER: Duration = Duration::from_secs(5);

/// A file that has not changed for so long before the last change of another one, both by the clock
/// of their file system, is settled without a second search: a change from now on is later than both.
const OLDER_BY: Duration = Duration::from_secs(3_600);

/// Bytes of a body before the path.
const FIXED: usize = 8 + 8 + 8 + 16 + 16 + 8 + 8 + 8 + 1 + 4;

/// Bytes of a record.
const RECORD: usize = 8 + 4 + Header::LENGTH;

/// Bytes of entries that no longer count, from which the file is written anew, if they are more
/// than those that do.
const GARBAGE_MAX: u64 = 1 << 20;

/// What tells whether a block file has changed.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Mark {
    device: u64,
    inode: u64,
    length: u64,
    modified: i128,
    changed: i128,
    key: XorKey,
}

impl Mark {
    fn new(metadata: &Metadata, key: XorKey) -> Self {
        let nanoseconds = |seconds: i64, rest: i64| i128::from(seconds) * 1_000_000_000 + i128::from(rest);
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            length: metadata.len(),
            modified: nanoseconds(metadata.mtime(), metadata.mtime_nsec()),
            changed: nanoseconds(metadata.ctime(), metadata.ctime_nsec()),
            key,
        }
    }

    fn last_change(&self) -> i128 {
        self.modified.max(self.changed)
    }
}

/// A moment by the monotonic clock, which the processes of a machine share until it boots.
#[derive(Debug, Clone, Copy)]
struct Moment {
    boot: u64,
    nanoseconds: u64,
}

impl Moment {
    fn now() -> Self {
        static BOOT: LazyLock<u64> = LazyLock::new(|| {
            let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
            let digits = id.replace('-', "");
            let boot = digits.get(..16).and_then(|digits| u64::from_str_radix(digits, 16).ok());
            // Moments of other processes are not compared where the boot has no name.
            boot.unwrap_or_else(|| RandomState::new().hash_one(std::process::id()))
        });
        let time = clock_gettime(ClockId::Monotonic);
        Self {
            boot: *BOOT,
            nanoseconds: time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64,
        }
    }

    /// The time since an earlier moment, if that is known.
    fn since(&self, earlier: &Self) -> Option<Duration> {
        let nanoseconds = self.nanoseconds.checked_sub(earlier.nanoseconds);
        nanoseconds
            .filter(|_| self.boot == earlier.boot)
            .map(Duration::from_nanos)
    }
}

/// A record of a block file: where a block is in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FoundBlock {
    offset: u64,
    length: u32,
    header: Header,
}

/// A search of a block file, and what it found.
#[derive(Debug, Clone)]
pub(crate) struct FileSearch {
    mark: Mark,
    /// When the file was first seen with this mark.
    since: Moment,
    /// What was read of the records.
    depth: ScanDepth,
    /// Whether the file is to be searched again by the next run: it has damage, or is not settled.
    again: bool,
    /// Whether it is settled. Not in the file, where `again` has it.
    is_settled: bool,
    blocks: Vec<FoundBlock>,
    /// Bytes of its entry.
    bytes: u64,
}

/// How a block file has changed since it was searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    None,
    /// It has changed, or may have.
    Some,
    /// It is another file, or has another key.
    Replaced,
}

/// Begins a search of a block file: says what the file is before it is read.
#[derive(Debug)]
pub(crate) struct Begun {
    path: PathBuf,
    mark: Mark,
    /// After the file was looked at, and before it is read.
    at: Moment,
    /// Whether it is older than another file by [`OLDER_BY`].
    is_old: bool,
}

impl Begun {
    /// Whether nothing has changed the file between two beginnings.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.mark == other.mark
    }
}

/// Notes which files are older than others by [`OLDER_BY`]. Each file system has a clock of its own.
fn note_old(begun: &mut [Begun]) {
    let mut newest: HashMap<u64, i128> = HashMap::new();
    for Begun { mark, .. } in &*begun {
        let newest = newest.entry(mark.device).or_insert(i128::MIN);
        *newest = mark.last_change().max(*newest);
    }
    for Begun { mark, is_old, .. } in begun {
        *is_old = mark.last_change() + OLDER_BY.as_nanos() as i128 <= newest[&mark.device];
    }
}

/// The file.
struct PositionsFile {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    /// None before the first entry of a new file.
    file: Option<Box<dyn DiskFile>>,
    end: u64,
}

/// How whole the file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PositionsHealth {
    /// It has this number of entries, each whole.
    Whole(usize),
    /// It has this number of whole entries, and this number of bytes after them, as a kill leaves
    /// them.
    CutOff(usize, u64),
    /// From this offset on it is not what was written. Blocks are not found by what comes after it.
    Damaged(u64),
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
            let file = store.disk.open(&store.path, Open::Keep).map_err(store.error())?;
            let mut bytes = vec![0; file.length().map_err(store.error())? as usize];
            file.read_exact_at(&mut bytes, 0).map_err(store.error())?;
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

    /// Looks the file at `path` over. None where there is no such file.
    ///
    /// # Errors
    /// [`FileError`] if the file is there and cannot be read.
    pub fn health(path: &Path) -> Result<Option<PositionsHealth>, FileError> {
        let Some(bytes) = read_regular(path)? else {
            return Ok(None);
        };
        let Some(mut rest) = bytes.strip_prefix(MAGIC) else {
            let is_cut_off = MAGIC.starts_with(&bytes);
            return Ok(Some(match is_cut_off {
                true => PositionsHealth::CutOff(0, bytes.len() as u64),
                false => PositionsHealth::Damaged(0),
            }));
        };
        let mut searches = 0;
        while read_entry(&mut rest).is_some() {
            searches += 1;
        }
        let health = match rest {
            [] => PositionsHealth::Whole(searches),
            rest if is_cut_off(rest) => PositionsHealth::CutOff(searches, rest.len() as u64),
            rest => PositionsHealth::Damaged((bytes.len() - rest.len()) as u64),
        };
        Ok(Some(health))
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
        let metadata = std::fs::metadata(path).map_err(|error| error_of(path, error))?;
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
            let file = store.disk.open(&store.path, Open::Empty).map_err(store.error())?;
            file.write_all_at(MAGIC, 0).map_err(store.error())?;
            store.file = Some(file);
        }
        if let Some(file) = &store.file {
            // After the last whole entry, over what a kill has left of another.
            file.write_all_at(entries, store.end).map_err(store.error())?;
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
        let file = store.disk.open(&temporary, Open::Empty).map_err(store.error())?;
        // Not synced: entries have checksums, and a block file without one is searched again.
        file.write_all_at(&bytes, 0)
            .and_then(|()| store.disk.rename(&temporary, &store.path))
            .map_err(store.error())?;
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

/// Reads the file of a directory that another process writes to, entry after entry.
#[derive(Default)]
pub struct PositionsReader {
    path: PathBuf,
    /// The file that was read. While it is open, no other one has its inode.
    file: Option<File>,
    /// Where the first entry begins that was not read.
    at: u64,
    recent: FoundPositions,
}

impl PositionsReader {
    /// A reader of the file at `path`, from its first entry on.
    pub fn new(path: PathBuf) -> Self {
        Self {
            path,
            ..Self::default()
        }
    }

    /// Reads the entries appended since. Returns all blocks except those that
    /// [`forget_known`](Self::forget_known) removed.
    ///
    /// # Errors
    /// [`FileError`] if the file is there and cannot be read.
    pub fn read(&mut self) -> Result<&FoundPositions, FileError> {
        let Some(found) = find_regular(&self.path)? else {
            return Ok(&self.recent);
        };
        let path = &self.path;
        let facts = |file: &File| file.metadata().map_err(|error| error_of(path, error));
        let metadata = facts(&found)?;
        let is_same = match &self.file {
            None => false,
            Some(known) => {
                let known = facts(known)?;
                (known.dev(), known.ino()) == (metadata.dev(), metadata.ino()) && known.len() >= self.at
            }
        };
        // A file that was written anew is read from its beginning.
        if !is_same {
            (self.file, self.at) = (Some(found), 0);
        }
        let mut bytes = Vec::new();
        if let Some(file) = &mut self.file {
            let read = file
                .seek(SeekFrom::Start(self.at))
                .and_then(|_| file.read_to_end(&mut bytes));
            read.map_err(|error| error_of(path, error))?;
        }
        // The last entry may be in the middle of being written. A file of another format says
        // nothing.
        self.at += match self.at {
            0 => self.recent.decode(&bytes).unwrap_or(0),
            _ => self.recent.decode_entries(&bytes),
        };
        Ok(&self.recent)
    }

    /// Forgets blocks whose positions the caller has taken over.
    pub fn forget_known(&mut self, is_known: impl Fn(&BlockHash) -> bool) {
        self.recent.searches.retain(|_, search| {
            search.blocks.retain(|block| !is_known(&block.header.hash()));
            !search.blocks.is_empty()
        });
    }
}

impl PositionsFile {
    fn error(&self) -> impl FnOnce(std::io::Error) -> FileError {
        let path = self.path.clone();
        move |error| error_of(&path, error)
    }
}

impl FileSearch {
    /// The key that the file was read with.
    pub(crate) fn key(&self) -> XorKey {
        self.mark.key
    }

    /// The records of the file, which has this number.
    pub(crate) fn records(&self, file: u32) -> impl Iterator<Item = Record> {
        self.blocks.iter().map(move |block| Record {
            position: Position {
                file,
                length: block.length,
                offset: block.offset,
            },
            header: block.header,
            hash: block.header.hash(),
        })
    }
}

fn error_of(path: &Path, error: std::io::Error) -> FileError {
    FileError::Io {
        path: path.to_owned(),
        error,
    }
}

fn write_entry(path: &Path, search: &FileSearch, out: &mut Vec<u8>) {
    let (path, mark) = (path.as_os_str().as_bytes(), &search.mark);
    let length = FIXED + path.len() + RECORD * search.blocks.len();
    out.reserve(8 + length);
    out.extend((length as u32).to_le_bytes());
    let checksum_at = out.len();
    // The checksum, once the body is there.
    out.extend([0; 4]);
    for number in [mark.device, mark.inode, mark.length] {
        out.extend(number.to_le_bytes());
    }
    out.extend(mark.modified.to_le_bytes());
    out.extend(mark.changed.to_le_bytes());
    out.extend(mark.key.bytes());
    out.extend(search.since.boot.to_le_bytes());
    out.extend(search.since.nanoseconds.to_le_bytes());
    out.push(match (search.depth, search.again) {
        (ScanDepth::Lengths, true) => 0,
        (ScanDepth::Lengths, false) => 1,
        (ScanDepth::Contents, false) => 2,
        (ScanDepth::Contents, true) => 3,
    });
    out.extend((path.len() as u32).to_le_bytes());
    out.extend(path);
    for block in &search.blocks {
        out.extend(block.offset.to_le_bytes());
        out.extend(block.length.to_le_bytes());
        out.extend(block.header.to_bytes());
    }
    let checksum = crc32fast::hash(&out[checksum_at + 4..]);
    out[checksum_at..checksum_at + 4].copy_from_slice(&checksum.to_le_bytes());
}

/// Reads the entry that `rest` begins with, and takes it away. None, if there is no whole one.
fn read_entry(rest: &mut &[u8]) -> Option<(PathBuf, FileSearch)> {
    let mut after = *rest;
    let length = u32::from_le_bytes(take(&mut after)?) as usize;
    let checksum = u32::from_le_bytes(take(&mut after)?);
    let (mut body, after) = after.split_at_checked(length)?;
    if crc32fast::hash(body) != checksum {
        return None;
    }
    let mark = Mark {
        device: u64::from_le_bytes(take(&mut body)?),
        inode: u64::from_le_bytes(take(&mut body)?),
        length: u64::from_le_bytes(take(&mut body)?),
        modified: i128::from_le_bytes(take(&mut body)?),
        changed: i128::from_le_bytes(take(&mut body)?),
        key: XorKey::new(take(&mut body)?),
    };
    let since = Moment {
        boot: u64::from_le_bytes(take(&mut body)?),
        nanoseconds: u64::from_le_bytes(take(&mut body)?),
    };
    let [read] = take(&mut body)?;
    let path_length = u32::from_le_bytes(take(&mut body)?) as usize;
    let (path, records) = body.split_at_checked(path_length)?;
    let (records, []) = records.as_chunks::<RECORD>() else {
        return None;
    };
    let block = |mut record: &[u8]| {
        Some(FoundBlock {
            offset: u64::from_le_bytes(take(&mut record)?),
            length: u32::from_le_bytes(take(&mut record)?),
            header: Header::from_bytes(&take(&mut record)?),
        })
    };
    let search = FileSearch {
        mark,
        since,
        depth: match read {
            2 | 3 => ScanDepth::Contents,
            _ => ScanDepth::Lengths,
        },
        // A byte that this version does not know means a search more, not a wrong answer.
        again: !matches!(read, 1 | 2),
        is_settled: matches!(read, 1 | 2),
        blocks: records.iter().map(|record| block(record)).collect::<Option<_>>()?,
        bytes: (8 + length) as u64,
    };
    *rest = after;
    Some((PathBuf::from(OsString::from_vec(path.to_vec())), search))
}

/// Whether an entry that is not whole is longer than what is left of the file.
fn is_cut_off(rest: &[u8]) -> bool {
    let length = rest.first_chunk().map(|&length| u32::from_le_bytes(length) as usize);
    length.is_none_or(|length| length > rest.len().saturating_sub(8))
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*taken)
}

#[cfg(test)]
mod tests;
