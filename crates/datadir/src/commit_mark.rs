//! `commit.dat`: which commit of the store was synced last.
//!
//! The log finds its last whole frame by itself. A damaged or lost end of the log looks like a
//! frame that was never finished, so the log alone would answer from an older commit. The mark
//! tells the two apart.
//!
//! # Protocol
//!
//! A writer writes the mark after the store's commit is synced, and syncs the mark, too.
//!
//! | the store is | means |
//! |---|---|
//! | at the commit of the mark | all is well |
//! | at a later one | the process was stopped after the commit and before the mark; all is well |
//! | at an earlier one | what was synced is not there: the end of the store is damaged or lost |
//! | another one | the mark says nothing: it is of a store that is gone |
//!
//! A kill keeps all writes, and a power cut all synced ones. The commit is synced before the mark
//! is written, so neither leaves a mark that is ahead of its store. A copy of the directory may, if
//! it was made while a writer ran, and has the store before the mark: such a copy lacks commits,
//! too.
//!
//! Commits are compared by their numbers. Heights would not do: a reorganisation may lead to a
//! lower one. A snapshot is loaded into a new store, which has a random name of its own.
//!
//! A reader reads the mark before it opens the store. What a writer commits meanwhile can only make
//! the store later than the mark.
//!
//! A writer that finds an earlier commit says so and goes on from there. The mark stays: until the
//! writer has a block to commit, readers go on to say so. Right before its first commit the writer
//! sets the mark back to the commit that it began with. From there on numbers are given again, so a
//! kill must not leave the old mark. If that commit fails, the writer puts the old mark back.
//!
//! # Format
//!
//! Two slots, 4,096 bytes apart, are written in turn; the one with the larger serial number counts.
//! A slot that a power cut has torn has a wrong checksum, and the other is older: that is allowed.
//! For the same reason no damage in this file changes an answer. If no slot is whole, there is no
//! mark, as in a directory in which nothing was committed yet.
//!
//! All numbers are little endian.
//!
//! | bytes of a slot | |
//! |---|---|
//! | 8 | `BMCOMIT1` |
//! | 8 | serial number |
//! | 16, 8, 8, 8 | of the commit: store, number, end, coins |
//! | 4, 32 | height and hash of the tip |
//! | 8 | of the double SHA-256 of all that |

use blockmill_block::BlockHash;
use blockmill_block::hash::sha256d;
use blockmill_block::reader::Reader;
use blockmill_blockfiles::disk::{Disk, DiskFile, Open};
use blockmill_blockfiles::{FileError, find_regular, read_regular};
use blockmill_chain::report::events::Older;
use blockmill_coins::{LastCommit, Tip};
use std::fs::File;
use std::io::{ErrorKind, Read, Seek};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The first bytes of a slot, with the version of the format.
const MAGIC: &[u8; 8] = b"BMCOMIT1";

/// Bytes from one slot to the next: a disk may lose all of what it writes together.
const SLOT: usize = 4096;

/// Number of slots.
const SLOTS: usize = 2;

/// Bytes of a slot before its checksum.
const BODY: usize = 8 + 8 + 16 + 8 + 8 + 8 + 4 + 32;

/// Bytes of the checksum.
const CHECKSUM: usize = 8;

fn encode(serial: u64, commit: &LastCommit) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend(serial.to_le_bytes());
    bytes.extend(commit.store);
    for number in [commit.number, commit.end, commit.coins] {
        bytes.extend(number.to_le_bytes());
    }
    // Before the first commit, whose number is 1, there is no tip.
    let (height, hash) = commit.tip.map_or((0, BlockHash::ZERO), |tip| (tip.height, tip.hash));
    bytes.extend(height.to_le_bytes());
    bytes.extend(hash.0);
    let checksum = sha256d(&bytes);
    bytes.extend(&checksum[..CHECKSUM]);
    bytes
}

/// The serial number and the commit of a slot. None if it is not what was written.
fn decode(slot: &[u8]) -> Option<(u64, LastCommit)> {
    let (body, rest) = slot.split_at_checked(BODY)?;
    (rest.get(..CHECKSUM)? == &sha256d(body)[..CHECKSUM]).then_some(())?;
    let mut reader = Reader::new(body.strip_prefix(MAGIC)?);
    let serial = u64::from_le_bytes(reader.array().ok()?);
    let store = reader.array().ok()?;
    let mut number = || reader.array().ok().map(u64::from_le_bytes);
    let (number, end, coins) = (number()?, number()?, number()?);
    let height = reader.u32().ok()?;
    let hash = BlockHash(reader.array().ok()?);
    let commit = LastCommit {
        store,
        number,
        end,
        tip: (number > 0).then_some(Tip { hash, height }),
        coins,
    };
    Some((serial, commit))
}

/// What a file says: the slot that counts, its serial number, its commit.
fn newest(bytes: &[u8]) -> Option<(usize, u64, LastCommit)> {
    let slots = bytes.chunks(SLOT).take(SLOTS).enumerate();
    let whole = slots.filter_map(|(slot, bytes)| decode(bytes).map(|(serial, commit)| (slot, serial, commit)));
    whole.max_by_key(|&(_, serial, _)| serial)
}

/// What a data directory's mark says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    /// There is none.
    None,
    /// The file is there, and no slot of it is whole.
    Damaged,
    /// This commit was synced.
    At(LastCommit),
}

impl Mark {
    /// Reads the file.
    pub(crate) fn read(path: &Path) -> Result<Self, FileError> {
        MarkReader::new(path.to_owned()).read()
    }

    /// The commit that was synced, where the mark names one.
    pub(crate) fn commit(self) -> Option<LastCommit> {
        match self {
            Self::At(commit) => Some(commit),
            Self::None | Self::Damaged => None,
        }
    }

    /// What is missing of a store that is at `found`; none if it is as late as it should be.
    /// `genesis` is the tip of a set without coins.
    pub(crate) fn older(self, found: &LastCommit, genesis: Tip) -> Option<Older> {
        let synced = self.commit().filter(|synced| is_ahead(synced, found))?;
        Some(Older {
            found: found.tip.unwrap_or(genesis),
            synced: synced.tip.unwrap_or(genesis),
        })
    }
}

/// The file, which a reader looks at again and again, and keeps open: who watches it hears of
/// writers alone.
pub(crate) struct MarkReader {
    path: PathBuf,
    file: Option<File>,
}

impl MarkReader {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, file: None }
    }

    /// What the file says that has the name now.
    pub(crate) fn read(&mut self) -> Result<Mark, FileError> {
        if !self.has_name()? {
            self.file = find_regular(&self.path)?;
        }
        let Some(file) = &mut self.file else {
            return Ok(Mark::None);
        };
        let mut bytes = Vec::new();
        let read = file
            .rewind()
            .and_then(|()| file.take((SLOTS * SLOT) as u64).read_to_end(&mut bytes));
        read.map_err(FileError::io(&self.path))?;
        let found = newest(&bytes);
        Ok(found.map_or(Mark::Damaged, |(_, _, commit)| Mark::At(commit)))
    }

    /// Whether the file that is open has the name still.
    fn has_name(&self) -> Result<bool, FileError> {
        let Some(file) = &self.file else {
            return Ok(false);
        };
        let open = file.metadata().map_err(FileError::io(&self.path))?;
        let named = match std::fs::metadata(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            named => named.map_err(FileError::io(&self.path))?,
        };
        Ok((open.dev(), open.ino()) == (named.dev(), named.ino()))
    }
}

/// Whether a mark is of a later commit than the one that its store is at.
fn is_ahead(synced: &LastCommit, found: &LastCommit) -> bool {
    synced.store == found.store && synced.number > found.number
}

/// The file, which a writer keeps open.
pub(crate) struct MarkFile {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    file: Option<Box<dyn DiskFile>>,
    has_name: bool,
    /// The slot that is written next, and the serial number before.
    slot: usize,
    serial: u64,
    /// What it says.
    commit: Option<LastCommit>,
}

impl MarkFile {
    /// Reads the file, if there is one.
    pub(crate) fn open(disk: Arc<dyn Disk>, path: PathBuf) -> Result<Self, FileError> {
        let bytes = read_regular(&path)?;
        let found = bytes.as_deref().and_then(newest);
        // Without a mark the first slot is written first.
        let (last, serial, commit) = found.map_or((SLOTS - 1, 0, None), |(slot, serial, commit)| {
            (slot, serial, Some(commit))
        });
        Ok(Self {
            disk,
            path,
            file: None,
            has_name: bytes.is_some(),
            // Never the slot that counts: a write may be torn.
            slot: (last + 1) % SLOTS,
            serial,
            commit,
        })
    }

    /// The commit that it names, if that is a later one of this store.
    pub(crate) fn ahead_of(&self, found: &LastCommit) -> Option<LastCommit> {
        self.commit.filter(|synced| is_ahead(synced, found))
    }

    /// Whether it names this commit.
    pub(crate) fn is_at(&self, found: &LastCommit) -> bool {
        self.commit == Some(*found)
    }

    /// Names a commit that was synced, durably. After an error the file still says what it said, or
    /// this.
    pub(crate) fn write(&mut self, commit: &LastCommit) -> Result<(), FileError> {
        let serial = self.serial + 1;
        self.put(&encode(serial, commit)).map_err(FileError::io(&self.path))?;
        self.slot = (self.slot + 1) % SLOTS;
        self.serial = serial;
        self.commit = Some(*commit);
        Ok(())
    }

    fn put(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        let file = match &self.file {
            Some(file) => file,
            None => self.file.insert(self.disk.open(&self.path, Open::Keep)?),
        };
        file.write_all_at(bytes, (self.slot * SLOT) as u64)?;
        file.sync_data()?;
        if !self.has_name {
            self.disk.sync_name(&self.path)?;
            self.has_name = true;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use blockmill_blockfiles::disk::SystemDisk;

    fn commit(number: u64) -> LastCommit {
        LastCommit {
            store: [7; 16],
            number,
            end: number << 32 | 5,
            tip: (number > 0).then_some(Tip {
                hash: BlockHash([number as u8; 32]),
                height: 100 + number as u32,
            }),
            coins: 1000 * number,
        }
    }

    #[test]
    fn the_last_mark_counts_also_after_it_was_set_back() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("commit.dat");
        assert_eq!(Mark::read(&path).unwrap(), Mark::None);
        let open = || MarkFile::open(Arc::new(SystemDisk), path.clone()).unwrap();
        let mut file = open();
        let mut reader = MarkReader::new(path.clone());
        for (number, reopened) in [
            (1, false),
            (2, false),
            (9, true),
            (10, false),
            (3, true),
            (0, false),
            (1, true),
        ] {
            if reopened {
                file = open();
            }
            file.write(&commit(number)).unwrap();
            assert_eq!(Mark::read(&path).unwrap(), Mark::At(commit(number)));
            assert_eq!(reader.read().unwrap(), Mark::At(commit(number)));
            assert!(file.is_at(&commit(number)) && open().is_at(&commit(number)));
        }
    }

    /// The directory may be made anew beside a reader.
    #[test]
    fn a_reader_finds_the_file_that_has_the_name() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("commit.dat");
        let mut reader = MarkReader::new(path.clone());
        for number in 1..4 {
            assert_eq!(reader.read().unwrap(), Mark::None);
            let mut file = MarkFile::open(Arc::new(SystemDisk), path.clone()).unwrap();
            file.write(&commit(number)).unwrap();
            assert_eq!(reader.read().unwrap(), Mark::At(commit(number)));
            std::fs::remove_file(&path).unwrap();
        }
    }

    /// Also where the serial number would be another, larger one.
    #[test]
    fn a_damaged_slot_leaves_the_one_before() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("commit.dat");
        let mut file = MarkFile::open(Arc::new(SystemDisk), path.clone()).unwrap();
        file.write(&commit(4)).unwrap();
        let one = std::fs::read(&path).unwrap();
        file.write(&commit(5)).unwrap();
        let two = std::fs::read(&path).unwrap();
        assert_eq!((one.len(), two.len()), (BODY + CHECKSUM, SLOT + BODY + CHECKSUM));
        for bit in (0..two.len() * 8).filter(|bit| !(one.len()..SLOT).contains(&(bit / 8))) {
            let mut bytes = two.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            std::fs::write(&path, bytes).unwrap();
            let left = if bit / 8 < SLOT { 5 } else { 4 };
            assert_eq!(Mark::read(&path).unwrap(), Mark::At(commit(left)), "bit {bit}");
        }
        for length in 0..one.len() {
            std::fs::write(&path, &one[..length]).unwrap();
            assert_eq!(Mark::read(&path).unwrap(), Mark::Damaged, "{length} bytes");
        }
    }

    #[test]
    fn only_an_earlier_commit_of_the_same_store_is_older() {
        let genesis = Tip {
            hash: BlockHash::ZERO,
            height: 0,
        };
        let mark = Mark::At(commit(5));
        let older = mark.older(&commit(4), genesis).unwrap();
        assert_eq!((older.found.height, older.synced.height), (104, 105));
        assert_eq!(mark.older(&commit(0), genesis).unwrap().found, genesis);
        let other = LastCommit {
            store: [8; 16],
            ..commit(4)
        };
        // A reorganisation may lead to a lower height.
        let lower = LastCommit {
            tip: commit(1).tip,
            ..commit(6)
        };
        for found in [commit(5), commit(6), lower, other] {
            assert_eq!(mark.older(&found, genesis), None, "{found:?}");
        }
        assert_eq!(Mark::None.older(&commit(0), genesis), None);
        assert_eq!(Mark::Damaged.older(&commit(0), genesis), None);
    }
}
