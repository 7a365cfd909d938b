//! Coins and transactions as tables, in the formats of other programs. Their rows are those of
//! `blockmill_tables`.
//!
//! - [`flat`]: flat tables in each format;
//! - [`metadata`]: what a table says of itself;
//! - [`partitions`]: a table in a folder;
//! - `database` (feature `tables`): tables in a SQLite database that goes on;
//! - [`manifest`]: what there is of a table that goes on, [`kept`]: what of it is still true;
//! - `parquet` and `sqlite` (feature `tables`): formats that are no text;
//! - [`table`]: a table from its first row to its last;
//! - [`target`]: the file that the table is written to.

#[cfg(feature = "tables")]
pub(crate) mod database;
pub(crate) mod flat;
pub(crate) mod kept;
pub(crate) mod manifest;
pub(crate) mod metadata;
#[cfg(feature = "tables")]
pub(crate) mod parquet;
pub(crate) mod partitions;
#[cfg(feature = "tables")]
pub(crate) mod sqlite;
pub(crate) mod table;
pub(crate) mod target;
