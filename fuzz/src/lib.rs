//! Shared code of the fuzz targets. Each target is a small file in `targets`, and its head names
//! the checks.
//!
//! In reading order:
//! - [`input`]: numbers and pieces out of the fuzzer's bytes;
//! - [`memory`]: the memory that a piece of work allocates;
//! - [`parts`]: transactions and blocks, written from parts and rewritten from views;
//! - [`gated_store`]: a store whose commits wait and fail on demand;
//! - [`pieces`]: block files made of pieces;
//! - [`scratch`]: a folder for files;
//! - [`block_tree`], [`block_content`]: trees of blocks with work, and copies with other content;
//! - [`file_pairs`]: files of such blocks and of their undo data;
//! - [`accept_all`]: a script verifier to which all scripts are valid;
//! - [`submitted`]: lines as `submit` reads them;
//! - [`log_pages`], [`log_checkpoint`]: pages and checkpoints of the coin log;
//! - [`flushes`]: the coins cache beside a model;
//! - [`world`], [`windows`], [`plain`], [`chain`]: short chains, resolved in windows with coins that
//!   are read ahead, and over a plain map.
//!
//! A target is deterministic, except for the timing of threads and the random keys of coin maps.

pub mod accept_all;
pub mod block_content;
pub mod block_tree;
pub mod chain;
pub mod file_pairs;
pub mod flushes;
pub mod gated_store;
pub mod input;
pub mod log_checkpoint;
pub mod log_pages;
pub mod memory;
pub mod parts;
pub mod pieces;
pub mod plain;
pub mod scratch;
pub mod submitted;
pub mod windows;
pub mod world;
