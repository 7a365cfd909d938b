//! The form of the file of positions: a magic, then entries.
//!
//! An entry is its length (4 bytes), the CRC-32 of its body (4), and the body. All numbers are
//! little-endian. The body:
//!
//! | bytes | |
//! |---|---|
//! | 8, 8 | device and inode of the block file |
//! | 8 | its length |
//! | 16, 16 | time of its last change, and of the last change of its inode, in nanoseconds |
//! | 8 | the key it is obfuscated with |
//! | 8, 8 | boot and monotonic time, in nanoseconds, when the file was first seen as it is |
//! | 1 | what was read of records: 1 lengths, 2 contents; 0 and 3 if it is to be searched again |
//! | 4, then so many | length of its path, and the path |
//! | 92 each | records: offset of the block (8), its length (4), its header (80) |

use super::mark::{Mark, Moment};
use blockmill_block::Header;
use blockmill_blockfiles::{Position, Record, ScanDepth, XorKey};
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// The first bytes of the file, with the version of its format.
pub(super) const MAGIC: &[u8; 8] = b"BMPLACE2";

/// Bytes of a body before the path.
const FIXED: usize = 8 + 8 + 8 + 16 + 16 + 8 + 8 + 8 + 1 + 4;

/// Bytes of a record.
const RECORD: usize = 8 + 4 + Header::LENGTH;

/// A record of a block file: where a block is in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FoundBlock {
    pub(super) offset: u64,
    pub(super) length: u32,
    pub(super) header: Header,
}

/// A search of a block file, and what it found.
#[derive(Debug, Clone)]
pub(crate) struct FileSearch {
    pub(super) mark: Mark,
    /// When the file was first seen with this mark.
    pub(super) since: Moment,
    /// What was read of the records.
    pub(super) depth: ScanDepth,
    /// Whether the file is to be searched again by the next run: it has damage, or is not settled.
    pub(super) again: bool,
    /// Whether it is settled. Not in the file, where `again` has it.
    pub(super) is_settled: bool,
    pub(super) blocks: Vec<FoundBlock>,
    /// Bytes of its entry.
    pub(super) bytes: u64,
}

impl FileSearch {
    /// The key that the file was read with.
    pub(crate) fn key(&self) -> XorKey {
        self.mark.key
    }

    /// The records of the file, which has this number.
    pub(crate) fn records(&self, file: u32) -> impl Iterator<Item = Record> {
        self.blocks.iter().map(move |block| Record {
            position: Position {
                file,
                length: block.length,
                offset: block.offset,
            },
            header: block.header,
            hash: block.header.hash(),
        })
    }
}

pub(super) fn write_entry(path: &Path, search: &FileSearch, out: &mut Vec<u8>) {
    let (path, mark) = (path.as_os_str().as_bytes(), &search.mark);
    let length = FIXED + path.len() + RECORD * search.blocks.len();
    out.reserve(8 + length);
    out.extend((length as u32).to_le_bytes());
    let checksum_at = out.len();
    // The checksum, once the body is there.
    out.extend([0; 4]);
    for number in [mark.device, mark.inode, mark.length] {
        out.extend(number.to_le_bytes());
    }
    out.extend(mark.modified.to_le_bytes());
    out.extend(mark.changed.to_le_bytes());
    out.extend(mark.key.bytes());
    out.extend(search.since.boot.to_le_bytes());
    out.extend(search.since.nanoseconds.to_le_bytes());
    out.push(match (search.depth, search.again) {
        (ScanDepth::Lengths, true) => 0,
        (ScanDepth::Lengths, false) => 1,
        (ScanDepth::Contents, false) => 2,
        (ScanDepth::Contents, true) => 3,
    });
    out.extend((path.len() as u32).to_le_bytes());
    out.extend(path);
    for block in &search.blocks {
        out.extend(block.offset.to_le_bytes());
        out.extend(block.length.to_le_bytes());
        out.extend(block.header.to_bytes());
    }
    let checksum = crc32fast::hash(&out[checksum_at + 4..]);
    out[checksum_at..checksum_at + 4].copy_from_slice(&checksum.to_le_bytes());
}

/// Reads the entry that `rest` begins with, and takes it away. None, if there is no whole one.
pub(super) fn read_entry(rest: &mut &[u8]) -> Option<(PathBuf, FileSearch)> {
    let mut after = *rest;
    let length = u32::from_le_bytes(take(&mut after)?) as usize;
    let checksum = u32::from_le_bytes(take(&mut after)?);
    let (mut body, after) = after.split_at_checked(length)?;
    if crc32fast::hash(body) != checksum {
        return None;
    }
    let mark = Mark {
        device: u64::from_le_bytes(take(&mut body)?),
        inode: u64::from_le_bytes(take(&mut body)?),
        length: u64::from_le_bytes(take(&mut body)?),
        modified: i128::from_le_bytes(take(&mut body)?),
        changed: i128::from_le_bytes(take(&mut body)?),
        key: XorKey::new(take(&mut body)?),
    };
    let since = Moment {
        boot: u64::from_le_bytes(take(&mut body)?),
        nanoseconds: u64::from_le_bytes(take(&mut body)?),
    };
    let [read] = take(&mut body)?;
    let path_length = u32::from_le_bytes(take(&mut body)?) as usize;
    let (path, records) = body.split_at_checked(path_length)?;
    let (records, []) = records.as_chunks::<RECORD>() else {
        return None;
    };
    let block = |mut record: &[u8]| {
        Some(FoundBlock {
            offset: u64::from_le_bytes(take(&mut record)?),
            length: u32::from_le_bytes(take(&mut record)?),
            header: Header::from_bytes(&take(&mut record)?),
        })
    };
    let search = FileSearch {
        mark,
        since,
        depth: match read {
            2 | 3 => ScanDepth::Contents,
            _ => ScanDepth::Lengths,
        },
        // A byte that this version does not know means a search more, not a wrong answer.
        again: !matches!(read, 1 | 2),
        is_settled: matches!(read, 1 | 2),
        blocks: records.iter().map(|record| block(record)).collect::<Option<_>>()?,
        bytes: (8 + length) as u64,
    };
    *rest = after;
    Some((PathBuf::from(OsString::from_vec(path.to_vec())), search))
}

/// Whether an entry that is not whole is longer than what is left of the file.
pub(super) fn is_cut_off(rest: &[u8]) -> bool {
    let length = rest.first_chunk().map(|&length| u32::from_le_bytes(length) as usize);
    length.is_none_or(|length| length > rest.len().saturating_sub(8))
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*taken)
}

#[cfg(test)]
mod tests {
    use super::super::FoundPositions;
    use super::super::tests::{Folder, note, record};

    #[test]
    fn a_damaged_file_is_read_up_to_the_damage() {
        let folder = Folder::new();
        let mut positions = folder.open();
        let begun = folder.begin_later(&positions);
        note(&mut positions, begun, &[record(8)]);
        let whole = std::fs::read(folder.path()).unwrap();
        for length in 0..whole.len() {
            std::fs::write(folder.path(), &whole[..length]).unwrap();
            let mut positions = folder.open();
            let begun = folder.begin_later(&positions);
            note(&mut positions, begun, &[record(9)]);
            assert_eq!(folder.begin(&folder.open()).unwrap(), [record(9)]);
        }
        for byte in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[byte] ^= 1;
            std::fs::write(folder.path(), &damaged).unwrap();
            assert!(folder.begin(&folder.open()).is_err(), "byte {byte}");
            assert!(FoundPositions::read(&folder.path()).unwrap().searches.is_empty());
        }
    }
}
