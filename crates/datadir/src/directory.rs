//! A data directory and its lock.

use crate::commit_mark::{Mark, MarkFile};
use crate::error::{OpenError, Remedy};
use crate::files::{
    BLOCKS_FOLDER, COMMIT_FILE, HEADERS_FILE, LOADING_FOLDER, LOCK_FILE, META_FILE, POSITIONS_FILE, STORE_FOLDER,
    UNDO_FILE,
};
use crate::headers_file::came_with_snapshot;
use crate::lock::{self, lock_to_write};
use crate::lost_store::{has_no_coins, has_store_if_not_lost, length, network_of};
use crate::meta::{ChainId, Meta, SnapshotMark, read_meta, remedy, write_meta};
use crate::own_blocks::OWN_FOLDERS;
use crate::writer::Writer;
use blockmill_blockfiles::disk::{Disk, SystemDisk};
use blockmill_blockfiles::{FileError, has_blocks, is_there, sync_appended};
use blockmill_chain::report::events::Older;
use blockmill_coins::{LastCommit, Tip};
use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// An open data directory. Meanwhile no other process can write to it.
#[derive(Debug)]
pub struct DataDir {
    path: PathBuf,
    meta: Meta,
    disk: Arc<dyn Disk>,
    /// Whether this opening has made the folder.
    is_new: bool,
    /// None if it was opened to be read.
    _lock: Option<File>,
}

impl DataDir {
    /// Opens a data directory, or makes one if `wanted` says for what. An existing one must be for
    /// `wanted`, if that is given; a challenge is compared only if one is given.
    ///
    /// # Errors
    /// [`OpenError::Locked`], [`OpenError::WrongNetwork`], [`OpenError::NoDataDirectory`], or the
    /// files' errors.
    pub fn open(path: &Path, wanted: Option<&ChainId>) -> Result<Self, OpenError> {
        Self::open_on(Arc::new(SystemDisk), path, wanted)
    }

    /// As [`DataDir::open`], on a disk of the caller's, which everything in the directory is then
    /// written to.
    ///
    /// # Errors
    /// As for [`DataDir::open`].
    pub fn open_on(disk: Arc<dyn Disk>, path: &Path, wanted: Option<&ChainId>) -> Result<Self, OpenError> {
        let meta_path = path.join(META_FILE);
        let is_new = !is_there(path)?;
        if !is_there(&meta_path)? {
            if wanted.is_none() {
                return Err(without_chain_id(
                    path,
                    OpenError::NoDataDirectory { path: path.to_owned() },
                )?);
            }
            if is_there(&path.join(BLOCKS_FOLDER))? && !has_parts(path)? {
                return Err(OpenError::Foreign { path: path.to_owned() });
            }
            disk.create_directories(path)
                .and_then(|()| disk.sync_name(path))
                .map_err(FileError::io(path))?;
        }
        // Locked before the file is read: another process may be making the directory.
        let lock = lock_to_write(path)?;
        let meta = match (read_meta(&meta_path)?, wanted) {
            (Some(found), Some(wanted)) if found.chain_id.fits(wanted) || !is_unused(path, &found)? => {
                check_fits(path, &found.chain_id, wanted)?;
                found
            }
            (Some(_), Some(wanted)) => {
                // Made for another network, and never used: a mistyped name costs nothing.
                remove_unused_stores(&*disk, path)?;
                let meta = Meta::new(wanted.clone());
                write_meta(&*disk, path, &meta)?;
                meta
            }
            (Some(found), None) => found,
            (None, Some(wanted)) => {
                let meta = Meta::new(new_chain_id(path, wanted)?);
                write_meta(&*disk, path, &meta)?;
                meta
            }
            (None, None) => return Err(OpenError::NoDataDirectory { path: path.to_owned() }),
        };
        Ok(Self {
            path: path.to_owned(),
            meta,
            disk,
            is_new,
            _lock: Some(lock),
        })
    }

    /// Opens a data directory that must be there, to look at it. It need not be writable. Any
    /// number of processes may do so at once, and one may write meanwhile.
    ///
    /// # Errors
    /// [`OpenError::NotThere`], [`OpenError::Damaged`] where the chain id is, or the files' errors.
    pub fn open_to_read(path: &Path) -> Result<Self, OpenError> {
        let not_there = || OpenError::NotThere { path: path.to_owned() };
        if path.is_file() {
            return Err(not_there());
        }
        if !is_there(&path.join(META_FILE))? {
            return Err(without_chain_id(path, not_there())?);
        }
        let meta = read_meta(&path.join(META_FILE))?.ok_or_else(not_there)?;
        Ok(Self::unlocked(path, meta))
    }

    /// Opens a data directory whose chain id is lost, to look at the rest.
    pub(crate) fn open_without_chain_id(path: &Path, chain_id: ChainId) -> Self {
        Self::unlocked(path, Meta::new(chain_id))
    }

    fn unlocked(path: &Path, meta: Meta) -> Self {
        Self {
            path: path.to_owned(),
            meta,
            disk: Arc::new(SystemDisk),
            is_new: false,
            _lock: None,
        }
    }

    /// Reads anew what a directory that was opened to read belongs to.
    pub(crate) fn read_meta_again(&mut self) -> Result<(), OpenError> {
        if let Some(meta) = read_meta(&self.path.join(META_FILE))? {
            self.meta = meta;
        }
        Ok(())
    }

    /// The process that writes to a directory that was opened to read, if one does at this moment.
    ///
    /// # Errors
    /// [`OpenError::File`].
    pub fn writer(&self) -> Result<Option<Writer>, OpenError> {
        lock::writer(&self.path)
    }

    /// Makes durable the names in the directory and its own blocks, as they were found: an earlier
    /// process may have been killed before it synced them.
    pub(crate) fn make_durable(&self) -> Result<(), FileError> {
        let synced = self.disk.sync_directory(&self.path);
        synced.map_err(FileError::io(&self.path))?;
        OWN_FOLDERS
            .iter()
            .try_for_each(|name| sync_appended(&*self.disk, &self.file(name)))
    }

    /// Closes a directory, and removes it if this opening has made its folder and it has no block.
    /// The store must be closed. Returns whether it is gone.
    ///
    /// # Errors
    /// [`OpenError`] where a file cannot be removed.
    pub fn close_unused(self) -> Result<bool, OpenError> {
        if !self.is_new || !is_unused(&self.path, &self.meta)? {
            return Ok(false);
        }
        remove_unused_stores(&*self.disk, &self.path)?;
        for name in [
            POSITIONS_FILE,
            COMMIT_FILE,
            HEADERS_FILE,
            UNDO_FILE,
            META_FILE,
            LOCK_FILE,
        ] {
            let path = self.file(name);
            if is_there(&path)? {
                self.disk.remove(&path).map_err(FileError::io(&path))?;
            }
        }
        if self.disk.is_system() {
            // What another process has put there stays.
            let _ = std::fs::remove_dir(&self.path);
        }
        Ok(true)
    }

    /// What the directory belongs to.
    pub fn chain_id(&self) -> &ChainId {
        &self.meta.chain_id
    }

    /// The block up to which a snapshot has replaced validation, if one was loaded.
    pub fn snapshot(&self) -> Option<SnapshotMark> {
        self.meta.snapshot
    }

    /// Notes, durably, that a snapshot was loaded, or that none was.
    #[doc(hidden)]
    pub fn set_snapshot(&mut self, snapshot: Option<SnapshotMark>) -> Result<(), FileError> {
        let meta = Meta {
            snapshot,
            ..self.meta.clone()
        };
        write_meta(&*self.disk, &self.path, &meta)?;
        self.meta = meta;
        Ok(())
    }

    /// The mark of the last commit of the store. A reader reads it before it opens the store.
    pub(crate) fn commit_mark(&self) -> Result<Mark, FileError> {
        Mark::read(&self.file(COMMIT_FILE))
    }

    /// Marks the last commit of a store that was made elsewhere.
    #[doc(hidden)]
    pub fn mark_commit(&self, commit: &LastCommit) -> Result<(), FileError> {
        MarkFile::open(Arc::clone(&self.disk), self.file(COMMIT_FILE))?.write(commit)
    }

    /// What is missing of the store, which is at `found`, by the mark; none where nothing is.
    pub(crate) fn older(&self, mark: Mark, found: &LastCommit) -> Option<Older> {
        mark.older(found, self.genesis())
    }

    /// The tip of a set without coins.
    pub(crate) fn genesis(&self) -> Tip {
        Tip {
            hash: self.chain_id().params().genesis.hash(),
            height: 0,
        }
    }

    /// Where it lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What everything in the directory is written to.
    pub fn disk(&self) -> &Arc<dyn Disk> {
        &self.disk
    }

    /// Path of the folder of the store, which may be none yet.
    pub fn store_path(&self) -> PathBuf {
        self.file(STORE_FOLDER)
    }

    /// Path of the undo data of connected blocks, which may be none yet.
    pub fn undo_path(&self) -> PathBuf {
        self.file(UNDO_FILE)
    }

    /// Path of a file of the directory.
    #[doc(hidden)]
    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

/// Whether a directory has no block and no coin: none was connected or submitted, and no snapshot
/// loaded. What cannot be looked at may have some.
fn is_unused(path: &Path, meta: &Meta) -> Result<bool, FileError> {
    for name in OWN_FOLDERS {
        if has_blocks(&path.join(name))? {
            return Ok(false);
        }
    }
    for name in [HEADERS_FILE, UNDO_FILE] {
        if length(&path.join(name))? > 0 {
            return Ok(false);
        }
    }
    Ok(meta.snapshot.is_none() && has_no_coins(path))
}

/// Removes the stores of a directory that has no block. They are marked with its network.
fn remove_unused_stores(disk: &dyn Disk, path: &Path) -> Result<(), OpenError> {
    // No mark of a commit is there: a store with one would have coins.
    for name in [STORE_FOLDER, LOADING_FOLDER] {
        let path = path.join(name);
        match std::fs::symlink_metadata(&path) {
            Ok(metadata) if metadata.is_dir() => blockmill_store_log::remove(disk, &path)?,
            Ok(_) => disk.remove(&path).map_err(FileError::io(&path))?,
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(FileError::io(path)(error).into()),
        }
    }
    Ok(())
}

/// Whether a directory has something that only a data directory has.
fn has_parts(path: &Path) -> Result<bool, FileError> {
    for name in [STORE_FOLDER, HEADERS_FILE, UNDO_FILE] {
        let path = path.join(name);
        match std::fs::symlink_metadata(&path) {
            Ok(_) => return Ok(true),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(FileError::io(path)(error)),
        }
    }
    Ok(false)
}

/// `Damaged` where other parts of a data directory exist, else `nothing`.
fn without_chain_id(path: &Path, nothing: OpenError) -> Result<OpenError, FileError> {
    if !has_parts(path)? {
        return Ok(nothing);
    }
    let detail = "it is missing, and the rest of a data directory is there";
    Ok(OpenError::damaged(path.join(META_FILE), detail, remedy(path)))
}

fn check_fits(path: &Path, found: &ChainId, wanted: &ChainId) -> Result<(), OpenError> {
    if found.fits(wanted) {
        return Ok(());
    }
    Err(OpenError::WrongNetwork {
        path: path.to_owned(),
        found: found.text(),
        wanted: wanted.text(),
    })
}

/// The chain id for a directory that has none: the store's, or `wanted` if there is no store.
fn new_chain_id(path: &Path, wanted: &ChainId) -> Result<ChainId, OpenError> {
    has_store_if_not_lost(path)?;
    let Some(found) = network_of(path)? else {
        return Ok(wanted.clone());
    };
    check_fits(path, &found, wanted)?;
    if came_with_snapshot(&path.join(HEADERS_FILE))? {
        let detail = "it is missing, and with it up to which block a snapshot was loaded";
        return Err(OpenError::damaged(path.join(META_FILE), detail, Remedy::NewDirectory));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use blockmill_block::{BlockHash, Network};
    use blockmill_coins::{CoinStore, OwnedChange, Tip};
    use blockmill_store_log::{LogOptions, LogStore};

    fn chain_id(network: Network) -> ChainId {
        ChainId {
            network,
            signet_challenge: None,
        }
    }

    #[test]
    fn the_network_is_kept() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("data");
        assert!(matches!(
            DataDir::open(&path, None),
            Err(OpenError::NoDataDirectory { .. })
        ));
        let made = DataDir::open(&path, Some(&chain_id(Network::Regtest))).unwrap();
        drop(made);
        let opened = DataDir::open(&path, None).unwrap();
        assert_eq!(opened.chain_id().network, Network::Regtest);
        drop(opened);
        // Without a block it may be for another one.
        let other = DataDir::open(&path, Some(&chain_id(Network::Signet))).unwrap();
        assert_eq!(other.chain_id().network, Network::Signet);
        drop(other);
        assert_eq!(DataDir::open(&path, None).unwrap().chain_id().network, Network::Signet);
        drop(DataDir::open(&path, Some(&chain_id(Network::Regtest))).unwrap());
        std::fs::create_dir(path.join(BLOCKS_FOLDER)).unwrap();
        let submitted = Path::new(BLOCKS_FOLDER).join("blk00000.dat");
        for file in [Path::new(HEADERS_FILE), Path::new(UNDO_FILE), &submitted] {
            let file = path.join(file);
            std::fs::write(&file, [7]).unwrap();
            let error = DataDir::open(&path, Some(&chain_id(Network::Bitcoin))).unwrap_err();
            assert!(matches!(&error, OpenError::WrongNetwork { found, .. } if found == "regtest"));
            std::fs::write(&file, []).unwrap();
        }
        drop(DataDir::open(&path, Some(&chain_id(Network::Bitcoin))).unwrap());
    }

    /// Headers and undo data may be lost; coins are kept.
    #[test]
    fn coins_keep_the_network() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path();
        let (regtest, bitcoin) = (chain_id(Network::Regtest), chain_id(Network::Bitcoin));
        drop(DataDir::open(path, Some(&regtest)).unwrap());
        let folder = path.join(STORE_FOLDER);
        let open = || LogStore::open(&folder, "regtest", LogOptions::default()).unwrap();
        drop(open());
        assert!(folder.exists());
        drop(DataDir::open(path, Some(&bitcoin)).unwrap());
        assert!(!folder.exists());
        drop(DataDir::open(path, Some(&regtest)).unwrap());
        let tip = Tip {
            hash: BlockHash([1; 32]),
            height: 1,
        };
        open().commit(&Vec::<OwnedChange>::new(), &tip).unwrap();
        assert!(matches!(
            DataDir::open(path, Some(&bitcoin)),
            Err(OpenError::WrongNetwork { .. })
        ));
        assert_eq!(open().tip().unwrap(), Some(tip));
    }

    #[test]
    fn a_challenge_is_kept_and_compared() {
        let parent = tempfile::tempdir().unwrap();
        let with = |challenge: Option<Vec<u8>>| ChainId {
            network: Network::Signet,
            signet_challenge: challenge,
        };
        drop(DataDir::open(parent.path(), Some(&with(Some(vec![0x51])))).unwrap());
        let opened = DataDir::open(parent.path(), Some(&with(None))).unwrap();
        assert_eq!(opened.chain_id().signet_challenge, Some(vec![0x51]));
        drop(opened);
        let other = DataDir::open(parent.path(), Some(&with(Some(vec![0x53])))).unwrap();
        assert_eq!(other.chain_id().signet_challenge, Some(vec![0x53]));
        drop(other);
        // With a block it keeps its challenge.
        std::fs::write(parent.path().join(HEADERS_FILE), [7]).unwrap();
        assert!(DataDir::open(parent.path(), Some(&with(Some(vec![0x52])))).is_err());
    }

    #[test]
    fn the_directory_of_another_program_is_left_alone() {
        let parent = tempfile::tempdir().unwrap();
        std::fs::create_dir(parent.path().join("blocks")).unwrap();
        let error = DataDir::open(parent.path(), Some(&chain_id(Network::Regtest))).unwrap_err();
        assert!(matches!(error, OpenError::Foreign { .. }));
        assert_eq!(std::fs::read_dir(parent.path()).unwrap().count(), 1);
    }

    #[test]
    fn the_mark_of_a_snapshot_is_kept() {
        let parent = tempfile::tempdir().unwrap();
        let mut made = DataDir::open(parent.path(), Some(&chain_id(Network::Regtest))).unwrap();
        assert_eq!(made.snapshot(), None);
        let mark = SnapshotMark {
            height: 7,
            hash: BlockHash([3; 32]),
        };
        made.set_snapshot(Some(mark)).unwrap();
        drop(made);
        let mut opened = DataDir::open(parent.path(), None).unwrap();
        assert_eq!(opened.snapshot(), Some(mark));
        opened.set_snapshot(None).unwrap();
        drop(opened);
        assert_eq!(DataDir::open(parent.path(), None).unwrap().snapshot(), None);
    }

    #[test]
    fn one_at_a_time() {
        let parent = tempfile::tempdir().unwrap();
        let _first = DataDir::open(parent.path(), Some(&chain_id(Network::Regtest))).unwrap();
        assert!(matches!(
            DataDir::open(parent.path(), None),
            Err(OpenError::Locked { .. })
        ));
    }

    #[test]
    fn damaged_marks_and_those_of_other_programs_are_refused() {
        let parent = tempfile::tempdir().unwrap();
        for (text, said) in [
            ("", "EOF"),
            ("{}", "format"),
            (
                r#"{"format":9,"network":"regtest","signet_challenge":null}"#,
                "format 9",
            ),
            (
                r#"{"format":1,"network":"regtest","signet_challenge":null}"#,
                "no store",
            ),
            (
                r#"{"format":1,"network":"regtest","signet_challenge":null,"store":"tree"}"#,
                r#"the store "tree""#,
            ),
            (
                r#"{"format":1,"network":"regtest","signet_challenge":null,"store":"log"}"#,
                "no checksum",
            ),
        ] {
            std::fs::write(parent.path().join("meta.json"), text).unwrap();
            for opened in [DataDir::open(parent.path(), None), DataDir::open_to_read(parent.path())] {
                let Err(OpenError::Damaged { detail, .. }) = opened else {
                    panic!("{text}: {opened:?}")
                };
                assert!(detail.contains(said), "{text}: {detail}");
            }
        }
    }
}
