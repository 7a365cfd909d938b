//! Who hears what happens while it happens.

use crate::report::events::Event;
use blockmill_block::{Block, BlockUndo};
use blockmill_coins::Tip;
use std::time::Duration;

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

/// Hears what happens, on the connecting thread.
///
/// An index may be built of [`connected`](Self::connected) and
/// [`disconnected`](Self::disconnected). What they say of blocks above the last flush is lost by a
/// kill, and said again by the next run.
/// So an index that is kept should hear of blocks once they are durable: by `DurableObserver` in
/// `blockmill-engine`, which begins at the block that the index has handled last, or in another
/// process by a feed of the data directory (`Feed` in `blockmill-datadir`).
pub trait Observer {
    /// A block was connected to the tip of the active chain. All its rules hold.
    fn connected(&mut self, change: &BlockChange<'_>) {
        let _ = change;
    }

    /// The tip of the active chain was disconnected, for a branch with more work.
    fn disconnected(&mut self, change: &BlockChange<'_>) {
        let _ = change;
    }

    /// Block files are being searched for headers; called often.
    fn indexing(&mut self, indexing: &Indexing) {
        let _ = indexing;
    }

    /// A block was connected.
    fn progress(&mut self, progress: &Progress) {
        let _ = progress;
    }

    /// So many coins of a snapshot are done, and this share of all.
    fn coins(&mut self, coins: u64, share: f64) {
        let _ = (coins, share);
    }

    /// So many of the blocks are read that an earlier set is made from.
    fn looking_back(&mut self, blocks: u32, of: u32) {
        let _ = (blocks, of);
    }

    /// The best chain of the block files is connected up to this tip, and durable: a follower waits
    /// for more.
    fn caught_up(&mut self, tip: &Tip) {
        let _ = tip;
    }

    /// Something worth a line in a log.
    fn event(&mut self, event: &Event<'_>) {
        let _ = event;
    }
}

/// Hears nothing.
impl Observer for () {}
