//! Blocks that a data directory has itself, in block files.

use crate::files::{BLOCKS_FOLDER, KEPT_FOLDER};
use blockmill_block::{Block, Magic};
use blockmill_blockfiles::disk::Disk;
use blockmill_blockfiles::{BlockFileWriter, FileError, Position};
use blockmill_chain::files::SharedFiles;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// The folders of such blocks.
pub(crate) const OWN_FOLDERS: [&str; 2] = [BLOCKS_FOLDER, KEPT_FOLDER];

/// A folder of blocks, and what appends to it.
pub(crate) struct OwnBlocks {
    disk: Arc<dyn Disk>,
    folder: PathBuf,
    magic: Magic,
    /// Bytes of a file; none for the usual size.
    file_size: Option<u64>,
    /// None until a block comes.
    writer: Option<BlockFileWriter>,
    /// The folder without links, once it is there: so lists of files have it.
    real_folder: OnceLock<PathBuf>,
}

impl OwnBlocks {
    pub(crate) fn new(disk: Arc<dyn Disk>, folder: PathBuf, magic: Magic, file_size: Option<u64>) -> Self {
        Self {
            disk,
            folder,
            magic,
            file_size,
            writer: None,
            real_folder: OnceLock::new(),
        }
    }

    /// Whether a file of a list is in the folder.
    pub(crate) fn has(&self, file: &Path) -> bool {
        let real = match self.real_folder.get() {
            Some(real) => real,
            None => match std::fs::canonicalize(&self.folder) {
                Ok(real) => self.real_folder.get_or_init(|| real),
                // Nothing is in a folder that is not there.
                Err(_) => return false,
            },
        };
        file.parent() == Some(real)
    }

    /// Appends a block after the last whole record, and adds its file to `files`.
    pub(crate) fn append(&mut self, block: &Block, files: &SharedFiles) -> Result<Position, FileError> {
        let writer = match &mut self.writer {
            Some(writer) => writer,
            none => {
                let disk = Arc::clone(&self.disk);
                let writer = BlockFileWriter::resume(disk, &self.folder, self.magic, &files.read())?;
                none.insert(match self.file_size {
                    Some(bytes) => writer.with_file_size(bytes),
                    None => writer,
                })
            }
        };
        writer.append(block.bytes(), &mut files.write())
    }

    /// Makes what was appended durable.
    pub(crate) fn sync(&mut self) -> Result<(), FileError> {
        match &mut self.writer {
            Some(writer) => writer.sync(),
            None => Ok(()),
        }
    }
}
