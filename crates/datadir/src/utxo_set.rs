//! The UTXO set of a data directory, to be read: as the last flush left it, whole, also while
//! another process goes on; or as it was at an earlier height.

use crate::DataDir;
use crate::batches::{self, Batch};
use crate::commit_mark::Mark;
use crate::error::OpenError;
use crate::past::{Earlier, Past, PastError};
use crate::store_file::{open_to_read, store_to_read};
use blockmill_block::{Coin, OutPoint};
use blockmill_chain::chain_blocks::ChainBlocks;
use blockmill_chain::report::events::Observer;
use blockmill_coins::{CoinIterator, CoinStore, LastCommit, MemoryStore, StoreError, Tip};
use blockmill_pool::Helpers;
use blockmill_store_log::Lookup;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// How often a store is opened whose folder a writer gives another name meanwhile, where a snapshot
/// is loaded.
const ATTEMPTS: u32 = 5;

/// The set of a data directory.
pub struct UtxoSet {
    /// Dropped first: the store is closed before the directory is unlocked.
    store: Arc<dyn CoinStore>,
    directory: DataDir,
    tip: Tip,
    helpers: Helpers,
    /// None for the set as it is.
    past: Option<Past>,
}

impl UtxoSet {
    /// Opens the set of the data directory at `path`, on `threads` threads. Where nothing was
    /// connected yet it has no coins.
    ///
    /// # Errors
    /// As [`DataDir::open_to_read`], [`OpenError::Store`], and [`OpenError::Older`].
    pub fn open(path: &Path, threads: usize) -> Result<Self, OpenError> {
        let helpers = Helpers::start(threads).map_err(OpenError::Threads)?;
        let (directory, store) = open(path, |directory, _| {
            let Some(name) = store_to_read(directory)? else {
                return Ok((Arc::new(MemoryStore::default()) as Arc<dyn CoinStore>, None));
            };
            let network = directory.chain_id().text();
            let store = open_to_read(&directory.file(name), &network, helpers.clone())?;
            let commit = store.last_commit()?;
            Ok((Arc::new(store), commit))
        })?;
        let tip = store.tip()?.unwrap_or_else(|| directory.genesis());
        Ok(Self {
            store,
            tip,
            directory,
            helpers,
            past: None,
        })
    }

    /// The data directory.
    pub fn directory(&self) -> &DataDir {
        &self.directory
    }

    /// The set as it was after the block at `height`. The blocks above it are read, on all threads,
    /// with their undo data; the coins that they spent are kept in memory.
    ///
    /// # Errors
    /// [`PastError`].
    pub fn at<'e>(
        self,
        earlier: impl Into<Earlier<'e>>,
        stop: &AtomicBool,
        observer: &mut dyn Observer,
    ) -> Result<Self, PastError> {
        let past = Past::read(
            &self.directory,
            &self.tip,
            earlier.into(),
            &self.helpers,
            stop,
            observer,
        )?;
        Ok(Self {
            past: Some(past),
            ..self
        })
    }

    /// Where the coins are kept: those of the last flush, whatever the height that was asked for.
    pub fn store(&self) -> &dyn CoinStore {
        &*self.store
    }

    /// All coins, sorted by key.
    ///
    /// # Errors
    /// Any [`StoreError`].
    pub fn coins(&self) -> Result<CoinIterator, StoreError> {
        let now = self.store.coins()?;
        Ok(match &self.past {
            Some(past) => Box::new(past.coins(now)),
            None => now,
        })
    }

    /// Gives all coins to `convert`, a [`Batch`] at a time, on the threads that the set was opened
    /// with; and what comes of it to `take`, in the order of the coins, on this thread. Ends at the
    /// first error.
    ///
    /// # Errors
    /// Those of the store, of `convert` and of `take`.
    pub fn for_each_batch<T: Send, E: Send + From<StoreError>>(
        &self,
        convert: &(dyn Fn(Batch) -> Result<T, E> + Sync),
        take: &mut dyn FnMut(T) -> Result<(), E>,
    ) -> Result<(), E> {
        batches::for_each(&*self.store, self.past.as_ref(), &self.helpers, convert, take)
    }

    /// The block after which the set is as it is; the genesis block where nothing was connected.
    pub fn tip(&self) -> Tip {
        self.past.as_ref().map_or(self.tip, |past| past.tip)
    }

    /// The blocks up to the tip.
    ///
    /// # Errors
    /// As [`DataDir::blocks`].
    pub fn blocks(&self) -> Result<ChainBlocks, OpenError> {
        self.directory.blocks(&self.tip())
    }

    /// Height of the block up to which a snapshot has replaced validation, if one has.
    pub fn snapshot_height(&self) -> Option<u32> {
        // A load that was cut off has left its mark without a set.
        let mark = self.directory.snapshot()?;
        (mark.height <= self.tip.height).then_some(mark.height)
    }
}

/// Opens a directory and something of its store, which comes with the commit that it is at. `open`
/// gets the mark of the last commit, too, which was read before. A store that is at an older commit
/// than one that was synced is [`OpenError::Older`].
pub(super) fn open<T>(
    path: &Path,
    open: impl Fn(&DataDir, Mark) -> Result<(T, Option<LastCommit>), OpenError>,
) -> Result<(DataDir, T), OpenError> {
    let mut attempt = 1;
    loop {
        let mut directory = DataDir::open_to_read(path)?;
        let mark = directory.commit_mark()?;
        match open(&directory, mark) {
            Err(OpenError::Store(StoreError::Backend(_)) | OpenError::Damaged { .. })
                if attempt < ATTEMPTS && directory.writer()?.is_some() =>
            {
                attempt += 1;
            }
            Err(error) => return Err(error),
            Ok((found, commit)) => {
                if let Some(older) = commit.and_then(|commit| directory.older(mark, &commit)) {
                    let path = directory.store_path();
                    return Err(OpenError::Older { path, older });
                }
                // A snapshot is marked before its set is there. So the mark of this set is there
                // now, if not before.
                directory.read_meta_again()?;
                return Ok((directory, found));
            }
        }
    }
}

/// The coins of single outpoints, of one set. It is there at once, whatever the size of the set.
pub struct CoinLookup {
    /// None where there is no store yet.
    coins: Option<Lookup>,
    directory: DataDir,
    /// None for the set as it is.
    past: Option<Past>,
}

impl CoinLookup {
    /// Opens the set of the data directory at `path`.
    ///
    /// # Errors
    /// As [`UtxoSet::open`].
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        let (directory, coins) = open(path, |directory, _| {
            let Some(name) = store_to_read(directory)? else {
                return Ok((None, None));
            };
            let network = directory.chain_id().text();
            let lookup = Lookup::open(&directory.file(name), Some(&network))?;
            let commit = lookup.last_commit();
            Ok((Some(lookup), Some(commit)))
        })?;
        Ok(Self {
            coins,
            directory,
            past: None,
        })
    }

    /// The same as it was, see [`UtxoSet::at`].
    ///
    /// # Errors
    /// [`PastError`].
    pub fn at<'e>(
        self,
        earlier: impl Into<Earlier<'e>>,
        threads: usize,
        stop: &AtomicBool,
        observer: &mut dyn Observer,
    ) -> Result<Self, PastError> {
        let tip = self.tip();
        let helpers = Helpers::start(threads).map_err(OpenError::Threads)?;
        let past = Past::read(&self.directory, &tip, earlier.into(), &helpers, stop, observer)?;
        Ok(Self {
            past: Some(past),
            ..self
        })
    }

    /// The data directory.
    pub fn directory(&self) -> &DataDir {
        &self.directory
    }

    /// See [`UtxoSet::tip`].
    pub fn tip(&self) -> Tip {
        match &self.past {
            Some(past) => past.tip,
            None => {
                let tip = self.coins.as_ref().and_then(Lookup::tip);
                tip.unwrap_or_else(|| self.directory.genesis())
            }
        }
    }

    /// The coin of an outpoint; none if it is spent, or never was.
    ///
    /// # Errors
    /// Any [`StoreError`].
    pub fn get(&self, outpoint: &OutPoint) -> Result<Option<Coin>, StoreError> {
        let now = match &self.coins {
            Some(lookup) => lookup.get(outpoint)?,
            None => None,
        };
        Ok(match &self.past {
            Some(past) => past.coin(outpoint, now),
            None => now,
        })
    }
}
