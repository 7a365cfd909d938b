//! Files that commands write: traces, reports and chains. None is written over, and a disk that is
//! full is said.

use crate::common::branches::{branch, genesis};
use crate::common::{Scratch, blockmill, connect, record, run, stats};
use blockmill_block::Network;
use blockmill_chaingen::bitcoin::consensus::serialize;
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// Wrong usage: status 2, nothing on standard output, and these words said.
#[track_caller]
fn check_wrong(command: &mut Command, words: &[&str]) {
    let wrong = run(command).ends_with(2).says(words);
    assert_eq!(wrong.stdout, "");
}

/// A command that may write no file of more than so many KiB.
fn limited(kibibytes: u32, command: &Command) -> Command {
    limited_as("", kibibytes, command)
}

/// The same, after the shell has done something.
fn limited_as(before: &str, kibibytes: u32, command: &Command) -> Command {
    let mut limited = Command::new("bash");
    let script = format!("{before} ulimit -f {kibibytes}; exec \"$@\"");
    limited.args(["-c", &script, "limited"]);
    limited.arg(command.get_program()).args(command.get_args());
    limited
}

/// `connect` with a trace to a file.
fn traced(blocks: &Path, data: &Path, trace: &Path) -> Command {
    let mut command = connect(blocks, data, "regtest");
    command.arg("--trace").arg(trace);
    command
}

fn generate(arguments: &[&str], out: &Path) -> Command {
    let mut command = blockmill();
    command.args(["generate", "--profile", "utxo"]).args(arguments);
    command.arg("--out").arg(out);
    command
}

#[test]
fn a_trace_is_a_new_file() {
    let scratch = Scratch::new();
    let (data, trace) = (scratch.join("data"), scratch.join("trace"));
    let blocks = scratch.write("blk00000.dat", &[]);
    // Neither a block file nor the store is written over, and nothing happens.
    for kept in [&blocks, &scratch.write("trace", b"kept")] {
        let before = std::fs::read(kept).unwrap();
        check_wrong(&mut traced(&blocks, &data, kept), &[kept.to_str().unwrap(), "already"]);
        assert_eq!(std::fs::read(kept).unwrap(), before);
        assert!(!data.exists());
    }
    let nowhere = scratch.join("nowhere/trace");
    let refused = run(&mut traced(&blocks, &data, &nowhere)).ends_with(3);
    refused.says(&[nowhere.to_str().unwrap()]);
    assert!(!data.exists());
    // A run that comes to nothing leaves none, so that the next one can be called the same.
    std::fs::remove_file(&trace).unwrap();
    run(&mut traced(&scratch.join("missing"), &data, &trace)).ends_with(3);
    assert!(!trace.exists());
    run(&mut traced(&blocks, &data, &trace)).ends_with(0);
    let events: Value = serde_json::from_slice(&std::fs::read(&trace).unwrap()).unwrap();
    assert!(events.is_array());
}

#[test]
fn a_trace_that_cannot_be_written_does_not_keep_the_report_back() {
    let scratch = Scratch::new();
    let (data, trace) = (scratch.join("data"), scratch.join("trace"));
    let magic = Network::Regtest.magic();
    let chain = branch(&genesis(), 1, 6_000, 0, None);
    let file: Vec<u8> = chain
        .iter()
        .flat_map(|block| record(magic, &serialize(block)))
        .collect();
    let blocks = scratch.write("blk00000.dat", &file);
    // The trace has more than 2 MiB, all other files have less.
    let connected = run(&mut limited(2048, &traced(&blocks, &data, &trace))).ends_with(4);
    assert_eq!(connected.json()["height"], 6_000);
    connected.says(&[trace.to_str().unwrap(), "large"]);
    assert_eq!(stats(&data)["height"], 6_000);
}

#[test]
fn a_chain_is_not_generated_over_another() {
    let scratch = Scratch::new();
    let file = scratch.write("blk00003.dat", b"kept");
    let out = file.parent().unwrap();
    check_wrong(&mut generate(&["--blocks", "5"], out), &[file.to_str().unwrap()]);
    assert_eq!(std::fs::read(&file).unwrap(), b"kept");
    assert_eq!(std::fs::read_dir(out).unwrap().count(), 1);
}

#[test]
fn a_chain_that_cannot_be_is_not_generated() {
    let scratch = Scratch::new();
    let out = scratch.join("chain");
    for (blocks, option, value) in [
        ("5", "--block-weight", "1"),
        ("5", "--empty-blocks", "10"),
        ("800000", "--seed", "1"),
    ] {
        check_wrong(&mut generate(&["--blocks", blocks, option, value], &out), &["block"]);
        assert!(!out.exists());
    }
    for option in ["--coins", "--inputs"] {
        let most = u64::MAX.to_string();
        check_wrong(&mut generate(&["--blocks", "120", option, &most], &out), &[option]);
        assert!(!out.exists());
    }
}

#[test]
fn a_full_disk_is_named_with_its_file() {
    let scratch = Scratch::new();
    let out = scratch.join("chain");
    let file = out.join("blk00000.dat");
    run(&mut limited(64, &generate(&["--blocks", "130"], &out)))
        .ends_with(4)
        .says(&[file.to_str().unwrap(), "File too large"]);
    assert!(!out.exists());
}

/// A limit of the size of files (`ulimit -f`, `LimitFSIZE=`) is an error with a message, whether the
/// parent has ignored the signal that comes with it or not.
#[test]
fn a_limit_of_file_size_is_an_error() {
    let scratch = Scratch::new();
    let [blocks, data] = ["blocks", "data"].map(|name| scratch.join(name));
    run(&mut generate(
        &["--blocks", "130", "--inputs", "4000", "--coins", "20000"],
        &blocks,
    ))
    .ends_with(0);
    run(&mut connect(&blocks, &data, "regtest")).ends_with(0);
    let out = scratch.folder("out");
    for before in ["", "trap '' XFSZ;"] {
        let check = |command: &Command, words: &[&str]| {
            let words = [words, &["large"]].concat();
            run(&mut limited_as(before, 200, command)).ends_with(4).says(&words);
        };
        let other = scratch.join("other");
        check(&connect(&blocks, &other, "regtest"), &["other/"]);
        // Without the limit it goes on.
        run(&mut connect(&blocks, &other, "regtest")).ends_with(0);
        assert_eq!(stats(&other)["muhash"], stats(&data)["muhash"]);
        std::fs::remove_dir_all(&other).unwrap();
        let mut dump = blockmill();
        dump.args(["snapshot", "dump", "--data"])
            .arg(&data)
            .arg(out.join("set"));
        check(&dump, &["out/set"]);
        for format in ["csv", "jsonl", "parquet"] {
            let words: &[&str] = if format == "parquet" { &[] } else { &["out/coins"] };
            let mut export = blockmill();
            export
                .args(["export", "coins", "--format", format, "--data"])
                .arg(&data);
            check(export.arg("--out").arg(out.join("coins")), words);
        }
        let mut export = blockmill();
        export
            .args(["export", "coins", "--format", "sqlite", "--data"])
            .arg(&data);
        export.arg("--out").arg(out.join("coins"));
        run(&mut limited_as(before, 200, &export))
            .ends_with(4)
            .says(&["out/coins"]);
        assert_eq!(std::fs::read_dir(&out).unwrap().count(), 0);
    }
}
