//! What an audit leaves in a data directory whose set it has proved.
//!
//! The mark names the store. A store draws its identity when it is made, and keeps it in its files.
//! So a set that was loaded later, or a store that came from elsewhere, is not the one that was
//! proved, whatever its block. The hash of the set tells a store that was changed since.

use crate::error::file_error;
use crate::key::RunId;
use blockmill_block::{BlockHash, hex};
use blockmill_blockfiles::{FileError, NewFile};
use blockmill_coins::{StoreError, UtxoStats};
use blockmill_engine::UtxoSet;
use sha2::{Digest, Sha256};
use std::fmt;
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// The file in the data directory.
const FILE: &str = "audit.txt";

/// The first line of the file.
const HEAD: &str = "blockmill audit 2";

/// Bytes of the file that are read. It has a few hundred.
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
        "{}: the store has no identity that a note could name: nothing was connected yet, or an earlier version \
         made it; connecting a block gives it one",
        path.display()
    )]
    NoIdentity {
        /// The data directory.
        path: PathBuf,
    },
}

/// Names a store: a hash of its identity.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StoreName(pub [u8; 16]);

impl StoreName {
    /// The name of a set's store. None if the store has no identity.
    fn of(set: &UtxoSet) -> Result<Option<Self>, StoreError> {
        Ok(set.store().identity()?.map(|identity| {
            let mut hash = Sha256::new();
            hash.update(b"blockmill audited store");
            hash.update(identity);
            let hash: [u8; 32] = hash.finalize().into();
            let mut name = [0; 16];
            name.copy_from_slice(&hash[..16]);
            Self(name)
        }))
    }

    fn wanted(set: &UtxoSet) -> Result<Self, MarkError> {
        Self::of(set)?.ok_or_else(|| MarkError::NoIdentity {
            path: set.directory().path().to_owned(),
        })
    }
}

impl fmt::Display for StoreName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(&self.0))
    }
}

impl fmt::Debug for StoreName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
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
    /// Height of the block.
    pub height: u32,
    /// The block.
    pub hash: BlockHash,
    /// Coins of the set.
    pub coins: u64,
    /// Its `hash_serialized_3`.
    pub set: BlockHash,
}

impl Mark {
    /// Whether a mark can be left in the directory of a set. An audit needs none: this is for
    /// saying so before hours of work.
    ///
    /// # Errors
    /// [`MarkError`].
    pub fn check(set: &UtxoSet) -> Result<(), MarkError> {
        StoreName::wanted(set)?;
        check_writable(set.directory().path())?;
        Ok(())
    }

    /// Leaves a mark in the directory of a set that has these figures.
    pub(crate) fn leave(set: &UtxoSet, run: RunId, figures: &UtxoStats) -> Result<(), MarkError> {
        let mark = Self {
            run,
            store: StoreName::wanted(set)?,
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
        let Self {
            run,
            store,
            height,
            hash,
            coins,
            set,
        } = self;
        let text = format!(
            "{HEAD}\nrun {run}\nstore {store}\nheight {height}\nhash {hash}\ncoins {coins}\nhash_serialized_3 {set}\n"
        );
        new.write_all(text.as_bytes()).map_err(file_error(&path))?;
        new.complete()?;
        Ok(())
    }

    /// The proof that an audit has left for a set: of its block, or of one before it in its chain,
    /// in the same store. None where there is none.
    pub fn of(set: &UtxoSet) -> Option<Self> {
        let mark = Self::read(&set.directory().path().join(FILE))?;
        if StoreName::of(set).ok()? != Some(mark.store) {
            return None;
        }
        let blocks = set.blocks().ok()?;
        (blocks.hash(mark.height).ok()? == mark.hash).then_some(mark)
    }

    /// Whether a set with these figures can be the one that was proved, or one that came of it.
    pub fn fits(&self, figures: &UtxoStats) -> bool {
        figures.height != self.height || figures.hash_serialized_3 == self.set
    }

    fn read(path: &Path) -> Option<Self> {
        let mut text = String::new();
        let file = std::fs::File::open(path).ok()?;
        file.take(LENGTH_MAX).read_to_string(&mut text).ok()?;
        let mut lines = text.strip_prefix(HEAD)?.strip_prefix('\n')?.lines();
        let mut field = |name: &str| lines.next()?.strip_prefix(name)?.strip_prefix(' ');
        let run = hex::decode(field("run")?).ok()?;
        let store = hex::decode(field("store")?).ok()?;
        Some(Self {
            run: RunId(run.try_into().ok()?),
            store: StoreName(store.try_into().ok()?),
            height: field("height")?.parse().ok()?,
            hash: field("hash")?.parse().ok()?,
            coins: field("coins")?.parse().ok()?,
            set: field("hash_serialized_3")?.parse().ok()?,
        })
    }
}

fn remove(path: &Path) -> Result<(), FileError> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(file_error(path)(error)),
        _ => Ok(()),
    }
}

/// Whether the file can be made in a directory, in place of one that is there.
fn check_writable(directory: &Path) -> Result<(), FileError> {
    NewFile::replacing(&directory.join(FILE)).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(FILE);
        assert_eq!(Mark::read(&path), None);
        let mut mark = Mark {
            run: RunId([7; 16]),
            store: StoreName([8; 16]),
            height: 70,
            hash: BlockHash([9; 32]),
            coins: 700,
            set: BlockHash([10; 32]),
        };
        for _ in 0..2 {
            mark.height += 1;
            mark.write(directory.path()).unwrap();
            assert_eq!(Mark::read(&path), Some(mark));
        }
        let whole = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = whole.split_inclusive('\n').collect();
        for count in 0..lines.len() {
            std::fs::write(&path, lines[..count].concat()).unwrap();
            assert_eq!(Mark::read(&path), None, "{count} lines");
        }
        // The first format named no store.
        for head in ["audit 1", "audit 3", "audit 22"] {
            std::fs::write(&path, whole.replace("audit 2", head)).unwrap();
            assert_eq!(Mark::read(&path), None, "{head}");
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
