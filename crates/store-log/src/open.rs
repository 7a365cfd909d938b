//! Opening.
//!
//! In reading order:
//! - `directory`: the files of a store;
//! - `checkpoint`: the checkpoint that is there;
//! - `replay`: frames are read again;
//! - `recover`: the state at the last commit;
//! - `load`: the index of that state.

pub mod checkpoint;
pub(crate) mod directory;
pub(crate) mod load;
pub(crate) mod recover;
pub(crate) mod replay;
