//! A directory in which the parts of a run are kept, so that a run that was cut off goes on.
//!
//! The name of a part's file has its heights, and the state of the files that it was made from. A
//! part that has something against a proof is kept only while these files stay as they are.

use crate::error::AuditError;
use crate::file_states::{FileStates, StateId};
use crate::key::Key;
use crate::merge::read_part;
use crate::own_folder::{check_own_file, open_own_folder};
use crate::part::Part;
use blockmill_blockfiles::{FileError, NewFile, is_there};
use blockmill_chain::ChainBlocks;
use std::fs::{File, TryLockError};
use std::io::Write;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

const KEY_FILE: &str = "key";

/// Bytes of blocks in a part.
const PART_BYTES: u64 = 256 << 20;

/// Blocks in a part.
const PART_BLOCKS: u32 = 5_000;

/// A directory with a key and parts.
pub(crate) struct Workplace {
    path: PathBuf,
    /// The directory, locked.
    _lock: File,
    pub(crate) key: Key,
    /// The files of the chain, as they were when this was opened.
    states: FileStates,
    /// Those that were there, and are of the chain, sorted by height.
    kept: Vec<Kept>,
}

/// A part that was there.
struct Kept {
    part: Part,
    path: PathBuf,
    /// Whether its files are as they were when it was made.
    is_current: bool,
}

impl Workplace {
    /// Opens a directory, which is made if it is not there. Parts of other chains, and damaged
    /// ones, do not count. Those that have something against a proof and whose files have changed
    /// are removed, and their blocks done again. Meanwhile no other run can open it.
    ///
    /// # Errors
    /// [`AuditError::NotOwn`], or that a file cannot be read or written.
    pub(crate) fn open(path: &Path, blocks: &ChainBlocks, states: FileStates) -> Result<Self, AuditError> {
        open_own_folder(path)?;
        let lock = File::open(path).map_err(FileError::io(path))?;
        // A file system without locks is taken as it is.
        if let Err(TryLockError::WouldBlock) = lock.try_lock() {
            return Err(FileError::InUse { path: path.to_owned() }.into());
        }
        let key_path = path.join(KEY_FILE);
        let key = if is_there(&key_path)? {
            check_own_file(&key_path)?;
            Key::read(&key_path)?
        } else {
            let key = Key::draw()?;
            key.write(&key_path)?;
            key
        };
        let mut kept = Vec::new();
        for entry in std::fs::read_dir(path).map_err(FileError::io(path))? {
            let path = entry.map_err(FileError::io(path))?.path();
            let Some(state) = path.file_name().and_then(|name| state_of_name(name.to_str()?)) else {
                continue;
            };
            let bytes = read_part(&path)?;
            // Damaged ones, and those of other chains, are not in the way of others.
            let Some(part) = Part::decode(&bytes, &key).ok().filter(|part| is_of_chain(part, blocks)) else {
                continue;
            };
            let is_current = state == states.of(&part.heights());
            if part.is_clean() || is_current {
                kept.push(Kept { part, path, is_current });
            } else {
                remove(&path)?;
            }
        }
        kept.sort_by_key(|kept| (kept.part.first, kept.part.last));
        // Of parts that overlap the first one stays.
        let mut next = 0;
        kept.retain(|Kept { part, .. }| {
            let fits = u64::from(part.first) >= next;
            if fits {
                next = u64::from(part.last) + 1;
            }
            fits
        });
        Ok(Self {
            path: path.to_owned(),
            _lock: lock,
            key,
            states,
            kept,
        })
    }

    /// The parts that were there.
    pub(crate) fn parts(&self) -> impl Iterator<Item = &Part> {
        self.kept.iter().map(|kept| &kept.part)
    }

    /// Heights that no part has, in ranges for one part each.
    pub(crate) fn ranges_left(&self, blocks: &ChainBlocks) -> Vec<RangeInclusive<u32>> {
        let mut ranges = Vec::new();
        let mut next = 0;
        let ends = self.parts().map(|part| (part.first, part.last + 1));
        // The last pair ends the gap below the tip, and begins none.
        for (first, after) in ends.chain([(blocks.height() + 1, 0)]) {
            cut(blocks, next, first, PART_BYTES, &mut ranges);
            next = after;
        }
        ranges
    }

    /// Removes the parts whose files have changed since. Returns their heights.
    pub(crate) fn give_up_changed(&mut self) -> Result<Vec<RangeInclusive<u32>>, AuditError> {
        let mut ranges = Vec::new();
        for kept in self.kept.extract_if(.., |kept| !kept.is_current) {
            remove(&kept.path)?;
            ranges.push(kept.part.heights());
        }
        Ok(ranges)
    }

    /// Keeps a part.
    pub(crate) fn keep(&self, part: &Part) -> Result<(), AuditError> {
        let state = self.states.of(&part.heights());
        let path = self
            .path
            .join(format!("{:08}-{:08}-{state}.part", part.first, part.last));
        // A damaged one may lie there, or that of another chain.
        let mut new = NewFile::replacing(&path)?;
        new.write_all(&part.encode(&self.key)).map_err(FileError::io(&path))?;
        new.complete()?;
        Ok(())
    }
}

/// The state that the name of a part's file has. None for files that no run keeps.
fn state_of_name(name: &str) -> Option<StateId> {
    let mut words = name.strip_suffix(".part")?.split('-');
    // The first and the last height.
    for _ in 0..2 {
        let word = words.next()?;
        word.parse::<u32>()
            .ok()
            .filter(|height| format!("{height:08}") == word)?;
    }
    let state = StateId::from_text(words.next()?)?;
    words.next().is_none().then_some(state)
}

fn remove(path: &Path) -> Result<(), AuditError> {
    Ok(std::fs::remove_file(path).map_err(FileError::io(path))?)
}

/// A chain in ranges of heights for parts, with about this many bytes of blocks each.
pub fn ranges(blocks: &ChainBlocks, bytes: u64) -> Vec<RangeInclusive<u32>> {
    let mut ranges = Vec::new();
    cut(blocks, 0, blocks.height() + 1, bytes, &mut ranges);
    ranges
}

/// Cuts the heights from `start` to below `end` into ranges.
fn cut(blocks: &ChainBlocks, start: u32, end: u32, part_bytes: u64, ranges: &mut Vec<RangeInclusive<u32>>) {
    let (mut first, mut bytes) = (start, 0);
    for height in start..end {
        bytes += u64::from(blocks.length(height));
        if bytes >= part_bytes || height - first + 1 == PART_BLOCKS || height + 1 == end {
            ranges.push(first..=height);
            (first, bytes) = (height + 1, 0);
        }
    }
}

fn is_of_chain(part: &Part, blocks: &ChainBlocks) -> bool {
    let is_at = |height, hash| blocks.hash(height).is_ok_and(|found| found == hash);
    part.magic == blocks.params().magic() && is_at(part.first, part.first_hash) && is_at(part.last, part.last_hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_parts() {
        let state = StateId::from_text("0123456789abcdef");
        for (name, wanted) in [
            ("00000000-00004999-0123456789abcdef.part", state),
            ("00000000-4294967295-0123456789abcdef.part", state),
            ("00000000-00004999.part", None),
            ("0.part", None),
            ("0-4999.part", None),
            ("00000000-00004999-0123.part", None),
            ("00000000-00004999-0123456789abcdef-1.part", None),
            ("00000000-00004999-0123456789abcdef.part.incomplete", None),
            ("video.part", None),
            ("key", None),
        ] {
            assert_eq!(state_of_name(name), wanted, "{name}");
        }
    }
}
