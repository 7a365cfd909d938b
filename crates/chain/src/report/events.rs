//! What is worth a line in a log, when it happens.

use crate::report::findings::{Rejected, Unreadable};
use crate::report::signatures::SignatureWay;
use blockmill_block::BlockHash;
use blockmill_blockfiles::{Damage, FileError, Skipped};
use blockmill_coins::Tip;
use blockmill_rules::Reject;
use std::fmt;
use std::path::Path;
use std::time::Duration;

/// How much an event matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// For who looks closely.
    Debug,
    /// The ordinary run of things.
    Info,
    /// Something is not as it should be, and the work goes on.
    Warning,
    /// Something has ended early.
    Error,
}

/// Changes were written to the data directory, durably.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flushed {
    /// The tip that they lead to.
    pub tip: Tip,
    /// Coins written and coins removed.
    pub changes: u64,
    /// Time that the thread of the flush took.
    pub time: Duration,
}

/// A store that is at an older commit than one that was synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Older {
    /// The tip that it has.
    pub found: Tip,
    /// The tip that it had.
    pub synced: Tip,
}

impl fmt::Display for Older {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { found, synced } = self;
        write!(
            formatter,
            "the set is an older one, of height {}: the one of height {} was written, and the end of the store is \
             damaged or lost",
            found.height, synced.height
        )
    }
}

/// Something worth a line in a log. Its text is the line.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A damaged range of a block file was passed over.
    Damaged(&'a Damage),
    /// A file has more such ranges than are named.
    MoreDamaged {
        /// The file.
        path: &'a Path,
        /// How many more.
        ranges: u64,
    },
    /// A name among the block files that leads to no regular file was passed over.
    Skipped(&'a Skipped),
    /// A block is rejected, and what builds on it left out.
    Rejected(&'a Rejected),
    /// A block's content cannot be used.
    Unreadable(&'a Unreadable),
    /// Headers of more blocks break rules than are named.
    MoreRejected {
        /// How many more.
        blocks: u64,
    },
    /// More blocks cannot be used than are named.
    MoreUnreadable {
        /// How many more.
        blocks: u64,
    },
    /// A header breaks a rule, in files that are only verified.
    HeaderRejected {
        /// Its hash.
        hash: BlockHash,
        /// The rule.
        reject: &'a Reject,
    },
    /// The undo data of the chain is not whole.
    UndoDamaged {
        /// Its file.
        path: &'a Path,
        /// Height of the tip.
        height: u32,
        /// What is wrong.
        detail: &'a str,
    },
    /// The store has an older set than the one that was written last. The engine goes on from it.
    StoreOlder {
        /// The store.
        path: &'a Path,
        /// What it has and had.
        older: &'a Older,
    },
    /// From this height on scripts are not checked, since the chain is assumed valid.
    ScriptsSkipped {
        /// The height.
        height: u32,
    },
    /// From this height on scripts are checked although a block was assumed valid.
    ScriptsChecked {
        /// The height.
        height: u32,
        /// The condition that does not hold.
        reason: &'static str,
    },
    /// From this height on signatures are verified in another way. An engine begins with
    /// libsecp256k1 alone.
    Signatures {
        /// The height.
        height: u32,
        /// The way.
        way: SignatureWay,
    },
    /// A block has left the active chain for a chain with more work, or for its equal that came
    /// first.
    Disconnected {
        /// Its hash.
        hash: BlockHash,
        /// Its height.
        height: u32,
    },
    /// Changes were written to the data directory.
    Flushed(&'a Flushed),
    /// Block files cannot be searched now. Who follows a node tries again.
    FilesUnreadable(&'a FileError),
    /// A block file is another one than before, under the same name: a node has begun anew, or with
    /// another key.
    FileReplaced(&'a Path),
}

impl Event<'_> {
    /// How much it matters.
    pub fn level(&self) -> Level {
        match self {
            Self::Damaged(_)
            | Self::MoreDamaged { .. }
            | Self::Skipped(_)
            | Self::Rejected(_)
            | Self::Unreadable(_)
            | Self::MoreRejected { .. }
            | Self::MoreUnreadable { .. }
            | Self::HeaderRejected { .. }
            | Self::UndoDamaged { .. }
            | Self::StoreOlder { .. }
            | Self::FilesUnreadable(_)
            | Self::FileReplaced(_) => Level::Warning,
            Self::ScriptsSkipped { .. }
            | Self::ScriptsChecked { .. }
            | Self::Signatures { .. }
            | Self::Disconnected { .. } => Level::Info,
            Self::Flushed(_) => Level::Debug,
        }
    }
}

impl fmt::Display for Event<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Damaged(damage) => damage.fmt(f),
            Self::MoreDamaged { path, ranges } => write!(f, "{}: {ranges} more damaged ranges", path.display()),
            Self::Skipped(skipped) => write!(f, "{}: passed over: {}", skipped.path.display(), skipped.reason),
            Self::Rejected(rejected) => rejected.fmt(f),
            Self::Unreadable(unreadable) => unreadable.fmt(f),
            Self::MoreRejected { blocks } => write!(f, "{blocks} more blocks are rejected, by their headers"),
            Self::MoreUnreadable { blocks } => {
                write!(
                    f,
                    "{blocks} more blocks have headers that are not the work of a miner (high-hash)"
                )
            }
            Self::HeaderRejected { hash, reject } => write!(f, "header {hash}: {reject}"),
            Self::UndoDamaged { path, height, detail } => write!(
                f,
                "{}: {detail}: a reorganisation below height {height} may fail",
                path.display()
            ),
            Self::StoreOlder { path, older } => write!(
                f,
                "{}: {older}; the blocks above height {} are connected again",
                path.display(),
                older.found.height
            ),
            Self::ScriptsSkipped { height } => write!(
                f,
                "scripts are not checked from height {height} on: the chain is assumed valid"
            ),
            Self::ScriptsChecked { height, reason } => {
                write!(f, "scripts are checked from height {height} on: {reason}")
            }
            Self::Signatures { height, way } => write!(
                f,
                "signatures are verified {} from height {height} on: {}",
                if way.lanes { "in lanes" } else { "by libsecp256k1 alone" },
                way.reason
            ),
            Self::Disconnected { hash, height } => write!(
                f,
                "block {hash} (height {height}) has left the active chain for a better one"
            ),
            Self::Flushed(Flushed { tip, changes, time }) => write!(
                f,
                "everything up to height {} is written: {changes} changes in {:.3} s",
                tip.height,
                time.as_secs_f64()
            ),
            Self::FilesUnreadable(error) => write!(f, "{error}; the search is tried again"),
            Self::FileReplaced(path) => write!(f, "{}: another file than before: it is searched anew", path.display()),
        }
    }
}
