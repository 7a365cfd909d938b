//! Garbage: records that were removed and still take room.
//!
//! When the log is three eighths larger than what lives in it, the segment with the least life in
//! it becomes the *victim*. Its survivors travel along in the next frames, at most three pages for
//! two that those frames add or remove. When nothing lives in it, the removals that it has for
//! other segments travel too, and its file goes. A frame may empty several small segments.

use super::grouped::Grouped;
use super::records::{Moved, Removed};
use crate::format::location::Location;
use crate::format::page::{self, BODY_BYTES, CALL_PAGES, CoinPages, Page, RECORDS_PER_PAGE};
use crate::format::records::PageReader;
use crate::format::removals::{read_removals, removal};
use crate::format::segment::{SegmentTable, page_damaged};
use crate::index::ledger::SegmentLedger;
use crate::index::state::LogState;
use crate::index::table::{GROUPS, IndexKey};
use blockmill_coins::StoreError;

/// Sixteenths of what lives that the log may have.
const SIZE_MAX_16: u64 = 22;

/// Pages of survivors for every two pages that the frame adds or removes, at most. Where three
/// fifths of the victim live, that makes room for as much as the frame takes. If all segments lived
/// alike, the log would be five thirds of what lives.
const PAGES_PER_TWO: usize = 3;

/// Pages of survivors that a small frame may have.
const PAGES_MIN: usize = 64;

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
    fn choose(&self, log: &LogState, table: &SegmentTable, newest: u32, kept: &[u32]) -> Option<usize> {
        let ledger = log.ledger();
        // They take room still, and cannot be collected again.
        let going = self.emptied.iter().filter_map(|&slot| ledger.segment(slot));
        let disk_bytes = ledger.disk_bytes() - going.map(SegmentLedger::disk_bytes).sum::<u64>();
        if disk_bytes <= ledger.live_bytes() / 16 * SIZE_MAX_16 + log.options.garbage_bytes_min {
            return None;
        }
        let old = table.slots.iter().enumerate().filter_map(|(slot, segment)| {
            let segment = segment.as_ref().filter(|segment| segment.number < newest)?;
            let ledger = ledger.segment(slot)?;
            let stays = kept.contains(&segment.number) || self.emptied.contains(&slot);
            (!stays).then_some((slot, segment.number, ledger))
        });
        let life = |(_, number, segment): &(usize, u32, &SegmentLedger)| {
            // Of equal shares the oldest goes.
            // In parts of 1,024: a whole number of the share itself would be 0.
            (segment.live_bytes() * 1024 / segment.disk_bytes().max(1), *number)
        };
        old.min_by_key(life).map(|(slot, ..)| slot)
    }
}

/// Records that one thread sorts at a time, about.
const PART_RECORDS: usize = 1 << 13;

/// Most bits of a key that choose a part.
const PART_BITS_MAX: u32 = 10;

/// A page whose live records are taken.
#[derive(Debug, Clone, Copy)]
struct VictimPage {
    slot: usize,
    number: u32,
    mask: u64,
}

impl VictimPage {
    fn locations(self) -> impl Iterator<Item = Location> {
        Location::of_mask(self.slot, self.number, self.mask)
    }
}

/// A record that was taken.
#[derive(Debug, Clone, Copy)]
struct Survivor {
    /// The first bytes of its transaction id.
    prefix: u64,
    location: Location,
    /// Where it is in the bytes of its chunk.
    start: usize,
    length: u32,
}

/// The records of some pages.
struct SurvivorChunk {
    bytes: Vec<u8>,
    /// By the first bits of their keys.
    parts: Grouped<Survivor>,
}

/// Survivors of a part of the keys, sorted, on new pages.
#[derive(Default)]
pub(crate) struct SurvivorPart {
    pub(crate) pages: Vec<Page>,
    pub(crate) ranges: Vec<page::KeyRange>,
    pub(crate) moved: Grouped<Moved>,
}

/// What a frame takes over from victims.
#[derive(Default)]
pub(crate) struct Survivors {
    chunks: Vec<SurvivorChunk>,
    part_bits: u32,
    /// The removals of what moves, in the order of the victims.
    taken: Vec<u64>,
    carried: Vec<u64>,
}

impl Survivors {
    /// Takes survivors for a frame that has this number of pages so far, and removes `removed`.
    /// Victims are segments before `newest`, except those of `kept` numbers.
    pub(crate) fn choose(
        &mut self,
        log: &LogState,
        garbage: &mut Garbage,
        (newest, kept): (u32, &[u32]),
        pages: u32,
        removed: &[Vec<Removed>],
    ) -> Result<(), StoreError> {
        let table = log.segments.load();
        // A frame that removes much makes as much garbage as one that adds much.
        let removed_pages = removed.iter().map(Vec::len).sum::<usize>() / RECORDS_PER_PAGE;
        let pages_max = ((pages as usize).max(removed_pages) * PAGES_PER_TWO / 2).max(PAGES_MIN);
        let records_max = pages_max * RECORDS_PER_PAGE;
        let (mut live, mut records) = (Vec::new(), 0);
        while records < records_max {
            garbage.victim = garbage.victim.or_else(|| garbage.choose(log, &table, newest, kept));
            let Some(victim) = garbage.victim else {
                break;
            };
            let mut masks = (0u32..).zip(live_masks(log, victim, removed));
            let is_all = masks.all(|(number, mask)| {
                let fits = mask == 0 || records < records_max;
                if mask != 0 && fits {
                    records += mask.count_ones() as usize;
                    let slot = victim;
                    live.push(VictimPage { slot, number, mask });
                }
                fits
            });
            // Part of a victim may not fit: the next frame goes on with it, by the masks.
            if is_all {
                self.carry(log, &table, victim)?;
                // Its file is removed when the next frame is durable.
                garbage.victim = None;
                garbage.emptied.push(victim);
            }
        }
        self.part_bits = (records / PART_RECORDS)
            .checked_ilog2()
            .map_or(0, |bits| (bits + 1).min(PART_BITS_MAX));
        self.take(log, &table, &live)
    }

    /// Reads the live records of some pages.
    fn take(&mut self, log: &LogState, table: &SegmentTable, live: &[VictimPage]) -> Result<(), StoreError> {
        // The closures share the struct.
        let (part_bits, chunks) = (self.part_bits, &mut self.chunks);
        let read = |pages| SurvivorChunk::read(table, pages, part_bits);
        log.options.helpers.in_order(live.chunks(CALL_PAGES), read, |chunk| {
            chunks.push(chunk?);
            Ok::<(), StoreError>(())
        })?;
        for page in live {
            let number = table.get(page.slot).map_or(0, |segment| segment.number);
            let offsets = page.locations().map(Location::offset);
            self.taken.extend(offsets.map(|offset| removal(number, offset)));
        }
        Ok(())
    }

    /// Number of parts.
    pub(crate) fn parts(&self) -> usize {
        if self.chunks.is_empty() { 0 } else { 1 << self.part_bits }
    }

    /// The survivors of a part of the keys. They are sorted, as changes are: what was many small
    /// frames becomes one.
    pub(crate) fn part(&self, number: usize, log: &LogState, table: &SegmentTable) -> Result<SurvivorPart, StoreError> {
        let mut entries: Vec<(&Survivor, &SurvivorChunk)> = Vec::new();
        for chunk in &self.chunks {
            entries.extend(chunk.parts.group(number).iter().map(|entry| (entry, chunk)));
        }
        // Outputs of one transaction stay in their order.
        // Eight bytes of the key and a number sort faster than records.
        let prefixes = entries.iter().map(|(entry, _)| entry.prefix);
        let mut order: Vec<(u64, u32)> = prefixes.zip(0..).collect();
        order.sort_unstable();
        let reader = PageReader::new(table);
        let mut part = SurvivorPart::default();
        let mut pages = CoinPages::with_capacity(entries.len());
        let mut moved = Vec::with_capacity(entries.len());
        for (_, number) in order {
            let (entry, chunk) = entries[number as usize];
            let record = &chunk.bytes[entry.start..entry.start + entry.length as usize];
            let location = entry.location;
            let hash = log.key.hash(&reader.outpoint_of(record, location)?);
            let new = pages.push(record);
            let old = Removed { hash, location };
            moved.push((IndexKey::of(hash).group, Moved { old, new }));
        }
        part.moved = Grouped::new(&moved, GROUPS);
        (part.pages, part.ranges) = pages.finish();
        Ok(part)
    }

    /// Takes the removals that the victim has for segments which are still there.
    fn carry(&mut self, log: &LogState, table: &SegmentTable, victim: usize) -> Result<(), StoreError> {
        let Some(segment) = table.get(victim) else {
            return Ok(());
        };
        let ranges = log
            .ledger()
            .segment(victim)
            .map_or_else(Vec::new, |ledger| ledger.ranges().to_vec());
        let mut buffer: Box<Page> = Box::new([0; page::PAGE_BYTES]);
        for (number, range) in (0u32..).zip(&ranges) {
            // The ledger tells pages of removals, so no other page is read.
            if *range != page::KeyRange::REMOVALS {
                continue;
            }
            let head = segment.read_page(number, &mut buffer)?;
            let carried = &mut self.carried;
            // Removals for one segment stand together.
            let mut last = (segment.number, false);
            let each = |target: u32, offset: u32| {
                if target != last.0 {
                    last = (target, target != segment.number && table.slot_of(target).is_some());
                }
                if last.1 {
                    carried.push(removal(target, offset));
                }
            };
            read_removals(&buffer, &head, each)
                .ok_or_else(|| page_damaged(&segment.path, number, "has no removals"))?;
        }
        Ok(())
    }

    /// The removals of what moves: victim after victim, sorted in each.
    pub(crate) fn taken(&self) -> &[u64] {
        &self.taken
    }

    /// Removals that travel.
    pub(crate) fn carried(&self) -> &[u64] {
        &self.carried
    }
}

impl SurvivorChunk {
    fn read(table: &SegmentTable, pages: &[VictimPage], part_bits: u32) -> Result<Self, StoreError> {
        let records: u32 = pages.iter().map(|page| page.mask.count_ones()).sum();
        let mut bytes = Vec::with_capacity(records as usize * (BODY_BYTES / RECORDS_PER_PAGE));
        let mut entries = Vec::with_capacity(records as usize);
        let mut reader = PageReader::new(table);
        for page in pages {
            for location in page.locations() {
                let record = reader.record(location)?;
                let start = bytes.len();
                let prefix = record.first_chunk().map_or(0, |start| u64::from_be_bytes(*start));
                bytes.extend_from_slice(record);
                // With a single part the shift is by 64 bits, and no bit chooses.
                let part = prefix.checked_shr(u64::BITS - part_bits).unwrap_or(0);
                let entry = Survivor {
                    prefix,
                    location,
                    start,
                    length: record.len() as u32,
                };
                entries.push((part as usize, entry));
            }
        }
        let mut parts = Grouped::new(&entries, 1 << part_bits);
        // A chunk is read once for each part: in this order it is read from front to back.
        let mut in_order = Vec::with_capacity(bytes.len());
        for entry in parts.iter_mut() {
            let start = std::mem::replace(&mut entry.start, in_order.len());
            in_order.extend_from_slice(&bytes[start..start + entry.length as usize]);
        }
        Ok(Self { bytes: in_order, parts })
    }
}

/// What lives in a segment, without what the frame removes.
fn live_masks(log: &LogState, slot: usize, removed: &[Vec<Removed>]) -> Vec<u64> {
    let ledger = log.ledger();
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
