//! What readers and the writer of a store share.

use super::ledger::Ledger;
use super::table::Index;
use crate::format::segment::{Identity, Segments};
use blockmill_blockfiles::disk::Disk;
use blockmill_coinmap::HashKey;
use blockmill_pool::Helpers;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// How a store works. The files do not depend on it.
#[derive(Debug, Clone)]
pub struct LogOptions {
    /// The threads that help to prepare a commit, and to read the log when it is opened. By default
    /// the caller's thread does all of it.
    pub helpers: Helpers,
    /// The fewest pages of 4 KiB in a segment. Segments are a sixteenth of the set, but not smaller
    /// than this, and not larger than 65,536 pages.
    pub segment_pages_min: u32,
    /// A checkpoint is written after this many changes, or after as many as a quarter of the set
    /// has coins, whichever is more.
    pub checkpoint_changes: u64,
    /// The fewest words of the index that a commit writes to a checkpoint, until all are written.
    /// It is a sixteenth of the set otherwise.
    pub checkpoint_step: u64,
    /// Bytes of garbage that are never worth collecting.
    pub garbage_bytes_min: u64,
}

impl Default for LogOptions {
    fn default() -> Self {
        Self {
            helpers: Helpers::default(),
            segment_pages_min: 4096,
            checkpoint_changes: 16_000_000,
            checkpoint_step: 200_000,
            garbage_bytes_min: 16 << 20,
        }
    }
}

/// What readers and the writer share.
pub(crate) struct LogState {
    pub(crate) directory: PathBuf,
    /// None for a store that is only read.
    pub(crate) disk: Option<Arc<dyn Disk>>,
    pub(crate) identity: Identity,
    pub(crate) key: HashKey,
    pub(crate) options: LogOptions,
    pub(crate) index: Index,
    pub(crate) segments: Segments,
    ledger: RwLock<Ledger>,
}

impl LogState {
    pub(crate) fn new(directory: &Path, disk: Option<Arc<dyn Disk>>, identity: Identity, options: LogOptions) -> Self {
        Self {
            directory: directory.to_owned(),
            disk,
            key: identity.hash_key(),
            identity,
            options,
            index: Index::default(),
            segments: Segments::default(),
            ledger: RwLock::default(),
        }
    }

    pub(crate) fn ledger(&self) -> RwLockReadGuard<'_, Ledger> {
        self.ledger.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn ledger_mut(&self) -> RwLockWriteGuard<'_, Ledger> {
        self.ledger.write().unwrap_or_else(PoisonError::into_inner)
    }
}
