//! Which blocks there are, and which chain of them is the best.
//!
//! - [`index`]: the header index and the choice of the best chain;
//! - `import`: headers from block files;
//! - [`assume_valid`]: when scripts need not run;
//! - `reorganise`: the tip is disconnected;
//! - [`submit`]: blocks one by one, with a verdict each.

pub mod assume_valid;
pub mod index;
pub mod submit;

pub(crate) mod import;
pub(crate) mod reorganise;
