//! Flat tables in folders, a file for each range of heights: what a later call makes of them is
//! what an export into a new folder makes.

use crate::common::branches::{branch, genesis};
use crate::common::python::Python;
use crate::common::{Run, Scratch, blockmill, connect, connected_to, generate_command, record, run, two_chains};
use crate::export_blocks::{Made, lines};
use crate::export_tables::{ARROW, DUCKDB, PARQUET, SQLITE, TABLES, export, to_stdout};
use bitcoin::{Block, consensus::serialize};
use blockmill_block::Network;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

const MANIFEST: &str = "_blockmill.json";

fn manifest(folder: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(folder.join(MANIFEST)).unwrap()).unwrap()
}

/// As an earlier version wrote it: what stands in it is looked at, then.
fn without_checksum(mut manifest: Value) -> Value {
    assert!(manifest.as_object_mut().unwrap().remove("checksum").is_some());
    manifest
}

/// The files that a manifest names, in order.
fn named(folder: &Path) -> Vec<String> {
    let manifest = manifest(folder);
    let partitions = manifest["partitions"].as_array().unwrap();
    let names = partitions.iter().map(|partition| partition["file"].as_str().unwrap());
    names.map(str::to_owned).collect()
}

/// All files of a folder and of the folders in it.
fn contents(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(folder).unwrap().to_owned();
                all.insert(name, std::fs::read(&path).unwrap());
            }
        }
    }
    all
}

#[track_caller]
fn check_same(found: &Path, expected: &Path) {
    let (found, expected) = (contents(found), contents(expected));
    assert!(
        found.keys().eq(expected.keys()),
        "{:?}, {:?}",
        found.keys(),
        expected.keys()
    );
    for (name, bytes) in &expected {
        assert!(found[name] == *bytes, "{}", name.display());
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn partitions_are_the_table_in_parts() {
    let made = Made::new();
    for table in TABLES.into_iter().chain(["filters"]) {
        for (from, to, names) in [
            (0, 140, &["0000000-0000049", "0000050-0000099", "0000100-0000149"][..]),
            (70, 99, &["0000050-0000099"]),
            (70, 100, &["0000050-0000099", "0000100-0000149"]),
        ] {
            let (first, last) = (from.to_string(), to.to_string());
            let range = ["--from", &*first, "--to", &*last];
            let expected = to_stdout(table, &made.of_data(), &range);
            let out = made.scratch.join(&format!("{table}-{from}-{to}"));
            let parts = ["--partition", "50", "--format", "jsonl", "--out", text(&out)];
            let done = export(table, &made.of_data(), &[&range[..], &parts].concat()).ends_with(0);
            assert!(
                done.stdout.contains(&format!("{} of them made now", names.len())),
                "{}",
                done.stdout
            );
            let names: Vec<String> = names.iter().map(|name| format!("{name}.jsonl")).collect();
            assert_eq!(named(&out), names);
            assert_eq!(contents(&out).len(), names.len() + 1);
            let manifest = manifest(&out);
            let mut rows = Vec::new();
            for partition in manifest["partitions"].as_array().unwrap() {
                let file = std::fs::read_to_string(out.join(partition["file"].as_str().unwrap())).unwrap();
                assert_eq!(partition["bytes"], file.len());
                let part = lines(&file);
                assert_eq!(partition["rows"], part.len());
                let heights = partition["from"].as_u64().unwrap()..=partition["to"].as_u64().unwrap();
                assert!(
                    part.iter()
                        .all(|row| heights.contains(&row["height"].as_u64().unwrap()))
                );
                if table == "filters" {
                    assert_eq!(partition["hash"], part.last().unwrap()["block_hash"]);
                }
                rows.extend(part);
            }
            assert!(rows == expected, "{table}, {from} to {to}");
            for (key, expected) in [
                ("table", json!(table)),
                ("format", json!("jsonl")),
                ("ids", json!("hex")),
                ("network", json!("regtest")),
                ("blocks_per_partition", json!(50)),
                ("from", json!(from)),
            ] {
                assert_eq!(manifest[key], expected);
            }
        }
    }
}

/// All tables of one pass, in all formats.
#[test]
fn other_programs_read_all_partitions() {
    let Some(python) = Python::with(&["pyarrow", "duckdb"]) else {
        return;
    };
    let made = Made::new();
    let expected: Vec<_> = TABLES
        .iter()
        .map(|table| to_stdout(table, &made.of_data(), &[]))
        .collect();
    for (format, programs) in [
        ("parquet", &[PARQUET, DUCKDB][..]),
        ("arrow", &[ARROW]),
        ("sqlite", &[SQLITE]),
    ] {
        let out = made.scratch.join(format);
        let and = ["--and", "inputs,outputs,spenders", "--binary", "--partition", "33"];
        let to = ["--format", format, "--out", text(&out)];
        export("transactions", &made.of_data(), &[&and[..], &to].concat()).ends_with(0);
        assert_eq!(std::fs::read_dir(&out).unwrap().count(), TABLES.len());
        for (table, expected) in TABLES.iter().zip(&expected) {
            let folder = out.join(table);
            assert_eq!(manifest(&folder)["ids"], "binary");
            for program in programs {
                let read = |name: &String| lines(&python.run(program, &folder.join(name)));
                let rows: Vec<Value> = named(&folder).iter().flat_map(read).collect();
                assert!(rows == *expected, "{table}, {format}");
            }
        }
        // And a folder as it stands, also with what a killed export leaves.
        if format == "parquet" {
            let left = "inputs/_0000000-0000032.incomplete";
            std::fs::write(out.join(left), "PAR1").unwrap();
            let rows = lines(&python.run(DUCKDB, &out.join("inputs/*.parquet")));
            assert!(rows == expected[1]);
            let rows = lines(&python.run(PARQUET, &out.join("inputs")));
            assert!(rows == expected[1]);
        }
    }
}

/// A data directory whose chain changes.
struct Moving {
    scratch: Scratch,
    files: u32,
}

impl Moving {
    /// At height 57, in partitions of 10 blocks.
    fn new() -> (Self, Vec<Block>) {
        let scratch = Scratch::new();
        scratch.folder("blocks");
        let mut moving = Self { scratch, files: 0 };
        let chain = branch(&genesis(), 1, 57, 0, None);
        moving.connect(&chain);
        (moving, chain)
    }

    fn connect(&mut self, blocks: &[Block]) {
        let magic = Network::Regtest.magic();
        let file: Vec<u8> = blocks
            .iter()
            .flat_map(|block| record(magic, &serialize(block)))
            .collect();
        self.scratch.write(&format!("blocks/blk{:05}.dat", self.files), &file);
        self.files += 1;
        let (folder, data) = (self.scratch.join("blocks"), self.scratch.join("data"));
        run(&mut connect(&folder, &data, "regtest")).ends_with(0);
    }

    fn export(&self, format: &str, out: &Path, more: &[&str]) -> Run {
        let data = self.scratch.join("data");
        let arguments = ["--data", text(&data)].map(str::to_owned);
        let with = [
            "--and",
            "filters,statistics",
            "--format",
            format,
            "--partition",
            "10",
            "--out",
            text(out),
        ];
        export("transactions", &arguments, &[&with[..], more].concat())
    }

    /// Goes on with the table of each format, and compares it with a new one. `kept` is the number
    /// of files of each table that stay.
    #[track_caller]
    fn check(&self, kept: usize) {
        for format in FORMATS {
            let (out, fresh) = (self.scratch.join(format), self.scratch.join("fresh"));
            let numbers = |folder: &Path| -> BTreeMap<PathBuf, (u64, i64, i64)> {
                let names = contents(folder).into_keys().filter(|name| !name.ends_with(MANIFEST));
                // A new file may have the number of one that is gone.
                let number = |name: &PathBuf| {
                    let found = std::fs::metadata(folder.join(name)).unwrap();
                    (found.ino(), found.mtime(), found.mtime_nsec())
                };
                names.map(|name| (name.clone(), number(&name))).collect()
            };
            let before = numbers(&out);
            self.export(format, &out, &["--append"]).ends_with(0);
            let after = numbers(&out);
            let same = before
                .iter()
                .filter(|(name, number)| after.get(*name) == Some(number))
                .count();
            assert_eq!(same, 3 * kept, "{format}");
            self.export(format, &fresh, &[]).ends_with(0);
            check_same(&out, &fresh);
            std::fs::remove_dir_all(&fresh).unwrap();
        }
    }
}

const FORMATS: [&str; 5] = ["jsonl", "csv", "parquet", "arrow", "sqlite"];

#[test]
fn what_goes_on_is_what_a_new_export_is() {
    let (mut moving, chain) = Moving::new();
    for format in FORMATS {
        // The first call may say --append, too.
        let more: &[&str] = if format == "csv" { &["--append"] } else { &[] };
        moving.export(format, &moving.scratch.join(format), more).ends_with(0);
    }
    // Nothing is new: also the last file, which is not full, stays.
    moving.check(6);
    // Blocks come: up to the middle of a partition, to its end, and into the next one.
    let mut tip = chain[56].clone();
    for (height, count, kept) in [(58, 1, 5), (59, 1, 5), (60, 1, 6), (61, 25, 6)] {
        let more = branch(&tip, height, count, 0, None);
        moving.connect(&more);
        moving.check(kept);
        tip = more.last().unwrap().clone();
    }
    // A reorganisation of the last block, and one deeper than a partition.
    let fork = branch(&chain[56], 58, 29, 7, None);
    moving.connect(&fork);
    moving.check(5);
    let fork = branch(&chain[32], 34, 60, 9, None);
    moving.connect(&fork);
    moving.check(3);
    // A file that is gone, and one that is too short.
    for format in FORMATS {
        let folder = moving.scratch.join(format).join("filters");
        std::fs::remove_file(folder.join(&named(&folder)[2])).unwrap();
        let path = folder.join(&named(&folder)[4]);
        std::fs::write(&path, &std::fs::read(&path).unwrap()[1..]).unwrap();
    }
    for format in FORMATS {
        let (out, fresh) = (moving.scratch.join(format), moving.scratch.join("fresh"));
        let done = moving.export(format, &out, &["--append"]).ends_with(0);
        // The other table has all.
        assert!(
            done.stdout.contains("10 files, 0 of them") && done.stdout.contains("10 files, 2 of them"),
            "{done:?}"
        );
        moving.export(format, &fresh, &[]).ends_with(0);
        check_same(&out, &fresh);
        std::fs::remove_dir_all(&fresh).unwrap();
    }
    // What is not said again is known.
    let out = moving.scratch.join("jsonl");
    let data = moving.scratch.join("data");
    let arguments = ["--data", text(&data)].map(str::to_owned);
    let more = ["--and", "filters,statistics", "--append", "--out", text(&out)];
    export("transactions", &arguments, &more).ends_with(0);
    moving.check(10);
}

/// Filters and statistics rest on all blocks below. What an export needs of those, the one before
/// has left: also where the blocks are gone, as on a node that prunes.
#[test]
fn tables_go_on_without_the_blocks_below() {
    let (mut moving, chain) = Moving::new();
    let to_60 = branch(&chain[56], 58, 2, 0, None);
    moving.connect(&to_60);
    let (out, fresh) = (moving.scratch.join("out"), moving.scratch.join("fresh"));
    moving.export("jsonl", &out, &[]).ends_with(0);
    let deeper = branch(&to_60[1], 60, 25, 0, None);
    moving.connect(&deeper);
    moving.export("jsonl", &fresh, &[]).ends_with(0);
    for file in ["blocks/blk00000.dat", "blocks/blk00001.dat"] {
        std::fs::remove_file(moving.scratch.join(file)).unwrap();
    }
    let done = moving.export("jsonl", &out, &["--append"]).ends_with(0);
    assert!(done.stdout.contains("9 files, 3 of them made now"), "{done:?}");
    check_same(&out, &fresh);
    // Where the state is none, they are wanted, and missed.
    std::fs::remove_dir_all(moving.scratch.join("data/kept")).unwrap();
    let good = manifest(&out.join("statistics"));
    for name in &named(&out.join("statistics"))[6..] {
        std::fs::remove_file(out.join("statistics").join(name)).unwrap();
    }
    let state_at = |index: usize| good["partitions"][index]["state"].as_str().unwrap();
    let flipped = match state_at(5).strip_prefix('0') {
        Some(rest) => format!("1{rest}"),
        None => format!("0{}", &state_at(5)[1..]),
    };
    for state in [
        Value::Null,
        "".into(),
        "zz".into(),
        "00".into(),
        "11".repeat(33).into(),
        flipped.into(),
        state_at(4).into(),
    ] {
        let mut manifest = without_checksum(good.clone());
        let partitions = manifest["partitions"].as_array_mut().unwrap();
        partitions.truncate(6);
        partitions[5]["state"] = state;
        std::fs::write(out.join("statistics").join(MANIFEST), manifest.to_string()).unwrap();
        moving.export("jsonl", &out, &["--append"]).ends_with(3);
    }
}

/// Only the last states are kept: those that a reorganisation can lead back to.
#[test]
fn old_states_are_forgotten() {
    let scratch = Scratch::new();
    let chain = scratch.join("chain");
    let mut generate = generate_command(&chain, "utxo", 420);
    run(generate.args(["--coins", "100", "--inputs", "2"])).ends_with(0);
    let data = scratch.join("data");
    run(&mut connect(&chain, &data, "regtest")).ends_with(0);
    let out = scratch.join("out");
    let mut command = blockmill();
    command.args(["export", "statistics", "--partition", "20", "--format", "csv", "--data"]);
    run(command.arg(&data).arg("--out").arg(&out)).ends_with(0);
    let manifest = manifest(&out);
    let partitions = manifest["partitions"].as_array().unwrap();
    let with_state = partitions.iter().filter(|partition| partition["state"].is_string());
    let heights: Vec<u64> = with_state.map(|partition| partition["to"].as_u64().unwrap()).collect();
    // Of those at or below height 420 - 288, the last.
    assert_eq!(heights.first(), Some(&119));
    assert_eq!(heights.len(), partitions.len() - 5);
}

/// The chain of the second call is a beginning of that of the first one.
#[test]
fn what_is_above_the_tip_goes_away() {
    let (moving, chain) = Moving::new();
    let out = moving.scratch.join("jsonl");
    moving.export("jsonl", &out, &[]).ends_with(0);
    let low = moving.scratch.join("low");
    std::fs::remove_dir_all(moving.scratch.join("data")).unwrap();
    let magic = Network::Regtest.magic();
    let file: Vec<u8> = chain[..33]
        .iter()
        .flat_map(|block| record(magic, &serialize(block)))
        .collect();
    std::fs::create_dir(&low).unwrap();
    std::fs::write(low.join("blk00000.dat"), file).unwrap();
    run(&mut connect(&low, &moving.scratch.join("data"), "regtest")).ends_with(0);
    moving.export("jsonl", &out, &["--append"]).ends_with(0);
    let fresh = moving.scratch.join("fresh");
    moving.export("jsonl", &fresh, &[]).ends_with(0);
    check_same(&out, &fresh);
    assert_eq!(named(&out.join("filters")).len(), 4);
    // But not what is on the chain.
    moving
        .export("jsonl", &out, &["--append", "--to", "32"])
        .ends_with(2)
        .says(&["goes to height 33", "would end at height 32"]);
    check_same(&out, &fresh);
}

/// Neither a chain that lacks many blocks nor another one takes a table away.
#[test]
fn another_chain_removes_nothing() {
    let scratch = Scratch::new();
    let chains = two_chains(&scratch);
    let connected = |name: &str, chain: &Path, to: &str| connected_to(&scratch, name, chain, to);
    let out = scratch.join("out");
    let export = |data: &Path, more: &[&str]| {
        let mut command = blockmill();
        command.args(["export", "outputs", "--partition", "50", "--format", "jsonl", "--data"]);
        run(command.arg(data).arg("--out").arg(&out).args(more))
    };
    let whole = connected("whole", &chains[0], "420");
    export(&whole, &[]).ends_with(0);
    let expected = contents(&out);
    assert_eq!(expected.len(), 10);
    for (name, chain, to) in [
        ("short", &chains[0], "100"),
        ("other", &chains[1], "420"),
        ("begun", &chains[0], "20"),
    ] {
        let data = connected(name, chain, to);
        export(&data, &["--append"])
            .ends_with(2)
            .says(&["that is no reorganisation", "nothing was removed"]);
        assert!(contents(&out) == expected, "{name}");
    }
    // As many blocks as a reorganisation may take away.
    let shorter = connected("shorter", &chains[0], "200");
    export(&shorter, &["--append"]).ends_with(0);
    assert_eq!(named(&out).len(), 5);
    export(&whole, &["--append"]).ends_with(0);
    assert!(contents(&out) == expected);
}

/// Stopped or killed in the middle, it leaves whole files alone, and a later call goes on.
#[test]
fn a_signal_in_the_middle_costs_one_partition() {
    let scratch = Scratch::new();
    let (chain, data) = (scratch.join("chain"), scratch.join("data"));
    let mut generate = generate_command(&chain, "utxo", 130);
    run(generate.args(["--coins", "300000", "--inputs", "100"])).ends_with(0);
    run(&mut connect(&chain, &data, "regtest")).ends_with(0);
    let command = |out: &Path, more: &[&str]| {
        let mut command = blockmill();
        command.args(["export", "outputs", "--partition", "2", "--format", "jsonl", "--data"]);
        command.arg(&data).arg("--out").arg(out).args(more);
        command
    };
    let fresh = scratch.join("fresh");
    run(&mut command(&fresh, &[])).ends_with(0);
    for (signal, status) in [
        (Signal::INT, Some(130)),
        (Signal::TERM, Some(143)),
        (Signal::KILL, None),
    ] {
        let out = scratch.join(&format!("{signal:?}"));
        let child = command(&out, &[])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let waiting = Instant::now();
        while !out.join("0000110-0000111.jsonl").exists() {
            assert!(waiting.elapsed() < Duration::from_secs(60), "it does not begin");
            std::thread::sleep(Duration::from_millis(1));
        }
        kill_process(Pid::from_child(&child), signal).unwrap();
        let ended = child.wait_with_output().unwrap();
        assert_eq!(ended.status.code(), status);
        let said = String::from_utf8(ended.stderr).unwrap();
        assert!(status.is_none() || said.contains("--append goes on"), "{said}");
        let names = named(&out);
        assert!((55..66).contains(&names.len()), "{names:?}");
        let whole = contents(&fresh);
        for name in &names {
            match std::fs::read(out.join(name)) {
                Ok(file) => assert!(file == whole[Path::new(name)], "{name}"),
                // The last one was named, and had not got its name.
                Err(error) => assert!(status.is_none() && Some(name) == names.last(), "{name}: {error}"),
            }
        }
        run(&mut command(&out, &["--append"])).ends_with(0);
        check_same(&out, &fresh);
    }
}

/// Nothing is removed or written on the word of a manifest that is none.
#[test]
fn a_manifest_that_lies_is_refused() {
    let (moving, _) = Moving::new();
    let out = moving.scratch.join("out");
    let data = moving.scratch.join("data");
    let arguments = ["--data", text(&data)].map(str::to_owned);
    let go = |more: &[&str]| {
        let with = ["--format", "jsonl", "--partition", "10", "--out", text(&out)];
        export("transactions", &arguments, &[&with[..], more].concat())
    };
    go(&[]).ends_with(0);
    let good = std::fs::read(out.join(MANIFEST)).unwrap();
    let victim = moving.scratch.write("victim.jsonl", b"kept");
    let other_hash = "00".repeat(32);
    let changed = |change: &dyn Fn(&mut Value)| {
        let mut manifest = without_checksum(serde_json::from_slice(&good).unwrap());
        change(&mut manifest);
        serde_json::to_vec(&manifest).unwrap()
    };
    // Partitions that are off the chain are removed.
    let with_file = |file: &str| {
        changed(&|manifest| {
            manifest["partitions"][1]["file"] = file.into();
            manifest["partitions"][1]["hash"] = other_hash.clone().into();
        })
    };
    let set = |key: &'static str, to: Value| changed(&move |manifest| manifest[key] = to.clone());
    let set_in = |key: &'static str, to: Value| changed(&move |manifest| manifest["partitions"][1][key] = to.clone());
    let bad = [
        b"".to_vec(),
        good[..good.len() / 2].to_vec(),
        b"[]".to_vec(),
        b"{}".to_vec(),
        vec![0xff; 100],
        with_file("../victim.jsonl"),
        with_file(text(&victim)),
        with_file("0000020-0000029.jsonl"),
        with_file("0000010-0000019.csv"),
        with_file("./0000010-0000019.jsonl"),
        with_file(""),
        set("version", 1.into()),
        set("version", 3.into()),
        set("format", "../x".into()),
        set("blocks_per_partition", 0.into()),
        set("blocks_per_partition", 20.into()),
        set("blocks_per_partition", (-10).into()),
        set("from", 5.into()),
        set("partitions", Value::Null),
        set_in("from", 11.into()),
        set_in("to", 20.into()),
        set_in("to", 9.into()),
        set_in("to", u64::MAX.into()),
        set_in("hash", "zz".into()),
        set_in("hash", Value::Null),
        changed(&|manifest| {
            let partitions = manifest["partitions"].as_array_mut().unwrap();
            partitions.swap(1, 2);
        }),
        changed(&|manifest| {
            let partitions = manifest["partitions"].as_array_mut().unwrap();
            partitions[2] = partitions[1].clone();
        }),
    ];
    let with_rows = |rows: Value| {
        let mut manifest: Value = serde_json::from_slice(&good).unwrap();
        manifest["partitions"][0]["rows"] = rows;
        serde_json::to_vec(&manifest).unwrap()
    };
    let rows = serde_json::from_slice::<Value>(&good).unwrap()["partitions"][0]["rows"]
        .as_u64()
        .unwrap();
    // As it was, only in another form.
    std::fs::write(out.join(MANIFEST), with_rows(rows.into())).unwrap();
    go(&["--append"]).ends_with(0);
    let many = set_in("rows", u64::MAX.into());
    let sealed = [with_rows((rows + 1).into()), with_rows(u64::MAX.into()), many];
    for (number, bad) in bad.iter().chain(&sealed).enumerate() {
        std::fs::write(out.join(MANIFEST), bad).unwrap();
        let before = contents(&out);
        for option in ["--append", "--force"] {
            go(&[option]).ends_with(3).says(&[MANIFEST, "no manifest of a table"]);
            assert!(contents(&out) == before, "{number}");
            assert_eq!(std::fs::read(&victim).unwrap(), b"kept");
        }
    }
    // A pipe is not waited for.
    std::fs::remove_file(out.join(MANIFEST)).unwrap();
    crate::common::make_fifo(&out.join(MANIFEST));
    go(&["--append"]).ends_with(3).says(&[MANIFEST, "no regular file"]);
}

#[test]
fn what_does_not_go_together_is_said() {
    let (moving, _) = Moving::new();
    let (out, data) = (moving.scratch.join("out"), moving.scratch.join("data"));
    let arguments = ["--data", text(&data)].map(str::to_owned);
    let go = |table: &str, words: &str| {
        let words: Vec<&str> = words.split_whitespace().collect();
        export(table, &arguments, &[&words[..], &["--out", text(&out)]].concat())
    };
    go("outputs", "--append")
        .ends_with(2)
        .says(&["--append needs --partition"]);
    go("outputs", "--partition 10")
        .ends_with(2)
        .says(&["--partition needs --format"]);
    go("outputs", "--partition 0 --format csv").ends_with(2);
    go("outputs", "--partition 10 --format csv --binary")
        .ends_with(2)
        .says(&["--binary is for"]);
    assert!(!out.exists());
    for option in ["--partition=5", "--append"] {
        export("outputs", &arguments, &["--format", "csv", "--out", "-", option])
            .ends_with(2)
            .says(&["needs a folder"]);
    }
    go("outputs", "--partition 10 --format csv --from 5").ends_with(0);
    let before = contents(&out);
    for (table, words, said) in [
        (
            "outputs",
            "--partition 10 --format csv --from 5",
            "--append goes on with it, --force replaces it",
        ),
        ("outputs", "--append --force", "cannot be used with"),
        ("inputs", "--append", "name of the table there is outputs, not inputs"),
        (
            "outputs",
            "--append --format jsonl",
            "format of the table there is csv, not jsonl",
        ),
        ("outputs", "--append --partition 20", "there is 10, not 20"),
        (
            "outputs",
            "--append --from 6",
            "first height of the table there is 5, not 6",
        ),
        (
            "outputs",
            "--append --from 0",
            "first height of the table there is 5, not 0",
        ),
        ("outputs", "--append --to 50", "goes to height 57"),
    ] {
        go(table, words).ends_with(2).says(&[said]);
        assert!(contents(&out) == before, "{words}");
    }
    go("outputs", "--append").ends_with(0);
    assert!(contents(&out) == before);
    // Another network.
    let signet = moving.scratch.folder("signet");
    moving.scratch.folder("none");
    run(&mut connect(
        &moving.scratch.write("none/blk00000.dat", &[]),
        &signet,
        "signet",
    ))
    .ends_with(0);
    let of_signet = ["--data", text(&signet)].map(str::to_owned);
    let whole = moving.scratch.join("whole");
    let to = [
        "--partition",
        "10",
        "--format",
        "sqlite",
        "--binary",
        "--out",
        text(&whole),
    ];
    export("outputs", &arguments, &to).ends_with(0);
    export("outputs", &of_signet, &[&to[..], &["--append"]].concat())
        .ends_with(2)
        .says(&["network of the table there is regtest, not signet"]);
    export("outputs", &arguments, &["--append", "--out", text(&whole)])
        .ends_with(2)
        .says(&["form of ids of the table there is binary", "go on with --binary"]);
    // A table of another version.
    let mut manifest = without_checksum(manifest(&out));
    manifest["columns"][0] = "block".into();
    std::fs::write(out.join(MANIFEST), manifest.to_string()).unwrap();
    go("outputs", "--append")
        .ends_with(2)
        .says(&["columns of another version"]);
    // It is replaced, whatever it is.
    go("inputs", "--partition 25 --format jsonl --force").ends_with(0);
    assert_eq!(contents(&out).len(), 4);
    assert_eq!(named(&out)[0], "0000000-0000024.jsonl");
    // A file, not a folder.
    let file = moving.scratch.join("file.sqlite");
    export("outputs", &arguments, &["--out", text(&file)]).ends_with(0);
    export("outputs", &arguments, &["--append", "--out", text(&file)])
        .ends_with(2)
        .says(&["file.sqlite", "goes on with a database that --append has made"]);
    let parts = [
        "--append",
        "--partition",
        "10",
        "--format",
        "sqlite",
        "--out",
        text(&file),
    ];
    export("outputs", &arguments, &parts)
        .ends_with(2)
        .says(&["file.sqlite"]);
}

/// Files that no manifest names are somebody's, and a folder has one writer.
#[test]
fn a_folder_is_not_written_over() {
    let (moving, _) = Moving::new();
    let (out, data) = (moving.scratch.folder("out"), moving.scratch.join("data"));
    let go = |more: &[&str]| {
        let mut command = blockmill();
        command.args(["export", "outputs", "--format", "csv", "--data"]);
        run(command.arg(&data).arg("--out").arg(&out).args(more))
    };
    let options: [&[&str]; 3] = [&[], &["--append"], &["--force"]];
    let check_refused = |name: &str| {
        for more in options {
            go(&[&["--partition", "10"], more].concat())
                .ends_with(2)
                .says(&[name, "no manifest names this"]);
        }
    };
    // Also the manifest of an earlier version.
    let victim = moving.scratch.write("victim", b"mine");
    for name in ["0000050-0000059.csv", "rows.csv", "blockmill.json"] {
        let path = moving.scratch.write(&format!("out/{name}"), b"mine");
        check_refused(name);
        assert_eq!(std::fs::read(&path).unwrap(), b"mine");
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(&victim, &path).unwrap();
        check_refused(name);
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        check_refused(name);
        std::fs::remove_dir(&path).unwrap();
        assert_eq!(contents(&out).len(), 0);
    }
    let lock = File::open(&out).unwrap();
    lock.try_lock().unwrap();
    for more in options {
        go(&[&["--partition", "10"], more].concat())
            .ends_with(2)
            .says(&["another process is writing it"]);
    }
    drop(lock);
    // Names that readers skip are nobody's business, and what a killed one has left is removed.
    moving.scratch.write("out/_README", b"mine");
    moving.scratch.write("out/_0000050-0000059.incomplete", b"left");
    go(&["--partition", "10"]).ends_with(0);
    assert_eq!(contents(&out).len(), 8);
    // What stands where a partition was is neither followed nor replaced.
    let path = out.join("0000050-0000059.csv");
    std::fs::remove_file(&path).unwrap();
    crate::common::make_fifo(&path);
    for more in ["--append", "--force"] {
        go(&["--partition", "10", more])
            .ends_with(3)
            .says(&["0000050-0000059.csv", "no regular file"]);
    }
    std::fs::remove_file(&path).unwrap();
    go(&["--append"]).ends_with(0);
    assert_eq!(contents(&out).len(), 8);
    // Another program is in the middle of the table.
    let mut manifest = without_checksum(manifest(&out));
    manifest["unfinished"] = "blockmill.distributed.export".into();
    std::fs::write(out.join(MANIFEST), manifest.to_string()).unwrap();
    go(&["--append"])
        .ends_with(2)
        .says(&["blockmill.distributed.export has not finished this table", "--force"]);
    go(&["--partition", "20", "--force"]).ends_with(0);
    assert_eq!(contents(&out).len(), 5);
}
