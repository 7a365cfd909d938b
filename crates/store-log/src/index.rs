//! What is in memory.
//!
//! In reading order:
//! - `words`: a long row of words;
//! - `table`: for each coin a part of its hash, and where its record lies;
//! - `ledger`: which records live;
//! - `state`: both, with the segments, as readers and the writer share them.

pub mod ledger;
pub(crate) mod state;
pub mod table;
mod words;
