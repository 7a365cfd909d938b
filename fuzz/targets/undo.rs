//! The input is undo data, and a record of it.
//!
//! Checked: data that decodes, written again, decodes to the same, alone and in a record. Amounts
//! outside of the valid range are exempt: they may wrap, as in Core. A record with the right
//! checksum reads as its data, and a damaged one is refused. Memory stays below a fixed multiple of
//! the input.

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

/// Peak of allocated bytes for a byte of undo data. The worst case is a coin of 3 bytes: it takes
/// 32 bytes in a table that may be half empty, and the old table is still there while a new one is
/// filled.
const PEAK_PER_BYTE: usize = 33;

/// Bytes for the first coins.
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
    let mut coin_index = 0;
    for index in 0..undo.transaction_count() {
        let range = undo.range(index);
        assert_eq!(range.start, coin_index);
        assert_eq!(undo.transaction(index), undo.coins().range(range.clone()));
        coin_index = range.end;
    }
    assert_eq!(coin_index, undo.coins().len());
    let mut written = Vec::new();
    undo.write(&mut written);
    let again = BlockUndo::decode(&written).expect("what was written decodes");
    assert_eq!(again.transaction_count(), undo.transaction_count());
    if undo.coins().iter().all(|coin| money_range(coin.value)) {
        assert_eq!(again, *undo);
        let mut record = Vec::new();
        write_record(MAGIC, &PARENT, undo, &mut record);
        assert_eq!(read_record(MAGIC, &PARENT, &record).as_ref(), Ok(undo));
        // Flip any one bit.
        let bit = written
            .iter()
            .fold(0, |sum: usize, &byte| sum.wrapping_mul(31) + usize::from(byte));
        let offset = bit / 8 % record.len();
        record[offset] ^= 1 << (bit % 8);
        assert!(read_record(MAGIC, &PARENT, &record).is_err(), "byte {offset}");
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
