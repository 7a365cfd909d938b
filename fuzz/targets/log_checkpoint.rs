//! The input is what a checkpoint of the coin log has: label, words, segments. After it come
//! changes of the stream and of the first page, before they are sealed, and damage after it.
//!
//! Checked: without changes everything is read as it was written. A changed checkpoint is refused,
//! or what is read agrees with itself, and has the same bytes when it is written again. Shards then
//! follow each other; an index is filled if all of them are sorted, and has exactly the words that
//! were wanted; a page has at most 64 live records, and no page is above the tail. A damaged file
//! is refused, or what is read is what was written. Memory stays below a fixed multiple of the
//! file.

#![no_main]

use blockmill_fuzz::input::Input;
use blockmill_fuzz::log_checkpoint::{Plan, SlotState};
use blockmill_fuzz::log_pages::{MemoryFile, damage, seal_at};
use blockmill_fuzz::memory::peak_of;
use blockmill_pool::Helpers;
use blockmill_store_log::format::location::Location;
use blockmill_store_log::format::page::{PAGE_BYTES, Page, PagePosition, RECORDS_MAX};
use blockmill_store_log::index::table::{GROUP_SHARDS, GROUPS, Index};
use blockmill_store_log::open::checkpoint::{self, Checkpoint};
use libfuzzer_sys::fuzz_target;
use peak_alloc::PeakAlloc;
use std::path::Path;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// Most segments of a store.
const SEGMENTS_MAX: usize = 1023;

/// A ledger makes room for this many pages at a time, 12 bytes for each.
const LEDGER_BYTES: usize = 1024 * 12;

/// Bytes of a segment with one page in the stream.
const SLOT_BYTES_MIN: usize = 40;

/// Peak of allocated bytes for a byte of the file: the words of a shard, as bytes and as numbers,
/// and the pages that they are read from.
const PEAK_PER_BYTE: usize = 3;

/// Bytes for the first page, for the directory, and for tables that grow.
const PEAK_BASE: usize = 1 << 14;

/// Bytes of an empty table: a shard's first words make one.
const TABLE_BYTES: usize = 640;

/// The pages of a checkpoint.
struct File<'a> {
    plan: &'a Plan,
    pages: Vec<Page>,
    peak_max: usize,
}

impl<'a> File<'a> {
    fn new(plan: &'a Plan, first_body: &[u8], stream: &[u8]) -> Self {
        let pages = plan.pages(first_body, stream);
        let ledgers = (stream.len() / SLOT_BYTES_MIN).min(SEGMENTS_MAX);
        Self {
            plan,
            peak_max: PEAK_PER_BYTE * pages.len() * PAGE_BYTES + ledgers * LEDGER_BYTES + PEAK_BASE,
            pages,
        }
    }

    /// The result of some work, whose memory is bounded.
    fn bounded<T>(&self, further: usize, work: impl FnOnce() -> T) -> T {
        let (done, peak) = peak_of(work);
        let pages = self.pages.len();
        assert!(peak <= self.peak_max + further, "{peak} bytes for {pages} pages");
        done
    }

    /// Reads the first bytes of the file.
    fn read_part(&self, length: usize) -> Option<Checkpoint> {
        let file = MemoryFile::of_bytes(&self.pages.as_flattened()[..length]);
        let path = Path::new("checkpoint");
        self.bounded(0, || checkpoint::read(Box::new(file), path, &self.plan.identity))
    }

    fn read(&self) -> Option<Checkpoint> {
        self.read_part(self.pages.as_flattened().len())
    }

    /// The words of each shard. None for a shard that is damaged.
    fn words(&self, checkpoint: &Checkpoint) -> Vec<Option<Vec<u64>>> {
        let words = |shard| self.bounded(0, || checkpoint.words(shard / GROUP_SHARDS, shard % GROUP_SHARDS));
        (0..GROUPS * GROUP_SHARDS).map(words).collect()
    }

    /// Fills an index with the words whose locations have none of some bits.
    fn fill(&self, checkpoint: &Checkpoint, unwanted: u32) -> Option<Index> {
        let is_wanted = |location: Location| location.bits() & unwanted == 0;
        let fill = || {
            let index = Index::default();
            checkpoint.fill(&index, &Helpers::default(), is_wanted).map(|()| index)
        };
        self.bounded(GROUPS * GROUP_SHARDS * TABLE_BYTES, fill)
    }
}

/// A shard of an index has those of the words that were wanted. It takes another.
fn check_shard(filled: &Index, number: usize, words: &[u64], unwanted: u32) {
    let shard = &mut filled.write(number / GROUP_SHARDS)[number % GROUP_SHARDS];
    let is_wanted = |word: &u64| *word as u32 & unwanted == 0;
    let mut wanted: Vec<u64> = words.iter().copied().filter(is_wanted).collect();
    assert!(shard.iter().eq(wanted.iter().copied()));
    let Some(&last) = wanted.last() else {
        return;
    };
    // A word has a tag in its upper half, and a location in its lower half.
    let tag = (last >> 32) as u32;
    let with_tag = wanted.iter().filter(|&&word| (word >> 32) as u32 == tag);
    let locations = with_tag.map(|&word| Location::from_bits(word as u32));
    assert!(shard.candidates(tag).eq(locations));
    if last < u64::MAX - 1 {
        let mut insert = |word: u64| shard.insert((word >> 32) as u32, Location::from_bits(word as u32));
        assert!(!insert(last) && insert(last + 1));
        wanted.push(last + 1);
        assert!(shard.iter().eq(wanted));
    }
}

fn check_unchanged(file: &File<'_>, unwanted: u32) {
    let checkpoint = file.read().expect("what was written is read");
    assert_eq!(checkpoint.label, file.plan.label);
    assert_eq!(SlotState::all_of(&checkpoint), file.plan.slots);
    for (shard, found) in file.plan.shards.iter().zip(file.words(&checkpoint)) {
        assert_eq!(found.as_ref(), Some(shard));
    }
    let filled = file.fill(&checkpoint, unwanted).expect("what was written is read");
    for (number, words) in file.plan.shards.iter().enumerate() {
        check_shard(&filled, number, words, unwanted);
    }
}

/// A checkpoint that was changed and sealed again.
fn check_changed(plan: &Plan, first_body: &[u8], stream: &[u8], unwanted: u32) {
    let file = File::new(plan, first_body, stream);
    let Some(checkpoint) = file.read() else {
        return;
    };
    let starts = &checkpoint.starts;
    assert_eq!(starts.len(), GROUPS * GROUP_SHARDS + 1);
    assert!(starts.is_sorted() && starts[0] == 0);
    let words = file.words(&checkpoint);
    let shards: Vec<Vec<u64>> = words.into_iter().flatten().collect();
    assert_eq!(
        shards.len(),
        GROUPS * GROUP_SHARDS,
        "a page with the right checksum was refused"
    );
    for (words, range) in shards.iter().zip(starts.windows(2)) {
        assert_eq!(words.len() as u64 * 8, range[1] - range[0]);
    }
    // The largest number is the gap of the index.
    let is_sorted = |words: &Vec<u64>| words.is_sorted_by(|one, other| one < other) && words.last() != Some(&u64::MAX);
    let filled = file.fill(&checkpoint, unwanted);
    assert_eq!(filled.is_some(), shards.iter().all(is_sorted));
    if let Some(filled) = filled {
        for (number, words) in shards.iter().enumerate() {
            check_shard(&filled, number, words, unwanted);
        }
    }
    let found = Plan {
        label: checkpoint.label,
        shards,
        slots: SlotState::all_of(&checkpoint),
        ..plan.clone()
    };
    for slot in &found.slots {
        let count = slot.pages.len();
        let records_max = (count * RECORDS_MAX) as u64;
        assert!(slot.live <= records_max && slot.written.0 <= records_max);
        let end = PagePosition {
            segment: slot.number,
            page: count as u32,
        };
        assert!(count == 0 || slot.number > 0 && end <= found.label.tail);
    }
    assert!(found.stream() == stream && found.first_body(stream.len() as u64) == first_body);
}

/// Damages a page, or makes it one of another number or of another checkpoint.
fn damage_one(file: &mut File<'_>, input: &mut Input<'_>) {
    let index = usize::from(input.u16()) % file.pages.len();
    let (number, flush, epoch) = (index as u32, file.plan.label.flush, file.plan.epoch);
    let page = &mut file.pages[index];
    match input.u8() % 8 {
        // The number of the first page is known without its head.
        1 if index > 0 => seal_at(page, (0, number + 1), flush, epoch),
        2 => seal_at(page, (0, number), flush ^ 1, epoch),
        3 => seal_at(page, (0, number), flush, epoch ^ 1),
        _ => damage(page, input),
    }
}

/// A file that was cut or damaged after it was sealed.
fn check_damaged(file: &mut File<'_>, input: &mut Input<'_>, unwanted: u32) {
    let length = file.pages.as_flattened().len();
    let left = usize::from(input.u16()) % length;
    assert!(file.read_part(left).is_none());
    damage_one(file, input);
    let Some(checkpoint) = file.read() else {
        return;
    };
    assert_eq!(checkpoint.label, file.plan.label);
    assert_eq!(SlotState::all_of(&checkpoint), file.plan.slots);
    let words = file.words(&checkpoint);
    for (shard, found) in file.plan.shards.iter().zip(&words) {
        assert!(found.is_none() || found.as_ref() == Some(shard));
    }
    assert!(words.iter().any(Option::is_none), "the damage was not seen");
    assert!(file.fill(&checkpoint, unwanted).is_none());
}

fuzz_target!(|data: &[u8]| {
    let mut input = Input::new(data);
    let unwanted = input.u8().into();
    let plan = Plan::new(&mut input);
    let mut stream = plan.stream();
    let mut first_body = plan.first_body(stream.len() as u64);
    let mut file = File::new(&plan, &first_body, &stream);
    check_unchanged(&file, unwanted);
    check_damaged(&mut file, &mut input, unwanted);
    while !input.is_empty() {
        let (choice, change) = (usize::from(input.u16()), input.u8());
        let (bytes, index) = match choice % 4 {
            0 => (&mut first_body, choice / 4),
            1 => (&mut stream, choice / 4),
            _ => {
                // From its end: what comes after the words.
                let length = stream.len();
                (&mut stream, length - 1 - choice / 4 % length)
            }
        };
        let index = index % bytes.len();
        bytes[index] = bytes[index].wrapping_add(change);
    }
    check_changed(&plan, &first_body, &stream, unwanted);
});
