//! Damage in records and between them.

use crate::{MAGIC, block, block_with, check, hash, record, scan_bytes};
use blockmill_block::Network;
use blockmill_blockfiles::DamageKind;

/// Bytes between two records that are too few for a block, as Core before 24 left them.
#[test]
fn remains_that_are_too_short_for_a_block() {
    let (a, b) = (block(1, 10), block(2, 20));
    let stray = record(&b)[..8].to_vec();
    let (scan, blocks) = scan_bytes(&[record(&a), stray, record(&b)].concat(), None);
    assert_eq!(blocks, [a.clone(), b.clone()]);
    assert!(
        scan.damages.iter().all(|damage| damage.is_harmless()),
        "{:?}",
        scan.damages
    );
    let (scan, _) = scan_bytes(&[record(&a), vec![7; 200], record(&b)].concat(), None);
    assert!(!scan.damages[0].is_harmless());
}

/// Reports about files that are read with the wrong magic, or without their key.
#[test]
fn files_that_are_not_what_they_are_taken_for() {
    let a = block(1, 10);
    let other = [&Network::Testnet3.magic().0[..], &record(&a)[4..]].concat();
    let twice = [&other[..], &other].concat();
    let kind = DamageKind::OtherNetwork(Network::Testnet3);
    let scan = check(&twice, &[], &[(0, kind)]);
    assert!(scan.damages[0].to_string().contains("testnet3"), "{}", scan.damages[0]);
    check(
        &[&record(&a)[..], &other].concat(),
        &[&a],
        &[(record(&a).len() as u64, kind)],
    );
    let mut hidden = record(&a);
    hidden.iter_mut().for_each(|byte| *byte ^= 5);
    let scan = check(&hidden, &[], &[(0, DamageKind::NoRecords)]);
    assert!(
        scan.damages[0].to_string().contains("xor.dat missing"),
        "{}",
        scan.damages[0]
    );
    check(&[&hidden[..], &record(&a)].concat(), &[&a], &[(0, DamageKind::NoMagic)]);
}

/// A miner may write the magic into a block, with any length. It ends no damage, and is none.
#[test]
fn a_magic_inside_a_block() {
    let a = block(1, 10);
    for length in [0, 79, 80, 90, 3_000_000, u32::MAX] {
        let inside = [&MAGIC.0[..], &u32::to_le_bytes(length), &[7; 100]].concat();
        let b = block_with(2, &inside);
        let start = record(&a).len() as u64;
        let whole = [record(&a), record(&b)].concat();
        check(&whole, &[&a, &b], &[]);
        // One bit of its magic or its length: the block is missing, whether others follow or not.
        for bit in 0..64 {
            for after in [vec![], vec![0; 1000], record(&block(3, 30))] {
                let mut bytes = [&whole[..], &after].concat();
                bytes[start as usize + bit / 8] ^= 1 << (bit % 8);
                let (scan, _) = scan_bytes(&bytes, None);
                let said = &scan.damages[0];
                assert_eq!((said.offset, said.hash), (start, Some(hash(&b))), "{length} {bit}");
                if matches!(said.kind, DamageKind::TooLong(_)) {
                    assert_eq!(scan.records[1].hash, hash(&b));
                } else {
                    assert!(!said.is_harmless(), "{length} {bit} {said}");
                    assert_eq!(
                        said.length,
                        record(&b).len() as u64 + after.len() as u64 * u64::from(scan.records.len() == 1)
                    );
                }
                assert_eq!(scan.damages.len(), 1, "{length} {bit}");
            }
        }
        // A write that is not finished.
        for written in 150..record(&b).len() - 16 {
            for zeros in [0, 1000] {
                let bytes = [record(&a), record(&b)[..written].to_vec(), vec![0; zeros]].concat();
                check(&bytes, &[&a], &[(start, DamageKind::Truncated)]);
            }
        }
    }
}

/// A damaged block between a damaged one and the end is no part of the first.
#[test]
fn damage_after_damage() {
    let (a, b, c) = (block(1, 10), block(2, 20), block(3, 30));
    let mut bytes = [record(&a), record(&b), record(&c)].concat();
    let second = record(&a).len();
    let third = second + record(&b).len();
    bytes[second] ^= 1;
    bytes[third + 100] ^= 1;
    let (scan, _) = scan_bytes(&bytes, None);
    assert_eq!(scan.records.len(), 2);
    assert_eq!(scan.damages[0].length, record(&b).len() as u64);
    assert!(!scan.damages[0].is_followed);
}

#[test]
fn every_flipped_bit_of_a_record_is_seen_or_changes_the_block() {
    let (a, b, c) = (block(1, 10), block(2, 20), block(3, 30));
    let whole = [record(&a), record(&b), record(&c)].concat();
    let second = record(&a).len();
    let third = second + record(&b).len();
    for bit in 0..whole.len() * 8 {
        let mut bytes = whole.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let (scan, blocks) = scan_bytes(&bytes, None);
        let offset = bit / 8;
        let start = [0, second, third]
            .into_iter()
            .rev()
            .find(|&start| offset >= start)
            .unwrap();
        if let [said] = &scan.damages[..]
            && matches!(said.kind, DamageKind::TooLong(_))
        {
            // A length that is longer: the block is taken all the same, as Core takes it.
            assert_eq!(blocks, [a.clone(), b.clone(), c.clone()], "bit {bit}");
        } else if offset < start + 8 {
            // Magic or length: the record is lost, and the report has its offset and its block.
            assert_eq!(scan.damages.len(), 1, "bit {bit}");
            assert_eq!(scan.damages[0].offset, start as u64, "bit {bit}");
            assert!(!scan.damages[0].is_unfinished_write(), "bit {bit}");
            let name = hash(if start == 0 {
                &a
            } else if start == second {
                &b
            } else {
                &c
            });
            assert_eq!(scan.damages[0].hash, Some(name), "bit {bit}");
            assert_eq!(blocks.len(), 2, "bit {bit}");
        } else {
            assert_eq!(blocks.concat().len(), a.len() + b.len() + c.len(), "bit {bit}");
            assert_ne!(blocks, [a.clone(), b.clone(), c.clone()], "bit {bit}");
        }
    }
}

#[test]
fn remains_between_records_are_reported_and_skipped() {
    let (a, b) = (block(1, 10), block(2, 20));
    let bytes = [record(&a), b"remains of something".to_vec(), record(&b)].concat();
    check(&bytes, &[&a, &b], &[(record(&a).len() as u64, DamageKind::NoMagic)]);
    let long = [record(&a), vec![0x55; 3 << 20], record(&b)].concat();
    check(&long, &[&a, &b], &[(record(&a).len() as u64, DamageKind::NoMagic)]);
    // The search finds a magic across the edge of its window.
    for shift in 0..5 {
        let long = [record(&a), vec![0x55; (1 << 20) - shift], record(&b)].concat();
        check(&long, &[&a, &b], &[(record(&a).len() as u64, DamageKind::NoMagic)]);
    }
}
