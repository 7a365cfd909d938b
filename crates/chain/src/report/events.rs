//! Events of an engine or a reader, and the trait that receives them.

use crate::report::findings::{Rejected, Unreadable};
use crate::report::signatures::SignatureWay;
use blockmill_block::{Block, BlockHash, BlockUndo, OutPoint};
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

/// How far the search of block files for headers is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Indexing {
    /// Number of the file, from 1.
    pub file: usize,
    /// How many there are.
    pub files: usize,
    /// The offset in the file in bytes.
    pub offset: u64,
    /// Length of the file in bytes.
    pub bytes: u64,
    /// Headers found so far, in all files.
    pub headers: usize,
}

impl fmt::Display for Indexing {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            file, files, headers, ..
        } = self;
        let percent = self.offset as f64 / self.bytes.max(1) as f64 * 100.0;
        write!(
            formatter,
            "reading headers: {percent:.1}% of file {file} of {files}, {headers} headers"
        )
    }
}

/// How far a run is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    /// Height of the tip.
    pub height: u32,
    /// Time in the header of the tip, in seconds since 1970.
    pub tip_time: u32,
    /// Height of the best chain known.
    pub best_height: u32,
    /// Blocks connected since the engine was opened.
    pub blocks: u64,
    /// Transactions in them.
    pub transactions: u64,
    /// Inputs in them, coinbases not counted.
    pub inputs: u64,
    /// Bytes of these blocks.
    pub bytes: u64,
    /// Bytes of blocks that remain.
    pub bytes_remaining: u64,
    /// Share of the best chain's bytes that is connected, by this run and by earlier ones.
    pub share: f64,
    /// Entries in the coins cache.
    pub cache_coins: u64,
    /// Memory of the coins cache in bytes.
    pub cache_bytes: u64,
    /// Time since the engine began to choose branches.
    pub elapsed: Duration,
}

/// A block that enters the active chain or leaves it, and the coins that it spends.
#[derive(Debug, Clone, Copy)]
pub struct BlockChange<'a> {
    /// Height of the block.
    pub height: u32,
    /// The block.
    pub block: &'a Block,
    /// A coin for each input but the coinbase's.
    pub undo: &'a BlockUndo,
}

/// Something that happens. Its text is a line in a log, where it is worth one.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A block was connected to the tip of the active chain. All its rules hold.
    Connected(&'a BlockChange<'a>),
    /// The tip of the active chain was disconnected, in favor of a chain with more work, or of one
    /// with equal work that was seen first.
    Disconnected(&'a BlockChange<'a>),
    /// Block files are being searched for headers; said often.
    Indexing(Indexing),
    /// A block was connected, and blocks above it may be on their way.
    Progress(&'a Progress),
    /// Coins of a snapshot or a set are read or written; said often.
    Coins {
        /// How many are done.
        coins: u64,
        /// Share of all that is done; 0 if that is not known.
        share: f64,
    },
    /// Blocks are read that an earlier set is made from.
    LookingBack {
        /// How many are read.
        blocks: u32,
        /// How many there are.
        of: u32,
    },
    /// The best chain of the block files is connected up to this tip, and durable: a follower waits
    /// for more.
    CaughtUp(Tip),
    /// A look at the block files has failed, and a follower tries again; said each time.
    LookFailed(&'a FileError),
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
    /// Changes were written to the data directory.
    Flushed(&'a Flushed),
    /// Block files cannot be searched now. Who follows a node tries again.
    FilesUnreadable(&'a FileError),
    /// A block file is another one than before, under the same name: a node has begun anew, or with
    /// another key.
    FileReplaced(&'a Path),
}

/// Receives events, on the connecting thread.
///
/// An index can be built from [`Event::Connected`] and [`Event::Disconnected`]. Blocks above the
/// last flush are lost when the process is killed, and the next run connects them again. A
/// persistent index should therefore receive blocks only once they are durable: from
/// `DurableObserver` in `blockmill-engine`, which resumes after the last block that the index has
/// handled, or in another process from a feed of the data directory (`Feed` in
/// `blockmill-datadir`).
pub trait Observer {
    /// Something has happened.
    fn event(&mut self, event: &Event<'_>);
}

/// Ignores all events.
impl Observer for () {
    fn event(&mut self, _: &Event<'_>) {}
}

impl Event<'_> {
    /// Progress through a set whose coins are processed in key order, up to this outpoint.
    /// Transaction ids are uniform, so their first bytes give the share.
    pub fn coins_up_to(coins: u64, outpoint: &OutPoint) -> Self {
        let [first, second, ..] = outpoint.txid.0;
        let share = f64::from(u16::from_be_bytes([first, second])) / 65_536.0;
        Self::Coins { coins, share }
    }

    /// How much it matters; none if it is worth no line in a log.
    pub fn level(&self) -> Option<Level> {
        Some(match self {
            Self::Connected(_)
            | Self::Indexing(_)
            | Self::Progress(_)
            | Self::Coins { .. }
            | Self::LookingBack { .. }
            | Self::CaughtUp(_)
            | Self::LookFailed(_) => return None,
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
            | Self::Disconnected(_) => Level::Info,
            Self::Flushed(_) => Level::Debug,
        })
    }
}

impl fmt::Display for Event<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connected(change) => write!(
                f,
                "block {} (height {}) is connected",
                change.block.hash(),
                change.height
            ),
            Self::Indexing(indexing) => indexing.fmt(f),
            Self::Progress(progress) => write!(f, "height {} of {}", progress.height, progress.best_height),
            Self::Coins { coins, share } => write!(f, "{coins} coins, {:.1}%", share * 100.0),
            Self::LookingBack { blocks, of } => write!(f, "looking back: {blocks} of {of} blocks"),
            Self::CaughtUp(tip) => write!(f, "tip: height {}, {}", tip.height, tip.hash),
            Self::LookFailed(error) => write!(f, "retrying: {error}"),
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
            Self::Disconnected(change) => write!(
                f,
                "block {} (height {}) has left the active chain for a better one",
                change.block.hash(),
                change.height
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
