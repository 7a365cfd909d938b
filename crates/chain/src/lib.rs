//! Which blocks there are, which chain of them is the best, and its blocks with the coins that they
//! spend.
//!
//! ```
//! use blockmill_block::Network;
//! use blockmill_chain::ChainBlocks;
//! use blockmill_rules::Params;
//! use std::sync::atomic::AtomicBool;
//! # let directory = tempfile::tempdir()?;
//! # let blocks = directory.path().to_owned();
//! # std::fs::write(blocks.join("blk00000.dat"), [])?;
//!
//! let params = Params::new(Network::Regtest, None);
//! let stop = AtomicBool::new(false);
//! // The observer is nobody.
//! let found = ChainBlocks::of_files(&[blocks], &[], &params, &stop, &mut ())?;
//! let chain = found.expect("nobody sets `stop`");
//! for block in chain.iter(1..=chain.height()) {
//!     let block = block?;
//!     println!("height {}: {} transactions", block.height, block.block.transaction_count());
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The modules. Each uses only those after it in this list:
//! - [`chain_bytes`]: a chain of block files as bytes, for other processes;
//! - `found_files`: the files that have these blocks;
//! - [`chain_blocks`]: the blocks of a chain and the coins that they spend, to be read;
//! - [`spending_block`]: a block with those coins;
//! - [`block_read_error`]: why a block cannot be read;
//! - `rev_files`: the undo files beside block files;
//! - `import`: blocks of block files become known;
//! - [`state`]: the active chain beside the index;
//! - `search`: the records of block files are found, with what damage there is;
//! - [`positions`]: what searches of block files have found, kept in the data directory;
//! - `insert`: headers go into the index, in any order;
//! - [`copies`]: which of several copies of a block is the block;
//! - [`assume_valid`]: when scripts need not run, and when signatures are verified in lanes;
//! - [`files`]: the block files that are open;
//! - [`index`]: the header index and the choice of the best chain;
//! - [`report`]: what is said of all this.

pub mod assume_valid;
pub mod block_read_error;
pub mod chain_blocks;
pub mod chain_bytes;
pub mod copies;
pub mod files;
pub mod import;
pub mod index;
pub mod positions;
pub mod report;
pub mod search;
pub mod spending_block;
pub mod state;

mod found_files;
mod insert;
mod rev_files;

pub use block_read_error::BlockReadError;
pub use chain_blocks::ChainBlocks;
pub use report::{
    BlockChange, Event, Indexing, Leftover, Level, NotWhole, Observer, Older, Progress, Rejected, RunOutcome,
    Signatures, Unreadable, Wholeness,
};
pub use spending_block::{FoundAt, SpendingBlock, SpendingTransaction};
