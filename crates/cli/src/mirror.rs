//! Tables in a PostgreSQL database that follow a data directory (docs/postgresql.md).
//!
//! A mirror is a consumer of the feed. Its tables and the block that they are at change in one
//! transaction. So a kill of either side leaves them at some block, and the next call goes on
//! there.
//!
//! - [`session`]: what a mirror does while its connection holds;
//! - [`load`]: the first load, on several connections; [`apply`]: the blocks after it;
//! - [`change`]: what blocks are in the tables;
//! - [`state`]: how far the tables are, as they say it themselves; [`heights`]: whether that is
//!   true;
//! - [`schema`]: the tables, their indexes and views; [`copy`]: rows as `COPY` takes them;
//! - [`database`]: connections, and who may have them; [`identity`]: the process that holds one;
//! - [`target`]: which database, as the programs of PostgreSQL find it; [`passwords`]: the file of
//!   those; [`tls`]: encrypted connections.

pub(crate) mod apply;
pub(crate) mod change;
pub(crate) mod copy;
pub(crate) mod database;
mod heights;
mod identity;
pub(crate) mod load;
mod passwords;
pub(crate) mod schema;
pub(crate) mod session;
pub(crate) mod state;
pub(crate) mod target;
mod tls;
