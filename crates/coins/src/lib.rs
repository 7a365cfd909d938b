//! The set of unspent outputs: a cache over a store, an undo log, hashes and snapshots of the set.
//!
//! ```
//! use blockmill_block::{BlockHash, Coin, OutPoint, Txid};
//! use blockmill_coins::stats::Hashes;
//! use blockmill_coins::{CoinRef, CoinsCache, MemoryStore, Overwrite, StatsBuilder, Tip};
//! use std::sync::Arc;
//!
//! let mut cache = CoinsCache::new(Arc::new(MemoryStore::new()), 64 << 20);
//! let outpoint = OutPoint { txid: Txid([7; 32]), vout: 0 };
//! let coin = Coin { value: 5_000, height: 1, is_coinbase: true, script_pubkey: [0x51].into() };
//! cache.add(&outpoint, CoinRef::from(&coin), Overwrite::Impossible);
//!
//! let tip = Tip { hash: BlockHash([1; 32]), height: 1 };
//! cache.flush(&tip, || Ok(()))?;
//! let stats = StatsBuilder::new(Hashes::Both).add_all(cache.coins()?)?.finish(&tip);
//! assert_eq!((stats.txouts, stats.total_amount), (1, 5_000));
//! println!("{}", stats.hash_serialized_3);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! In reading order:
//! - [`store`]: the trait of stores, the tip and the errors; helpers for stores in other crates;
//! - [`memory`]: a store in memory;
//! - `flush_epoch`: which reads of a store are older than its last change;
//! - [`cache`]: the coins cache, with Core's fresh and dirty entries, flushed in the background;
//! - [`undo_log`]: the log of undo data, to which many threads append;
//! - [`muhash`], [`stats`]: MuHash, `hash_serialized_3` and the figures of `gettxoutsetinfo`;
//! - [`snapshot`]: the whole set in a file, in the format of Core's `dumptxoutset`.

pub mod cache;
mod flush_epoch;
pub mod memory;
pub mod muhash;
pub mod snapshot;
pub mod stats;
pub mod store;
pub mod undo_log;

mod merged;

pub use blockmill_coinmap::{CoinRef, HashKey, HashedOutPoint, SHARDS, prefetch};
pub use cache::{
    CacheCounters, CacheShard, CacheShards, CacheView, CoinsCache, EntryLog, FlushCounters, FlushError, MustBeNew,
    Overwrite, shard_of,
};
pub use flush_epoch::{FlushClock, FlushEpoch};
pub use memory::MemoryStore;
pub use muhash::{MUHASH_BYTES, MuHash, MuHashChange};
pub use snapshot::{
    SnapshotChunk, SnapshotChunks, SnapshotError, SnapshotMetadata, SnapshotReader, snapshot_network, stream_snapshot,
    write_snapshot,
};
pub use stats::{StatsBuilder, StatsPart, UtxoStats};
pub use store::{Before, Change, Changes, CoinIterator, CoinStore, LastCommit, OwnedChange, StoreError, Tip};
pub use undo_log::{UndoLog, UndoLogError, UndoPosition};

/// The examples of the README compile and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
