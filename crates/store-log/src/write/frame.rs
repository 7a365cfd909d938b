//! A frame: the pages of one flush, one after the other, a trailer at their end.
//!
//! A frame may begin in one segment and go on in the next. It counts when its trailer is there and
//! all pages before it are what the trailer says; so it is written in any order and synced once.

use crate::format::location::{Location, SEGMENT_PAGES_MAX};
use crate::format::page::{CALL_PAGES, KeyRange, PAGE_BYTES, Page, PagePosition, RecordSlot, seal};
use crate::format::segment::{Segment, file_failed};
use crate::index::state::LogState;
use blockmill_coins::StoreError;
use std::sync::Arc;

/// So many pages at once are written without waiting for others.
const DIRECT_PAGES: usize = 32;

/// Where the next page goes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LogTail {
    pub(crate) slot: usize,
    pub(crate) position: PagePosition,
}

/// Pages of a frame that lie side by side.
#[derive(Debug, Clone, Copy)]
struct FramePiece {
    /// The number of its first page in the frame.
    first: u32,
    slot: usize,
    /// The number of its first page in the segment.
    page: u32,
}

/// What the ledger is to know of a page.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PageState {
    pub(crate) mask: u64,
    pub(crate) range: KeyRange,
    /// Bytes of its records.
    pub(crate) bytes: usize,
}

/// A frame that is being written.
pub(crate) struct Frame<'a> {
    log: &'a LogState,
    flush: u64,
    epoch: u64,
    tail: LogTail,
    start: PagePosition,
    /// Most pages of a segment: a part of what there is.
    segment_pages: u32,
    pieces: Vec<FramePiece>,
    states: Vec<PageState>,
    checksums: crc32fast::Hasher,
    last_checksum: u32,
    /// Sealed pages that are not written yet; they end at the tail.
    waiting: Vec<Page>,
    /// Segments that are not synced.
    dirty: Vec<Arc<Segment>>,
}

fn segment_pages(log: &LogState) -> u32 {
    let share = log.ledger().disk_bytes() / (16 * PAGE_BYTES as u64);
    let share = u32::try_from(share).unwrap_or(u32::MAX);
    share.max(log.options.segment_pages_min).min(SEGMENT_PAGES_MAX)
}

impl<'a> Frame<'a> {
    pub(crate) fn new(log: &'a LogState, flush: u64, epoch: u64, tail: LogTail) -> Self {
        Self {
            log,
            flush,
            epoch,
            tail,
            start: tail.position,
            segment_pages: segment_pages(log),
            pieces: Vec::new(),
            states: Vec::new(),
            checksums: crc32fast::Hasher::new(),
            last_checksum: 0,
            waiting: Vec::with_capacity(CALL_PAGES),
            dirty: Vec::new(),
        }
    }

    /// The number of the flush.
    pub(crate) fn flush(&self) -> u64 {
        self.flush
    }

    /// Number of pages so far.
    pub(crate) fn len(&self) -> u32 {
        self.states.len() as u32
    }

    /// The first page.
    pub(crate) fn start(&self) -> PagePosition {
        self.start
    }

    /// Where the next page goes.
    pub(crate) fn tail(&self) -> LogTail {
        self.tail
    }

    /// CRC-32 of the checksums of all pages so far.
    pub(crate) fn checksum(&self) -> u32 {
        self.checksums.clone().finalize()
    }

    /// The checksum of the last page.
    pub(crate) fn last_checksum(&self) -> u32 {
        self.last_checksum
    }

    /// Pages for which the last segment has room.
    pub(crate) fn room(&self) -> usize {
        self.segment_pages.saturating_sub(self.tail.position.page) as usize
    }

    /// Makes room for pages that must be in one segment.
    pub(crate) fn reserve(&mut self, pages: u32) -> Result<(), StoreError> {
        let PagePosition { segment, page } = self.tail.position;
        // A segment that has nothing but its first page takes any record.
        if page + pages <= self.segment_pages || (page == 1 && pages < SEGMENT_PAGES_MAX) {
            return Ok(());
        }
        // What waits goes to the segment that is full.
        self.write()?;
        let Some(disk) = &self.log.disk else {
            return Err(StoreError::Backend("the store was opened to read".to_owned()));
        };
        let Some(number) = segment.checked_add(1) else {
            return Err(StoreError::Backend("no number is left for another segment".to_owned()));
        };
        let created = Segment::create(&**disk, &self.log.directory, number, &self.log.identity, self.epoch)?;
        self.tail = LogTail {
            slot: self.log.segments.add(created)?,
            position: PagePosition::new(number, 1),
        };
        // The frame has no page yet, so it begins in the new segment.
        if self.states.is_empty() {
            self.start = self.tail.position;
        }
        Ok(())
    }

    /// Appends pages that were begun, all of them to one segment.
    pub(crate) fn append(&mut self, pages: &mut [Page], states: &[PageState]) -> Result<(), StoreError> {
        self.reserve(pages.len() as u32)?;
        let LogTail { slot, position } = self.tail;
        // Pages of one segment are one piece, however many calls append them.
        let follows = self.pieces.last().is_some_and(|piece| piece.slot == slot);
        if !follows {
            self.pieces.push(FramePiece {
                first: self.len(),
                slot,
                page: position.page,
            });
        }
        if pages.len() >= DIRECT_PAGES {
            self.write()?;
        }
        for page in &mut *pages {
            self.last_checksum = seal(page, self.tail.position, self.flush, self.epoch);
            // The trailer names the pages by their checksums, in this order.
            self.checksums.update(&self.last_checksum.to_le_bytes());
            self.tail.position.page += 1;
        }
        self.states.extend_from_slice(states);
        if pages.len() >= DIRECT_PAGES {
            return self.write_last(pages);
        }
        // Few pages: one call of the file for many of them.
        self.waiting.extend_from_slice(pages);
        if self.waiting.len() >= CALL_PAGES {
            self.write()?;
        }
        Ok(())
    }

    /// Writes what waits.
    fn write(&mut self) -> Result<(), StoreError> {
        // The buffer keeps its memory for the pages that come.
        let mut waiting = std::mem::take(&mut self.waiting);
        if !waiting.is_empty() {
            self.write_last(&waiting)?;
            waiting.clear();
        }
        self.waiting = waiting;
        Ok(())
    }

    /// Writes pages that end at the tail.
    fn write_last(&mut self, pages: &[Page]) -> Result<(), StoreError> {
        let table = self.log.segments.load();
        let Some(segment) = table.get(self.tail.slot) else {
            return Err(StoreError::Backend("the last segment is gone".to_owned()));
        };
        // The tail has moved past these pages already.
        let first = self.tail.position.page as usize - pages.len();
        segment
            .file
            .write_all_at(pages.as_flattened(), (first * PAGE_BYTES) as u64)
            .map_err(|error| file_failed(&segment.path, &error))?;
        if self.dirty.last().is_none_or(|last| last.number != segment.number) {
            self.dirty.push(Arc::clone(segment));
        }
        Ok(())
    }

    /// Writes everything, durably.
    pub(crate) fn sync(&mut self) -> Result<(), StoreError> {
        self.write()?;
        for segment in self.dirty.drain(..) {
            segment
                .file
                .sync_data()
                .map_err(|error| file_failed(&segment.path, &error))?;
        }
        Ok(())
    }

    /// The location of a record on a page of this frame.
    pub(crate) fn location(&self, slot: RecordSlot) -> Location {
        // Pieces are few: a frame has one in each of its segments.
        let index = self.pieces.partition_point(|piece| piece.first <= slot.page);
        let piece = &self.pieces[index - 1];
        Location::new(piece.slot, piece.page + (slot.page - piece.first), slot.record)
    }

    /// For each page its slot, its number in the segment, and its state.
    pub(crate) fn states(&self) -> impl Iterator<Item = (usize, u32, PageState)> {
        self.pieces.iter().enumerate().flat_map(|(number, piece)| {
            let end = self.pieces.get(number + 1).map_or(self.len(), |next| next.first);
            (piece.first..end).map(|page| {
                let in_segment = piece.page + (page - piece.first);
                (piece.slot, in_segment, self.states[page as usize])
            })
        })
    }
}
