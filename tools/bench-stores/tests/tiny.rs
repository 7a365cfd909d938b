//! Tiny runs of everything: all phases of all stores that are built in, kills included.

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
    let stores = "log,redb,lmdb,fjall";
    let work = ["--coins", "20000", "--changes", "2000", "--rounds", "5"];
    let (output, figures) = run(directory.path(), &[&work[..], &["--stores", stores]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(
        table.contains("open after a kill") && table.contains("target: flush"),
        "{table}"
    );
    let figures = figures.unwrap();
    let rows = figures["rows"].as_array().unwrap();
    for store in stores.split(',') {
        let row = |table: &str| {
            let mut rows = rows.iter().filter(|row| row["store"] == store);
            rows.find(|row| row["table"] == table).unwrap_or(&Value::Null)
        };
        assert_eq!(
            (&row("flush, warm")["runs"], &row("open after a kill")["runs"]),
            (&5.into(), &3.into())
        );
        assert!(row("load")["written_per_byte"].as_f64() > Some(0.0), "{}", row("load"));
        for table in [
            "read, warm, 2 threads",
            "read, cold, 1 threads",
            "absent, warm",
            "absent, cold",
        ] {
            assert!(row(table)["per_second"].as_f64() > Some(0.0), "{store}, {table}");
            assert_eq!(row(table)["ratio_median"].is_null(), store == "log", "{store}, {table}");
        }
        assert!(row("all coins in order")["count"] == 20_000 && !row("flush, cold").is_null());
        assert_eq!(row("open without a checkpoint").is_null(), store != "log");
        assert!(!directory.path().join(store).exists());
    }
    assert!(figures["targets"].as_array().unwrap().len() > 12);
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
