//! What an audit leaves in a data directory whose set it has proved.

use crate::key::RunId;
use blockmill_block::{BlockHash, hex};
use blockmill_blockfiles::{FileError, NewFile};
use blockmill_engine::UtxoSet;
use std::io::Write;
use std::path::{Path, PathBuf};

/// The file in the data directory.
const FILE: &str = "audit.txt";

/// A proof of a data directory's set: as it was after a block, it was the UTXO set of a chain all
/// of whose blocks are valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// The run that has proved it.
    pub run: RunId,
    /// Height of the block.
    pub height: u32,
    /// The block.
    pub hash: BlockHash,
    /// Coins of the set.
    pub coins: u64,
}

impl Mark {
    pub(crate) fn write(&self, directory: &Path) -> Result<(), FileError> {
        let path = directory.join(FILE);
        let io = |error| FileError::Io {
            path: path.clone(),
            error,
        };
        let mut new = NewFile::replacing(&path)?;
        let Self {
            run,
            height,
            hash,
            coins,
        } = self;
        let text = format!("blockmill audit 1\nrun {run}\nheight {height}\nhash {hash}\ncoins {coins}\n");
        new.write_all(text.as_bytes()).map_err(io)?;
        new.complete()?;
        Ok(())
    }

    /// The proof that an audit has left for a set: of its block, or of one before it in its chain.
    /// None where there is none.
    pub fn of(set: &UtxoSet) -> Option<Self> {
        let mark = Self::read(&set.directory().path().join(FILE))?;
        let blocks = set.blocks().ok()?;
        (blocks.hash(mark.height).ok()? == mark.hash).then_some(mark)
    }

    fn read(path: &PathBuf) -> Option<Self> {
        let text = std::fs::read_to_string(path).ok()?;
        let mut lines = text.lines();
        let mut field = |name: &str| lines.next()?.strip_prefix(name)?.strip_prefix(' ');
        if field("blockmill audit")? != "1" {
            return None;
        }
        let run = hex::decode(field("run")?).ok()?;
        Some(Self {
            run: RunId(run.try_into().ok()?),
            height: field("height")?.parse().ok()?,
            hash: field("hash")?.parse().ok()?,
            coins: field("coins")?.parse().ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(FILE);
        assert_eq!(Mark::read(&path), None);
        let mut mark = Mark {
            run: RunId([7; 16]),
            height: 70,
            hash: BlockHash([9; 32]),
            coins: 700,
        };
        for _ in 0..2 {
            mark.height += 1;
            mark.write(directory.path()).unwrap();
            assert_eq!(Mark::read(&path), Some(mark));
        }
        let whole = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = whole.split_inclusive('\n').collect();
        for count in 0..lines.len() {
            std::fs::write(&path, lines[..count].concat()).unwrap();
            assert_eq!(Mark::read(&path), None, "{count} lines");
        }
        std::fs::write(&path, whole.replace("audit 1", "audit 2")).unwrap();
        assert_eq!(Mark::read(&path), None);
    }
}
