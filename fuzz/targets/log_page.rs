//! The input is pages of the coin log. Its first byte chooses whether they are sealed, with the
//! checksums that are right for them.
//!
//! Checked:
//! - a page that was not sealed is accepted only with the right checksum and a possible head, and a
//!   damaged page is refused;
//! - records of coins and long records are found as the format says, and none else;
//! - coins that decode, written to pages again, are found there, with their ranges of keys. Amounts
//!   outside of the valid range are exempt: they may wrap, as in Core;
//! - removals come in sorted blocks, at most as many as fit, and are the same when they are written
//!   again;
//! - the first page of a file, written again, has the same bytes;
//! - memory stays below a fixed multiple of the pages.

#![no_main]

use blockmill_block::{Coin, OutPoint};
use blockmill_coins::store::decode_coin;
use blockmill_coins::{CoinRef, StoreError};
use blockmill_fuzz::input::Input;
use blockmill_fuzz::log_pages::{MemoryFile, begin, damage, has_right_checksum, head_fields, seal_at};
use blockmill_fuzz::memory::peak_of;
use blockmill_rules::money_range;
use blockmill_store_log::format::location::Location;
use blockmill_store_log::format::page::{
    BODY_BYTES, CoinPages, HEAD_BYTES, KeyRange, PAGE_BYTES, Page, PageHead, PageKind, RECORDS_MAX, RecordSlot,
    all_live, range_of, read_record, record, seal, write_record,
};
use blockmill_store_log::format::records::PageReader;
use blockmill_store_log::format::removals::{read_removals, removal, removal_pages};
use blockmill_store_log::format::segment::{Identity, Segment, SegmentTable};
use libfuzzer_sys::fuzz_target;
use peak_alloc::PeakAlloc;
use std::path::Path;
use std::sync::Arc;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// Number of the segment.
const SEGMENT: u32 = 3;

/// Most pages of an input.
const PAGES_MAX: usize = 4;

/// Bytes of a block of removals before its removals.
const BLOCK_BYTES: usize = 6;

/// Most bytes of an offset of a removal, as a VARINT.
const OFFSET_BYTES_MAX: usize = 4;

/// Longest script that reads back as it was written.
const SCRIPT_BYTES_MAX: usize = 10_000;

/// Longest name of a network that is written whole.
const NETWORK_BYTES_MAX: usize = PAGE_BYTES / 2;

/// Peak of allocated bytes for a byte of the pages: a long record is joined in a vector that
/// doubles, and the old one is still there while it moves.
const PEAK_PER_BYTE: usize = 3;

/// Bytes for the message of an error.
const PEAK_BASE: usize = 1024;

/// The result of some reading, whose memory is bounded.
fn bounded<T>(pages: usize, read: impl FnOnce() -> T) -> T {
    let (read, peak) = peak_of(read);
    assert!(
        peak <= PEAK_PER_BYTE * pages * PAGE_BYTES + PEAK_BASE,
        "{peak} bytes for {pages} pages"
    );
    read
}

/// A page whose seal is missing, or is the fuzzer's own.
fn check_unsealed(input: &mut Input<'_>) {
    let choice = input.u8();
    let mut damages = input.clone();
    let _ = input.take(7);
    let mut page: Page = [0; PAGE_BYTES];
    let given = input.take(PAGE_BYTES);
    page[..given.len()].copy_from_slice(given);
    let is_possible = head_fields(&page).is_some();
    if let Some(head) = PageHead::of(&page) {
        assert!(is_possible && has_right_checksum(&page));
        let mut again = page;
        seal(&mut again, head.position, head.flush, head.epoch);
        assert!(again == page);
    }
    seal_at(&mut page, (SEGMENT, u32::from(choice)), 5, 6);
    match PageHead::of(&page) {
        None => assert!(!is_possible, "refused in spite of its checksum"),
        Some(head) => {
            assert!(is_possible && (head.position.segment, head.position.page) == (SEGMENT, u32::from(choice)));
            damage(&mut page, &mut damages);
            assert_eq!(PageHead::of(&page), None);
        }
    }
}

/// A page that is not sealed, and the byte that has chosen its form: lengths of records instead of
/// where they begin, a start of a file or a length of a long record that is right, all of the page
/// used, another flush, another version.
fn page_of(input: &mut Input<'_>) -> (Page, u8) {
    let mut page = [0; PAGE_BYTES];
    let (kind, form, records) = (input.u8(), input.u8(), input.u8());
    let slots = usize::from(records).min(RECORDS_MAX);
    let mut used = usize::from(input.u16());
    if used >> 12 != 15 {
        used = HEAD_BYTES + used % (BODY_BYTES + 1);
    }
    if form & 4 == 4 {
        used = PAGE_BYTES;
    }
    if form & 1 == 1 {
        let end_max = PAGE_BYTES - 2 * slots;
        used = HEAD_BYTES;
        for number in 0..slots {
            let slot = PAGE_BYTES - 2 * (number + 1);
            page[slot..slot + 2].copy_from_slice(&(used as u16).to_le_bytes());
            used = (used + usize::from(input.u8())).min(end_max);
        }
    } else {
        let slots = input.take(2 * slots);
        page[PAGE_BYTES - slots.len()..].copy_from_slice(slots);
    }
    let body_start = if form & 2 == 2 && matches!(kind, 1 | 7) {
        page[HEAD_BYTES..HEAD_BYTES + 16].copy_from_slice(b"blockmill coins\n");
        page[HEAD_BYTES + 16] = [1, 1, 0, 2][usize::from(form >> 4 & 3)];
        HEAD_BYTES + 20
    } else {
        HEAD_BYTES
    };
    let length = usize::from(input.u16()) % (PAGE_BYTES - body_start + 1);
    let body = input.take(length);
    page[body_start..body_start + body.len()].copy_from_slice(body);
    begin(&mut page, kind, records, used as u16);
    (page, form)
}

/// Up to four pages, sealed.
fn pages_of(input: &mut Input<'_>) -> Vec<Page> {
    let count = 1 + usize::from(input.u8()) % PAGES_MAX;
    let (mut pages, forms): (Vec<Page>, Vec<u8>) = (0..count).map(|_| page_of(input)).unzip();
    for number in 0..count {
        if pages[number][4] == 3 && forms[number] & 2 == 2 {
            // The length that the used parts of this page and of those after it come to.
            let rest = pages[number + 1..].iter().take_while(|page| page[4] == 4);
            let used = std::iter::once(&pages[number]).chain(rest).filter_map(head_fields);
            let length: usize = used.map(|(.., used)| used - HEAD_BYTES).sum();
            let length = (length as u32).saturating_sub(4).to_le_bytes();
            pages[number][HEAD_BYTES..HEAD_BYTES + 4].copy_from_slice(&length);
        }
    }
    for (number, (page, form)) in (0u32..).zip(pages.iter_mut().zip(forms)) {
        seal_at(page, (SEGMENT, number), 5 + u64::from(form >> 3 & 1), 6);
    }
    pages
}

/// The record of a number on a page of coins, as the format says.
fn expected_record(page: &Page, number: usize) -> Option<&[u8]> {
    let (_, records, used) = head_fields(page)?;
    let start = |number: usize| {
        let slot = PAGE_BYTES - 2 * (number + 1);
        usize::from(u16::from_le_bytes([page[slot], page[slot + 1]]))
    };
    let end = if number + 1 == records { used } else { start(number + 1) };
    (number < records && start(number) <= end && end <= PAGE_BYTES).then(|| &page[start(number)..end])
}

/// The long record that begins on the first of some pages, as the format says.
fn expected_long(pages: &[Page]) -> Option<Vec<u8>> {
    let (_, _, used) = head_fields(&pages[0])?;
    let length = u32::from_le_bytes(*pages[0][HEAD_BYTES..].first_chunk()?) as usize;
    let mut bytes = pages[0][HEAD_BYTES..used].get(4..).unwrap_or_default().to_vec();
    for page in pages.get(1..(length + 4).div_ceil(BODY_BYTES))? {
        let (kind, _, used) = head_fields(page)?;
        (kind == 4 && page[16..24] == pages[0][16..24]).then_some(())?;
        bytes.extend_from_slice(&page[HEAD_BYTES..used]);
    }
    (bytes.len() == length).then_some(bytes)
}

/// A segment with these pages, as look-ups have it.
fn segment_of(pages: &[Page]) -> SegmentTable {
    let segment = Segment {
        number: SEGMENT,
        path: "segment".into(),
        file: Box::new(MemoryFile::new(pages)),
    };
    SegmentTable::of(vec![Some(Arc::new(segment))])
}

/// What is found at a location is the record that should be there. A coin goes to `coins`.
fn check_record(
    reader: &mut PageReader<'_>,
    (page, number): (u32, u32),
    expected: Option<&[u8]>,
    coins: &mut Vec<(OutPoint, Coin)>,
) {
    let location = Location::new(0, page, number);
    let pages = expected.map_or(0, |record| record.len() / PAGE_BYTES) + 1;
    let found = bounded(pages + PAGES_MAX, || reader.record(location).map(<[u8]>::len));
    assert_eq!(found.ok(), expected.map(<[u8]>::len));
    let Some(expected) = expected else {
        return;
    };
    assert_eq!(reader.record(location).ok(), Some(expected));
    let outpoint = bounded(PAGES_MAX, || reader.outpoint(location));
    let Ok((wanted, bytes)) = read_record(expected) else {
        assert!(outpoint.is_err());
        return;
    };
    assert_eq!(outpoint.ok(), Some(wanted));
    let decoded = decode_coin(&wanted, bytes).ok();
    let coin = bounded(pages + PAGES_MAX, || reader.coin(location, &wanted));
    assert_eq!(coin.ok().flatten(), decoded);
    let other = OutPoint {
        vout: wanted.vout ^ 1,
        ..wanted
    };
    assert!(matches!(reader.coin(location, &other), Ok(None)));
    coins.extend(
        decoded
            .filter(|coin| money_range(coin.value))
            .map(|coin| (wanted, coin)),
    );
}

/// Coins, written to pages, are found there.
fn check_written(coins: &[(OutPoint, Coin)]) {
    let mut made = CoinPages::default();
    let mut record = Vec::new();
    let mut slots = Vec::new();
    for (outpoint, coin) in coins {
        record.clear();
        write_record(outpoint, &CoinRef::from(coin), &mut record);
        slots.push(made.push(&record));
    }
    let (mut pages, ranges): (Vec<Page>, Vec<KeyRange>) = made.finish();
    assert_eq!(pages.len(), ranges.len());
    for (number, page) in (0u32..).zip(&mut pages) {
        seal_at(page, (SEGMENT, number), 5, 6);
    }
    let heads: Vec<PageHead> = pages.iter().map(|page| PageHead::of(page).expect("sealed")).collect();
    assert_eq!(heads.iter().map(|head| head.records).sum::<usize>(), coins.len());
    for ((page, head), range) in pages.iter().zip(&heads).zip(&ranges) {
        assert!(head.kind == PageKind::LongRest || range_of(page, head) == *range);
    }
    let segments = segment_of(&pages);
    let mut reader = PageReader::new(&segments);
    for ((outpoint, coin), RecordSlot { page, record }) in coins.iter().zip(slots) {
        let found = reader
            .coin(Location::new(0, page, record), outpoint)
            .expect("a coin is there");
        assert_eq!(found.as_ref(), Some(coin));
        let head = &heads[page as usize];
        assert!(all_live(head.kind, head.records) >> record & 1 == 1);
        let prefix = u16::from_be_bytes([outpoint.txid.0[0], outpoint.txid.0[1]]);
        let KeyRange { first, last } = ranges[page as usize];
        assert!(first <= prefix && prefix <= last);
    }
}

/// Adds up to three coins with longer scripts: such that a page is just full, or that take pages of
/// their own.
fn add_larger(input: &mut Input<'_>, coins: &mut Vec<(OutPoint, Coin)>) {
    let Some((outpoint, coin)) = coins.last().cloned() else {
        return;
    };
    for _ in 0..input.u8() % 4 {
        let choice = usize::from(input.u16());
        let length = match choice % 2 {
            0 => choice / 2 % (SCRIPT_BYTES_MAX + 1),
            _ => BODY_BYTES - choice / 256,
        };
        let larger = Coin {
            script_pubkey: vec![0x51; length].into(),
            ..coin
        };
        coins.insert(choice % (coins.len() + 1), (outpoint, larger));
    }
}

/// Removals with even distances, in segments of a few each. Many, so that they take several pages.
fn add_removals(input: &mut Input<'_>, removals: &mut Vec<(u32, u32)>) {
    if input.u8() < 250 {
        return;
    }
    let (segment, per_segment, step) = (input.u8(), 1 + u32::from(input.u8()), 1 + u32::from(input.u16()));
    let count = 4 * u32::from(input.u8());
    removals.extend((0..count).map(|number| {
        let segment = u32::from(segment) + number / per_segment;
        (segment, number.wrapping_mul(step) % Location::OFFSETS)
    }));
}

fn check_removals(page: &Page, head: &PageHead, input: &mut Input<'_>) {
    let mut removals: Vec<(u32, u32)> = Vec::with_capacity(PAGE_BYTES);
    let (read, peak) = peak_of(|| read_removals(page, head, |segment, offset| removals.push((segment, offset))));
    assert_eq!(peak, 0);
    assert!(removals.iter().all(|&(_, offset)| offset < Location::OFFSETS));
    // Where the order ends a block begins. A removal takes one byte or more.
    let is_sorted = |one: &(u32, u32), other: &(u32, u32)| one.0 == other.0 && one.1 < other.1;
    let blocks = removals.chunk_by(is_sorted).count();
    assert!(BLOCK_BYTES * blocks + removals.len() <= head.used - HEAD_BYTES);
    if read.is_none() {
        return;
    }
    add_removals(input, &mut removals);
    removals.sort_unstable();
    removals.dedup();
    let pages = removal_pages(removals.iter().map(|&(segment, offset)| removal(segment, offset)));
    let pages_max = removals.len() * (BLOCK_BYTES + OFFSET_BYTES_MAX) / (BODY_BYTES - 2 * BLOCK_BYTES) + 1;
    assert!(
        pages.len() <= pages_max,
        "{} removals on {} pages",
        removals.len(),
        pages.len()
    );
    let mut found = Vec::new();
    for mut page in pages {
        seal_at(&mut page, (SEGMENT, 1), 5, 6);
        let head = PageHead::of(&page).expect("sealed");
        assert_eq!(head.kind, PageKind::Removals);
        read_removals(&page, &head, |segment, offset| found.push((segment, offset))).expect("removals were written");
    }
    assert_eq!(found, removals);
}

/// The first page of a file.
fn check_identity(page: &Page) {
    let read = bounded(1, || Identity::read(page, Path::new("segment")));
    let is_of_another_version = page[HEAD_BYTES..].starts_with(b"blockmill coins\n") && page[HEAD_BYTES + 16] != 1;
    assert!(!is_of_another_version || matches!(read, Err(StoreError::Format { .. })));
    if let Ok(identity) = read {
        assert!(identity.network.len() <= NETWORK_BYTES_MAX);
        let mut again = identity.write(PageKind::Segment);
        let end = HEAD_BYTES + 38 + identity.network.len();
        assert!(again[HEAD_BYTES..end] == page[HEAD_BYTES..end]);
        seal_at(&mut again, (SEGMENT, 0), 0, 6);
        let head = PageHead::of(&again).expect("sealed");
        assert_eq!((head.kind, head.used), (PageKind::Segment, end));
        assert_eq!(Identity::read(&again, Path::new("segment")).ok(), Some(identity));
    }
}

fn check_sealed(input: &mut Input<'_>) {
    let pages = pages_of(input);
    let segments = segment_of(&pages);
    let mut reader = PageReader::new(&segments);
    let mut coins = Vec::new();
    for (index, page) in pages.iter().enumerate() {
        let number = index as u32;
        let Some(head) = PageHead::of(page) else {
            assert_eq!(head_fields(page), None, "refused in spite of its checksum");
            assert!(reader.record(Location::new(0, number, 0)).is_err());
            continue;
        };
        let fields = (page[4], head.records, head.used);
        assert_eq!(head_fields(page), Some(fields));
        assert_eq!((head.position.segment, head.position.page), (SEGMENT, number));
        match head.kind {
            PageKind::Coins => {
                for record_number in 0..RECORDS_MAX {
                    let expected = expected_record(page, record_number);
                    assert_eq!(record(page, &head, record_number), expected);
                    check_record(&mut reader, (number, record_number as u32), expected, &mut coins);
                }
                assert_eq!(record(page, &head, RECORDS_MAX), None);
            }
            PageKind::Long => {
                let expected = expected_long(&pages[index..]);
                check_record(&mut reader, (number, 0), expected.as_deref(), &mut coins);
            }
            PageKind::Removals => check_removals(page, &head, input),
            PageKind::Segment | PageKind::Checkpoint => check_identity(page),
            PageKind::LongRest | PageKind::Trailer | PageKind::CheckpointPart => {}
        }
        if !matches!(head.kind, PageKind::Coins | PageKind::Long) {
            assert_eq!(record(page, &head, 0), None);
            check_record(&mut reader, (number, 0), None, &mut coins);
        }
    }
    add_larger(input, &mut coins);
    check_written(&coins);
}

fuzz_target!(|data: &[u8]| {
    let mut input = Input::new(data);
    if input.u8() & 1 == 0 {
        check_unsealed(&mut input);
    } else {
        check_sealed(&mut input);
    }
});
