//! Damage between records and in them, and writes that are not finished.

use super::{Answers, TIP, clear, command, cover, undo_record, undo_records, write};
use crate::common::{Scratch, blockmill, run};
use std::path::Path;

#[test]
fn a_write_that_is_not_finished() {
    let scratch = Scratch::new();
    let (folder, blocks) = clear(&scratch);
    let (last, before) = blocks.split_last().unwrap();
    let before = before.concat();
    for written in [1, 4, 6, 8, 60, 88, last.len() / 2, last.len() - 40] {
        for zeros in [0, 1 << 16] {
            write(&folder, &[&before, &last[..written], &vec![0; zeros]]);
            let answers = Answers::of(&scratch, &folder).end_with(0, TIP - 1);
            assert_eq!(
                answers.connect.stderr.matches("ends inside").count(),
                1,
                "{:#?}",
                answers.connect
            );
        }
    }
}

#[test]
fn stray_bytes_and_lengths() {
    let scratch = Scratch::new();
    let (folder, blocks) = clear(&scratch);
    let longer = |more: u32| {
        let mut record = blocks[140].clone();
        let length = record.len() as u32 - 8 + more;
        record[4..8].copy_from_slice(&length.to_le_bytes());
        record
    };
    let before = blocks[..140].concat();
    // The head of an older record, as Core before 24 left it.
    write(&folder, &[&before, &blocks[100][..8], &blocks[140]]);
    Answers::of(&scratch, &folder).are_whole();
    // A length that is too long.
    write(&folder, &[&before, &longer(8), &[0; 3_000]]);
    Answers::of(&scratch, &folder).are_whole();
    write(&folder, &[&blocks[..139].concat(), &longer(8), &blocks[139]]);
    Answers::of(&scratch, &folder).are_whole();
    // A record that covers whole others.
    let mut cover = blocks[100].clone();
    let length: usize = blocks[100..110].iter().map(Vec::len).sum();
    cover[4..8].copy_from_slice(&(length as u32 - 8).to_le_bytes());
    let rest = blocks[101..].concat();
    write(&folder, &[&blocks[..100].concat(), &cover, &rest]);
    Answers::of(&scratch, &folder).are_whole();
    // The same with a header of nothing.
    let mut nothing = vec![0x77; 88];
    nothing[..4].copy_from_slice(&blocks[0][..4]);
    let covered: usize = blocks[101..].iter().map(Vec::len).sum();
    nothing[4..8].copy_from_slice(&(80 + covered as u32).to_le_bytes());
    write(&folder, &[&blocks[..101].concat(), &nothing, &rest]);
    // All blocks are found. Whatever that header was, it is no block's.
    Answers::of(&scratch, &folder).end_with(3, TIP).say(&["high-hash"]);
}

/// The set at an earlier height, and exports of a data directory, whatever is between the records.
#[test]
fn readers_of_a_directory_beside_damage() {
    let scratch = Scratch::new();
    let (folder, blocks) = clear(&scratch);
    write(
        &folder,
        &[&blocks[..140].concat(), &blocks[100][..8], &blocks[140], &[0x55; 400]],
    );
    let data = scratch.join("odd-data");
    run(command("connect", &folder).arg("--data").arg(&data)).ends_with(3);
    let stats = |data: &Path, height: &str| {
        let mut stats = blockmill();
        run(stats.args(["stats", "--json", "--at", height, "--data"]).arg(data))
            .ends_with(0)
            .json()
    };
    assert_eq!(
        stats(&data, "103")["hash_serialized_3"],
        stats(&scratch.join("data"), "103")["hash_serialized_3"]
    );
    let mut export = blockmill();
    export.args(["export", "blocks", "--format", "jsonl", "--out", "-", "--data"]);
    let rows = run(export.arg(&data)).ends_with(0).stdout;
    assert!(rows.lines().last().unwrap().contains("\"height\":140"));
}

/// A block with the magic in a script, and one flipped bit in the head of its record.
#[test]
fn a_magic_inside_a_damaged_block() {
    let scratch = Scratch::new();
    let (folder, blocks) = clear(&scratch);
    let magic: [u8; 4] = blocks[0][..4].try_into().unwrap();
    let mut tip: bitcoin::Block = bitcoin::consensus::deserialize(&blocks[140][8..]).unwrap();
    tip.txdata.truncate(1);
    let coinbase = &mut tip.txdata[0];
    coinbase.output.truncate(1);
    coinbase.output[0].value = bitcoin::Amount::ONE_SAT;
    coinbase.input[0].witness.clear();
    let mut script = coinbase.input[0].script_sig.to_bytes();
    script.extend([&[8][..], &magic, &3_000_000u32.to_le_bytes()].concat());
    coinbase.input[0].script_sig = script.into();
    tip.header.merkle_root = tip.compute_merkle_root().unwrap();
    while tip.header.validate_pow(tip.header.target()).is_err() {
        tip.header.nonce += 1;
    }
    let bytes = bitcoin::consensus::serialize(&tip);
    let record = [&magic[..], &(bytes.len() as u32).to_le_bytes(), &bytes].concat();
    let before = blocks[..140].concat();
    let undo = undo_records(&std::fs::read(folder.join("rev00000.dat")).unwrap());
    let own = undo_record(&magic, tip.header.prev_blockhash, &[0]);
    std::fs::write(folder.join("rev00000.dat"), [undo[..139].concat(), own].concat()).unwrap();
    write(&folder, &[&before, &record]);
    Answers::of(&scratch, &folder).are_whole();
    for (byte, bit) in [(0, 0), (3, 7), (6, 0), (7, 0)] {
        let mut record = record.clone();
        record[byte] ^= 1 << bit;
        write(&folder, &[&before, &record]);
        Answers::of(&scratch, &folder).end_with(3, TIP - 1);
    }
    // Its write is not finished.
    for zeros in [0, 5_000] {
        write(&folder, &[&before, &record[..record.len() - 40], &vec![0; zeros]]);
        Answers::of(&scratch, &folder).end_with(0, TIP - 1);
    }
}

/// The record, with a byte of its magic changed.
fn without_magic(record: &[u8]) -> Vec<u8> {
    [&[record[0] ^ 1], &record[1..]].concat()
}

/// Damage that may hide a block is said, whatever harmless damage is before it or with it.
#[test]
fn damage_that_hides_the_last_block() {
    let scratch = Scratch::new();
    let (folder, blocks) = clear(&scratch);
    let before = blocks[..140].concat();
    let last = without_magic(&blocks[140]);
    // A copy of a block that is there reaches over the last one.
    let mut long = blocks[139].clone();
    long[4..8].copy_from_slice(&5_000_000u32.to_le_bytes());
    for copy in [without_magic(&blocks[139]), long] {
        write(&folder, &[&before, &copy]);
        assert_eq!(Answers::of(&scratch, &folder).connect.json()["whole"], true);
        write(&folder, &[&before, &copy, &last]);
        Answers::of(&scratch, &folder).end_with(3, 139);
    }
    // The only copy of the block before has another content.
    let mut forged = blocks[139].clone();
    *forged.last_mut().unwrap() ^= 1;
    write(
        &folder,
        &[
            &blocks[..139].concat(),
            &forged,
            &blocks[138],
            &without_magic(&blocks[139]),
        ],
    );
    assert_eq!(Answers::of(&scratch, &folder).statuses(), [1; 3]);
    // Many heads of records, as Core before 24 left them.
    for count in [99, 100, 101, 250] {
        write(&folder, &[&before, &blocks[100][..8].repeat(count)]);
        let noise = Answers::of(&scratch, &folder);
        write(&folder, &[&before, &blocks[100][..8].repeat(count), &last]);
        let with_last = Answers::of(&scratch, &folder).end_with(3, 139);
        assert_eq!(noise.connect.json()["height"], 139);
        assert_eq!(with_last.connect.json()["why"].as_array().unwrap().len(), 1);
    }
    // A record covers the damage, and blocks whose children are in the next file.
    let inner: Vec<&[u8]> = blocks[61..90].iter().map(Vec::as_slice).collect();
    std::fs::copy(folder.join("rev00000.dat"), folder.join("rev00001.dat")).unwrap();
    std::fs::write(folder.join("blk00001.dat"), blocks[90..140].concat()).unwrap();
    write(&folder, &[&blocks[..60].concat(), &cover(&blocks[60], &inner)]);
    let answers = Answers::of(&scratch, &folder);
    assert_eq!(
        (answers.statuses(), &answers.connect.json()["height"]),
        ([0; 3], &139.into())
    );
    write(
        &folder,
        &[
            &blocks[..60].concat(),
            &cover(&blocks[60], &[&inner[..], &[&last]].concat()),
        ],
    );
    Answers::of(&scratch, &folder)
        .end_with(3, 139)
        .say(&["no block record begins here"]);
}
