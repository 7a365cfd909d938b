//! Writing.
//!
//! In reading order:
//! - `grouped`: entries by group;
//! - `records`: what a commit adds, removes and moves;
//! - `frame`: the pages of a flush, and their files;
//! - `garbage`: the segments that are emptied;
//! - `commit`: from changes to a frame, and from the frame to the index;
//! - `checkpoint`: the index and the ledger in a file;
//! - `writer`: one commit after the other.

pub(crate) mod checkpoint;
mod commit;
pub(crate) mod frame;
pub(crate) mod garbage;
mod grouped;
mod records;
pub(crate) mod writer;
