//! What an engine keeps open of its data directory, besides the coins.

use crate::chain::files::SharedFiles;
use crate::datadir::DataDir;
use crate::datadir::chain_log::ChainLog;
use crate::datadir::files::{BLOCKS_FOLDER, FIRST_BLOCK_FILE, UNDO_FILE};
use crate::report::events::{Event, Older};
use crate::report::observer::Observer;
use blockmill_block::{Block, BlockUndo, Header, Magic};
use blockmill_blockfiles::{BlockFileWriter, FileError, Position, is_there};
use blockmill_coins::{UndoLogError, UndoPosition};
use std::path::PathBuf;
use std::sync::Arc;

/// The directory, the log of connected blocks, and the writer of submitted blocks.
pub(crate) struct DataState {
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
    pub(crate) fn new(directory: DataDir, log: ChainLog, undo_problem: Option<String>, older: Option<Older>) -> Self {
        Self {
            directory,
            log,
            writer: None,
            undo_problem,
            older,
        }
    }

    pub(crate) fn directory(&self) -> &DataDir {
        &self.directory
    }

    pub(crate) fn into_directory(self) -> DataDir {
        self.directory
    }

    /// Reports, once, that the store is older than it should be, and what is wrong with the undo
    /// data of the chain up to `height`.
    pub(crate) fn report_problems(&mut self, height: u32, observer: &mut dyn Observer) {
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
    pub(crate) fn submitted_blocks(&self) -> Result<Option<PathBuf>, FileError> {
        let folder = self.directory.file(BLOCKS_FOLDER);
        Ok(is_there(&folder.join(FIRST_BLOCK_FILE))?.then_some(folder))
    }

    /// Appends a submitted block after the last whole record, and adds its file to `files`.
    pub(crate) fn keep_block(
        &mut self,
        block: &Block,
        magic: Magic,
        files: &SharedFiles,
    ) -> Result<Position, FileError> {
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
    pub(crate) fn sync_blocks(&mut self) -> Result<(), FileError> {
        match &mut self.writer {
            Some(writer) => writer.sync(),
            None => Ok(()),
        }
    }

    /// Appends the undo data of a connected block.
    pub(crate) fn append_undo(&mut self, header: &Header, undo: &BlockUndo) -> Result<UndoPosition, UndoLogError> {
        self.log.append(header, undo)
    }

    /// As [`append_undo`](Self::append_undo), for undo data that is a record already.
    pub(crate) fn append_undo_record(&mut self, header: &Header, record: &[u8]) -> Result<UndoPosition, UndoLogError> {
        self.log.append_record(header, record)
    }

    /// Appends the header of a block that a snapshot stands for.
    pub(crate) fn append_header(&mut self, header: &Header) {
        self.log.append_header(header);
    }

    /// Reads the undo data of a block.
    pub(crate) fn read_undo(&self, header: &Header, position: &UndoPosition) -> Result<BlockUndo, UndoLogError> {
        self.log.read(header, position)
    }

    /// A job that makes everything appended to the log so far durable, on any thread.
    pub(crate) fn sync_job(&mut self) -> impl FnOnce() -> Result<(), UndoLogError> + Send + 'static {
        self.log.sync_job()
    }

    /// Makes the log durable.
    pub(crate) fn sync_log(&mut self) -> Result<(), UndoLogError> {
        self.log.sync()
    }
}
