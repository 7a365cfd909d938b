//! Snapshots: the UTXO set of a data directory to a file, and a file to a data directory that goes
//! on from there.

use crate::chain::import::FirstSeen;
use crate::chain::index::BlockId;
use crate::datadir::store_file::{LOADING_FILE, STORE_FILE, read_store};
use crate::datadir::{DataDir, SnapshotMark, file_error};
use crate::error::EngineError;
use crate::pipeline::connect::Engine;
use crate::report::Observer;
use blockmill_block::{BlockHash, Coin, OutPoint};
use blockmill_blockfiles::disk::Disk;
use blockmill_coins::stats::Hashes;
use blockmill_coins::{Change, CoinStore, SnapshotError, SnapshotReader, StatsBuilder, Tip, UtxoStats, write_snapshot};
use blockmill_rules::ScriptVerifier;
use blockmill_rules::snapshots::known_snapshots;
use blockmill_store_redb::RedbStore;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// Memory for pages of the store while all coins are read once, in bytes.
const DUMP_CACHE: usize = 16 << 20;

/// Coins that are written to the store in one batch.
const BATCH: usize = 500_000;

/// Coins between reports of progress.
const COINS_PER_LOOK: u64 = 20_000;

/// Writes the set of a data directory to a file that is not there yet, as Core's `dumptxoutset`
/// does. The file gets its name when it is complete; until then it is called `FILE.incomplete`.
///
/// # Errors
/// [`EngineError::SnapshotFile`] where there is such a file; [`EngineError::Stopped`], [`EngineError::Snapshot`], [`EngineError::Store`].
pub fn dump(
    directory: &DataDir,
    path: &Path,
    stop: &AtomicBool,
    observer: &mut dyn Observer,
) -> Result<UtxoStats, EngineError> {
    let wrong = |detail: &str| EngineError::SnapshotFile {
        path: path.to_owned(),
        detail: detail.to_owned(),
    };
    if path.exists() {
        return Err(wrong("there is a file of this name already"));
    }
    let params = directory.chain_id().params();
    let store = read_store(directory, DUMP_CACHE)?;
    let tip = store.tip()?.unwrap_or_else(|| Tip {
        hash: params.genesis.hash(),
        height: 0,
    });
    let temporary = incomplete(path);
    let mut file = File::create(&temporary).map_err(file_error(&temporary))?;
    let mut stats = StatsBuilder::new(Hashes::Serialized);
    let mut count = 0;
    let mut each = |outpoint: &OutPoint, coin: &Coin| {
        stats.add(outpoint, coin);
        count += 1;
        if count % COINS_PER_LOOK == 0 {
            // Ids are spread evenly, so the first bytes say how far this is.
            let share = f64::from(u16::from_be_bytes([outpoint.txid.0[0], outpoint.txid.0[1]])) / 65_536.0;
            observer.coins(count, share);
        }
    };
    let coins = store.coins()?.take_while(|_| !stop.load(Ordering::Relaxed));
    let written = write_snapshot(&mut file, params.magic(), &tip, coins, &mut each);
    let stopped = stop.load(Ordering::Relaxed);
    let finished = written.map_err(|error| snapshot_error(path, error)).and_then(|_| {
        if stopped {
            return Err(EngineError::Stopped { path: path.to_owned() });
        }
        file.sync_all()
            .and_then(|()| std::fs::rename(&temporary, path))
            .and_then(|()| sync_parent(path))
            .map_err(file_error(path))
    });
    if let Err(error) = finished {
        // What is left says by its name that it is of no use, if it cannot be removed.
        let _ = std::fs::remove_file(&temporary);
        return Err(error);
    }
    Ok(stats.finish(&tip))
}

fn incomplete(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".incomplete");
    PathBuf::from(name)
}

fn sync_parent(path: &Path) -> std::io::Result<()> {
    match path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        Some(parent) => File::open(parent)?.sync_all(),
        None => File::open(".")?.sync_all(),
    }
}

fn snapshot_error(path: &Path, error: SnapshotError) -> EngineError {
    match error {
        SnapshotError::Store(error) => error.into(),
        SnapshotError::Io(error) => file_error(path)(error),
        error => EngineError::Snapshot {
            path: path.to_owned(),
            error,
        },
    }
}

impl<V: ScriptVerifier + 'static> Engine<V> {
    /// Takes the set of a snapshot in, in place of everything up to its base block, whose header
    /// and all before it must be in `sources`. The hash of the set must be `wanted`, or that which
    /// Core has built in for this block. Nothing of the directory is changed before the whole file
    /// has been read and its hash has been found right.
    ///
    /// # Errors
    /// [`EngineError::SnapshotFile`] where the directory or the call does not fit the file, [`EngineError::Snapshot`] where the file is not what
    /// it should be, [`EngineError::SnapshotBase`] where headers are missing;
    /// [`EngineError::Stopped`]; [`EngineError::File`], [`EngineError::Store`].
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
        if self.cache.store().tip()?.is_some() {
            return Err(wrong("the data directory has a set already; name a new one".to_owned()));
        }
        let file = File::open(path).map_err(file_error(path))?;
        let bytes = file.metadata().map_err(file_error(path))?.len();
        let magic = self.index.params().magic();
        let reader = SnapshotReader::new(file, magic).map_err(|error| snapshot_error(path, error))?;
        if self.index_sources(sources, FirstSeen::ByPlace, observer)?.stopped {
            return Err(EngineError::Stopped { path: path.to_owned() });
        }
        let base = self.base(&reader.metadata().base)?;
        let tip = Tip {
            hash: self.index.entry(base).hash,
            height: self.index.entry(base).height,
        };
        let known = known_snapshots(self.index.params().network)
            .iter()
            .find(|known| known.base == tip.hash);
        let Some(wanted) = wanted.or(known.map(|known| known.hash_serialized_3)) else {
            return Err(wrong(format!(
                "no hash is known for a snapshot of block {} (height {}); --hash says which it must have",
                tip.hash, tip.height
            )));
        };
        let loading = self.directory.file(LOADING_FILE);
        let network = self.directory.chain_id().text();
        let stop = std::sync::Arc::clone(&self.options.stop);
        let disk = std::sync::Arc::clone(self.directory.disk());
        let outcome = Loading {
            disk: &*disk,
            path: &loading,
            network: &network,
            cache_bytes: self.options.cache_bytes_max,
            tip,
            stop: &stop,
            bytes,
        }
        .run(reader, observer)
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

    /// The base block of a snapshot, which must be in the chain of the best header.
    fn base(&self, hash: &BlockHash) -> Result<BlockId, EngineError> {
        let missing = |detail: &str| EngineError::SnapshotBase {
            hash: *hash,
            detail: detail.to_owned(),
        };
        let base = self
            .index
            .find(hash)
            .ok_or_else(|| missing("its header, or one before it, is in none of the block files"))?;
        if self
            .index
            .ancestor(self.index.best_header(), self.index.entry(base).height)
            != Some(base)
        {
            return Err(missing("another chain of headers has more work"));
        }
        Ok(base)
    }

    /// Makes a store that was loaded that of the directory: first the headers up to the base and
    /// the mark of the snapshot, then its name.
    fn adopt(mut self, loading: &Path, tip: &Tip, base: BlockId) -> Result<(), EngineError> {
        for height in 1..=tip.height {
            if let Some(id) = self.index.ancestor(base, height) {
                self.log.append_header(&self.index.header(id));
            }
        }
        self.log.sync()?;
        let Self {
            mut directory, cache, ..
        } = self;
        drop(cache);
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

/// A store that a snapshot is loaded into.
struct Loading<'a> {
    disk: &'a dyn Disk,
    path: &'a Path,
    network: &'a str,
    cache_bytes: usize,
    tip: Tip,
    stop: &'a AtomicBool,
    /// Length of the file.
    bytes: u64,
}

impl Loading<'_> {
    /// Reads all coins and writes them to a new store. None if it was stopped.
    fn run(
        &self,
        reader: SnapshotReader<impl Read>,
        observer: &mut dyn Observer,
    ) -> Result<Option<UtxoStats>, SnapshotError> {
        match self.disk.remove(self.path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
        let store = RedbStore::open_on(self.disk, self.path, self.network, self.cache_bytes / 2)?;
        let mut stats = StatsBuilder::new(Hashes::Serialized);
        let mut coins = reader.coins(self.tip.height);
        let mut batch: Vec<Change> = Vec::new();
        let mut count = 0;
        while let Some(entry) = coins.next() {
            let (outpoint, coin) = entry?;
            stats.add(&outpoint, &coin);
            batch.push((outpoint, Some(coin)));
            count += 1;
            if count % COINS_PER_LOOK == 0 {
                if self.stop.load(Ordering::Relaxed) {
                    return Ok(None);
                }
                observer.coins(count, coins.offset() as f64 / self.bytes.max(1) as f64);
            }
            if batch.len() == BATCH {
                store.commit(&mut batch.drain(..), &self.tip)?;
            }
        }
        store.commit(&mut batch.drain(..), &self.tip)?;
        Ok(Some(stats.finish(&self.tip)))
    }
}
