//! Coins and transactions as tables, in the formats of other programs.
//!
//! - [`product`]: flat tables of blocks; [`batch`]: their rows as columns; [`flat`]: in each
//!   format;
//! - [`coin_row`], [`transaction_row`]: a coin and a transaction as a row;
//! - `column`: columns, from which a table of Apache Arrow is made;
//! - `parquet` and `sqlite` (feature `tables`), [`text`]: the formats;
//! - [`table`]: a table from its first row to its last;
//! - [`target`]: the file that the table is written to.

pub(crate) mod batch;
pub(crate) mod coin_row;
#[cfg(feature = "tables")]
pub(crate) mod column;
pub(crate) mod flat;
#[cfg(feature = "tables")]
pub(crate) mod parquet;
pub(crate) mod product;
#[cfg(feature = "tables")]
pub(crate) mod sqlite;
pub(crate) mod table;
pub(crate) mod target;
pub(crate) mod text;
pub(crate) mod transaction_row;
