//! Files made to waste memory or time.

use crate::{MAGIC, block, check, record, scan_bytes};
use blockmill_blockfiles::DamageKind;

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
