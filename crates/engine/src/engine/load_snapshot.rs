//! A set is loaded from a snapshot, instead of the blocks up to its base.

use crate::engine::Engine;
use blockmill_block::{BlockHash, Header};
use blockmill_blockfiles::disk::Disk;
use blockmill_blockfiles::{FileError, Input};
use blockmill_chain::import::Which;
use blockmill_chain::index::{BlockId, HeaderIndex};
use blockmill_chain::report::events::Observer;
use blockmill_chain::report::findings::ImportEnd;
use blockmill_coins::{LastCommit, SnapshotError, SnapshotReader, StoreError, Tip, UndoLogError, UtxoStats};
use blockmill_datadir::OpenError;
use blockmill_datadir::SnapshotMark;
use blockmill_datadir::files::{LOADING_FOLDER, STORE_FOLDER};
use blockmill_datadir::lost_store::has_store;
use blockmill_datadir::snapshot::NewStore;
use blockmill_datadir::store_file::remove_store;
use blockmill_rules::ScriptVerifier;
use blockmill_rules::snapshots::known_snapshots;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thiserror::Error;

/// Why a snapshot is not loaded.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LoadSnapshotError {
    /// The data directory has a set.
    #[error("{}: the data directory has a set already", path.display())]
    SetExists {
        /// The snapshot.
        path: PathBuf,
    },
    /// The caller names no hash, and Core has none built in for this block.
    #[error("{}: no hash is known for a snapshot of block {hash} (height {height})", path.display())]
    UnknownHash {
        /// The snapshot.
        path: PathBuf,
        /// Its base block.
        hash: BlockHash,
        /// Height of the base block.
        height: u32,
    },
    /// The coins have another hash.
    #[error("{}: the coins have the hash {found}, not {wanted}", path.display())]
    WrongHash {
        /// The snapshot.
        path: PathBuf,
        /// `hash_serialized_3` of its coins.
        found: BlockHash,
        /// The hash wanted.
        wanted: BlockHash,
    },
    /// The base block of the snapshot is in no chain of headers with the most work.
    #[error("block {hash}, the base of the snapshot: {detail}")]
    Base {
        /// The block.
        hash: BlockHash,
        /// What is wrong.
        detail: String,
    },
    /// The snapshot is damaged, or belongs to another network.
    #[error("{}: {error}", path.display())]
    Content {
        /// The snapshot.
        path: PathBuf,
        /// What is wrong.
        #[source]
        error: SnapshotError,
    },
    /// A file cannot be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// The store cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The log of connected blocks cannot be written.
    #[error(transparent)]
    Log(#[from] UndoLogError),
    /// The caller has asked to stop.
    #[error("{}: stopped before the end; nothing of it is kept", path.display())]
    Stopped {
        /// The snapshot.
        path: PathBuf,
    },
}

fn read_error(path: &Path, error: SnapshotError) -> LoadSnapshotError {
    match error {
        SnapshotError::Store(error) => error.into(),
        SnapshotError::Io(error) if Input::is_stop(&error) => LoadSnapshotError::Stopped { path: path.to_owned() },
        SnapshotError::Io(error) => FileError::io(path)(error).into(),
        error => LoadSnapshotError::Content {
            path: path.to_owned(),
            error,
        },
    }
}

impl<V: ScriptVerifier + 'static> Engine<V> {
    /// Adds headers of blocks whose files are not at hand, in any order, for
    /// [`load_snapshot`](Self::load_snapshot). A header that breaks a rule is an event, and left
    /// out with all that build on it. Returns how many headers have no known parent.
    pub fn import_headers(&mut self, headers: &[Header], observer: &mut dyn Observer) -> usize {
        self.chain.import_headers(headers, observer)
    }

    /// Loads the set of a snapshot instead of everything up to its base block. That block's header
    /// and all before it must be in `sources`, or have been imported before. The hash of the set
    /// must be `wanted`, or the one that Core has built in for this block. Until the whole file has
    /// been read and its hash has been found right, only a store of its own is written. The
    /// snapshot is read once, and may be a pipe.
    ///
    /// # Errors
    /// [`LoadSnapshotError`]. The set is as it was. A folder that was made for it is gone. Of what
    /// is left of the load in another one, the next open removes it.
    pub fn load_snapshot(
        self,
        sources: &[PathBuf],
        path: &Path,
        wanted: Option<BlockHash>,
        observer: &mut dyn Observer,
    ) -> Result<UtxoStats, LoadSnapshotError> {
        let input = Input::open(path, Arc::clone(self.pipeline.stop()))?;
        self.load_snapshot_from(sources, input, wanted, observer)
    }

    /// As [`load_snapshot`](Self::load_snapshot), of a file or a pipe that is open.
    ///
    /// # Errors
    /// As [`load_snapshot`](Self::load_snapshot).
    pub fn load_snapshot_from(
        mut self,
        sources: &[PathBuf],
        input: Input,
        wanted: Option<BlockHash>,
        observer: &mut dyn Observer,
    ) -> Result<UtxoStats, LoadSnapshotError> {
        match self.load(sources, input, wanted, observer) {
            Ok(loaded) => {
                let stats = loaded.stats.clone();
                let (loading, disk) = (loaded.loading.clone(), Arc::clone(self.data.directory().disk()));
                let path = self.data.directory().path().to_owned();
                let adopted = self.adopt(loaded);
                adopted.inspect_err(|_| remove_loaded(&*disk, &path, &loading))?;
                Ok(stats)
            }
            Err(error) => {
                // The reason is that of the load.
                let _ = self.close_unloaded();
                Err(error)
            }
        }
    }

    /// Closes the engine after a load that came to nothing, whatever headers were imported. If it
    /// has made the folder of the data directory, the folder is removed. Returns whether that was
    /// so.
    ///
    /// # Errors
    /// [`OpenError`] where a file cannot be removed.
    pub fn close_unloaded(self) -> Result<bool, OpenError> {
        let Self {
            pipeline, chain, data, ..
        } = self;
        // The pipeline holds the store, which must be closed before its files are removed.
        drop((pipeline, chain));
        data.into_directory().close_unused()
    }

    /// Reads a snapshot into a store of its own.
    fn load(
        &mut self,
        sources: &[PathBuf],
        input: Input,
        wanted: Option<BlockHash>,
        observer: &mut dyn Observer,
    ) -> Result<Loaded, LoadSnapshotError> {
        let (path, bytes) = (&*input.path().to_owned(), input.length());
        self.data.report_problems(self.chain.height(), observer);
        if self.coins().store().tip()?.is_some() {
            return Err(LoadSnapshotError::SetExists { path: path.to_owned() });
        }
        let magic = self.chain.index().params().magic();
        // The head of the snapshot is read before the import, so that a wrong file is refused at
        // once.
        let reader = SnapshotReader::new(input, magic).map_err(|error| read_error(path, error))?;
        let imported = self.chain.import(sources, Which::All, self.pipeline.stop(), observer)?;
        if imported.end == ImportEnd::Stopped {
            return Err(LoadSnapshotError::Stopped { path: path.to_owned() });
        }
        let index = self.chain.index();
        let base = find_base(index, &reader.metadata().base)?;
        let tip = index.tip_at(base);
        let known = known_snapshots(index.params().network)
            .iter()
            .find(|known| known.base == tip.hash);
        let Some(wanted) = wanted.or(known.map(|known| known.hash_serialized_3)) else {
            return Err(LoadSnapshotError::UnknownHash {
                path: path.to_owned(),
                hash: tip.hash,
                height: tip.height,
            });
        };
        let directory = self.data.directory();
        let loading = directory.file(LOADING_FOLDER);
        let disk = Arc::clone(directory.disk());
        let path_of_directory = directory.path().to_owned();
        let outcome = NewStore {
            disk: &disk,
            path: &loading,
            network: &directory.chain_id().text(),
            helpers: self.pipeline.flush_helpers(),
            tip,
            stop: self.pipeline.stop(),
            bytes,
        }
        .load(reader, observer)
        .map_err(|error| read_error(path, error))
        .and_then(|stats| match stats {
            None => Err(LoadSnapshotError::Stopped { path: path.to_owned() }),
            Some((stats, commit)) if stats.hash_serialized_3 == wanted => Ok((stats, commit)),
            Some((stats, _)) => Err(LoadSnapshotError::WrongHash {
                path: path.to_owned(),
                found: stats.hash_serialized_3,
                wanted,
            }),
        });
        let (stats, commit) = outcome.inspect_err(|_| remove_loaded(&*disk, &path_of_directory, &loading))?;
        Ok(Loaded {
            stats,
            loading,
            tip,
            base,
            commit,
        })
    }

    /// Makes a store that was loaded the store of the directory: first the headers up to the base
    /// and the mark of the snapshot, then its name, then the mark of its last commit.
    fn adopt(self, loaded: Loaded) -> Result<(), LoadSnapshotError> {
        let Loaded {
            loading,
            tip,
            base,
            commit,
            ..
        } = loaded;
        let Self {
            pipeline,
            chain,
            mut data,
            ..
        } = self;
        for height in 1..=tip.height {
            if let Some(id) = chain.index().ancestor(base, height) {
                data.log.append_header(&chain.index().header(id));
            }
        }
        data.log.sync()?;
        // The pipeline holds the engine's own store, which is replaced below.
        drop(pipeline);
        let mut directory = data.into_directory();
        directory.set_snapshot(Some(SnapshotMark {
            height: tip.height,
            hash: tip.hash,
        }))?;
        let store_path = directory.file(STORE_FOLDER);
        let disk = directory.disk();
        // The empty store that the engine had is in the way. A cut from here on is finished by the
        // next opening.
        remove_store(&**disk, &store_path)?;
        let named = disk
            .rename(&loading, &store_path)
            .and_then(|()| disk.sync_name(&store_path));
        named.map_err(FileError::io(&store_path))?;
        match commit {
            Some(commit) => Ok(directory.mark_commit(&commit)?),
            None => Ok(()),
        }
    }
}

/// A snapshot in a store of its own.
struct Loaded {
    stats: UtxoStats,
    /// Where the store is.
    loading: PathBuf,
    tip: Tip,
    base: BlockId,
    /// The store's last commit.
    commit: Option<LastCommit>,
}

/// Removes a store that was loaded and is of no use. The next attempt begins by removing it, too.
/// Without the store that was there it is what the next opening goes on with.
fn remove_loaded(disk: &dyn Disk, directory: &Path, loading: &Path) {
    if has_store(directory).is_ok_and(|has_store| has_store) {
        let _ = remove_store(disk, loading);
    }
}

/// The base block of a snapshot, which must be in a chain of headers with the most work. Of several
/// any may be the valid one.
fn find_base(index: &HeaderIndex, hash: &BlockHash) -> Result<BlockId, LoadSnapshotError> {
    let missing = |detail: &str| LoadSnapshotError::Base {
        hash: *hash,
        detail: detail.to_owned(),
    };
    let base = index
        .find(hash)
        .ok_or_else(|| missing("its header, or one before it, is in none of the sources"))?;
    let height = index.entry(base).height;
    let is_of_best = |best| index.ancestor(best, height) == Some(base);
    if !index.best_headers().any(is_of_best) {
        return Err(missing("another chain of headers has more work"));
    }
    Ok(base)
}
