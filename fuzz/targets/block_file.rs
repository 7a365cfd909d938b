//! The input is a `blk*.dat` file, or pieces to make one of, with a network and an obfuscation key.
//!
//! Checked: the scan finds records that lie inside the file, do not overlap, begin with magic and
//! length, and are read as what the scan says of them; what neither another record nor the end of
//! the file follows is a block with the right merkle root; damaged places come in order, inside the
//! file and not in a record. In a file of pieces just its whole records are found, whatever is
//! between them; and no damage if that is only padding.
//!
//! The file lies in `TMPDIR`, or in `/dev/shm` where that is not set.

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

/// The files of this process, written anew for every input.
struct Place {
    path: PathBuf,
    blocks: File,
    key: File,
}

static PLACE: LazyLock<Place> = LazyLock::new(|| {
    let memory = PathBuf::from("/dev/shm");
    let base = if std::env::var_os("TMPDIR").is_none() && memory.is_dir() {
        memory
    } else {
        std::env::temp_dir()
    };
    let directory = base.join(format!("blockmill-fuzz-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory for the file");
    let path = directory.join("blk00000.dat");
    Place {
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

/// Whether a file of pieces can be read in one way only: not if there is another magic between them
/// (padding that is stored as zeros reads as the key), nor if a damaged record may be taken for a
/// whole one, nor if the whole head of a record is stored as zeros, magic and length, which is so
/// for one key in 2^64.
fn is_unambiguous(cleared: &[u8], made: &Made, records: &[(usize, u32)], key: [u8; 8], magic: Magic) -> bool {
    let starts = |place| {
        records.iter().any(|record| record.0 - HEAD == place) || made.damaged.iter().any(|record| record.0 == place)
    };
    let lies_in_block = |place| {
        records
            .iter()
            .any(|record| (record.0 - HEAD..record.0 + record.1 as usize).contains(&place))
    };
    let is_zeros = |place: usize| (place..place + HEAD).all(|at| cleared.get(at) == Some(&key[at % 8]));
    let is_other = |place| {
        if starts(place) {
            is_zeros(place)
        } else {
            !lies_in_block(place)
        }
    };
    let magics = cleared.windows(4).enumerate().filter(|(_, bytes)| *bytes == magic.0);
    !magics.map(|(place, _)| place).any(is_other)
        && !made.damaged.iter().any(|record| may_be_whole(cleared, *record, magic))
}

/// Whether another record or the end of the file follows a damaged record, or a block is in it.
fn may_be_whole(cleared: &[u8], (start, length): (usize, u32), magic: Magic) -> bool {
    let end = start + HEAD + length as usize;
    cleared
        .get(end..)
        .is_some_and(|rest| begins_magic(rest, magic) || is_block(&cleared[start + HEAD..end]))
}

/// Whether a magic is here, or as much of it as there are bytes.
fn begins_magic(bytes: &[u8], magic: Magic) -> bool {
    bytes.starts_with(&magic.0[..bytes.len().min(4)])
}

/// Whether these are just a block, with the right merkle root.
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
            assert!(is_block(&raw[8..]), "a record is believed that nothing speaks for");
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
        // A magic in the right place is stored as zeros then.
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
    overwrite(&PLACE.blocks, &stored);
    overwrite(&PLACE.key, &key_bytes);

    let mut files = BlockFiles::new();
    assert_eq!(files.add(&PLACE.path).expect("the file is there"), 0..1);
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
