//! A store made for coins: an append-only log, and an index in memory.
//!
//! ```
//! use blockmill_block::{BlockHash, Coin, OutPoint, Txid};
//! use blockmill_coins::{CoinStore, Tip};
//! use blockmill_store_log::{LogStore, LogOptions};
//!
//! let directory = tempfile::tempdir()?;
//! let path = directory.path().join("coins");
//! let outpoint = OutPoint { txid: Txid([7; 32]), vout: 0 };
//! let coin = Coin { value: 5_000, height: 1, is_coinbase: true, script_pubkey: [0x51].into() };
//! let tip = Tip { hash: BlockHash([1; 32]), height: 1 };
//!
//! let store = LogStore::open(&path, "regtest", LogOptions::default())?;
//! store.commit(&[(outpoint, Some(coin.clone()))], &tip)?;
//! drop(store);
//! let store = LogStore::open_to_read(&path, Some("regtest"), LogOptions::default())?;
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
//! # Rooms
//!
//! Each room uses only those before it:
//! - `format`: pages, records, files: what is on the disk;
//! - `index`: what is in memory: the words that say where records lie, and the ledger of what
//!   lives;
//! - `write`: a commit, garbage, a checkpoint that is being written;
//! - `open`: the directory, the checkpoint that is there, the frames after it;
//! - `read`: coins by their outpoints, all coins in order, single coins without the index;
//! - `store`: the store as callers see it.

// Fuzz targets read and write pages, and look into what was read.
#[cfg(fuzzing)]
#[allow(missing_docs, reason = "they are no interface")]
pub mod format;
#[cfg(not(fuzzing))]
#[expect(unreachable_pub, reason = "fuzz targets use them")]
mod format;
#[cfg(fuzzing)]
#[allow(missing_docs, reason = "they are no interface")]
pub mod index;
#[cfg(not(fuzzing))]
#[expect(unreachable_pub, reason = "fuzz targets use them")]
mod index;
#[cfg(fuzzing)]
#[allow(missing_docs, reason = "they are no interface")]
pub mod open;
#[cfg(not(fuzzing))]
#[expect(unreachable_pub, reason = "fuzz targets use them")]
mod open;
mod read;
mod store;
mod write;

pub use index::state::LogOptions;
pub use open::directory::{is_there, network, remove};
pub use open::load::Opening;
pub use read::lookup::Lookup;
pub use read::newest::last_commit;
pub use store::LogStore;

/// The examples of the README compile and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
