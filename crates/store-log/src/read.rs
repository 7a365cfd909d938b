//! Reading.
//!
//! In reading order:
//! - `get`: the coins of some outpoints;
//! - `view`, `pieces`, `scan`: all coins in order;
//! - `lookup`: single coins without the index;
//! - `newest`: the last commit without index and ledger.

pub(crate) mod get;
pub(crate) mod lookup;
pub(crate) mod newest;
mod pieces;
pub(crate) mod scan;
mod view;
