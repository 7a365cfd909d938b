//! Coins and transactions as tables, in the formats of other programs. Their rows are those of
//! `blockmill_tables`.
//!
//! - [`flat`]: flat tables in each format;
//! - [`metadata`]: what a table says of itself;
//! - [`partitions`]: a table in a folder, [`manifest`]: what the folder holds;
//! - `parquet` and `sqlite` (feature `tables`), [`text`]: the formats;
//! - [`table`]: a table from its first row to its last;
//! - [`target`]: the file that the table is written to.

pub(crate) mod flat;
pub(crate) mod manifest;
pub(crate) mod metadata;
#[cfg(feature = "tables")]
pub(crate) mod parquet;
pub(crate) mod partitions;
#[cfg(feature = "tables")]
pub(crate) mod sqlite;
pub(crate) mod table;
pub(crate) mod target;
pub(crate) mod text;
