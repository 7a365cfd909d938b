//! The ledger: which records are live, page by page, and what the set comes to.

use crate::format::location::Location;
use crate::format::page::{KeyRange, PAGE_BYTES, PagePosition};
use crate::format::segment::Identity;
use blockmill_coins::{LastCommit, Tip};

/// Pages for which room is made at a time.
const GROWTH: usize = 1024;

/// The pages of a segment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SegmentLedger {
    /// For each page a bit for each live record.
    masks: Vec<u64>,
    /// For each page the keys of its records.
    ranges: Vec<KeyRange>,
    /// Live records.
    live: u64,
    /// All records that were written, and their bytes.
    written: WrittenRecords,
}

/// Records, and the room that they take on their pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WrittenRecords {
    pub records: u64,
    pub bytes: u64,
}

impl SegmentLedger {
    /// Adds the next page: its live records, their keys, their bytes.
    pub fn push(&mut self, mask: u64, range: KeyRange, bytes: usize) {
        if self.masks.len() == self.masks.capacity() {
            // Doubling would take twice the memory for the largest segments.
            self.masks.reserve_exact(GROWTH);
            self.ranges.reserve_exact(GROWTH);
        }
        self.masks.push(mask);
        self.ranges.push(range);
        self.live += u64::from(mask.count_ones());
        // A checkpoint's masks lack the dead records: `set_written` corrects that.
        self.written.records += u64::from(mask.count_ones());
        self.written.bytes += bytes as u64;
    }

    /// Adds pages without records until there are this many.
    pub fn fill(&mut self, pages: u32) {
        while self.masks.len() < pages as usize {
            self.push(0, KeyRange::default(), 0);
        }
    }

    /// A segment as a checkpoint has it: live records may be fewer than were written.
    pub fn set_written(&mut self, written: WrittenRecords) {
        self.written = written;
    }

    pub fn is_live(&self, location: Location) -> bool {
        let mask = self.masks.get(location.page() as usize).copied().unwrap_or(0);
        mask >> location.record() & 1 == 1
    }

    /// Ends the life of a record. Returns whether it was live.
    pub fn remove(&mut self, location: Location) -> bool {
        let was_live = self.is_live(location);
        if was_live {
            self.masks[location.page() as usize] &= !(1 << location.record());
            self.live -= 1;
        }
        was_live
    }

    pub fn masks(&self) -> &[u64] {
        &self.masks
    }

    pub fn ranges(&self) -> &[KeyRange] {
        &self.ranges
    }

    pub fn live(&self) -> u64 {
        self.live
    }

    pub fn written(&self) -> WrittenRecords {
        self.written
    }

    /// Bytes on disk.
    pub fn disk_bytes(&self) -> u64 {
        (self.masks.len() * PAGE_BYTES) as u64
    }

    /// Bytes of what is live, about.
    pub fn live_bytes(&self) -> u64 {
        // Records of a page differ little in length, and nobody counts those that live.
        let share = u128::from(self.written.bytes) * u128::from(self.live);
        (share / u128::from(self.written.records.max(1))) as u64
    }

    fn bytes(&self) -> usize {
        self.masks.capacity() * size_of::<u64>() + self.ranges.capacity() * size_of::<KeyRange>()
    }
}

/// The whole set at a flush.
#[derive(Debug, Clone, Default)]
pub struct Ledger {
    pub tip: Option<Tip>,
    /// Number of the flush.
    pub flush: u64,
    /// Coins in the set.
    pub coins: u64,
    /// Sum of the hashes of all outpoints in the set.
    pub digest: u64,
    /// By slot.
    pub segments: Vec<Option<SegmentLedger>>,
}

impl Ledger {
    pub fn segment(&self, slot: usize) -> Option<&SegmentLedger> {
        self.segments.get(slot)?.as_ref()
    }

    /// The ledger of a segment, which is made if there is none.
    pub fn segment_mut(&mut self, slot: usize) -> &mut SegmentLedger {
        if self.segments.len() <= slot {
            self.segments.resize(slot + 1, None);
        }
        self.segments[slot].get_or_insert_default()
    }

    pub fn is_live(&self, location: Location) -> bool {
        self.segment(location.slot())
            .is_some_and(|segment| segment.is_live(location))
    }

    /// Ends the life of a record. Returns whether it was live.
    pub fn remove(&mut self, location: Location) -> bool {
        let segment = self.segments.get_mut(location.slot()).and_then(Option::as_mut);
        segment.is_some_and(|segment| segment.remove(location))
    }

    /// The commit that led here. `tail` is where the next frame goes.
    pub fn last_commit(&self, identity: &Identity, tail: PagePosition) -> LastCommit {
        LastCommit {
            store: identity.store(),
            number: self.flush,
            end: tail.bits(),
            tip: self.tip,
            coins: self.coins,
        }
    }

    /// Bytes on disk of all segments.
    pub fn disk_bytes(&self) -> u64 {
        self.segments.iter().flatten().map(SegmentLedger::disk_bytes).sum()
    }

    /// Bytes of what is live, about.
    pub fn live_bytes(&self) -> u64 {
        self.segments.iter().flatten().map(SegmentLedger::live_bytes).sum()
    }

    /// Live records of all segments.
    pub fn live(&self) -> u64 {
        self.segments.iter().flatten().map(SegmentLedger::live).sum()
    }

    /// Memory in bytes.
    pub fn bytes(&self) -> usize {
        self.segments.iter().flatten().map(SegmentLedger::bytes).sum()
    }
}
