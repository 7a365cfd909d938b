//! Headers that break a rule: which of them make the best chain a rejected one, and what is said of
//! those and of what builds on them.

use crate::common::branches::{branch, genesis};
use crate::common::{Run, Scratch, blockmill, connect, record, run};
use blockmill_block::Network;
use blockmill_chaingen::bitcoin::block::Header;
use blockmill_chaingen::bitcoin::{Block, consensus::serialize};
use blockmill_chaingen::builder::BlockBuilder;
use serde_json::Value;

fn file_of<'a>(blocks: impl IntoIterator<Item = &'a Block>) -> Vec<u8> {
    let magic = Network::Regtest.magic();
    let records = blocks.into_iter().map(|block| record(magic, &serialize(block)));
    records.flatten().collect()
}

fn child_with(parent: &Block, height: u32, edit: impl FnOnce(&mut Header)) -> Block {
    let builder = BlockBuilder::new(parent.block_hash(), height, parent.header.time + 1);
    builder.header(edit).build()
}

/// A block at `height` that is older than its ancestors, and blocks on it.
fn refused(parent: &Block, height: u32, count_above: u32) -> Vec<Block> {
    let old = child_with(parent, height, |header| header.time = 1);
    let above = branch(&old, height + 1, count_above, 0, None);
    [vec![old], above].concat()
}

/// Connects these blocks in this order: the height must be 5, with this status.
#[track_caller]
fn check(blocks: &[&[Block]], status: i32) -> (Run, Value) {
    let scratch = Scratch::new();
    let path = scratch.write("blk00000.dat", &file_of(blocks.iter().copied().flatten()));
    let connected = run(connect(&path, &scratch.join("data"), "regtest").args(["--log", "json"])).ends_with(status);
    let json = connected.json();
    assert_eq!(json["height"], 5, "{connected:#?}");
    (connected, json)
}

/// As [`check`], where the first of `refused` is rejected, and the others are left out.
#[track_caller]
fn check_refused(blocks: &[&[Block]], refused: &[Block], status: i32) {
    let (connected, json) = check(blocks, status);
    let rejected = json["rejected"].as_array().unwrap();
    assert_eq!(rejected.len(), 1, "{json}");
    assert_eq!(rejected[0]["hash"], refused[0].block_hash().to_string());
    assert_eq!(rejected[0]["reason"], "time-too-old");
    assert_eq!(rejected[0]["best_chain"], status == 1);
    assert_eq!(
        (&json["left_out"], &json["leftovers"]),
        (&(refused.len() - 1).into(), &0.into())
    );
    let told = |event: &str| connected.stderr.lines().filter(|line| line.contains(event)).count();
    assert_eq!(told("\"event\":\"rejected\""), 1, "{connected:#?}");
    assert_eq!(
        told("\"event\":\"left_out\""),
        usize::from(refused.len() > 1),
        "{connected:#?}"
    );
    assert_eq!(told("none of the files"), 0, "{connected:#?}");
}

#[test]
fn a_branch_that_loses_anyway_is_no_rejected_best_chain() {
    let main = branch(&genesis(), 1, 5, 0, None);
    let alone = refused(&main[1], 3, 0);
    check_refused(&[&main, &alone], &alone, 0);
    check_refused(&[&alone, &main], &alone, 0);
    let with_above = refused(&main[1], 3, 1);
    check_refused(&[&main, &with_above], &with_above, 0);
    check_refused(&[&with_above, &main], &with_above, 0);
    // The content of such a branch is not looked at.
    let greedy = branch(&main[1], 3, 2, 7, Some(3));
    let (_, json) = check(&[&greedy, &main], 0);
    assert_eq!(json["rejected"].as_array().unwrap().len(), 0);
}

#[test]
fn a_branch_that_would_have_won_is() {
    let main = branch(&genesis(), 1, 5, 0, None);
    // A child of the tip, alone and with more above it.
    for above in [0, 3] {
        let next = refused(&main[4], 6, above);
        check_refused(&[&main, &next], &next, 1);
        check_refused(&[&next, &main], &next, 1);
    }
    // A branch, by what builds on the header.
    let branch = refused(&main[1], 3, 3);
    check_refused(&[&main, &branch], &branch, 1);
    check_refused(&[&branch, &main], &branch, 1);
}

#[test]
fn of_branches_with_equal_work_the_first_one_counts() {
    let main = branch(&genesis(), 1, 5, 0, None);
    let branch = refused(&main[1], 3, 2);
    check_refused(&[&main, &branch], &branch, 0);
    check_refused(&[&main[..3], &branch, &main[3..]], &branch, 1);
}

#[test]
fn a_header_without_work_is_unreadable_everywhere() {
    let main = branch(&genesis(), 1, 5, 0, None);
    let mut idle = branch(&main[4], 6, 1, 0, None);
    while idle[0].header.validate_pow(idle[0].header.target()).is_ok() {
        idle[0].header.nonce += 1;
    }
    let (connected, json) = check(&[&main, &idle], 3);
    assert_eq!(json["rejected"].as_array().unwrap().len(), 0);
    let unreadable = json["unreadable"].as_array().unwrap();
    assert_eq!(unreadable[0]["hash"], idle[0].block_hash().to_string());
    assert!(connected.stderr.contains("\"event\":\"unreadable\""), "{connected:#?}");
    assert!(!connected.stderr.contains("\"event\":\"rejected\""), "{connected:#?}");
}

/// Headers that cost no work, behind the chain. The first are named, the rest counted; and none has
/// a height.
#[test]
fn many_headers_without_work_are_counted() {
    let main = branch(&genesis(), 1, 5, 0, None);
    let scratch = Scratch::new();
    let mut file = file_of([genesis()].iter().chain(&main));
    for number in 0..3000u32 {
        let mut junk = [0xff; 80];
        junk[..4].copy_from_slice(&number.to_le_bytes());
        junk[72..76].copy_from_slice(&0x207f_ffff_u32.to_le_bytes());
        let begin = file.len();
        file.extend(record(Network::Regtest.magic(), &junk));
        assert_eq!(file.len(), begin + 88);
    }
    let path = scratch.write("blk00000.dat", &file);
    let path = path.to_str().unwrap();
    let set = scratch.join("set");
    let connected = run(connect(path.as_ref(), &scratch.join("data"), "regtest").args(["--log", "text"])).ends_with(3);
    let json = connected.json();
    let unreadable = json["unreadable"].as_array().unwrap();
    let more = json["more_unreadable"].as_u64().unwrap();
    // About half of all hashes are work enough on regtest: their parents are nowhere.
    assert!(unreadable.len() == 100 && more > 1000, "{json}");
    assert!(unreadable.iter().all(|block| block["height"].is_null()), "{json}");
    let mut dump = blockmill();
    dump.args(["snapshot", "dump", "--data"])
        .arg(scratch.join("data"))
        .arg(&set);
    run(&mut dump).ends_with(0);
    let files = ["--network", "regtest", "--blocks", path];
    let export = ["export", "blocks", "--format", "jsonl", "--out", "-"];
    let mut others = [blockmill(), blockmill(), blockmill()];
    others[0].arg("verify").args(files);
    others[1].args(export).args(files);
    others[2].arg("audit").args(files).arg("--snapshot").arg(&set);
    let others = others.iter_mut().map(|command| run(command).ends_with(3));
    for run in others.chain([connected]) {
        let lines = run.stderr.lines().count();
        assert!(lines < 100, "{lines} lines: {}", &run.stderr[..5000]);
        assert!(
            run.stderr.contains("more blocks have headers that are not the work"),
            "{run:#?}"
        );
        assert!(!run.stderr.contains("(height 0)"), "{run:#?}");
    }
}
