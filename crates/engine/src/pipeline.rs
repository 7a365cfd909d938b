//! The way of a block: prefetch, fetch, resolve, check, commit, flush.
//!
//! In reading order:
//! - [`connect`]: the main loop, with all control flow in one place;
//! - `prefetch`, `load`: blocks are read and decoded ahead, by all threads;
//! - `fetch`, `inputs`, `upcoming`: coins are read from the store ahead of their use;
//! - [`resolve`]: a block is applied to the coins cache, or disconnected from it;
//! - [`checks`], [`signatures`]: its scripts run on all threads, its signatures in lanes or not;
//! - `in_flight`: blocks that are resolved, and whose checks are under way;
//! - `flush`: changes go to the store.

pub mod checks;
pub mod connect;
pub mod resolve;
pub mod signatures;

pub(crate) mod fetch;
pub(crate) mod flush;
pub(crate) mod in_flight;
pub(crate) mod load;
pub(crate) mod prefetch;

// Fuzz targets run these against a model.
#[cfg(not(fuzzing))]
#[expect(unreachable_pub, reason = "fuzz targets use them")]
mod inputs;
#[cfg(fuzzing)]
pub mod inputs;
#[cfg(not(fuzzing))]
#[expect(unreachable_pub, reason = "fuzz targets use them")]
mod upcoming;
#[cfg(fuzzing)]
pub mod upcoming;
