//! The data directory: one lock, one file that says what it belongs to, and everything that lasts.
//!
//! ```
//! use blockmill_datadir::{OpenError, UtxoSet};
//! use std::path::Path;
//!
//! /// Height and number of coins of a directory's set.
//! fn size(directory: &Path) -> Result<(u32, usize), OpenError> {
//!     let set = UtxoSet::open(directory, 1)?;
//!     Ok((set.tip().height, set.coins()?.count()))
//! }
//! ```
//!
//! | file | content |
//! |---|---|
//! | `meta.json` | format, network, signet challenge, store, the base of a loaded snapshot |
//! | `lock` | held by the process that writes to the directory; it says who that is |
//! | `coins.log/` | the coin store |
//! | `coins.log.loading/` | a store that a snapshot is being loaded into |
//! | `commit.dat` | the last commit of the store that was synced |
//! | `undo.dat` | undo data, in the records of Core's `rev*.dat` |
//! | `headers.dat` | headers of connected blocks, and the positions of their undo data |
//! | `places.dat` | where blocks were found in block files |
//! | `blocks/` | blocks that came through `submit`, in blk form |
//! | `kept/` | the last blocks of the chain, and those that left it |
//! | `audit.txt` | the last proof of the set, and of which store, written by `blockmill audit` |
//!
//! The modules, from the names of these files up:

pub mod batches;
pub mod chain_log;
pub mod doctor;
pub mod error;
pub mod feed;

/// A door for the engine.
#[doc(hidden)]
pub mod files;
/// A door for the engine.
#[doc(hidden)]
pub mod lost_store;

pub mod past;
pub mod snapshot;
pub mod state;
pub mod status;
pub mod store_file;
pub mod utxo_set;

mod chain_blocks;
mod commit_mark;
mod directory;
mod headers_file;
mod lock;
mod marked_store;
mod meta;
mod own_blocks;
mod writer;

pub use batches::{Batch, for_each_batch_of};
pub use directory::DataDir;
pub use error::{OpenError, Remedy};
pub use feed::{Cursor, Feed, FeedBlock, FeedBlocks, FeedError, FeedEvent, NoCursor};
pub use lock::set_subcommand;
pub use meta::{ChainId, SnapshotMark};
pub use past::{Earlier, PastError};
pub use status::Status;
pub use utxo_set::{CoinLookup, UtxoSet};
pub use writer::Writer;
