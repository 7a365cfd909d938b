//! The files in which the blocks of a chain were found.

use crate::chain_blocks::ChainBlocks;
use std::path::Path;

impl ChainBlocks {
    /// Each block that was found, by height, with each block file that has it.
    pub fn found_files(&self) -> impl Iterator<Item = (u32, &Path)> {
        let files = self.files();
        self.positions()
            .map(|(height, position)| (height, files.path(position.file)))
    }
}
