//! The blocks of a data directory as a consumer needs them who keeps something of his own: from the
//! block that he has handled last, each block that left the chain and each that came, with the
//! coins that it spends, once.
//!
//! A feed reads what is durable, while another process connects blocks. The consumer's cursor is a
//! block. If that is no longer on the chain, the feed gives the blocks from the cursor down to the
//! fork, so that they can be undone, and then those of the chain. Headers and undo data of
//! disconnected blocks stay in the directory, and the engine keeps the blocks themselves until
//! there are a thousand above them. A block that was durable is a cursor until then.
//!
//! - [`request`]: what a consumer asks for at a socket.

pub mod request;

use crate::chain_blocks::{open_undo, read_headers_from, search_own_blocks};
use crate::commit_mark::{Mark, MarkReader};
use crate::error::{OpenError, Remedy};
use crate::files::{COMMIT_FILE, HEADERS_FILE, POSITIONS_FILE, UNDO_FILE};
use crate::{DataDir, Status};
use blockmill_block::BlockHash;
use blockmill_chain::block_read_error::BlockReadError;
use blockmill_chain::chain_blocks::{ChainBlocks, Unknown};
use blockmill_chain::positions::{FoundPositions, PositionsReader};
use blockmill_chain::spending_block::SpendingBlock;
use blockmill_coins::Tip;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use thiserror::Error;

/// Bytes of the blocks that a thread converts at a time.
const RUN_BYTES: u64 = 4 << 20;

/// The same for each of several feeds of a directory. One whose consumer takes its time holds what
/// came of them.
const SHARED_RUN_BYTES: u64 = 1 << 20;

/// The block that a consumer has handled last. As text: a height in digits, or a hash in hex.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cursor {
    /// The block of the chain at this height; 0 for a consumer that has nothing yet.
    Height(u32),
    /// A block, whether it is on the chain or not.
    Block(BlockHash),
}

/// A text is no [`Cursor`].
#[derive(Debug, Error)]
#[error("expected a height or the hash of a block: {0}")]
pub struct NoCursor(String);

impl FromStr for Cursor {
    type Err = NoCursor;

    fn from_str(text: &str) -> Result<Self, NoCursor> {
        // No hash is shorter than 64 digits.
        if text.len() < 64 && !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
            let height = text.parse().map(Self::Height);
            return height.map_err(|_| NoCursor(format!("no height is above {}", u32::MAX)));
        }
        let hash: Result<BlockHash, _> = text.parse();
        hash.map(Self::Block).map_err(|error| NoCursor(error.to_string()))
    }
}

/// Why a feed does not go on.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum FeedError {
    /// The directory cannot be read.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A block or its undo data cannot be read.
    #[error(transparent)]
    Block(#[from] BlockReadError),
    /// The cursor is a block that the directory does not know.
    #[error("block {hash} was never connected in {}", path.display())]
    UnknownCursor {
        /// The block.
        hash: BlockHash,
        /// The directory.
        path: PathBuf,
    },
    /// The block left the chain long ago, and cannot be undone any more.
    #[error("block {hash} left the chain long ago, and is kept no longer in {}", path.display())]
    KeptNoLonger {
        /// The block.
        hash: BlockHash,
        /// The directory.
        path: PathBuf,
    },
    /// The cursor is a height that the chain does not reach.
    #[error("height {height} is above the tip, which is at height {tip}")]
    AboveTip {
        /// The height.
        height: u32,
        /// Height of the tip.
        tip: u32,
    },
}

impl FeedError {
    /// Whether it may pass: what cannot be read now may be there once the writer of the directory,
    /// or the node whose block files it names, is done. Whoever follows looks again.
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::Open(_) | Self::Block(_))
    }
}

/// A block that left the chain, or came to it.
#[derive(Debug, Clone)]
pub struct FeedBlock {
    /// Whether it came.
    pub is_connected: bool,
    /// The block, and the coins that it spends.
    pub block: SpendingBlock,
    /// The median of the times of the block and the ten before it.
    pub median_time_past: u32,
    /// Of a block that left: the times of the blocks that made the coins which it spends, in the
    /// order of its undo data. Of one that came: nothing.
    pub coin_times: Vec<u32>,
}

impl FeedBlock {
    /// The cursor of a consumer that has handled it: after a block that left the chain its parent.
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

/// Some blocks that a consumer is to be told, read one after the other.
pub type FeedBlocks<'a> = &'a mut dyn Iterator<Item = Result<FeedBlock, FeedError>>;

/// An event for a consumer.
#[derive(Debug, Clone)]
pub enum FeedEvent {
    /// The highest block of the consumer's chain is not on the chain any more.
    Disconnected(SpendingBlock),
    /// The next block.
    Connected(SpendingBlock),
    /// Everything up to this block was told.
    Tip(Tip),
}

/// The chain of a directory, which another process moves on.
struct FeedChain {
    path: PathBuf,
    blocks: ChainBlocks,
    tip: Tip,
    /// Bytes of the headers that were read.
    headers_at: u64,
    positions: PositionsReader,
    /// Where the directory's own blocks are.
    own: FoundPositions,
    mark_reader: MarkReader,
    /// What the mark of the last commit was at the last look.
    mark: Mark,
    /// How often the tip has changed.
    changes: u64,
}

impl FeedChain {
    fn open(path: &Path) -> Result<Self, FeedError> {
        let tip = Status::of(path)?.tip;
        let directory = DataDir::open_to_read(path)?;
        Ok(Self {
            blocks: directory.blocks(&tip)?,
            path: path.to_owned(),
            tip,
            headers_at: 0,
            positions: PositionsReader::new(directory.file(POSITIONS_FILE)),
            own: FoundPositions::default(),
            mark_reader: MarkReader::new(directory.file(COMMIT_FILE)),
            mark: Mark::None,
            changes: 0,
        })
    }

    /// Takes in what was written since. The tip comes first, so that its header is there.
    fn look(&mut self) -> Result<(), FeedError> {
        // Before the tip, which may be a later one.
        let mark = self.mark_reader.read().map_err(OpenError::from)?;
        if mark.commit().is_some() && mark == self.mark {
            return Ok(());
        }
        let tip = Status::of(&self.path)?.tip;
        if tip == self.tip {
            self.mark = mark;
            return Ok(());
        }
        let directory = DataDir::open_to_read(&self.path)?;
        let (headers, end) = read_headers_from(&directory, self.headers_at)?;
        let undo = open_undo(&directory.file(UNDO_FILE))?;
        let found = self.positions.read().map_err(OpenError::from)?;
        self.blocks
            .advance(headers, &tip.hash, undo, found)
            .map_err(|Unknown(hash)| OpenError::Damaged {
                path: directory.file(HEADERS_FILE),
                detail: format!("block {hash} or its parent is missing"),
                remedy: Some(Remedy::NewDirectory),
            })?;
        let blocks = &self.blocks;
        self.positions.forget_known(|hash| blocks.is_known(hash));
        let magic = self.blocks.params().magic();
        search_own_blocks(&directory, magic, &mut self.own)?;
        self.blocks.find_blocks(&self.own);
        (self.headers_at, self.tip, self.mark) = (end, tip, mark);
        self.changes += 1;
        Ok(())
    }

    fn read(&self, height: u32) -> Result<FeedBlock, FeedError> {
        let block = self.blocks.read(height)?;
        Ok(FeedBlock {
            is_connected: true,
            block,
            median_time_past: self.blocks.median_time_past(height)?,
            coin_times: Vec::new(),
        })
    }

    /// The chain of a cursor that is no longer on this one.
    fn branch(&self, cursor: &Tip) -> Result<ChainBlocks, FeedError> {
        Ok(DataDir::open_to_read(&self.path)?.blocks(cursor)?)
    }
}

/// Converts some blocks to pieces, each with the cursor after it.
type ConvertBlocks<'a, T, E> = dyn Fn(FeedBlocks<'_>, Tip) -> Result<Vec<(Tip, T)>, E> + Sync + 'a;

/// The blocks of a data directory after a cursor. An iterator over what the consumer is to be told;
/// it ends with [`FeedEvent::Tip`], and goes on once [`look`](Self::look) has found more.
///
/// ```
/// use blockmill_datadir::{Cursor, Feed, FeedError, FeedEvent};
/// # use blockmill_coins::Tip;
/// # use std::path::Path;
///
/// /// The sum of all fees up to the tip.
/// fn fees(data: &Path) -> Result<(i64, Tip), FeedError> {
///     let mut sum = 0;
///     let mut feed = Feed::open(data, Cursor::Height(0))?;
///     for event in &mut feed {
///         // Only a cursor that has left the chain begins with blocks that are disconnected.
///         if let FeedEvent::Connected(block) = event? {
///             sum += block.transactions().filter_map(|spending| spending.fee()).sum::<i64>();
///         }
///     }
///     Ok((sum, feed.cursor()))
/// }
/// ```
pub struct Feed {
    chain: Arc<RwLock<FeedChain>>,
    cursor: Tip,
    /// The chain of a cursor that is no longer on the directory's.
    branch: Option<ChainBlocks>,
    /// The tip that the consumer was told last.
    told: Option<Tip>,
}

impl Feed {
    /// A feed of the data directory at `path`, from a cursor on.
    ///
    /// # Errors
    /// [`FeedError`].
    pub fn open(path: &Path, cursor: Cursor) -> Result<Self, FeedError> {
        Self::of(Arc::new(RwLock::new(FeedChain::open(path)?)), cursor)
    }

    /// A feed of the same directory for another consumer, whose cursor may be a block that has come
    /// since. The two share what they know of the chain.
    ///
    /// # Errors
    /// [`FeedError`].
    pub fn another(&self, cursor: Cursor) -> Result<Self, FeedError> {
        write(&self.chain).look()?;
        Self::of(Arc::clone(&self.chain), cursor)
    }

    fn of(chain: Arc<RwLock<FeedChain>>, cursor: Cursor) -> Result<Self, FeedError> {
        let known = read(&chain);
        let cursor = match cursor {
            Cursor::Height(height) => match known.blocks.hash(height) {
                Ok(hash) => Tip { hash, height },
                Err(_) => {
                    let tip = known.tip.height;
                    return Err(FeedError::AboveTip { height, tip });
                }
            },
            Cursor::Block(hash) => match known.blocks.fork_with(&hash) {
                Some((height, _)) => Tip { hash, height },
                None => {
                    let path = known.path.clone();
                    return Err(FeedError::UnknownCursor { hash, path });
                }
            },
        };
        drop(known);
        Ok(Self {
            chain,
            cursor,
            branch: None,
            told: None,
        })
    }

    /// The file of the directory `data` that changes with each commit, for who waits for one.
    pub fn file_to_watch(data: &Path) -> PathBuf {
        data.join(COMMIT_FILE)
    }

    /// The block that was given last.
    pub fn cursor(&self) -> Tip {
        self.cursor
    }

    /// Takes in what the directory has got since. Returns whether there is something to tell.
    ///
    /// # Errors
    /// [`FeedError`].
    pub fn look(&mut self) -> Result<bool, FeedError> {
        write(&self.chain).look()?;
        Ok(self.has_more())
    }

    /// Looks as [`look`](Self::look) does, once for all feeds that share what they know of the
    /// chain. Each of them [`has_more`](Self::has_more) after a change. Returns the number of
    /// changes that were taken in so far.
    ///
    /// # Errors
    /// [`FeedError`].
    pub fn look_for_all(&self) -> Result<u64, FeedError> {
        let mut chain = write(&self.chain);
        chain.look()?;
        Ok(chain.changes)
    }

    /// Whether there is something to tell of what was taken in.
    pub fn has_more(&self) -> bool {
        self.told != Some(read(&self.chain).tip)
    }

    /// The height of the last block of the chain that the cursor is, or is above.
    fn fork(&self, chain: &FeedChain) -> Result<u32, FeedError> {
        let fork = chain.blocks.fork_with(&self.cursor.hash);
        let (_, fork) = fork.ok_or_else(|| FeedError::UnknownCursor {
            hash: self.cursor.hash,
            path: chain.path.clone(),
        })?;
        Ok(fork)
    }

    /// The cursor's block, which is not on the chain, and moves the cursor to its parent. None if
    /// the cursor is on the chain.
    fn next_disconnected(&mut self) -> Result<Option<FeedBlock>, FeedError> {
        let chain = read(&self.chain);
        if self.fork(&chain)? == self.cursor.height {
            drop(chain);
            self.branch = None;
            return Ok(None);
        }
        let is_of_branch = |branch: &ChainBlocks| branch.hash(self.cursor.height).ok() == Some(self.cursor.hash);
        let branch = match self.branch.take().filter(is_of_branch) {
            Some(branch) => branch,
            None => chain.branch(&self.cursor)?,
        };
        let path = chain.path.clone();
        drop(chain);
        let height = self.cursor.height;
        let block = branch.read(height).map_err(|error| match error {
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
        // The first block is on every chain, so this one is above it.
        self.cursor = Tip {
            hash: branch.hash(height - 1)?,
            height: height - 1,
        };
        self.branch = Some(branch);
        Ok(Some(block))
    }

    /// Gives everything that there is to tell to `convert`, on `threads` threads, and what comes of
    /// it to `take`, in order, on this thread. The cursor is the block that `take` got last. At the
    /// end it is the tip, which is returned.
    ///
    /// A consumer that takes its time holds up no other feed of this directory.
    ///
    /// # Errors
    /// [`FeedError`], and those of `convert` and of `take`. A block that `take` refused counts as
    /// not given.
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

    /// As [`run`](Self::run), with several blocks at a time: some MiB of them. Those that `convert`
    /// does not take count as given.
    ///
    /// # Errors
    /// As [`run`](Self::run). All blocks of which `take` refused what came of them count as not
    /// given.
    pub fn run_batches<T: Send, E: Send + From<FeedError>>(
        &mut self,
        threads: usize,
        convert: &(dyn Fn(FeedBlocks<'_>) -> Result<T, E> + Sync),
        take: &mut dyn FnMut(T) -> Result<(), E>,
    ) -> Result<Tip, E> {
        let convert = |blocks: FeedBlocks<'_>, last| Ok(vec![(last, convert(blocks)?)]);
        self.run_pieces(threads, &convert, take)
    }

    /// Gives `convert` some blocks with the cursor after the last of them, and each piece of what
    /// comes of it to `take`. The cursor beside a piece is the one after it.
    fn run_pieces<T: Send, E: Send + From<FeedError>>(
        &mut self,
        threads: usize,
        convert: &ConvertBlocks<'_, T, E>,
        take: &mut dyn FnMut(T) -> Result<(), E>,
    ) -> Result<Tip, E> {
        loop {
            let before = self.cursor;
            if let Some(block) = self.next_disconnected().map_err(E::from)? {
                let after = std::mem::replace(&mut self.cursor, before);
                let pieces = convert(&mut std::iter::once(Ok(block)), after)?;
                self.take_all(pieces, take)?;
                continue;
            }
            let shared = Arc::clone(&self.chain);
            let chain = read(&shared);
            let first = self.cursor.height + 1;
            if self.fork(&chain)? < self.cursor.height {
                continue;
            }
            if first > chain.tip.height {
                self.told = Some(chain.tip);
                return Ok(chain.tip);
            }
            let convert = |heights: RangeInclusive<u32>| {
                let height = *heights.end();
                let hash = chain.blocks.hash(height).map_err(FeedError::from)?;
                convert(&mut heights.map(|height| chain.read(height)), Tip { hash, height })
            };
            if Arc::strong_count(&self.chain) <= 2 {
                // Nobody else waits for the lock.
                let mut take = |pieces: Vec<(Tip, T)>| self.take_all(pieces, take);
                chain
                    .blocks
                    .for_each_run(first..=chain.tip.height, RUN_BYTES, threads, &convert, &mut take)?;
            } else {
                let mut length = 0;
                let last = (first..chain.tip.height).find(|&height| {
                    length += u64::from(chain.blocks.length(height));
                    length >= SHARED_RUN_BYTES
                });
                let pieces = convert(first..=last.unwrap_or(chain.tip.height))?;
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
        if let Some(block) = self.next_disconnected()? {
            return Ok(Some(FeedEvent::Disconnected(block.block)));
        }
        let chain = read(&self.chain);
        if self.cursor.height < chain.tip.height {
            let block = chain.read(self.cursor.height + 1)?.block;
            self.cursor = Tip {
                hash: block.block.hash(),
                height: block.height,
            };
            return Ok(Some(FeedEvent::Connected(block)));
        }
        let tip = chain.tip;
        let is_new = self.told != Some(tip);
        drop(chain);
        self.told = Some(tip);
        Ok(is_new.then_some(FeedEvent::Tip(tip)))
    }
}

fn write(chain: &RwLock<FeedChain>) -> RwLockWriteGuard<'_, FeedChain> {
    chain.write().unwrap_or_else(PoisonError::into_inner)
}

/// A panic leaves the chain as it was, or the feed without a chain that fits.
fn read(chain: &RwLock<FeedChain>) -> RwLockReadGuard<'_, FeedChain> {
    chain.read().unwrap_or_else(PoisonError::into_inner)
}

impl Iterator for Feed {
    type Item = Result<FeedEvent, FeedError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_event().transpose()
    }
}
