//! All coins in the order of their keys.
//!
//! The keys are cut into parts that fit into memory. For each part a thread reads the pages that
//! have keys in it, and sorts their live records; meanwhile the caller takes the part before. Pages
//! of one flush are sorted, so each of them is read for one part or two. At the end the sum of the
//! hashes is compared with the digest: a coin that was lost, doubled, or has risen is found.
//!
//! Callers with several threads take the parts themselves, in any order.
//!
//! Coins may be long, and many keys may begin with the same bytes. A part that does not fit into
//! memory for these reasons is read in pieces (`pieces`).

use crate::ledger::Ledger;
use crate::location::Location;
use crate::page::{Head, Kind, PAGE_BYTES, Page, RECORDS_MAX, Range, read_record, record, u16_at};
use crate::pieces::Pieces;
use crate::replay::CALL_PAGES;
use crate::segment::{Segment, Table, page_damaged};
use crate::store::{PageReader, Shared};
use blockmill_block::{Coin, OutPoint};
use blockmill_coinmap::HashKey;
use blockmill_coins::StoreError;
use blockmill_coins::store::{CoinParts, KEY_LENGTH, OutpointKey, PartCoins, decode_coin, outpoint_key};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};

/// Records of a part, about: 15 MiB of coins.
pub(crate) const PART_RECORDS: u64 = 1 << 17;

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
    range: Range,
    number: u32,
    mask: u64,
}

impl LivePage {
    /// The locations of its live records.
    pub(crate) fn locations(&self) -> impl Iterator<Item = Location> + use<> {
        let Self { slot, number, mask, .. } = *self;
        (0..RECORDS_MAX as u32)
            .filter(move |record| mask >> record & 1 == 1)
            .map(move |record| Location::new(usize::from(slot), number, record))
    }
}

/// Takes a live page of a segment, with its head.
type EachPage<'a> = &'a mut dyn FnMut(&LivePage, &Page, &Head, &Segment) -> Result<ControlFlow<()>, StoreError>;

/// A set that can be read: the pages that were live at a commit, and the files that have them.
pub(crate) struct View {
    pub(crate) table: Arc<Table>,
    /// Number of all coins.
    pub(crate) coins: u64,
    /// Sorted by the first key.
    narrow: Vec<LivePage>,
    wide: Vec<LivePage>,
    /// Where the parts end: the first prefix that is not in each.
    ends: Vec<usize>,
}

impl View {
    fn new(table: Arc<Table>, ledger: &Ledger, part_records: u64) -> Self {
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
        pages.sort_unstable_by_key(|page| (page.slot, page.number));
        pages
    }

    /// The first two bytes of the keys of a part.
    pub(crate) fn prefixes(&self, part: usize) -> std::ops::Range<usize> {
        let first = if part == 0 { 0 } else { self.ends[part - 1] };
        first..self.ends[part]
    }

    /// The live records of a part, sorted. None if they are more than a part may have.
    fn read(&self, part: usize) -> Result<Option<Part>, StoreError> {
        let prefixes = self.prefixes(part);
        let mut found = Part::default();
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

    /// Gives the live records of a part to `each`, sorted: all at once, or in pieces. Ends when it
    /// returns false.
    fn for_each_piece(&self, part: usize, each: &mut dyn FnMut(Part) -> bool) -> Result<bool, StoreError> {
        if let Some(whole) = self.read(part)? {
            return Ok(each(whole));
        }
        for piece in Pieces::new(self, part) {
            if !each(piece?) {
                return Ok(false);
            }
        }
        Ok(true)
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
pub(crate) struct Part {
    bytes: Vec<u8>,
    records: Vec<(u64, u32, u32)>,
}

impl Part {
    fn add_page(
        &mut self,
        table: &Table,
        live: &LivePage,
        page: &Page,
        head: &Head,
        prefixes: &std::ops::Range<usize>,
        damaged: &dyn Fn(&str) -> StoreError,
    ) -> Result<(), StoreError> {
        if head.kind == Kind::Long {
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
        let prefix = usize::from(u16::from_be(u16_at(&start, 0)));
        if prefixes.contains(&prefix) {
            let offset = u32::try_from(self.bytes.len()).ok()?;
            self.bytes.extend_from_slice(record);
            self.records
                .push((u64::from_be_bytes(start), offset, record.len() as u32));
        }
        Some(())
    }

    fn record(&self, number: usize) -> &[u8] {
        let (_, offset, length) = self.records[number];
        &self.bytes[offset as usize..(offset + length) as usize]
    }

    /// The coin of a record. `previous` is that of the record before.
    fn coin(&self, number: usize, previous: Option<&OutPoint>) -> Result<(OutPoint, Coin), StoreError> {
        let (outpoint, coin) = read_record(self.record(number)).map_err(|error| StoreError::Damaged {
            what: "a record".to_owned(),
            error,
        })?;
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
        self.records.sort_unstable_by_key(|record| record.0);
        for same in self.records.chunk_by_mut(|one, other| one.0 == other.0) {
            if same.len() > 1 {
                same.sort_by_cached_key(key);
            }
        }
    }
}

/// Whether all coins were read: none is `left`, and nothing of the sum of their hashes.
fn check_complete(left: u64, digest: u64) -> Result<(), StoreError> {
    if left == 0 && digest == 0 {
        return Ok(());
    }
    Err(StoreError::Corrupt(format!(
        "the coins are not those that were written: {} too few, sum of hashes off by {digest:x}",
        left.cast_signed()
    )))
}

/// All coins of a commit in parts. Later commits do not show.
pub(crate) struct LogParts {
    key: HashKey,
    view: View,
    /// Coins that were not read yet.
    left: AtomicU64,
    /// The sum of their hashes.
    digest: AtomicU64,
}

impl LogParts {
    pub(crate) fn new(shared: &Shared, part_records: u64) -> Self {
        // The ledger is locked, so no segment goes before the table is there.
        let ledger = shared.ledger();
        Self {
            key: shared.key,
            view: View::new(shared.segments.load(), &ledger, part_records),
            left: AtomicU64::new(ledger.coins),
            digest: AtomicU64::new(ledger.digest),
        }
    }

    fn decode(&self, part: &Part) -> Result<Vec<(OutPoint, Coin)>, StoreError> {
        let mut coins: Vec<(OutPoint, Coin)> = Vec::with_capacity(part.records.len());
        let mut digest = 0u64;
        for number in 0..part.records.len() {
            let coin = part.coin(number, coins.last().map(|(outpoint, _)| outpoint))?;
            digest = digest.wrapping_add(self.key.hash(&coin.0));
            coins.push(coin);
        }
        // Sums of what threads have read, which is handed on by other means.
        self.left.fetch_sub(coins.len() as u64, Ordering::Relaxed);
        self.digest.fetch_sub(digest, Ordering::Relaxed);
        Ok(coins)
    }
}

impl CoinParts for LogParts {
    fn parts(&self) -> usize {
        self.view.ends.len()
    }

    fn end(&self, part: usize) -> Option<OutpointKey> {
        let prefix = u16::try_from(self.view.ends[part]).ok()?;
        let mut key = [0; KEY_LENGTH];
        key[..2].copy_from_slice(&prefix.to_be_bytes());
        Some(key)
    }

    fn read_bounded(&self, part: usize) -> Result<PartCoins<'_>, StoreError> {
        Ok(match self.view.read(part)? {
            Some(whole) => PartCoins::Whole(self.decode(&whole)?),
            None => PartCoins::Pieces(Box::new(
                Pieces::new(&self.view, part).map(|piece| self.decode(&piece?)),
            )),
        })
    }

    fn check_complete(&self) -> Result<(), StoreError> {
        check_complete(self.left.load(Ordering::Relaxed), self.digest.load(Ordering::Relaxed))
    }
}

/// All coins of a commit, in order. Later commits do not show.
pub(crate) struct CoinsInOrder {
    key: HashKey,
    parts: Receiver<Result<Part, StoreError>>,
    part: Part,
    next: usize,
    previous: Option<OutPoint>,
    left: u64,
    digest: u64,
    ended: bool,
}

impl CoinsInOrder {
    pub(crate) fn new(shared: &Shared) -> Self {
        // The ledger is locked, so no segment goes before the table is there.
        let ledger = shared.ledger();
        let view = View::new(shared.segments.load(), &ledger, PART_RECORDS);
        let (coins, digest) = (ledger.coins, ledger.digest);
        drop(ledger);
        let (sender, parts) = sync_channel(1);
        let read = move || {
            let mut send = |part| sender.send(Ok(part)).is_ok();
            for part in 0..view.ends.len() {
                match view.for_each_piece(part, &mut send) {
                    Ok(true) => {}
                    Ok(false) => return,
                    Err(error) => {
                        // Nobody listens any more, or the error ends the iterator.
                        let _ = sender.send(Err(error));
                        return;
                    }
                }
            }
        };
        // Without a thread there are no parts, and the first call of `next` says so.
        let _ = std::thread::Builder::new().name("scan".to_owned()).spawn(read);
        Self {
            key: shared.key,
            parts,
            part: Part::default(),
            next: 0,
            previous: None,
            left: coins,
            digest,
            ended: false,
        }
    }

    /// The last record was taken.
    fn end(&mut self) -> Option<Result<(OutPoint, Coin), StoreError>> {
        self.ended = true;
        check_complete(self.left, self.digest).err().map(Err)
    }

    fn take(&mut self) -> Result<(OutPoint, Coin), StoreError> {
        let (outpoint, coin) = self.part.coin(self.next, self.previous.as_ref())?;
        self.next += 1;
        self.previous = Some(outpoint);
        self.digest = self.digest.wrapping_sub(self.key.hash(&outpoint));
        self.left = self.left.wrapping_sub(1);
        Ok((outpoint, coin))
    }
}

impl Iterator for CoinsInOrder {
    type Item = Result<(OutPoint, Coin), StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        while self.next == self.part.records.len() {
            match self.parts.recv() {
                Ok(Ok(part)) => (self.part, self.next) = (part, 0),
                Ok(Err(error)) => {
                    self.ended = true;
                    return Some(Err(error));
                }
                Err(_) => return self.end(),
            }
        }
        let taken = self.take();
        self.ended = taken.is_err();
        Some(taken)
    }
}
