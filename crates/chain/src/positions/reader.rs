//! Entries that another process appends.

use super::FoundPositions;
use blockmill_block::BlockHash;
use blockmill_blockfiles::{FileError, find_regular};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// Reads the file of a directory that another process writes to, entry after entry.
#[derive(Default)]
pub struct PositionsReader {
    path: PathBuf,
    /// The file that was read. While it is open, no other one has its inode.
    file: Option<File>,
    /// Where the first entry begins that was not read.
    at: u64,
    recent: FoundPositions,
}

impl PositionsReader {
    /// A reader of the file at `path`, from its first entry on.
    pub fn new(path: PathBuf) -> Self {
        Self {
            path,
            ..Self::default()
        }
    }

    /// Reads the entries appended since. Returns all blocks except those that
    /// [`forget_known`](Self::forget_known) removed.
    ///
    /// # Errors
    /// [`FileError`] if the file is there and cannot be read.
    pub fn read(&mut self) -> Result<&FoundPositions, FileError> {
        let Some(found) = find_regular(&self.path)? else {
            return Ok(&self.recent);
        };
        let path = &self.path;
        let facts = |file: &File| file.metadata().map_err(FileError::io(path));
        let metadata = facts(&found)?;
        let is_same = match &self.file {
            None => false,
            Some(known) => {
                let known = facts(known)?;
                (known.dev(), known.ino()) == (metadata.dev(), metadata.ino()) && known.len() >= self.at
            }
        };
        // A file that was written anew is read from its beginning.
        if !is_same {
            (self.file, self.at) = (Some(found), 0);
        }
        let mut bytes = Vec::new();
        if let Some(file) = &mut self.file {
            let read = file
                .seek(SeekFrom::Start(self.at))
                .and_then(|_| file.read_to_end(&mut bytes));
            read.map_err(FileError::io(path))?;
        }
        // The last entry may be in the middle of being written. A file of another format says
        // nothing.
        self.at += match self.at {
            0 => self.recent.decode(&bytes).unwrap_or(0),
            _ => self.recent.decode_entries(&bytes),
        };
        Ok(&self.recent)
    }

    /// Forgets blocks whose positions the caller has taken over.
    pub fn forget_known(&mut self, is_known: impl Fn(&BlockHash) -> bool) {
        self.recent.searches.retain(|_, search| {
            search.blocks.retain(|block| !is_known(&block.header.hash()));
            !search.blocks.is_empty()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::super::GARBAGE_MAX;
    use super::super::tests::{Folder, record};
    use super::*;
    use blockmill_blockfiles::ScanDepth;

    /// A reader gets what is appended, and all of a file that is written anew.
    #[test]
    fn a_reader_goes_on_where_it_was() {
        let folder = Folder::new();
        let mut positions = folder.open();
        let mut reader = PositionsReader::new(folder.path());
        let found = |reader: &mut PositionsReader| reader.read().unwrap().searches.len();
        assert_eq!(found(&mut reader), 0);
        let write = |positions: &mut FoundPositions, name: &str, count: u64| {
            let mut begun = positions.begin(&folder.files, 0).unwrap();
            begun.path = folder.directory.path().join("blocks").join(name);
            std::fs::write(&begun.path, []).unwrap();
            let records: Vec<_> = (0..count).map(record).collect();
            let mut entries = Vec::new();
            positions.note(begun, &records, (ScanDepth::Lengths, false), &mut entries);
            positions.write(&entries).unwrap();
        };
        write(&mut positions, "one", 1);
        assert_eq!(found(&mut reader), 1);
        reader.forget_known(|_| true);
        write(&mut positions, "two", 2);
        assert_eq!(found(&mut reader), 1);
        // Unknown blocks stay.
        reader.forget_known(|_| false);
        assert_eq!(found(&mut reader), 1);
        reader.forget_known(|_| true);
        let length = || std::fs::metadata(folder.path()).unwrap().len();
        // The last search of a file counts, so the file is written anew in time.
        let before = length();
        for _ in 0..40 {
            write(&mut positions, "three", 1_000);
        }
        assert_eq!(found(&mut reader), 3);
        // Written anew twice, the file may have the inode that it had.
        for _ in 0..80 {
            write(&mut positions, "four", 1_000);
        }
        assert_eq!(found(&mut reader), 4);
        assert!(length() < before + 3 * (GARBAGE_MAX + 100_000), "{}", length());
        assert_eq!(folder.open().searches.len(), 4);
    }
}
