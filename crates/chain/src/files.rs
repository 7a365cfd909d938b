//! The block files that are open, shared by the thread that adds files and those that read blocks.

use blockmill_blockfiles::BlockFiles;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Open block files. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct SharedFiles(Arc<RwLock<BlockFiles>>);

impl SharedFiles {
    /// The files, to read from. A thread that panics leaves them as they were.
    #[inline]
    pub fn read(&self) -> RwLockReadGuard<'_, BlockFiles> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The files themselves. Files that are shared still are listed anew.
    pub fn into_inner(self) -> BlockFiles {
        let files = Arc::try_unwrap(self.0).map(RwLock::into_inner);
        files.map_or_else(
            |_| BlockFiles::new(),
            |files| files.unwrap_or_else(PoisonError::into_inner),
        )
    }

    /// The files, to add to.
    pub fn write(&self) -> RwLockWriteGuard<'_, BlockFiles> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}
