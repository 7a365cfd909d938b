//! The known full-block tests: 192 blocks, good and bad, in order, with the answers of Bitcoin
//! Core.

use crate::common::{Scratch, blockmill, run, without_vectors};
use blockmill_realdata::{block_of, full_block_rows, word_of};
use serde_json::Value;
use std::fs::File;
use std::process::Command;

/// Whether a verdict is what Core's verdict stands for.
fn verdict_fits(row: &Value, answer: &Value) -> bool {
    let verdict = answer["verdict"].as_str().unwrap_or_default();
    let wanted = match row["core_verdict"].as_str().expect("a verdict") {
        "accept_main" => "connected",
        "accept_side" => "side",
        "reject" | "reject_ancestor" => "invalid",
        "orphan" => "orphan",
        "undecodable" => "malformed",
        other => panic!("unknown verdict {other}"),
    };
    let also_ok = row["also_ok"].as_array();
    let rejection_ok = also_ok.is_some_and(|verdicts| verdicts.iter().any(|verdict| verdict == "reject"));
    verdict == wanted || (rejection_ok && verdict == "invalid")
}

/// What is wrong with an answer.
fn faults(row: &Value, answer: &Value) -> Vec<&'static str> {
    let mut faults = Vec::new();
    let mut check = |name, fits: bool| {
        if !fits {
            faults.push(name);
        }
    };
    check("verdict", verdict_fits(row, answer));
    let rejects_ancestor = row["core_verdict"] == "reject_ancestor";
    check("failed", answer["failed"].is_string() == rejects_ancestor);
    // What does not decode has a hash only if its header can be read.
    check("hash", answer["hash"] == row["block_hash"]);
    for (name, key) in [
        ("core_tip_after", "tip"),
        ("core_height_after", "height"),
        ("utxo_count_after", "txouts"),
        ("utxo_hash_after", "hash_serialized_3"),
    ] {
        check(key, row.get(name).is_none_or(|wanted| *wanted == answer[key]));
    }
    let has_reason = row["core_reject_reason"].is_string();
    check("reason", !has_reason || answer["reason"] == word_of(row));
    let accepted = matches!(answer["verdict"].as_str(), Some("connected" | "side" | "duplicate"));
    check("no reason", accepted == answer["reason"].is_null());
    faults
}

fn check(options: &[&str]) {
    check_on(options, &mut blockmill());
}

fn check_on(options: &[&str], command: &mut Command) {
    let Some(rows) = full_block_rows() else {
        return;
    };
    let lines: String = rows.iter().map(|row| format!("{}\n", block_of(row))).collect();
    let scratch = Scratch::new();
    let input = File::open(scratch.write("input", lines.as_bytes())).unwrap();
    command.arg("submit").arg("--data").arg(scratch.join("data"));
    command.args(["--network", "regtest", "--utxo"]).args(options);
    // `output` gives no input of its own where one is set.
    let submitted = run(command.stdin(input)).ends_with(0);
    let answers: Vec<Value> = submitted
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(answers.len(), rows.len());
    let mut wrong = Vec::new();
    for (row, answer) in rows.iter().zip(&answers) {
        let faults = faults(row, answer);
        if !faults.is_empty() {
            wrong.push(format!("{} ({}): {faults:?}: {answer}", row["seq"], row["name"]));
        }
    }
    assert!(wrong.is_empty(), "{options:?}: {} rows: {wrong:#?}", wrong.len());
}

#[test]
fn with_one_and_with_two_threads() {
    check(&["--par", "1"]);
    check(&["--par", "2"]);
}

#[test]
fn with_eight_threads_and_a_cache_of_one_mebibyte() {
    check(&["--par", "8", "--dbcache", "1"]);
}

#[test]
fn with_each_way_to_verify_signatures() {
    for way in ["one-by-one", "lanes"] {
        for threads in ["1", "2"] {
            check(&["--signatures", way, "--par", threads]);
        }
    }
}

#[test]
fn with_lanes_on_a_machine_without_vectors() {
    for way in ["auto", "lanes"] {
        check_on(&["--signatures", way], without_vectors(&mut blockmill()));
    }
}
