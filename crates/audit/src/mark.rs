//! What an audit leaves in a data directory whose set it has proved.
//!
//! The mark names the store and its commit. A store draws its identity when it is made, and keeps
//! it in its files. So a set that was loaded later, or a store that came from elsewhere, is not the
//! one that was proved, whatever its block. Commits are counted: a set of the same block that came
//! of another commit is not the one that was proved, either. The number of coins and their hash,
//! where it was computed, are compared as well.
//!
//! The last line is a checksum of those before it.

use crate::error::AuditError;
use crate::key::{RunId, name, name_of};
use blockmill_block::hash::sha256d;
use blockmill_block::{BlockHash, hex};
use blockmill_blockfiles::{FileError, NewFile, open_regular};
use blockmill_coins::stats::Hashes;
use blockmill_coins::{StoreError, UtxoStats};
use blockmill_datadir::UtxoSet;
use std::cmp::Ordering;
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// The file in the data directory.
const FILE: &str = "audit.txt";

/// The first line of the file.
const HEAD: &str = "blockmill audit 3";

/// What the last line begins with.
const CHECKSUM: &str = "checksum ";

/// Bytes of the checksum.
const CHECKSUM_BYTES: usize = 8;

/// Bytes that are read at most. A mark has far fewer.
const LENGTH_MAX: u64 = 4096;

/// Why no mark is left.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum MarkError {
    /// The file cannot be written, or removed.
    #[error(transparent)]
    File(#[from] FileError),
    /// The store cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The mark could not name the store.
    #[error(
        "{}: the store has no identity that a note could name: nothing was connected yet",
        path.display()
    )]
    NoIdentity {
        /// The data directory.
        path: PathBuf,
    },
}

name! {
    /// Names a store: a hash of its identity.
    StoreName
}

impl StoreName {
    /// The name of a set's store. None if the store has no identity.
    fn of(set: &UtxoSet) -> Result<Option<Self>, StoreError> {
        let identity = set.store().identity()?;
        Ok(identity.map(|identity| Self(name_of(b"blockmill audited store", &identity))))
    }

    fn wanted(set: &UtxoSet) -> Result<Self, MarkError> {
        Self::of(set)?.ok_or_else(|| no_identity(set))
    }
}

/// A proof of a data directory's set: as it was after a block, it was the UTXO set of a chain all
/// of whose blocks are valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// The run that has proved it.
    pub run: RunId,
    /// The store that had the set.
    pub store: StoreName,
    /// The store's commit that led to the set.
    pub commit: u64,
    /// Height of the block.
    pub height: u32,
    /// The block.
    pub hash: BlockHash,
    /// Coins of the set.
    pub coins: u64,
    /// Its `hash_serialized_3`.
    pub set: BlockHash,
}

/// What the file in a data directory says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Noted {
    /// There is none.
    Nothing,
    /// It is not what was written; in words.
    Damaged(String),
    /// It cannot be read, which says nothing about what is in it; in words.
    Unreadable(String),
    /// A proof, of some store.
    Proof(Mark),
}

impl Noted {
    /// Reads the file of a data directory.
    pub fn read(directory: &Path) -> Self {
        let mut bytes = Vec::new();
        let path = directory.join(FILE);
        let read = open_regular(&path).and_then(|file| {
            let read = file.take(LENGTH_MAX).read_to_end(&mut bytes);
            read.map_err(FileError::io(&path))
        });
        match read {
            Ok(_) => Self::decode(&bytes),
            Err(FileError::Io { error, .. }) if error.kind() == ErrorKind::NotFound => Self::Nothing,
            // A folder or a pipe of this name is none.
            Err(FileError::NotRegular { .. }) => Self::Nothing,
            Err(error) => Self::Unreadable(error.to_string()),
        }
    }

    fn decode(bytes: &[u8]) -> Self {
        let Ok(text) = str::from_utf8(bytes) else {
            return Self::damaged();
        };
        match text.lines().next() {
            Some(HEAD) => Mark::decode(text).map_or_else(Self::damaged, Self::Proof),
            _ => Self::Damaged(format!("its first line is not {HEAD:?}")),
        }
    }

    fn damaged() -> Self {
        Self::Damaged("its checksum is not that of what stands in it".to_owned())
    }
}

/// The last line for a text.
fn checksum_line(text: &str) -> String {
    let checksum = hex::encode(&sha256d(text.as_bytes())[..CHECKSUM_BYTES]);
    format!("{CHECKSUM}{checksum}\n")
}

impl Mark {
    /// Name of the file in a data directory.
    pub const FILE: &str = FILE;

    /// Whether a mark can be left in the directory of a set. An audit needs none: this is for
    /// saying so before hours of work.
    ///
    /// # Errors
    /// [`MarkError`].
    pub fn check(set: &UtxoSet) -> Result<(), MarkError> {
        StoreName::wanted(set)?;
        commit_of(set)?;
        check_writable(set.directory().path())?;
        Ok(())
    }

    /// Leaves a mark in the directory of a set that has these figures.
    pub(crate) fn leave(set: &UtxoSet, run: RunId, figures: &UtxoStats) -> Result<(), MarkError> {
        let mark = Self {
            run,
            store: StoreName::wanted(set)?,
            commit: commit_of(set)?,
            height: figures.height,
            hash: figures.best_block,
            coins: figures.txouts,
            set: figures.hash_serialized_3,
        };
        Ok(mark.write(set.directory().path())?)
    }

    /// Removes the mark in the directory of a set, if there is one.
    pub(crate) fn remove(set: &UtxoSet) -> Result<(), MarkError> {
        Ok(remove(&set.directory().path().join(FILE))?)
    }

    fn write(&self, directory: &Path) -> Result<(), FileError> {
        let path = directory.join(FILE);
        let mut new = NewFile::replacing(&path)?;
        new.write_all(self.encode().as_bytes()).map_err(FileError::io(&path))?;
        new.complete()?;
        Ok(())
    }

    fn encode(&self) -> String {
        let Self {
            run,
            store,
            commit,
            height,
            hash,
            coins,
            set,
        } = self;
        let text = format!(
            "{HEAD}\nrun {run}\nstore {store}\ncommit {commit}\nheight {height}\nhash {hash}\ncoins {coins}\n\
             hash_serialized_3 {set}\n"
        );
        let checksum = checksum_line(&text);
        text + &checksum
    }

    /// Whether the mark is a proof for a set: of its block, or of one before it in its chain, in
    /// the same store. `figures` are the set's; of its hashes, those in `hashes` are known. The
    /// answer does not depend on which these are, unless the store is damaged.
    ///
    /// # Errors
    /// [`AuditError::Store`] or [`AuditError::Open`], where the store or the headers of the chain
    /// cannot be read.
    pub fn is_of(&self, set: &UtxoSet, figures: &UtxoStats, hashes: Hashes) -> Result<bool, AuditError> {
        let has_figures = match figures.height.cmp(&self.height) {
            Ordering::Less => false,
            Ordering::Greater => true,
            Ordering::Equal => {
                let has_hash = !hashes.has_serialized() || figures.hash_serialized_3 == self.set;
                figures.best_block == self.hash && figures.txouts == self.coins && has_hash
            }
        };
        if !has_figures || !self.is_of_store(set)? {
            return Ok(false);
        }
        // At its own height the block was compared.
        Ok(figures.height == self.height || set.blocks()?.hash(self.height).ok() == Some(self.hash))
    }

    /// Whether a store is the one that had the set, at the same commit or a later one. A store that
    /// has gone on has added blocks to the set that was proved; at the same height it has another
    /// set.
    fn is_of_store(&self, set: &UtxoSet) -> Result<bool, AuditError> {
        if StoreName::of(set)? != Some(self.store) {
            return Ok(false);
        }
        let Some(commit) = set.store().last_commit()? else {
            return Ok(false);
        };
        let is_same = commit.number == self.commit;
        let is_at = commit.tip.is_some_and(|tip| tip.height == self.height);
        Ok(is_same == is_at && (!is_same || commit.coins == self.coins))
    }

    /// Every byte must be what [`encode`](Self::encode) writes.
    fn decode(text: &str) -> Option<Self> {
        let mut lines = text.strip_prefix(HEAD)?.strip_prefix('\n')?.lines();
        let mut field = |name: &str| lines.next()?.strip_prefix(name)?.strip_prefix(' ');
        let run = hex::decode(field("run")?).ok()?;
        let store = hex::decode(field("store")?).ok()?;
        let mark = Self {
            run: RunId(run.try_into().ok()?),
            store: StoreName(store.try_into().ok()?),
            commit: field("commit")?.parse().ok()?,
            height: field("height")?.parse().ok()?,
            hash: field("hash")?.parse().ok()?,
            coins: field("coins")?.parse().ok()?,
            set: field("hash_serialized_3")?.parse().ok()?,
        };
        (mark.encode() == text).then_some(mark)
    }
}

/// The commit that a set's store is at.
fn commit_of(set: &UtxoSet) -> Result<u64, MarkError> {
    let commit = set.store().last_commit()?;
    commit.map(|commit| commit.number).ok_or_else(|| no_identity(set))
}

fn no_identity(set: &UtxoSet) -> MarkError {
    MarkError::NoIdentity {
        path: set.directory().path().to_owned(),
    }
}

fn remove(path: &Path) -> Result<(), FileError> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(FileError::io(path)(error)),
        _ => Ok(()),
    }
}

/// Whether the file can be made in a directory, instead of one that is there.
fn check_writable(directory: &Path) -> Result<(), FileError> {
    NewFile::replacing(&directory.join(FILE)).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark() -> Mark {
        Mark {
            run: RunId([7; 16]),
            store: StoreName([8; 16]),
            commit: 12,
            height: 70,
            hash: BlockHash([9; 32]),
            coins: 700,
            set: BlockHash([10; 32]),
        }
    }

    #[test]
    fn what_was_written_is_read() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(Noted::read(directory.path()), Noted::Nothing);
        let mut mark = mark();
        for _ in 0..2 {
            mark.height += 1;
            mark.write(directory.path()).unwrap();
            assert_eq!(Noted::read(directory.path()), Noted::Proof(mark));
        }
    }

    #[test]
    fn every_changed_byte_is_seen() {
        let whole = mark().encode();
        for at in 0..whole.len() {
            for byte in 0..=255 {
                let mut changed = whole.clone().into_bytes();
                changed[at] = byte;
                let is_damaged = matches!(Noted::decode(&changed), Noted::Damaged(_));
                assert_eq!(is_damaged, changed != whole.as_bytes(), "{byte:#04x} at {at}");
            }
            let cut = Noted::decode(&whole.as_bytes()[..at]);
            assert!(matches!(cut, Noted::Damaged(_)), "cut at {at}: {cut:?}");
        }
        let longer = Noted::decode((whole + "\n").as_bytes());
        assert!(matches!(longer, Noted::Damaged(_)), "{longer:?}");
    }

    #[test]
    fn marks_of_other_versions_are_refused_by_name() {
        for text in [
            "blockmill audit 2\nrun 00\nstore 00\nheight 7\n",
            "blockmill audit 4\nrun 00\n",
        ] {
            let Noted::Damaged(problem) = Noted::decode(text.as_bytes()) else {
                panic!("{text}")
            };
            assert!(problem.contains("first line"), "{problem}");
        }
    }

    #[test]
    fn a_trial_leaves_nothing() {
        let directory = tempfile::tempdir().unwrap();
        check_writable(directory.path()).unwrap();
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
        std::fs::create_dir(directory.path().join(FILE)).unwrap();
        let error = check_writable(directory.path()).unwrap_err();
        assert!(error.to_string().contains(FILE), "{error}");
        assert!(check_writable(&directory.path().join("missing")).is_err());
    }
}
