//! What an engine keeps open of its data directory, besides the coins.

use crate::DataDir;
use crate::chain_log::ChainLog;
use crate::error::{OpenError, Remedy, no_tip_header};
use crate::files::{BLOCKS_FOLDER, FIRST_BLOCK_FILE, HEADERS_FILE, POSITIONS_FILE, UNDO_FILE};
use blockmill_block::{Block, BlockUndo, Header, Magic};
use blockmill_blockfiles::{BlockFileWriter, FileError, Position, is_there};
use blockmill_chain::files::SharedFiles;
use blockmill_chain::index::HeaderIndex;
use blockmill_chain::positions::FoundPositions;
use blockmill_chain::report::events::{Event, Older};
use blockmill_chain::report::observer::Observer;
use blockmill_chain::state::ChainState;
use blockmill_coins::{CoinStore, UndoLogError, UndoPosition};
use blockmill_rules::Params;
use std::path::PathBuf;
use std::sync::Arc;

/// The directory, the log of connected blocks, and the writer of submitted blocks.
pub struct DataState {
    directory: DataDir,
    log: ChainLog,
    /// None until a block is submitted.
    writer: Option<BlockFileWriter>,
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
            tip = index.find(&stored.hash).ok_or_else(|| OpenError::Damaged {
                path: directory.file(HEADERS_FILE),
                detail: no_tip_header(&stored),
                remedy: Some(Remedy::NewDirectory),
            })?;
            index.set_connected(tip);
        }
        let undo_problem = log.undo_problem(&index.header(tip), index.entry(tip).undo().as_ref());
        log.cut_back()?;
        let positions = FoundPositions::open(Arc::clone(directory.disk()), directory.file(POSITIONS_FILE))?;
        let data = Self {
            directory,
            log,
            writer: None,
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

    /// The folder of submitted blocks, if there is one.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn submitted_blocks(&self) -> Result<Option<PathBuf>, FileError> {
        let folder = self.directory.file(BLOCKS_FOLDER);
        Ok(is_there(&folder.join(FIRST_BLOCK_FILE))?.then_some(folder))
    }

    /// Appends a submitted block after the last whole record, and adds its file to `files`.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn keep_block(&mut self, block: &Block, magic: Magic, files: &SharedFiles) -> Result<Position, FileError> {
        let writer = match &mut self.writer {
            Some(writer) => writer,
            none => none.insert(BlockFileWriter::resume(
                Arc::clone(self.directory.disk()),
                &self.directory.file(BLOCKS_FOLDER),
                magic,
                &files.read(),
            )?),
        };
        writer.append(block.bytes(), &mut files.write())
    }

    /// Makes submitted blocks durable.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn sync_blocks(&mut self) -> Result<(), FileError> {
        match &mut self.writer {
            Some(writer) => writer.sync(),
            None => Ok(()),
        }
    }

    /// Appends the undo data of a connected block.
    ///
    /// # Errors
    /// [`UndoLogError`].
    pub fn append_undo(&mut self, header: &Header, undo: &BlockUndo) -> Result<UndoPosition, UndoLogError> {
        self.log.append(header, undo)
    }

    /// As [`append_undo`](Self::append_undo), for undo data that is a record already.
    ///
    /// # Errors
    /// [`UndoLogError`].
    pub fn append_undo_record(&mut self, header: &Header, record: &[u8]) -> Result<UndoPosition, UndoLogError> {
        self.log.append_record(header, record)
    }

    /// Appends the header of a block that a snapshot stands for.
    pub fn append_header(&mut self, header: &Header) {
        self.log.append_header(header);
    }

    /// Reads the undo data of a block.
    ///
    /// # Errors
    /// [`UndoLogError`].
    pub fn read_undo(&self, header: &Header, position: &UndoPosition) -> Result<BlockUndo, UndoLogError> {
        self.log.read(header, position)
    }

    /// A job that makes everything appended to the log so far durable, on any thread.
    pub fn sync_job(&mut self) -> impl FnOnce() -> Result<(), UndoLogError> + Send + 'static {
        self.log.sync_job()
    }

    /// Makes the log durable.
    ///
    /// # Errors
    /// [`UndoLogError`].
    pub fn sync_log(&mut self) -> Result<(), UndoLogError> {
        self.log.sync()
    }
}
