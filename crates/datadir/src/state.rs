//! What an engine keeps open of its data directory, besides the coins.

use crate::DataDir;
use crate::chain_log::ChainLog;
use crate::error::{OpenError, no_tip_header};
use crate::files::{BLOCKS_FOLDER, KEPT_FOLDER, POSITIONS_FILE, UNDO_FILE};
use crate::own_blocks::{OWN_FOLDERS, OwnBlocks};
use blockmill_block::Block;
use blockmill_blockfiles::{FileError, Position, RECORD_HEAD, has_block_files};
use blockmill_chain::files::SharedFiles;
use blockmill_chain::index::HeaderIndex;
use blockmill_chain::positions::FoundPositions;
use blockmill_chain::report::events::{Event, Observer, Older};
use blockmill_chain::state::ChainState;
use blockmill_coins::CoinStore;
use blockmill_rules::Params;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes of a file of kept blocks: old files are removed whole.
const KEPT_FILE_SIZE: u64 = 16 << 20;

/// The directory, the log of connected blocks, and the writers of its own blocks.
pub struct DataState {
    directory: DataDir,
    /// The log of connected blocks.
    pub log: ChainLog,
    submitted: OwnBlocks,
    kept: OwnBlocks,
    /// Whether a file of kept blocks has begun since that was asked last.
    has_begun_kept: bool,
    /// What is wrong with the undo data, until it is reported.
    undo_problem: Option<String>,
    /// What the store lacks, until it is reported.
    older: Option<Older>,
}

impl DataState {
    /// Opens the log of connected blocks, and finds the chain that the store is at.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(directory: DataDir, params: Params, store: &dyn CoinStore) -> Result<(ChainState, Self), OpenError> {
        directory.make_durable()?;
        let mark = directory.commit_mark()?;
        // Before the first commit of this run, which sets the mark back.
        let older = store.last_commit()?.and_then(|found| directory.older(mark, &found));
        let magic = params.magic();
        let mut index = HeaderIndex::new(params);
        let mut log = ChainLog::open(&directory, magic, &mut index)?;
        let mut tip = index.genesis();
        // The store says where the chain is: headers and undo data may be further.
        if let Some(stored) = store.tip()? {
            let found = index.find(&stored.hash);
            tip = found.ok_or_else(|| OpenError::damaged_headers(directory.path(), no_tip_header(&stored)))?;
            index.set_connected(tip);
        }
        let undo_problem = log.undo_problem(&index.header(tip), index.entry(tip).undo().as_ref());
        log.cut_back()?;
        let positions = FoundPositions::open(Arc::clone(directory.disk()), directory.file(POSITIONS_FILE))?;
        let own_blocks = |name, file_size| {
            let disk = Arc::clone(directory.disk());
            OwnBlocks::new(disk, directory.file(name), magic, file_size)
        };
        let data = Self {
            submitted: own_blocks(BLOCKS_FOLDER, None),
            kept: own_blocks(KEPT_FOLDER, Some(KEPT_FILE_SIZE)),
            has_begun_kept: false,
            directory,
            log,
            undo_problem,
            older,
        };
        Ok((ChainState::new(index, tip, positions), data))
    }

    /// The directory.
    pub fn directory(&self) -> &DataDir {
        &self.directory
    }

    /// The directory alone: the log is closed.
    pub fn into_directory(self) -> DataDir {
        self.directory
    }

    /// Reports, once, that the store is older than it should be, and what is wrong with the undo
    /// data of the chain up to `height`.
    pub fn report_problems(&mut self, height: u32, observer: &mut dyn Observer) {
        if let Some(older) = self.older.take() {
            observer.event(&Event::StoreOlder {
                path: &self.directory.store_path(),
                older: &older,
            });
        }
        if let Some(detail) = self.undo_problem.take() {
            observer.event(&Event::UndoDamaged {
                path: &self.directory.file(UNDO_FILE),
                height,
                detail: &detail,
            });
        }
    }

    /// The folders of the directory's own blocks that are there.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn own_folders(&self) -> Result<Vec<PathBuf>, FileError> {
        let mut folders = Vec::new();
        for name in OWN_FOLDERS {
            let folder = self.directory.file(name);
            if has_block_files(&folder)? {
                folders.push(folder);
            }
        }
        Ok(folders)
    }

    /// Whether a file of the engine's list has blocks of the directory's own.
    pub fn is_own(&self, file: &Path) -> bool {
        self.submitted.has(file) || self.kept.has(file)
    }

    /// Whether a file of the engine's list has kept blocks.
    pub fn is_kept(&self, file: &Path) -> bool {
        self.kept.has(file)
    }

    /// Appends a submitted block, and adds its file to `files`.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn add_submitted(&mut self, block: &Block, files: &SharedFiles) -> Result<Position, FileError> {
        self.submitted.append(block, files)
    }

    /// Keeps a block for a while, and adds its file to `files`.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn keep(&mut self, block: &Block, files: &SharedFiles) -> Result<Position, FileError> {
        let position = self.kept.append(block, files)?;
        self.has_begun_kept |= position.offset == RECORD_HEAD;
        Ok(position)
    }

    /// Whether a file of kept blocks has begun since the last call.
    pub fn has_begun_kept_file(&mut self) -> bool {
        std::mem::take(&mut self.has_begun_kept)
    }

    /// Removes a file of kept blocks.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn remove_kept(&self, file: &Path) -> Result<(), FileError> {
        self.directory.disk().remove(file).map_err(FileError::io(file))
    }

    /// Makes submitted and kept blocks durable.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn sync_blocks(&mut self) -> Result<(), FileError> {
        self.submitted.sync()?;
        self.kept.sync()
    }
}
