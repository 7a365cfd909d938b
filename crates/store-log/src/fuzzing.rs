//! The inside of this crate, for fuzz targets: pages, records, removals, trailers and checkpoints.
//!
//! Each function is the crate's own, with types that may leave the crate. A position is a pair: the
//! number of a segment, and the number of a page in it.

use crate::format::location::Location;
use crate::format::page::{self, PagePosition};
use crate::format::records::PageReader;
use crate::format::segment::{self, SegmentTable};
use crate::format::{removals, trailer};
use crate::index::table::{self, Index};
use crate::open::checkpoint;
use blockmill_block::reader::DecodeError;
use blockmill_block::{Coin, OutPoint};
use blockmill_blockfiles::disk::DiskFile;
use blockmill_coins::{CoinRef, StoreError, Tip};
use blockmill_pool::Helpers;
use std::path::Path;
use std::sync::Arc;

/// Bytes of a page.
pub const PAGE_BYTES: usize = page::PAGE_BYTES;

/// Bytes of the head of a page.
pub const HEAD_BYTES: usize = page::HEAD_BYTES;

/// Bytes of a page after its head.
pub const BODY_BYTES: usize = page::BODY_BYTES;

/// Most records of a page.
pub const RECORDS_MAX: usize = page::RECORDS_MAX;

/// Number of groups of the index.
pub const GROUPS: usize = table::GROUPS;

/// Number of shards in a group.
pub const GROUP_SHARDS: usize = table::GROUP_SHARDS;

/// Offsets of removals are below this.
pub const OFFSETS: u32 = Location::OFFSETS;

/// A page.
pub type Page = [u8; PAGE_BYTES];

/// What a page is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The first page of a segment.
    Segment,
    /// Coins.
    Coins,
    /// The first page of a long record.
    Long,
    /// The rest of a long record.
    LongRest,
    /// Records that are removed.
    Removals,
    /// The last page of a frame.
    Trailer,
    /// The first page of a checkpoint.
    Checkpoint,
    /// A part of a checkpoint.
    CheckpointPart,
}

impl From<page::PageKind> for Kind {
    fn from(kind: page::PageKind) -> Self {
        match kind {
            page::PageKind::Segment => Self::Segment,
            page::PageKind::Coins => Self::Coins,
            page::PageKind::Long => Self::Long,
            page::PageKind::LongRest => Self::LongRest,
            page::PageKind::Removals => Self::Removals,
            page::PageKind::Trailer => Self::Trailer,
            page::PageKind::Checkpoint => Self::Checkpoint,
            page::PageKind::CheckpointPart => Self::CheckpointPart,
        }
    }
}

/// The head of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head(page::PageHead);

impl Head {
    /// The head of a page. None if the page is not what was written.
    pub fn of(page: &Page) -> Option<Self> {
        page::PageHead::of(page).map(Self)
    }

    /// What the page is for.
    pub fn kind(&self) -> Kind {
        self.0.kind.into()
    }

    /// Number of records.
    pub fn records(&self) -> usize {
        self.0.records
    }

    /// Where the used part of the page ends.
    pub fn used(&self) -> usize {
        self.0.used
    }

    /// Where the page lies.
    pub fn position(&self) -> (u32, u32) {
        (self.0.position.segment, self.0.position.page)
    }

    /// Number of the flush, and epoch.
    pub fn flush_and_epoch(&self) -> (u64, u64) {
        (self.0.flush, self.0.epoch)
    }

    /// A bit for each record that lives when the page was just written.
    pub fn all_live(&self) -> u64 {
        page::all_live(self.0.kind, self.0.records)
    }
}

/// Completes the head of a page that was begun. Returns its checksum.
pub fn seal(page: &mut Page, position: (u32, u32), flush: u64, epoch: u64) -> u32 {
    let (segment, number) = position;
    let position = PagePosition { segment, page: number };
    page::seal(page, position, flush, epoch)
}

/// The record of a number on a page of coins. None if the page has no such record.
pub fn record<'a>(page: &'a Page, head: &Head, number: usize) -> Option<&'a [u8]> {
    page::record(page, &head.0, number)
}

/// The first and the last record of a page of coins, by the first two bytes of their keys, as an
/// opening finds them.
pub fn range_of(page: &Page, head: &Head) -> (u16, u16) {
    let range = page::range_of(page, &head.0);
    (range.first, range.last)
}

/// Appends a record.
pub fn write_record(outpoint: &OutPoint, coin: &Coin, into: &mut Vec<u8>) {
    page::write_record(outpoint, &CoinRef::from(coin), into);
}

/// The outpoint of a record, and the coin in the form of Core's database.
///
/// # Errors
/// [`DecodeError`] if it is no record.
pub fn read_record(record: &[u8]) -> Result<(OutPoint, &[u8]), DecodeError> {
    page::read_record(record)
}

/// Pages of coins that are being made.
#[derive(Debug, Default)]
pub struct CoinPages(page::CoinPages);

impl CoinPages {
    /// Adds a record. Returns the number of its page, and its own.
    pub fn push(&mut self, record: &[u8]) -> (u32, u32) {
        let slot = self.0.push(record);
        (slot.page, slot.record)
    }

    /// The pages, begun but not sealed, each with the first two bytes of its first and its last
    /// key.
    pub fn finish(self) -> Vec<(Page, (u16, u16))> {
        let (pages, ranges) = self.0.finish();
        assert_eq!(pages.len(), ranges.len());
        let ranges = ranges.into_iter().map(|range| (range.first, range.last));
        pages.into_iter().zip(ranges).collect()
    }
}

/// Makes pages of removals, begun but not sealed. Removals come sorted: by segment, then by offset.
pub fn removal_pages(sorted: &[(u32, u32)]) -> Vec<Page> {
    let packed = |&(segment, offset): &(u32, u32)| removals::removal(segment, offset);
    removals::removal_pages(sorted.iter().map(packed))
}

/// Calls `each` with the removals of a page: segment and offset. None if it is no such page.
pub fn read_removals(page: &Page, head: &Head, each: impl FnMut(u32, u32)) -> Option<()> {
    removals::read_removals(page, &head.0, each)
}

/// What all files of a store have in common.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The network that the coins belong to.
    pub network: String,
    /// The key of the hashes.
    pub key: (u64, u64),
}

impl Identity {
    fn inner(&self) -> segment::Identity {
        segment::Identity {
            network: self.network.clone(),
            key: self.key,
        }
    }

    /// Begins the first page of a segment.
    pub fn write(&self) -> Page {
        self.inner().write(page::PageKind::Segment)
    }

    /// Reads the first page of a file. Its checksum is right.
    ///
    /// # Errors
    /// [`StoreError::Format`] if another version wrote it, else [`StoreError::Corrupt`].
    pub fn read(page: &Page) -> Result<Self, StoreError> {
        let segment::Identity { network, key } = segment::Identity::read(page, Path::new("segment"))?;
        Ok(Self { network, key })
    }
}

/// What a trailer says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trailer {
    /// The first page of the frame.
    pub start: (u32, u32),
    /// Pages of the frame before the trailer.
    pub pages: u32,
    /// CRC-32 of the checksums of these pages.
    pub checksum: u32,
    /// The checksum of the trailer before.
    pub previous: u32,
    /// The tip.
    pub tip: Tip,
    /// Coins in the set.
    pub coins: u64,
    /// Sum of the hashes of all outpoints in the set.
    pub digest: u64,
}

impl Trailer {
    /// Begins the page.
    pub fn write(&self) -> Page {
        let (segment, page) = self.start;
        let inner = trailer::Trailer {
            start: PagePosition { segment, page },
            pages: self.pages,
            checksum: self.checksum,
            previous: self.previous,
            tip: self.tip,
            coins: self.coins,
            digest: self.digest,
        };
        inner.write()
    }

    /// Reads the page. None if it is no trailer.
    pub fn read(page: &Page, head: &Head) -> Option<Self> {
        let inner = trailer::Trailer::read(page, &head.0)?;
        Some(Self {
            start: (inner.start.segment, inner.start.page),
            pages: inner.pages,
            checksum: inner.checksum,
            previous: inner.previous,
            tip: inner.tip,
            coins: inner.coins,
            digest: inner.digest,
        })
    }
}

/// Reads records of a segment, as look-ups do.
#[derive(Debug)]
pub struct Segment(SegmentTable);

impl Segment {
    /// The segment of a number in a file.
    pub fn new(number: u32, file: Box<dyn DiskFile>) -> Self {
        let segment = segment::Segment {
            number,
            path: "segment".into(),
            file,
        };
        Self(SegmentTable::of(vec![Some(Arc::new(segment))]))
    }

    /// Reads from it. The last page that was read stays.
    pub fn reader(&self) -> Reader<'_> {
        Reader(PageReader::new(&self.0))
    }
}

/// Reads records of a segment.
pub struct Reader<'a>(PageReader<'a>);

impl Reader<'_> {
    /// The record of a number on a page.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] if there is none.
    pub fn record(&mut self, page: u32, number: u32) -> Result<&[u8], StoreError> {
        self.0.record(Location::new(0, page, number))
    }

    /// The outpoint of the record of a number on a page.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] if there is none.
    pub fn outpoint(&mut self, page: u32, number: u32) -> Result<OutPoint, StoreError> {
        self.0.outpoint(Location::new(0, page, number))
    }

    /// The coin of the record of a number on a page, if it is that of the outpoint.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] or [`StoreError::Damaged`] if there is none.
    pub fn coin(&mut self, page: u32, number: u32, outpoint: &OutPoint) -> Result<Option<Coin>, StoreError> {
        self.0.coin(Location::new(0, page, number), outpoint)
    }
}

/// The state that a checkpoint stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Label {
    /// Number of the flush.
    pub flush: u64,
    /// Where the next frame begins.
    pub tail: (u32, u32),
    /// The checksum of the last trailer.
    pub trailer: u32,
    /// The tip.
    pub tip: Tip,
    /// Coins in the set.
    pub coins: u64,
    /// Sum of the hashes of all outpoints in the set.
    pub digest: u64,
}

/// What a checkpoint has of a segment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SlotState {
    /// Number of the segment; 0 for none.
    pub number: u32,
    /// Records that were written to it, and their bytes.
    pub written: (u64, u64),
    /// Records that live.
    pub live: u64,
    /// For each page a bit for each live record, and the first two bytes of the first and the last
    /// key.
    pub pages: Vec<(u64, (u16, u16))>,
}

/// A checkpoint that was read, without its words.
pub struct Checkpoint(checkpoint::Checkpoint);

impl std::fmt::Debug for Checkpoint {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("Checkpoint").field(&self.label()).finish()
    }
}

impl Checkpoint {
    /// Reads the checkpoint of a store. None if the file is not what was written.
    pub fn read(file: Box<dyn DiskFile>, identity: &Identity) -> Option<Self> {
        checkpoint::read(file, Path::new("checkpoint"), &identity.inner()).map(Self)
    }

    /// The state that it stands for.
    pub fn label(&self) -> Label {
        let label = &self.0.label;
        Label {
            flush: label.flush,
            tail: (label.tail.segment, label.tail.page),
            trailer: label.trailer,
            tip: label.tip,
            coins: label.coins,
            digest: label.digest,
        }
    }

    /// Where the words of each shard begin in the stream, and where those of the last end.
    pub fn starts(&self) -> &[u64] {
        &self.0.starts
    }

    /// The words of a shard. None if they are not what was written.
    pub fn words(&self, group: usize, shard: usize) -> Option<Vec<u64>> {
        self.0.words(group, shard)
    }

    /// An index that was filled with the words whose locations are wanted. None if the file is not
    /// what was written.
    pub fn fill(&self, wanted: impl Fn(u32) -> bool + Sync) -> Option<Filled> {
        let index = Index::default();
        self.0
            .fill(&index, &Helpers::default(), |location| wanted(location.bits()))?;
        Some(Filled(index))
    }

    /// What it has of each slot.
    pub fn slots(&self) -> Vec<SlotState> {
        let slots = self.0.slots.iter().enumerate();
        slots
            .map(|(slot, &number)| {
                let Some(ledger) = self.0.ledger.segment(slot) else {
                    return SlotState {
                        number,
                        ..SlotState::default()
                    };
                };
                let ranges = ledger.ranges().iter().map(|range| (range.first, range.last));
                SlotState {
                    number,
                    written: (ledger.written().records, ledger.written().bytes),
                    live: ledger.live(),
                    pages: ledger.masks().iter().copied().zip(ranges).collect(),
                }
            })
            .collect()
    }
}

/// An index that a checkpoint has filled. A word has a tag in its upper half, and a location in its
/// lower half.
#[derive(Debug)]
pub struct Filled(Index);

impl Filled {
    /// The words of a shard, sorted.
    pub fn words(&self, group: usize, shard: usize) -> Vec<u64> {
        self.0.read(group)[shard].iter().collect()
    }

    /// The locations of all words of a shard with a tag.
    pub fn locations(&self, group: usize, shard: usize, tag: u32) -> Vec<u32> {
        let group = self.0.read(group);
        group[shard].candidates(tag).map(Location::bits).collect()
    }

    /// Adds a word. Returns false if it is there already.
    pub fn insert(&self, group: usize, shard: usize, word: u64) -> bool {
        let location = Location::from_bits(word as u32);
        self.0.write(group)[shard].insert((word >> 32) as u32, location)
    }
}
