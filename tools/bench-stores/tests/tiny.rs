//! Tiny runs of everything: all phases of all stores that are built in, kills included; and one
//! within a bound of memory.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

/// Runs the command with a folder for its stores, and its JSON in a file there.
fn run(directory: &Path, arguments: &[&str]) -> (Output, Option<Value>) {
    let json = directory.join("figures.json");
    let output = Command::new(env!("CARGO_BIN_EXE_blockmill-bench-stores"))
        .args(["--reads", "2000", "--cold-reads", "500", "--cache-mib", "4"])
        .args(arguments)
        .arg("--dir")
        .arg(directory)
        .arg("--json")
        .arg(&json)
        .output()
        .unwrap();
    let figures = std::fs::read(json).ok();
    (output, figures.map(|text| serde_json::from_slice(&text).unwrap()))
}

#[test]
fn a_tiny_run_has_all_figures() {
    let directory = tempfile::tempdir().unwrap();
    let mut stores = "log,redb,lmdb,fjall".to_owned();
    if cfg!(feature = "leveldb") {
        stores += ",leveldb";
    }
    if cfg!(feature = "rocksdb") {
        stores += ",rocksdb,rocksdb-ingest";
    }
    let work = ["--coins", "20000", "--changes", "2000", "--rounds", "5"];
    let (output, figures) = run(directory.path(), &[&work[..], &["--stores", &stores]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(table.contains("open after a kill"), "{table}");
    assert!(table.contains("memory is not bounded"), "{table}");
    assert!(!table.contains("- |"), "a figure is missing: {table}");
    let figures = figures.unwrap();
    assert_eq!(figures["targets"], serde_json::json!([]));
    for store in stores.split(',') {
        let figures = &figures["stores"][store];
        assert_eq!(figures["flush"]["commits"].as_array().unwrap().len(), 5);
        assert!(figures["flush"]["cpu_seconds"]["mean"].as_f64().unwrap() > 0.0);
        assert_eq!(figures["reopen"].as_array().unwrap().len(), 3);
        assert!(figures["load"]["write_ratio"].as_f64().unwrap() > 0.0);
        assert!(!directory.path().join(store).exists());
    }
}

#[test]
fn more_rounds_than_coins_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let work = ["--coins", "10000", "--changes", "2000", "--rounds", "6"];
    let (output, _) = run(directory.path(), &work);
    assert!(!output.status.success());
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("too few for 11 rounds"), "{error}");
}

/// A little less than all memory: no test takes a machine's memory away.
#[test]
fn memory_is_bounded_or_it_is_said_why_not() {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap();
    let total = text.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024;
    let memory = (total - 4).to_string();
    let directory = tempfile::tempdir().unwrap();
    let work = ["--coins", "5000", "--changes", "500", "--rounds", "2", "--kills", "1"];
    let bound = ["--stores", "lmdb", "--memory-mib", &memory];
    let (output, figures) = run(directory.path(), &[&work[..], &bound].concat());
    let error = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        assert!(error.contains("memory cannot be bounded here"), "{error}");
        return;
    }
    let memory = figures.unwrap()["memory"].clone();
    let how = memory["how"].as_str().unwrap();
    assert!(how.contains("cgroup") || how.contains("balloon"), "{how}");
    assert_eq!(memory["mib"], total - 4);
}
