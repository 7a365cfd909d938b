//! fjall: a log-structured merge tree with a journal, in Rust.
//!
//! As its makers advise, and as point reads of a large set want it:
//! - bloom filters on all levels, ten bits a key: absent outpoints are asked for;
//! - index and filters whole in memory, outside of the cache, on all levels: some 2 bytes a coin.
//!   By default only the upper levels have that. Below them each read of a large set took blocks of
//!   a megabyte through the cache;
//! - the whole cache of the given size for blocks of coins;
//! - no compression: values are hashes;
//! - batches persisted with `SyncAll`, since a commit is durable;
//! - ordinary removals. A coin is written once, so weak ones would do, but a coin must never rise.
//!
//! Files are read through the page cache.

use super::common::{Contestant, Settings, backend, decode_entry, decode_tip, tip_bytes, visit_encoded};
use blockmill_block::{Coin, OutPoint};
use blockmill_coins::store::{KEY_LENGTH, decode_coin, outpoint_key};
use blockmill_coins::{Changes, CoinIterator, CoinStore, StoreError, Tip};
use fjall::config::{CompressionPolicy, PartitioningPolicy, PinningPolicy};
use fjall::{CompressionType, Database, Keyspace, KeyspaceCreateOptions, PersistMode, Readable};
use std::path::Path;
use std::time::Duration;

/// The key of the tip, above all keys of coins.
const TIP_KEY: [u8; KEY_LENGTH + 1] = [0xff; KEY_LENGTH + 1];

/// How often in a row the store must be found idle, and the time between two looks.
const IDLE_LOOKS: u32 = 10;
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);

/// Large enough for a flush of a million changes.
const MEMTABLE_BYTES: u64 = 64 << 20;

pub(super) struct Fjall {
    database: Database,
    coins: Keyspace,
}

impl Fjall {
    pub(super) fn open(directory: &Path, settings: Settings) -> Result<Self, StoreError> {
        let database = Database::builder(directory)
            .cache_size(settings.cache_bytes as u64)
            .open()
            .map_err(backend)?;
        let options = || {
            KeyspaceCreateOptions::default()
                .max_memtable_size(MEMTABLE_BYTES)
                .index_block_pinning_policy(PinningPolicy::all(true))
                .filter_block_pinning_policy(PinningPolicy::all(true))
                .index_block_partitioning_policy(PartitioningPolicy::all(false))
                .filter_block_partitioning_policy(PartitioningPolicy::all(false))
                .data_block_compression_policy(CompressionPolicy::all(CompressionType::None))
        };
        let coins = database.keyspace("coins", options).map_err(backend)?;
        Ok(Self { database, coins })
    }
}

impl CoinStore for Fjall {
    fn get(&self, outpoint: &OutPoint) -> Result<Option<Coin>, StoreError> {
        let value = self.coins.get(outpoint_key(outpoint)).map_err(backend)?;
        value.map(|value| decode_coin(outpoint, &value)).transpose()
    }

    fn tip(&self) -> Result<Option<Tip>, StoreError> {
        let value = self.coins.get(TIP_KEY).map_err(backend)?;
        value.map(|value| decode_tip(&value)).transpose()
    }

    fn commit(&self, changes: &dyn Changes, tip: &Tip) -> Result<(), StoreError> {
        let mut batch = self.database.batch().durability(Some(PersistMode::SyncAll));
        visit_encoded(changes, |key, value| {
            match value {
                Some(value) => batch.insert(&self.coins, *key, value),
                None => batch.remove(&self.coins, *key),
            }
            Ok::<_, StoreError>(())
        })?;
        batch.insert(&self.coins, TIP_KEY, tip_bytes(tip));
        batch.commit().map_err(backend)
    }

    fn coins(&self) -> Result<CoinIterator, StoreError> {
        let snapshot = self.database.snapshot();
        let entries = snapshot.iter(&self.coins).filter_map(|entry| match entry.into_inner() {
            // The tip is no coin.
            Ok((key, value)) => (key.len() == KEY_LENGTH).then(|| decode_entry(&key, &value)),
            Err(error) => Some(Err(backend(error))),
        });
        Ok(Box::new(entries))
    }

    fn disk_size(&self) -> Result<u64, StoreError> {
        self.database.disk_space().map_err(backend)
    }
}

impl Contestant for Fjall {
    fn wait_until_idle(&self) -> Result<(), StoreError> {
        let mut idle = 0;
        while idle < IDLE_LOOKS {
            let is_busy = self.database.active_compactions() > 0 || self.database.outstanding_flushes() > 0;
            idle = if is_busy { 0 } else { idle + 1 };
            std::thread::sleep(BETWEEN_LOOKS);
        }
        Ok(())
    }
}
