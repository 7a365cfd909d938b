//! The stores, each as a `CoinStore` and tuned as its makers advise.

mod common;
mod fjall;
mod lmdb;
mod redb;

use blockmill_coins::StoreError;
use blockmill_pool::Helpers;
use blockmill_store_log::{LogOptions, LogStore};
use clap::ValueEnum;
use common::backend;
pub(crate) use common::{Contestant, Settings};
use std::path::{Path, PathBuf};
use std::thread::available_parallelism;

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
}

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
                let options = LogOptions {
                    helpers: Helpers::start(available_parallelism().map_or(1, usize::from)).map_err(backend)?,
                    ..LogOptions::default()
                };
                Box::new(LogStore::open(&directory.join("log"), NETWORK, options)?)
            }
            Self::Redb => Box::new(redb::Redb::open(directory, settings)?),
            Self::Lmdb => Box::new(lmdb::Lmdb::open(directory, settings)?),
            Self::Fjall => Box::new(fjall::Fjall::open(directory, settings)?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use blockmill_block::{BlockHash, Coin, OutPoint, Txid};
    use blockmill_coins::{OwnedChange, Tip};

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
        let open = || {
            let settings = Settings {
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
        let store = open();
        assert_eq!(store.tip().unwrap(), None);
        let (lower, upper) = changes.split_at(3);
        store.commit(&lower, &tip(1)).unwrap();
        store.commit(&upper, &tip(2)).unwrap();
        assert_eq!(store.tip().unwrap(), Some(tip(2)));
        drop(store);

        let store = open();
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
        store.wait_until_idle().unwrap();
        assert!(store.disk_size().unwrap() > 0);
        drop(store);

        let store = open();
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
}
