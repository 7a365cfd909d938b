//! redb: a copy-on-write B-tree in one file.
//!
//! A commit is one durable transaction with its quick repair: it writes the state of the allocator,
//! too, so that an opening after a kill need not walk the file. It has a cache of its own.

use super::common::{Contestant, Settings, backend, decode_entry, decode_tip, tip_bytes, visit_encoded};
use blockmill_block::{Coin, OutPoint};
use blockmill_coins::store::{OutpointKey, decode_coin, outpoint_key};
use blockmill_coins::{Changes, CoinIterator, CoinStore, StoreError, Tip};
use redb::{Database, ReadOnlyTable, ReadableDatabase, TableDefinition};
use std::path::{Path, PathBuf};

const COINS: TableDefinition<'_, &OutpointKey, &[u8]> = TableDefinition::new("coins");
const VALUES: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("values");

pub(super) struct Redb {
    path: PathBuf,
    database: Database,
}

impl Redb {
    pub(super) fn open(directory: &Path, settings: Settings) -> Result<Self, StoreError> {
        let path = directory.join("coins.redb");
        let mut builder = Database::builder();
        builder.set_cache_size(settings.cache_bytes);
        let database = builder.create(&path).map_err(backend)?;
        let store = Self { path, database };
        if store.tip().is_err() {
            // A new file has no tables.
            store.write(|_| Ok(()))?;
        }
        Ok(store)
    }

    /// Runs one write transaction, in which both tables are made where they are missing.
    fn write(&self, work: impl FnOnce(&mut Tables<'_>) -> Result<(), redb::Error>) -> Result<(), StoreError> {
        let write = || -> Result<(), redb::Error> {
            let mut transaction = self.database.begin_write()?;
            // Without it an opening after a kill walks the whole file.
            transaction.set_quick_repair(true);
            work(&mut Tables {
                coins: transaction.open_table(COINS)?,
                values: transaction.open_table(VALUES)?,
            })?;
            Ok(transaction.commit()?)
        };
        write().map_err(backend)
    }

    fn coin_table(&self) -> Result<ReadOnlyTable<&'static OutpointKey, &'static [u8]>, StoreError> {
        let read = self.database.begin_read().map_err(backend)?;
        read.open_table(COINS).map_err(backend)
    }
}

/// The tables of a write transaction.
struct Tables<'t> {
    coins: redb::Table<'t, &'static OutpointKey, &'static [u8]>,
    values: redb::Table<'t, &'static str, &'static [u8]>,
}

impl CoinStore for Redb {
    fn get(&self, outpoint: &OutPoint) -> Result<Option<Coin>, StoreError> {
        let mut coins = Vec::with_capacity(1);
        self.get_many(&[*outpoint], &mut coins)?;
        Ok(coins.pop().flatten())
    }

    fn get_many(&self, outpoints: &[OutPoint], coins: &mut Vec<Option<Coin>>) -> Result<(), StoreError> {
        let table = self.coin_table()?;
        for outpoint in outpoints {
            let value = table.get(&outpoint_key(outpoint)).map_err(backend)?;
            coins.push(value.map(|value| decode_coin(outpoint, value.value())).transpose()?);
        }
        Ok(())
    }

    fn tip(&self) -> Result<Option<Tip>, StoreError> {
        let read = self.database.begin_read().map_err(backend)?;
        let values = read.open_table(VALUES).map_err(backend)?;
        let value = values.get("tip").map_err(backend)?;
        value.map(|value| decode_tip(value.value())).transpose()
    }

    fn commit(&self, changes: &dyn Changes, tip: &Tip) -> Result<(), StoreError> {
        self.write(|tables| {
            visit_encoded(changes, |key, value| match value {
                Some(value) => tables.coins.insert(key, value).map(|_| ()),
                None => tables.coins.remove(key).map(|_| ()),
            })?;
            tables.values.insert("tip", &tip_bytes(tip)[..])?;
            Ok(())
        })
    }

    fn coins(&self) -> Result<CoinIterator, StoreError> {
        let range = self.coin_table()?.range::<&OutpointKey>(..).map_err(backend)?;
        Ok(Box::new(range.map(|entry| {
            let (key, value) = entry.map_err(backend)?;
            decode_entry(key.value(), value.value())
        })))
    }

    fn disk_size(&self) -> Result<u64, StoreError> {
        Ok(std::fs::metadata(&self.path).map_err(backend)?.len())
    }
}

impl Contestant for Redb {}
