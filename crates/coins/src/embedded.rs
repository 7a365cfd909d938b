//! The default store on disk: one file of the embedded database `redb`, a copy-on-write B-tree.
//!
//! Two tables: coins (key: transaction id and index in big endian; value: Core's compressed form), and a few named values
//! (format, network, tip). A commit is one write transaction, synced, so a kill at any moment leaves the state of the last
//! commit, and the next open need not walk the file (`quick repair`).

use crate::store::{Change, CoinIterator, CoinStore, KEY_LENGTH, StoreError, Tip, decode_coin, key, outpoint_of};
use blockmill_block::disk::{Disk, DiskFile, Open, SystemDisk};
use blockmill_block::reader::DecodeError;
use blockmill_block::{BlockHash, Coin, OutPoint};
use redb::{Database, ReadOnlyTable, ReadableDatabase, StorageBackend, TableDefinition, TableError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock};

const COINS: TableDefinition<'_, &[u8; KEY_LENGTH], &[u8]> = TableDefinition::new("coins");
const VALUES: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("values");

/// Version of the tables and of what is in them.
const FORMAT: u32 = 1;

type CoinTable = ReadOnlyTable<&'static [u8; KEY_LENGTH], &'static [u8]>;

/// Coins in a file.
pub struct EmbeddedStore {
    path: PathBuf,
    database: Database,
    /// The coins at the last commit; they can be read while the next one runs.
    table: RwLock<Option<CoinTable>>,
}

fn backend(error: impl Into<redb::Error>) -> StoreError {
    StoreError::Backend(error.into().to_string())
}

/// A file of a disk that is not the system's.
#[derive(Debug)]
struct Backend(Box<dyn DiskFile>);

impl StorageBackend for Backend {
    fn len(&self) -> io::Result<u64> {
        self.0.length()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(out, offset)
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.0.set_length(length)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write_all_at(data, offset)
    }
}

impl EmbeddedStore {
    /// Opens the store in the file at `path`, or makes it. `network` names what the coins belong to (the network, and on
    /// signet its challenge). `cache_bytes` bounds the memory for pages of the file.
    ///
    /// # Errors
    /// [`StoreError::Format`] or [`StoreError::Network`] for a store of another kind, else [`StoreError::Backend`].
    pub fn open(path: &Path, network: &str, cache_bytes: usize) -> Result<Self, StoreError> {
        Self::open_on(&SystemDisk, path, network, cache_bytes)
    }

    /// As [`EmbeddedStore::open`], on a disk of the caller's. Only the system's can keep another process from opening the file.
    ///
    /// # Errors
    /// As for [`EmbeddedStore::open`].
    pub fn open_on(disk: &dyn Disk, path: &Path, network: &str, cache_bytes: usize) -> Result<Self, StoreError> {
        if !path.exists() {
            // A kill in the middle of making the file must not leave half of one under its name.
            let unfinished = path.with_extension("new");
            let renamed = match disk.remove(&unfinished) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => {
                    drop(Self::open_file(disk, &unfinished, network, cache_bytes)?);
                    disk.rename(&unfinished, path).and_then(|()| disk.sync_name(path))
                }
            };
            renamed.map_err(|error| StoreError::Backend(format!("{}: {error}", path.display())))?;
        }
        Self::open_file(disk, path, network, cache_bytes)
    }

    fn open_file(disk: &dyn Disk, path: &Path, network: &str, cache_bytes: usize) -> Result<Self, StoreError> {
        let failed = |error: &dyn std::fmt::Display| StoreError::Backend(format!("{}: {error}", path.display()));
        let mut builder = Database::builder();
        builder.set_cache_size(cache_bytes);
        let opened = if disk.is_system() {
            builder.create(path)
        } else {
            let file = disk.open(path, Open::Keep).map_err(|error| failed(&error))?;
            builder.create_with_backend(Backend(file))
        };
        let database = opened.map_err(|error| failed(&error))?;
        let store = Self {
            path: path.to_owned(),
            database,
            table: RwLock::new(None),
        };
        store.check_marks(network)?;
        store.refresh()?;
        Ok(store)
    }

    /// Compares format and network in an old store, writes them into a new one. An old store is not written to: its last
    /// commit must stay one with the allocator's state, or an open after a kill walks the whole file.
    fn check_marks(&self, network: &str) -> Result<(), StoreError> {
        let read = self.database.begin_read().map_err(backend)?;
        let values = match read.open_table(VALUES) {
            Ok(values) => values,
            Err(TableError::TableDoesNotExist(_)) => return self.write_marks(network),
            Err(error) => return Err(backend(error)),
        };
        let text = |name| -> Result<Vec<u8>, StoreError> {
            let found = values.get(name).map_err(backend)?;
            Ok(found.map_or_else(Vec::new, |value| value.value().to_vec()))
        };
        let format = text("format")?;
        if format != FORMAT.to_le_bytes() {
            return Err(StoreError::Format {
                found: blockmill_block::hex::encode(&format),
                wanted: FORMAT,
            });
        }
        let found = text("network")?;
        if found != network.as_bytes() {
            return Err(StoreError::Network {
                found: String::from_utf8_lossy(&found).into_owned(),
                wanted: network.to_owned(),
            });
        }
        Ok(())
    }

    fn write_marks(&self, network: &str) -> Result<(), StoreError> {
        let mut write = self.database.begin_write().map_err(backend)?;
        write.set_quick_repair(true);
        {
            let mut values = write.open_table(VALUES).map_err(backend)?;
            write.open_table(COINS).map_err(backend)?;
            values.insert("format", &FORMAT.to_le_bytes()[..]).map_err(backend)?;
            values.insert("network", network.as_bytes()).map_err(backend)?;
        }
        write.commit().map_err(backend)
    }

    /// Reads all pages of the file and compares their checksums. Returns whether all are sound; what can be mended then is.
    ///
    /// # Errors
    /// [`StoreError::Backend`].
    pub fn check_pages(&mut self) -> Result<bool, StoreError> {
        // The database must have no reader meanwhile.
        *self.table.write().unwrap_or_else(PoisonError::into_inner) = None;
        let sound = self.database.check_integrity().map_err(backend)?;
        self.refresh()?;
        Ok(sound)
    }

    fn refresh(&self) -> Result<(), StoreError> {
        let read = self.database.begin_read().map_err(backend)?;
        let table = read.open_table(COINS).map_err(backend)?;
        *self.table.write().unwrap_or_else(PoisonError::into_inner) = Some(table);
        Ok(())
    }

    fn write(&self, changes: &mut dyn Iterator<Item = Change>, tip: &Tip) -> Result<(), StoreError> {
        let mut write = self.database.begin_write().map_err(backend)?;
        write.set_quick_repair(true);
        {
            let mut coins = write.open_table(COINS).map_err(backend)?;
            let mut value = Vec::new();
            for (outpoint, coin) in changes {
                match coin {
                    Some(coin) => {
                        value.clear();
                        coin.write_compressed(&mut value);
                        coins.insert(&key(&outpoint), &value[..]).map_err(backend)?;
                    }
                    None => {
                        coins.remove(&key(&outpoint)).map_err(backend)?;
                    }
                }
            }
            let mut values = write.open_table(VALUES).map_err(backend)?;
            let mut bytes = tip.hash.0.to_vec();
            bytes.extend(tip.height.to_le_bytes());
            values.insert("tip", &bytes[..]).map_err(backend)?;
        }
        write.commit().map_err(backend)
    }
}

impl CoinStore for EmbeddedStore {
    fn get(&self, outpoint: &OutPoint) -> Result<Option<Coin>, StoreError> {
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        let Some(table) = table.as_ref() else {
            return Err(StoreError::Backend("the last commit failed".to_owned()));
        };
        match table.get(&key(outpoint)).map_err(backend)? {
            Some(value) => decode_coin(outpoint, value.value()).map(Some),
            None => Ok(None),
        }
    }

    fn tip(&self) -> Result<Option<Tip>, StoreError> {
        let read = self.database.begin_read().map_err(backend)?;
        let values = read.open_table(VALUES).map_err(backend)?;
        let Some(value) = values.get("tip").map_err(backend)? else {
            return Ok(None);
        };
        let bytes: [u8; 36] = value.value().try_into().map_err(|_| StoreError::Damaged {
            what: "the tip".to_owned(),
            error: DecodeError::UnexpectedEnd { offset: 0, wanted: 36 },
        })?;
        let mut hash = [0; 32];
        hash.copy_from_slice(&bytes[..32]);
        Ok(Some(Tip {
            hash: BlockHash(hash),
            height: u32::from_le_bytes([bytes[32], bytes[33], bytes[34], bytes[35]]),
        }))
    }

    fn commit(&self, changes: &mut dyn Iterator<Item = Change>, tip: &Tip) -> Result<(), StoreError> {
        self.write(changes, tip)?;
        self.refresh()
    }

    fn coins(&self) -> Result<CoinIterator, StoreError> {
        let read = self.database.begin_read().map_err(backend)?;
        let table = read.open_table(COINS).map_err(backend)?;
        let range = table.range::<&[u8; KEY_LENGTH]>(..).map_err(backend)?;
        Ok(Box::new(range.map(|entry| {
            let (key, value) = entry.map_err(backend)?;
            let outpoint = outpoint_of(key.value());
            let coin = decode_coin(&outpoint, value.value())?;
            Ok((outpoint, coin))
        })))
    }

    fn disk_size(&self) -> Result<u64, StoreError> {
        std::fs::metadata(&self.path)
            .map(|metadata| metadata.len())
            .map_err(|error| StoreError::Backend(format!("{}: {error}", self.path.display())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_kept_and_compared() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("coins");
        let open = |network| EmbeddedStore::open(&path, network, 1 << 20);
        let tip = Tip {
            hash: BlockHash([5; 32]),
            height: 77,
        };
        let store = open("regtest").unwrap();
        assert_eq!(store.tip().unwrap(), None);
        store.commit(&mut std::iter::empty(), &tip).unwrap();
        drop(store);
        assert_eq!(open("regtest").unwrap().tip().unwrap(), Some(tip));
        assert!(matches!(open("bitcoin"), Err(StoreError::Network { found, .. }) if found == "regtest"));
    }

    #[test]
    fn another_format_and_another_file_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("coins");
        let store = EmbeddedStore::open(&path, "regtest", 1 << 20).unwrap();
        let write = store.database.begin_write().unwrap();
        write
            .open_table(VALUES)
            .unwrap()
            .insert("format", &[9, 0, 0, 0][..])
            .unwrap();
        write.commit().unwrap();
        drop(store);
        assert!(matches!(
            EmbeddedStore::open(&path, "regtest", 1 << 20),
            Err(StoreError::Format { .. })
        ));
        std::fs::write(&path, [7; 10_000]).unwrap();
        assert!(matches!(
            EmbeddedStore::open(&path, "regtest", 1 << 20),
            Err(StoreError::Backend(_))
        ));
    }

    #[test]
    fn after_a_kill_the_file_is_not_walked() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("coins");
        let tip = Tip {
            hash: BlockHash([5; 32]),
            height: 77,
        };
        let store = EmbeddedStore::open(&path, "regtest", 1 << 20).unwrap();
        store.commit(&mut std::iter::empty(), &tip).unwrap();
        drop(store);
        // What a kill leaves after an open, and in the middle of the first commit after it.
        let store = EmbeddedStore::open(&path, "regtest", 1 << 20).unwrap();
        let check = |name: &str| {
            let copy = directory.path().join(name);
            std::fs::copy(&path, &copy).unwrap();
            let mut builder = Database::builder();
            builder.set_repair_callback(redb::RepairSession::abort);
            builder.open(&copy).unwrap();
            assert_eq!(
                EmbeddedStore::open(&copy, "regtest", 1 << 20).unwrap().tip().unwrap(),
                Some(tip)
            );
        };
        check("opened");
        let write = store.database.begin_write().unwrap();
        let mut values = write.open_table(VALUES).unwrap();
        values.insert("tip", &[0; 36][..]).unwrap();
        check("writing");
    }
}
