//! What is on the disk. `docs/coin-log.md` has the format.
//!
//! In reading order:
//! - `location`: where a record lies, in 32 bits;
//! - `page`: pages, records, checksums;
//! - `segment`: the files of the log, and which of them there are;
//! - `removals`, `trailer`: the pages of a frame that have no coins;
//! - `label`: what a checkpoint stands for;
//! - `records`: records that are read from pages.

pub mod label;
pub mod location;
pub mod page;
pub mod records;
pub mod removals;
pub mod segment;
pub mod trailer;
