//! The undo files that lie beside block files.

use blockmill_block::{Block, BlockUndo, Magic};
use blockmill_blockfiles::{BlockFiles, UndoCursor, UndoFile};
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use thiserror::Error;

/// Undo files that are kept open at a time. Blocks that were received ahead of others lie in files
/// to either side.
const OPEN_MAX: usize = 16;

/// Memory of their tables in bytes, from which fewer are kept open.
const TABLES_BYTES_MAX: usize = 32 << 20;

/// Why there is no undo data for a block.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum RevError {
    #[error("there is no file of undo data beside its file")]
    NoFile,
    #[error("{}: no undo data there has its checksum", path.display())]
    NoRecord { path: PathBuf },
    /// No block of the file has any.
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
    /// The undo data of a block that lies in block file number `file`; `rank` and `cursor` are as
    /// for [`UndoFile::find`].
    pub(crate) fn find(
        &self,
        files: &BlockFiles,
        file: u32,
        magic: Magic,
        block: &Block,
        rank: usize,
        cursor: &mut UndoCursor,
    ) -> Result<BlockUndo, RevError> {
        let opened = self.opened(file);
        let undo_file = match open(&opened, files, file, magic) {
            Ok(Some(undo_file)) => undo_file,
            Ok(None) => return Err(RevError::NoFile),
            Err(error) => return Err(RevError::Unreadable(error.clone())),
        };
        match undo_file.find(block, rank, cursor) {
            Ok(Some(undo)) => Ok(undo),
            Ok(None) => Err(RevError::NoRecord {
                path: undo_file.path().to_owned(),
            }),
            Err(error) => Err(RevError::Unreadable(error.to_string())),
        }
    }

    /// Whether an undo file has records after the one that was found last, or any if `after` is
    /// none. A file that cannot be read may have some.
    pub(crate) fn has_records_after(
        &self,
        files: &BlockFiles,
        file: u32,
        magic: Magic,
        after: Option<&UndoCursor>,
    ) -> bool {
        match open(&self.opened(file), files, file, magic) {
            Ok(Some(undo_file)) => undo_file.has_records_after(after),
            Ok(None) => false,
            Err(_) => true,
        }
    }

    fn opened(&self, file: u32) -> Opened {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        let known = opened.iter().position(|(number, _)| *number == file);
        let this = known.and_then(|at| opened.remove(at)).unwrap_or_default();
        let this = (file, this.1);
        while opened.len() == OPEN_MAX
            || opened.iter().map(|(_, opened)| tables_bytes(opened)).sum::<usize>() > TABLES_BYTES_MAX
        {
            opened.pop_front();
        }
        opened.push_back(this.clone());
        this.1
    }
}

/// The undo file beside block file number `file`, opened once.
fn open<'a>(opened: &'a Opened, files: &BlockFiles, file: u32, magic: Magic) -> &'a Result<Option<UndoFile>, String> {
    opened.get_or_init(|| files.undo_file(file, magic).map_err(|error| error.to_string()))
}

/// Memory in bytes of the tables of a file that is open.
fn tables_bytes(opened: &Opened) -> usize {
    match opened.get() {
        Some(Ok(Some(undo_file))) => undo_file.memory(),
        _ => 0,
    }
}
