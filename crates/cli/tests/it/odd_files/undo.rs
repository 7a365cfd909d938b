//! Undo files: records that are missing, damaged, or in another order than the blocks.

use super::{Answers, TIP, clear, sibling, undo_record, undo_records, write};
use crate::common::Scratch;
use bitcoin::hashes::Hash;
use serde_json::Value;

/// A node that runs writes a block before its undo data: the rows end with a word.
#[test]
fn undo_data_that_is_not_there_yet() {
    let scratch = Scratch::new();
    let (folder, _) = clear(&scratch);
    let rev = folder.join("rev00000.dat");
    let whole = std::fs::read(&rev).unwrap();
    let lengths: Vec<usize> = {
        let mut at = 0;
        std::iter::from_fn(|| {
            let length = whole.get(at + 4..at + 8)?;
            at += 8 + u32::from_le_bytes(length.try_into().unwrap()) as usize + 32;
            Some(at)
        })
        .collect()
    };
    for (end, zeros) in [(138, 0), (138, 4_000), (100, 1 << 16)] {
        std::fs::write(&rev, [&whole[..lengths[end - 1]], &vec![0; zeros]].concat()).unwrap();
        let answers = Answers::of(&scratch, &folder);
        for run in [&answers.verify, &answers.export] {
            assert_eq!(run.status, 0, "{run:#?}");
            assert!(run.stderr.contains("have nothing yet for the last"), "{run:#?}");
        }
        assert_eq!(answers.verify.json()["valid"], end);
        assert_eq!(answers.verify.json()["without_undo_yet"], 140 - end);
        let last: Value = serde_json::from_str(answers.export.stdout.lines().last().unwrap()).unwrap();
        assert_eq!(last["height"], end);
    }
    // Damage at the end is none of that.
    for byte in [lengths[138] + 20, lengths[139] - 5] {
        let mut damaged = whole.clone();
        damaged[byte] ^= 1;
        std::fs::write(&rev, &damaged).unwrap();
        let answers = Answers::of(&scratch, &folder);
        assert_eq!((answers.verify.status, answers.export.status), (3, 3), "{byte}");
    }
    // Nor is a block in the middle.
    let mut damaged = whole.clone();
    damaged[lengths[120] + 45] ^= 1;
    std::fs::write(&rev, &damaged).unwrap();
    let answers = Answers::of(&scratch, &folder);
    assert_eq!((answers.verify.status, answers.export.status), (3, 3));
}

/// `verify` and `export` end with the block at a height, since undo data above it is not there yet.
#[track_caller]
fn end_before_undo(answers: &Answers, height: u64) {
    for run in [&answers.verify, &answers.export] {
        assert_eq!(run.status, 0, "{run:#?}");
        assert!(run.stderr.contains("have nothing yet for the last"), "{run:#?}");
    }
    assert_eq!(answers.verify.json()["valid"], height);
    assert_eq!(answers.connect.status, 0);
}

/// Undo data with wrong lengths, in another order than the blocks, among other records, in several
/// files, and of blocks beside the chain.
#[test]
fn undo_data_in_any_order() {
    let scratch = Scratch::new();
    let (folder, blocks) = clear(&scratch);
    let rev = folder.join("rev00000.dat");
    let undo = undo_records(&std::fs::read(&rev).unwrap());
    assert_eq!(undo.len() as u64, TIP);
    let magic = &blocks[0][..4];
    let parsed = |height: usize| -> bitcoin::Block { bitcoin::consensus::deserialize(&blocks[height][8..]).unwrap() };
    // Core does not look at the length of undo data.
    for (height, change) in [(50, 1), (50, -1), (50, 100), (140, 1), (140, -1)] {
        let mut undo = undo.clone();
        let record = &mut undo[height - 1];
        let length = (record.len() as i64 - 40 + change) as u32;
        record[4..8].copy_from_slice(&length.to_le_bytes());
        std::fs::write(&rev, undo.concat()).unwrap();
        Answers::of(&scratch, &folder).are_whole();
    }
    // Other records of the form that many blocks have: a coin with a large script.
    let large = [&[1, 1, 2, 0, 5, 0xcb, 0x28][..], &[0x51; 9_634]].concat();
    let decoy = undo_record(magic, bitcoin::BlockHash::from_byte_array([7; 32]), &large);
    std::fs::write(&rev, [decoy.repeat(1_000), undo.concat()].concat()).unwrap();
    Answers::of(&scratch, &folder).are_whole();
    // A record that is torn before zeros.
    let last = &undo[139];
    for written in [1, 6, 8, 20, last.len() - 10] {
        std::fs::write(&rev, [&undo[..139].concat(), &last[..written], &[0; 4_096]].concat()).unwrap();
        end_before_undo(&Answers::of(&scratch, &folder), 139);
    }
    // The undo data of the last one is not there yet, and that below it is not in the order of
    // heights.
    std::fs::write(&rev, [&undo[..137].concat(), &undo[138][..], &undo[137]].concat()).unwrap();
    end_before_undo(&Answers::of(&scratch, &folder), 139);
    // That of a block beside the chain is there.
    let (stale_record, stale) = sibling(&blocks[139]);
    write(
        &folder,
        &[&blocks[..139].concat(), &stale_record, &blocks[139..].concat()],
    );
    let of_stale = undo_record(magic, stale.header.prev_blockhash, &[0]);
    let is_empty = parsed(139).txdata.len() == 1;
    std::fs::write(&rev, [undo[..138].concat(), of_stale].concat()).unwrap();
    end_before_undo(&Answers::of(&scratch, &folder), if is_empty { 139 } else { 138 });
    // The record of no known block may be damaged undo data of the last ones.
    let unknown = undo_record(magic, bitcoin::BlockHash::from_byte_array([9; 32]), &[0]);
    std::fs::write(&rev, [undo[..138].concat(), unknown].concat()).unwrap();
    assert_eq!(Answers::of(&scratch, &folder).statuses(), [0, 3, 3]);
    // The last block begins a file, and the file of its undo data is not there yet, or has nothing.
    write(&folder, &[&blocks[..140].concat()]);
    std::fs::write(folder.join("blk00001.dat"), [&blocks[140][..], &[0; 65_536]].concat()).unwrap();
    std::fs::write(&rev, undo[..139].concat()).unwrap();
    end_before_undo(&Answers::of(&scratch, &folder), 139);
    // A block file that was written to its end has lost it.
    std::fs::write(folder.join("blk00001.dat"), &blocks[140]).unwrap();
    assert_eq!(Answers::of(&scratch, &folder).statuses(), [0, 3, 3]);
    std::fs::write(folder.join("rev00001.dat"), []).unwrap();
    end_before_undo(&Answers::of(&scratch, &folder), 139);
    // A file begins with a lower block than the last of the file before.
    let first: Vec<u8> = blocks[..138].iter().chain([&blocks[139]]).flatten().copied().collect();
    write(&folder, &[&first]);
    std::fs::write(folder.join("blk00001.dat"), [&blocks[138][..], &blocks[140]].concat()).unwrap();
    std::fs::write(&rev, [&undo[..137].concat(), &undo[138][..]].concat()).unwrap();
    std::fs::write(folder.join("rev00001.dat"), &undo[137]).unwrap();
    end_before_undo(&Answers::of(&scratch, &folder), 139);
}
