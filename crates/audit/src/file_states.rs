//! Whether files are still as they were when a part was made.
//!
//! A part of which nothing speaks against a proof holds whatever becomes of its files: the sums say
//! whether the coins that it has seen were true. A refutation holds only as long as its files stay.

use blockmill_blockfiles::undo_path;
use blockmill_chain::ChainBlocks;
use sha2::{Digest, Sha256};
use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::ops::RangeInclusive;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Names the state of some files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StateId(u64);

impl StateId {
    fn of(parts: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Self {
        let mut hash = Sha256::new();
        for part in parts {
            hash.update(part);
        }
        let hash: [u8; 32] = hash.finalize().into();
        Self(hash.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes)))
    }

    /// The state that a text names.
    pub(crate) fn from_text(text: &str) -> Option<Self> {
        let state = Self(u64::from_str_radix(text, 16).ok()?);
        (state.to_string() == text).then_some(state)
    }
}

impl fmt::Display for StateId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// The states of the files of a chain, at one moment.
pub(crate) struct FileStates {
    /// For each block that was found, its height and a number in `states`; sorted.
    found: Vec<(u32, u32)>,
    /// Of each block file and the undo file beside it.
    states: Vec<StateId>,
    /// Of a file that has something of each block, and of this program.
    common: StateId,
}

impl FileStates {
    /// Looks at the files that have the blocks of a chain, at the undo files beside them, and at
    /// undo data of a data directory.
    pub(crate) fn look(blocks: &ChainBlocks, own_undo: Option<&Path>) -> Self {
        let mut numbers: HashMap<&Path, u32> = HashMap::new();
        let mut states = Vec::new();
        let mut found = Vec::new();
        for (height, path) in blocks.found_files() {
            let number = *numbers.entry(path).or_insert_with(|| {
                let beside = undo_path(path);
                states.push(StateId::of([state(Some(path)), state(beside.as_deref())]));
                states.len() as u32 - 1
            });
            found.push((height, number));
        }
        Self {
            found,
            states,
            // What one version refutes, a later one looks at again.
            common: StateId::of([state(own_undo), env!("CARGO_PKG_VERSION").into()]),
        }
    }

    /// The state of the files of some heights.
    pub(crate) fn of(&self, heights: &RangeInclusive<u32>) -> StateId {
        let first = self.found.partition_point(|(height, _)| height < heights.start());
        let after = self.found.partition_point(|(height, _)| height <= heights.end());
        let own = self.found[first..after].iter();
        let states: BTreeSet<StateId> = own.map(|(_, number)| self.states[*number as usize]).collect();
        let all = states.into_iter().chain([self.common]);
        StateId::of(all.map(|state| state.0.to_be_bytes()))
    }
}

/// What changes when a file is written or another one takes its name; nothing where there is none.
fn state(path: Option<&Path>) -> Vec<u8> {
    let Some(Ok(metadata)) = path.map(std::fs::metadata) else {
        return Vec::new();
    };
    let times = [
        metadata.mtime(),
        metadata.mtime_nsec(),
        // Nobody sets this time.
        metadata.ctime(),
        metadata.ctime_nsec(),
    ];
    let numbers = [metadata.ino(), metadata.len()].into_iter();
    let all = numbers.chain(times.map(i64::cast_unsigned));
    all.flat_map(u64::to_le_bytes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_as_they_are_written() {
        for number in [0, 1, 0xabc, u64::MAX] {
            let id = StateId(number);
            assert_eq!(StateId::from_text(&id.to_string()), Some(id));
        }
        for text in [
            "",
            "1",
            "00000000000000001",
            "+000000000000001",
            "000000000000000G",
            "000000000000000A",
        ] {
            assert_eq!(StateId::from_text(text), None, "{text}");
        }
    }

    #[test]
    fn every_change_of_a_file_shows() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("rev00000.dat");
        let now = || state(Some(&path));
        let mut seen = vec![now()];
        let mut changed = |what: &str| {
            let state = now();
            assert!(!seen.contains(&state), "{what}");
            assert_eq!(now(), state);
            seen.push(state);
        };
        std::fs::write(&path, [1, 2]).unwrap();
        changed("made");
        // Longer than a tick of the clock of the file system.
        std::thread::sleep(std::time::Duration::from_millis(30));
        std::fs::write(&path, [1, 3]).unwrap();
        changed("written");
        let other = directory.path().join("other");
        std::fs::write(&other, [1, 3]).unwrap();
        std::fs::rename(&other, &path).unwrap();
        changed("replaced");
    }
}
