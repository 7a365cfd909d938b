//! The blocks of a data directory's chain, read where they were found, and the coins that they
//! spend.

use crate::chain::import::scan_files;
use crate::chain::index::{BlockId, HeaderIndex};
use crate::chain::places::Places;
use crate::datadir::DataDir;
use crate::datadir::error::{OpenError, Remedy, file_error};
use crate::datadir::files::{BLOCKS_FOLDER, FIRST_BLOCK_FILE, HEADERS_FILE, PLACES_FILE, UNDO_FILE};
use crate::datadir::headers_file::{NO_UNDO, RECORD, decode};
use blockmill_block::{Block, BlockHash, BlockUndo, Header};
use blockmill_blockfiles::{BlockFiles, Position};
use blockmill_coins::{Tip, UndoLog, UndoLogError};
use blockmill_rules::Params;
use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use thiserror::Error;

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

/// A block, and the coins that it spends.
#[derive(Debug, Clone)]
pub struct SpendingBlock {
    /// Height of the block.
    pub height: u32,
    /// The block.
    pub block: Block,
    /// A coin for each input but the coinbase's.
    pub undo: BlockUndo,
}

/// Where a block lies, as it was found.
#[derive(Debug, Clone, Copy)]
struct Place {
    height: u32,
    position: Position,
}

/// The chain of a data directory up to a block. Several threads may read at once.
pub struct ChainBlocks {
    index: HeaderIndex,
    /// The chain by height.
    chain: Vec<BlockId>,
    files: BlockFiles,
    /// Sorted by height.
    places: Vec<Place>,
    /// None where nothing was connected yet.
    undo: Option<UndoLog>,
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
            detail: format!("the header of the tip {} (height {}) is missing", tip.hash, tip.height),
            remedy: Some(Remedy::NewDirectory),
        })?;
        let height = index.entry(tip_id).height;
        let chain = (0..=height)
            .filter_map(|height| index.ancestor(tip_id, height))
            .collect();
        let mut blocks = Self {
            index,
            chain,
            files: BlockFiles::new(),
            places: Vec::new(),
            undo: open_undo(&directory.file(UNDO_FILE))?,
        };
        let mut places = Places::read(&directory.file(PLACES_FILE))?;
        let submitted = directory.file(BLOCKS_FOLDER);
        if submitted.join(FIRST_BLOCK_FILE).exists() {
            // The places of blocks that came one by one are written when they are next imported.
            let mut files = BlockFiles::new();
            let numbers = files.add(&submitted)?;
            let magic = blocks.index.params().magic();
            scan_files(&files, numbers, magic, &mut places, &AtomicBool::new(false), &mut ())?;
        }
        blocks.find_places(&places);
        Ok(blocks)
    }

    fn find_places(&mut self, found: &Places) {
        let (index, chain) = (&self.index, &self.chain);
        let height_of = |hash: &BlockHash| {
            let id = index.find(hash)?;
            let height = index.entry(id).height;
            (chain.get(height as usize) == Some(&id)).then_some(height)
        };
        for (path, search) in found.files() {
            // A file that went away has no blocks, and one that is another's name now adds none.
            let Some(file) = self.files.add(path).ok().and_then(|mut added| added.next()) else {
                continue;
            };
            for record in search.records(file) {
                if let Some(height) = height_of(&record.hash) {
                    let position = record.position;
                    self.places.push(Place { height, position });
                }
            }
        }
        self.places.sort_by_key(|place| place.height);
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

    /// The block at a height.
    ///
    /// # Errors
    /// [`BlockReadError::AboveTip`], [`NoPlace`](BlockReadError::NoPlace) or
    /// [`Unreadable`](BlockReadError::Unreadable).
    pub fn block(&self, height: u32) -> Result<Block, BlockReadError> {
        let hash = self.hash(height)?;
        let first = self.places.partition_point(|place| place.height < height);
        let places = self.places[first..].iter().take_while(|place| place.height == height);
        let mut problem = BlockReadError::NoPlace { hash, height };
        for (number, place) in places.enumerate() {
            let detail = match self.files.read(&place.position).map(Block::decode) {
                Ok(Ok(block)) if block.hash() != hash => "another block lies here now".to_owned(),
                Ok(Ok(block)) if block.merkle_root().hash != block.header().merkle_root.0 => {
                    "its transactions are not those of its header".to_owned()
                }
                Ok(Ok(block)) => return Ok(block),
                Ok(Err(error)) => format!("it does not decode: {error}"),
                Err(error) => error.to_string(),
            };
            if number == 0 {
                problem = BlockReadError::Unreadable {
                    hash,
                    height,
                    path: self.files.path(place.position.file).to_owned(),
                    offset: place.position.offset,
                    detail,
                };
            }
        }
        Err(problem)
    }

    /// The block at a height, and the coins that it spends. The first block spends none, and has no
    /// undo data.
    ///
    /// # Errors
    /// Any [`BlockReadError`].
    pub fn read(&self, height: u32) -> Result<SpendingBlock, BlockReadError> {
        let id = self.id(height)?;
        let entry = self.index.entry(id);
        let hash = entry.hash;
        let undo = match (&self.undo, entry.undo()) {
            _ if height == 0 => BlockUndo::default(),
            (Some(log), Some(position)) => {
                let magic = self.index.params().magic();
                let read = log.read(magic, &self.index.header(id).prev_block_hash, &position);
                read.map_err(|error| BlockReadError::Undo {
                    hash,
                    height,
                    detail: match error {
                        UndoLogError::Io(error) => error.to_string(),
                        error => format!("offset {}: {error}", position.offset),
                    },
                })?
            }
            (None, Some(_)) => {
                return Err(BlockReadError::NoUndo {
                    hash,
                    height,
                    why: "undo.dat is gone",
                });
            }
            (_, None) => {
                let why = "a snapshot was loaded above it";
                return Err(BlockReadError::NoUndo { hash, height, why });
            }
        };
        let block = self.block(height)?;
        if height > 0 && !undo.fits(&block) {
            return Err(BlockReadError::Undo {
                hash,
                height,
                detail: "it is another block's".to_owned(),
            });
        }
        Ok(SpendingBlock { height, block, undo })
    }

    /// The parameters of the chain.
    pub(crate) fn params(&self) -> &Params {
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
