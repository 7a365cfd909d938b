//! A set is loaded from a snapshot, in place of the blocks up to its base.

use crate::chain::import::FirstSeen;
use crate::chain::index::{BlockId, HeaderIndex};
use crate::datadir::SnapshotMark;
use crate::datadir::files::{LOADING_FILE, STORE_FILE};
use crate::datadir::snapshot::{NewStore, snapshot_error};
use crate::engine::Engine;
use crate::error::{EngineError, file_error};
use crate::report::findings::ImportEnd;
use crate::report::observer::Observer;
use blockmill_block::BlockHash;
use blockmill_coins::{SnapshotReader, Tip, UtxoStats};
use blockmill_rules::ScriptVerifier;
use blockmill_rules::snapshots::known_snapshots;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

impl<V: ScriptVerifier + 'static> Engine<V> {
    /// Loads the set of a snapshot in place of everything up to its base block. That block's header
    /// and all before it must be in `sources`. The hash of the set must be `wanted`, or the one that
    /// Core has built in for this block. The directory changes only after the whole file has been
    /// read and its hash has been found right.
    ///
    /// # Errors
    /// [`EngineError::SnapshotFile`] where the directory or the call does not fit the file,
    /// [`EngineError::Snapshot`] where the file is damaged, [`EngineError::SnapshotBase`] where
    /// headers are missing; [`EngineError::Stopped`]; [`EngineError::File`],
    /// [`EngineError::Store`].
    pub fn load_snapshot(
        mut self,
        sources: &[PathBuf],
        path: &Path,
        wanted: Option<BlockHash>,
        observer: &mut dyn Observer,
    ) -> Result<UtxoStats, EngineError> {
        let wrong = |detail: String| EngineError::SnapshotFile {
            path: path.to_owned(),
            detail,
        };
        if self.coins().store().tip()?.is_some() {
            return Err(wrong("the data directory has a set already; name a new one".to_owned()));
        }
        let file = File::open(path).map_err(file_error(path))?;
        let bytes = file.metadata().map_err(file_error(path))?.len();
        let magic = self.chain.index().params().magic();
        let reader = SnapshotReader::new(file, magic).map_err(|error| snapshot_error(path, error))?;
        let (pipeline, mut run) = self.parts(observer);
        let imported = run
            .chain
            .import(sources, FirstSeen::ByOffset, pipeline.stop(), &mut run.reporter)?;
        if imported.end == ImportEnd::Stopped {
            return Err(EngineError::Stopped { path: path.to_owned() });
        }
        let index = run.chain.index();
        let base = find_base(index, &reader.metadata().base)?;
        let tip = Tip {
            hash: index.entry(base).hash,
            height: index.entry(base).height,
        };
        let known = known_snapshots(index.params().network)
            .iter()
            .find(|known| known.base == tip.hash);
        let Some(wanted) = wanted.or(known.map(|known| known.hash_serialized_3)) else {
            return Err(wrong(format!(
                "no hash is known for a snapshot of block {} (height {}); --hash says which it must have",
                tip.hash, tip.height
            )));
        };
        let directory = self.data.directory();
        let loading = directory.file(LOADING_FILE);
        let disk = Arc::clone(directory.disk());
        let outcome = NewStore {
            disk: &*disk,
            path: &loading,
            network: &directory.chain_id().text(),
            cache_bytes: self.cache_bytes_max,
            tip,
            stop: self.pipeline.stop(),
            bytes,
        }
        .load(reader, observer)
        .map_err(|error| snapshot_error(path, error))
        .and_then(|stats| match stats {
            None => Err(EngineError::Stopped { path: path.to_owned() }),
            Some(stats) if stats.hash_serialized_3 == wanted => Ok(stats),
            Some(stats) => Err(EngineError::SnapshotHash {
                path: path.to_owned(),
                found: stats.hash_serialized_3,
                wanted,
            }),
        });
        match outcome.and_then(|stats| self.adopt(&loading, &tip, base).map(|()| stats)) {
            Ok(stats) => Ok(stats),
            Err(error) => {
                // The next attempt begins by removing it.
                let _ = disk.remove(&loading);
                Err(error)
            }
        }
    }

    /// Makes a store that was loaded the store of the directory: first the headers up to the base
    /// and the mark of the snapshot, then its name.
    fn adopt(self, loading: &Path, tip: &Tip, base: BlockId) -> Result<(), EngineError> {
        let Self {
            pipeline,
            chain,
            mut data,
            ..
        } = self;
        for height in 1..=tip.height {
            if let Some(id) = chain.index().ancestor(base, height) {
                data.append_header(&chain.index().header(id));
            }
        }
        data.sync_log()?;
        drop(pipeline);
        let mut directory = data.into_directory();
        directory.set_snapshot(Some(SnapshotMark {
            height: tip.height,
            hash: tip.hash,
        }))?;
        let place = directory.file(STORE_FILE);
        let disk = directory.disk();
        disk.rename(loading, &place)
            .and_then(|()| disk.sync_name(&place))
            .map_err(file_error(&place))
    }
}

/// The base block of a snapshot, which must be in the chain of the best header.
fn find_base(index: &HeaderIndex, hash: &BlockHash) -> Result<BlockId, EngineError> {
    let missing = |detail: &str| EngineError::SnapshotBase {
        hash: *hash,
        detail: detail.to_owned(),
    };
    let base = index
        .find(hash)
        .ok_or_else(|| missing("its header, or one before it, is in none of the block files"))?;
    if index.ancestor(index.best_header(), index.entry(base).height) != Some(base) {
        return Err(missing("another chain of headers has more work"));
    }
    Ok(base)
}
