//! Resumable stream of the connected and disconnected blocks of a data directory, each with the
//! coins it spends.
//!
//! A consumer resumes from its *cursor*, the block it processed last, and gets every later block
//! once. If the cursor is no longer on the active chain, the feed first returns the blocks from the
//! cursor down to the fork point as disconnected, so that the consumer can undo them, and then the
//! blocks of the active chain above that point.
//!
//! A feed reads only durable state, while another process connects blocks. Headers and undo data
//! of disconnected blocks remain in the directory. The engine retains the blocks themselves until
//! the chain is 1,000 blocks above them (`ABOVE_OTHERS` in its `pipeline/keep.rs`); until then, any
//! block that was durable is a valid cursor.
//!
//! A cursor that is a descendant of the tip is not rolled back: the directory is behind it. That is
//! so in a directory that is recreated or was restored from a backup, after a lost end of the
//! coin log, and after a power loss that has kept a commit but not its mark.
//!
//! - [`request`]: the request line that a consumer sends to a feed socket;
//! - `chain`: the active chain up to the last durable commit, shared by several feeds.

mod chain;
pub mod request;
pub mod watching;

use crate::DataDir;
use crate::chain_blocks::read_headers_from;
use crate::error::OpenError;
use crate::feed::chain::{Durable, FeedChain, SharedChain};
use crate::files::{COMMIT_FILE, POSITIONS_FILE};
use blockmill_block::BlockHash;
use blockmill_chain::block_read_error::BlockReadError;
use blockmill_chain::chain_blocks::ChainBlocks;
use blockmill_chain::positions::FoundPositions;
use blockmill_chain::spending_block::SpendingBlock;
use blockmill_coins::Tip;
use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use thiserror::Error;

/// Block bytes per batch: what one thread converts at a time.
const RUN_BYTES: u64 = 4 << 20;

/// Block bytes per batch when several feeds share a chain. Smaller, since every feed with a slow
/// consumer keeps one converted batch in memory.
const SHARED_RUN_BYTES: u64 = 1 << 20;

/// Last block that a consumer has processed. Parsed from a decimal height or a hash in hex.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cursor {
    /// Block of the active chain at this height. 0, genesis, for a new consumer.
    Height(u32),
    /// Block with this hash, on the active chain or disconnected from it.
    Block(BlockHash),
}

/// Error returned when a [`Cursor`] cannot be parsed.
#[derive(Debug, Error)]
#[error("expected a height or the hash of a block: {0}")]
pub struct NoCursor(String);

impl FromStr for Cursor {
    type Err = NoCursor;

    fn from_str(text: &str) -> Result<Self, NoCursor> {
        // A hash may consist of decimal digits only, but always has 64 of them.
        if text.len() < 64 && !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
            let height = text.parse().map(Self::Height);
            return height.map_err(|_| NoCursor(format!("no height is above {}", u32::MAX)));
        }
        let hash: Result<BlockHash, _> = text.parse();
        hash.map(Self::Block).map_err(|error| NoCursor(error.to_string()))
    }
}

/// Error of opening or reading a feed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum FeedError {
    /// The data directory cannot be read.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A block or its undo data cannot be read.
    #[error(transparent)]
    Block(#[from] BlockReadError),
    /// The cursor is a block that the data directory does not know.
    #[error("block {hash} was never connected in {}", path.display())]
    UnknownCursor {
        /// Hash of the cursor's block.
        hash: BlockHash,
        /// Path of the data directory.
        path: PathBuf,
    },
    /// A disconnected block is no longer retained, so the consumer's state cannot be rolled back to
    /// the fork point.
    #[error("block {hash} left the active chain and is no longer retained in {}", path.display())]
    KeptNoLonger {
        /// Hash of the block to disconnect next: the cursor's block or an ancestor of it.
        hash: BlockHash,
        /// Path of the data directory.
        path: PathBuf,
    },
    /// The data directory has not connected the cursor's block, or not yet again: it is above the
    /// tip, or may belong to a commit that is not known to be durable.
    #[error(
        "block {hash} (height {height}) is not connected yet in {}, whose last durable commit is at height {tip}",
        path.display()
    )]
    Behind {
        /// Hash of the cursor's block.
        hash: BlockHash,
        /// Height of the cursor's block.
        height: u32,
        /// Height of the tip.
        tip: u32,
        /// Path of the data directory.
        path: PathBuf,
    },
    /// The cursor is a height above the tip.
    #[error("height {height} is above the tip, which is at height {tip}")]
    AboveTip {
        /// Height given as the cursor.
        height: u32,
        /// Height of the active chain's tip.
        tip: u32,
    },
}

impl FeedError {
    /// Returns whether the error may be transient: a file that cannot be read now may be readable
    /// once the data directory's writer, or the node that owns the block files, has finished with
    /// it. Consumers that follow the chain should retry.
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::Open(_) | Self::Block(_) | Self::Behind { .. })
    }
}

/// Block that was connected to the active chain or disconnected from it.
#[derive(Debug, Clone)]
pub struct FeedBlock {
    /// `true` if connected, `false` if disconnected.
    pub is_connected: bool,
    /// Block with the coins it spends.
    pub block: SpendingBlock,
    /// Median of the header times of the block and the ten before it.
    pub median_time_past: u32,
    /// For a disconnected block, the header times of the blocks that created its spent coins, in
    /// the order of its undo data: a consumer that stores them with its coins needs them to restore
    /// the coins. Empty for a connected block.
    pub coin_times: Vec<u32>,
}

impl FeedBlock {
    /// Returns the cursor of a consumer that has processed the block: the block itself, or its
    /// parent if it was disconnected.
    pub fn cursor_after(&self) -> Tip {
        let block = &self.block.block;
        match self.is_connected {
            true => Tip {
                height: self.block.height,
                hash: block.hash(),
            },
            false => Tip {
                height: self.block.height - 1,
                hash: block.header().prev_block_hash,
            },
        }
    }
}

/// Batch of blocks for a consumer. Each block is read from its file when the iterator reaches it.
pub type FeedBlocks<'a> = &'a mut dyn Iterator<Item = Result<FeedBlock, FeedError>>;

/// Event that a [`Feed`] yields.
#[derive(Debug, Clone)]
pub enum FeedEvent {
    /// The consumer's highest block is no longer on the active chain.
    Disconnected(SpendingBlock),
    /// The next block of the active chain.
    Connected(SpendingBlock),
    /// Every block up to this one has been returned.
    Tip(Tip),
}

/// Converts a batch of blocks to chunks, each with the cursor that follows it. The [`Tip`] argument
/// is the cursor after the whole batch.
type ConvertBlocks<'a, T, E> = dyn Fn(FeedBlocks<'_>, Tip) -> Result<Vec<(Tip, T)>, E> + Sync + 'a;

/// Iterator over the events of a data directory after a cursor. It ends with [`FeedEvent::Tip`],
/// and resumes once [`poll`](Self::poll) has found a new tip.
///
/// ```
/// use blockmill_datadir::{Cursor, Feed, FeedError, FeedEvent};
/// # use blockmill_coins::Tip;
/// # use std::path::Path;
///
/// /// Sums the fees of all blocks up to the tip.
/// fn fees(data: &Path) -> Result<(i64, Tip), FeedError> {
///     let mut sum = 0;
///     let mut feed = Feed::open(data, Cursor::Height(0))?;
///     for event in &mut feed {
///         // `Disconnected` occurs only if the cursor is off the active chain; genesis never is.
///         if let FeedEvent::Connected(block) = event? {
///             sum += block.transactions().filter_map(|spending| spending.fee()).sum::<i64>();
///         }
///     }
///     Ok((sum, feed.cursor()))
/// }
/// ```
pub struct Feed {
    chain: SharedChain,
    cursor: Tip,
    /// Chain that ends in the cursor, while that is off the active chain. Cached, since opening it
    /// reads all headers.
    branch: Option<ChainBlocks>,
    /// Last tip reported to the consumer.
    reported: Option<Tip>,
}

impl Feed {
    /// Opens a feed of the data directory at `path` that starts after `cursor`.
    ///
    /// # Errors
    /// [`FeedError::Open`], or [`UnknownCursor`](FeedError::UnknownCursor) or
    /// [`AboveTip`](FeedError::AboveTip) for an invalid cursor.
    pub fn open(path: &Path, cursor: Cursor) -> Result<Self, FeedError> {
        Self::of(SharedChain::open(path)?, cursor)
    }

    /// Opens a feed of the same data directory for another consumer. Polls first, so the cursor may
    /// be a block connected since the last poll. The feeds share one chain in memory.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn another(&self, cursor: Cursor) -> Result<Self, FeedError> {
        self.chain.poll()?;
        Self::of(self.chain.clone(), cursor)
    }

    fn of(chain: SharedChain, cursor: Cursor) -> Result<Self, FeedError> {
        let cursor = match cursor {
            Cursor::Height(height) => {
                let known = chain.read()?;
                let hash = known.blocks.hash(height);
                let hash = hash.map_err(|_| FeedError::AboveTip {
                    height,
                    tip: known.tip().height,
                })?;
                Tip { hash, height }
            }
            Cursor::Block(hash) => Tip {
                hash,
                height: height_of(&chain, hash)?,
            },
        };
        Ok(Self {
            chain,
            cursor,
            branch: None,
            reported: None,
        })
    }

    /// Returns the tip of the last durable commit of the data directory at `data`.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn tip_of(data: &Path) -> Result<Tip, OpenError> {
        Ok(Durable::open(data)?.tip())
    }

    /// Returns the path of the file in `data` that is written at every commit: watch it to be
    /// notified of new blocks.
    pub fn file_to_watch(data: &Path) -> PathBuf {
        data.join(COMMIT_FILE)
    }

    /// Returns the last block returned by the iterator or accepted by `take` in [`run`](Self::run);
    /// before the first, the cursor that the feed was opened with.
    pub fn cursor(&self) -> Tip {
        self.cursor
    }

    /// Polls the data directory. Returns whether the feed has events pending.
    ///
    /// # Errors
    /// [`FeedError::Open`]; the feed continues with what it knows.
    pub fn poll(&mut self) -> Result<bool, FeedError> {
        self.chain.poll()?;
        Ok(self.has_more())
    }

    /// Polls the data directory once for all feeds that share this chain. Returns the number of tip
    /// changes so far: after it has grown, check [`has_more`](Self::has_more) on each feed.
    ///
    /// # Errors
    /// [`FeedError::Open`]; the feeds continue with what they know.
    pub fn poll_shared(&self) -> Result<u64, FeedError> {
        self.chain.poll()
    }

    /// Returns whether the feed has events pending, without polling.
    pub fn has_more(&self) -> bool {
        // What cannot be read now is reported by whoever reads the events.
        self.chain
            .read()
            .map_or(true, |chain| self.reported != Some(chain.tip()))
    }

    /// Checks that the directory knows the block of the cursor, on the active chain or off it.
    ///
    /// # Errors
    /// [`FeedError::Behind`] or [`FeedError::UnknownCursor`].
    pub fn check_cursor(&self) -> Result<(), FeedError> {
        let chain = self.chain.read()?;
        self.is_off(&chain).map(drop)
    }

    /// Returns whether the cursor is off the active chain, so that its block is the next one to be
    /// disconnected.
    fn is_off(&self, chain: &FeedChain) -> Result<bool, FeedError> {
        let Tip { hash, height } = self.cursor;
        let path = || chain.path.clone();
        let tip = chain.tip().height;
        match chain.blocks.fork_with(&hash) {
            Some((_, fork)) if fork == height => Ok(false),
            Some((_, fork)) if fork < tip && !chain.has_later => Ok(true),
            None if height <= tip && !chain.has_later => Err(FeedError::UnknownCursor { hash, path: path() }),
            // The tip is an ancestor of the cursor, or the cursor may belong to a later commit.
            _ => Err(FeedError::Behind {
                hash,
                height,
                tip,
                path: path(),
            }),
        }
    }

    /// Reads the cursor's block, which is off the chain of the directory at `path`.
    fn disconnected(&mut self, path: PathBuf) -> Result<FeedBlock, FeedError> {
        let height = self.cursor.height;
        let is_of_branch = |branch: &ChainBlocks| branch.hash(height).ok() == Some(self.cursor.hash);
        let branch = match self.branch.take().filter(is_of_branch) {
            Some(branch) => branch,
            None => DataDir::open_to_read(&path)?.blocks(&self.cursor)?,
        };
        let block = branch.read(height).map_err(|error| match error {
            // Permanent, unlike for a connected block: the node does not write it again.
            BlockReadError::InNoFile { hash, .. } => FeedError::KeptNoLonger { hash, path },
            error => error.into(),
        })?;
        let coins = block.undo.coins().iter();
        let coin_times = coins.map(|coin| Ok(branch.header(coin.height)?.time));
        let block = FeedBlock {
            is_connected: false,
            coin_times: coin_times.collect::<Result<_, BlockReadError>>()?,
            block,
            median_time_past: branch.median_time_past(height)?,
        };
        self.branch = Some(branch);
        Ok(block)
    }

    /// Runs `convert` on every pending block, on `threads` threads, and passes the results in order
    /// to `take`, on the calling thread. The cursor advances with each result that `take` accepts.
    /// Returns the tip once the feed has caught up with it.
    ///
    /// Disconnected blocks, and all blocks of feeds that share a chain, are converted on the
    /// calling thread. A slow `take` does not block the other feeds.
    ///
    /// # Errors
    /// Any [`FeedError`], and those of `convert` and `take`. A block that `take` fails on is
    /// returned again by the next call.
    pub fn run<T: Send, E: Send + From<FeedError>>(
        &mut self,
        threads: usize,
        convert: &(dyn Fn(FeedBlock) -> Result<T, E> + Sync),
        take: &mut dyn FnMut(T) -> Result<(), E>,
    ) -> Result<Tip, E> {
        let convert = |blocks: FeedBlocks<'_>, _| {
            let blocks = blocks.map(|block| {
                let block = block?;
                Ok((block.cursor_after(), convert(block)?))
            });
            blocks.collect::<Result<Vec<_>, E>>()
        };
        self.run_pieces(threads, &convert, take)
    }

    /// As [`run`](Self::run), in batches of a few MiB of blocks. Blocks that `convert` leaves in
    /// the iterator are skipped: they count as processed.
    ///
    /// # Errors
    /// As [`run`](Self::run). If `take` fails, the whole batch is returned again by the next call.
    pub fn run_batches<T: Send, E: Send + From<FeedError>>(
        &mut self,
        threads: usize,
        convert: &(dyn Fn(FeedBlocks<'_>) -> Result<T, E> + Sync),
        take: &mut dyn FnMut(T) -> Result<(), E>,
    ) -> Result<Tip, E> {
        let convert = |blocks: FeedBlocks<'_>, last| Ok(vec![(last, convert(blocks)?)]);
        self.run_pieces(threads, &convert, take)
    }

    /// Passes batches of pending blocks to `convert`, and each resulting chunk to `take`.
    fn run_pieces<T: Send, E: Send + From<FeedError>>(
        &mut self,
        threads: usize,
        convert: &ConvertBlocks<'_, T, E>,
        take: &mut dyn FnMut(T) -> Result<(), E>,
    ) -> Result<Tip, E> {
        let shared = self.chain.clone();
        loop {
            // One lock for the fork point and what is read from there: another feed may poll a
            // reorg between two.
            let chain = shared.read()?;
            if self.is_off(&chain)? {
                let path = chain.path.clone();
                // Other feeds, and polls, do not have to wait for this feed's disk reads.
                drop(chain);
                let block = self.disconnected(path)?;
                let after = block.cursor_after();
                let pieces = convert(&mut std::iter::once(Ok(block)), after)?;
                self.take_all(pieces, take)?;
                continue;
            }
            self.branch = None;
            let (first, tip) = (self.cursor.height + 1, chain.tip());
            if first > tip.height {
                self.reported = Some(tip);
                return Ok(tip);
            }
            let convert = |heights: RangeInclusive<u32>| {
                let height = *heights.end();
                let hash = chain.blocks.hash(height).map_err(FeedError::from)?;
                convert(&mut heights.map(|height| chain.read(height)), Tip { hash, height })
            };
            if shared.references() <= 2 {
                // No other feed shares the chain (the second reference is `shared`), and `another`
                // cannot add one while `self` is borrowed. So the lock can be held during `take`.
                let mut take = |pieces: Vec<(Tip, T)>| self.take_all(pieces, take);
                chain
                    .blocks
                    .for_each_run(first..=tip.height, RUN_BYTES, threads, &convert, &mut take)?;
            } else {
                // Other feeds need the lock to poll, and `take` may wait for a slow consumer:
                // convert one batch, and release the lock first.
                let mut length = 0;
                let last = (first..tip.height).find(|&height| {
                    length += u64::from(chain.blocks.length(height));
                    length >= SHARED_RUN_BYTES
                });
                let pieces = convert(first..=last.unwrap_or(tip.height))?;
                drop(chain);
                self.take_all(pieces, take)?;
            }
        }
    }

    fn take_all<T, E>(&mut self, pieces: Vec<(Tip, T)>, take: &mut dyn FnMut(T) -> Result<(), E>) -> Result<(), E> {
        for (after, piece) in pieces {
            take(piece)?;
            self.cursor = after;
        }
        Ok(())
    }

    fn next_event(&mut self) -> Result<Option<FeedEvent>, FeedError> {
        let shared = self.chain.clone();
        let chain = shared.read()?;
        let (block, event): (_, fn(SpendingBlock) -> FeedEvent) = if self.is_off(&chain)? {
            let path = chain.path.clone();
            drop(chain);
            (self.disconnected(path)?, FeedEvent::Disconnected)
        } else {
            self.branch = None;
            let tip = chain.tip();
            if self.cursor.height == tip.height {
                let reported = self.reported.replace(tip);
                return Ok((reported != Some(tip)).then_some(FeedEvent::Tip(tip)));
            }
            (chain.read(self.cursor.height + 1)?, FeedEvent::Connected)
        };
        self.cursor = block.cursor_after();
        Ok(Some(event(block.block)))
    }
}

/// Returns the height of a cursor's block. A block that is not known to be durable must be above
/// the tip, or may belong to a later commit. Its ancestors are in the directory's files.
fn height_of(chain: &SharedChain, hash: BlockHash) -> Result<u32, FeedError> {
    let known = chain.read()?;
    if let Some((height, _)) = known.blocks.fork_with(&hash) {
        return Ok(height);
    }
    let path = known.path.clone();
    // Polls do not have to wait: these files have an entry for each block of the chain.
    drop(known);
    let directory = DataDir::open_to_read(&path)?;
    let (headers, _) = read_headers_from(&directory, 0)?;
    let found = FoundPositions::read(&directory.file(POSITIONS_FILE)).map_err(OpenError::from)?;
    let headers = headers.iter().map(|(header, hash, _)| (*hash, header.prev_block_hash));
    let parents: HashMap<_, _> = headers.chain(found.parents()).collect();
    let ancestors = std::iter::successors(Some(hash), |hash| parents.get(hash).copied());
    let known = chain.read()?;
    let mut heights = (0..).zip(ancestors).filter_map(|(above, hash)| {
        let (height, _) = known.blocks.fork_with(&hash)?;
        Some(height + above)
    });
    let height = heights
        .next()
        .filter(|height| *height > known.tip().height || known.has_later);
    height.ok_or(FeedError::UnknownCursor { hash, path })
}

impl Iterator for Feed {
    type Item = Result<FeedEvent, FeedError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_event().transpose()
    }
}
