use super::*;
use blockmill_block::undo::write_record;
use blockmill_block::{BlockHash, CoinRef};

const MAGIC: Magic = Magic([0xfa, 0xbf, 0xb5, 0xda]);

fn parent(number: u8) -> BlockHash {
    BlockHash([number; 32])
}

/// A block with this parent and so many transactions of one input, the coinbase not counted.
fn block(parent: BlockHash, transactions: u8) -> Block {
    let mut bytes = vec![0; 4];
    bytes.extend(parent.0);
    bytes.extend([0; 44]);
    bytes.push(transactions + 1);
    for _ in 0..=transactions {
        bytes.extend([1, 0, 0, 0, 1]);
        bytes.extend([0; 41]);
        bytes.extend([1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    }
    Block::decode(bytes).unwrap()
}

fn undo(transactions: u8, value: i64) -> BlockUndo {
    let mut undo = BlockUndo::default();
    for _ in 0..transactions {
        undo.push_coin(CoinRef {
            value,
            height: 7,
            is_coinbase: false,
            script_pubkey: &[0x51],
        });
        undo.end_transaction();
    }
    undo
}

fn record(number: u8, transactions: u8, value: i64) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_record(MAGIC, &parent(number), &undo(transactions, value), &mut bytes);
    bytes
}

/// An undo file of these bytes, obfuscated with the key.
fn open(bytes: &[u8], key: [u8; 8]) -> (tempfile::TempDir, UndoFile) {
    let directory = tempfile::tempdir().unwrap();
    let mut bytes = bytes.to_vec();
    XorKey::new(key).apply(&mut bytes, 0);
    std::fs::write(directory.path().join("xor.dat"), key).unwrap();
    std::fs::write(directory.path().join("blk00007.dat"), []).unwrap();
    std::fs::write(directory.path().join("rev00007.dat"), bytes).unwrap();
    let mut files = BlockFiles::new();
    let file = files.add(directory.path()).unwrap()[0];
    assert!(files.has_undo_file(file));
    let undo_file = files.undo_file(file, MAGIC).unwrap().unwrap();
    (directory, undo_file)
}

fn find(file: &UndoFile, number: u8, transactions: u8, rank: usize) -> Option<BlockUndo> {
    let block = block(parent(number), transactions);
    file.find(&block, rank, &mut UndoCursor::default()).unwrap()
}

#[test]
fn siblings_are_found_one_after_the_other() {
    let bytes = [1, 2, 3].map(|value| record(7, 1, value)).concat();
    let (_directory, file) = open(&bytes, [0; 8]);
    for rank in 0..4 {
        let mut cursor = UndoCursor::default();
        let found = std::iter::from_fn(|| file.find(&block(parent(7), 1), rank, &mut cursor).unwrap());
        let mut values: Vec<_> = found.map(|undo| undo.coins().at(0).value).collect();
        values.sort_unstable();
        assert_eq!(values, [1, 2, 3]);
    }
}

#[test]
fn records_are_found_by_their_checksums() {
    let mut bytes: Vec<u8> = (1..=4).flat_map(|number| record(number, 2, number.into())).collect();
    // Damage between two records, a record of a block without transactions, and padding that
    // was never written.
    bytes.extend([0xfa, 0xbf, 1, 2, 3]);
    bytes.extend(record(5, 0, 0));
    let key = [9, 8, 7, 6, 5, 4, 3, 2];
    let whole = bytes.len();
    bytes.extend((whole..whole + 1000).map(|at| key[at % 8]));
    let (directory, file) = open(&bytes, key);
    for rank in [0, 2, 4, 5, 6, usize::MAX] {
        for number in [3, 4, 1, 2] {
            assert_eq!(find(&file, number, 2, rank), Some(undo(2, number.into())));
        }
        assert_eq!(find(&file, 5, 0, rank), Some(undo(0, 0)));
        assert!(find(&file, 6, 2, rank).is_none());
        assert!(find(&file, 3, 1, rank).is_none());
        assert!(find(&file, 3, 0, rank).is_none());
    }
    // A file that became shorter.
    let path = directory.path().join("rev00007.dat");
    File::options().write(true).open(path).unwrap().set_len(50).unwrap();
    let error = file.find(&block(parent(4), 2), 3, &mut UndoCursor::default());
    assert!(matches!(error, Err(FileError::Read { offset, .. }) if offset > 0));
}

#[test]
fn a_block_file_without_an_undo_file() {
    let directory = tempfile::tempdir().unwrap();
    let mut files = BlockFiles::new();
    for name in ["blk00007.dat", "other.dat"] {
        std::fs::write(directory.path().join(name), []).unwrap();
        let file = files.add(&directory.path().join(name)).unwrap()[0];
        assert!(!files.has_undo_file(file));
        assert!(files.undo_file(file, MAGIC).unwrap().is_none());
    }
}

/// Old files are linked one by one: the undo file is beside the link, or beside the file.
#[test]
fn undo_files_of_links() {
    let directory = tempfile::tempdir().unwrap();
    let (blocks, disk) = (directory.path().join("blocks"), directory.path().join("disk"));
    std::fs::create_dir(&blocks).unwrap();
    std::fs::create_dir(&disk).unwrap();
    std::fs::write(disk.join("blk00003.dat"), []).unwrap();
    std::fs::write(disk.join("rev00003.dat"), record(1, 1, 5)).unwrap();
    std::os::unix::fs::symlink(disk.join("blk00003.dat"), blocks.join("blk00000.dat")).unwrap();
    let mut files = BlockFiles::new();
    files.add(&blocks).unwrap();
    let value = |files: &BlockFiles| {
        let undo_file = files.undo_file(0, MAGIC).unwrap().unwrap();
        find(&undo_file, 1, 1, 0).unwrap().coins().at(0).value
    };
    assert_eq!(value(&files), 5);
    std::fs::write(blocks.join("rev00000.dat"), record(1, 1, 6)).unwrap();
    assert_eq!(value(&files), 6);
}

/// A record whose length covers those after it hides none of them, and is found itself.
#[test]
fn no_record_hides_others() {
    let mut bytes = record(1, 1, 1);
    let inner: Vec<u8> = (2..6).flat_map(|number| record(number, 1, number.into())).collect();
    let length = u32::from_le_bytes(bytes[4..8].try_into().unwrap()) + inner.len() as u32;
    bytes[4..8].copy_from_slice(&length.to_le_bytes());
    bytes.extend(inner);
    let (_directory, file) = open(&bytes, [0; 8]);
    for number in 1..6 {
        assert_eq!(find(&file, number, 1, 0), Some(undo(1, number.into())));
    }
}

/// Core knows where undo data is, and does not look at its length.
#[test]
fn a_wrong_length_is_no_damage() {
    for transactions in [0, 1, 2] {
        let records: Vec<_> = (1..=5)
            .map(|number| record(number, transactions, number.into()))
            .collect();
        for wrong in [0, 1, 2, 4] {
            for length in [0, 1, 5, 7, 11, 13, 106, u32::MAX] {
                let mut records = records.clone();
                records[wrong][4..8].copy_from_slice(&length.to_le_bytes());
                let (_directory, file) = open(&[records.concat(), vec![0; 50]].concat(), [0; 8]);
                for number in 1..=5 {
                    let expected = undo(transactions, number.into());
                    assert_eq!(
                        find(&file, number, transactions, usize::from(number) - 1),
                        Some(expected),
                        "{wrong} {length}"
                    );
                }
            }
        }
    }
}

/// Any number of records of the same form, before those of the chain, between and after them:
/// all are found, and each record is read a few times.
#[test]
fn decoys_hide_nothing() {
    let decoy = |count: usize| record(99, 1, 1).repeat(count);
    let chain = || (1..=90).map(|number| record(number, 1, number.into()));
    let before = [decoy(20_000), chain().collect::<Vec<_>>().concat()].concat();
    let between: Vec<u8> = chain().flat_map(|record| [decoy(300), record].concat()).collect();
    let after = [chain().collect::<Vec<_>>().concat(), decoy(20_000)].concat();
    for bytes in [before, between, after] {
        let (_directory, file) = open(&bytes, [0; 8]);
        for number in 1..=90 {
            let found = find(&file, number, 1, usize::from(number) - 1);
            assert_eq!(found, Some(undo(1, number.into())));
        }
        // A block tries all there are, if it has none.
        let spent = FILE_BUDGET * file.length + FILE_BUDGET_BASE - file.budget.load(Ordering::Relaxed);
        assert!(spent < 8 * file.length, "{spent} of {}", file.length);
    }
}

/// What all blocks read has a bound. Beyond it nobody says that there is no undo data.
#[test]
fn many_records_of_one_form() {
    let others: Vec<u8> = record(9, 0, 0).repeat(20_000);
    let (_directory, file) = open(&[others, record(1, 0, 0)].concat(), [0; 8]);
    let start = std::time::Instant::now();
    for _ in 0..10_000 {
        assert!(find(&file, 2, 0, 0).is_none());
        assert!(find(&file, 1, 0, 0).is_some());
    }
    assert!(start.elapsed().as_secs() < 5, "{:?}", start.elapsed());
    let others: Vec<u8> = record(9, 1, 1).repeat(20_000);
    let (_directory, file) = open(&[others, record(1, 1, 1)].concat(), [0; 8]);
    assert!(find(&file, 1, 1, 20_000).is_some());
    let searches = (0..1_000).map(|_| {
        let mut cursor = UndoCursor::default();
        let found = file.find(&block(parent(2), 1), 0, &mut cursor);
        (found.map_err(|error| error.to_string()), cursor.tried)
    });
    let searches: Vec<_> = searches.collect();
    let tried: u64 = searches.iter().map(|(_, tried)| tried).sum();
    assert!(
        tried * 40 < FILE_BUDGET * file.length + FILE_BUDGET_BASE + 1_000 * OWN_BUDGET * 300,
        "{tried}"
    );
    assert_eq!(searches[0].0, Ok(None));
    let last = searches[999].0.clone().unwrap_err();
    assert!(last.contains("too many records"), "{last}");
    // The nearest are tried even so.
    assert!(find(&file, 1, 1, 20_000).is_some());
}

/// A file of magics alone: the tables are bounded, records before them are found, and nobody
/// says that others are not there.
#[test]
fn tables_are_bounded() {
    let mut bytes = [record(1, 1, 5), record(2, 0, 0)].concat();
    bytes.extend([&MAGIC.0[..], &8u32.to_le_bytes()].concat().repeat(4 << 20));
    let (_directory, file) = open(&bytes, [0; 8]);
    assert!(file.memory() < 23 << 20, "{}", file.memory());
    assert_eq!(find(&file, 1, 1, 0), Some(undo(1, 5)));
    assert_eq!(find(&file, 2, 0, 1), Some(undo(0, 0)));
    let error = file.find(&block(parent(3), 1), 0, &mut UndoCursor::default());
    assert!(error.unwrap_err().to_string().contains("too many records"));
}

/// What follows a record: known blocks in any order, padding, and a write that is not finished.
#[test]
fn the_rest_is_known_or_damaged() {
    let parents: Vec<_> = (1..=6).map(parent).collect();
    let records: Vec<_> = [1, 3, 2, 5, 4].map(|number| record(number, number % 3, 7)).concat();
    let known = |bytes: &[u8], parents: &[BlockHash]| {
        let key = [9, 8, 7, 6, 5, 4, 3, 2];
        [[0; 8], key].map(|key| {
            let (_directory, file) = open(bytes, key);
            file.is_rest_known(None, parents).unwrap()
        })
    };
    assert_eq!(known(&[], &[]), [true; 2]);
    assert_eq!(known(&records, &parents), [true; 2]);
    assert_eq!(known(&[&records[..], &[0; 9_000]].concat(), &parents), [true; 2]);
    // A block that is not known.
    assert_eq!(known(&records, &parents[..4]), [false; 2]);
    assert_eq!(known(&[&records[..], &[0; 9_000], &[1]].concat(), &parents), [false; 2]);
    // After a record that was found.
    let (_directory, file) = open(&[record(9, 1, 7), records.clone()].concat(), [0; 8]);
    let mut cursor = UndoCursor::default();
    assert!(!file.is_rest_known(None, &parents).unwrap());
    assert!(file.find(&block(parent(9), 1), 0, &mut cursor).unwrap().is_some());
    assert!(file.is_rest_known(Some(&cursor), &parents).unwrap());
    // Every cut of a further record, and every bit of it that is another.
    let last = record(6, 2, 7);
    for zeros in [0, 4_000] {
        for length in 0..last.len() - TORN_TAIL_TESTED {
            let bytes = [&records[..], &last[..length], &vec![0; zeros]].concat();
            assert_eq!(known(&bytes, &parents), [true; 2], "{length} {zeros}");
        }
        for bit in 0..last.len() * 8 {
            let mut last = last.clone();
            last[bit / 8] ^= 1 << (bit % 8);
            let bytes = [&records[..], &last, &vec![0; zeros]].concat();
            // The length does not count.
            let is_known = (4..8).contains(&(bit / 8));
            assert_eq!(known(&bytes, &parents), [is_known; 2], "{bit} {zeros}");
        }
    }
}

/// Bytes at the end of a record without which, before zeros, it is not known to be torn.
const TORN_TAIL_TESTED: usize = 4;
