//! Files with an obfuscation key, and bytes that look like padding through it.

use crate::{MAGIC, block, hash, record, scan_bytes};
use blockmill_block::Magic;
use blockmill_blockfiles::BlockFiles;

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
