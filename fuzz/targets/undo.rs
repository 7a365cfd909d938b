//! The input is undo data, and a record of it.
//!
//! Checked: what decodes is written again and decodes to the same (as long as its amounts can be:
//! others may wrap, as in Core), alone and in a record; a record whose checksum is right reads as
//! its data; a damaged one is refused. Memory stays below a fixed multiple of the input.

#![no_main]

use blockmill_block::hash::Sha256d;
use blockmill_block::undo::{RECORD_HEAD, UndoRecordError, read_record, write_record};
use blockmill_block::{BlockHash, BlockUndo, Magic};
use blockmill_fuzz::memory::peak_of;
use blockmill_rules::money_range;
use libfuzzer_sys::fuzz_target;
use peak_alloc::PeakAlloc;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

const MAGIC: Magic = Magic([0xf9, 0xbe, 0xb4, 0xd9]);

const PARENT: BlockHash = BlockHash([7; 32]);

/// Bytes that are allocated at once for a byte of undo data. The worst is a coin of 3 bytes, which
/// takes 32 in a table that may be half empty, and that grows with the old one still there.
const PEAK_PER_BYTE: usize = 33;

/// What the first coins take.
const PEAK_BASE: usize = 1024;

fn decode(data: &[u8]) -> Option<BlockUndo> {
    let (decoded, peak) = peak_of(|| BlockUndo::decode(data));
    assert!(
        peak <= PEAK_PER_BYTE * data.len() + PEAK_BASE,
        "{peak} bytes for {}",
        data.len()
    );
    decoded.ok()
}

fn check_round_trip(undo: &BlockUndo) {
    let mut places = 0;
    for index in 0..undo.transaction_count() {
        let range = undo.range(index);
        assert_eq!(range.start, places);
        assert_eq!(undo.transaction(index), &undo.coins()[range.clone()]);
        places = range.end;
    }
    assert_eq!(places, undo.coins().len());
    let mut written = Vec::new();
    undo.write(&mut written);
    let again = BlockUndo::decode(&written).expect("what was written decodes");
    assert_eq!(again.transaction_count(), undo.transaction_count());
    if undo.coins().iter().all(|coin| money_range(coin.value)) {
        assert_eq!(again, *undo);
        let mut record = Vec::new();
        write_record(MAGIC, &PARENT, undo, &mut record);
        assert_eq!(read_record(MAGIC, &PARENT, &record).as_ref(), Ok(undo));
        // One bit anywhere.
        let bit = written
            .iter()
            .fold(0, |sum: usize, &byte| sum.wrapping_mul(31) + usize::from(byte));
        let place = bit / 8 % record.len();
        record[place] ^= 1 << (bit % 8);
        assert!(read_record(MAGIC, &PARENT, &record).is_err(), "byte {place}");
    }
}

/// A record around any bytes, with the right checksum.
fn record_of(data: &[u8]) -> Vec<u8> {
    let mut sum = Sha256d::new();
    sum.update(&PARENT.0);
    sum.update(data);
    let length = (data.len() as u32).to_le_bytes();
    [&MAGIC.0[..], &length, data, &sum.finalize()].concat()
}

fuzz_target!(|data: &[u8]| {
    if let Some(undo) = decode(data) {
        check_round_trip(&undo);
    }
    let _ = read_record(MAGIC, &PARENT, data);
    let read = read_record(MAGIC, &PARENT, &record_of(data));
    assert_eq!(read, BlockUndo::decode(data).map_err(UndoRecordError::Decode));
    if let Some(body) = data.get(RECORD_HEAD..) {
        let _ = read_record(MAGIC, &PARENT, &record_of(body));
    }
});
