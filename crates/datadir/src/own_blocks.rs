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
    /// The folder without links: so lists of files have it. None if there is no folder, which is
    /// so until a block is appended.
    real_folder: OnceLock<Option<PathBuf>>,
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
        let real = self
            .real_folder
            .get_or_init(|| std::fs::canonicalize(&self.folder).ok());
        real.is_some() && file.parent() == real.as_deref()
    }

    /// Appends a block after the last whole record, and adds its file to `files`.
    pub(crate) fn append(&mut self, block: &Block, files: &SharedFiles) -> Result<Position, FileError> {
        if self.real_folder.get() == Some(&None) {
            self.real_folder.take();
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use blockmill_blockfiles::disk::SystemDisk;

    /// A block with one transaction, whose input and output have no scripts.
    fn block() -> Block {
        let mut bytes = vec![0; 80];
        bytes.extend([1, 1, 0, 0, 0, 1]);
        bytes.extend([0; 37]);
        bytes.extend([0xff, 0xff, 0xff, 0xff, 1]);
        bytes.extend([0; 13]);
        Block::decode(bytes).unwrap()
    }

    #[test]
    fn a_folder_that_comes_with_the_first_block_has_its_file() {
        let directory = tempfile::tempdir().unwrap();
        let folder = directory.path().join("kept");
        let mut own = OwnBlocks::new(Arc::new(SystemDisk), folder.clone(), Magic([7; 4]), None);
        assert!(!own.has(&folder.join("blk00000.dat")));
        let files = SharedFiles::default();
        let position = own.append(&block(), &files).unwrap();
        assert!(own.has(files.read().path(position.file)));
        assert!(!own.has(&directory.path().join("blk00000.dat")));
    }
}
