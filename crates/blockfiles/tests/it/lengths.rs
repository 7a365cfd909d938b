//! Lengths of records that are not those of their blocks.

use crate::{MAGIC, block, check, record, scan_bytes};
use blockmill_blockfiles::{BlockFiles, DamageKind, ScanDepth};
use std::ops::ControlFlow;

/// A record whose length is more than its block, as Core takes it: the next one is looked for where
/// the block ends.
#[test]
fn a_length_that_is_too_long() {
    let (a, b, c) = (block(1, 10), block(2, 20), block(3, 30));
    let longer = |more: u32| {
        let mut bytes = record(&b);
        bytes[4..8].copy_from_slice(&(b.len() as u32 + more).to_le_bytes());
        bytes
    };
    for more in [1, 8, 80] {
        // Before zeros, before another record, and with the bytes that it counts.
        let length = b.len() as u32 + more;
        let said = [(record(&a).len() as u64, DamageKind::TooLong(length))];
        check(&[record(&a), longer(more), vec![0; 1000]].concat(), &[&a, &b], &said);
        let scan = check(&[record(&a), longer(more), record(&c)].concat(), &[&a, &b, &c], &said);
        assert!(scan.damages[0].is_harmless());
        let (_, blocks) = scan_bytes(
            &[record(&a), longer(more), vec![7; more as usize], record(&c)].concat(),
            None,
        );
        assert_eq!((blocks.len(), &blocks[2]), (3, &c));
    }
    // Past the end of the file Core does not take it.
    let start = record(&a).len() as u64;
    let length = b.len() as u32 + 8;
    check(
        &[record(&a), longer(8)].concat(),
        &[&a],
        &[(start, DamageKind::BadLength(length))],
    );
}

/// A length that is too short: Core does not take the block either.
#[test]
fn a_length_that_is_too_short() {
    let (a, b) = (block(1, 10), block(2, 20));
    for less in [1, 4, 8, 40] {
        let mut short = record(&a);
        let length = a.len() as u32 - less;
        short[4..8].copy_from_slice(&length.to_le_bytes());
        let damages = [(0, DamageKind::BadLength(length))];
        check(&[short.clone(), record(&b)].concat(), &[&b], &damages);
        let scan = check(&[short.clone(), vec![0; 1000]].concat(), &[], &damages);
        assert!(!scan.damages[0].is_harmless());
        check(&short, &[], &damages);
    }
}

/// A length that leads to another record covers whole records. Only the contents tell.
#[test]
fn a_record_that_hides_others() {
    let blocks: Vec<_> = (1..6).map(|number| block(number, 20)).collect();
    let inner: Vec<u8> = blocks[1..4].iter().flat_map(|block| record(block)).collect();
    let mut cover = record(&blocks[0]);
    let length = blocks[0].len() + inner.len();
    cover[4..8].copy_from_slice(&(length as u32).to_le_bytes());
    let found = |bytes: &[u8]| {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("blk00000.dat");
        std::fs::write(&path, bytes).unwrap();
        let mut files = BlockFiles::new();
        files.add(&path).unwrap();
        let depths = [ScanDepth::Lengths, ScanDepth::Contents];
        depths.map(|depth| {
            let scan = files
                .scan_watched(0, MAGIC, depth, &mut |_| ControlFlow::Continue(()))
                .unwrap();
            scan.unwrap().records.len()
        })
    };
    assert_eq!(
        found(&[cover.clone(), inner.clone(), record(&blocks[4])].concat()),
        [2, 5]
    );
    assert_eq!(found(&[cover.clone(), inner.clone()].concat()), [1, 4]);
    // A header of nothing, with a length that covers the records.
    let mut garbage = MAGIC.0.to_vec();
    garbage.extend((inner.len() as u32 + 80).to_le_bytes());
    garbage.extend([9; 80]);
    assert_eq!(found(&[garbage, inner, record(&blocks[4])].concat()), [2, 5]);
}

/// Lengths far beyond the blocks, which Core takes: decoding costs what the blocks have.
#[test]
fn every_length_is_too_long() {
    let blocks: Vec<_> = (0..250).map(|number| block(number, 20)).collect();
    let mut bytes = Vec::new();
    for block in &blocks {
        bytes.extend(MAGIC.0);
        bytes.extend(4_000_000u32.to_le_bytes());
        bytes.extend(block);
    }
    bytes.extend([0; 4_100_000]);
    // What is said of them hides no other damage.
    let damage = [0x55; 300];
    for after in [&[][..], &damage] {
        let (scan, found) = scan_bytes(&[&bytes, after].concat(), None);
        assert_eq!(found, blocks);
        assert_eq!(scan.damages.len(), 100 + usize::from(!after.is_empty()));
        assert_eq!(scan.more_damages, 0);
        assert_eq!(scan.damages.iter().all(|damage| damage.is_harmless()), after.is_empty());
    }
}

#[test]
fn impossible_lengths() {
    let a = block(1, 10);
    for length in [0u32, 79, 4_000_001, u32::MAX] {
        let mut bytes = record(&a);
        bytes[4..8].copy_from_slice(&length.to_le_bytes());
        bytes.extend(record(&a));
        check(&bytes, &[&a], &[(0, DamageKind::BadLength(length))]);
    }
}
