//! LMDB: a copy-on-write B-tree in one mapped file, through `heed`.
//!
//! As its makers advise: durable commits (neither `MDB_NOSYNC` nor `MDB_NOMETASYNC`), `MDB_APPEND`
//! for the sorted load, `MDB_NORDAHEAD` since a full set is larger than memory, a map that is large
//! enough beforehand, one read transaction for a batch of reads. It has no cache of its own.

use super::common::{Contestant, Settings, backend, decode_entry, decode_tip, tip_bytes, visit_encoded};
use blockmill_block::{Coin, OutPoint};
use blockmill_coins::store::{decode_coin, outpoint_key};
use blockmill_coins::{Changes, CoinIterator, CoinStore, StoreError, Tip};
use heed::types::Bytes;
use heed::{Database, Env, EnvFlags, EnvOpenOptions, PutFlags, WithoutTls};
use std::path::Path;
use std::sync::mpsc::sync_channel;

/// Address space set aside for each coin: pages half full, and free ones of many large commits. The
/// file grows only as far as it is used.
const MAP_BYTES_PER_COIN: u64 = 1 << 10;
const MAP_BYTES_MIN: u64 = 1 << 30;

/// Entries of an iterator come in parts of this many.
const PART_ENTRIES: usize = 1024;

type Table = Database<Bytes, Bytes>;

pub(super) struct Lmdb {
    environment: Env<WithoutTls>,
    coins: Table,
    values: Table,
    append: bool,
}

impl Lmdb {
    pub(super) fn open(directory: &Path, settings: Settings) -> Result<Self, StoreError> {
        let map_bytes = MAP_BYTES_MIN + settings.coins_max * MAP_BYTES_PER_COIN;
        let mut options = EnvOpenOptions::new().read_txn_without_tls();
        options.map_size(map_bytes as usize).max_dbs(2);
        #[expect(unsafe_code, reason = "LMDB maps its file, and hands out references into the map")]
        // SAFETY: NO_READ_AHEAD is not one of the flags that weaken locks or syncs. The directory
        // is made by this program for this one store on a local disk; only processes of this
        // program open it, one at a time, and nothing else writes the file while it is mapped.
        let environment = unsafe {
            options.flags(EnvFlags::NO_READ_AHEAD);
            options.open(directory)
        };
        let environment = environment.map_err(backend)?;
        let mut transaction = environment.write_txn().map_err(backend)?;
        let mut table = |name| {
            environment
                .create_database(&mut transaction, Some(name))
                .map_err(backend)
        };
        let (coins, values): (Table, Table) = (table("coins")?, table("values")?);
        // A load begins with an empty store, and its commits come in the order of keys.
        let append = coins.is_empty(&transaction).map_err(backend)?;
        transaction.commit().map_err(backend)?;
        Ok(Self {
            environment,
            coins,
            values,
            append,
        })
    }
}

impl CoinStore for Lmdb {
    fn get(&self, outpoint: &OutPoint) -> Result<Option<Coin>, StoreError> {
        let mut coins = Vec::with_capacity(1);
        self.get_many(&[*outpoint], &mut coins)?;
        Ok(coins.pop().flatten())
    }

    fn get_many(&self, outpoints: &[OutPoint], coins: &mut Vec<Option<Coin>>) -> Result<(), StoreError> {
        let transaction = self.environment.read_txn().map_err(backend)?;
        for outpoint in outpoints {
            let value = self.coins.get(&transaction, &outpoint_key(outpoint)).map_err(backend)?;
            coins.push(value.map(|value| decode_coin(outpoint, value)).transpose()?);
        }
        Ok(())
    }

    fn tip(&self) -> Result<Option<Tip>, StoreError> {
        let transaction = self.environment.read_txn().map_err(backend)?;
        let value = self.values.get(&transaction, b"tip").map_err(backend)?;
        value.map(decode_tip).transpose()
    }

    fn commit(&self, changes: &dyn Changes, tip: &Tip) -> Result<(), StoreError> {
        let mut transaction = self.environment.write_txn().map_err(backend)?;
        let flags = if self.append {
            PutFlags::APPEND
        } else {
            PutFlags::empty()
        };
        visit_encoded(changes, |key, value| match value {
            Some(value) => self.coins.put_with_flags(&mut transaction, flags, key, value),
            None => self.coins.delete(&mut transaction, key).map(|_| ()),
        })
        .map_err(backend)?;
        self.values
            .put(&mut transaction, b"tip", &tip_bytes(tip))
            .map_err(backend)?;
        transaction.commit().map_err(backend)
    }

    fn coins(&self) -> Result<CoinIterator, StoreError> {
        // An iterator borrows from its transaction, so a thread has both.
        let (environment, coins) = (self.environment.clone(), self.coins);
        let (begun, has_begun) = sync_channel(1);
        let (sender, receiver) = sync_channel(4);
        std::thread::spawn(move || {
            let transaction = environment.read_txn();
            // The set is that of this moment, whatever is committed from now on.
            begun.send(()).unwrap_or(());
            let all = || -> Result<(), heed::Error> {
                let transaction = transaction?;
                let mut part = Vec::with_capacity(PART_ENTRIES);
                for entry in coins.iter(&transaction)? {
                    let (key, value) = entry?;
                    part.push(decode_entry(key, value));
                    // Nobody takes entries any more.
                    if part.len() == PART_ENTRIES && sender.send(std::mem::take(&mut part)).is_err() {
                        return Ok(());
                    }
                }
                sender.send(part).unwrap_or(());
                Ok(())
            };
            if let Err(error) = all() {
                sender.send(vec![Err(backend(error))]).unwrap_or(());
            }
        });
        has_begun.recv().map_err(backend)?;
        Ok(Box::new(receiver.into_iter().flatten()))
    }

    fn disk_size(&self) -> Result<u64, StoreError> {
        self.environment.real_disk_size().map_err(backend)
    }
}

impl Contestant for Lmdb {}
