//! Which blocks there are, and which chain of them is the best.
//!
//! - [`index`]: the header index and the choice of the best chain;
//! - `files`: the block files that are open;
//! - `state`: the active chain beside the index;
//! - `import`: blocks from block files;
//! - `insert`: headers into the index, in order;
//! - `copies`: chains of equal work that are told apart by their copies;
//! - `places`: what searches of block files have found, kept in the data directory;
//! - `rev_files`: the undo files beside block files;
//! - `assume_valid`: when scripts need not run, and when signatures are verified in lanes.

pub mod index;

pub(crate) mod assume_valid;
mod copies;
pub(crate) mod files;
pub(crate) mod import;
pub(crate) mod insert;
pub(crate) mod places;
pub(crate) mod rev_files;
pub(crate) mod state;
