//! The way of a block: prefetch, fetch, resolve, check, commit, flush.
//!
//! A block has three types on its way: a `LoadRequest` becomes a `PrefetchedBlock` (`load`), and
//! that an `InFlight` block (`in_flight`).
//!
//! In reading order:
//! - `connect`: the main loop;
//! - `state`: the pipeline's parts, and how far ahead each of them works;
//! - `prefetch`, `load`, `outline`: blocks are read and decoded ahead, by all threads;
//! - `fetch`, `inputs`, `upcoming`: coins are read from the store ahead of their use;
//! - `window`, `windows`, `shards`: blocks are put in flight together: their coins are spent and
//!   created in the cache, by all threads if it is worth it;
//! - `in_flight`: blocks that are resolved, and whose scripts run on all threads (the check pool of
//!   `blockmill-validate`);
//! - `replaced`: coins that a repeated coinbase replaces (BIP 30);
//! - `flush`: changes go to the store;
//! - `disconnect`: the tip is disconnected, for a branch with more work;
//! - `keep`: the last blocks are kept, and those that left the chain;
//! - [`error`]: why blocks cannot be connected.

pub mod error;

pub(crate) mod connect;
pub(crate) mod disconnect;
pub(crate) mod fetch;
pub(crate) mod flush;
pub(crate) mod in_flight;
pub(crate) mod keep;
pub(crate) mod load;
pub(crate) mod prefetch;
pub(crate) mod replaced;
pub(crate) mod state;
pub(crate) mod window;
pub(crate) mod windows;

// Fuzz targets run these against a model.
#[cfg(not(fuzzing))]
#[expect(unreachable_pub, reason = "fuzz targets use them")]
mod inputs;
#[cfg(fuzzing)]
pub mod inputs;
#[cfg(not(fuzzing))]
#[expect(unreachable_pub, reason = "fuzz targets use them")]
pub(crate) mod outline;
#[cfg(fuzzing)]
pub mod outline;
#[cfg(not(fuzzing))]
#[expect(unreachable_pub, reason = "fuzz targets use them")]
pub(crate) mod shards;
#[cfg(fuzzing)]
pub mod shards;
#[cfg(not(fuzzing))]
#[expect(unreachable_pub, reason = "fuzz targets use them")]
mod upcoming;
#[cfg(fuzzing)]
pub mod upcoming;
