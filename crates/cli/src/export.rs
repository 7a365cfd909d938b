//! Coins as a table, in the formats of other programs.
//!
//! - [`coin_row`]: a coin as a row;
//! - [`parquet`](mod@parquet), [`sqlite`], [`text`]: the formats;
//! - [`target`]: the file that the table is written to.

pub(crate) mod coin_row;
pub(crate) mod parquet;
pub(crate) mod sqlite;
pub(crate) mod target;
pub(crate) mod text;
