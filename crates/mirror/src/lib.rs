//! Tables in a PostgreSQL database that follow a data directory (docs/postgresql.md).
//!
//! A mirror is a consumer of the feed. Its tables and the block that they are at change in one
//! transaction. So a kill of either side leaves them at some block, and the next call goes on
//! there.
//!
//! - `run`: attempts, until the tables are at the tip or the mirror is to stop;
//! - `session`: what a mirror does while its connection holds; `options`: what it is asked for;
//! - `load`: the first load, on several connections; `apply`: the blocks after it;
//! - `change`: what blocks are in the tables;
//! - `state`: how far the tables are, as they say it themselves; `heights`: whether that is
//!   true;
//! - `schema`: the tables, their indexes and views; `copy`: rows as `COPY` takes them;
//! - `database`: connections, and who may have them; `identity`: the process that holds one;
//! - `target`: which database, as the programs of PostgreSQL find it; `passwords`: the file of
//!   those; `tls`: encrypted connections; `sql_error`: which errors are retried;
//! - `witness`: who hears of it.

mod apply;
mod change;
mod copy;
mod database;
mod error;
mod heights;
mod identity;
mod load;
mod options;
mod passwords;
mod run;
mod schema;
mod session;
mod sql_error;
mod state;
mod table;
mod target;
mod tls;
mod witness;

pub use error::MirrorError;
pub use options::Options;
pub use run::run;
pub use sql_error::Fate;
pub use table::MirrorTable;
pub use witness::Witness;
