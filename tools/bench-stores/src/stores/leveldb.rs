//! LevelDB: a log-structured merge tree with a log, in C++; what Bitcoin Core keeps its coins in.
//!
//! The options are Core's (`dbwrapper.cpp`):
//! - a bloom filter of ten bits a key, since absent outpoints are asked for;
//! - no compression: values are hashes;
//! - half of the cache for blocks, a quarter for each of up to two write buffers. Core gives its
//!   coins 8 MiB at most; here LevelDB gets as much as the others;
//! - tables of 32 MiB, so that 50 million coins need fewer than the 1,000 files it keeps mapped;
//! - paranoid checks, and checksums compared in each read;
//! - scans leave the cache alone.
//!
//! What differs from Core:
//! - keys are in the order of the trait, and values are not obfuscated;
//! - a flush is one synced batch. Core writes batches of some MiB without a sync, and repeats
//!   blocks after a crash; the trait demands all or nothing;
//! - Debian's LevelDB has no checksums by instructions of the processor, as Core's has: some
//!   microseconds for each block.

mod binding;

use super::common::{
    Contestant, Settings, TIP_KEY, backend, decode_entry, decode_tip, tip_bytes, visit_encoded, wait_until_quiet,
};
use crate::meter::disk_size;
use binding::{Batch, Database, Entries};
use blockmill_block::{Coin, OutPoint};
use blockmill_coins::store::{KEY_LENGTH, decode_coin, outpoint_key};
use blockmill_coins::{Changes, CoinIterator, CoinStore, StoreError, Tip};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Core's `DBWRAPPER_MAX_FILE_SIZE`.
const FILE_BYTES_MAX: usize = 32 << 20;
const FILTER_BITS: i32 = 10;

pub(super) struct LevelDb {
    directory: PathBuf,
    database: Arc<Database>,
}

impl LevelDb {
    pub(super) fn open(directory: &Path, settings: Settings) -> Result<Self, StoreError> {
        let options = binding::Settings {
            cache_bytes: settings.cache_bytes / 2,
            write_buffer_bytes: settings.cache_bytes / 4,
            file_bytes_max: FILE_BYTES_MAX,
            filter_bits: FILTER_BITS,
        };
        Ok(Self {
            directory: directory.to_owned(),
            database: Arc::new(Database::open(&directory.join("store"), options)?),
        })
    }
}

impl CoinStore for LevelDb {
    fn get(&self, outpoint: &OutPoint) -> Result<Option<Coin>, StoreError> {
        let value = self
            .database
            .get(&outpoint_key(outpoint), |value| decode_coin(outpoint, value))?;
        value.transpose()
    }

    fn tip(&self) -> Result<Option<Tip>, StoreError> {
        self.database.get(&TIP_KEY, decode_tip)?.transpose()
    }

    fn commit(&self, changes: &dyn Changes, tip: &Tip) -> Result<(), StoreError> {
        let mut batch = Batch::new();
        visit_encoded(changes, |key, value| {
            batch.set(key, value);
            Ok::<_, StoreError>(())
        })?;
        batch.set(&TIP_KEY, Some(&tip_bytes(tip)));
        self.database.write(&batch)
    }

    fn coins(&self) -> Result<CoinIterator, StoreError> {
        let mut entries = Entries::new(&self.database);
        let next = move || {
            loop {
                let entry = entries.next(|key, value| (key.len() == KEY_LENGTH).then(|| decode_entry(key, value)))?;
                match entry {
                    Ok(Some(coin)) => return Some(coin),
                    // The tip.
                    Ok(None) => {}
                    Err(error) => return Some(Err(error)),
                }
            }
        };
        Ok(Box::new(std::iter::from_fn(next)))
    }

    fn disk_size(&self) -> Result<u64, StoreError> {
        disk_size(&self.directory).map_err(backend)
    }
}

impl Contestant for LevelDb {
    /// LevelDB does not say whether it compacts, so the process is watched.
    fn settle(&self) -> Result<(), StoreError> {
        wait_until_quiet()
    }
}
