//! A store made for coins: an append-only log, and an index in memory.
//!
//! ```
//! use blockmill_block::{BlockHash, Coin, OutPoint, Txid};
//! use blockmill_coins::{CoinStore, Tip};
//! use blockmill_store_log::{LogStore, Options};
//!
//! let directory = tempfile::tempdir()?;
//! let path = directory.path().join("coins");
//! let outpoint = OutPoint { txid: Txid([7; 32]), vout: 0 };
//! let coin = Coin { value: 5_000, height: 1, is_coinbase: true, script_pubkey: [0x51].into() };
//! let tip = Tip { hash: BlockHash([1; 32]), height: 1 };
//!
//! let store = LogStore::open(&path, "regtest", Options::default())?;
//! store.commit(&[(outpoint, Some(coin.clone()))], &tip)?;
//! drop(store);
//! let store = LogStore::open_to_read(&path, Some("regtest"), Options::default())?;
//! assert_eq!(store.get(&outpoint)?, Some(coin));
//! assert_eq!(store.tip()?, Some(tip));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A coin is written once and removed once. So a commit appends its new coins to the log, and a
//! list of the records that it removes: one *frame*. The index has a word for each coin, 9 bytes
//! with its gaps: a part of a hash, and where the record lies. A look-up reads one page of 4 KiB. A
//! look-up of what is not there reads none.
//!
//! The log alone is the truth. Index and ledger are made from it; a checkpoint saves the time.
//!
//! In reading order:
//! - `page`: pages, records, checksums;
//! - `location`, `words`, `index`: where records lie, and the words that say so;
//! - `segment`: the files;
//! - `ledger`: which records live;
//! - `grouped`: entries by group;
//! - `removals`, `trailer`, `frame`: what a flush writes;
//! - `store`: reading;
//! - `commit`, `garbage`, `writer`: writing;
//! - `checkpoint`, `replay`, `open`: opening;
//! - `scan`, `pieces`: all coins in order;
//! - `lookup`: single coins without the index;
//! - `newest`: the last commit without index and ledger;
//! - `fuzzing`: the inside, for fuzz targets alone.

mod checkpoint;
mod commit;
mod frame;
#[cfg(fuzzing)]
pub mod fuzzing;
mod garbage;
mod grouped;
mod index;
mod ledger;
mod location;
mod lookup;
mod newest;
mod open;
mod page;
mod parallel;
mod pieces;
mod removals;
mod replay;
mod scan;
mod segment;
mod store;
mod trailer;
mod words;
mod writer;

pub use lookup::Lookup;
pub use newest::last_commit;
pub use open::{is_there, network, remove};
pub use store::{LogStore, Opening, Options};

/// The examples of the README compile and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
