//! Undo files: records that are missing, damaged, or in another order than the blocks.

use super::{Answers, TIP, clear, remade, sibling, undo_record, undo_records, write};
use crate::common::{Scratch, blockmill, run};
use bitcoin::hashes::Hash;
use blockmill_block::{BlockUndo, Network};
use blockmill_chain::ChainBlocks;
use blockmill_rules::Params;
use serde_json::Value;
use std::sync::atomic::AtomicBool;

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
    let answers = Answers::of(&scratch, &folder);
    if is_empty {
        end_before_undo(&answers, 139);
    } else {
        // The node has refused the chain of more work, or is about to connect it.
        assert_eq!(answers.statuses(), [0, 3, 3]);
        answers.verify.says(&["the undo files do not tell"]);
    }
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

/// The block with two transactions changing places, each of which spends one coin: another block of
/// the same form.
fn with_other_order(record: &[u8]) -> Option<(Vec<u8>, bitcoin::Block)> {
    let mut block: bitcoin::Block = bitcoin::consensus::deserialize(&record[8..]).unwrap();
    let spends_one = |number: usize| {
        block
            .txdata
            .get(number)
            .is_some_and(|transaction| transaction.input.len() == 1)
    };
    let at = (1..block.txdata.len()).find(|&at| spends_one(at) && spends_one(at + 1))?;
    let first = block.txdata[at].compute_txid();
    if block.txdata[at + 1].input[0].previous_output.txid == first {
        return None;
    }
    block.txdata.swap(at, at + 1);
    let root = block.witness_root()?;
    let commitment = bitcoin::Block::compute_witness_commitment(&root, &[0; 32]);
    for output in &mut block.txdata[0].output {
        let mut script = output.script_pubkey.to_bytes();
        if script.starts_with(&[0x6a, 0x24, 0xaa, 0x21, 0xa9, 0xed]) {
            script[6..38].copy_from_slice(&commitment.to_byte_array());
            output.script_pubkey = script.into();
        }
    }
    Some(remade(block))
}

/// A block and one beside it have the same form. Their undo data is told apart by its coins: where
/// the other's comes first, and where the block's own is not there yet.
#[test]
fn undo_data_of_a_sibling() {
    let scratch = Scratch::new();
    let (folder, blocks) = clear(&scratch);
    let rev = folder.join("rev00000.dat");
    let undo = undo_records(&std::fs::read(&rev).unwrap());
    let found = (1..=TIP as usize)
        .rev()
        .find_map(|height| Some((height, with_other_order(&blocks[height])?)));
    let (height, (record, other)) = found.unwrap();
    let of_other = {
        let data = &undo[height - 1][8..undo[height - 1].len() - 32];
        let block: bitcoin::Block = bitcoin::consensus::deserialize(&blocks[height][8..]).unwrap();
        let moved = |(own, other): (&bitcoin::Transaction, &bitcoin::Transaction)| own != other;
        let at = block.txdata.iter().zip(&other.txdata).skip(1).position(moved).unwrap();
        let ends = ends_of_transactions(data);
        let (first, second) = (&data[ends[at]..ends[at + 1]], &data[ends[at + 1]..ends[at + 2]]);
        assert_ne!(first, second);
        let data = [&data[..ends[at]], second, first, &data[ends[at + 2]..]].concat();
        undo_record(&blocks[0][..4], other.header.prev_blockhash, &data)
    };
    let (below, own) = (undo[..height - 1].concat(), &undo[height - 1]);
    write(&folder, &[&blocks[..=height].concat(), &record]);
    for records in [[own, &of_other], [&of_other, own]] {
        std::fs::write(&rev, [&below, &records[0][..], records[1]].concat()).unwrap();
        let answers = Answers::of(&scratch, &folder);
        assert_eq!(answers.statuses(), [0; 3], "{:#?}", answers.verify);
        let mut export = blockmill();
        export.args(["export", "blocks", "--format", "jsonl", "--out", "-", "--data"]);
        let of_data = run(export.arg(scratch.join("odd-data"))).ends_with(0);
        assert!(of_data.stdout == answers.export.stdout);
        // The chain that workers of a cluster get.
        let params = Params::new(Network::Regtest, None);
        let found = ChainBlocks::of_files(
            std::slice::from_ref(&folder),
            &[],
            &params,
            &AtomicBool::new(false),
            &mut (),
        );
        let bytes = found.unwrap().unwrap().to_bytes();
        let of_bytes = ChainBlocks::from_bytes(&bytes, &params).unwrap();
        let mut data = Vec::new();
        of_bytes.read(height as u32).unwrap().undo.write(&mut data);
        assert!(data == own[8..own.len() - 32]);
        assert!(of_bytes.to_bytes() == bytes);
    }
    // The node has connected the other one, and not this one.
    std::fs::write(&rev, [&below[..], &of_other].concat()).unwrap();
    let answers = Answers::of(&scratch, &folder);
    assert_eq!(answers.statuses(), [0; 3], "{:#?}", answers.verify);
    assert_eq!(answers.verify.json()["valid"], height);
    let last: Value = serde_json::from_str(answers.export.stdout.lines().last().unwrap()).unwrap();
    assert_eq!(last["block_hash"], other.block_hash().to_string());
}

/// Where the coins of each transaction end in undo data, and where the first begin.
fn ends_of_transactions(data: &[u8]) -> Vec<usize> {
    let undo = BlockUndo::decode(data).unwrap();
    let mut ends = Vec::new();
    for transactions in 0..=undo.transaction_count() {
        let mut part = BlockUndo::default();
        for number in 0..transactions {
            undo.transaction(number).iter().for_each(|coin| part.push_coin(coin));
            part.end_transaction();
        }
        let mut bytes = Vec::new();
        part.write(&mut bytes);
        // The number of transactions has one byte here.
        ends.push(bytes.len());
    }
    ends
}
