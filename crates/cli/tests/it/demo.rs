//! `demo`: the first thing a newcomer runs.

use crate::common::{
    Run, Scratch, blockmill, check_seconds, has_surely_fast_lanes, names_in, run, stats, without_vectors,
};

const SECONDS_MAX: f64 = 60.0;

/// What follows a row's name in the demo's table.
fn row<'a>(demo: &'a Run, name: &str) -> &'a str {
    let line = demo.stdout.lines().find(|line| line.starts_with(&format!("{name} ")));
    line.map(|line| line[name.len()..].trim())
        .unwrap_or_else(|| panic!("no row {name}: {demo:#?}"))
}

/// The number that a row's text begins with.
fn number(demo: &Run, name: &str) -> u64 {
    let text = row(demo, name);
    let digits = text.split(' ').next().unwrap_or_default();
    digits
        .parse()
        .unwrap_or_else(|_| panic!("row {name} has no number: {text}"))
}

/// The demo shows the lanes, though its chain is short.
fn check_signatures(text: &str, surely_fast: bool, blocks: u64) {
    let (heights, counts) = text.split_once(": ").unwrap_or_else(|| panic!("no counts: {text}"));
    let count = |what: &str| -> u64 {
        let counts = counts.split(", ").find_map(|count| count.strip_suffix(what));
        counts
            .and_then(|count| count.trim().parse().ok())
            .unwrap_or_else(|| panic!("no {what}: {text}"))
    };
    let (in_lanes, by_kernel) = (count("in lanes"), count("by libsecp256k1"));
    assert_eq!(heights, format!("lanes for heights 1 to {blocks}"));
    let most = in_lanes > 1000 && by_kernel < in_lanes / 10;
    assert!(most || !surely_fast, "{text}");
}

fn check_table(demo: &Run, surely_fast: bool) {
    check_seconds(demo.seconds, SECONDS_MAX);
    let blocks = number(demo, "blocks");
    assert!(blocks > 100, "{blocks} blocks: nothing could be spent");
    assert!(number(demo, "transactions") > blocks);
    assert!(number(demo, "inputs") > 1000);
    assert!(row(demo, "size").ends_with(" kB"), "{demo:#?}");
    assert!(number(demo, "coins") > 0);
    let cache: Vec<_> = row(demo, "cache").split(", ").collect();
    assert!(
        cache[0].ends_with(" hits") && cache[1].ends_with(" misses"),
        "{cache:?}"
    );
    for stage in ["read", "decode", "fetch", "resolve", "check", "commit", "flush"] {
        let seconds: Vec<f64> = row(demo, stage)
            .split_whitespace()
            .map(|text| text.parse().unwrap())
            .collect();
        assert_eq!(seconds.len(), 2, "{stage}");
        assert!(stage != "check" || seconds[0] > 0.0, "no time was spent on scripts");
    }
    check_signatures(row(demo, "signatures"), surely_fast, blocks);
    assert_eq!(row(demo, "UTXO hash").len(), 64);
    assert_eq!(row(demo, "UTXO hash"), row(demo, "generator's"));
    assert_eq!(row(demo, "verdict"), "the same");
}

#[test]
fn it_leaves_no_files() {
    let scratch = Scratch::new();
    let temporary = scratch.join("tmp");
    let current = scratch.join("current");
    for directory in [&temporary, &current] {
        std::fs::create_dir(directory).unwrap();
    }
    let demo = run(blockmill().arg("demo").env("TMPDIR", &temporary).current_dir(&current)).ends_with(0);
    check_table(&demo, has_surely_fast_lanes());
    assert_eq!(names_in(&temporary), [""; 0]);
    assert_eq!(names_in(&current), [""; 0]);
}

#[test]
fn it_runs_without_vectors() {
    let demo = run(without_vectors(blockmill().arg("demo"))).ends_with(0);
    // A way that is named is taken.
    check_table(&demo, true);
}

#[test]
fn it_keeps_chain_and_data_where_told() {
    let scratch = Scratch::new();
    let temporary = scratch.join("tmp");
    std::fs::create_dir(&temporary).unwrap();
    let keep = scratch.join("kept");
    let demo = || {
        run(blockmill()
            .args(["demo", "--keep"])
            .arg(&keep)
            .env("TMPDIR", &temporary))
    };
    let first = demo().ends_with(0);
    check_table(&first, has_surely_fast_lanes());
    assert_eq!(names_in(&temporary), [""; 0]);
    assert_eq!(names_in(&keep), ["blocks", "data"]);
    let figures = stats(&keep.join("data"));
    assert_eq!(figures["hash_serialized_3"], row(&first, "UTXO hash"));
    assert_eq!(figures["txouts"], number(&first, "coins"));
    let manifest = std::fs::read_to_string(keep.join("blocks/manifest.json")).unwrap();
    let manifest: serde_json::Value = serde_json::from_str(&manifest).unwrap();
    assert_eq!(manifest["hash_serialized_3"], figures["hash_serialized_3"]);
    assert_eq!(manifest["tip"], figures["bestblock"]);
    // A second one does not touch what is kept.
    demo().ends_with(2).says(&[keep.to_str().unwrap()]);
    assert_eq!(stats(&keep.join("data")), figures);
}
