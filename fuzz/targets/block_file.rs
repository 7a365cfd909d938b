//! The input is a `blk*.dat` file, or describes the pieces of one, with a network and an
//! obfuscation key.
//!
//! Checked: the records that a scan of lengths finds lie inside the file, do not overlap, begin
//! with magic and length, and are read as the scan describes them. A record that is followed
//! neither by another record nor by the end of the file is a block with the right merkle root; its
//! head may state a larger length, and then the scan says so there. All other damage is reported in
//! order, inside the file and outside of records. In a file of pieces the scan finds exactly the
//! whole records, and no damage if there is only padding between them.
//!
//! A scan of contents finds all blocks that a scan of lengths finds. Only records that are no
//! blocks contain others there.
//!
//! The file lies in `TMPDIR`, by default in `/dev/shm`.

#![no_main]

use blockmill_block::hash::sha256d;
use blockmill_block::{Block, Header, Magic};
use blockmill_blockfiles::{BlockFiles, Damage, DamageKind, RECORD_HEAD, Record, Scan, ScanDepth, XorKey};
use blockmill_fuzz::input::Input;
use blockmill_fuzz::pieces::{Made, as_it_is, pieces};
use blockmill_fuzz::scratch::SCRATCH;
use libfuzzer_sys::fuzz_target;
use std::fs::File;
use std::ops::{ControlFlow, Range};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::LazyLock;

/// Bytes of a record before its block.
const HEAD: usize = RECORD_HEAD as usize;

/// Bytes of a record with the shortest block: a transaction of 60 bytes.
const RECORD_MIN: u64 = RECORD_HEAD + Header::LENGTH as u64 + 1 + 60;

/// The files of this process, written again for every input.
struct ScratchFiles {
    path: PathBuf,
    blocks: File,
    key: File,
}

static FILES: LazyLock<ScratchFiles> = LazyLock::new(|| {
    let folder = SCRATCH.join("blocks");
    let path = folder.join("blk00000.dat");
    ScratchFiles {
        blocks: File::create(&path).expect("a file for the blocks"),
        key: File::create(folder.join("xor.dat")).expect("a file for the key"),
        path,
    }
});

fn overwrite(file: &File, bytes: &[u8]) {
    file.set_len(bytes.len() as u64)
        .and_then(|()| file.write_all_at(bytes, 0))
        .expect("the file can be written");
}

/// Whether a file of pieces can be read in one way only. Three things make it ambiguous: another
/// magic between the pieces (padding stored as zeros reads as the key); a damaged record that may
/// be taken for a whole one; a record whose whole head is stored as zeros, for one key in 2^64.
fn is_unambiguous(cleared: &[u8], made: &Made, records: &[(usize, u32)], key: [u8; 8], magic: Magic) -> bool {
    let starts = |offset| {
        records.iter().any(|record| record.0 - HEAD == offset) || made.damaged.iter().any(|record| record.0 == offset)
    };
    let lies_in_block = |offset| {
        records
            .iter()
            .any(|record| (record.0 - HEAD..record.0 + record.1 as usize).contains(&offset))
    };
    let is_zeros = |offset: usize| (offset..offset + HEAD).all(|at| cleared.get(at) == Some(&key[at % 8]));
    let is_other = |offset| {
        if starts(offset) {
            is_zeros(offset)
        } else {
            !lies_in_block(offset)
        }
    };
    let magics = cleared.windows(4).enumerate().filter(|(_, bytes)| *bytes == magic.0);
    !magics.map(|(offset, _)| offset).any(is_other)
        && !made.damaged.iter().any(|record| may_be_whole(cleared, *record, magic))
}

/// Whether a damaged record may be taken for a whole one: another record or the end of the file
/// follows it, or it begins with a block.
fn may_be_whole(cleared: &[u8], (start, length): (usize, u32), magic: Magic) -> bool {
    let end = start + HEAD + length as usize;
    cleared
        .get(end..)
        .is_some_and(|rest| begins_magic(rest, magic) || block_length(&cleared[start + HEAD..end]).is_some())
}

/// Whether `bytes` begin with the magic, or are the beginning of it.
fn begins_magic(bytes: &[u8], magic: Magic) -> bool {
    bytes.starts_with(&magic.0[..bytes.len().min(4)])
}

/// Length of the block with transactions and the right merkle root that `raw` begins with.
fn block_length(raw: &[u8]) -> Option<usize> {
    let block = Block::decode(raw).ok().filter(|block| block.transaction_count() > 0)?;
    (block.merkle_root().hash == block.header().merkle_root.0).then_some(block.bytes().len())
}

/// Start and end of a record in the file.
fn range_of(record: &Record) -> Range<u64> {
    let start = record.position.offset.checked_sub(RECORD_HEAD);
    start.expect("a record has a head")..record.position.offset + u64::from(record.position.length)
}

/// Checks what holds for the scans of both depths.
fn check(scan: &Scan, depth: ScanDepth, files: &BlockFiles, cleared: &[u8], magic: Magic) {
    assert_eq!(scan.bytes, cleared.len() as u64);
    let mut before = 0..0;
    let mut is_block_before = true;
    for record in &scan.records {
        let range = range_of(record);
        let contains_others = depth == ScanDepth::Contents && !is_block_before;
        assert!(range.start >= before.end || contains_others, "records overlap");
        assert!(range.start > before.start || before.is_empty(), "records out of order");
        assert!(range.end <= scan.bytes, "a record ends outside of the file");
        let raw = &cleared[range.start as usize..range.end as usize];
        is_block_before = check_record(record, scan, files, raw, magic);
        if !begins_magic(&cleared[range.end as usize..], magic) {
            assert!(is_block_before, "the scan reports a record without evidence");
        }
        before = range;
    }
    assert!(scan.damages.len() <= 200 && (scan.more_damages == 0 || scan.damages.len() >= 100));
    assert!(scan.damages.is_sorted_by(|one, other| one.offset < other.offset));
    for damage in &scan.damages {
        check_damage(damage, scan, cleared);
    }
}

/// Checks a record, whose bytes are `raw`. Returns whether it is exactly a block.
fn check_record(record: &Record, scan: &Scan, files: &BlockFiles, raw: &[u8], magic: Magic) -> bool {
    let position = record.position;
    assert_eq!(position.file, 0);
    assert_eq!(raw[..4], magic.0);
    let is_block = block_length(&raw[HEAD..]) == Some(raw.len() - HEAD);
    let stated = u32::from_le_bytes([raw[4], raw[5], raw[6], raw[7]]);
    if stated != position.length {
        assert!(
            stated > position.length && is_block,
            "a record that is not as long as it says"
        );
        let is_said = |damage: &Damage| {
            damage.offset + RECORD_HEAD == position.offset && damage.kind == DamageKind::TooLong(stated)
        };
        assert!(
            scan.damages.len() >= 100 || scan.damages.iter().any(is_said),
            "the wrong length is not said"
        );
    }
    assert_eq!(files.read(&position).expect("the block can be read"), raw[HEAD..]);
    assert_eq!(raw[HEAD..HEAD + Header::LENGTH], record.header.to_bytes());
    assert_eq!(record.hash.0, sha256d(&raw[HEAD..HEAD + Header::LENGTH]));
    is_block
}

fn check_damage(damage: &Damage, scan: &Scan, cleared: &[u8]) {
    let end = damage.offset + damage.length;
    assert!(damage.length > 0 && end <= scan.bytes, "damage outside of the file");
    let after = scan
        .records
        .partition_point(|record| range_of(record).start <= damage.offset);
    let around = scan.records[..after]
        .iter()
        .rev()
        .find(|record| range_of(record).end > damage.offset);
    match (damage.kind, around) {
        (DamageKind::TooLong(_), around) => {
            assert_eq!(
                around.map(range_of),
                Some(damage.offset..end),
                "no record is too long there"
            );
        }
        (_, None) => {}
        (_, Some(around)) => {
            let range = range_of(around);
            let raw = &cleared[range.start as usize + HEAD..range.end as usize];
            assert!(block_length(raw) != Some(raw.len()), "damage in a block");
        }
    }
    let is_harmless = match damage.kind {
        DamageKind::Truncated | DamageKind::TooLong(_) => true,
        DamageKind::NoRecords => false,
        DamageKind::NoMagic | DamageKind::OtherNetwork(_) | DamageKind::BadLength(_) => {
            damage.is_followed && damage.length < RECORD_MIN
        }
    };
    assert_eq!(damage.is_harmless(), is_harmless);
    assert_eq!(damage.is_unfinished_write(), damage.kind == DamageKind::Truncated);
    let _ = damage.to_string();
}

/// Checks that all blocks of a scan of lengths are found by contents, or lie inside other blocks.
fn check_contents(lengths: &Scan, contents: &Scan, cleared: &[u8]) {
    let raw = |record: &Record| &cleared[record.position.offset as usize..range_of(record).end as usize];
    for record in &lengths.records {
        if block_length(raw(record)).is_none() {
            continue;
        }
        let start = range_of(record).start;
        let after = contents.records.partition_point(|other| range_of(other).start <= start);
        let mut around = contents.records[..after].iter().rev();
        let is_found = around.any(|other| {
            let range = range_of(other);
            range.start == start || (range.end > start && block_length(raw(other)).is_some())
        });
        assert!(is_found, "a scan of contents does not find the block at {start}");
    }
}

/// Scans to the end, and checks that a scan that is stopped gives nothing.
fn scan_of(files: &BlockFiles, magic: Magic, depth: ScanDepth, stop_at: usize) -> Scan {
    let mut reads = 0;
    let scan = files.scan_watched(0, magic, depth, &mut |_| {
        reads += 1;
        ControlFlow::Continue(())
    });
    let scan = scan.expect("the file can be read").expect("nobody stops it");
    let mut read = 0;
    let stopped = files.scan_watched(0, magic, depth, &mut |_| {
        read += 1;
        if read > stop_at {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
    assert_eq!(stopped.expect("the file can be read").is_none(), reads > stop_at);
    scan
}

fuzz_target!(|data: &[u8]| {
    let mut input = Input::new(data);
    let flags = input.u8();
    let magic = input.magic();
    let mut key_bytes = if flags & 1 == 0 { [0; 8] } else { input.array() };
    if flags & 4 != 0 {
        // A magic at that offset is stored as zeros then.
        for (byte, value) in magic.0.into_iter().enumerate() {
            key_bytes[(usize::from(flags >> 5) + byte) % 8] = value;
        }
    }
    let key = XorKey::new(key_bytes);
    let made = if flags & 2 == 0 {
        as_it_is(&mut input)
    } else {
        pieces(&mut input, magic)
    };
    let stored = made.store(key);
    let mut cleared = stored.clone();
    key.apply(&mut cleared, 0);
    overwrite(&FILES.blocks, &stored);
    overwrite(&FILES.key, &key_bytes);

    let mut files = BlockFiles::new();
    assert_eq!(files.add(&FILES.path).expect("the file is there"), [0]);
    let stop_at = usize::from(flags >> 3 & 3);
    let scan = scan_of(&files, magic, ScanDepth::Lengths, stop_at);
    check(&scan, ScanDepth::Lengths, &files, &cleared, magic);
    let contents = scan_of(&files, magic, ScanDepth::Contents, stop_at);
    check(&contents, ScanDepth::Contents, &files, &cleared, magic);
    check_contents(&scan, &contents, &cleared);
    if let Some(expected) = &made.records
        && is_unambiguous(&cleared, &made, expected, key_bytes, magic)
    {
        let found: Vec<_> = scan
            .records
            .iter()
            .map(|record| (record.position.offset as usize, record.position.length))
            .collect();
        assert_eq!(found, *expected);
        assert!(!made.undamaged || scan.damages.is_empty(), "{:?}", scan.damages);
    }
});
