//! How far a data directory is: at once, whatever the size of its set.
//!
//! The mark of the last commit has the tip and the number of coins. The log is asked whether it
//! ends with that commit, or with a later one, which takes a page or two. Only where it has
//! neither, or where there is no mark, the store is opened.

use crate::datadir::commit_mark::Mark;
use crate::datadir::error::{OpenError, file_error};
use crate::datadir::holder::{Holder, Writer};
use crate::datadir::store_file::{open_to_read, store_to_read};
use crate::datadir::utxo_set::{Reach, limits, open};
use crate::datadir::{ChainId, DataDir, SnapshotMark, StoreKind};
use crate::report::events::Older;
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
    /// Coins of the set.
    pub coins: u64,
    /// The kind of its store; none where there is no store yet.
    pub store: Option<StoreKind>,
    /// Bytes of the store on disk.
    pub disk_bytes: u64,
    /// The base of a snapshot that was loaded.
    pub snapshot: Option<SnapshotMark>,
    /// What the set lacks of the one that was written last.
    pub older: Option<Older>,
    /// The process that writes to the directory at this moment.
    pub writer: Option<Writer>,
    /// Whether that is known: the lock may be a file that this process may not read.
    pub is_writer_known: bool,
}

impl Status {
    /// That of the data directory at `path`, as its last flush left it.
    ///
    /// # Errors
    /// As [`UtxoSet::open_with`](crate::UtxoSet::open_with). What only reading the set would show
    /// is not seen.
    pub fn of(path: &Path, reach: Reach) -> Result<Self, OpenError> {
        let opened = match open(path, reach, find) {
            Err(OpenError::Locked {
                path,
                holder: Holder::WriterOfRedb(writer),
            }) => return Self::beside_writer_of_redb(&path, writer),
            opened => opened?,
        };
        let found = opened.found;
        Self::new(
            &opened.directory,
            found.kind,
            found.commit,
            opened.older,
            DataDir::writer,
        )
    }

    /// What the mark says, since redb is not read while it is written.
    fn beside_writer_of_redb(path: &Path, writer: Writer) -> Result<Self, OpenError> {
        let directory = DataDir::open_to_look(path)?;
        let Some(commit) = directory.commit_mark()?.commit() else {
            let (path, holder) = (path.to_owned(), Holder::WriterOfRedb(writer));
            return Err(OpenError::Locked { path, holder });
        };
        let kind = Some(StoreKind::Redb);
        Self::new(&directory, kind, Some(commit), None, |_| Ok(Some(writer)))
    }

    fn new(
        directory: &DataDir,
        store: Option<StoreKind>,
        commit: Option<LastCommit>,
        older: Option<Older>,
        writer: impl FnOnce(&DataDir) -> Result<Option<Writer>, OpenError>,
    ) -> Result<Self, OpenError> {
        let tip = commit.and_then(|commit| commit.tip);
        let writer = if_readable(writer(directory))?;
        Ok(Self {
            chain_id: directory.chain_id().clone(),
            tip: tip.unwrap_or_else(|| directory.genesis()),
            coins: commit.map_or(0, |commit| commit.coins),
            store,
            disk_bytes: disk_bytes(directory)?,
            // A load that was cut off has left its mark without a set.
            snapshot: directory.snapshot().filter(|_| tip.is_some()),
            older,
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

/// A store, and the commit that it is at.
struct Found {
    kind: Option<StoreKind>,
    commit: Option<LastCommit>,
}

/// The last commit of the store of a directory.
fn find(directory: &DataDir, mark: Mark) -> Result<(Found, Option<LastCommit>), OpenError> {
    let Some((kind, name)) = store_to_read(directory)? else {
        return Ok((
            Found {
                kind: None,
                commit: None,
            },
            None,
        ));
    };
    let (path, network) = (directory.file(name), directory.chain_id().text());
    let commit = match kind {
        StoreKind::Log => {
            let at_once = match mark.commit() {
                Some(synced) => blockmill_store_log::last_commit(&path, Some(&network), &synced)?,
                None => None,
            };
            match at_once {
                Some(commit) => Some(commit),
                None => Some(Lookup::open(&path, Some(&network))?.last_commit()),
            }
        }
        StoreKind::Redb => open_to_read(kind, &path, &network, limits(1))?.last_commit()?,
    };
    let kind = Some(kind);
    Ok((Found { kind, commit }, commit))
}

/// Bytes of the files of the store.
fn disk_bytes(directory: &DataDir) -> Result<u64, OpenError> {
    let Some((_, name)) = store_to_read(directory)? else {
        return Ok(0);
    };
    let path = directory.file(name);
    let failed = |error: io::Error| -> FileError { file_error(&path)(error) };
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
