//! Garbage: records that were removed and still take room.
//!
//! When the log is five sixteenths larger than what lives in it, the segment with the least life in
//! it becomes the *victim*. Its survivors travel along in the next frames, at most twice as many
//! pages as those frames add or remove. When nothing lives in it, the removals that it has for
//! other segments travel too, and its file goes. A frame may empty several small segments.

use crate::commit::Removed;
use crate::ledger::SegmentLedger;
use crate::location::Location;
use crate::page::{self, BODY_BYTES, CoinPages, Page, Slot};
use crate::removals::read_removals;
use crate::segment::{Table, page_damaged};
use crate::store::{PageReader, Shared};
use blockmill_coins::StoreError;
use std::ops::Range;

/// Sixteenths of what lives that the log may have.
const SIZE_MAX_16: u64 = 21;

/// Pages of survivors for each page that the frame adds or removes, at most. Where two thirds of
/// the victim live, that makes room for as much as the frame takes.
const PAGES_PER_PAGE: usize = 2;

/// Pages of survivors that a small frame may have.
const PAGES_MIN: usize = 64;

/// Records of a page, about.
const RECORDS_PER_PAGE: usize = 56;

/// The segments that are collected.
#[derive(Debug, Clone, Default)]
pub(crate) struct Garbage {
    /// The slot of the segment from which survivors are taken.
    pub(crate) victim: Option<usize>,
    /// Slots of segments in which nothing lives, whose files are still there.
    pub(crate) emptied: Vec<usize>,
}

impl Garbage {
    /// The slot of the segment to collect, if there is too much garbage: the one with the least
    /// life, of those before `newest`. Segments of `kept` numbers stay.
    fn choose(&self, shared: &Shared, table: &Table, newest: u32, kept: &[u32]) -> Option<usize> {
        let ledger = shared.ledger();
        let going = self.emptied.iter().filter_map(|&slot| ledger.segment(slot));
        let disk_bytes = ledger.disk_bytes() - going.map(SegmentLedger::disk_bytes).sum::<u64>();
        if disk_bytes <= ledger.live_bytes() / 16 * SIZE_MAX_16 + shared.options.garbage_bytes_min {
            return None;
        }
        let old = table.slots.iter().enumerate().filter_map(|(slot, segment)| {
            let segment = segment.as_ref().filter(|segment| segment.number < newest)?;
            let ledger = ledger.segment(slot)?;
            let stays = kept.contains(&segment.number) || self.emptied.contains(&slot);
            (!stays).then_some((slot, segment.number, ledger))
        });
        let life = |(_, number, segment): &(usize, u32, &SegmentLedger)| {
            (segment.live_bytes() * 1024 / segment.disk_bytes().max(1), *number)
        };
        old.min_by_key(life).map(|(slot, ..)| slot)
    }
}

/// What a frame takes over from victims.
#[derive(Default)]
pub(crate) struct Survivors {
    pages: CoinPages,
    added: Vec<(u64, Slot)>,
    moved: Vec<Removed>,
    carried: Vec<(u32, u32)>,
}

impl Survivors {
    /// Takes survivors for a frame that has this number of pages so far, and removes `removed`.
    /// Victims are segments before `newest`, except those of `kept` numbers.
    pub(crate) fn choose(
        &mut self,
        shared: &Shared,
        garbage: &mut Garbage,
        (newest, kept): (u32, &[u32]),
        pages: u32,
        removed: &[Vec<Removed>],
    ) -> Result<(), StoreError> {
        let table = shared.segments.load();
        let removed_pages = removed.iter().map(Vec::len).sum::<usize>() / RECORDS_PER_PAGE;
        let pages_max = ((pages as usize).max(removed_pages) * PAGES_PER_PAGE).max(PAGES_MIN);
        let mut records = Records::default();
        while records.bytes.len() < pages_max * BODY_BYTES {
            garbage.victim = garbage.victim.or_else(|| garbage.choose(shared, &table, newest, kept));
            let Some(victim) = garbage.victim else {
                break;
            };
            if records.take(shared, &table, victim, pages_max * BODY_BYTES, removed)? {
                self.carry(shared, &table, victim)?;
                garbage.victim = None;
                garbage.emptied.push(victim);
            }
        }
        // Sorted, as the pages of changes are: what was many small frames becomes one.
        records.sort();
        let reader = PageReader::new(&table);
        for (record, location) in records.iter() {
            let outpoint = reader.outpoint_of(record, location)?;
            let hash = shared.key.hash(&outpoint);
            self.added.push((hash, self.pages.push(record)));
            self.moved.push(Removed { hash, location });
        }
        Ok(())
    }

    /// Takes the removals that the victim has for segments which are still there.
    fn carry(&mut self, shared: &Shared, table: &Table, victim: usize) -> Result<(), StoreError> {
        let Some(segment) = table.get(victim) else {
            return Ok(());
        };
        let ranges = shared
            .ledger()
            .segment(victim)
            .map_or_else(Vec::new, |ledger| ledger.ranges().to_vec());
        let mut buffer: Box<Page> = Box::new([0; page::PAGE_BYTES]);
        for (number, range) in (0u32..).zip(&ranges) {
            if *range != page::Range::REMOVALS {
                continue;
            }
            let head = segment.read_page(number, &mut buffer)?;
            let carried = &mut self.carried;
            let each = |target: u32, offset: u32| {
                if target != segment.number && table.slot_of(target).is_some() {
                    carried.push((target, offset));
                }
            };
            read_removals(&buffer, &head, each)
                .ok_or_else(|| page_damaged(&segment.path, number, "has no removals"))?;
        }
        Ok(())
    }

    /// The pages, their ranges, and the records on them with their hashes.
    pub(crate) fn take_pages(&mut self) -> (Vec<Page>, Vec<page::Range>, Vec<(u64, Slot)>) {
        let (pages, ranges) = std::mem::take(&mut self.pages).finish();
        (pages, ranges, std::mem::take(&mut self.added))
    }

    /// The records as they lie in the victim.
    pub(crate) fn moved(&self) -> &[Removed] {
        &self.moved
    }

    /// Removals that travel: number of the segment, and offset.
    pub(crate) fn carried(&self) -> &[(u32, u32)] {
        &self.carried
    }
}

/// Records side by side.
#[derive(Default)]
struct Records {
    bytes: Vec<u8>,
    /// Where each is, and where it came from.
    places: Vec<(Range<usize>, Location)>,
}

impl Records {
    /// Takes what lives in a victim until there are this many bytes. Returns whether that is all.
    fn take(
        &mut self,
        shared: &Shared,
        table: &Table,
        victim: usize,
        bytes_max: usize,
        removed: &[Vec<Removed>],
    ) -> Result<bool, StoreError> {
        let mut reader = PageReader::new(table);
        for (page, &mask) in (0u32..).zip(&live_masks(shared, victim, removed)) {
            if mask != 0 && self.bytes.len() >= bytes_max {
                return Ok(false);
            }
            let mut rest = mask;
            while rest != 0 {
                let location = Location::new(victim, page, rest.trailing_zeros());
                rest &= rest - 1;
                self.add(reader.record(location)?, location);
            }
        }
        Ok(true)
    }

    fn add(&mut self, record: &[u8], location: Location) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(record);
        self.places.push((start..self.bytes.len(), location));
    }

    /// By transaction ids. Outputs of one transaction stay in their order.
    fn sort(&mut self) {
        let bytes = &self.bytes;
        self.places
            .sort_by(|(one, _), (other, _)| bytes[one.clone()].get(..32).cmp(&bytes[other.clone()].get(..32)));
    }

    fn iter(&self) -> impl Iterator<Item = (&[u8], Location)> {
        self.places
            .iter()
            .map(|(range, location)| (&self.bytes[range.clone()], *location))
    }
}

/// What lives in a segment, without what the frame removes.
fn live_masks(shared: &Shared, slot: usize, removed: &[Vec<Removed>]) -> Vec<u64> {
    let ledger = shared.ledger();
    let mut masks = ledger
        .segment(slot)
        .map_or_else(Vec::new, |segment| segment.masks().to_vec());
    for removed in removed.iter().flatten() {
        let location = removed.location;
        if location.slot() == slot
            && let Some(mask) = masks.get_mut(location.page() as usize)
        {
            *mask &= !(1 << location.record());
        }
    }
    masks
}
