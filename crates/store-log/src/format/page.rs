//! Pages: the unit of reading and of checksums.
//!
//! | bytes | head of a page |
//! |---|---|
//! | 0..4 | CRC-32 of the rest of the page |
//! | 4 | kind |
//! | 5 | number of records |
//! | 6..8 | where the used part of the page ends |
//! | 8..12 | number of the segment |
//! | 12..16 | number of the page in the segment |
//! | 16..24 | number of the flush |
//! | 24..32 | epoch: a random number of each opening |
//!
//! All numbers are little endian. A page of coins has its records after the head, and at its end,
//! from back to front, two bytes for the start of each record. A record is a transaction id, the
//! index of the output as Core's VARINT, and the coin in the form of Core's database. A record that
//! is longer than a page has pages of its own: its length in four bytes, then its bytes.

use blockmill_block::reader::{DecodeError, Reader, write_varint};
use blockmill_block::{OutPoint, Txid};
use blockmill_coins::CoinRef;

/// Bytes of a page.
pub const PAGE_BYTES: usize = 4096;

/// Bytes of the head of a page.
pub const HEAD_BYTES: usize = 32;

/// Most records of a page.
pub const RECORDS_MAX: usize = 64;

/// Records of a page, about.
pub const RECORDS_PER_PAGE: usize = 56;

/// Bytes of a page after its head.
pub const BODY_BYTES: usize = PAGE_BYTES - HEAD_BYTES;

/// Pages that are read or written in one call: 1 MiB.
pub const CALL_PAGES: usize = 256;

/// Bytes of the length of a long record.
const LENGTH_BYTES: usize = 4;

/// No record is longer: no block has room for it.
const RECORD_BYTES_MAX: usize = 1 << 25;

const KIND_AT: usize = 4;
const RECORDS_AT: usize = 5;
const USED_AT: usize = 6;

pub type Page = [u8; PAGE_BYTES];

/// What a page is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum PageKind {
    /// The first page of a segment.
    Segment = 1,
    /// Coins.
    Coins = 2,
    /// The first page of a long record.
    Long = 3,
    /// The rest of a long record.
    LongRest = 4,
    /// Records that are removed.
    Removals = 5,
    /// The last page of a frame.
    Trailer = 6,
    /// The first page of a checkpoint.
    Checkpoint = 7,
    /// A part of a checkpoint.
    CheckpointPart = 8,
}

impl PageKind {
    fn from_byte(byte: u8) -> Option<Self> {
        Some(match byte {
            1 => Self::Segment,
            2 => Self::Coins,
            3 => Self::Long,
            4 => Self::LongRest,
            5 => Self::Removals,
            6 => Self::Trailer,
            7 => Self::Checkpoint,
            8 => Self::CheckpointPart,
            _ => return None,
        })
    }
}

/// Where a page lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct PagePosition {
    /// Number of the segment.
    pub segment: u32,
    /// Number of the page in it.
    pub page: u32,
}

impl PagePosition {
    /// A page of a segment.
    pub(crate) const fn new(segment: u32, page: u32) -> Self {
        Self { segment, page }
    }

    /// The position in one number.
    pub fn bits(self) -> u64 {
        u64::from(self.segment) << u32::BITS | u64::from(self.page)
    }

    /// The position of a number.
    pub fn from_bits(bits: u64) -> Self {
        Self {
            segment: (bits >> u32::BITS) as u32,
            page: bits as u32,
        }
    }
}

/// The head of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageHead {
    pub kind: PageKind,
    pub records: usize,
    /// Where the used part of the page ends.
    pub used: usize,
    pub position: PagePosition,
    pub flush: u64,
    pub epoch: u64,
}

fn array<const N: usize>(bytes: &[u8], offset: usize) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(&bytes[offset..offset + N]);
    array
}

pub fn u16_at(bytes: &[u8], offset: usize) -> u16 {
    u16::from_le_bytes(array(bytes, offset))
}

pub fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    u32::from_le_bytes(array(bytes, offset))
}

pub fn u64_at(bytes: &[u8], offset: usize) -> u64 {
    u64::from_le_bytes(array(bytes, offset))
}

/// The stored checksum of a page.
pub fn checksum_of(page: &Page) -> u32 {
    u32_at(page, 0)
}

/// Begins a page: everything of the head that does not depend on where the page lies.
pub fn begin(page: &mut Page, kind: PageKind, records: usize, used: usize) {
    page[KIND_AT] = kind as u8;
    page[RECORDS_AT] = records as u8;
    page[USED_AT..USED_AT + 2].copy_from_slice(&(used as u16).to_le_bytes());
}

/// Completes the head of a page that was begun. Returns its checksum.
pub fn seal(page: &mut Page, position: PagePosition, flush: u64, epoch: u64) -> u32 {
    page[8..12].copy_from_slice(&position.segment.to_le_bytes());
    page[12..16].copy_from_slice(&position.page.to_le_bytes());
    page[16..24].copy_from_slice(&flush.to_le_bytes());
    page[24..32].copy_from_slice(&epoch.to_le_bytes());
    let checksum = crc32fast::hash(&page[4..]);
    page[..4].copy_from_slice(&checksum.to_le_bytes());
    checksum
}

impl PageHead {
    /// The head of a page. None if the page is not what was written.
    pub fn of(page: &Page) -> Option<Self> {
        // First of all: no other field means anything if this is wrong.
        if crc32fast::hash(&page[4..]) != checksum_of(page) {
            return None;
        }
        let head = Self {
            kind: PageKind::from_byte(page[KIND_AT])?,
            records: usize::from(page[RECORDS_AT]),
            used: usize::from(u16_at(page, USED_AT)),
            position: PagePosition::new(u32_at(page, 8), u32_at(page, 12)),
            flush: u64_at(page, 16),
            epoch: u64_at(page, 24),
        };
        // Records and their starts grow towards each other.
        let slots = if head.kind == PageKind::Coins {
            2 * head.records
        } else {
            0
        };
        let fits = head.records <= RECORDS_MAX && head.used >= HEAD_BYTES && head.used + slots <= PAGE_BYTES;
        fits.then_some(head)
    }
}

/// The record of a number on a page of coins. None if the page has no such record.
pub fn record<'a>(page: &'a Page, head: &PageHead, number: usize) -> Option<&'a [u8]> {
    if head.kind != PageKind::Coins || number >= head.records {
        return None;
    }
    let start = |number: usize| usize::from(u16_at(page, PAGE_BYTES - 2 * (number + 1)));
    let end = if number + 1 < head.records {
        start(number + 1)
    } else {
        head.used
    };
    // A start after its end comes from a damaged page, and `get` refuses it.
    page.get(start(number)..end)
}

/// Number of pages of a long record.
pub fn long_pages(length: usize) -> usize {
    (length + LENGTH_BYTES).div_ceil(BODY_BYTES)
}

/// Length of the long record that begins on a page. None if no record is as long.
pub fn long_length(page: &Page, head: &PageHead) -> Option<usize> {
    let length = u32_at(page, HEAD_BYTES) as usize;
    (head.kind == PageKind::Long && length <= RECORD_BYTES_MAX).then_some(length)
}

/// The bytes of a long record that one of its pages has.
pub fn long_part<'a>(page: &'a Page, head: &PageHead) -> &'a [u8] {
    let start = if head.kind == PageKind::Long {
        HEAD_BYTES + LENGTH_BYTES
    } else {
        HEAD_BYTES
    };
    page.get(start..head.used).unwrap_or_default()
}

/// Appends a record.
pub fn write_record(outpoint: &OutPoint, coin: &CoinRef<'_>, into: &mut Vec<u8>) {
    into.extend_from_slice(&outpoint.txid.0);
    write_varint(u64::from(outpoint.vout), into);
    coin.write_compressed(into);
}

/// The outpoint of a record, and the coin in the form of Core's database.
///
/// # Errors
/// [`DecodeError`] if it is no record.
pub fn read_record(record: &[u8]) -> Result<(OutPoint, &[u8]), DecodeError> {
    let mut reader = Reader::new(record);
    let txid = Txid(reader.array()?);
    let vout = reader.varint(u64::from(u32::MAX))? as u32;
    let coin = reader.take(reader.remaining())?;
    Ok((OutPoint { txid, vout }, coin))
}

/// Where a record lies among pages that are being made: the number of its page, and its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordSlot {
    pub page: u32,
    pub record: u32,
}

/// The first and the last record of a page, by the first two bytes of their keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KeyRange {
    pub first: u16,
    pub last: u16,
}

impl KeyRange {
    /// Of a page of removals. No page of coins has it: its first key is above its last.
    pub const REMOVALS: Self = Self { first: 1, last: 0 };

    /// Of a single record, or as the start of a range.
    pub fn of(record: &[u8]) -> Self {
        let prefix = u16::from_be_bytes(array(record, 0));
        Self {
            first: prefix,
            last: prefix,
        }
    }

    /// The range with another record in it.
    pub fn with(self, record: &[u8]) -> Self {
        let other = Self::of(record);
        Self {
            first: self.first.min(other.first),
            last: self.last.max(other.last),
        }
    }
}

/// Pages of coins that are being made.
#[derive(Debug, Default)]
pub struct CoinPages {
    pages: Vec<Page>,
    ranges: Vec<KeyRange>,
    /// Of the last page, which is open while it has records.
    records: usize,
    used: usize,
}

impl CoinPages {
    /// With room for this many records, about.
    pub fn with_capacity(records: usize) -> Self {
        let pages = records.div_ceil(RECORDS_PER_PAGE);
        Self {
            pages: Vec::with_capacity(pages),
            ranges: Vec::with_capacity(pages),
            ..Self::default()
        }
    }

    /// Adds a record. Records should come in the order of their keys.
    pub fn push(&mut self, record: &[u8]) -> RecordSlot {
        // Two bytes are for its start.
        if record.len() + 2 > BODY_BYTES {
            return self.push_long(record);
        }
        let is_full = self.records == RECORDS_MAX || self.used + record.len() + 2 * (self.records + 1) > PAGE_BYTES;
        if self.records == 0 || is_full {
            self.close();
            // Not `push`, which would make the page elsewhere and copy it.
            self.pages.resize_with(self.pages.len() + 1, || [0; PAGE_BYTES]);
            self.ranges.push(KeyRange::of(record));
            self.used = HEAD_BYTES;
        }
        let number = self.pages.len() - 1;
        let page = &mut self.pages[number];
        let slot = PAGE_BYTES - 2 * (self.records + 1);
        page[slot..slot + 2].copy_from_slice(&(self.used as u16).to_le_bytes());
        page[self.used..self.used + record.len()].copy_from_slice(record);
        self.ranges[number] = self.ranges[number].with(record);
        self.used += record.len();
        self.records += 1;
        RecordSlot {
            page: number as u32,
            record: self.records as u32 - 1,
        }
    }

    fn push_long(&mut self, record: &[u8]) -> RecordSlot {
        self.close();
        let first = self.pages.len() as u32;
        let mut rest = record;
        let mut kind = PageKind::Long;
        while kind == PageKind::Long || !rest.is_empty() {
            let mut page = [0; PAGE_BYTES];
            let start = if kind == PageKind::Long {
                page[HEAD_BYTES..HEAD_BYTES + LENGTH_BYTES].copy_from_slice(&(record.len() as u32).to_le_bytes());
                HEAD_BYTES + LENGTH_BYTES
            } else {
                HEAD_BYTES
            };
            let (part, others) = rest.split_at(rest.len().min(PAGE_BYTES - start));
            page[start..start + part.len()].copy_from_slice(part);
            begin(&mut page, kind, usize::from(kind == PageKind::Long), start + part.len());
            self.pages.push(page);
            self.ranges.push(KeyRange::of(record));
            rest = others;
            kind = PageKind::LongRest;
        }
        RecordSlot { page: first, record: 0 }
    }

    fn close(&mut self) {
        if self.records > 0
            && let Some(page) = self.pages.last_mut()
        {
            begin(page, PageKind::Coins, self.records, self.used);
        }
        self.records = 0;
    }

    /// The pages, begun but not sealed, and the range of each.
    pub fn finish(mut self) -> (Vec<Page>, Vec<KeyRange>) {
        self.close();
        (self.pages, self.ranges)
    }
}

/// The keys of the records of a page.
pub fn range_of(page: &Page, head: &PageHead) -> KeyRange {
    match head.kind {
        PageKind::Removals => KeyRange::REMOVALS,
        PageKind::Coins => (0..head.records)
            // A damaged page may have a record that is too short for a prefix.
            .filter_map(|number| record(page, head, number).filter(|record| record.len() > 2))
            .fold(None, |range: Option<KeyRange>, record| {
                Some(range.map_or_else(|| KeyRange::of(record), |range| range.with(record)))
            })
            .unwrap_or_default(),
        PageKind::Long => KeyRange::of(&page[HEAD_BYTES + LENGTH_BYTES..]),
        _ => KeyRange::default(),
    }
}

/// Bytes that the records of a page take, with what names them.
pub fn record_bytes(kind: PageKind, records: usize, used: usize) -> usize {
    match kind {
        PageKind::Coins => used - HEAD_BYTES + 2 * records,
        PageKind::Long | PageKind::LongRest => PAGE_BYTES,
        _ => 0,
    }
}

/// Kind, records and used part of a page that was begun.
pub fn begun(page: &Page) -> Option<(PageKind, usize, usize)> {
    let kind = PageKind::from_byte(page[KIND_AT])?;
    Some((kind, usize::from(page[RECORDS_AT]), usize::from(u16_at(page, USED_AT))))
}

/// A bit for each record of a page that was just written.
pub fn all_live(kind: PageKind, records: usize) -> u64 {
    match kind {
        // Without records the shift would be by 64 bits, which is not defined.
        PageKind::Coins | PageKind::Long if records > 0 => u64::MAX >> (RECORDS_MAX - records),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use blockmill_block::Coin;
    use proptest::prelude::*;

    const POSITION: PagePosition = PagePosition { segment: 7, page: 9 };

    fn sealed(mut page: Page) -> Page {
        seal(&mut page, POSITION, 11, 13);
        page
    }

    #[test]
    fn every_flipped_bit_of_a_page_is_seen() {
        let mut pages = CoinPages::default();
        for number in 0..40u8 {
            pages.push(&[number; 70]);
        }
        let (pages, _) = pages.finish();
        let page = sealed(pages[0]);
        assert_eq!(PageHead::of(&page).unwrap().position, POSITION);
        for bit in 0..PAGE_BYTES * 8 {
            let mut other = page;
            other[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(PageHead::of(&other), None);
        }
        assert_eq!(PageHead::of(&[0; PAGE_BYTES]), None);
    }

    #[test]
    fn a_record_is_an_outpoint_and_a_coin() {
        let outpoint = OutPoint {
            txid: Txid([5; 32]),
            vout: 70_000,
        };
        let coin = Coin {
            value: 50,
            height: 3,
            is_coinbase: true,
            script_pubkey: [0x51].into(),
        };
        let mut record = Vec::new();
        write_record(&outpoint, &CoinRef::from(&coin), &mut record);
        let (found, value) = read_record(&record).unwrap();
        assert_eq!(found, outpoint);
        assert_eq!(blockmill_coins::store::decode_coin(&outpoint, value).unwrap(), coin);
        assert!(read_record(&record[..33]).is_err());
    }

    proptest! {
        #[test]
        fn pages_keep_their_records(lengths in proptest::collection::vec(
            prop_oneof![34usize..90, 3900usize..4300, 8000usize..13_000], 1..300)) {
            let records: Vec<Vec<u8>> = lengths.iter().enumerate()
                .map(|(number, &length)| (0..length).map(|at| (number + at) as u8).collect())
                .collect();
            let mut made = CoinPages::default();
            let slots: Vec<RecordSlot> = records.iter().map(|record| made.push(record)).collect();
            let (pages, ranges) = made.finish();
            prop_assert_eq!(pages.len(), ranges.len());
            let pages: Vec<Page> = pages.into_iter().map(sealed).collect();
            for (slot, wanted) in slots.iter().zip(&records) {
                let number = slot.page as usize;
                let head = PageHead::of(&pages[number]).unwrap();
                prop_assert!(all_live(head.kind, head.records) >> slot.record & 1 == 1);
                let range = ranges[number];
                let prefix = KeyRange::of(wanted).first;
                prop_assert!(range.first <= prefix && prefix <= range.last);
                if head.kind == PageKind::Coins {
                    prop_assert_eq!(record(&pages[number], &head, slot.record as usize), Some(&wanted[..]));
                    continue;
                }
                let length = long_length(&pages[number], &head).unwrap();
                let mut found = Vec::new();
                for page in &pages[number..number + long_pages(length)] {
                    found.extend_from_slice(long_part(page, &PageHead::of(page).unwrap()));
                }
                prop_assert_eq!(&found, wanted);
            }
        }
    }
}
