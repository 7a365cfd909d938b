//! The blocks of a chain, read where they were found, and the coins that they spend: of a data
//! directory, with its undo data, or of block files with Core's undo files beside them.

use crate::chain::assume_valid::signature_way;
use crate::chain::copies::read_copy;
use crate::chain::index::{BlockId, HeaderIndex, HeaderRefusal};
use crate::chain::insert::clock;
use crate::chain::places::Places;
use crate::chain::rev_files::{RevError, RevFiles};
use crate::chain::search::Search;
use crate::chain::state::ChainState;
use crate::datadir::DataDir;
use crate::datadir::error::{OpenError, Remedy, file_error, no_tip_header};
use crate::datadir::files::{BLOCKS_FOLDER, FIRST_BLOCK_FILE, HEADERS_FILE, PLACES_FILE, UNDO_FILE};
use crate::datadir::headers_file::{NO_UNDO, RECORD, decode};
use crate::datadir::in_order::in_order;
use crate::datadir::spending_block::SpendingBlock;
use crate::report::findings::{ImportEnd, Leftover};
use crate::report::observer::Observer;
use crate::report::signatures::{SignatureWay, Signatures};
use crate::report::telemetry::{Reporter, Telemetry};
use crate::report::trace::Trace;
use crate::report::wholeness::{Found, Wholeness};
use blockmill_block::{Block, BlockHash, BlockUndo, Header};
use blockmill_blockfiles::{BlockFiles, FileError, Position, Record, UndoCursor};
use blockmill_coins::{Tip, UndoLog, UndoLogError};
use blockmill_rules::flags::block_script_flags;
use blockmill_rules::{Params, Reject};
use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io::ErrorKind;
use std::ops::{Range, RangeInclusive};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use thiserror::Error;

/// Blocks of a run in [`ChainBlocks::for_each_run`] at most: those without a place have no length.
const BLOCKS_TOGETHER: u32 = 20_000;

/// Bytes between two blocks that are read ahead with them.
const GAP_READ: u64 = 1 << 20;

/// What is said of a block file without undo data beside it.
const NO_UNDO_FILE: &str = "there is no file of undo data (rev*.dat) beside it";

/// For each block file its length, or what is wrong with it, and whether an undo file is beside it.
type FileFacts = HashMap<u32, (Result<u64, String>, bool)>;

/// Why a block of the chain, or the coins that it spends, cannot be read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BlockReadError {
    /// The chain has no block of this height.
    #[error("there is no block of height {height}: the chain ends at height {tip}")]
    AboveTip {
        /// The height.
        height: u32,
        /// Height of the tip.
        tip: u32,
    },
    /// The block is in none of the files in which blocks were found.
    #[error(
        "block {hash} (height {height}) is in no block file that is still there: run connect on the files that have it"
    )]
    NoPlace {
        /// The block.
        hash: BlockHash,
        /// Its height.
        height: u32,
    },
    /// The file has other bytes than when the block was found, or cannot be read.
    #[error("{}: offset {offset}: block {hash} (height {height}): {detail}", path.display())]
    Unreadable {
        /// The block.
        hash: BlockHash,
        /// Its height.
        height: u32,
        /// The file.
        path: PathBuf,
        /// Offset in bytes.
        offset: u64,
        /// What is wrong.
        detail: String,
    },
    /// There is no undo data for the block.
    #[error("block {hash} (height {height}) has no undo data: {why}")]
    NoUndo {
        /// The block.
        hash: BlockHash,
        /// Its height.
        height: u32,
        /// Why not.
        why: &'static str,
    },
    /// There is no undo file beside the block's file, or none that can be read.
    #[error("{}: {why}: block {hash} (height {height}) needs it", path.display())]
    NoUndoFile {
        /// The block.
        hash: BlockHash,
        /// Its height.
        height: u32,
        /// The block's file.
        path: PathBuf,
        /// What there is in place of an undo file.
        why: String,
    },
    /// The undo file beside the block's file does not have the block's undo data.
    #[error("undo data of block {hash} (height {height}): {}: no undo data there has its checksum", path.display())]
    NoUndoRecord {
        /// The block.
        hash: BlockHash,
        /// Its height.
        height: u32,
        /// The undo file.
        path: PathBuf,
    },
    /// The undo data cannot be used.
    #[error("undo data of block {hash} (height {height}): {detail}")]
    Undo {
        /// The block.
        hash: BlockHash,
        /// Its height.
        height: u32,
        /// What is wrong.
        detail: String,
    },
}

/// Where a block lies, as it was found.
#[derive(Debug, Clone, Copy)]
struct Place {
    height: u32,
    position: Position,
    /// Blocks of the chain that are in the file and below this one: about the number of its undo
    /// record in the file beside.
    rank: u32,
}

/// How far the search for the undo data of a block has come. What was found is not found again.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct UndoSearch {
    /// Whether the directory's own undo data was tried.
    own_tried: bool,
    /// Number of the copy whose undo file is being searched.
    copy: usize,
    cursor: UndoCursor,
}

/// A chain up to a block. Several threads may read at once.
pub struct ChainBlocks {
    index: HeaderIndex,
    /// The chain by height.
    chain: Vec<BlockId>,
    files: BlockFiles,
    /// Sorted by height.
    places: Vec<Place>,
    /// The undo data of a data directory. None where nothing was connected yet.
    undo: Option<UndoLog>,
    /// The undo files beside the block files.
    rev_files: RevFiles,
    /// Whether the block files that the chain was found in hold a whole chain.
    wholeness: Wholeness,
}

impl ChainBlocks {
    /// Opens the chain that ends in `tip`: the one of the directory's set, which was opened before.
    ///
    /// # Errors
    /// [`OpenError::File`], or [`OpenError::Damaged`] where headers are missing.
    pub fn open(directory: &DataDir, tip: &Tip) -> Result<Self, OpenError> {
        Self::open_with(directory, tip, directory.chain_id().params())
    }

    /// As [`open`](Self::open), with other rules than those of the directory's network.
    pub(crate) fn open_with(directory: &DataDir, tip: &Tip, params: Params) -> Result<Self, OpenError> {
        let index = read_headers(directory, params)?;
        let tip_id = index.find(&tip.hash).ok_or_else(|| OpenError::Damaged {
            path: directory.file(HEADERS_FILE),
            detail: no_tip_header(tip),
            remedy: Some(Remedy::NewDirectory),
        })?;
        let mut blocks = Self::up_to(index, tip_id);
        blocks.undo = open_undo(&directory.file(UNDO_FILE))?;
        let mut places = Places::read(&directory.file(PLACES_FILE))?;
        let submitted = directory.file(BLOCKS_FOLDER);
        if submitted.join(FIRST_BLOCK_FILE).exists() {
            // The places of blocks that came one by one are written when they are next imported.
            let mut files = BlockFiles::new();
            let numbers = files.add(&submitted)?;
            let search = Search {
                files: &files,
                magic: blocks.index.params().magic(),
                deep: &BTreeSet::new(),
                stop: &AtomicBool::new(false),
            };
            search.run(&numbers, &mut places, &mut ())?;
        }
        blocks.find_places(&places);
        Ok(blocks)
    }

    /// The chain of most work in `sources`, which are as for [`connect`](crate::Engine::connect),
    /// and in `headers`, of blocks that need not be in the sources. Nothing but headers is
    /// validated. None if `stop` was set.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn of_files(
        sources: &[PathBuf],
        headers: &[Header],
        params: &Params,
        stop: &AtomicBool,
        observer: &mut dyn Observer,
    ) -> Result<Option<Self>, FileError> {
        let index = HeaderIndex::new(params.clone());
        let genesis = index.genesis();
        let mut chain = ChainState::new(index, genesis, Places::default());
        chain.import_headers(headers, observer);
        let mut telemetry = Telemetry::new(Trace::new(false, None));
        let before = telemetry.begin_run();
        let mut reporter = Reporter {
            telemetry: &mut telemetry,
            observer,
        };
        let findings = chain.import(sources, stop, &mut reporter)?;
        if findings.end == ImportEnd::Stopped {
            return Ok(None);
        }
        chain.settle_ties(stop);
        let figures = telemetry.end_run(&before);
        let (index, files) = chain.into_parts();
        let best = index.best_header();
        let mut blocks = Self::up_to(index, best);
        blocks.files = files;
        blocks.find_copies();
        blocks.wholeness = Wholeness::of(&Found {
            rejected: &figures.rejected,
            unreadable: &figures.unreadable,
            damages: &findings.damages,
            missing_files: &findings.missing_files,
            leftovers: findings.leftovers,
            first_leftover: findings.first_leftover.as_ref(),
        });
        Ok(Some(blocks))
    }

    /// Whether the block files in which the chain was found hold a whole chain, and why not. The
    /// chain of a data directory was connected, so it is whole.
    pub fn wholeness(&self) -> &Wholeness {
        &self.wholeness
    }

    /// Whether records that turned out to be more than their blocks, or no blocks, hide blocks of
    /// which nothing was known. Their files are read once more, so this is for the end of the work.
    /// None if `stop` was set.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn find_hidden(&self, stop: &AtomicBool, observer: &mut dyn Observer) -> Result<Option<Wholeness>, FileError> {
        let deep = self.files.take_doubts();
        let search = Search {
            files: &self.files,
            magic: self.index.params().magic(),
            deep: &deep,
            stop,
        };
        let numbers: Vec<u32> = deep.iter().copied().collect();
        let Some(found) = search.run(&numbers, &mut Places::default(), observer)? else {
            return Ok(None);
        };
        let is_hidden = |record: &&Record| self.index.find(&record.hash).is_none();
        let hidden: Vec<Leftover> = found
            .records
            .iter()
            .filter(is_hidden)
            .map(|record| Leftover {
                hash: record.hash,
                parent: record.header.prev_block_hash,
                path: self.files.path(record.position.file).to_owned(),
                offset: record.position.offset,
            })
            .collect();
        Ok(Some(Wholeness::of_hidden(&hidden)))
    }

    /// The chain of most work in an index, with records of files.
    pub(crate) fn of_records(index: HeaderIndex, files: BlockFiles, records: Vec<Record>) -> Self {
        let best = index.best_header();
        let mut blocks = Self::up_to(index, best);
        blocks.files = files;
        blocks.add_places(records);
        blocks
    }

    /// The files in which blocks were found.
    pub(crate) fn files(&self) -> &BlockFiles {
        &self.files
    }

    /// Height and position of each block that was found, sorted by height. A block may be there
    /// twice.
    pub(crate) fn positions(&self) -> impl ExactSizeIterator<Item = (u32, Position)> {
        self.places.iter().map(|place| (place.height, place.position))
    }

    /// The chain that ends in a block, which need not be in this one. None if its header is not
    /// known.
    #[must_use]
    pub fn ending_in(mut self, tip: &BlockHash) -> Option<Self> {
        let id = self.index.find(tip)?;
        let height = self.index.entry(id).height;
        if self.chain.get(height as usize) == Some(&id) {
            self.chain.truncate(height as usize + 1);
            self.places.retain(|place| place.height <= height);
            return Some(self);
        }
        let mut blocks = Self::up_to(self.index, id);
        blocks.files = self.files;
        blocks.undo = self.undo;
        blocks.wholeness = self.wholeness;
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
        self.add_places(records);
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

    /// Judges all headers of the chain once more. Those of block files were judged when they were
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

    /// What keeps blocks of some heights from being read, as far as that shows without reading
    /// them: blocks and undo data that are in no file, and files that are gone or too short.
    pub fn find_unreadable(&self, heights: RangeInclusive<u32>) -> Vec<(RangeInclusive<u32>, String)> {
        let mut files = FileFacts::new();
        let mut found: Vec<(RangeInclusive<u32>, String)> = Vec::new();
        for height in heights {
            let Some(problem) = self.problem(height, &mut files) else {
                continue;
            };
            match found.last_mut() {
                Some((heights, last)) if *last == problem && heights.end() + 1 == height => {
                    *heights = *heights.start()..=height;
                }
                _ => found.push((height..=height, problem)),
            }
        }
        found
    }

    fn problem(&self, height: u32, files: &mut FileFacts) -> Option<String> {
        let places = self.places(height);
        let id = self.id(height).ok()?;
        let needs_undo_beside = height > 0 && self.index.entry(id).undo().is_none();
        let mut problem = None;
        for Place { position, .. } in places {
            let path = self.files.path(position.file);
            let (length, has_undo) = files.entry(position.file).or_insert_with(|| {
                let length = std::fs::metadata(path).map(|metadata| metadata.len());
                let length = length.map_err(|error| match error.kind() {
                    ErrorKind::NotFound => "is gone".to_owned(),
                    _ => format!("cannot be read: {error}"),
                });
                (length, self.files.has_undo_file(position.file))
            });
            let path = path.display();
            let wrong = match length {
                Err(problem) => format!("{path} {problem}"),
                Ok(length) if *length < position.offset + u64::from(position.length) => {
                    format!("{path} has become shorter")
                }
                Ok(_) if needs_undo_beside && !*has_undo => format!("{path}: {NO_UNDO_FILE}"),
                Ok(_) => return None,
            };
            problem.get_or_insert(wrong);
        }
        Some(problem.unwrap_or_else(|| "in none of the block files".to_owned()))
    }

    /// Height of the best chain of headers, which may be another one.
    pub fn best_height(&self) -> u32 {
        self.index.entry(self.index.best_header()).height
    }

    /// Blocks of the chain are looked for in `sources`, too, with the undo files beside them. False
    /// if `stop` was set.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn add_files(
        &mut self,
        sources: &[PathBuf],
        stop: &AtomicBool,
        observer: &mut dyn Observer,
    ) -> Result<bool, FileError> {
        let mut numbers = Vec::new();
        for source in sources {
            numbers.extend(self.files.add(source)?);
        }
        let search = Search {
            files: &self.files,
            magic: self.index.params().magic(),
            deep: &BTreeSet::new(),
            stop,
        };
        let found = search.run(&numbers, &mut Places::default(), observer)?;
        let is_whole = found.is_some();
        self.add_places(found.unwrap_or_default().records);
        Ok(is_whole)
    }

    fn up_to(index: HeaderIndex, tip: BlockId) -> Self {
        let height = index.entry(tip).height;
        let ancestors = (0..=height).filter_map(|height| index.ancestor(tip, height));
        Self {
            chain: ancestors.collect(),
            index,
            files: BlockFiles::new(),
            places: Vec::new(),
            undo: None,
            rev_files: RevFiles::default(),
            wholeness: Wholeness::default(),
        }
    }

    fn find_places(&mut self, found: &Places) {
        let mut records = Vec::new();
        for (path, search) in found.files() {
            // A file that went away has no blocks, and one that is another's name now adds none.
            if let Some(file) = self.files.add(path).ok().and_then(|added| added.first().copied()) {
                records.extend(search.records(file));
            }
        }
        self.add_places(records);
    }

    fn add_places(&mut self, records: Vec<Record>) {
        let (index, chain) = (&self.index, &self.chain);
        self.places.extend(records.into_iter().filter_map(|record| {
            let id = index.find(&record.hash)?;
            let height = index.entry(id).height;
            let is_of_chain = chain.get(height as usize) == Some(&id);
            is_of_chain.then_some(Place {
                height,
                position: record.position,
                rank: 0,
            })
        }));
        let order = |place: &Place| (place.height, place.position.file, place.position.offset);
        self.places.sort_by_key(order);
        self.places.dedup_by_key(|place| (place.height, place.position));
        // For each file the last height, and the blocks below it. The first block has no record.
        let mut ranks: HashMap<u32, (u32, u32)> = HashMap::new();
        for place in &mut self.places {
            let (height, rank) = ranks.entry(place.position.file).or_insert((place.height, 0));
            *rank += u32::from(place.height != *height && *height > 0);
            *height = place.height;
            place.rank = *rank;
        }
    }

    /// Where a block was found.
    fn places(&self, height: u32) -> &[Place] {
        let first = self.places.partition_point(|place| place.height < height);
        let after = self.places[first..].partition_point(|place| place.height == height);
        &self.places[first..first + after]
    }

    /// Length in bytes of the block at a height; 0 where it was found in no file.
    pub fn length(&self, height: u32) -> u32 {
        self.places(height).first().map_or(0, |place| place.position.length)
    }

    /// Has the system read the blocks of some heights ahead, which lie together or nearly so.
    pub(crate) fn read_ahead(&self, heights: RangeInclusive<u32>) {
        let positions = heights.filter_map(|height| Some(self.places(height).first()?.position));
        let mut parts: Vec<(u32, Range<u64>)> = Vec::new();
        for Position { file, length, offset } in positions {
            let end = offset + u64::from(length);
            match parts.last_mut() {
                Some((last, part)) if *last == file && offset.abs_diff(part.end) <= GAP_READ => {
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

    /// The median of the times of a block and the ten before it, which locks of later blocks are
    /// measured by.
    ///
    /// # Errors
    /// [`BlockReadError::AboveTip`].
    pub fn median_time_past(&self, height: u32) -> Result<u32, BlockReadError> {
        Ok(self.index.entry(self.id(height)?).median_time_past)
    }

    /// Where the block at a height was found: the file, and the offset in bytes. None if it is in
    /// no file.
    pub fn found_at(&self, height: u32) -> Option<(PathBuf, u64)> {
        let position = self.places(height).first()?.position;
        Some((self.files.path(position.file).to_owned(), position.offset))
    }

    /// How the signatures of the block at a height are verified.
    ///
    /// # Errors
    /// [`BlockReadError::AboveTip`].
    pub(crate) fn signature_way(
        &self,
        height: u32,
        wanted: Signatures,
        can_defer: bool,
    ) -> Result<SignatureWay, BlockReadError> {
        Ok(signature_way(&self.index, self.id(height)?, wanted, can_defer))
    }

    /// The block at a height: its first copy that is the block of its header, as the engine takes
    /// it.
    ///
    /// # Errors
    /// [`BlockReadError::AboveTip`], [`NoPlace`](BlockReadError::NoPlace) or
    /// [`Unreadable`](BlockReadError::Unreadable).
    pub fn block(&self, height: u32) -> Result<Block, BlockReadError> {
        let hash = self.hash(height)?;
        let mut problem = None;
        for place in self.places(height) {
            match read_copy(&self.files, place.position, &hash, self.params(), height) {
                Ok(block) => return Ok(block),
                Err(detail) => {
                    problem.get_or_insert_with(|| BlockReadError::Unreadable {
                        hash,
                        height,
                        path: self.files.path(place.position.file).to_owned(),
                        offset: place.position.offset,
                        detail,
                    });
                }
            }
        }
        Err(problem.unwrap_or(BlockReadError::NoPlace { hash, height }))
    }

    /// The block at a height, and the coins that it spends: from the undo data of the directory, or
    /// from that beside the block's file. The first block spends none, and has no undo data.
    ///
    /// # Errors
    /// Any [`BlockReadError`].
    pub fn read(&self, height: u32) -> Result<SpendingBlock, BlockReadError> {
        self.read_next(height, &mut UndoSearch::default())
    }

    /// As [`read`](Self::read), but not with undo data that `search` has found before. An undo file
    /// has nothing to tell the undo data of siblings apart, if the blocks have the same number of
    /// transactions with the same numbers of inputs.
    pub(crate) fn read_next(&self, height: u32, search: &mut UndoSearch) -> Result<SpendingBlock, BlockReadError> {
        let block = self.block(height)?;
        let undo = match height {
            0 => BlockUndo::default(),
            _ => self.next_undo(height, &block, search)?,
        };
        let flags = block_script_flags(self.index.params(), height, &block.hash());
        Ok(SpendingBlock {
            height,
            block,
            undo,
            flags,
        })
    }

    /// Height of the last block of `heights` that has undo data, if the undo files have none for
    /// those above it: a node that runs writes blocks before their undo data. Otherwise the last
    /// height, whether it can be read or not.
    pub fn last_with_undo(&self, heights: RangeInclusive<u32>) -> u32 {
        let last = *heights.end();
        for height in heights.rev() {
            let mut search = UndoSearch::default();
            match self.read_next(height, &mut search) {
                Err(BlockReadError::NoUndoRecord { .. }) => {}
                Ok(_) if !self.may_have_undo(height + 1..=last, height, &search) => return height,
                _ => return last,
            }
        }
        last
    }

    /// Whether undo files have records that may be those of blocks for which none was found, since
    /// they are damaged: any after that of the block below, which `found` has found.
    fn may_have_undo(&self, missing: RangeInclusive<u32>, below: u32, found: &UndoSearch) -> bool {
        let magic = self.index.params().magic();
        let found_in = self.places(below).get(found.copy).map(|place| place.position.file);
        let files: BTreeSet<u32> = missing
            .flat_map(|height| self.places(height))
            .map(|place| place.position.file)
            .collect();
        files.into_iter().any(|file| {
            let after = (Some(file) == found_in).then_some(&found.cursor);
            self.rev_files.has_records_after(&self.files, file, magic, after)
        })
    }

    /// The blocks of some heights, and the coins that they spend, in order.
    ///
    /// ```
    /// # use blockmill_engine::{BlockReadError, ChainBlocks};
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
    /// on `threads` threads; and what comes of them to `take`, in order, on this thread. Ends at
    /// the first error.
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
        let mut next = Some(*heights.start()).filter(|start| start <= heights.end());
        let runs = std::iter::from_fn(|| {
            let start = next?;
            let mut length = 0;
            let end = (start..=*heights.end()).find(|&height| {
                length += u64::from(self.length(height));
                length >= bytes || height - start + 1 == BLOCKS_TOGETHER
            });
            let end = end.unwrap_or(*heights.end());
            next = Some(end + 1).filter(|start| start <= heights.end());
            Some(start..=end)
        });
        in_order(threads, runs.enumerate(), convert, take)
    }

    /// The undo data of a block in the directory's own file. An error of none says that there is no
    /// such file.
    fn own_undo(&self, height: u32) -> Result<BlockUndo, Option<BlockReadError>> {
        let id = self.id(height)?;
        let entry = self.index.entry(id);
        let hash = entry.hash;
        let no_undo = |why| Some(BlockReadError::NoUndo { hash, height, why });
        match (&self.undo, entry.undo()) {
            (Some(log), Some(position)) => {
                let magic = self.index.params().magic();
                let read = log.read(magic, &self.index.header(id).prev_block_hash, &position);
                read.map_err(|error| {
                    Some(BlockReadError::Undo {
                        hash,
                        height,
                        detail: match error {
                            UndoLogError::Io(error) => error.to_string(),
                            error => format!("offset {}: {error}", position.offset),
                        },
                    })
                })
            }
            (None, Some(_)) => Err(no_undo("undo.dat is gone")),
            (Some(_), None) => Err(no_undo("a snapshot was loaded above it")),
            (None, None) => Err(None),
        }
    }

    /// The next undo data of a block that was not found before.
    fn next_undo(&self, height: u32, block: &Block, search: &mut UndoSearch) -> Result<BlockUndo, BlockReadError> {
        let mut problem = None;
        if !std::mem::replace(&mut search.own_tried, true) {
            match self.own_undo(height) {
                Ok(undo) if undo.fits(block) => return Ok(undo),
                Ok(_) => {
                    problem = Some(BlockReadError::Undo {
                        hash: block.hash(),
                        height,
                        detail: "it is another block's".to_owned(),
                    });
                }
                Err(error) => problem = error,
            }
        }
        let beside = self.undo_beside(height, block, search);
        beside.map_err(|beside| problem.unwrap_or(beside))
    }

    /// The next undo data of a block in an undo file beside one of its files.
    fn undo_beside(&self, height: u32, block: &Block, search: &mut UndoSearch) -> Result<BlockUndo, BlockReadError> {
        let magic = self.index.params().magic();
        let mut problem = RevError::NoFile;
        while let Some(&Place { position, rank, .. }) = self.places(height).get(search.copy) {
            let rank = rank as usize;
            let found = self
                .rev_files
                .find(&self.files, position.file, magic, block, rank, &mut search.cursor);
            match found {
                Ok(undo) => return Ok(undo),
                Err(error) if problem == RevError::NoFile => problem = error,
                Err(_) => {}
            }
            search.copy += 1;
            search.cursor = UndoCursor::default();
        }
        let hash = block.hash();
        let why = match problem {
            RevError::NoRecord { path } => return Err(BlockReadError::NoUndoRecord { hash, height, path }),
            RevError::NoFile => NO_UNDO_FILE.to_owned(),
            RevError::Unreadable(error) => format!("its undo data cannot be read: {error}"),
        };
        let path = self.found_at(height).map_or_else(PathBuf::new, |(path, _)| path);
        Err(BlockReadError::NoUndoFile {
            hash,
            height,
            path,
            why,
        })
    }

    /// The parameters of the chain.
    pub fn params(&self) -> &Params {
        self.index.params()
    }
}

/// The headers of a directory, which another process may append to.
fn read_headers(directory: &DataDir, params: Params) -> Result<HeaderIndex, OpenError> {
    let mut index = HeaderIndex::new(params);
    let path = directory.file(HEADERS_FILE);
    let bytes = match std::fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(file_error(path)(error).into()),
    };
    index.reserve(bytes.len() / RECORD);
    // The last one may be in the middle of being written.
    for (header, position) in bytes.chunks(RECORD).map_while(decode) {
        let id = index
            .insert_trusted(&header, header.hash())
            .ok_or_else(|| OpenError::Damaged {
                path: path.clone(),
                detail: format!("the parent of block {} is missing", header.hash()),
                remedy: Some(Remedy::NewDirectory),
            })?;
        if position != NO_UNDO {
            index.set_undo(id, position);
        }
    }
    Ok(index)
}

fn open_undo(path: &Path) -> Result<Option<UndoLog>, OpenError> {
    match File::open(path) {
        Ok(file) => Ok(Some(UndoLog::with_file(path, Box::new(file), 0)?)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(file_error(path)(error).into()),
    }
}
