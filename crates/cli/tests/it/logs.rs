//! What is said on standard error, to a person and to a machine.

use crate::common::branches::{branch, genesis};
use crate::common::{Run, Scratch, connect, record, run, submit_command};
use blockmill_block::Network;
use blockmill_chaingen::bitcoin::{Block, consensus::serialize, hex::DisplayHex};
use serde_json::{Value, json};
use std::fs::File;
use std::process::Command;

fn file_of<'a>(blocks: impl IntoIterator<Item = &'a Block>) -> Vec<u8> {
    let magic = Network::Regtest.magic();
    let records = blocks.into_iter().map(|block| record(magic, &serialize(block)));
    records.flatten().collect()
}

/// The lines of a run's log: each is an object with the same four fields first.
fn log(run: &Run) -> Vec<Value> {
    let lines = run.stderr.lines().map(|line| {
        let value: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        for field in ["time", "level", "event", "message"] {
            assert!(value[field].is_string(), "{field} of {line}");
        }
        let time = value["time"].as_str().unwrap();
        assert!(time.len() == 24 && time.ends_with('Z'), "{time}");
        assert!(
            ["debug", "info", "warning", "error"].contains(&value["level"].as_str().unwrap()),
            "{line}"
        );
        value
    });
    lines.collect()
}

/// The only line of an event, less what differs from run to run.
#[track_caller]
fn event(log: &[Value], name: &str) -> Value {
    let found: Vec<_> = log.iter().filter(|line| line["event"] == name).collect();
    assert_eq!(found.len(), 1, "{name} in {log:#?}");
    let mut line = found[0].clone();
    for field in ["time", "message", "event", "seconds"] {
        line.as_object_mut().unwrap().remove(field);
    }
    line
}

fn as_json(command: &mut Command) -> Run {
    run(command.args(["--log", "json"]))
}

#[test]
fn a_machine_reads_what_connect_says() {
    let scratch = Scratch::new();
    let data = scratch.join("data");
    let genesis = genesis();
    let good = branch(&genesis, 1, 3, 0, None);
    let greedy = branch(&good[2], 4, 1, 0, Some(4)).remove(0);
    let orphan = branch(&branch(&genesis, 1, 1, 9, None)[0], 2, 1, 0, None).remove(0);
    let whole = file_of(good.iter().chain([&greedy, &orphan]));
    let blocks = scratch.write("blk00000.dat", &[&whole[..], b"no block at all"].concat());
    let path = blocks.to_str().unwrap();

    let first = as_json(&mut connect(&blocks, &data, "regtest")).ends_with(1);
    let lines = log(&first);
    let offset = |index: usize| file_of(&good[..index]).len();
    assert_eq!(
        event(&lines, "damaged"),
        json!({"level": "warning", "file": path, "offset": whole.len(), "hash": null})
    );
    assert_eq!(
        event(&lines, "rejected"),
        json!({
            "level": "warning", "hash": greedy.block_hash().to_string(), "height": 4, "reason": "bad-cb-amount",
            "transaction": 0, "input": null, "file": path, "offset": offset(3) + 8, "best_chain": true,
            "may_be_damaged": false,
        })
    );
    let flushed = event(&lines, "flushed");
    assert_eq!(flushed["level"], "debug");
    assert_eq!(flushed["height"], 3);
    assert_eq!(flushed["hash"], good[2].block_hash().to_string());
    assert!(flushed["changes"].as_u64().unwrap() >= 3, "{flushed}");
    let left_over = event(&lines, "left_over");
    assert_eq!(left_over["hash"], orphan.block_hash().to_string());
    assert_eq!(left_over["parent"], orphan.header.prev_blockhash.to_string());

    // The next run resumes, and meets a longer chain beside.
    let longer = branch(&good[0], 2, 3, 5, None);
    let longer_file = scratch.write("blk00001.dat", &file_of(good.iter().chain(&longer)));
    let second = as_json(&mut connect(&longer_file, &data, "regtest"));
    let lines = log(&second);
    assert_eq!(event(&lines, "resumed"), json!({"level": "info", "height": 3}));
    let gone: Vec<_> = lines.iter().filter(|line| line["event"] == "disconnected").collect();
    assert_eq!(gone.len(), 2, "{lines:#?}");
    for (line, block) in gone.iter().zip([&good[2], &good[1]]) {
        assert_eq!(line["hash"], block.block_hash().to_string());
    }
    assert_eq!(event(&lines, "flushed")["height"], 4);

    // What ends a command early.
    let missing = scratch.join("nowhere");
    let failed = as_json(&mut connect(&missing, &data, "regtest")).ends_with(3);
    let lines = log(&failed);
    assert_eq!(event(&lines, "failed"), json!({"level": "error", "status": 3}));
    let message = lines.last().unwrap()["message"].as_str().unwrap();
    assert!(message.contains("nowhere"), "{message}");
}

#[test]
fn a_person_reads_the_same_in_words() {
    let scratch = Scratch::new();
    let good = branch(&genesis(), 1, 3, 0, None);
    let greedy = branch(&good[2], 4, 1, 0, Some(4)).remove(0);
    let blocks = scratch.write("blk00000.dat", &file_of(good.iter().chain([&greedy])));
    let said = run(&mut connect(&blocks, &scratch.join("data"), "regtest")).ends_with(1);
    let rejected = format!(
        "block {} (height 4) is rejected: bad-cb-amount (transaction 0)",
        greedy.block_hash()
    );
    let lines: Vec<_> = said.stderr.lines().collect();
    assert_eq!(lines.len(), 1, "{said:#?}");
    assert!(
        lines[0].starts_with("blockmill: ") && lines[0].ends_with(&rejected),
        "{said:#?}"
    );
}

#[test]
fn the_log_of_submit_has_reorganisations_and_flushes() {
    let scratch = Scratch::new();
    let genesis = genesis();
    let main = branch(&genesis, 1, 2, 0, None);
    let side = branch(&main[0], 2, 2, 5, None);
    let lines: Vec<_> = main
        .iter()
        .chain(&side)
        .map(|block| serialize(block).to_lower_hex_string())
        .collect();
    let input = scratch.write("input", (lines.join("\n") + "\n").as_bytes());
    let submit = |data: &str, more: &[&str]| {
        let mut command = submit_command(&scratch.join(data));
        run(command.args(more).stdin(File::open(&input).unwrap())).ends_with(0)
    };
    let submitted = submit("data", &["--log", "json"]);
    let said = log(&submitted);
    assert_eq!(
        event(&said, "disconnected"),
        json!({"level": "info", "hash": main[1].block_hash().to_string(), "height": 2})
    );
    assert_eq!(event(&said, "flushed")["height"], 3);
    // The answers are the same, and a person is not told twice.
    let plain = submit("other", &[]);
    assert_eq!(plain.stdout, submitted.stdout);
    assert_eq!(plain.stderr, "");
}

#[test]
fn nobody_listening_is_no_reason_to_stop() {
    let scratch = Scratch::new();
    let good = branch(&genesis(), 1, 3, 0, None);
    let greedy = branch(&good[2], 4, 1, 0, Some(4)).remove(0);
    let blocks = scratch.write("blk00000.dat", &file_of(good.iter().chain([&greedy])));
    // A pipe whose reader has gone.
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    for format in ["text", "json"] {
        let mut command = connect(&blocks, &scratch.join(format), "regtest");
        command.args(["--log", format]).stderr(writer.try_clone().unwrap());
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{format}: {output:?}");
    }
}
