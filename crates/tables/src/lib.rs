//! Coins and the blocks of a Bitcoin chain as rows and columns, with the coins that they spend.
//!
//! ```
//! use blockmill_block::Network;
//! use blockmill_chain::{BlockReadError, ChainBlocks};
//! use blockmill_rules::Params;
//! use blockmill_tables::batch::Batch;
//! use blockmill_tables::pass::Makers;
//! use blockmill_tables::product::ProductKind;
//! use std::sync::atomic::AtomicBool;
//! # let directory = tempfile::tempdir()?;
//! # let blocks = directory.path().to_owned();
//! # std::fs::write(blocks.join("blk00000.dat"), [])?;
//!
//! let params = Params::new(Network::Regtest, None);
//! let stop = AtomicBool::new(false);
//! let found = ChainBlocks::of_files(&[blocks], &[], &params, &stop, &mut ())?;
//! let chain = found.expect("nobody sets `stop`");
//! // All transactions, as lines of CSV.
//! let makers = Makers::new(&[ProductKind::Transactions], &chain);
//! let csv = |_, rows: Batch| Ok::<_, BlockReadError>(rows.csv());
//! let blocks = chain.iter(0..=chain.height());
//! let made = makers.make(blocks, Network::Regtest, true, &csv)?;
//! assert_eq!(made.transactions, 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The modules. Each uses only those after it in this list:
//! - [`event`]: what the feed tells of blocks;
//! - [`pass`]: the rows of some blocks for several tables at once;
//! - [`product`]: flat tables of blocks;
//! - [`transaction_row`]: a transaction, with lists of its inputs and outputs;
//! - [`coin_row`]: a coin; [`block_row`]: a block alone;
//! - [`hints`]: which outputs of each block are unspent, in the form of a draft;
//! - [`batch`]: flat rows as columns, and these in the forms of other programs;
//! - [`set_totals`]: the figures of a set of coins, which ranges of blocks change;
//! - `set_change`: what a block changes in the set of coins;
//! - `column` (feature `arrow`): columns of Apache Arrow that hold lists;
//! - [`sizes`]: the sizes of a transaction.

pub mod batch;
pub mod block_row;
pub mod coin_row;
#[cfg(feature = "arrow")]
pub mod column;
pub mod event;
pub mod hints;
pub mod pass;
pub mod product;
mod set_change;
pub mod set_totals;
pub mod sizes;
pub mod transaction_row;
