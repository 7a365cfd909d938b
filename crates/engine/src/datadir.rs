//! The data directory: one lock, one file that says what it belongs to, and everything that lasts.
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
//! | `audit.txt` | the last proof of the set, and of which store, written by `blockmill audit` |
//!
//! - `files`: these names;
//! - `meta`: what a directory belongs to;
//! - `writer`, `lock`: one writer, and who it is;
//! - `directory`: a directory and its lock;
//! - `headers_file`: the records of `headers.dat`;
//! - [`chain_log`]: headers and undo data of connected blocks;
//! - `commit_mark`, `marked_store`: the last commit of the store, so that a lost end is seen;
//! - `lost_store`, [`store_file`]: the store of the coins;
//! - [`block_read_error`]: why a block cannot be read;
//! - [`chain_blocks`]: the blocks of the chain and the coins that they spend, to be read;
//! - [`chain_bytes`]: a chain of block files as bytes, for other processes;
//! - `found_files`: the files that have these blocks;
//! - `spending_block`: a block with those coins;
//! - [`past`]: the set as it was at an earlier height;
//! - `in_order`: results of several threads, in order;
//! - [`batches`]: all coins of a set, on several threads;
//! - [`utxo_set`]: the set of a directory, to be read;
//! - [`status`]: how far a directory is, at once;
//! - [`snapshot`]: the set to a file, and a file to a store;
//! - `state`: what an engine keeps open of its directory;
//! - [`error`]: why a directory cannot be opened.

pub mod batches;
pub mod block_read_error;
pub mod chain_blocks;
pub mod chain_bytes;
pub mod chain_log;
pub mod error;
pub mod past;
pub mod snapshot;
pub mod status;
pub mod store_file;
pub mod utxo_set;

pub(crate) mod commit_mark;
pub(crate) mod files;
pub(crate) mod headers_file;
pub(crate) mod lost_store;
pub(crate) mod state;

mod directory;
mod found_files;
mod in_order;
mod lock;
mod marked_store;
mod meta;
pub(crate) mod spending_block;
mod writer;

pub use directory::DataDir;
pub use error::{OpenError, Remedy};
pub use meta::{ChainId, SnapshotMark};
pub use writer::Writer;
