//! What an import and a run found wrong.

use blockmill_block::BlockHash;
use blockmill_blockfiles::{Damage, Skipped};
use blockmill_rules::Reject;
use std::fmt;
use std::path::PathBuf;

/// A block that was rejected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejected {
    /// Its hash.
    pub hash: BlockHash,
    /// Its height.
    pub height: u32,
    /// Why.
    pub reject: Reject,
    /// The file in which it lies.
    pub path: PathBuf,
    /// Its offset in the file in bytes.
    pub offset: u64,
    /// Whether the chain that it is in, with all that builds on it, was the best one: blocks are
    /// connected only then, headers are checked on every branch.
    pub of_best_chain: bool,
}

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: offset {}: block {} (height {}) is rejected: {}",
            self.path.display(),
            self.offset,
            self.hash,
            self.height,
            self.reject
        )
    }
}

/// A block whose content cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable {
    /// Its hash.
    pub hash: BlockHash,
    /// Its height. None where that is not known: its header is no block's.
    pub height: Option<u32>,
    /// The file in which it lies.
    pub path: PathBuf,
    /// Its offset in the file in bytes.
    pub offset: u64,
    /// What is wrong.
    pub detail: String,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: offset {}: block {}",
            self.path.display(),
            self.offset,
            self.hash
        )?;
        if let Some(height) = self.height {
            write!(f, " (height {height})")?;
        }
        write!(f, ": {}", self.detail)
    }
}

/// A block whose parent is nowhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leftover {
    /// Its hash.
    pub hash: BlockHash,
    /// Hash of the parent.
    pub parent: BlockHash,
    /// The file in which it lies.
    pub path: PathBuf,
    /// Its offset in the file in bytes.
    pub offset: u64,
}

/// Whether a search of block files went to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ImportEnd {
    /// It did.
    #[default]
    Complete,
    /// The caller has asked to stop. No block of the files is in the index.
    Stopped,
}

/// What a search of block files found besides blocks of the tree.
#[derive(Debug, Default)]
pub struct ImportFindings {
    /// Whether the search went to its end.
    pub end: ImportEnd,
    /// Blocks whose headers break a rule.
    pub rejected: Vec<Rejected>,
    /// Blocks whose headers are not the work of a miner.
    pub unreadable: Vec<Unreadable>,
    /// Damage of the files.
    pub damages: Vec<Damage>,
    /// Block files whose names are links that lead nowhere.
    pub missing_files: Vec<Skipped>,
    /// Number of blocks whose parent is nowhere.
    pub leftovers: u64,
    /// Number of blocks that build on headers that were rejected.
    pub left_out: u64,
    /// The first leftover block in the order of files and offsets.
    pub first_leftover: Option<Leftover>,
}

impl ImportFindings {
    /// Adds the findings of another search.
    pub fn merge(&mut self, other: Self) {
        if other.end == ImportEnd::Stopped {
            self.end = ImportEnd::Stopped;
        }
        self.rejected.extend(other.rejected);
        self.unreadable.extend(other.unreadable);
        self.damages.extend(other.damages);
        self.missing_files.extend(other.missing_files);
        self.left_out += other.left_out;
    }
}
