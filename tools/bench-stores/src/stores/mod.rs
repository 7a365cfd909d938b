//! The stores, each as a [`CoinStore`] and tuned as its makers advise.

mod fjall;
#[cfg(feature = "leveldb")]
mod leveldb;
mod lmdb;
mod redb;
#[cfg(feature = "rocksdb")]
mod rocks;

#[cfg(feature = "leveldb")]
use crate::meter::disk_bytes;
use blockmill_block::reader::DecodeError;
use blockmill_block::{BlockHash, Coin, OutPoint};
use blockmill_coins::store::{KEY_LENGTH, OutpointKey, decode_coin, outpoint_from_key, outpoint_key};
use blockmill_coins::{Changes, CoinIterator, CoinStore, OwnedChange, StoreError, Tip};
use blockmill_store_log::{LogStore, Options};
use clap::ValueEnum;
use std::path::{Path, PathBuf};
use std::sync::mpsc::sync_channel;
use std::thread::available_parallelism;
use std::time::Duration;

/// Name of the network that our own store writes into its file.
const NETWORK: &str = "compare";

/// A store that takes part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// Our `LogStore`. All of its work is done in its commits.
    Log,
    /// redb.
    Redb,
    /// LMDB through `heed`.
    Lmdb,
    /// fjall; a flush is a batch of its journal.
    Fjall,
    /// LevelDB with the options of Bitcoin Core.
    #[cfg(feature = "leveldb")]
    Leveldb,
    /// RocksDB; a flush is a batch of its log.
    #[cfg(feature = "rocksdb")]
    Rocksdb,
    /// RocksDB; a flush is a sorted table, without the log.
    #[cfg(feature = "rocksdb")]
    RocksdbIngest,
}

/// What a store is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// The bulk load: commits come in the order of keys, each above the one before.
    Load,
    /// Everything else.
    Use,
}

/// How a store is opened.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Settings {
    pub(crate) purpose: Purpose,
    /// Memory for the store's own cache of pages or blocks.
    pub(crate) cache_bytes: usize,
    /// Largest number of coins, for a store that must know its size beforehand.
    pub(crate) coins_max: u64,
}

/// A store with the one thing that the trait has no word for.
pub(crate) trait Contestant: CoinStore {
    /// Waits until work in the background has come to rest.
    ///
    /// # Errors
    /// [`StoreError::Backend`].
    fn settle(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

impl Contestant for LogStore {}

impl Kind {
    /// The name on the command line.
    pub(crate) fn name(self) -> String {
        self.to_possible_value()
            .map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// The file in a store's directory that only saves time at an opening.
    pub(crate) fn checkpoint(self, directory: &Path) -> Option<PathBuf> {
        (self == Self::Log).then(|| directory.join("log").join("checkpoint"))
    }

    /// Opens the store in a directory of its own, or makes it.
    pub(crate) fn open(self, directory: &Path, settings: Settings) -> Result<Box<dyn Contestant>, StoreError> {
        std::fs::create_dir_all(directory).map_err(backend)?;
        Ok(match self {
            Self::Log => {
                let options = Options {
                    threads: available_parallelism().map_or(1, usize::from),
                    ..Options::default()
                };
                Box::new(LogStore::open(&directory.join("log"), NETWORK, options)?)
            }
            Self::Redb => Box::new(redb::Redb::open(directory, settings)?),
            Self::Lmdb => Box::new(lmdb::Lmdb::open(directory, settings)?),
            Self::Fjall => Box::new(fjall::Fjall::open(directory, settings)?),
            #[cfg(feature = "leveldb")]
            Self::Leveldb => Box::new(leveldb::LevelDb::open(directory, settings)?),
            #[cfg(feature = "rocksdb")]
            Self::Rocksdb => Box::new(rocks::Rocks::open(directory, settings, false)?),
            #[cfg(feature = "rocksdb")]
            Self::RocksdbIngest => Box::new(rocks::Rocks::open(directory, settings, true)?),
        })
    }
}

fn backend(error: impl std::fmt::Display) -> StoreError {
    StoreError::Backend(error.to_string())
}

/// How long nothing must go on in the background before it counts as at rest.
const REST: Duration = Duration::from_millis(500);
const REST_CHECKS: u32 = 10;

/// The key of the tip where coins and tip share a table: above all keys of coins.
const TIP_KEY: [u8; KEY_LENGTH + 1] = [0xff; KEY_LENGTH + 1];

fn damaged(what: &str, wanted: usize) -> StoreError {
    StoreError::Damaged {
        what: what.to_owned(),
        error: DecodeError::UnexpectedEnd { offset: 0, wanted },
    }
}

fn decode_entry(key: &[u8], value: &[u8]) -> Result<(OutPoint, Coin), StoreError> {
    let outpoint = outpoint_from_key(key.try_into().map_err(|_| damaged("a key", KEY_LENGTH))?);
    Ok((outpoint, decode_coin(&outpoint, value)?))
}

/// Calls `each` with the key of each change, and the value as it is stored or none.
fn visit_encoded<E>(
    changes: &dyn Changes,
    mut each: impl FnMut(&OutpointKey, Option<&[u8]>) -> Result<(), E>,
) -> Result<(), E> {
    let mut value = Vec::new();
    let mut result = Ok(());
    changes.visit_all(&mut |change| {
        if result.is_err() {
            return;
        }
        value.clear();
        let coin = change.coin.map(|coin| {
            coin.write_compressed(&mut value);
            &value[..]
        });
        result = each(&outpoint_key(&change.outpoint), coin);
    });
    result
}

/// No changes: a commit of the tip alone.
const NO_CHANGES: &[OwnedChange] = &[];

fn tip_bytes(tip: &Tip) -> Vec<u8> {
    let mut bytes = tip.hash.0.to_vec();
    bytes.extend(tip.height.to_le_bytes());
    bytes
}

fn decode_tip(bytes: &[u8]) -> Result<Tip, StoreError> {
    let bytes: &[u8; 36] = bytes.try_into().map_err(|_| damaged("the tip", 36))?;
    let mut hash = [0; 32];
    hash.copy_from_slice(&bytes[..32]);
    Ok(Tip {
        hash: BlockHash(hash),
        height: u32::from_le_bytes([bytes[32], bytes[33], bytes[34], bytes[35]]),
    })
}

/// Waits until nothing has gone on in the background for a while.
fn wait_for_rest(mut is_busy: impl FnMut() -> Result<bool, StoreError>) -> Result<(), StoreError> {
    let mut quiet = 0;
    while quiet < REST_CHECKS {
        quiet = if is_busy()? { 0 } else { quiet + 1 };
        std::thread::sleep(REST / REST_CHECKS);
    }
    Ok(())
}

/// CPU time of the whole process between two looks that is too little for work in the background.
#[cfg(feature = "leveldb")]
const QUIET_CPU_SECONDS: f64 = 0.1 * REST.as_millis() as f64 / 1e3 / REST_CHECKS as f64;

/// The same for a store that does not say what it does: waits until the process has used next to no
/// CPU time for a while, and no disk.
#[cfg(feature = "leveldb")]
fn wait_until_quiet() -> Result<(), StoreError> {
    let mut before = None;
    wait_for_rest(|| {
        let now = (blockmill_harness::process_cpu_seconds(), disk_bytes());
        let is_quiet = |before: (f64, u64)| now.0 - before.0 < QUIET_CPU_SECONDS && now.1 == before.1;
        Ok(!before.replace(now).is_some_and(is_quiet))
    })
}

type Entry = Result<(OutPoint, Coin), StoreError>;

/// Entries come through a channel in parts of this many.
const PART_ENTRIES: usize = 1024;

/// Iterates in a thread, for stores whose iterators borrow from them. `iterate` says once that its
/// snapshot stands, then hands over entries until it is told to stop.
fn iterate_in_thread<F>(iterate: F) -> Result<CoinIterator, StoreError>
where
    F: FnOnce(&mut dyn FnMut(), &mut dyn FnMut(Entry) -> bool) + Send + 'static,
{
    let (ready, stands) = sync_channel(1);
    let (sender, receiver) = sync_channel::<Vec<Entry>>(4);
    std::thread::spawn(move || {
        let mut part = Vec::with_capacity(PART_ENTRIES);
        iterate(&mut || ready.send(()).unwrap_or(()), &mut |entry| {
            part.push(entry);
            part.len() < PART_ENTRIES || sender.send(std::mem::take(&mut part)).is_ok()
        });
        sender.send(part).unwrap_or(());
    });
    stands.recv().map_err(backend)?;
    Ok(Box::new(receiver.into_iter().flatten()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use blockmill_block::Txid;

    fn outpoint(number: u32) -> OutPoint {
        OutPoint {
            txid: Txid([(number % 7) as u8; 32]),
            vout: number,
        }
    }

    fn coin(number: u32) -> Coin {
        Coin {
            value: i64::from(number) * 1000,
            height: number,
            is_coinbase: number.is_multiple_of(2),
            script_pubkey: vec![0x51; number as usize % 50].into(),
        }
    }

    fn outpoints(store: &dyn Contestant) -> Vec<OutPoint> {
        store.coins().unwrap().map(|entry| entry.unwrap().0).collect()
    }

    /// The contract of our own stores, after a load and after a restart.
    fn check(kind: Kind) {
        let directory = tempfile::tempdir().unwrap();
        let open = |purpose| {
            let settings = Settings {
                purpose,
                cache_bytes: 1 << 20,
                coins_max: 1000,
            };
            kind.open(directory.path(), settings).unwrap()
        };
        let tip = |height| Tip {
            hash: BlockHash([height as u8; 32]),
            height,
        };
        let mut changes: Vec<OwnedChange> = [0, 1, 255, 256, 16_512, 70_000]
            .map(|number| (outpoint(number), Some(coin(number))))
            .into();
        changes.sort_by_key(|change| change.0);
        let store = open(Purpose::Load);
        assert_eq!(store.tip().unwrap(), None);
        let (lower, upper) = changes.split_at(3);
        store.commit(&lower, &tip(1)).unwrap();
        store.commit(&upper, &tip(2)).unwrap();
        assert_eq!(store.tip().unwrap(), Some(tip(2)));
        drop(store);

        let store = open(Purpose::Use);
        assert_eq!(store.tip().unwrap(), Some(tip(2)));
        let mut found = Vec::new();
        store
            .get_many(&[outpoint(256), outpoint(2), outpoint(0)], &mut found)
            .unwrap();
        assert_eq!(found, [Some(coin(256)), None, Some(coin(0))]);
        let snapshot = store.coins().unwrap();
        let mut later = [
            (outpoint(256), None),
            (outpoint(4), Some(coin(4))),
            (outpoint(999), None),
        ];
        later.sort_by_key(|change: &OwnedChange| change.0);
        store.commit(&later, &tip(3)).unwrap();
        let seen: Vec<_> = snapshot.map(|entry| entry.unwrap().0).collect();
        assert_eq!(seen, changes.iter().map(|change| change.0).collect::<Vec<_>>());
        store.settle().unwrap();
        assert!(store.disk_size().unwrap() > 0);
        drop(store);

        let store = open(Purpose::Use);
        assert_eq!(store.tip().unwrap(), Some(tip(3)));
        assert_eq!(store.get(&outpoint(256)).unwrap(), None);
        assert_eq!(store.get(&outpoint(4)).unwrap(), Some(coin(4)));
        let found = outpoints(store.as_ref());
        assert_eq!(found.len(), changes.len());
        assert!(found.is_sorted());
    }

    #[test]
    fn log() {
        check(Kind::Log);
    }

    #[test]
    fn redb() {
        check(Kind::Redb);
    }

    #[test]
    fn lmdb() {
        check(Kind::Lmdb);
    }

    #[test]
    fn fjall() {
        check(Kind::Fjall);
    }

    #[cfg(feature = "leveldb")]
    #[test]
    fn leveldb() {
        check(Kind::Leveldb);
    }

    #[cfg(feature = "rocksdb")]
    #[test]
    fn rocksdb() {
        check(Kind::Rocksdb);
        check(Kind::RocksdbIngest);
    }
}
