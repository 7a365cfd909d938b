//! The blocks of a chain, read where they were found, and the coins that they spend: with the undo
//! data of a data directory, or with Core's undo files beside the block files.

mod advance;
mod connected;
mod files;
mod siblings;
mod undo;

pub use advance::Unknown;
pub use undo::UndoSearch;

use crate::assume_valid::signature_way;
use crate::block_read_error::BlockReadError;
use crate::copies::{BadCopy, mutated, read_copy};
use crate::index::{BlockId, HeaderIndex, HeaderRefusal};
use crate::insert::clock;
use crate::positions::FoundPositions;
use crate::report::signatures::{SignatureWay, Signatures};
use crate::report::wholeness::Wholeness;
use crate::rev_files::RevFiles;
use crate::spending_block::SpendingBlock;
use blockmill_block::{Block, BlockHash, Header};
use blockmill_blockfiles::{BlockFiles, FileError, Position, Record};
use blockmill_coins::UndoLog;
use blockmill_pool::Helpers;
use blockmill_rules::{Params, Reject};
use std::collections::{BTreeSet, HashMap};
use std::ops::{Range, RangeInclusive};
use std::path::{Path, PathBuf};

/// Blocks of a run in [`ChainBlocks::for_each_run`] at most: those that were not found have no
/// length.
const BLOCKS_TOGETHER: u32 = 20_000;

/// Memory in bytes of what was made of runs and waits for its turn. While there is more, no thread
/// begins a run; those that have begun come on top.
const WAITING_BYTES_MAX: usize = 32 << 20;

/// Bytes between two blocks that are read ahead with them.
const GAP_READ: u64 = 1 << 20;

/// Where a block lies, as it was found.
#[derive(Debug, Clone, Copy)]
struct BlockCopy {
    height: u32,
    position: Position,
    /// Blocks of the chain that are in the file and below this one: about the number of its undo
    /// record in the file beside.
    rank: u32,
}

/// A block file that cannot be opened.
struct Unopened {
    path: PathBuf,
    why: String,
}

/// A chain up to a block. Several threads may read at once.
pub struct ChainBlocks {
    index: HeaderIndex,
    /// The chain by height.
    chain: Vec<BlockId>,
    files: BlockFiles,
    /// Sorted by height.
    copies: Vec<BlockCopy>,
    /// A folder of copies that are read only where there are no others.
    last_folder: Option<PathBuf>,
    /// The undo data of a data directory. None where nothing was connected yet.
    undo: Option<UndoLog>,
    /// The undo files beside the block files.
    rev_files: RevFiles,
    /// Whether the block files that the chain was found in hold a whole chain.
    wholeness: Wholeness,
    /// Block files that were searched with all their contents.
    deep: BTreeSet<u32>,
    /// Block files whose key is another one than when they were searched.
    rekeyed: BTreeSet<u32>,
    /// Block files that cannot be opened.
    unopened: Vec<Unopened>,
    /// The blocks in these, of this chain and others: which of the files, and the offset there.
    unopened_blocks: HashMap<BlockHash, (usize, u64)>,
    /// Whether it is that of a data directory, all of whose blocks were found valid.
    is_connected: bool,
}

impl ChainBlocks {
    /// The chain of a data directory that ends in `tip`, a block of the index. Its blocks were
    /// connected, so they are valid. `undo` has its undo data. [`find_blocks`](Self::find_blocks) says
    /// where the blocks are.
    #[must_use]
    pub fn connected(index: HeaderIndex, tip: BlockId, undo: Option<UndoLog>) -> Self {
        let mut blocks = Self::up_to(index, tip);
        blocks.is_connected = true;
        blocks.undo = undo;
        blocks
    }

    /// The chain in an index that ends in a block, with records of files.
    pub(crate) fn of_records(index: HeaderIndex, tip: BlockId, files: BlockFiles, records: Vec<Record>) -> Self {
        let mut blocks = Self::up_to(index, tip);
        blocks.files = files;
        blocks.add_copies(records);
        blocks
    }

    /// The files in which blocks were found.
    pub(crate) fn files(&self) -> &BlockFiles {
        &self.files
    }

    /// Height and position of each block that was found, sorted by height. A block may be there
    /// twice.
    pub(crate) fn positions(&self) -> impl ExactSizeIterator<Item = (u32, Position)> {
        self.copies.iter().map(|copy| (copy.height, copy.position))
    }

    /// The chain that ends in a block, which need not be in this one. None if its header is not
    /// known.
    #[must_use]
    pub fn ending_in(mut self, tip: &BlockHash) -> Option<Self> {
        let id = self.index.find(tip)?;
        // The caller decides between chains of equal work. One of more work stays in question.
        let work = |id: BlockId| self.index.entry(id).work;
        let is_no_more = |other: &BlockHash| self.index.find(other).is_some_and(|other| work(other) <= work(id));
        self.wholeness.decide(is_no_more);
        let height = self.index.entry(id).height;
        if self.chain.get(height as usize) == Some(&id) {
            self.chain.truncate(height as usize + 1);
            self.copies.retain(|copy| copy.height <= height);
            return Some(self);
        }
        let mut blocks = Self {
            chain: chain_up_to(&self.index, id),
            copies: Vec::new(),
            rev_files: RevFiles::default(),
            ..self
        };
        blocks.find_copies();
        Some(blocks)
    }

    /// Takes all copies of the chain's blocks that the index knows.
    fn find_copies(&mut self) {
        let records = self.chain.iter().flat_map(|&id| {
            let (header, hash) = (self.index.header(id), self.index.entry(id).hash);
            let positions = self.index.positions(id);
            positions.map(move |position| Record { position, header, hash })
        });
        let records = records.collect();
        self.add_copies(records);
    }

    /// Height of a block in this chain.
    pub fn height_of(&self, hash: &BlockHash) -> Option<u32> {
        let id = self.index.find(hash)?;
        let height = self.index.entry(id).height;
        (self.chain.get(height as usize) == Some(&id)).then_some(height)
    }

    /// Whether the header of a block is known, in this chain or beside it.
    pub fn is_known(&self, hash: &BlockHash) -> bool {
        self.index.find(hash).is_some()
    }

    /// Checks all headers of the chain once more. Those of block files were checked when they were
    /// found; those of a data directory, when their blocks were connected.
    ///
    /// # Errors
    /// The height of the first header that breaks a rule, and the rule.
    pub fn check_headers(&self) -> Result<(), (u32, Reject)> {
        let mut index = HeaderIndex::new(self.params().clone());
        index.reserve(self.chain.len());
        for (height, &id) in (0..).zip(&self.chain) {
            let (header, hash) = (self.index.header(id), self.index.entry(id).hash);
            match index.accept_header(&header, hash, clock()) {
                Ok(_) => {}
                Err(HeaderRefusal::Invalid(reject)) => return Err((height, reject)),
                Err(HeaderRefusal::MissingParent) => return Err((height, Reject::header("prev-blk-not-found"))),
            }
        }
        Ok(())
    }

    /// Height of the best chain of headers, which may be another one.
    pub fn best_height(&self) -> u32 {
        self.index.entry(self.index.best_header()).height
    }

    fn up_to(index: HeaderIndex, tip: BlockId) -> Self {
        Self {
            chain: chain_up_to(&index, tip),
            index,
            files: BlockFiles::new(),
            copies: Vec::new(),
            last_folder: None,
            undo: None,
            rev_files: RevFiles::default(),
            wholeness: Wholeness::default(),
            deep: BTreeSet::new(),
            rekeyed: BTreeSet::new(),
            unopened: Vec::new(),
            unopened_blocks: HashMap::new(),
            is_connected: false,
        }
    }

    /// Blocks of the chain are looked for among what searches have found, too.
    pub fn find_blocks(&mut self, found: &FoundPositions) {
        let mut records = Vec::new();
        for (path, search) in found.files() {
            // A file that went away has no blocks, and one that is another's name now adds none.
            match self.files.add(path) {
                Ok(added) => {
                    let Some(&file) = added.first() else { continue };
                    if self.files.key(file) != search.key() {
                        self.rekeyed.insert(file);
                    }
                    records.extend(search.records(file));
                }
                Err(error) if error.is_gone() => {}
                Err(error) => {
                    let why = match error {
                        FileError::Io { path: of, error } if of == *path => error.to_string(),
                        error => error.to_string(),
                    };
                    self.unopened.push(Unopened {
                        path: path.to_owned(),
                        why,
                    });
                    let number = self.unopened.len() - 1;
                    // The file has no number, and nothing asks for it.
                    for record in search.records(0) {
                        if self.is_known(&record.hash) {
                            let found = (number, record.position.offset);
                            self.unopened_blocks.entry(record.hash).or_insert(found);
                        }
                    }
                }
            }
        }
        self.add_copies(records);
    }

    /// Blocks that are found from now on are read from a file in this folder only if they are in no
    /// other file.
    pub fn put_last(&mut self, folder: &Path) {
        self.last_folder = std::fs::canonicalize(folder).ok();
    }

    fn add_copies(&mut self, records: Vec<Record>) {
        if records.is_empty() {
            return;
        }
        let (index, chain) = (&self.index, &self.chain);
        self.copies.extend(records.into_iter().filter_map(|record| {
            let id = index.find(&record.hash)?;
            let height = index.entry(id).height;
            let is_of_chain = chain.get(height as usize) == Some(&id);
            is_of_chain.then_some(BlockCopy {
                height,
                position: record.position,
                rank: 0,
            })
        }));
        let is_last = |&file: &u32| {
            let folder = self.files.path(file).parent();
            self.last_folder.is_some() && folder == self.last_folder.as_deref()
        };
        let last: BTreeSet<u32> = (0..self.files.len() as u32).filter(is_last).collect();
        let order = |copy: &BlockCopy| {
            let file = copy.position.file;
            (copy.height, last.contains(&file), file, copy.position.offset)
        };
        self.copies.sort_by_key(order);
        // Files that are added later may have been searched before.
        self.copies.dedup_by_key(|copy| (copy.height, copy.position));
        // For each file the last height, and the blocks below it. The first block has no record.
        let mut ranks: HashMap<u32, (u32, u32)> = HashMap::new();
        for copy in &mut self.copies {
            let (height, rank) = ranks.entry(copy.position.file).or_insert((copy.height, 0));
            *rank += u32::from(copy.height != *height && *height > 0);
            *height = copy.height;
            copy.rank = *rank;
        }
    }

    /// Where a block was found.
    fn copies(&self, height: u32) -> &[BlockCopy] {
        let first = self.copies.partition_point(|copy| copy.height < height);
        let after = self.copies[first..].partition_point(|copy| copy.height == height);
        &self.copies[first..first + after]
    }

    /// Length in bytes of the block at a height; 0 where it was found in no file.
    pub fn length(&self, height: u32) -> u32 {
        self.copies(height).first().map_or(0, |copy| copy.position.length)
    }

    /// Has the system read the blocks of some heights ahead, which lie together or nearly so.
    pub fn read_ahead(&self, heights: RangeInclusive<u32>) {
        let positions = heights.filter_map(|height| Some(self.copies(height).first()?.position));
        let mut parts: Vec<(u32, Range<u64>)> = Vec::new();
        for Position { file, length, offset } in positions {
            let end = offset + u64::from(length);
            match parts.last_mut() {
                Some((last, part)) if *last == file && offset.abs_diff(part.end) <= GAP_READ => {
                    // Blocks lie in the order in which they came, so the next one may lie before
                    // this part.
                    *part = part.start.min(offset)..part.end.max(end);
                }
                _ => parts.push((file, offset..end)),
            }
        }
        for (file, part) in parts {
            self.files.read_ahead(file, part.start, part.end - part.start);
        }
    }

    /// Height of the last block.
    pub fn height(&self) -> u32 {
        self.chain.len().saturating_sub(1) as u32
    }

    fn id(&self, height: u32) -> Result<BlockId, BlockReadError> {
        let tip = self.height();
        let id = self.chain.get(height as usize).copied();
        id.ok_or(BlockReadError::AboveTip { height, tip })
    }

    /// Hash of the block at a height.
    ///
    /// # Errors
    /// [`BlockReadError::AboveTip`].
    pub fn hash(&self, height: u32) -> Result<BlockHash, BlockReadError> {
        Ok(self.index.entry(self.id(height)?).hash)
    }

    /// Header of the block at a height.
    ///
    /// # Errors
    /// [`BlockReadError::AboveTip`].
    pub fn header(&self, height: u32) -> Result<Header, BlockReadError> {
        Ok(self.index.header(self.id(height)?))
    }

    /// The times of all blocks in seconds since 1970, by height.
    pub fn times(&self) -> Vec<u32> {
        let time = |id: &BlockId| self.index.header(*id).time;
        self.chain.iter().map(time).collect()
    }

    /// The median of the times of a block and the ten before it, which locks of later blocks are
    /// measured by.
    ///
    /// # Errors
    /// [`BlockReadError::AboveTip`].
    pub fn median_time_past(&self, height: u32) -> Result<u32, BlockReadError> {
        Ok(self.index.entry(self.id(height)?).median_time_past)
    }

    /// Where the block at a height was found: the file, which may be one that cannot be opened, and
    /// the offset in bytes. None if it is in no file.
    pub fn found_at(&self, height: u32) -> Option<(PathBuf, u64)> {
        if let Some(BlockCopy { position, .. }) = self.copies(height).first() {
            return Some((self.files.path(position.file).to_owned(), position.offset));
        }
        let &(number, offset) = self.unopened_blocks.get(&self.hash(height).ok()?)?;
        Some((self.unopened[number].path.clone(), offset))
    }

    /// How the signatures of the block at a height are verified.
    ///
    /// # Errors
    /// [`BlockReadError::AboveTip`].
    pub fn signature_way(
        &self,
        height: u32,
        wanted: Signatures,
        can_defer: bool,
    ) -> Result<SignatureWay, BlockReadError> {
        Ok(signature_way(&self.index, self.id(height)?, wanted, can_defer))
    }

    /// The block at a height: its first copy that is the block of its header, as the engine takes
    /// it. The network's first block needs no file.
    ///
    /// # Errors
    /// [`BlockReadError::AboveTip`], [`InNoFile`](BlockReadError::InNoFile),
    /// [`Unreadable`](BlockReadError::Unreadable) or [`Rejected`](BlockReadError::Rejected).
    pub fn block(&self, height: u32) -> Result<Block, BlockReadError> {
        self.block_and_position(height).map(|(block, _)| block)
    }

    /// As [`block`](Self::block), with the position of the copy, if it is in a file.
    fn block_and_position(&self, height: u32) -> Result<(Block, Option<Position>), BlockReadError> {
        let hash = self.hash(height)?;
        let mut problem = None;
        if height == 0
            && self.copies(0).is_empty()
            && let Ok(block) = Block::decode(self.params().genesis_block())
        {
            return Ok((block, None));
        }
        for copy in self.copies(height) {
            match read_copy(&self.files, copy.position, &hash, self.params(), height) {
                Ok(block) => return Ok((block, Some(copy.position))),
                Err(bad) => {
                    problem.get_or_insert_with(|| self.unusable(hash, height, copy.position, bad));
                }
            }
        }
        Err(problem.unwrap_or_else(|| self.nowhere(hash, height)))
    }

    /// Why a block has no copy: the file where it was found cannot be opened, or is gone.
    fn nowhere(&self, hash: BlockHash, height: u32) -> BlockReadError {
        let Some(&(number, offset)) = self.unopened_blocks.get(&hash) else {
            return BlockReadError::InNoFile { hash, height };
        };
        let Unopened { path, why } = &self.unopened[number];
        BlockReadError::Unreadable {
            hash,
            height,
            path: path.clone(),
            offset,
            detail: why.clone(),
        }
    }

    /// Why a block cannot be read, by the first of its copies.
    fn unusable(&self, hash: BlockHash, height: u32, position: Position, bad: BadCopy) -> BlockReadError {
        let (path, offset) = (self.files.path(position.file).to_owned(), position.offset);
        let detail = match bad {
            BadCopy::Mutated(reject) if !self.is_connected => {
                return BlockReadError::Rejected {
                    hash,
                    height,
                    path,
                    offset,
                    reject: Box::new(reject),
                };
            }
            BadCopy::Mutated(reject) => mutated(&reject),
            BadCopy::Unreadable(detail) if self.rekeyed.contains(&position.file) => {
                format!("{detail}; the key in xor.dat beside the file is not the one that it was read with")
            }
            BadCopy::Unreadable(detail) => detail,
        };
        BlockReadError::Unreadable {
            hash,
            height,
            path,
            offset,
            detail,
        }
    }

    /// The blocks of some heights, and the coins that they spend, in order.
    ///
    /// ```
    /// # use blockmill_chain::{BlockReadError, ChainBlocks};
    /// /// Fees of a hundred blocks, in satoshi.
    /// fn fees(blocks: &ChainBlocks) -> Result<i128, BlockReadError> {
    ///     let mut sum = 0;
    ///     for block in blocks.iter(1..=100) {
    ///         let block = block?;
    ///         let fees = block.transactions().filter_map(|spending| spending.fee());
    ///         sum += fees.map(i128::from).sum::<i128>();
    ///     }
    ///     Ok(sum)
    /// }
    /// ```
    pub fn iter(&self, heights: RangeInclusive<u32>) -> impl Iterator<Item = Result<SpendingBlock, BlockReadError>> {
        heights.map(|height| self.read(height))
    }

    /// Gives the blocks of some heights to `convert`, as many together as have about `bytes` bytes,
    /// on `threads` threads, or on this one alone if the system starts no others; and what comes of
    /// them to `take`, in order, on this thread. Ends at the first error.
    ///
    /// # Errors
    /// Those of `convert` and of `take`.
    pub fn for_each_run<T: Send, E: Send>(
        &self,
        heights: RangeInclusive<u32>,
        bytes: u64,
        threads: usize,
        convert: &(dyn Fn(RangeInclusive<u32>) -> Result<T, E> + Sync),
        take: &mut dyn FnMut(T) -> Result<(), E>,
    ) -> Result<(), E> {
        let convert = |run| Ok((convert(run)?, 0));
        self.for_each_run_in(std::slice::from_ref(&heights), bytes, threads, &convert, take)
    }

    /// As [`for_each_run`](Self::for_each_run), over several ranges of heights, one after the
    /// other. No blocks of two ranges are together. `convert` says how much memory what it made
    /// takes, in bytes: while more than 32 MiB wait for `take`, no thread begins a run.
    ///
    /// # Errors
    /// Those of `convert` and of `take`.
    pub fn for_each_run_in<T: Send, E: Send>(
        &self,
        ranges: &[RangeInclusive<u32>],
        bytes: u64,
        threads: usize,
        convert: &(dyn Fn(RangeInclusive<u32>) -> Result<(T, usize), E> + Sync),
        take: &mut dyn FnMut(T) -> Result<(), E>,
    ) -> Result<(), E> {
        let runs = ranges.iter().flat_map(|heights| self.runs(heights.clone(), bytes));
        // Without threads this one does everything.
        let helpers = Helpers::start(threads).unwrap_or_default();
        let convert = |run| match convert(run) {
            Ok((converted, memory)) => (Ok(converted), memory),
            Err(error) => (Err(error), 0),
        };
        helpers.in_order_weighed(WAITING_BYTES_MAX, runs, convert, |converted| take(converted?))
    }

    /// Runs of blocks that have about so many bytes together.
    fn runs(&self, heights: RangeInclusive<u32>, bytes: u64) -> impl Iterator<Item = RangeInclusive<u32>> + Send + '_ {
        let last = *heights.end();
        let mut next = Some(*heights.start()).filter(|start| *start <= last);
        std::iter::from_fn(move || {
            let start = next?;
            let mut length = 0;
            let end = (start..=last).find(|&height| {
                length += u64::from(self.length(height));
                length >= bytes || height - start + 1 == BLOCKS_TOGETHER
            });
            let end = end.unwrap_or(last);
            next = Some(end + 1).filter(|start| *start <= last);
            Some(start..=end)
        })
    }

    /// The parameters of the chain.
    pub fn params(&self) -> &Params {
        self.index.params()
    }
}

/// The blocks of an index up to one of them, by height.
fn chain_up_to(index: &HeaderIndex, tip: BlockId) -> Vec<BlockId> {
    let heights = 0..=index.entry(tip).height;
    heights.filter_map(|height| index.ancestor(tip, height)).collect()
}
