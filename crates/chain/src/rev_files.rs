//! The undo files that lie beside block files.

use blockmill_block::{Block, BlockHash, BlockUndo, Magic};
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
    /// Held while a file is opened: one at a time, since the tables of a hostile file are large.
    opening: Mutex<()>,
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
        let undo_file = match self.open(&opened, files, file, magic) {
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

    /// Whether nothing but records of known blocks follows in an undo file after the record that
    /// was found last, or at all if `after` is none, see [`UndoFile::is_rest_known`]. A file that
    /// cannot be read may have others; one that is not there has none.
    pub(crate) fn is_rest_known(
        &self,
        files: &BlockFiles,
        file: u32,
        magic: Magic,
        after: Option<&UndoCursor>,
        parents: &[BlockHash],
    ) -> bool {
        match self.open(&self.opened(file), files, file, magic) {
            Ok(Some(undo_file)) => undo_file.is_rest_known(after, parents).unwrap_or(false),
            Ok(None) => true,
            Err(_) => false,
        }
    }

    /// The undo file beside block file number `file`, opened once.
    fn open<'a>(
        &self,
        opened: &'a Opened,
        files: &BlockFiles,
        file: u32,
        magic: Magic,
    ) -> &'a Result<Option<UndoFile>, String> {
        if let Some(known) = opened.get() {
            return known;
        }
        let _alone = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
        // Another thread may have opened it while this one waited.
        let known = opened.get_or_init(|| files.undo_file(file, magic).map_err(|error| error.to_string()));
        self.make_room();
        known
    }

    /// Closes files until the tables of the others are small enough. The last one stays.
    fn make_room(&self) {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes =
            |opened: &VecDeque<(u32, Opened)>| opened.iter().map(|(_, opened)| tables_bytes(opened)).sum::<usize>();
        while opened.len() > OPEN_MAX || (opened.len() > 1 && bytes(&opened) > TABLES_BYTES_MAX) {
            // Threads that search the file keep it by its `Arc`.
            opened.pop_front();
        }
    }

    fn opened(&self, file: u32) -> Opened {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        let known = opened.iter().position(|(number, _)| *number == file);
        let this = known.and_then(|at| opened.remove(at)).unwrap_or_default();
        let this = (file, this.1);
        opened.push_back(this.clone());
        this.1
    }
}

/// Memory in bytes of the tables of a file that is open.
fn tables_bytes(opened: &Opened) -> usize {
    match opened.get() {
        Some(Ok(Some(undo_file))) => undo_file.memory(),
        _ => 0,
    }
}
