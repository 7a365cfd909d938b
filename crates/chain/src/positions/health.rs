//! How whole the file of positions is.

use super::FoundPositions;
use super::entry::{MAGIC, is_cut_off, read_entry};
use blockmill_blockfiles::{FileError, read_regular};
use std::path::Path;

/// How whole the file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PositionsHealth {
    /// It has this number of entries, each whole.
    Whole(usize),
    /// It has this number of whole entries, and this number of bytes after them, as a kill leaves
    /// them.
    CutOff(usize, u64),
    /// From this offset on it is not what was written. Blocks are not found by what comes after it.
    Damaged(u64),
}

impl FoundPositions {
    /// Looks the file at `path` over. None where there is no such file.
    ///
    /// # Errors
    /// [`FileError`] if the file is there and cannot be read.
    pub fn health(path: &Path) -> Result<Option<PositionsHealth>, FileError> {
        let Some(bytes) = read_regular(path)? else {
            return Ok(None);
        };
        let Some(mut rest) = bytes.strip_prefix(MAGIC) else {
            let is_cut_off = MAGIC.starts_with(&bytes);
            return Ok(Some(match is_cut_off {
                true => PositionsHealth::CutOff(0, bytes.len() as u64),
                false => PositionsHealth::Damaged(0),
            }));
        };
        let mut searches = 0;
        while read_entry(&mut rest).is_some() {
            searches += 1;
        }
        let health = match rest {
            [] => PositionsHealth::Whole(searches),
            rest if is_cut_off(rest) => PositionsHealth::CutOff(searches, rest.len() as u64),
            rest => PositionsHealth::Damaged((bytes.len() - rest.len()) as u64),
        };
        Ok(Some(health))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Folder, note, record};
    use super::*;

    /// Any byte of the last entry that is changed, and any length that a kill may leave.
    #[test]
    fn what_is_not_whole_is_seen() {
        let folder = Folder::new();
        let health = || FoundPositions::health(&folder.path()).unwrap();
        assert_eq!(health(), None);
        for _ in 0..2 {
            let mut positions = folder.open();
            let begun = positions.begin(&folder.files, 0).unwrap();
            note(&mut positions, begun, &[record(8)]);
        }
        assert_eq!(health(), Some(PositionsHealth::Whole(2)));
        let whole = std::fs::read(folder.path()).unwrap();
        let second = MAGIC.len() + (whole.len() - MAGIC.len()) / 2;
        let starts = [0, MAGIC.len(), second];
        for at in 0..whole.len() {
            let entries = starts[1..].iter().filter(|&&start| start <= at).count();
            let start = starts[entries];
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            std::fs::write(folder.path(), bytes).unwrap();
            // A length that is longer than the file is what a kill leaves, too.
            let is_cut_off = entries > 0 && at < start + 4 && matches!(health(), Some(PositionsHealth::CutOff(..)));
            assert!(
                is_cut_off || health() == Some(PositionsHealth::Damaged(start as u64)),
                "{at}: {:?}",
                health()
            );
            std::fs::write(folder.path(), &whole[..at]).unwrap();
            let left = match (entries, at - start) {
                (1.., 0) => PositionsHealth::Whole(entries - 1),
                (_, left) => PositionsHealth::CutOff(entries.saturating_sub(1), left as u64),
            };
            assert_eq!(health(), Some(left), "{at}");
        }
    }
}
