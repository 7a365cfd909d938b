//! `--signatures`: the result is the same, and the report says how signatures were verified.

mod common;

use common::{Run, Scratch, blockmill, run};
use std::path::Path;

const BLOCKS: u32 = 140;

fn generate(scratch: &Scratch) -> std::path::PathBuf {
    let out = scratch.join("chain");
    let blocks = BLOCKS.to_string();
    let mut command = blockmill();
    command.args([
        "generate",
        "--profile",
        "mixed",
        "--inputs",
        "2000",
        "--blocks",
        &blocks,
        "--out",
    ]);
    run(command.arg(&out)).ends_with(0);
    out
}

fn connected(blocks: &Path, data: &Path, more: &[&str]) -> Run {
    let mut command = blockmill();
    command
        .args(["connect", "--network", "regtest", "--blocks"])
        .arg(blocks);
    run(command.arg("--data").arg(data).args(more)).ends_with(0)
}

/// What stands beside the name of a row.
fn row<'a>(run: &'a Run, name: &str) -> &'a str {
    let mut rows = run.stdout.lines().filter_map(|line| line.strip_prefix(name));
    rows.next().unwrap_or_else(|| panic!("no row {name}: {run:#?}")).trim()
}

#[test]
fn every_way_leads_to_the_same_set() {
    let scratch = Scratch::new();
    let chain = generate(&scratch);
    let mut tips = Vec::new();
    for way in ["auto", "kernel", "lanes"] {
        for threads in ["1", "2"] {
            let data = scratch.join(&format!("data-{way}-{threads}"));
            let json = connected(&chain, &data, &["--json", "--signatures", way, "--par", threads]).json();
            assert_eq!(json["height"], BLOCKS);
            let signatures = json["signatures"].as_object().unwrap();
            let keys: Vec<_> = signatures.keys().map(String::as_str).collect();
            assert_eq!(keys, ["again", "cannot_tell", "kernel", "lanes", "rechecked"]);
            assert!(signatures.values().all(serde_json::Value::is_u64), "{signatures:?}");
            // All blocks of so short a chain have less than two weeks of work above them.
            assert!(way == "lanes" || signatures["lanes"] == 0, "{way}: {signatures:?}");
            tips.push((json["tip"].clone(), common::stats(&data)["hash_serialized_3"].clone()));
        }
    }
    tips.dedup();
    assert_eq!(tips.len(), 1, "{tips:?}");
}

#[test]
fn the_report_says_which_way_was_taken() {
    let scratch = Scratch::new();
    let chain = generate(&scratch);
    let said = |way: &str| {
        let run = connected(&chain, &scratch.join(way), &["--signatures", way]);
        row(&run, "signatures").to_owned()
    };
    let heights = format!("heights 1 to {BLOCKS}");
    assert!(said("kernel").starts_with(&format!("libsecp256k1 for {heights} (asked for)")));
    // Where the verifier has no lanes the report says so.
    let no_lanes = format!("libsecp256k1 for {heights} (the verifier has no lanes)");
    let near = format!("libsecp256k1 for {heights} (less than two weeks of work above)");
    let auto = said("auto");
    assert!(auto.starts_with(&near) || auto.starts_with(&no_lanes), "{auto}");
    let lanes = said("lanes");
    assert!(
        lanes.starts_with(&format!("lanes for {heights}")) || lanes.starts_with(&no_lanes),
        "{lanes}"
    );
}
