//! What the fuzz targets share. Each target is a small file in `targets`, whose head says what it
//! checks.
//!
//! In reading order:
//! - [`input`]: numbers and pieces out of the fuzzer's bytes;
//! - [`memory`]: what a piece of work allocates;
//! - [`parts`]: transactions and blocks put together, and taken apart again;
//! - [`gated_store`]: a store whose commits wait, and which fails, as it is told;
//! - [`pieces`]: block files put together;
//! - [`submitted`]: lines as `submit` reads them;
//! - [`flushes`]: the coins cache beside a model;
//! - [`world`], [`chain`]: short chains, and their outcome with coins read ahead and without.
//!
//! A target is deterministic but for the timing of threads and the keys of coin maps, which change
//! with every map.

pub mod chain;
pub mod flushes;
pub mod gated_store;
pub mod input;
pub mod memory;
pub mod parts;
pub mod pieces;
pub mod submitted;
pub mod world;
