//! The undo files that lie beside block files.

use blockmill_block::{Block, BlockUndo, Magic};
use blockmill_blockfiles::{BlockFiles, FileError, UndoFile};
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use thiserror::Error;

/// Undo files that are kept open at a time. Blocks that were received ahead of others lie in files
/// to either side.
const OPEN_MAX: usize = 16;

/// Why there is no undo data for a block.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum RevError {
    #[error("there is no file of undo data beside its file")]
    NoFile,
    #[error("{}: no undo data there has its checksum", path.display())]
    NoRecord { path: PathBuf },
    #[error("{0}")]
    Unreadable(String),
}

type Opened = Arc<OnceLock<Result<Option<UndoFile>, String>>>;

/// Undo files. Several threads may search them.
#[derive(Debug, Default)]
pub(crate) struct RevFiles {
    /// By the number of the block file, the one that was asked for last at the end.
    opened: Mutex<VecDeque<(u32, Opened)>>,
}

impl RevFiles {
    /// The undo data of a block that lies in block file number `file`; `first` is the record where
    /// the search begins, see [`UndoFile::find`]. `refused` is not wanted.
    pub(crate) fn find(
        &self,
        files: &BlockFiles,
        file: u32,
        magic: Magic,
        block: &Block,
        first: usize,
        refused: &[BlockUndo],
    ) -> Result<BlockUndo, RevError> {
        let opened = self.opened(file);
        let read = opened.get_or_init(|| {
            let read = files.undo_file(file, magic);
            read.map_err(|error: FileError| error.to_string())
        });
        let undo_file = match read {
            Ok(Some(undo_file)) => undo_file,
            Ok(None) => return Err(RevError::NoFile),
            Err(error) => return Err(RevError::Unreadable(error.clone())),
        };
        let transactions = block.transaction_count().saturating_sub(1);
        let mut fits = |undo: &BlockUndo| undo.fits(block) && !refused.contains(undo);
        match undo_file.find(&block.header().prev_block_hash, transactions, first, &mut fits) {
            Ok(Some(undo)) => Ok(undo),
            Ok(None) => Err(RevError::NoRecord {
                path: undo_file.path().to_owned(),
            }),
            Err(error) => Err(RevError::Unreadable(error.to_string())),
        }
    }

    fn opened(&self, file: u32) -> Opened {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        let known = opened.iter().position(|(number, _)| *number == file);
        let this = known.and_then(|at| opened.remove(at)).unwrap_or_default();
        let this = (file, this.1);
        if opened.len() == OPEN_MAX {
            opened.pop_front();
        }
        opened.push_back(this.clone());
        this.1
    }
}
