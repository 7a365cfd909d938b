//! How far a data directory is: at once, whatever the size of its set.
//!
//! The mark of the last commit has the tip and the number of coins. The log is asked whether it
//! ends with that commit, or with a later one, which takes a page or two. Only where it has
//! neither, or where there is no mark, the store is opened.

use crate::chain_blocks::header_of;
use crate::commit_mark::Mark;
use crate::error::OpenError;
use crate::store_file::store_to_read;
use crate::utxo_set::open;
use crate::writer::Writer;
use crate::{ChainId, DataDir, SnapshotMark};
use blockmill_blockfiles::FileError;
use blockmill_coins::{LastCommit, Tip};
use blockmill_store_log::Lookup;
use std::io;
use std::path::Path;

/// How far a data directory is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// What it belongs to.
    pub chain_id: ChainId,
    /// The tip of its set; the genesis block where nothing was connected.
    pub tip: Tip,
    /// The time in the header of the tip, in seconds since 1970.
    pub tip_time: u32,
    /// Coins of the set.
    pub coins: u64,
    /// Whether it has a store yet.
    pub has_store: bool,
    /// Bytes of the store on disk.
    pub disk_bytes: u64,
    /// The base of a snapshot that was loaded.
    pub snapshot: Option<SnapshotMark>,
    /// The process that writes to the directory at this moment.
    pub writer: Option<Writer>,
    /// Whether that is known: the lock may be a file that this process may not read.
    pub is_writer_known: bool,
}

impl Status {
    /// That of a directory that is yet to be made.
    pub fn of_new(chain_id: ChainId) -> Self {
        let genesis = chain_id.params().genesis;
        Self {
            chain_id,
            tip: Tip {
                hash: genesis.hash(),
                height: 0,
            },
            tip_time: genesis.time,
            coins: 0,
            has_store: false,
            disk_bytes: 0,
            snapshot: None,
            writer: None,
            is_writer_known: true,
        }
    }

    /// That of the data directory at `path`, as its last flush left it.
    ///
    /// # Errors
    /// As [`UtxoSet::open`](crate::UtxoSet::open). What only reading the set would show
    /// is not seen.
    pub fn of(path: &Path) -> Result<Self, OpenError> {
        let (directory, commit) = open(path, find_commit)?;
        let tip = commit.and_then(|commit| commit.tip);
        let tip_time = match &tip {
            Some(tip) if tip.height > 0 => header_of(&directory, tip)?.time,
            _ => directory.chain_id().params().genesis.time,
        };
        let writer = if_readable(directory.writer())?;
        Ok(Self {
            chain_id: directory.chain_id().clone(),
            tip: tip.unwrap_or_else(|| directory.genesis()),
            tip_time,
            coins: commit.map_or(0, |commit| commit.coins),
            has_store: commit.is_some(),
            disk_bytes: disk_bytes(&directory)?,
            // A load that was cut off has left its mark without a set.
            snapshot: directory.snapshot().filter(|_| tip.is_some()),
            is_writer_known: writer.is_some(),
            writer: writer.flatten(),
        })
    }
}

/// None where the file may not be read, which no reader of the log needs.
pub(crate) fn if_readable<T>(read: Result<T, OpenError>) -> Result<Option<T>, OpenError> {
    match read {
        Err(OpenError::File(FileError::Io { error, .. })) if error.kind() == io::ErrorKind::PermissionDenied => {
            Ok(None)
        }
        read => read.map(Some),
    }
}

/// The last commit of the store of a directory, twice; none where there is no store yet.
pub(crate) fn find_commit(
    directory: &DataDir,
    mark: Mark,
) -> Result<(Option<LastCommit>, Option<LastCommit>), OpenError> {
    let Some(name) = store_to_read(directory)? else {
        return Ok((None, None));
    };
    let (path, network) = (directory.file(name), directory.chain_id().text());
    let at_once = match mark.commit() {
        Some(synced) => blockmill_store_log::last_commit(&path, Some(&network), &synced)?,
        None => None,
    };
    let commit = match at_once {
        Some(commit) => commit,
        None => Lookup::open(&path, Some(&network))?.last_commit(),
    };
    Ok((Some(commit), Some(commit)))
}

/// Bytes of the files of the store.
fn disk_bytes(directory: &DataDir) -> Result<u64, OpenError> {
    let Some(name) = store_to_read(directory)? else {
        return Ok(0);
    };
    let path = directory.file(name);
    let failed = |error: io::Error| -> FileError { FileError::io(&path)(error) };
    let metadata = std::fs::metadata(&path).map_err(failed)?;
    if !metadata.is_dir() {
        return Ok(metadata.len());
    }
    let mut bytes = 0;
    for entry in std::fs::read_dir(&path).map_err(failed)? {
        // A writer may remove a file meanwhile.
        bytes += entry.map_err(failed)?.metadata().map_or(0, |metadata| metadata.len());
    }
    Ok(bytes)
}
