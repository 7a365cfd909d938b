//! The input is a snapshot of the set. A byte before it chooses whether its first bytes are
//! repaired, and how many bytes each read gives.
//!
//! Checked: coins come in the order of the store's keys, within the bounds of height and amount,
//! and there are at most as many as the input has bytes. Without an error there are as many as the
//! metadata say; no coin comes after an error. The coins, written and read again, are the same, and
//! so are those that are read in chunks. Memory stays below a fixed multiple of the input.

#![no_main]

use blockmill_block::{Coin, Magic, OutPoint};
use blockmill_coins::{SnapshotReader, Tip, write_snapshot};
use blockmill_fuzz::input::Input;
use blockmill_fuzz::memory::peak_of;
use blockmill_rules::money_range;
use libfuzzer_sys::fuzz_target;
use peak_alloc::PeakAlloc;
use std::io::{self, Cursor, Read};

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

const MAGIC: Magic = Magic([0xf9, 0xbe, 0xb4, 0xd9]);

const BASE_HEIGHT: u32 = 700_000;

/// Magic of the file, version, magic of the network.
const HEAD: [u8; 11] = *b"utxo\xff\x02\x00\xf9\xbe\xb4\xd9";

const COUNT: std::ops::Range<usize> = 43..51;

/// Peak of allocated bytes for a byte of input. The worst case is a coin of 4 bytes: it takes 72
/// bytes in a table that may be half empty, and the old table is still there while a new one is
/// filled. The coins that this target collects take as much again.
const PEAK_PER_BYTE: usize = 112;

/// Bytes allocated for an empty file.
const PEAK_BASE: usize = 4096;

/// A file whose reads give few bytes each.
struct Pieces<'a> {
    bytes: &'a [u8],
    most: usize,
}

impl Read for Pieces<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let most = into.len().min(self.most);
        self.bytes.read(&mut into[..most])
    }
}

/// The coins of a snapshot up to its end or its first error, and whether it had no error.
fn read(bytes: &[u8], most: usize) -> (Vec<(OutPoint, Coin)>, bool) {
    let Ok(reader) = SnapshotReader::new(Pieces { bytes, most }, MAGIC) else {
        return (Vec::new(), false);
    };
    let stated = reader.metadata().coins;
    let mut coins = Vec::new();
    let mut entries = reader.coins(BASE_HEIGHT);
    let error = loop {
        match entries.next() {
            None => break None,
            Some(Ok(entry)) => coins.push(entry),
            Some(Err(error)) => break Some(error),
        }
    };
    assert!(entries.next().is_none(), "an entry comes after the end");
    assert!(entries.offset() <= bytes.len() as u64);
    match &error {
        None => {
            assert_eq!(coins.len() as u64, stated);
            assert_eq!(entries.offset(), bytes.len() as u64);
        }
        Some(error) => drop(error.to_string()),
    }
    (coins, error.is_none())
}

/// All coins of a snapshot, read in chunks. None if there is an error.
fn read_in_chunks(bytes: &[u8], most: usize) -> Option<Vec<(OutPoint, Coin)>> {
    let reader = SnapshotReader::new(Pieces { bytes, most }, MAGIC).ok()?;
    let mut coins = Vec::new();
    for chunk in reader.chunks(BASE_HEIGHT) {
        coins.extend(chunk.ok()?.coins().ok()?);
    }
    Some(coins)
}

fuzz_target!(|data: &[u8]| {
    let mut input = Input::new(data);
    let flags = input.u8();
    let most = match flags >> 2 {
        63 => usize::MAX,
        few => usize::from(few) + 1,
    };
    let mut bytes = input.rest().to_vec();
    if flags & 1 == 1 && bytes.len() >= COUNT.end {
        bytes[..HEAD.len()].copy_from_slice(&HEAD);
        if flags & 2 == 2 {
            // A number of coins that can be true.
            bytes[COUNT][2..].fill(0);
        }
    }
    let ((coins, is_whole), peak) = peak_of(|| read(&bytes, most));
    assert!(
        peak <= PEAK_PER_BYTE * bytes.len() + PEAK_BASE,
        "{peak} bytes for {}",
        bytes.len()
    );
    assert!(coins.len() <= bytes.len());
    assert!(coins.is_sorted_by(|one, other| one.0 < other.0), "coins out of order");
    let in_bounds = |coin: &Coin| coin.height <= BASE_HEIGHT && money_range(coin.value);
    assert!(coins.iter().all(|(_, coin)| in_bounds(coin)));

    assert_eq!(read_in_chunks(&bytes, most).as_ref(), is_whole.then_some(&coins));

    let mut out = Cursor::new(Vec::new());
    let tip = Tip {
        hash: blockmill_block::BlockHash([9; 32]),
        height: BASE_HEIGHT,
    };
    let mut seen = 0;
    let count = write_snapshot(
        &mut out,
        MAGIC,
        &tip,
        coins.iter().cloned().map(Ok),
        |outpoint, coin| {
            assert_eq!((outpoint, coin), (&coins[seen].0, &coins[seen].1));
            seen += 1;
        },
    )
    .expect("memory can be written");
    assert_eq!((count, seen), (coins.len() as u64, coins.len()));
    let written = out.into_inner();
    assert_eq!(read(&written, usize::MAX), (coins, true));
});
