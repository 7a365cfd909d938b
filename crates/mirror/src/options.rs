//! What a mirror is asked for.

use crate::table::MirrorTable;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// What is mirrored, where to, and how.
#[derive(Debug, Clone)]
pub struct Options {
    /// The data directory.
    pub data: PathBuf,
    /// The database: `postgresql://USER@HOST/DATABASE`.
    pub to: String,
    /// The name of the schema of the tables.
    pub schema: String,
    /// The tables, or none for those that are there, or else coins and blocks.
    pub tables: Option<Vec<MirrorTable>>,
    /// The first block of the tables but coins; none for that of the tables that are there, or 0.
    pub from: Option<u32>,
    /// Whether the mirror goes on with each block that is connected.
    pub follows: bool,
    /// Threads, and connections of the first load.
    pub threads: usize,
    /// Ends the mirror once it is set.
    pub stop: Arc<AtomicBool>,
}
