//! The pages that were live at a commit, in parts by their keys.

use crate::format::location::Location;
use crate::format::page::{CALL_PAGES, KeyRange, PAGE_BYTES, Page, PageHead, PageKind, read_record, record, u16_at};
use crate::format::records::PageReader;
use crate::format::segment::{Segment, SegmentTable, page_damaged};
use crate::index::ledger::Ledger;
use blockmill_block::{Coin, OutPoint};
use blockmill_coins::StoreError;
use blockmill_coins::store::{OutpointKey, decode_coin, outpoint_key};
use std::ops::ControlFlow;
use std::sync::Arc;

/// Bytes of records of a part at most. A larger one is read in pieces.
const PART_BYTES_MAX: usize = 20 << 20;

/// Keys are cut at most into this many parts.
const PARTS_MAX: usize = 1 << 12;

/// A page whose keys are spread over more parts than this is not found by its first key.
const WIDE_PARTS: usize = 4;

/// Number of values of the first two bytes of a key.
const PREFIXES: usize = 1 << 16;

/// A page with live records.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LivePage {
    slot: u16,
    range: KeyRange,
    number: u32,
    mask: u64,
}

impl LivePage {
    /// The locations of its live records.
    pub(crate) fn locations(&self) -> impl Iterator<Item = Location> + use<> {
        Location::of_mask(usize::from(self.slot), self.number, self.mask)
    }
}

/// Takes a live page of a segment, with its head.
type EachPage<'a> = &'a mut dyn FnMut(&LivePage, &Page, &PageHead, &Segment) -> Result<ControlFlow<()>, StoreError>;

/// A set that can be read: the pages that were live at a commit, and the files that have them.
pub(crate) struct View {
    pub(crate) table: Arc<SegmentTable>,
    /// Number of all coins.
    pub(crate) coins: u64,
    /// Sorted by the first key.
    narrow: Vec<LivePage>,
    wide: Vec<LivePage>,
    /// Where the parts end: the first prefix that is not in each.
    pub(crate) ends: Vec<usize>,
}

impl View {
    pub(crate) fn new(table: Arc<SegmentTable>, ledger: &Ledger, part_records: u64) -> Self {
        let mut pages = Vec::new();
        let mut histogram = vec![0u32; PREFIXES];
        for (slot, segment) in ledger.segments.iter().enumerate() {
            let Some(segment) = segment else { continue };
            for (number, (&mask, &range)) in segment.masks().iter().zip(segment.ranges()).enumerate() {
                if mask != 0 {
                    // A page with keys from everywhere counts where its first key is: the sizes of
                    // parts are estimates.
                    histogram[usize::from(range.first)] += mask.count_ones();
                    pages.push(LivePage {
                        slot: slot as u16,
                        range,
                        number: number as u32,
                        mask,
                    });
                }
            }
        }
        // Parts are cut by counts, since keys may be spread unevenly.
        let ends = part_ends(&histogram, ledger.coins, part_records);
        let part_of = |prefix: u16| ends.partition_point(|&end| end <= usize::from(prefix));
        let is_wide = |page: &LivePage| part_of(page.range.last) - part_of(page.range.first) > WIDE_PARTS;
        let (wide, mut narrow): (Vec<LivePage>, Vec<LivePage>) = pages.into_iter().partition(is_wide);
        narrow.sort_unstable_by_key(|page| (page.range.first, page.slot, page.number));
        Self {
            table,
            coins: ledger.coins,
            narrow,
            wide,
            ends,
        }
    }

    /// The pages that may have keys of a part, in the order of the disk.
    fn pages_of(&self, part: usize) -> Vec<LivePage> {
        let start = |part: usize| if part == 0 { 0 } else { self.ends[part - 1] };
        let (first, end) = (start(part), self.ends[part]);
        // A narrow page begins at most this many parts before.
        let earliest = start(part.saturating_sub(WIDE_PARTS));
        let from = self
            .narrow
            .partition_point(|page| usize::from(page.range.first) < earliest);
        let to = self.narrow.partition_point(|page| usize::from(page.range.first) < end);
        let candidates = self.narrow[from..to].iter().chain(&self.wide);
        let mut pages: Vec<LivePage> = candidates
            .filter(|page| usize::from(page.range.first) < end && usize::from(page.range.last) >= first)
            .copied()
            .collect();
        // In the order of the disk.
        pages.sort_unstable_by_key(|page| (page.slot, page.number));
        pages
    }

    /// The first two bytes of the keys of a part.
    pub(crate) fn prefixes(&self, part: usize) -> std::ops::Range<usize> {
        let first = if part == 0 { 0 } else { self.ends[part - 1] };
        first..self.ends[part]
    }

    /// The live records of a part, sorted. None if they are more than a part may have.
    pub(crate) fn read(&self, part: usize) -> Result<Option<SortedRecords>, StoreError> {
        let prefixes = self.prefixes(part);
        let mut found = SortedRecords::default();
        let all = self.visit_pages(part, &mut |live, page, head, segment| {
            let damaged = |what: &str| page_damaged(&segment.path, live.number, what);
            found.add_page(&self.table, live, page, head, &prefixes, &damaged)?;
            Ok(match found.bytes.len() > PART_BYTES_MAX {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            })
        })?;
        found.sort();
        Ok(all.is_continue().then_some(found))
    }

    /// Reads the pages that may have keys of a part.
    pub(crate) fn visit_pages(&self, part: usize, each: EachPage<'_>) -> Result<ControlFlow<()>, StoreError> {
        let pages = self.pages_of(part);
        let mut buffer = vec![[0; PAGE_BYTES]; CALL_PAGES];
        let mut rest = &pages[..];
        while let Some(begin) = rest.first() {
            let is_next =
                |(number, page): (u32, &LivePage)| page.slot == begin.slot && page.number == begin.number + number;
            let count = (0u32..)
                .zip(rest)
                .take(CALL_PAGES)
                .take_while(|&(number, page)| is_next((number, page)))
                .count();
            let Some(segment) = self.table.get(usize::from(begin.slot)) else {
                return Err(StoreError::Corrupt("a segment is gone".to_owned()));
            };
            segment.read_pages(begin.number, &mut buffer[..count])?;
            for (live, page) in rest[..count].iter().zip(&buffer) {
                let head = segment.check(live.number, page)?;
                if each(live, page, &head, segment)?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
            rest = &rest[count..];
        }
        Ok(ControlFlow::Continue(()))
    }
}

/// Cuts the keys into parts of about the same number of records.
fn part_ends(histogram: &[u32], coins: u64, part_records: u64) -> Vec<usize> {
    let per_part = (coins / PARTS_MAX as u64).max(part_records);
    let (mut ends, mut count) = (Vec::new(), 0u64);
    for (prefix, &records) in histogram.iter().enumerate() {
        count += u64::from(records);
        if count >= per_part {
            ends.push(prefix + 1);
            count = 0;
        }
    }
    if ends.last() != Some(&PREFIXES) {
        ends.push(PREFIXES);
    }
    ends
}

/// Records of a part: their bytes, and for each the start of its key and where it is.
#[derive(Default)]
pub(crate) struct SortedRecords {
    bytes: Vec<u8>,
    records: Vec<(u64, u32, u32)>,
}

impl SortedRecords {
    fn add_page(
        &mut self,
        table: &SegmentTable,
        live: &LivePage,
        page: &Page,
        head: &PageHead,
        prefixes: &std::ops::Range<usize>,
        damaged: &dyn Fn(&str) -> StoreError,
    ) -> Result<(), StoreError> {
        if head.kind == PageKind::Long {
            let mut reader = PageReader::new(table);
            let record = reader.record(Location::new(usize::from(live.slot), live.number, 0))?;
            return self
                .add(record, prefixes)
                .ok_or_else(|| damaged("has a record that is none"));
        }
        for location in live.locations() {
            let number = location.record() as usize;
            let record = record(page, head, number).ok_or_else(|| damaged("has no such record"))?;
            self.add(record, prefixes)
                .ok_or_else(|| damaged("has a record that is none"))?;
        }
        Ok(())
    }

    /// Adds a record if it is of these prefixes. None if it is none.
    pub(crate) fn add(&mut self, record: &[u8], prefixes: &std::ops::Range<usize>) -> Option<()> {
        let start: [u8; 8] = *record.first_chunk()?;
        // Keys sort by their bytes, so the prefix is big-endian.
        let prefix = usize::from(u16::from_be(u16_at(&start, 0)));
        if prefixes.contains(&prefix) {
            // A part has 20 MiB about, and one record more.
            let offset = u32::try_from(self.bytes.len()).ok()?;
            self.bytes.extend_from_slice(record);
            self.records
                .push((u64::from_be_bytes(start), offset, record.len() as u32));
        }
        Some(())
    }

    /// Number of records.
    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    fn record(&self, number: usize) -> &[u8] {
        let (_, offset, length) = self.records[number];
        &self.bytes[offset as usize..(offset + length) as usize]
    }

    /// The coin of a record. `previous` is that of the record before.
    pub(crate) fn coin(&self, number: usize, previous: Option<&OutPoint>) -> Result<(OutPoint, Coin), StoreError> {
        let (outpoint, coin) = read_record(self.record(number)).map_err(|error| StoreError::Damaged {
            what: "a record".to_owned(),
            error,
        })?;
        // None is below every outpoint.
        if previous >= Some(&outpoint) {
            return Err(StoreError::Corrupt(format!("two records of {outpoint} are live")));
        }
        let coin = decode_coin(&outpoint, coin)?;
        Ok((outpoint, coin))
    }

    pub(crate) fn sort(&mut self) {
        let bytes = &self.bytes;
        let key = |&(_, offset, length): &(u64, u32, u32)| -> Option<OutpointKey> {
            let record = &bytes[offset as usize..(offset + length) as usize];
            Some(outpoint_key(&read_record(record).ok()?.0))
        };
        // Eight bytes decide nearly always.
        self.records.sort_unstable_by_key(|record| record.0);
        for same in self.records.chunk_by_mut(|one, other| one.0 == other.0) {
            if same.len() > 1 {
                same.sort_by_cached_key(key);
            }
        }
    }
}
