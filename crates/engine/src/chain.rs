//! Which blocks there are, and which chain of them is the best.
//!
//! - [`index`]: the header index and the choice of the best chain;
//! - `files`: the block files that are open;
//! - `state`: the active chain beside the index;
//! - `import`: blocks of block files become known;
//! - `search`: the records of block files are found, with what damage there is;
//! - `insert`: headers go into the index, in any order;
//! - `copies`: which of several copies of a block is the block;
//! - `places`: what searches of block files have found, kept in the data directory;
//! - `rev_files`: the undo files beside block files;
//! - `assume_valid`: when scripts need not run, and when signatures are verified in lanes.

pub mod index;

pub(crate) mod assume_valid;
pub(crate) mod copies;
pub(crate) mod files;
pub(crate) mod import;
pub(crate) mod insert;
pub(crate) mod places;
pub(crate) mod rev_files;
pub(crate) mod search;
pub(crate) mod state;
