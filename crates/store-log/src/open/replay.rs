//! Frames are read again, when a store is opened: from where its checkpoint ends, or all of them.
//!
//! A frame counts if its trailer is there, and its pages are those that the trailer names. The log
//! ends before the first page that is no part of such a frame. What comes after it is a frame that
//! was never committed, unless the trailer of a later frame stands there: then the page was
//! committed, and is damaged now.
//!
//! Where a segment was collected, frames are there in part. All pages of a segment before the last
//! were committed, so each of them counts by itself.

use crate::format::location::Location;
use crate::format::page::{
    CALL_PAGES, KeyRange, PAGE_BYTES, Page, PageHead, PageKind, PagePosition, all_live, checksum_of, range_of,
    record_bytes,
};
use crate::format::removals::read_removals;
use crate::format::segment::{Segment, SegmentTable, page_damaged};
use crate::format::trailer::Trailer;
use crate::index::ledger::Ledger;
use blockmill_coins::StoreError;
use std::collections::HashMap;
use std::sync::Arc;

/// The last frame that counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Last {
    pub(crate) flush: u64,
    /// The checksum of its trailer.
    pub(crate) checksum: u32,
    pub(crate) trailer: Trailer,
}

/// What was read.
#[derive(Debug, Default)]
pub(crate) struct Replayed {
    /// None if no frame was read.
    pub(crate) last: Option<Last>,
    /// Where the next frame goes. None if no frame was read.
    pub(crate) tail: Option<PagePosition>,
    /// Pages of coins: slot, and number in the segment.
    pub(crate) pages: Vec<(usize, u32)>,
    pub(crate) has_removals: bool,
}

/// A page of a frame whose trailer has not come yet.
struct Pending {
    slot: usize,
    number: u32,
    kind: PageKind,
    mask: u64,
    range: KeyRange,
    bytes: usize,
    removals: Vec<(u32, u32)>,
}

/// Where reading is.
struct Replay<'a> {
    ledger: &'a mut Ledger,
    slots: HashMap<u32, usize>,
    pending: Vec<Pending>,
    /// Flush and epoch of the pending pages.
    frame: (u64, u64),
    checksums: crc32fast::Hasher,
    /// Flush and trailer before. None at the start of a log whose beginning is not known.
    before: Option<(u64, u32)>,
    /// The segment of the last page.
    segment: Option<u32>,
    /// Whether pages are missing before the pending ones.
    after_gap: bool,
    replayed: Replayed,
}

/// Why reading stops.
enum Stop {
    /// A page is no part of a whole frame: which, and what is wrong with it.
    At(PagePosition, StoreError),
    /// The system, or damage for certain.
    Failed(StoreError),
}

/// Reads all frames from `start` on into the ledger. `before` are flush and trailer of the frame
/// before it.
///
/// # Errors
/// [`StoreError::Corrupt`] if a page is damaged that was committed.
pub(crate) fn replay(
    table: &SegmentTable,
    ledger: &mut Ledger,
    start: PagePosition,
    before: Option<(u64, u32)>,
) -> Result<Replayed, StoreError> {
    let segments: Vec<(usize, Arc<Segment>)> = table
        .in_order()
        .into_iter()
        .filter(|(_, segment)| segment.number >= start.segment)
        .collect();
    let mut reader = Replay {
        ledger,
        slots: table
            .in_order()
            .iter()
            .map(|(slot, segment)| (segment.number, *slot))
            .collect(),
        pending: Vec::new(),
        frame: (0, 0),
        checksums: crc32fast::Hasher::new(),
        before,
        // A segment that is missing right after the start is a gap, too.
        segment: before.map(|_| start.segment),
        // A log begins with segment 1.
        after_gap: before.is_none() && start.segment > 1,
        replayed: Replayed::default(),
    };
    match for_each_page(&segments, start, |slot, segment, number, page| {
        reader.take(slot, segment, number, page)
    }) {
        Ok(()) => {}
        Err(Stop::Failed(error)) => return Err(error),
        Err(Stop::At(position, error)) => {
            let flush = reader.before.map_or(0, |(flush, _)| flush);
            // The frame after this one was begun only when this one was committed.
            if has_later_trailer(&segments, position, flush.saturating_add(2))? {
                return Err(error);
            }
        }
    }
    Ok(reader.replayed)
}

/// Calls `each` with all pages from a position on.
fn for_each_page(
    segments: &[(usize, Arc<Segment>)],
    start: PagePosition,
    mut each: impl FnMut(usize, &Segment, u32, &Page) -> Result<(), Stop>,
) -> Result<(), Stop> {
    let mut pages = vec![[0; PAGE_BYTES]; CALL_PAGES];
    for (slot, segment) in segments {
        let end = segment.pages().map_err(Stop::Failed)?;
        // Page 0 names the segment, and is part of no frame.
        let mut number = if segment.number == start.segment {
            start.page.max(1)
        } else {
            1
        };
        while number < end {
            let count = ((end - number) as usize).min(CALL_PAGES);
            segment.read_pages(number, &mut pages[..count]).map_err(Stop::Failed)?;
            for page in &pages[..count] {
                each(*slot, segment, number, page)?;
                number += 1;
            }
        }
    }
    Ok(())
}

/// Whether there is a trailer of this flush or of a later one after a position.
fn has_later_trailer(
    segments: &[(usize, Arc<Segment>)],
    position: PagePosition,
    flush: u64,
) -> Result<bool, StoreError> {
    let mut found = false;
    let later: Vec<(usize, Arc<Segment>)> = segments
        .iter()
        .filter(|(_, segment)| segment.number >= position.segment)
        .cloned()
        .collect();
    let outcome = for_each_page(&later, position, |_, segment, number, page| {
        let head = segment.check(number, page).ok();
        found |= head.is_some_and(|head| head.kind == PageKind::Trailer && head.flush >= flush);
        Ok(())
    });
    match outcome {
        Ok(()) => Ok(found),
        Err(Stop::Failed(error) | Stop::At(_, error)) => Err(error),
    }
}

impl Replay<'_> {
    fn take(&mut self, slot: usize, segment: &Segment, number: u32, page: &Page) -> Result<(), Stop> {
        let position = PagePosition::new(segment.number, number);
        let stop = |error| Stop::At(position, error);
        let head = segment.check(number, page).map_err(stop)?;
        self.note_gap(segment.number);
        let expected = match (self.pending.is_empty(), self.before) {
            (false, _) => (head.flush, head.epoch) == self.frame,
            // Frames were collected here, nobody knows how many.
            (true, Some((flush, _))) if self.after_gap => head.flush >= flush,
            (true, Some((flush, _))) => Some(head.flush) == flush.checked_add(1),
            (true, None) => true,
        };
        if !expected {
            return Err(stop(page_damaged(&segment.path, number, "is of another flush")));
        }
        self.frame = (head.flush, head.epoch);
        let mut removals = Vec::new();
        match head.kind {
            PageKind::Trailer => return self.finish_frame(segment, number, page, &head),
            PageKind::Coins | PageKind::Long | PageKind::LongRest => {}
            PageKind::Removals => {
                read_removals(page, &head, |segment, offset| removals.push((segment, offset)))
                    .ok_or_else(|| stop(page_damaged(&segment.path, number, "has no removals")))?;
            }
            PageKind::Segment | PageKind::Checkpoint | PageKind::CheckpointPart => {
                return Err(stop(page_damaged(&segment.path, number, "is of another kind")));
            }
        }
        self.checksums.update(&checksum_of(page).to_le_bytes());
        self.pending.push(Pending {
            slot,
            number,
            kind: head.kind,
            mask: all_live(head.kind, head.records),
            range: range_of(page, &head),
            bytes: record_bytes(head.kind, head.records, head.used),
            removals,
        });
        Ok(())
    }

    /// Pages before a segment that was collected were committed, without their trailer.
    fn note_gap(&mut self, segment: u32) {
        let is_gap = self.segment.is_some_and(|before| before != segment) && !self.slots.contains_key(&(segment - 1));
        self.segment = Some(segment);
        if is_gap {
            if !self.pending.is_empty() {
                // Its trailer is gone with the segment, so its checksum is unknown.
                self.before = Some((self.frame.0, 0));
            }
            self.after_gap = true;
            self.accept();
        }
    }

    fn segment_of(&self, slot: usize) -> Option<u32> {
        self.slots
            .iter()
            .find(|(_, other)| **other == slot)
            .map(|(number, _)| *number)
    }

    fn finish_frame(&mut self, segment: &Segment, number: u32, page: &Page, head: &PageHead) -> Result<(), Stop> {
        let position = PagePosition::new(segment.number, number);
        let stop = |what| Stop::At(position, page_damaged(&segment.path, number, what));
        let trailer = Trailer::read(page, head).ok_or_else(|| stop("is no trailer"))?;
        let first = self.pending.first().map_or(Some(position), |first| {
            Some(PagePosition::new(self.segment_of(first.slot)?, first.number))
        });
        let is_whole = Some(trailer.start) == first
            && trailer.pages as usize == self.pending.len()
            && trailer.checksum == self.checksums.clone().finalize()
            && self.before.is_none_or(|(_, checksum)| checksum == trailer.previous);
        if !is_whole && !self.after_gap {
            return Err(stop("ends a frame that is not whole"));
        }
        self.accept();
        let checksum = checksum_of(page);
        self.before = Some((head.flush, checksum));
        self.after_gap = false;
        let ledger = self.ledger.segment_mut(self.slots[&segment.number]);
        // The trailer is a page, too.
        ledger.fill(number + 1);
        self.replayed.last = Some(Last {
            flush: head.flush,
            checksum,
            trailer,
        });
        self.replayed.tail = Some(PagePosition {
            page: number + 1,
            ..position
        });
        Ok(())
    }

    /// The pending pages count.
    fn accept(&mut self) {
        self.checksums = crc32fast::Hasher::new();
        for page in std::mem::take(&mut self.pending) {
            let segment = self.ledger.segment_mut(page.slot);
            // The pages in between have no coins: first pages of segments, and trailers.
            segment.fill(page.number);
            segment.push(page.mask, page.range, page.bytes);
            if page.mask != 0 {
                debug_assert!(matches!(page.kind, PageKind::Coins | PageKind::Long));
                self.replayed.pages.push((page.slot, page.number));
            }
            for (number, offset) in page.removals {
                self.replayed.has_removals = true;
                // Removals for a segment that was collected are of no use.
                if let Some(&slot) = self.slots.get(&number) {
                    self.ledger.remove(Location::at(slot, offset));
                }
            }
        }
    }
}
