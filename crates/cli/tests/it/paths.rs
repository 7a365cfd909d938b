//! Names of files need not be text: whatever names one in a message or in JSON must live with that.

use crate::common::branches::{branch, genesis};
use crate::common::{Run, Scratch, blockmill, connect, load_command, record, run, stats};
use blockmill_block::Network;
use blockmill_chaingen::bitcoin::{Block, consensus::serialize};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// How the name that is no text is written.
const WRITTEN: &str = "nu\u{fffd}";

/// A directory whose name is no text.
fn odd_directory(scratch: &Scratch) -> PathBuf {
    let path = scratch.join("x").with_file_name(OsStr::from_bytes(b"nu\xff"));
    std::fs::create_dir(&path).unwrap();
    path
}

fn file_of<'a>(blocks: impl IntoIterator<Item = &'a Block>) -> Vec<u8> {
    let magic = Network::Regtest.magic();
    let records = blocks.into_iter().map(|block| record(magic, &serialize(block)));
    records.flatten().collect()
}

/// Connects a file with this content in the odd directory, in text and in JSON.
fn connect_in(odd: &Path, content: &[u8], status: i32) -> Vec<Run> {
    let path = odd.join("blk00000.dat");
    std::fs::write(&path, content).unwrap();
    let runs = ["text", "json"].map(|format| {
        let scratch = Scratch::new();
        run(connect(&path, &scratch.join("data"), "regtest").args(["--log", format])).ends_with(status)
    });
    runs.into_iter().map(|run| run.says(&[WRITTEN])).collect()
}

#[test]
fn connect_names_what_is_wrong() {
    let scratch = Scratch::new();
    let odd = odd_directory(&scratch);
    let good = branch(&genesis(), 1, 3, 0, None);
    let whole = file_of(&good);
    // A record that is cut off, and something that is none.
    connect_in(&odd, &whole[..whole.len() - 10], 0);
    connect_in(&odd, &[&whole[..], b"no block at all"].concat(), 3);
    // Blocks whose parent is nowhere.
    connect_in(&odd, &file_of(&good[1..]), 3);
    // A block that breaks a rule, and one that cannot be read.
    let greedy = branch(&good[2], 4, 1, 0, Some(4));
    for connected in connect_in(&odd, &file_of(good.iter().chain(&greedy)), 1) {
        let file = connected.json()["rejected"][0]["file"].as_str().unwrap().to_owned();
        assert!(file.ends_with(&format!("{WRITTEN}/blk00000.dat")), "{file}");
    }
    let mut damaged = whole;
    let last = damaged.len() - serialize(&good[2]).len();
    damaged[last + 80] = 2;
    for connected in connect_in(&odd, &damaged, 3) {
        assert_eq!(
            connected.json()["unreadable"].as_array().unwrap().len(),
            1,
            "{connected:#?}"
        );
    }
}

/// A chain in the odd directory, connected: the block file, and the data directory beside it.
fn connected(odd: &Path) -> (PathBuf, PathBuf) {
    let (blocks, data) = (odd.join("blk00000.dat"), odd.join("data"));
    std::fs::write(&blocks, file_of(&branch(&genesis(), 1, 3, 0, None))).unwrap();
    run(&mut connect(&blocks, &data, "regtest")).ends_with(0);
    (blocks, data)
}

#[test]
fn verify_names_what_is_wrong() {
    let scratch = Scratch::new();
    let odd = odd_directory(&scratch);
    let (blocks, _) = connected(&odd);
    // Without undo data beside them, blocks of files are not verified.
    let mut command = blockmill();
    command
        .args(["verify", "--network", "regtest", "--blocks"])
        .arg(&blocks);
    run(&mut command).ends_with(3).says(&[WRITTEN, "no file of undo data"]);
    // A block that takes too much.
    let greedy = branch(&genesis(), 1, 1, 0, Some(1));
    let (block, undo) = (odd.join("block"), odd.join("undo"));
    std::fs::write(&block, serialize(&greedy[0])).unwrap();
    std::fs::write(&undo, [0]).unwrap();
    let mut command = blockmill();
    command.args(["verify", "--network", "regtest", "--height", "1", "--block"]);
    command.arg(&block).arg("--undo").arg(&undo);
    run(&mut command).ends_with(1).says(&[WRITTEN, "bad-cb-amount"]);
}

#[test]
fn snapshots_name_their_file() {
    let scratch = Scratch::new();
    let odd = odd_directory(&scratch);
    let (blocks, data) = connected(&odd);
    let file = odd.join("snapshot");
    let mut dump = blockmill();
    dump.args(["snapshot", "dump", "--json", "--data"])
        .arg(&data)
        .arg(&file);
    let dumped = run(&mut dump).ends_with(0).json();
    assert!(dumped["path"].as_str().unwrap().contains(WRITTEN), "{dumped}");
    let mut load = load_command(&blocks, &odd.join("loaded"), "regtest");
    load.args(["--hash", dumped["txoutset_hash"].as_str().unwrap()])
        .arg(&file);
    let loaded = run(&mut load).ends_with(0).json();
    assert!(loaded["path"].as_str().unwrap().contains(WRITTEN), "{loaded}");
    assert_eq!(stats(&odd.join("loaded"))["height"], 3);
}

#[test]
fn demo_says_where_it_is_kept() {
    let scratch = Scratch::new();
    let odd = odd_directory(&scratch);
    run(blockmill().args(["demo", "--keep"]).arg(odd.join("demo")))
        .ends_with(0)
        .says(&[WRITTEN, "kept in"]);
}
