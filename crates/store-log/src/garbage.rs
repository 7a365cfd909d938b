//! Garbage: records that were removed and still take room.
//!
//! When the log is three eighths larger than what lives in it, the segment with the least life in
//! it becomes the *victim*. Its survivors travel along in the next frames, at most twice as many
//! pages as those frames have of their own. When nothing lives in it, the removals that it has for
//! other segments travel too, and its file goes.

use crate::commit::Removed;
use crate::ledger::{Ledger, SegmentLedger};
use crate::location::Location;
use crate::page::{self, BODY_BYTES, CoinPages, Page, Slot, read_record};
use crate::removals::read_removals;
use crate::segment::{Segment, Table, page_damaged};
use crate::store::{Options, PageReader, Shared};
use blockmill_coins::StoreError;
use std::ops::Range;

/// Sixteenths of what lives that the log may have.
const SIZE_MAX_16: u64 = 21;

/// Pages of survivors for each page of the frame's own, at most. Where three fifths of the victim
/// live, that makes room for more than the frame takes.
const PAGES_PER_PAGE: u32 = 2;

/// Pages of survivors that a small frame may have.
const PAGES_MIN: u32 = 64;

/// The slot of the segment to collect, if there is too much garbage: the one with the least life,
/// of those before `newest`. Segments of `kept` numbers stay. The files of `emptied` slots are about
/// to go.
pub(crate) fn choose_victim(
    ledger: &Ledger,
    table: &Table,
    newest: u32,
    kept: &[u32],
    emptied: &[usize],
    options: &Options,
) -> Option<usize> {
    let going = emptied.iter().filter_map(|&slot| ledger.segment(slot));
    let disk_bytes = ledger.disk_bytes() - going.map(SegmentLedger::disk_bytes).sum::<u64>();
    if disk_bytes <= ledger.live_bytes() / 16 * SIZE_MAX_16 + options.garbage_bytes_min {
        return None;
    }
    let old = table.slots.iter().enumerate().filter_map(|(slot, segment)| {
        let segment = segment
            .as_ref()
            .filter(|segment| segment.number < newest && !kept.contains(&segment.number))?;
        let ledger = ledger.segment(slot).filter(|_| !emptied.contains(&slot))?;
        Some((slot, segment.number, ledger))
    });
    let life = |(_, number, segment): &(usize, u32, &SegmentLedger)| {
        (segment.live_bytes() * 1024 / segment.disk_bytes().max(1), *number)
    };
    old.min_by_key(life).map(|(slot, ..)| slot)
}

/// What a frame takes over from the victim.
#[derive(Default)]
pub(crate) struct Survivors {
    pages: CoinPages,
    added: Vec<(u64, Slot)>,
    moved: Vec<Removed>,
    carried: Vec<(u32, u32)>,
    is_last: bool,
}

impl Survivors {
    /// Takes survivors, about `pages` of them. `removed` is what the frame removes.
    pub(crate) fn choose(
        &mut self,
        shared: &Shared,
        victim: usize,
        pages: u32,
        removed: &[Vec<Removed>],
    ) -> Result<(), StoreError> {
        let table = shared.segments.load();
        let Some(segment) = table.get(victim) else {
            return Ok(());
        };
        let bytes_max = (pages * PAGES_PER_PAGE).max(PAGES_MIN) as usize * BODY_BYTES;
        let masks = live_masks(shared, victim, removed);
        let mut reader = PageReader::new(&table);
        let mut records = Records::default();
        self.is_last = true;
        for (page, &mask) in (0u32..).zip(&masks) {
            if mask != 0 && records.bytes.len() >= bytes_max {
                self.is_last = false;
                break;
            }
            let mut rest = mask;
            while rest != 0 {
                let location = Location::new(victim, page, rest.trailing_zeros());
                rest &= rest - 1;
                records.add(reader.record(location)?, location);
            }
        }
        // Sorted, as the pages of changes are: what was many small frames becomes one.
        records.sort();
        for (record, location) in records.iter() {
            let (outpoint, _) = read_record(record)
                .map_err(|error| page_damaged(&segment.path, location.page(), &format!("has no record: {error}")))?;
            let hash = shared.key.hash(&outpoint);
            self.added.push((hash, self.pages.push(record)));
            self.moved.push(Removed { hash, location });
        }
        if self.is_last {
            self.carry(shared, &table, victim, segment)?;
        }
        Ok(())
    }

    /// Takes the removals that the victim has for segments which are still there.
    fn carry(&mut self, shared: &Shared, table: &Table, victim: usize, segment: &Segment) -> Result<(), StoreError> {
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

    /// Whether nothing is left in the victim.
    pub(crate) fn is_last(&self) -> bool {
        self.is_last
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
