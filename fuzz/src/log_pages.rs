//! Pages of the coin log, made and damaged by the fuzzer's bytes, and files of them in memory. The
//! layout of a page is written here once more, after docs/coin-log.md.

use crate::input::Input;
use blockmill_blockfiles::disk::DiskFile;
use blockmill_store_log::format::page::{HEAD_BYTES, PAGE_BYTES, Page, PagePosition, RECORDS_MAX, seal};
use std::io::{self, ErrorKind};
use std::sync::Arc;

/// Bits of a page.
const PAGE_BITS: usize = PAGE_BYTES * 8;

/// Writes the head of a page, except its checksum and what `seal` writes.
pub fn begin(page: &mut Page, kind: u8, records: u8, used: u16) {
    page[4] = kind;
    page[5] = records;
    page[6..8].copy_from_slice(&used.to_le_bytes());
}

/// Completes the head of a page that was begun: its segment and number, its flush, and an epoch.
pub fn seal_at(page: &mut Page, (segment, number): (u32, u32), flush: u64, epoch: u64) {
    seal(page, PagePosition { segment, page: number }, flush, epoch);
}

/// Kind, records, and the end of the used part, if a page can have such a head.
pub fn head_fields(page: &Page) -> Option<(u8, usize, usize)> {
    let (kind, records) = (page[4], usize::from(page[5]));
    let used = usize::from(u16::from_le_bytes([page[6], page[7]]));
    let slots = if kind == 2 { 2 * records } else { 0 };
    let is_right = (1..=8).contains(&kind)
        && records <= RECORDS_MAX
        && (HEAD_BYTES..=PAGE_BYTES).contains(&used)
        && used + slots <= PAGE_BYTES;
    is_right.then_some((kind, records, used))
}

/// Whether the first four bytes are the CRC-32 of the others.
pub fn has_right_checksum(page: &Page) -> bool {
    let mut crc = u32::MAX;
    for &byte in &page[4..] {
        crc = crc >> 8 ^ CRC_TABLE[usize::from(crc as u8 ^ byte)];
    }
    (!crc).to_le_bytes() == page[..4]
}

/// The remainders of CRC-32 (IEEE) for each byte.
static CRC_TABLE: [u32; 256] = crc_table();

const fn crc_table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = crc >> 1 ^ if crc & 1 == 1 { 0xedb8_8320 } else { 0 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
}

/// Changes a page in a way that a CRC-32 sees for certain: one bit to three of all, or up to 32
/// bits side by side after the checksum.
pub fn damage(page: &mut Page, input: &mut Input<'_>) {
    let choice = input.u8();
    if choice.is_multiple_of(2) {
        let mut bits: Vec<usize> = (0..1 + choice / 2 % 3)
            .map(|_| usize::from(input.u16()) % PAGE_BITS)
            .collect();
        bits.sort_unstable();
        bits.dedup();
        for bit in bits {
            page[bit / 8] ^= 1 << (bit % 8);
        }
    } else {
        let offset = 4 + usize::from(input.u16()) % (PAGE_BYTES - 7);
        let burst = input.u32().max(1).to_le_bytes();
        for (byte, change) in page[offset..].iter_mut().zip(burst) {
            *byte ^= change;
        }
    }
}

/// A file in memory. It can only be read.
#[derive(Debug, Clone)]
pub struct MemoryFile(Arc<[u8]>);

impl MemoryFile {
    /// A file of these pages.
    pub fn new(pages: &[Page]) -> Self {
        Self(pages.as_flattened().into())
    }

    /// A file of these bytes.
    pub fn of_bytes(bytes: &[u8]) -> Self {
        Self(bytes.into())
    }
}

impl DiskFile for MemoryFile {
    fn length(&self) -> io::Result<u64> {
        Ok(self.0.len() as u64)
    }

    fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        let start = usize::try_from(offset).map_err(|_| ErrorKind::UnexpectedEof)?;
        let end = start.checked_add(bytes.len()).ok_or(ErrorKind::UnexpectedEof)?;
        let found = self.0.get(start..end).ok_or(ErrorKind::UnexpectedEof)?;
        bytes.copy_from_slice(found);
        Ok(())
    }

    fn set_length(&self, _: u64) -> io::Result<()> {
        Err(ErrorKind::Unsupported.into())
    }

    fn write_all_at(&self, _: &[u8], _: u64) -> io::Result<()> {
        Err(ErrorKind::Unsupported.into())
    }

    fn sync_data(&self) -> io::Result<()> {
        Err(ErrorKind::Unsupported.into())
    }
}
