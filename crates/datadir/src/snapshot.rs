//! Snapshots: the UTXO set of a data directory to a file, and the coins of a file to a new store.

use crate::store_file::{make_store, remove_store};
use crate::utxo_set::UtxoSet;
use blockmill_block::{Coin, OutPoint};
use blockmill_blockfiles::disk::Disk;
use blockmill_blockfiles::{FileError, NewFile};
use blockmill_chain::report::events::{Event, Observer};
use blockmill_coins::stats::Hashes;
use blockmill_coins::{
    Before, Change, Changes, CoinRef, CoinStore, LastCommit, SnapshotError, SnapshotReader, StatsBuilder, StoreError,
    Tip, UtxoStats, stream_snapshot, write_snapshot,
};
use blockmill_pool::Helpers;
use std::io::{Read, Write};
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::slice::Chunks;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use thiserror::Error;

/// Memory in bytes of the coins that are written to the store in one batch, about. One batch is
/// being made, one waits, and one is being written.
const BATCH_BYTES: usize = 12 << 20;

/// Coins of a batch at most, which is their number where most have usual scripts.
const BATCH: usize = BATCH_BYTES / (size_of::<(OutPoint, Coin)>() + 32);

/// Coins of a batch that one thread prepares at a time.
const PART: usize = 1 << 13;

/// Coins between reports of progress.
const COINS_PER_LOOK: u64 = 20_000;

/// Why a snapshot is not written.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DumpSnapshotError {
    /// The store cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The file cannot be written.
    #[error(transparent)]
    File(#[from] FileError),
    /// The set does not fit into a snapshot.
    #[error("{}: {error}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        #[source]
        error: SnapshotError,
    },
    /// The caller has asked to stop.
    #[error("{}: stopped before the end; nothing of it is kept", path.display())]
    Stopped {
        /// The file.
        path: PathBuf,
    },
}

/// Writes a set to a file that is not there yet, as Core's `dumptxoutset`
/// does. The file gets its name when it is complete; until then it is called `FILE.incomplete`.
///
/// # Errors
/// [`DumpSnapshotError`]. Nothing is left of the file.
pub fn dump(
    set: &UtxoSet,
    path: &Path,
    stop: &AtomicBool,
    observer: &mut dyn Observer,
) -> Result<UtxoStats, DumpSnapshotError> {
    dump_into(set, NewFile::begin(path)?, stop, observer)
}

/// As [`dump`], to a file that the caller has begun.
///
/// # Errors
/// [`DumpSnapshotError`]. Nothing is left of the file.
pub fn dump_into(
    set: &UtxoSet,
    mut new: NewFile,
    stop: &AtomicBool,
    observer: &mut dyn Observer,
) -> Result<UtxoStats, DumpSnapshotError> {
    let path = &new.path().to_owned();
    let magic = set.directory().chain_id().params().magic();
    let stats = dump_coins(set, path, stop, observer, |tip, coins, each| {
        write_snapshot(&mut new, magic, tip, coins, each)
    })?;
    new.complete()?;
    Ok(stats)
}

/// As [`dump`], to a stream. The number of coins comes first, so they are counted before.
///
/// # Errors
/// [`DumpSnapshotError`], with `path` for the name of the stream.
pub fn dump_to(
    set: &UtxoSet,
    out: &mut impl Write,
    path: &Path,
    stop: &AtomicBool,
    observer: &mut dyn Observer,
) -> Result<UtxoStats, DumpSnapshotError> {
    let magic = set.directory().chain_id().params().magic();
    let mut count = 0;
    set.for_each_batch(&|batch| Ok::<_, StoreError>(batch.len() as u64), &mut |coins| {
        count += coins;
        Ok(())
    })?;
    let stats = dump_coins(set, path, stop, observer, |tip, coins, each| {
        stream_snapshot(out, magic, tip, count, coins, each)
    })?;
    out.flush().map_err(FileError::io(path))?;
    Ok(stats)
}

/// Lets `write` write the coins of a set, and report each that it has taken. Returns the figures of
/// those coins.
fn dump_coins(
    set: &UtxoSet,
    path: &Path,
    stop: &AtomicBool,
    observer: &mut dyn Observer,
    write: impl FnOnce(
        &Tip,
        &mut dyn Iterator<Item = Result<(OutPoint, Coin), StoreError>>,
        &mut dyn FnMut(&OutPoint, &Coin),
    ) -> Result<u64, SnapshotError>,
) -> Result<UtxoStats, DumpSnapshotError> {
    let tip = set.tip();
    let mut coins = set.coins()?.take_while(|_| !stop.load(Ordering::Relaxed));
    let mut stats = StatsBuilder::new(Hashes::Serialized);
    let mut count: u64 = 0;
    let mut each = |outpoint: &OutPoint, coin: &Coin| {
        stats.add(outpoint, coin);
        count += 1;
        if count.is_multiple_of(COINS_PER_LOOK) {
            observer.event(&Event::coins_up_to(count, outpoint));
        }
    };
    write(&tip, &mut coins, &mut each).map_err(|error| write_error(path, error))?;
    // The coins end early then, as if there were no more.
    if stop.load(Ordering::Relaxed) {
        return Err(DumpSnapshotError::Stopped { path: path.to_owned() });
    }
    Ok(stats.finish(&tip))
}

fn write_error(path: &Path, error: SnapshotError) -> DumpSnapshotError {
    match error {
        SnapshotError::Store(error) => error.into(),
        SnapshotError::Io(error) => FileError::io(path)(error).into(),
        error => DumpSnapshotError::Content {
            path: path.to_owned(),
            error,
        },
    }
}

/// A store that a snapshot is loaded into.
#[doc(hidden)]
pub struct NewStore<'a> {
    /// What it is written to.
    pub disk: &'a Arc<dyn Disk>,
    /// Its folder.
    pub path: &'a Path,
    /// The chain that it belongs to.
    pub network: &'a str,
    /// The threads that help to prepare a flush.
    pub helpers: Helpers,
    /// The block that the snapshot is of.
    pub tip: Tip,
    /// Set by the caller to end early.
    pub stop: &'a AtomicBool,
    /// Length of the snapshot file in bytes; 0 where it is not known.
    pub bytes: u64,
}

/// Coins whose outpoints a new store has not seen, sorted by key.
struct NewCoins(Vec<(OutPoint, Coin)>);

impl NewCoins {
    fn parts(&self) -> Chunks<'_, (OutPoint, Coin)> {
        self.0.chunks(PART)
    }
}

impl Changes for NewCoins {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn parts(&self) -> usize {
        self.parts().len()
    }

    fn visit(&self, part: usize, each: &mut dyn FnMut(Change<'_>)) {
        let mut parts = self.parts();
        for (outpoint, coin) in parts.nth(part).expect("such a part") {
            each(Change {
                outpoint: *outpoint,
                coin: Some(CoinRef::from(coin)),
                // Each outpoint comes once, and the store was empty.
                before: Before::Nothing,
            });
        }
    }
}

impl NewStore<'_> {
    /// Reads all coins and writes them to a new store: this thread reads and hashes, another one
    /// writes. Returns also the last commit of the store. None if it was stopped.
    ///
    /// # Errors
    /// [`SnapshotError`].
    pub fn load(
        &self,
        reader: SnapshotReader<impl Read>,
        observer: &mut dyn Observer,
    ) -> Result<Option<(UtxoStats, Option<LastCommit>)>, SnapshotError> {
        // A load that was cut off may have left a store.
        remove_store(&**self.disk, self.path)?;
        let store = make_store(self.disk, self.path, self.network, self.helpers.clone())?;
        let (sender, batches) = sync_channel::<NewCoins>(1);
        let tip = &self.tip;
        std::thread::scope(|scope| {
            let write = move || {
                batches.iter().try_for_each(|batch| store.commit(&batch, tip))?;
                store.last_commit()
            };
            let writer = std::thread::Builder::new()
                .name("load".to_owned())
                .spawn_scoped(scope, write)?;
            let read = self.read(reader, observer, &sender);
            // The writer ends when nothing more can come.
            drop(sender);
            // An error of the writer has ended the reading.
            let commit = match writer.join() {
                Ok(written) => written?,
                Err(panic) => resume_unwind(panic),
            };
            Ok(read?.map(|stats| (stats, commit)))
        })
    }

    /// Reads and hashes all coins, and sends them in batches. None if it was stopped, or if nobody
    /// takes them.
    fn read(
        &self,
        reader: SnapshotReader<impl Read>,
        observer: &mut dyn Observer,
        sender: &SyncSender<NewCoins>,
    ) -> Result<Option<UtxoStats>, SnapshotError> {
        let mut stats = StatsBuilder::new(Hashes::Serialized);
        let mut coins = reader.coins(self.tip.height);
        let mut batch = Vec::with_capacity(BATCH);
        let mut bytes = 0;
        let mut count = 0;
        while let Some(entry) = coins.next() {
            let (outpoint, coin) = entry?;
            stats.add(&outpoint, &coin);
            bytes += size_of::<(OutPoint, Coin)>() + coin.script_pubkey.len();
            batch.push((outpoint, coin));
            count += 1;
            if count % COINS_PER_LOOK == 0 {
                if self.stop.load(Ordering::Relaxed) {
                    return Ok(None);
                }
                // A stream has no length.
                let share = match self.bytes {
                    0 => 0.0,
                    bytes => coins.offset() as f64 / bytes as f64,
                };
                observer.event(&Event::Coins { coins: count, share });
            }
            if batch.len() == BATCH || bytes >= BATCH_BYTES {
                let full = std::mem::replace(&mut batch, Vec::with_capacity(BATCH));
                bytes = 0;
                if sender.send(NewCoins(full)).is_err() {
                    return Ok(None);
                }
            }
        }
        // The last one also writes the tip, where there are no coins.
        Ok(match sender.send(NewCoins(batch)) {
            Ok(()) => Some(stats.finish(&self.tip)),
            Err(_) => None,
        })
    }
}
