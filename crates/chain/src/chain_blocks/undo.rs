//! The coins that blocks of a chain spend: from the undo data of a directory, or from Core's undo
//! files beside the block files.

use super::{BlockCopy, ChainBlocks};
use crate::block_read_error::BlockReadError;
use crate::rev_files::RevError;
use crate::spending_block::{FoundAt, SpendingBlock};
use blockmill_block::{Block, BlockHash, BlockUndo};
use blockmill_blockfiles::{UndoCursor, undo_path};
use blockmill_coins::UndoLogError;
use blockmill_rules::flags::block_script_flags;
use std::collections::{BTreeSet, HashSet};
use std::ops::RangeInclusive;
use std::path::PathBuf;

/// Blocks that a node may have without their undo data: it receives blocks so far ahead of the one
/// that it connects (Core's `BLOCK_DOWNLOAD_WINDOW`).
pub(super) const AHEAD_MAX: u32 = 1024;

/// As [`AHEAD_MAX`], without the file of their undo data: it is made for the first block of its
/// file that is connected. A node asks a peer for so many blocks at a time (Core's
/// `MAX_BLOCKS_IN_TRANSIT_PER_PEER`).
pub(super) const AHEAD_WITHOUT_FILE_MAX: u32 = 16;

/// What is said of a block file without undo data beside it.
pub(super) const NO_UNDO_FILE: &str = "there is no file of undo data (rev*.dat) beside it";

/// How far the search for the undo data of a block has come. What was found is not found again.
#[derive(Debug, Clone, Copy, Default)]
pub struct UndoSearch {
    /// Whether the directory's own undo data was tried.
    own_tried: bool,
    /// Number of the copy whose undo file is being searched.
    copy: usize,
    cursor: UndoCursor,
    /// Blocks that were read to tell siblings apart.
    looks: usize,
}

impl ChainBlocks {
    /// The block at a height, and the coins that it spends: from the undo data of the directory, or
    /// from that beside the block's file. The first block spends none, and has no undo data.
    ///
    /// # Errors
    /// Any [`BlockReadError`].
    pub fn read(&self, height: u32) -> Result<SpendingBlock, BlockReadError> {
        self.read_next(height, &mut UndoSearch::default())
    }

    /// As [`read`](Self::read), but not with undo data that `search` has found before. The undo
    /// data of a sibling that is in the files is told apart by its coins; that of one that is not
    /// may be taken for the block's, if it has as many transactions with the same numbers of
    /// inputs.
    ///
    /// # Errors
    /// Any [`BlockReadError`].
    pub fn read_next(&self, height: u32, search: &mut UndoSearch) -> Result<SpendingBlock, BlockReadError> {
        let (block, position) = self.block_and_position(height)?;
        let found_at = position.map(|position| FoundAt {
            path: self.files.path(position.file).to_owned(),
            offset: position.offset,
        });
        let undo = match height {
            0 => BlockUndo::default(),
            _ => self.next_undo(height, &block, search)?,
        };
        let flags = block_script_flags(self.index.params(), height, &block.hash());
        Ok(SpendingBlock {
            height,
            block,
            found_at,
            undo,
            flags,
        })
    }

    /// Height of the last block of `heights` that has undo data, if the undo files have none for
    /// those above it: a node that runs writes blocks before their undo data, and a block file that
    /// it has begun before the file of its undo data. Otherwise the last height, whether it can be
    /// read or not.
    ///
    /// Undo data is not "not there yet" for more than 1,024 blocks, or 16 without an undo file; nor
    /// where an undo file has anything after it but records of known blocks and an unfinished
    /// write.
    pub fn last_with_undo(&self, heights: RangeInclusive<u32>) -> u32 {
        let last = *heights.end();
        for height in heights.rev() {
            let mut search = UndoSearch::default();
            match self.read_next(height, &mut search) {
                Err(error) if self.is_not_there_yet(height, last - height, &error) => {}
                Ok(_) if height == last || self.is_rest_known(height + 1..=last, height, &search) => return height,
                // Whatever is wrong here is said when the block is read.
                _ => return last,
            }
        }
        last
    }

    /// Whether a node may write the undo data later that could not be found, of a block with so
    /// many above it: its file has no record of it; or is not there, and the node has not written
    /// the block file to its end.
    fn is_not_there_yet(&self, height: u32, above: u32, error: &BlockReadError) -> bool {
        match error {
            BlockReadError::NoUndoRecord { .. } => above < AHEAD_MAX,
            BlockReadError::NoUndoFile { path, why, .. } if why == NO_UNDO_FILE && undo_path(path).is_some() => {
                let mut files = self.copies(height).iter().map(|copy| copy.position.file);
                above < AHEAD_WITHOUT_FILE_MAX && files.all(|file| self.files.is_preallocated(file).unwrap_or(false))
            }
            _ => false,
        }
    }

    /// Whether the undo files of blocks for which nothing was found have no records that may be
    /// theirs, and damaged: all after that of the block below, which `found` has found, are those
    /// of other known blocks.
    fn is_rest_known(&self, missing: RangeInclusive<u32>, below: u32, found: &UndoSearch) -> bool {
        let magic = self.index.params().magic();
        let found_in = self.copies(below).get(found.copy).map(|copy| copy.position.file);
        let files: BTreeSet<u32> = missing
            .flat_map(|height| self.copies(height))
            .map(|copy| copy.position.file)
            .collect();
        files.into_iter().all(|file| {
            let after = (Some(file) == found_in).then_some(&found.cursor);
            let parents = self.parents_in(file);
            self.rev_files.is_rest_known(&self.files, file, magic, after, &parents)
        })
    }

    /// The parents of the known blocks in a file, in this chain or beside it.
    fn parents_in(&self, file: u32) -> Vec<BlockHash> {
        let of_chain = self.copies.iter().filter(|copy| copy.position.file == file);
        let of_chain = of_chain.filter_map(|copy| Some(self.header(copy.height).ok()?.prev_block_hash));
        let mut parents = self.index.parents_in(file);
        let known: HashSet<BlockHash> = parents.iter().copied().collect();
        parents.extend(of_chain.filter(|parent| !known.contains(parent)));
        parents
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

    /// The next undo data of a block in an undo file beside one of its files.
    fn undo_beside(&self, height: u32, block: &Block, search: &mut UndoSearch) -> Result<BlockUndo, BlockReadError> {
        let magic = self.index.params().magic();
        let mut problem = RevError::NoFile;
        let id = self.id(height)?;
        while let Some(&BlockCopy { position, rank, .. }) = self.copies(height).get(search.copy) {
            let rank = rank as usize;
            let found = self
                .rev_files
                .find(&self.files, position.file, magic, block, rank, &mut search.cursor);
            match found {
                // The record that is looked for may come later.
                Ok(undo) if self.is_of_sibling(id, block, &undo, &mut search.looks) => continue,
                Ok(undo) => return Ok(undo),
                // The error of any file is more use than that there is no file.
                Err(error) if problem == RevError::NoFile => problem = error,
                Err(_) => {}
            }
            // The same undo data may lie beside another copy.
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
}
