//! A store on disk: one file of the embedded database `redb`, a copy-on-write B-tree.
//!
//! ```
//! use blockmill_block::{BlockHash, Coin, OutPoint, Txid};
//! use blockmill_coins::{CoinStore, Tip};
//! use blockmill_store_redb::RedbStore;
//!
//! let directory = tempfile::tempdir()?;
//! let path = directory.path().join("coins.redb");
//! let outpoint = OutPoint { txid: Txid([7; 32]), vout: 0 };
//! let coin = Coin { value: 5_000, height: 1, is_coinbase: true, script_pubkey: [0x51].into() };
//! let tip = Tip { hash: BlockHash([1; 32]), height: 1 };
//!
//! let store = RedbStore::open(&path, "regtest", 16 << 20)?;
//! store.commit(&[(outpoint, Some(coin.clone()))], &tip)?;
//! drop(store);
//! let store = RedbStore::open_to_read(&path, Some("regtest"), 16 << 20)?;
//! assert_eq!(store.get(&outpoint)?, Some(coin));
//! assert_eq!(store.tip()?, Some(tip));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The file has two tables. One has the coins (key: transaction id and index in big endian; value:
//! Core's compressed form). The other has a few named values (format, network, identity, tip). A
//! commit is one write transaction, synced. So a kill at any moment leaves the state of the last
//! commit, and the next open need not walk the file (`quick repair`).
//!
//! # Damaged files
//!
//! redb checks its pages only when [`check_pages`](RedbStore::check_pages) asks for it, not when it
//! reads them. On a damaged page it returns an error, panics, or returns other coins than were
//! stored. So every call of redb goes through one function, `contained`, which turns a panic into
//! an error that [is corruption](StoreError::is_corruption). After a panic the store refuses
//! every call, and writes nothing more, not even when it is closed.

mod contain;
#[cfg(test)]
mod tests;
mod view;

pub use contain::is_panic_contained;

use blockmill_block::reader::DecodeError;
use blockmill_block::{BlockHash, Coin, OutPoint};
use blockmill_blockfiles::disk::{Disk, DiskFile, Open, SystemDisk};
use blockmill_coins::store::{OutpointKey, decode_coin, outpoint_from_key, outpoint_key};
use blockmill_coins::{Change, Changes, CoinIterator, CoinStore, LastCommit, StoreError, Tip};
use contain::{Contained, contained, contained_again, pass_through};
use redb::{
    Database, ReadOnlyTable, ReadableDatabase, ReadableTable, ReadableTableMetadata, StorageBackend, TableDefinition,
};
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{OnceLock, PoisonError, RwLock};
use view::View;

/// The examples of the README compile and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

const COINS: TableDefinition<'_, &OutpointKey, &[u8]> = TableDefinition::new("coins");
const VALUES: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("values");

/// The value that tells stores apart.
const IDENTITY: &str = "identity";

/// Version of the tables and their content.
const FORMAT: u32 = 1;

type CoinTable = ReadOnlyTable<&'static OutpointKey, &'static [u8]>;
type CoinRange = redb::Range<'static, &'static OutpointKey, &'static [u8]>;

/// Coins in a file of redb.
pub struct RedbStore {
    path: PathBuf,
    /// The network that the file belongs to.
    network: String,
    database: Contained<Database>,
    /// Whether the file is never written.
    is_view: bool,
    /// The coins at the last commit. They can be read while the next commit runs.
    table: RwLock<Option<Contained<CoinTable>>>,
    /// The message of redb's first panic.
    panicked: OnceLock<String>,
}

/// Random bytes for a new store. Nobody has to be kept from guessing them.
fn new_identity() -> [u8; 16] {
    let mut identity = [0; 16];
    for half in identity.as_chunks_mut::<8>().0 {
        *half = RandomState::new().hash_one(0u8).to_le_bytes();
    }
    identity
}

/// Maps an error of redb: the file is damaged, or cannot be read or written.
fn failed(path: &Path, error: redb::Error) -> StoreError {
    use redb::Error as Redb;
    let text = format!("{}: {error}", path.display());
    match error {
        Redb::Io(error) => io_failed(path, error),
        Redb::Corrupted(_)
        | Redb::UpgradeRequired(_)
        | Redb::RepairAborted
        | Redb::TableTypeMismatch { .. }
        | Redb::TableIsMultimap(_)
        | Redb::TableIsNotMultimap(_)
        | Redb::TableDoesNotExist(_)
        | Redb::TypeDefinitionChanged { .. } => StoreError::Corrupt(text),
        _ => StoreError::Backend(text),
    }
}

/// Maps an error of the file. A file that ends early, or an offset that no file has, is damage.
fn io_failed(path: &Path, error: io::Error) -> StoreError {
    let text = format!("{}: {error}", path.display());
    match error.kind() {
        ErrorKind::InvalidData | ErrorKind::InvalidInput | ErrorKind::UnexpectedEof => StoreError::Corrupt(text),
        _ => StoreError::Backend(text),
    }
}

fn panicked(path: &Path, message: &str) -> StoreError {
    StoreError::Corrupt(format!("{}: damaged: redb cannot read it: {message}", path.display()))
}

/// Calls redb on a file.
fn call<R>(path: &Path, work: impl FnOnce() -> Result<R, redb::Error>) -> Result<R, StoreError> {
    match contained(work) {
        Ok(done) => done.map_err(|error| failed(path, error)),
        Err(message) => Err(panicked(path, &message)),
    }
}

/// Whether a store exists at a path. Any directory entry of this name counts, even a link to a disk
/// that is not mounted: then no new store may be created.
///
/// # Errors
/// [`StoreError::Backend`] if the entry cannot be examined or is not a file;
/// [`StoreError::Corrupt`] if the file is empty, which a store never is.
pub fn is_there(path: &Path) -> Result<bool, StoreError> {
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        found => found.map_err(|error| io_failed(path, error))?,
    };
    let metadata = std::fs::metadata(path).map_err(|error| match error.kind() {
        ErrorKind::NotFound => StoreError::Backend(format!(
            "{}: a symbolic link to a file that does not exist",
            path.display()
        )),
        _ => io_failed(path, error),
    })?;
    if !metadata.is_file() {
        return Err(StoreError::Backend(format!("{}: not a file", path.display())));
    }
    if metadata.len() == 0 {
        return Err(StoreError::Corrupt(format!("{}: the file is empty", path.display())));
    }
    Ok(true)
}

/// A file of the caller's disk.
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

impl RedbStore {
    /// Opens the store in the file at `path`, or creates it. `network` names the network of the
    /// coins, on signet with its challenge. `cache_bytes` bounds the memory for pages of the file.
    ///
    /// # Errors
    /// [`StoreError::Format`] or [`StoreError::Network`] for a store of another kind,
    /// [`StoreError::Corrupt`] for a damaged store, else [`StoreError::Backend`].
    pub fn open(path: &Path, network: &str, cache_bytes: usize) -> Result<Self, StoreError> {
        Self::open_on(&SystemDisk, path, network, cache_bytes)
    }

    /// As [`RedbStore::open`], on the caller's disk. Only the system's disk keeps another process
    /// from opening the file.
    ///
    /// # Errors
    /// As [`RedbStore::open`].
    pub fn open_on(disk: &dyn Disk, path: &Path, network: &str, cache_bytes: usize) -> Result<Self, StoreError> {
        if !is_there(path)? {
            // A kill during the creation must not leave half a file under the final name.
            let unfinished = path.with_extension("new");
            let renamed = match disk.remove(&unfinished) {
                Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
                _ => {
                    let new = Self::with_database(&unfinished, Self::open_file(disk, &unfinished, cache_bytes)?);
                    new.write_format_and_network(network)?;
                    drop(new);
                    disk.rename(&unfinished, path).and_then(|()| disk.sync_name(path))
                }
            };
            renamed.map_err(|error| io_failed(path, error))?;
        }
        let store = Self::with_database(path, Self::open_file(disk, path, cache_bytes)?);
        store.with_checked_network(Some(network))
    }

    /// Opens the existing store in the file at `path` for reading. The file is not changed, and
    /// need not be writable. Commits stay in memory. Without a `network` every network is accepted.
    ///
    /// # Errors
    /// As [`RedbStore::open`].
    pub fn open_to_read(path: &Path, network: Option<&str>, cache_bytes: usize) -> Result<Self, StoreError> {
        if !is_there(path)? {
            return Err(StoreError::Backend(format!("{}: no such file", path.display())));
        }
        let view = File::open(path).and_then(|file| View::new(Box::new(file)));
        let view = view.map_err(|error| io_failed(path, error))?;
        let mut builder = Database::builder();
        builder.set_cache_size(cache_bytes);
        let database = call(path, || Ok(builder.create_with_backend(view)?))?;
        let mut store = Self::with_database(path, database);
        store.is_view = true;
        store.with_checked_network(network)
    }

    fn open_file(disk: &dyn Disk, path: &Path, cache_bytes: usize) -> Result<Database, StoreError> {
        let mut builder = Database::builder();
        builder.set_cache_size(cache_bytes);
        if disk.is_system() {
            call(path, || Ok(builder.create(path)?))
        } else {
            let file = disk.open(path, Open::Keep).map_err(|error| io_failed(path, error))?;
            call(path, || Ok(builder.create_with_backend(Backend(file))?))
        }
    }

    fn with_database(path: &Path, database: Database) -> Self {
        Self {
            path: path.to_owned(),
            network: String::new(),
            database: Contained::new(database),
            is_view: false,
            table: RwLock::new(None),
            panicked: OnceLock::new(),
        }
    }

    /// Fails after a panic.
    fn check_usable(&self) -> Result<(), StoreError> {
        match self.panicked.get() {
            Some(message) => Err(panicked(&self.path, message)),
            None => Ok(()),
        }
    }

    /// Calls redb on the database.
    fn call<R>(&self, work: impl FnOnce() -> Result<R, redb::Error>) -> Result<R, StoreError> {
        self.check_usable()?;
        self.note_panic(contained(work))
    }

    /// Maps the outcome of a contained call, and keeps the message of a panic.
    fn note_panic<R>(&self, outcome: Result<Result<R, redb::Error>, String>) -> Result<R, StoreError> {
        outcome
            .map_err(|message| {
                let error = panicked(&self.path, &message);
                let _ = self.panicked.set(message);
                error
            })?
            .map_err(|error| failed(&self.path, error))
    }

    /// Compares format and network of an existing store, and opens the table of coins. Writes
    /// nothing: the last commit must stay one with the allocator's state, or an open after a kill
    /// walks the whole file.
    fn with_checked_network(mut self, network: Option<&str>) -> Result<Self, StoreError> {
        let (format, found) = self.call(|| {
            let values = self.database.begin_read()?.open_table(VALUES)?;
            let text = |name| -> Result<Vec<u8>, redb::Error> {
                Ok(values.get(name)?.map_or_else(Vec::new, |value| value.value().to_vec()))
            };
            Ok((text("format")?, text("network")?))
        })?;
        if format != FORMAT.to_le_bytes() {
            return Err(StoreError::Format {
                found: blockmill_block::hex::encode(&format),
                wanted: FORMAT,
            });
        }
        self.network = String::from_utf8_lossy(&found).into_owned();
        if let Some(wanted) = network.filter(|wanted| wanted.as_bytes() != found) {
            return Err(StoreError::Network {
                found: self.network.clone(),
                wanted: wanted.to_owned(),
            });
        }
        self.refresh()?;
        Ok(self)
    }

    /// Writes format and network into a new store.
    fn write_format_and_network(&self, network: &str) -> Result<(), StoreError> {
        self.call(|| {
            let mut write = self.database.begin_write()?;
            write.set_quick_repair(true);
            {
                let mut values = write.open_table(VALUES)?;
                write.open_table(COINS)?;
                values.insert("format", &FORMAT.to_le_bytes()[..])?;
                values.insert("network", network.as_bytes())?;
                values.insert(IDENTITY, &new_identity()[..])?;
            }
            Ok(write.commit()?)
        })
    }

    /// The network of the store, on signet with its challenge.
    pub fn network(&self) -> &str {
        &self.network
    }

    /// Reads all pages of the file and compares their checksums. Returns whether all are sound. If
    /// not, redb repairs what it can.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`], [`StoreError::Backend`].
    pub fn check_pages(&mut self) -> Result<bool, StoreError> {
        // The database must have no reader meanwhile.
        *self.table.write().unwrap_or_else(PoisonError::into_inner) = None;
        self.check_usable()?;
        let Some(database) = self.database.get_mut() else {
            return Ok(false);
        };
        let checked = contained(|| Ok(database.check_integrity()?));
        let sound = self.note_panic(checked)?;
        self.refresh()?;
        Ok(sound)
    }

    fn refresh(&self) -> Result<(), StoreError> {
        let table = self.call(|| Ok(self.database.begin_read()?.open_table(COINS)?))?;
        *self.table.write().unwrap_or_else(PoisonError::into_inner) = Some(Contained::new(table));
        Ok(())
    }

    fn write(&self, changes: &dyn Changes, tip: &Tip) -> Result<(), StoreError> {
        self.call(|| {
            let mut write = self.database.begin_write()?;
            write.set_quick_repair(true);
            {
                let mut coins = write.open_table(COINS)?;
                let mut value = Vec::new();
                let mut change = |change: Change<'_>| -> Result<(), redb::Error> {
                    let key = outpoint_key(&change.outpoint);
                    match change.coin {
                        Some(coin) => {
                            value.clear();
                            coin.write_compressed(&mut value);
                            coins.insert(&key, &value[..])?;
                        }
                        None => {
                            coins.remove(&key)?;
                        }
                    }
                    Ok(())
                };
                let mut outcome = Ok(());
                let mut each = |one: Change<'_>| {
                    if outcome.is_ok() {
                        outcome = contained_again(|| change(one));
                    }
                };
                pass_through(|| changes.visit_all(&mut each));
                outcome?;
                let mut values = write.open_table(VALUES)?;
                // An earlier version made a store without one.
                if values.get(IDENTITY)?.is_none() {
                    values.insert(IDENTITY, &new_identity()[..])?;
                }
                let mut bytes = tip.hash.0.to_vec();
                bytes.extend(tip.height.to_le_bytes());
                values.insert("tip", &bytes[..])?;
                let number = values.get("commits")?.map_or(0, |value| number_of(value.value()));
                let number = number.saturating_add(1);
                values.insert("commits", &number.to_le_bytes()[..])?;
            }
            Ok(write.commit()?)
        })
    }
}

impl Drop for RedbStore {
    fn drop(&mut self) {
        // Closing the database writes the state of its allocator, for the next open.
        if self.is_view || self.panicked.get().is_some() {
            self.database.abandon();
        }
    }
}

impl CoinStore for RedbStore {
    fn get(&self, outpoint: &OutPoint) -> Result<Option<Coin>, StoreError> {
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        let Some(table) = table.as_ref() else {
            return Err(StoreError::Backend(format!(
                "{}: the last commit failed",
                self.path.display()
            )));
        };
        let found = self.call(|| {
            let value = table.get(&outpoint_key(outpoint))?;
            Ok(value.map(|value| decode_coin(outpoint, value.value())))
        })?;
        found.transpose()
    }

    fn tip(&self) -> Result<Option<Tip>, StoreError> {
        let found = self.call(|| {
            let values = self.database.begin_read()?.open_table(VALUES)?;
            Ok(values.get("tip")?.map(|value| value.value().to_vec()))
        })?;
        let Some(value) = found else {
            return Ok(None);
        };
        let bytes: [u8; 36] = value.try_into().map_err(|_| StoreError::Damaged {
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

    fn identity(&self) -> Result<Option<[u8; 16]>, StoreError> {
        self.call(|| {
            let values = self.database.begin_read()?.open_table(VALUES)?;
            let identity = values.get(IDENTITY)?;
            Ok(identity.and_then(|identity| identity.value().try_into().ok()))
        })
    }

    fn last_commit(&self) -> Result<Option<LastCommit>, StoreError> {
        let (number, coins) = self.call(|| {
            let read = self.database.begin_read()?;
            let value = read.open_table(VALUES)?.get("commits")?;
            let number = value.map_or(0, |value| number_of(value.value()));
            Ok((number, read.open_table(COINS)?.len()?))
        })?;
        Ok(Some(LastCommit {
            store: self.identity()?.unwrap_or_default(),
            number,
            end: 0,
            tip: self.tip()?,
            coins,
        }))
    }

    fn commit(&self, changes: &dyn Changes, tip: &Tip) -> Result<(), StoreError> {
        self.write(changes, tip)?;
        self.refresh()
    }

    fn coins(&self) -> Result<CoinIterator, StoreError> {
        let range = self.call(|| {
            let table = self.database.begin_read()?.open_table(COINS)?;
            Ok(table.range::<&OutpointKey>(..)?)
        })?;
        Ok(Box::new(Coins {
            path: self.path.clone(),
            range: Some(Contained::new(range)),
            previous: None,
        }))
    }

    fn disk_size(&self) -> Result<u64, StoreError> {
        std::fs::metadata(&self.path)
            .map(|metadata| metadata.len())
            .map_err(|error| io_failed(&self.path, error))
    }
}

/// The number of a commit, as it is stored. A file from before commits were counted has none.
fn number_of(value: &[u8]) -> u64 {
    value.try_into().map_or(0, u64::from_le_bytes)
}

/// All coins of a store.
struct Coins {
    path: PathBuf,
    /// None after an error of the file.
    range: Option<Contained<CoinRange>>,
    previous: Option<OutpointKey>,
}

impl Iterator for Coins {
    type Item = Result<(OutPoint, Coin), StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        let range = self.range.as_mut()?.get_mut()?;
        let found = call(&self.path, || {
            let entry = range.next().transpose()?;
            Ok(entry.map(|(key, value)| {
                let outpoint = outpoint_from_key(key.value());
                (*key.value(), outpoint, decode_coin(&outpoint, value.value()))
            }))
        });
        match found {
            // With keys out of order the iteration might never end.
            Ok(Some((key, outpoint, _))) if self.previous.is_some_and(|previous| previous >= key) => {
                self.range = None;
                let text = format!("{}: coin {outpoint} is out of order", self.path.display());
                Some(Err(StoreError::Corrupt(text)))
            }
            Ok(found) => {
                let (key, outpoint, coin) = found?;
                self.previous = Some(key);
                Some(coin.map(|coin| (outpoint, coin)))
            }
            Err(error) => {
                self.range = None;
                Some(Err(error))
            }
        }
    }
}
