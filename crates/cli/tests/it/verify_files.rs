//! `verify --blocks`: the blocks of block files against the undo data beside them, in the forms in
//! which Bitcoin Core leaves both.

use crate::common::core_folder::made;
use crate::common::{Run, Scratch, blockmill, export_blocks_command, hash_of, records, run};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

fn verify(blocks: &Path, more: &[&str]) -> Run {
    let mut command = blockmill();
    command.args(["verify", "--network", "regtest", "--blocks"]).arg(blocks);
    run(command.args(more))
}

#[test]
fn all_blocks_or_one_are_verified() {
    let scratch = Scratch::new();
    let (folder, chain) = made(&scratch);
    let before: Vec<_> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    let all = verify(&folder, &[]).ends_with(0);
    let row = |run: &Run, name: &str| {
        let line = run.stdout.lines().find(|line| line.starts_with(name));
        line.unwrap_or_else(|| panic!("{name}: {run:#?}"))
            .split_whitespace()
            .last()
            .unwrap()
            .to_owned()
    };
    assert_eq!(
        (row(&all, "valid"), row(&all, "unreadable"), row(&all, "best")),
        ("140".to_owned(), "0".to_owned(), "140".to_owned())
    );
    assert!(row(&all, "inputs").parse::<u64>().unwrap() >= 2_000);
    // Fees and weights as `export blocks` has them.
    let mut export = export_blocks_command();
    export.args(["--from", "1", "--out", "-"]);
    let rows = run(export.arg("--blocks").arg(&folder)).ends_with(0).stdout;
    let (mut fees, mut weights) = (0, BTreeMap::new());
    for row in rows.lines().map(|row| serde_json::from_str::<Value>(row).unwrap()) {
        fees += row["fee"].as_i64().unwrap_or_default();
        weights.insert(row["height"].as_u64(), row["block_weight"].as_u64().unwrap());
    }
    let json = verify(&folder, &["--json"]).ends_with(0).json();
    assert!(
        fees > 0 && json["fees"] == fees && json["weight"] == weights.values().sum::<u64>(),
        "{json}"
    );
    assert_eq!(json["unverified"], Value::Array(Vec::new()));
    assert_eq!(row(&all, "weight"), json["weight"].to_string());
    let hash = hash_of(&chain[records(&chain)[120].clone()]).to_string();
    let one = verify(&folder, &["--hash", &hash, "--par", "1"]).ends_with(0);
    assert_eq!(row(&one, "valid"), "1");
    // The network's first block, which spends nothing and has no undo data.
    let first = hash_of(&chain[records(&chain)[0].clone()]).to_string();
    let first = verify(&folder, &["--hash", &first]).ends_with(0);
    assert_eq!(row(&first, "valid"), "1");
    verify(&folder, &["--hash", &"11".repeat(32)])
        .ends_with(3)
        .says(&["1111", "in none of the block files"]);
    // Nothing is written there.
    let after: Vec<_> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(before, after);
}

#[test]
fn what_is_wrong_or_missing_is_named() {
    let scratch = Scratch::new();
    let (folder, chain) = made(&scratch);
    // A byte of undo data.
    let path = folder.join("rev00001.dat");
    let good = std::fs::read(&path).unwrap();
    let mut bad = good.clone();
    let offset = good.len() / 2;
    bad[offset] ^= 1;
    std::fs::write(&path, &bad).unwrap();
    let run =
        verify(&folder, &[])
            .ends_with(3)
            .says(&["rev00001.dat", "no undo data there has its checksum", "height"]);
    assert!(run.stdout.contains("valid         139"), "{run:#?}");
    std::fs::remove_file(&path).unwrap();
    let without = verify(&folder, &[]).ends_with(3).says(&[
        "blk00001.dat: there is no file of undo data (rev*.dat) beside it",
        "beside it: 71 blocks are not verified",
    ]);
    assert_eq!(without.stderr.lines().count(), 1, "{without:#?}");
    let json = verify(&folder, &["--json"]).ends_with(3).json();
    assert_eq!((&json["valid"], &json["remaining"]), (&69.into(), &0.into()));
    let unverified = json["unverified"].as_array().unwrap();
    assert_eq!(unverified.len(), 71);
    assert_eq!(
        (&unverified[0]["height"], &unverified[0]["verdict"]),
        (&70.into(), &"unreadable".into())
    );
    std::fs::write(&path, &good).unwrap();
    // A signature: the block is then another than its header says.
    let path = folder.join("blk00001.dat");
    let mut blocks = std::fs::read(&path).unwrap();
    let block = records(&chain)[100].clone();
    let before: usize = records(&chain)[70..130].iter().map(|range| range.len()).sum();
    assert!(block.len() > 100);
    let inside = before + 8 + 80 + 200;
    blocks[inside] ^= 4;
    std::fs::write(&path, &blocks).unwrap();
    let run = verify(&folder, &[]);
    assert!(matches!(run.status, 1 | 3), "{run:#?}");
    assert!(
        run.stderr.contains("blk00001.dat") && run.stderr.contains("height 130"),
        "{run:#?}"
    );
}
