//! The set of unspent outputs: a cache over a store, the log of what blocks spent, and the hashes of the whole set.
//!
//! In reading order:
//! - [`store`]: the trait of stores, the tip and the batch;
//! - [`memory`], [`embedded`]: a store in memory, and the default store on disk;
//! - [`map`]: the coin map;
//! - [`cache`]: the coins cache, with Core's meaning of fresh and dirty, flushed in the background;
//! - [`undo_log`]: the log of undo data, which many threads append to;
//! - [`muhash`], [`stats`]: MuHash, `hash_serialized_3` and the figures of `gettxoutsetinfo`;
//! - [`snapshot`]: the whole set in a file, as Core's `dumptxoutset` writes it.

pub mod cache;
mod flush_epoch;
pub mod memory;
pub mod muhash;
pub mod snapshot;
pub mod stats;
pub mod store;
pub mod undo_log;

mod merged;

pub use blockmill_coinmap::CoinRef;
pub use cache::{CacheCounters, CacheView, CoinsCache, FlushCounters, FlushError, Overwrite};
pub use flush_epoch::{FlushClock, FlushEpoch};
pub use memory::MemoryStore;
pub use muhash::MuHash;
pub use snapshot::{SnapshotError, SnapshotMetadata, SnapshotReader, write_snapshot};
pub use stats::{StatsBuilder, UtxoStats};
pub use store::{Change, CoinIterator, CoinStore, StoreError, Tip};
pub use undo_log::{UndoLog, UndoLogError, UndoPosition};
