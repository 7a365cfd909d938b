//! The input is a `blk*.dat` file, or describes the pieces of one, with a network and an
//! obfuscation key.
//!
//! Checked: the records that the scan finds lie inside the file, do not overlap, begin with magic
//! and length, and are read as the scan describes them. A record that is followed neither by
//! another record nor by the end of the file is a block with the right merkle root. Damage is
//! reported in order, inside the file and outside of records. In a file of pieces the scan finds
//! exactly the whole records, and no damage if there is only padding between them.
//!
//! The file lies in `TMPDIR`, by default in `/dev/shm`.

#![no_main]

use blockmill_block::hash::sha256d;
use blockmill_block::{Block, Header, Magic};
use blockmill_blockfiles::{BlockFiles, RECORD_HEAD, Scan, XorKey};
use blockmill_fuzz::input::Input;
use blockmill_fuzz::pieces::{Made, as_it_is, pieces};
use libfuzzer_sys::fuzz_target;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::LazyLock;

/// Bytes of a record before its block.
const HEAD: usize = RECORD_HEAD as usize;

/// The files of this process, written again for every input.
struct ScratchFiles {
    path: PathBuf,
    blocks: File,
    key: File,
}

static SCRATCH: LazyLock<ScratchFiles> = LazyLock::new(|| {
    let memory = PathBuf::from("/dev/shm");
    let base = if std::env::var_os("TMPDIR").is_none() && memory.is_dir() {
        memory
    } else {
        std::env::temp_dir()
    };
    let directory = base.join(format!("blockmill-fuzz-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory for the file");
    let path = directory.join("blk00000.dat");
    ScratchFiles {
        blocks: File::create(&path).expect("a file for the blocks"),
        key: File::create(directory.join("xor.dat")).expect("a file for the key"),
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
/// follows it, or it contains a block.
fn may_be_whole(cleared: &[u8], (start, length): (usize, u32), magic: Magic) -> bool {
    let end = start + HEAD + length as usize;
    cleared
        .get(end..)
        .is_some_and(|rest| begins_magic(rest, magic) || is_block(&cleared[start + HEAD..end]))
}

/// Whether `bytes` begin with the magic, or are the beginning of it.
fn begins_magic(bytes: &[u8], magic: Magic) -> bool {
    bytes.starts_with(&magic.0[..bytes.len().min(4)])
}

/// Whether `raw` is exactly a block with the right merkle root.
fn is_block(raw: &[u8]) -> bool {
    Block::decode(raw)
        .is_ok_and(|block| block.bytes().len() == raw.len() && block.merkle_root().hash == block.header().merkle_root.0)
}

fn check(scan: &Scan, files: &BlockFiles, cleared: &[u8], magic: Magic) {
    assert_eq!(scan.bytes, cleared.len() as u64);
    let mut end = 0;
    for record in &scan.records {
        let position = record.position;
        let start = position.offset.checked_sub(RECORD_HEAD).expect("a record has a head");
        assert!(start >= end, "records overlap");
        end = position.offset + u64::from(position.length);
        assert!(end <= scan.bytes, "a record ends outside of the file");
        assert_eq!(position.file, 0);
        let raw = &cleared[start as usize..end as usize];
        assert_eq!(raw[..4], magic.0);
        assert_eq!(raw[4..8], position.length.to_le_bytes());
        assert_eq!(files.read(&position).expect("the block can be read"), raw[8..]);
        assert_eq!(raw[8..8 + Header::LENGTH], record.header.to_bytes());
        assert_eq!(record.hash.0, sha256d(&raw[8..8 + Header::LENGTH]));
        if !begins_magic(&cleared[end as usize..], magic) {
            assert!(is_block(&raw[8..]), "the scan reports a record without evidence");
        }
    }
    assert!(scan.damages.len() <= 100 && (scan.more_damages == 0 || scan.damages.len() == 100));
    assert!(scan.damages.is_sorted_by(|one, other| one.offset < other.offset));
    for damage in &scan.damages {
        assert!(damage.offset < scan.bytes, "damage outside of the file");
        let rest = scan
            .records
            .partition_point(|record| record.position.offset - RECORD_HEAD <= damage.offset);
        if let Some(before) = rest.checked_sub(1).map(|index| scan.records[index].position) {
            assert!(
                damage.offset >= before.offset + u64::from(before.length),
                "damage in a record"
            );
        }
        let _ = (damage.to_string(), damage.is_unfinished_write());
    }
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
    overwrite(&SCRATCH.blocks, &stored);
    overwrite(&SCRATCH.key, &key_bytes);

    let mut files = BlockFiles::new();
    assert_eq!(files.add(&SCRATCH.path).expect("the file is there"), [0]);
    let scan = files.scan(0, magic).expect("the file can be read");
    check(&scan, &files, &cleared, magic);
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
