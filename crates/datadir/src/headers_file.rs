//! The records of `headers.dat`.

use blockmill_block::Header;
use blockmill_block::hash::sha256d;
use blockmill_blockfiles::{FileError, read_regular};
use blockmill_coins::UndoPosition;
use std::path::Path;

/// Bytes of a record: header, offset and length of the undo data, checksum.
pub(crate) const RECORD: usize = Header::LENGTH + 8 + 4 + 4;

/// Position recorded for a block without undo data: it came with a snapshot.
pub(crate) const NO_UNDO: UndoPosition = UndoPosition { offset: 0, length: 0 };

/// The record of a block.
pub(crate) fn encode(header: &Header, undo: &UndoPosition) -> [u8; RECORD] {
    let mut record = [0; RECORD];
    record[..80].copy_from_slice(&header.to_bytes());
    record[80..88].copy_from_slice(&undo.offset.to_le_bytes());
    record[88..92].copy_from_slice(&undo.length.to_le_bytes());
    let checksum = sha256d(&record[..92]);
    record[92..].copy_from_slice(&checksum[..4]);
    record
}

/// The block of a record, if the checksum fits.
pub(crate) fn decode(record: &[u8]) -> Option<(Header, UndoPosition)> {
    let record: &[u8; RECORD] = record.try_into().ok()?;
    let checksum = sha256d(&record[..92]);
    if record[92..] != checksum[..4] {
        return None;
    }
    let header = Header::from_bytes(record[..80].try_into().ok()?);
    let offset = u64::from_le_bytes(record[80..88].try_into().ok()?);
    let length = u32::from_le_bytes(record[88..92].try_into().ok()?);
    Some((header, UndoPosition { offset, length }))
}

/// Whether some headers in the file at `path` came with a snapshot.
pub(crate) fn came_with_snapshot(path: &Path) -> Result<bool, FileError> {
    let bytes = read_regular(path)?.unwrap_or_default();
    let mut records = bytes.chunks(RECORD).map_while(decode);
    Ok(records.any(|(_, position)| position == NO_UNDO))
}
