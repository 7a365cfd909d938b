//! Scanning of block files: the content of real directories, and damage of every kind.

use blockmill_block::hash::sha256d;
use blockmill_block::{BlockHash, Magic, Network};
use blockmill_blockfiles::{BlockFiles, DamageKind, Scan, ScanDepth};
use std::ops::ControlFlow;
use std::path::Path;

const MAGIC: Magic = Magic([0xfa, 0xbf, 0xb5, 0xda]);

/// A block that decodes and has a correct merkle root: one transaction with one input and a script
/// of `length` bytes.
fn block(number: u8, length: u8) -> Vec<u8> {
    block_of(number, &vec![number; usize::from(length)], &[0x51])
}

/// A block that spends nothing and has these bytes in an output.
fn block_with(number: u8, script: &[u8]) -> Vec<u8> {
    block_of(number, &[number], script)
}

/// A block of one transaction, with these scripts in its input and its output.
fn block_of(number: u8, script_sig: &[u8], script_pubkey: &[u8]) -> Vec<u8> {
    let mut transaction = vec![1, 0, 0, 0, 1];
    transaction.extend([0; 32]);
    transaction.extend([0xff; 4]);
    transaction.push(script_sig.len() as u8);
    transaction.extend(script_sig);
    transaction.extend([0xff; 4]);
    transaction.extend([1, 0, 0, 0, 0, 0, 0, 0, 0, script_pubkey.len() as u8]);
    transaction.extend(script_pubkey);
    transaction.extend([0; 4]);
    let mut bytes = vec![number; 36];
    bytes.extend(sha256d(&transaction));
    bytes.extend([number; 12]);
    bytes.push(1);
    bytes.extend(transaction);
    bytes
}

fn record(block: &[u8]) -> Vec<u8> {
    let mut bytes = MAGIC.0.to_vec();
    bytes.extend((block.len() as u32).to_le_bytes());
    bytes.extend(block);
    bytes
}

fn hash(block: &[u8]) -> BlockHash {
    BlockHash(sha256d(&block[..80]))
}

fn scan_bytes(bytes: &[u8], key: Option<[u8; 8]>) -> (Scan, Vec<Vec<u8>>) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("blk00000.dat");
    std::fs::write(&path, bytes).unwrap();
    if let Some(key) = key {
        std::fs::write(directory.path().join("xor.dat"), key).unwrap();
    }
    let mut files = BlockFiles::new();
    files.add(directory.path()).unwrap();
    let scan = files.scan(0, MAGIC).unwrap();
    let blocks = scan
        .records
        .iter()
        .map(|record| files.read(&record.position).unwrap())
        .collect();
    (scan, blocks)
}

fn check(bytes: &[u8], expected: &[&[u8]], damages: &[(u64, DamageKind)]) -> Scan {
    let (scan, blocks) = scan_bytes(bytes, None);
    assert_eq!(blocks, expected);
    let found: Vec<_> = scan.damages.iter().map(|damage| (damage.offset, damage.kind)).collect();
    assert_eq!(found, damages);
    for (record, block) in scan.records.iter().zip(expected) {
        assert_eq!(record.hash, hash(block));
    }
    scan
}

#[test]
fn records_padding_and_tails() {
    let (a, b) = (block(1, 10), block(2, 20));
    let two = [record(&a), record(&b)].concat();
    check(&[], &[], &[]);
    check(&[0; 5000], &[], &[]);
    check(&two, &[&a, &b], &[]);
    for zeros in [1, 3, 7, 8, 9, 100, 5_000_000] {
        check(&[&two[..], &vec![0; zeros]].concat(), &[&a, &b], &[]);
        check(&[record(&a), vec![0; zeros], record(&b)].concat(), &[&a, &b], &[]);
    }
}

#[test]
fn a_tail_cut_anywhere_is_an_unfinished_write() {
    let (a, b) = (block(1, 10), block(2, 20));
    let start = record(&a).len();
    let whole = [record(&a), record(&b)].concat();
    for length in start + 1..whole.len() {
        let scan = check(&whole[..length], &[&a], &[(start as u64, DamageKind::Truncated)]);
        assert!(scan.damages[0].is_unfinished_write());
        assert_eq!(scan.damages[0].hash.is_some(), length >= start + 88);
    }
}

#[test]
fn obfuscated_files() {
    let key = [3, 1, 4, 1, 5, 9, 2, 6];
    let (a, b) = (block(1, 10), block(2, 21));
    let mut bytes = [record(&a), record(&b)].concat();
    for (index, byte) in bytes.iter_mut().enumerate() {
        *byte ^= key[index % 8];
    }
    // Zeros that were allocated and never written. Clearing turns them into the key.
    bytes.extend([0; 999]);
    let (scan, blocks) = scan_bytes(&bytes, Some(key));
    assert_eq!(blocks, [a.clone(), b.clone()]);
    assert_eq!(scan.damages, []);
    // Zeros before a record, and a key of zeros.
    let (scan, blocks) = scan_bytes(&[vec![0; 13], record(&a)].concat(), Some([0; 8]));
    assert_eq!(blocks, [a]);
    assert_eq!(scan.damages, []);
}

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

#[test]
fn files_that_are_not_written_to_their_end() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("blk00000.dat");
    std::fs::write(directory.path().join("xor.dat"), [5; 8]).unwrap();
    let mut files = BlockFiles::new();
    for (bytes, expected) in [
        (vec![], false),
        (vec![0; 63], false),
        (record(&block(1, 10)), false),
        ([vec![7; 100], vec![0; 63]].concat(), false),
        ([vec![7; 100], vec![0; 64]].concat(), true),
        ([vec![7; 100], vec![5; 64]].concat(), true),
    ] {
        std::fs::write(&path, bytes).unwrap();
        let file = files.add(&path).unwrap()[0];
        assert_eq!(files.is_preallocated(file).unwrap(), expected);
    }
}

/// Core preallocates: zeros follow a write that is not finished.
#[test]
fn a_torn_record_before_preallocated_zeros() {
    let (a, b) = (block(1, 10), block(2, 60));
    let start = record(&a).len();
    let whole = [record(&a), record(&b)].concat();
    for key in [[0; 8], [3, 1, 4, 1, 5, 9, 2, 6]] {
        for length in start + 1..whole.len() - 20 {
            let mut bytes = whole[..length].to_vec();
            bytes.iter_mut().enumerate().for_each(|(at, byte)| *byte ^= key[at % 8]);
            bytes.resize(1 << 16, 0);
            let (scan, blocks) = scan_bytes(&bytes, Some(key));
            assert_eq!(blocks, std::slice::from_ref(&a), "{length}");
            assert_eq!(scan.damages.len(), 1, "{length}");
            assert!(scan.damages[0].is_unfinished_write(), "{length} {}", scan.damages[0]);
        }
    }
    // A record follows: the one before it is damaged.
    let torn = [&whole[..start + 120], &[0; 2000], &record(&a)].concat();
    let (scan, blocks) = scan_bytes(&torn, None);
    assert_eq!(blocks, [a.clone(), a]);
    assert!(!scan.damages[0].is_harmless());
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

/// A byte of the magic that equals its byte of the key is stored as zero, and is not padding.
#[test]
fn keys_that_share_bytes_with_the_magic() {
    let blocks: Vec<_> = (1..40).map(|number| block(number, number)).collect();
    let whole = blocks.iter().map(|block| record(block)).collect::<Vec<_>>().concat();
    let keys: Vec<[u8; 8]> = (0..8)
        .flat_map(|index| {
            MAGIC.0.map(|byte| {
                let mut key = [2, 3, 4, 5, 6, 7, 8, 9];
                key[index] = byte;
                key
            })
        })
        .collect();
    for key in keys {
        for zeros in [0, 5, 100] {
            let mut bytes = [vec![0; zeros], whole.clone()].concat();
            for (index, byte) in bytes.iter_mut().enumerate() {
                // Zeros before the records were allocated and never written.
                *byte ^= if index < zeros { 0 } else { key[index % 8] };
            }
            bytes.extend([0; 50]);
            let (scan, found) = scan_bytes(&bytes, Some(key));
            assert_eq!(scan.damages, [], "{key:?}");
            assert_eq!(found, blocks, "{key:?}");
        }
    }
}

/// A key with the magic's bytes where a record begins: the magic is stored as zeros, like bytes
/// that were allocated and not written.
#[test]
fn a_magic_that_is_stored_as_zeros() {
    let (a, b, c) = (block(1, 10), block(2, 0), block(3, 20));
    for shift in 0..8 {
        for padding in [1, 7, 8, 9, 32, 100] {
            let first = record(&a);
            let begin = first.len() + padding;
            let mut key = [0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88];
            for (number, byte) in MAGIC.0.into_iter().enumerate() {
                key[(begin + shift + number) % 8] = byte;
            }
            let bytes = [first, vec![0; padding], record(&b), record(&c)].concat();
            let stored: Vec<u8> = bytes.iter().enumerate().map(|(at, byte)| byte ^ key[at % 8]).collect();
            let (scan, blocks) = scan_bytes(&stored, Some(key));
            assert!(
                blocks == [a.clone(), b.clone(), c.clone()],
                "{shift} {padding}: {}",
                blocks.len()
            );
            assert!(scan.damages.is_empty(), "{shift} {padding}: {:?}", scan.damages);
        }
    }
}

/// The same after padding that was written through the key, with a block that begins with zeros.
/// Every byte of the record's head looks like padding of one kind or the other.
#[test]
fn a_head_of_both_kinds_of_zeros() {
    let mut b = block(2, 0);
    b[..36].fill(0);
    let length = (b.len() as u32).to_le_bytes();
    for shift in 0..8 {
        for padding in [0, 1, 7, 8, 9, 247, 248, 249, 255, 256, 257, 1000, 5000] {
            let first = record(&block(1, 10));
            let begin = first.len() + padding;
            let mut key = [0x11; 8];
            for (number, byte) in MAGIC.0.into_iter().chain([length[0]]).enumerate() {
                key[(begin + shift + number) % 8] = byte;
            }
            let mut bytes = [first, vec![0; padding], record(&b)].concat();
            for (at, byte) in bytes.iter_mut().enumerate() {
                *byte ^= key[at % 8];
            }
            let (scan, blocks) = scan_bytes(&bytes, Some(key));
            assert_eq!(blocks.len(), 2, "{shift} {padding}");
            assert!(blocks[1] == b, "{shift} {padding}");
            assert_eq!(scan.damages, [], "{shift} {padding}");
        }
    }
}

#[test]
fn a_magic_that_begins_with_zero() {
    let magic = Magic([0, 0x3d, 0x56, 0xe7]);
    let (a, b) = (block(1, 10), block(2, 20));
    let record = |block: &[u8]| [&magic.0[..], &(block.len() as u32).to_le_bytes(), block].concat();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("blk00000.dat");
    std::fs::write(&path, [record(&a), vec![0; 9], record(&b), vec![0; 7]].concat()).unwrap();
    let mut files = BlockFiles::new();
    files.add(&path).unwrap();
    let scan = files.scan(0, magic).unwrap();
    assert_eq!(scan.damages, []);
    let hashes: Vec<_> = scan.records.iter().map(|record| record.hash).collect();
    assert_eq!(hashes, [hash(&a), hash(&b)]);
}

/// Files made to waste memory or time: reports are bounded, and so is decoding in doubtful cases.
#[test]
fn hostile_files_are_bounded() {
    let damaged = [vec![7; 200], record(&block(1, 0))].concat();
    let (scan, _) = scan_bytes(&damaged.repeat(2_000), None);
    assert_eq!((scan.records.len(), scan.damages.len()), (2_000, 100));
    assert_eq!(scan.more_damages, 1_900);
    // A magic alone ends no damage.
    check(
        &MAGIC.0.repeat(200_000),
        &[],
        &[(0, DamageKind::BadLength(u32::from_le_bytes(MAGIC.0)))],
    );
    let believable = [&MAGIC.0[..], &3_999_999u32.to_le_bytes(), &[7; 5]].concat();
    let start = std::time::Instant::now();
    let (scan, _) = scan_bytes(&believable.repeat(600_000), None);
    assert!(!scan.damages.is_empty());
    assert!(start.elapsed().as_secs() < 20);
    // Padding after every record.
    let short = [record(&block(1, 0)), vec![0]].concat();
    let start = std::time::Instant::now();
    let (scan, _) = scan_bytes(&short.repeat(400_000), None);
    assert_eq!((scan.records.len(), scan.damages.len()), (400_000, 0));
    assert!(start.elapsed().as_secs() < 5, "{:?}", start.elapsed());
}

/// The work of a damage is bounded by the file, whatever follows each magic: lengths that lead
/// somewhere, and blocks that never end.
#[test]
fn hostile_bytes_in_a_damage_are_bounded() {
    let start = std::time::Instant::now();
    let head = |length: u32| [&MAGIC.0[..], &length.to_le_bytes()].concat();
    let mut endless = head(3_999_000);
    endless.extend([2; 80]);
    // Many transactions of many inputs, which run through the next heads.
    endless.extend([0xfe, 0xff, 0xff, 0, 0, 1, 0, 0, 0, 0xfe, 0xff, 0xff, 0, 0]);
    for hostile in [head(100).repeat(12), head(90_000), head(30_000), endless] {
        let count = (16 << 20) / hostile.len();
        let (scan, _) = scan_bytes(
            &[&[7; 300][..], &hostile.repeat(count), &[0; 100_000], &[1]].concat(),
            None,
        );
        assert!(!scan.damages.is_empty());
        assert!(scan.damages.iter().all(|damage| !damage.is_harmless()));
    }
    // Zeros after each damage but the last byte.
    let torn = [head(4_000_000), vec![7; 92]].concat();
    scan_bytes(&[&torn.repeat(20_000)[..], &[0; 8_000_000], &[1]].concat(), None);
    assert!(start.elapsed().as_secs() < 60, "{:?}", start.elapsed());
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

#[test]
fn real_chains_scan_without_damage() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/chains");
    if !data.is_dir() {
        return eprintln!("skipped: ../shared/data/chains is missing");
    }
    let mainnet = ("mainnet_0_14131.dat", Network::Bitcoin.magic(), 14_132);
    let testnet3 = ("testnet3_0_4000.dat", Network::Testnet3.magic(), 4_001);
    for (name, magic, blocks) in [mainnet, testnet3] {
        let mut files = BlockFiles::new();
        files.add(&data.join(name)).unwrap();
        let scan = files.scan(0, magic).unwrap();
        assert_eq!((scan.records.len(), scan.damages), (blocks, vec![]));
    }
}
