//! `--signatures`: the result is the same, and the report says how signatures were verified.

use crate::common::{self, Run, Scratch, blockmill, generate_command, run, without_vectors};
use std::path::Path;

const BLOCKS: u32 = 140;

fn generate(scratch: &Scratch) -> std::path::PathBuf {
    let out = scratch.join("chain");
    let mut command = generate_command(&out, "mixed", BLOCKS);
    run(command.args(["--inputs", "2000"])).ends_with(0);
    out
}

fn connected(blocks: &Path, data: &Path, vectors: bool, more: &[&str]) -> Run {
    let mut command = blockmill();
    if !vectors {
        without_vectors(&mut command);
    }
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
    for (way, vectors) in [
        ("auto", true),
        ("one-by-one", true),
        ("lanes", true),
        ("auto", false),
        ("lanes", false),
    ] {
        for threads in ["1", "2"] {
            let data = scratch.join(&format!("data-{way}-{vectors}-{threads}"));
            let options = ["--json", "--signatures", way, "--par", threads];
            let json = connected(&chain, &data, vectors, &options).json();
            assert_eq!(json["height"], BLOCKS);
            let signatures = json["signatures"].as_object().unwrap();
            let keys: Vec<_> = signatures.keys().map(String::as_str).collect();
            assert_eq!(keys, ["again", "cannot_tell", "kernel", "lanes", "rechecked"]);
            let count = |key: &str| signatures[key].as_u64().unwrap();
            let what = format!("{way} {vectors}: {signatures:?}");
            if way == "lanes" {
                assert!(count("lanes") > 1000 && count("kernel") < count("lanes") / 10, "{what}");
                assert!(
                    count("rechecked") > 0 && count("rechecked") <= count("lanes") / 1000 + 1,
                    "{what}"
                );
                assert!(count("again") > 0, "{what}");
            } else {
                // All blocks of so short a chain have less than two weeks of work above them.
                assert!(count("lanes") == 0 && count("kernel") > 1000, "{what}");
                assert_eq!((count("again"), count("rechecked")), (0, 0), "{what}");
            }
            assert_eq!(count("cannot_tell"), 0, "{what}");
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
    let said = |way: &str, vectors: bool| {
        let data = scratch.join(&format!("{way}-{vectors}"));
        let run = connected(&chain, &data, vectors, &["-v", "--signatures", way]);
        row(&run, "signatures").to_owned()
    };
    let heights = format!("heights 1 to {BLOCKS}");
    let near = format!("libsecp256k1 for {heights} (less than two weeks of work above): 0 in lanes, ");
    let asked = format!("libsecp256k1 for {heights} (asked for): 0 in lanes, ");
    let lanes = format!("lanes for {heights}: ");
    for (way, vectors, text) in [
        ("one-by-one", true, &asked),
        ("one-by-one", false, &asked),
        ("auto", true, &near),
        ("auto", false, &near),
        ("lanes", true, &lanes),
        ("lanes", false, &lanes),
    ] {
        let said = said(way, vectors);
        assert!(said.starts_with(text), "{way} {vectors}: {said}");
    }
}

/// The first way of hashing that the machine has is taken, or the one that is named.
#[test]
fn the_way_of_hashing_may_be_named() {
    let scratch = Scratch::new();
    let chain = generate(&scratch);
    let hashes = |data: &str, backend: Option<&str>| {
        let mut command = common::connect(&chain, &scratch.join(data), "regtest");
        command.env_remove("BLOCKMILL_BACKEND");
        if let Some(backend) = backend {
            command.env("BLOCKMILL_BACKEND", backend);
        }
        run(&mut command).ends_with(0).json()["hashes"].clone()
    };
    let first = sha256_lanes::Backend::ALL
        .into_iter()
        .find(|backend| backend.is_available());
    for (data, named, way) in [
        ("first", None, first.unwrap().name()),
        ("named", Some("portable"), "portable"),
    ] {
        assert_eq!(hashes(data, named), serde_json::json!({"way": way}));
    }
}

/// A name that means nothing, or a backend that is not there, is no error.
#[test]
fn an_unknown_backend_counts_for_nothing() {
    let scratch = Scratch::new();
    let chain = generate(&scratch);
    let data = scratch.join("data");
    let mut command = common::connect(&chain, &data, "regtest");
    command.env("BLOCKMILL_BACKEND", "abacus");
    let json = run(command.args(["--signatures", "lanes"])).ends_with(0).json();
    assert!(json["signatures"]["lanes"].as_u64() > Some(1000), "{json}");
}
