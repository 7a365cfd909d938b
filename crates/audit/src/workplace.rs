//! A directory in which the parts of a run are kept, so that a run that was cut off goes on.

use crate::error::AuditError;
use crate::key::Key;
use crate::part::Part;
use blockmill_blockfiles::{FileError, NewFile, is_there};
use blockmill_engine::ChainBlocks;
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
    key: Key,
    /// Those that were there, and are of the chain, sorted by height.
    parts: Vec<Part>,
}

impl Workplace {
    /// Opens a directory, which is made if it is not there. Parts of other chains, and files that
    /// are damaged, are left out; their blocks are done again. Meanwhile no other run can open it.
    pub(crate) fn open(path: &Path, blocks: &ChainBlocks) -> Result<Self, AuditError> {
        let io = |error| FileError::Io {
            path: path.to_owned(),
            error,
        };
        std::fs::create_dir_all(path).map_err(io)?;
        let lock = File::open(path).map_err(io)?;
        if let Err(TryLockError::WouldBlock) = lock.try_lock() {
            return Err(FileError::InUse { path: path.to_owned() }.into());
        }
        let key_path = path.join(KEY_FILE);
        let key = if is_there(&key_path)? {
            Key::read(&key_path)?
        } else {
            let key = Key::draw()?;
            key.write(&key_path)?;
            key
        };
        let mut parts = Vec::new();
        for entry in std::fs::read_dir(path).map_err(io)? {
            let path = entry.map_err(io)?.path();
            if path.extension().is_none_or(|extension| extension != "part") {
                continue;
            }
            let io = |error| FileError::Io {
                path: path.clone(),
                error,
            };
            let bytes = std::fs::read(&path).map_err(io)?;
            match Part::decode(&bytes, &key) {
                Ok(part) if is_of_chain(&part, blocks) => parts.push(part),
                // It would be in the way of the one that is made anew.
                _ => std::fs::remove_file(&path).map_err(io)?,
            }
        }
        parts.sort_by_key(|part| (part.first, part.last));
        // Of parts that overlap the first one stays.
        let mut next = 0;
        parts.retain(|part| {
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
            parts,
        })
    }

    pub(crate) fn key(&self) -> &Key {
        &self.key
    }

    /// Heights that no part has, in ranges for one part each.
    pub(crate) fn ranges_left(&self, blocks: &ChainBlocks) -> Vec<RangeInclusive<u32>> {
        let mut ranges = Vec::new();
        let mut next = 0;
        let ends = self.parts.iter().map(|part| (part.first, part.last + 1));
        for (first, after) in ends.chain([(blocks.height() + 1, 0)]) {
            cut(blocks, next, first, PART_BYTES, &mut ranges);
            next = after;
        }
        ranges
    }

    /// Keeps a part.
    pub(crate) fn keep(&self, part: &Part) -> Result<(), AuditError> {
        let name = format!("{:08}-{:08}.part", part.first, part.last);
        let path = self.path.join(name);
        let mut new = NewFile::begin(&path)?;
        new.write_all(&part.encode(&self.key)).map_err(|error| FileError::Io {
            path: path.clone(),
            error,
        })?;
        new.complete()?;
        Ok(())
    }

    pub(crate) fn into_parts(self) -> Vec<Part> {
        self.parts
    }
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
