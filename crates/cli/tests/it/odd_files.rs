//! The same questions on the same odd files: `connect`, `verify`, `export` and the readers of a
//! directory give one answer, whatever a node, a disk or a person has left among the block files.

use crate::common::core_folder::made;
use crate::common::{Run, Scratch, blockmill, records, run};
use bitcoin::hashes::Hash;
use serde_json::Value;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Heights of the chain.
const TIP: u64 = 140;

/// What commands say of the same block files.
struct Answers {
    connect: Run,
    verify: Run,
    export: Run,
}

impl Answers {
    /// Asks about the folder of block files `folder`; the data directory is new.
    fn of(scratch: &Scratch, folder: &Path) -> Self {
        let data = scratch.join("odd-data");
        let _ = std::fs::remove_dir_all(&data);
        let mut connect = command("connect", folder);
        let mut export = blockmill();
        export.args([
            "export",
            "blocks",
            "--network",
            "regtest",
            "--format",
            "jsonl",
            "--out",
            "-",
        ]);
        Self {
            connect: run(connect.arg("--data").arg(&data)),
            verify: run(&mut command("verify", folder)),
            export: run(export.arg("--blocks").arg(folder)),
        }
    }

    /// All have the whole chain.
    #[track_caller]
    fn are_whole(self) -> Self {
        self.end_with(0, TIP)
    }

    /// All end with this status and this height, and say so in JSON.
    #[track_caller]
    fn end_with(self, status: i32, height: u64) -> Self {
        let whole = Value::Bool(status == 0);
        let connect = self.connect.json();
        assert_eq!(
            (self.connect.status, &connect["height"]),
            (status, &height.into()),
            "{:#?}",
            self.connect
        );
        let verify = self.verify.json();
        assert_eq!(
            (self.verify.status, &verify["valid"]),
            (status, &height.into()),
            "{:#?}",
            self.verify
        );
        assert_eq!(self.export.status, status, "{:#?}", self.export.stderr);
        let last = self.export.stdout.lines().last().unwrap_or("null");
        let row: Value = serde_json::from_str(last).unwrap();
        assert_eq!(row["height"], height);
        for json in [connect, verify] {
            assert_eq!(json["whole"], whole, "{json:#}");
            assert_eq!(json["why"].as_array().unwrap().is_empty(), status == 0, "{json:#}");
        }
        self
    }

    /// The statuses with which they end.
    fn statuses(&self) -> [i32; 3] {
        [self.connect.status, self.verify.status, self.export.status]
    }

    /// Each says these words on standard error.
    #[track_caller]
    fn say(self, words: &[&str]) -> Self {
        let Self {
            connect,
            verify,
            export,
        } = self;
        Self {
            connect: connect.says(words),
            verify: verify.says(words),
            export: export.says(words),
        }
    }
}

fn command(name: &str, folder: &Path) -> Command {
    let mut command = blockmill();
    command
        .args([name, "--network", "regtest", "--json", "--blocks"])
        .arg(folder);
    command
}

/// The chain in one block file without a key, with one undo file: blocks and undo data by height.
fn clear(scratch: &Scratch) -> (PathBuf, Vec<Vec<u8>>) {
    let (_, chain) = made(scratch);
    let folder = scratch.join("clear");
    std::fs::create_dir(&folder).unwrap();
    let blocks: Vec<Vec<u8>> = records(&chain).into_iter().map(|range| chain[range].to_vec()).collect();
    std::fs::write(folder.join("blk00000.dat"), blocks.concat()).unwrap();
    std::fs::copy(scratch.join("data").join("undo.dat"), folder.join("rev00000.dat")).unwrap();
    (folder, blocks)
}

fn write(folder: &Path, parts: &[&[u8]]) {
    std::fs::write(folder.join("blk00000.dat"), parts.concat()).unwrap();
}

#[test]
fn a_file_in_the_middle_is_missing() {
    let scratch = Scratch::new();
    let (folder, blocks) = clear(&scratch);
    let files = [0..50, 50..90, 90..141];
    for (number, heights) in files.into_iter().enumerate() {
        std::fs::write(folder.join(format!("blk{number:05}.dat")), blocks[heights].concat()).unwrap();
        let rev = folder.join(format!("rev{number:05}.dat"));
        std::fs::copy(scratch.join("data").join("undo.dat"), rev).unwrap();
    }
    Answers::of(&scratch, &folder).are_whole();
    let set = scratch.join("set.utxo");
    let mut dump = blockmill();
    dump.args(["snapshot", "dump", "--at", "49", "--data"])
        .arg(scratch.join("data"));
    run(dump.arg(&set)).ends_with(0);
    let audit = || run(command("audit", &folder).arg("--snapshot").arg(&set));
    assert_eq!(audit().ends_with(0).json()["whole"], true);
    std::fs::remove_file(folder.join("blk00001.dat")).unwrap();
    let incomplete = audit().ends_with(3).json();
    assert_eq!(
        (&incomplete["verdict"], &incomplete["whole"]),
        (&"incomplete".into(), &false.into())
    );
    Answers::of(&scratch, &folder)
        .end_with(3, 49)
        .say(&["51 blocks are left over: their parent is in none of the files"]);
    // A link that leads nowhere says so, even for the last file.
    std::fs::write(folder.join("blk00001.dat"), blocks[50..90].concat()).unwrap();
    std::fs::remove_file(folder.join("blk00002.dat")).unwrap();
    symlink("/nonexistent/blk00002.dat", folder.join("blk00002.dat")).unwrap();
    Answers::of(&scratch, &folder).end_with(3, 89).say(&[
        "1 block files are missing",
        "blk00002.dat",
        "a link to a file that is not there",
    ]);
    // As of a pruned node.
    std::fs::remove_file(folder.join("blk00002.dat")).unwrap();
    std::fs::remove_file(folder.join("blk00000.dat")).unwrap();
    let data = scratch.join("pruned");
    run(command("connect", &folder).arg("--data").arg(&data))
        .ends_with(3)
        .says(&["left over", "pruned", "snapshot load --headers"]);
    run(&mut command("verify", &folder))
        .ends_with(3)
        .says(&["pruned", "snapshot load --headers"]);
}

#[test]
fn linked_files_with_a_key() {
    let scratch = Scratch::new();
    let (folder, _) = made(&scratch);
    let disk = scratch.join("disk");
    std::fs::create_dir(&disk).unwrap();
    for (name, target) in [("blk00000.dat", "old-blocks"), ("rev00000.dat", "old-undo")] {
        std::fs::rename(folder.join(name), disk.join(target)).unwrap();
        symlink(disk.join(target), folder.join(name)).unwrap();
    }
    Answers::of(&scratch, &folder).are_whole();
    // Only the blocks are linked.
    std::fs::remove_file(folder.join("rev00000.dat")).unwrap();
    std::fs::rename(disk.join("old-undo"), folder.join("rev00000.dat")).unwrap();
    Answers::of(&scratch, &folder).are_whole();
    // The folder is linked, too.
    let link = scratch.join("link");
    symlink(&folder, &link).unwrap();
    Answers::of(&scratch, &link).are_whole();
}

#[test]
fn what_is_no_regular_file_is_named() {
    let scratch = Scratch::new();
    let (folder, _) = made(&scratch);
    let fifo = folder.join("blk00002.dat");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    std::fs::create_dir(folder.join("blk00003.dat")).unwrap();
    Answers::of(&scratch, &folder).are_whole().say(&[
        "blk00002.dat: passed over: it is no regular file",
        "blk00003.dat: passed over",
    ]);
    run(command("connect", &fifo).arg("--data").arg(scratch.join("none")))
        .ends_with(3)
        .says(&["blk00002.dat", "no regular file"]);
    // An undo file and a key that are pipes.
    std::fs::remove_file(folder.join("rev00001.dat")).unwrap();
    assert!(
        Command::new("mkfifo")
            .arg(folder.join("rev00001.dat"))
            .status()
            .unwrap()
            .success()
    );
    run(&mut command("verify", &folder))
        .ends_with(3)
        .says(&["rev00001.dat", "no regular file"]);
    std::fs::remove_file(folder.join("xor.dat")).unwrap();
    assert!(
        Command::new("mkfifo")
            .arg(folder.join("xor.dat"))
            .status()
            .unwrap()
            .success()
    );
    run(&mut command("verify", &folder))
        .ends_with(3)
        .says(&["xor.dat", "no regular file"]);
}

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

/// What makes a bad copy of a block.
type Change<'a> = &'a dyn Fn(&mut bitcoin::Block);

/// Any number of bad copies before the good one: with witnesses that are not the block's, without
/// its witnesses, and with its last transactions doubled.
#[test]
fn bad_copies_before_the_good_one() {
    let scratch = Scratch::new();
    let (folder, blocks) = clear(&scratch);
    let bad = |record: &[u8], change: Change<'_>| {
        let mut block: bitcoin::Block = bitcoin::consensus::deserialize(&record[8..]).unwrap();
        change(&mut block);
        let bytes = bitcoin::consensus::serialize(&block);
        [&record[..4], &(bytes.len() as u32).to_le_bytes()[..], &bytes].concat()
    };
    let forged = |block: &mut bitcoin::Block| {
        for transaction in block.txdata.iter_mut().skip(1) {
            for input in &mut transaction.input {
                if !input.witness.is_empty() {
                    input.witness.push(b"forged");
                }
            }
        }
    };
    let stripped = |block: &mut bitcoin::Block| {
        for input in block.txdata.iter_mut().flat_map(|transaction| &mut transaction.input) {
            input.witness.clear();
        }
    };
    let doubled = |block: &mut bitcoin::Block| {
        // A tree of an odd number of leaves has the root of the same with the last one doubled.
        if block.txdata.len() % 2 == 1 && block.txdata.len() > 1 {
            let last = block.txdata.last().cloned();
            block.txdata.extend(last);
        }
    };
    let kinds: [(&str, Change<'_>); 3] = [("forged", &forged), ("stripped", &stripped), ("doubled", &doubled)];
    for (name, change) in kinds {
        let copies: Vec<(usize, Vec<u8>)> = blocks
            .iter()
            .map(|record| bad(record, change))
            .enumerate()
            .filter(|(height, copy)| *copy != blocks[*height])
            .collect();
        let (height, copy) = copies.last().unwrap_or_else(|| panic!("no block can be {name}"));
        for count in [1, 7, 8, 9, 40] {
            let parts = [
                blocks[..*height].concat(),
                copy.repeat(count),
                blocks[*height..].concat(),
            ];
            write(&folder, &[&parts.concat()]);
            let answers = Answers::of(&scratch, &folder).are_whole();
            assert!(!answers.export.stdout.contains(&hex(b"forged")), "{name}");
        }
        // Without the good one.
        write(
            &folder,
            &[
                &blocks[..*height].concat(),
                &copy.repeat(9),
                &blocks[*height + 1..].concat(),
            ],
        );
        let answers = Answers::of(&scratch, &folder);
        assert_eq!(answers.statuses(), [1; 3], "{name}");
        let (connect, verify) = (answers.connect.json(), answers.verify.json());
        assert_eq!(connect["why"], verify["why"], "{name}");
        let reason = connect["rejected"][0]["reason"].as_str().unwrap();
        answers.say(&[reason]);
    }
}

/// Blocks inside the record of another, which shows only when that block is read: nothing after it
/// is without a parent.
#[test]
fn blocks_inside_the_last_record() {
    let scratch = Scratch::new();
    let (folder, blocks) = clear(&scratch);
    let cover = |from: usize, to: usize| {
        let mut cover = blocks[from].clone();
        let length: usize = blocks[from..=to].iter().map(Vec::len).sum();
        cover[4..8].copy_from_slice(&(length as u32 - 8).to_le_bytes());
        [cover, blocks[from + 1..=to].concat()].concat()
    };
    // All above a block, and once more inside what was hidden.
    write(&folder, &[&blocks[..100].concat(), &cover(100, 140)]);
    let answers = Answers::of(&scratch, &folder);
    assert_eq!(answers.connect.status, 0, "{:#?}", answers.connect);
    assert_eq!(answers.connect.json()["height"], TIP);
    assert_eq!(answers.verify.json()["valid"], TIP, "{:#?}", answers.verify);
    assert_eq!(answers.verify.status, 0);
    // What went to standard output cannot be taken back.
    assert_eq!(answers.export.status, 3);
    let exported = |folder: &Path| {
        let out = scratch.join("rows.jsonl");
        let mut export = blockmill();
        export.args(["export", "blocks", "--network", "regtest", "--force", "--out"]);
        run(export.arg(&out).arg("--blocks").arg(folder)).ends_with(0);
        std::fs::read(&out).unwrap()
    };
    let rows = exported(&folder);
    let snapshot = scratch.join("utxo.dat");
    let mut dump = blockmill();
    dump.args(["snapshot", "dump", "--data"]);
    run(dump.arg(scratch.join("odd-data")).arg(&snapshot)).ends_with(0);
    let mut audit = blockmill();
    audit.args(["audit", "--network", "regtest", "--json", "--snapshot"]);
    let audited = run(audit.arg(&snapshot).arg("--blocks").arg(&folder)).ends_with(0);
    assert_eq!(audited.json()["verdict"], "proved");
    write(&folder, &[&blocks.concat()]);
    assert!(rows == exported(&folder));
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

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

/// The records of an undo file of whole records, the first one for height 1.
fn undo_records(file: &[u8]) -> Vec<Vec<u8>> {
    let mut at = 0;
    std::iter::from_fn(|| {
        let length = file.get(at + 4..at + 8)?;
        let start = at;
        at += 8 + u32::from_le_bytes(length.try_into().unwrap()) as usize + 32;
        Some(file[start..at].to_vec())
    })
    .collect()
}

/// A record of undo data whose block has this parent.
fn undo_record(magic: &[u8], parent: bitcoin::BlockHash, data: &[u8]) -> Vec<u8> {
    let sum = bitcoin::hashes::sha256d::Hash::hash(&[&parent.to_byte_array()[..], data].concat());
    let length = (data.len() as u32).to_le_bytes();
    [magic, &length, data, &sum.to_byte_array()].concat()
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
    let mut stale = parsed(139);
    stale.txdata.truncate(1);
    stale.txdata[0].input[0].witness.clear();
    stale.txdata[0].output.truncate(1);
    stale.header.merkle_root = stale.compute_merkle_root().unwrap();
    while stale.header.validate_pow(stale.header.target()).is_err() {
        stale.header.nonce += 1;
    }
    let bytes = bitcoin::consensus::serialize(&stale);
    let stale_record = [magic, &(bytes.len() as u32).to_le_bytes(), &bytes].concat();
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

/// Without its key, and of another network, a directory is not taken for an empty one.
#[test]
fn a_missing_key_and_another_network() {
    let scratch = Scratch::new();
    let (folder, _) = made(&scratch);
    std::fs::remove_file(folder.join("xor.dat")).unwrap();
    let verify = run(&mut command("verify", &folder))
        .ends_with(3)
        .says(&["xor.dat missing"]);
    assert_eq!(verify.json()["whole"], false);
    let other = scratch.join("clear-of-another");
    std::fs::create_dir(&other).unwrap();
    std::fs::copy(scratch.join("chain").join("blk00000.dat"), other.join("blk00000.dat")).unwrap();
    let mut testnet = blockmill();
    testnet
        .args(["verify", "--network", "testnet3", "--json", "--blocks"])
        .arg(&other);
    let verify = run(&mut testnet).ends_with(3).says(&["another network (regtest)"]);
    assert_eq!(verify.json()["why"].as_array().unwrap().len(), 1);
}

/// The record, with a byte of its magic changed.
fn without_magic(record: &[u8]) -> Vec<u8> {
    [&[record[0] ^ 1], &record[1..]].concat()
}

/// The record of a block, with a length that covers others, and these.
fn cover(record: &[u8], others: &[&[u8]]) -> Vec<u8> {
    let others = others.concat();
    let length = (record.len() - 8 + others.len()) as u32;
    [&record[..4], &length.to_le_bytes(), &record[8..], &others].concat()
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

/// The network's first block is known without a file. A file of undo data has no blocks.
#[test]
fn the_first_block_is_in_no_file() {
    let scratch = Scratch::new();
    let (folder, blocks) = clear(&scratch);
    write(&folder, &[&blocks[1..].concat()]);
    let without = Answers::of(&scratch, &folder).are_whole();
    write(&folder, &[&blocks.concat()]);
    let with = Answers::of(&scratch, &folder).are_whole();
    assert_eq!(without.export.stdout, with.export.stdout);
    let undo = std::fs::read(folder.join("rev00000.dat")).unwrap();
    write(&folder, &[&undo]);
    let answers = Answers::of(&scratch, &folder);
    assert_eq!((answers.connect.status, answers.verify.status), (3, 3));
}

/// Blocks that lie inside the record of another: a second run has the same answer, and earlier sets
/// are there, also once the files were moved.
#[test]
fn a_second_run_over_hidden_blocks() {
    let scratch = Scratch::new();
    let (folder, blocks) = clear(&scratch);
    let data = scratch.join("odd-data");
    let connect = |folder: &Path| run(command("connect", folder).arg("--data").arg(&data));
    let at_50 = |more: &[&str]| {
        let mut stats = blockmill();
        run(stats
            .args(["stats", "--json", "--at", "50", "--data"])
            .arg(&data)
            .args(more))
    };
    let inner: Vec<&[u8]> = blocks[61..90].iter().map(Vec::as_slice).collect();
    write(
        &folder,
        &[
            &blocks[..60].concat(),
            &cover(&blocks[60], &inner),
            &blocks[90..].concat(),
        ],
    );
    let mut answers = Vec::new();
    for _ in 0..3 {
        assert_eq!(connect(&folder).ends_with(0).json()["height"], TIP);
        answers.push(at_50(&[]).ends_with(0).json()["hash_serialized_3"].clone());
    }
    let moved = scratch.join("moved");
    std::fs::rename(&folder, &moved).unwrap();
    at_50(&[]).ends_with(3);
    let blocks_there = ["--blocks", moved.to_str().unwrap()];
    answers.push(at_50(&blocks_there).ends_with(0).json()["hash_serialized_3"].clone());
    assert!(answers.windows(2).all(|pair| pair[0] == pair[1]));
    let mut audit = blockmill();
    audit.args(["audit", "--json", "--data"]).arg(&data).args(blocks_there);
    assert_eq!(run(&mut audit).ends_with(0).json()["verdict"], "proved");
    // What is no block's header inside a record is said by each run.
    std::fs::remove_dir_all(&data).unwrap();
    let junk = [&blocks[0][..4], &80u32.to_le_bytes(), &[7; 80]].concat();
    write(
        &moved,
        &[
            &blocks[..60].concat(),
            &cover(&blocks[60], &[&junk]),
            &blocks[61..].concat(),
        ],
    );
    for _ in 0..3 {
        let run = connect(&moved).ends_with(3).says(&["high-hash"]);
        assert_eq!(run.json()["height"], TIP);
    }
}

/// Block files that were moved since they were connected.
#[test]
fn an_earlier_set_from_files_that_were_moved() {
    let scratch = Scratch::new();
    let (folder, _) = clear(&scratch);
    let data = scratch.join("odd-data");
    run(command("connect", &folder).arg("--data").arg(&data)).ends_with(0);
    let moved = scratch.join("moved");
    std::fs::rename(&folder, &moved).unwrap();
    let stats = |data: &Path, more: &[&str]| {
        let mut stats = blockmill();
        run(stats
            .args(["stats", "--json", "--at", "120", "--data"])
            .arg(data)
            .args(more))
    };
    stats(&data, &[])
        .ends_with(3)
        .says(&["in no block file that is still there"]);
    let found = stats(&data, &["--blocks", moved.to_str().unwrap()]).ends_with(0).json();
    let expected = stats(&scratch.join("data"), &[]).ends_with(0).json();
    assert_eq!(found["hash_serialized_3"], expected["hash_serialized_3"]);
    // Without --at there is nothing to look for.
    let mut alone = blockmill();
    alone.args(["stats", "--data"]).arg(&data).arg("--blocks").arg(&moved);
    run(&mut alone).ends_with(2);
}
