//! Ends of files: writes that are not finished, and padding.

use crate::{block, check, record, scan_bytes};
use blockmill_blockfiles::{BlockFiles, DamageKind};

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
