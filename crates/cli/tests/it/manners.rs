//! What a user meets at every command: words of options, lines of results, exit statuses.

use crate::common::own_set::OwnChain;
use crate::common::{Run, Scratch, blockmill, connect, run};
use std::fs::OpenOptions;
use std::path::Path;
use std::process::Command;

fn with(arguments: &[&str], data: &Path) -> Command {
    let mut command = blockmill();
    command.args(arguments).arg("--data").arg(data);
    command
}

/// A short chain, and an empty folder for data directories.
fn chain() -> (Scratch, OwnChain) {
    let scratch = Scratch::new();
    let chain = OwnChain::generate(&scratch, "mixed", 120, &["--inputs", "1200"]);
    (scratch, chain)
}

#[test]
fn connect_ends_with_a_line() {
    let (scratch, chain) = chain();
    let inputs: usize = chain
        .blocks
        .iter()
        .flat_map(|block| &block.txdata[1..])
        .map(|tx| tx.input.len())
        .sum();
    let grouped = format!("{},{:03}", inputs / 1000, inputs % 1000);
    let line = |run: &Run, blocks: &str, inputs: &str| {
        let prefix = format!("connected {blocks} to height 120: {inputs} in ");
        let out = run
            .stdout
            .strip_prefix(&prefix)
            .and_then(|rest| rest.strip_suffix(" s\n"));
        assert!(out.is_some_and(|seconds| seconds.parse::<f64>().is_ok()), "{run:?}");
    };
    let data = scratch.join("data");
    let first = run(&mut connect_to(&chain, &data, &[])).ends_with(0);
    line(&first, "120 blocks", &format!("{grouped} inputs"));
    let again = run(&mut connect_to(&chain, &data, &[])).ends_with(0);
    line(&again, "0 blocks", "0 inputs");
    assert_eq!(again.stderr, "blockmill: going on from height 120\n");
    // Quiet: nothing but warnings.
    let quiet = run(&mut connect_to(&chain, &data, &["-q"])).ends_with(0);
    assert_eq!(quiet.stderr, "");
    let warned = run(&mut connect_to(&chain, &data, &["-q", "--stop-at-height", "5"])).ends_with(0);
    warned.says(&["--stop-at-height 5 is below the tip"]);
    // All of it.
    for option in ["-v", "--verbose"] {
        let table = run(&mut connect_to(&chain, &scratch.join(option), &[option]))
            .ends_with(0)
            .stdout;
        for row in ["network", "blocks", "signatures", "stage", "resolve", "flush"] {
            assert!(table.lines().any(|line| line.starts_with(row)), "{row}: {table}");
        }
    }
    run(&mut connect_to(&chain, &data, &["-v", "--json"])).ends_with(2);
}

fn connect_to(chain: &OwnChain, data: &Path, options: &[&str]) -> Command {
    let mut command = blockmill();
    command
        .args(["connect", "--network", "regtest", "--blocks"])
        .arg(&chain.folder);
    command.arg("--data").arg(data).args(options);
    command
}

#[test]
fn the_environment_stands_in_for_options() {
    let (scratch, chain) = chain();
    let data = scratch.join("data");
    let mut command = blockmill();
    command.args(["connect", "--json", "--blocks"]).arg(&chain.folder);
    command.env("BLOCKMILL_DATA", &data).env("BLOCKMILL_NETWORK", "regtest");
    let small = run(command.env("BLOCKMILL_DBCACHE", "1")).ends_with(0).json();
    assert_eq!(small["height"], 120);
    let of = |name: &[&str]| {
        let mut command = blockmill();
        command.args(name).env("BLOCKMILL_DATA", &data);
        command
    };
    let stats = run(&mut of(&["stats", "--json"])).ends_with(0).json();
    assert_eq!(stats["height"], 120);
    run(&mut of(&["doctor"])).ends_with(0);
    // What is given goes first.
    let nowhere = scratch.join("nowhere");
    run(of(&["stats", "--data"]).arg(&nowhere))
        .ends_with(2)
        .says(&["nowhere"]);
    run(command.env("BLOCKMILL_DBCACHE", "many")).ends_with(2);
    // A snapshot is read instead of the directory.
    let snapshot = scratch.join("snapshot.dat");
    run(of(&["snapshot", "dump"]).arg(&snapshot)).ends_with(0);
    let export = ["export", "coins", "--format", "csv", "--out", "-", "--snapshot"];
    run(of(&export).arg(&snapshot)).ends_with(0);
}

#[test]
fn networks_have_several_names() {
    let scratch = Scratch::new();
    let empty = scratch.write("blk00000.dat", &[]);
    for (name, network) in [
        ("main", "bitcoin"),
        ("mainnet", "bitcoin"),
        ("test", "testnet3"),
        ("testnet", "testnet3"),
    ] {
        let data = scratch.join(name);
        let report = run(&mut connect(&empty, &data, name)).ends_with(0).json();
        assert_eq!(report["network"], network);
    }
}

#[test]
fn the_version_says_what_it_is() {
    let version = run(blockmill().arg("--version")).ends_with(0).stdout;
    let expected = format!("blockmill {} (commit ", env!("CARGO_PKG_VERSION"));
    assert!(version.starts_with(&expected), "{version}");
    assert!(version.contains(", scripts by Bitcoin Core "), "{version}");
}

/// Where a disk is full, whatever is written.
#[test]
fn a_full_disk_is_status_4() {
    let (scratch, chain) = chain();
    let data = scratch.join("data");
    run(&mut connect_to(&chain, &data, &[])).ends_with(0);
    let full = || OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut export = with(&["export", "coins", "--format", "csv", "--out", "-"], &data);
    for command in [
        blockmill().arg("--help"),
        blockmill().arg("--version"),
        &mut with(&["stats"], &data),
        &mut with(&["stats", "--json"], &data),
        &mut with(&["coin", &format!("{}:0", "ab".repeat(32))], &data),
        &mut with(&["balance", "raw:51"], &data),
        &mut export,
        &mut connect_to(&chain, &data, &["--json"]),
    ] {
        let output = command.stdout(full()).output().unwrap();
        let words = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(4), "{command:?}: {words}");
        assert!(words.contains("No space left on device"), "{words}");
    }
}

#[test]
fn a_run_without_a_block_leaves_nothing() {
    let (scratch, chain) = chain();
    let empty = scratch.write("empty.dat", &[]);
    for (blocks, network) in [(&empty, "regtest"), (&chain.folder, "signet")] {
        let data = scratch.join("data");
        let run = run(&mut connect(blocks, &data, network));
        assert_eq!(run.json()["blocks"], 0);
        assert!(!data.exists(), "{run:?}");
    }
    let data = scratch.join("submitted");
    run(with(&["submit", "--network", "regtest"], &data).stdin(std::process::Stdio::null())).ends_with(0);
    assert!(!data.exists());
    // A folder of the user's stays, and so does a directory once there was a block.
    let own = scratch.folder("own");
    run(&mut connect(&empty, &own, "regtest")).ends_with(0);
    run(&mut with(&["doctor"], &own)).ends_with(0);
    let genesis = scratch.write(
        "genesis.dat",
        &std::fs::read(chain.folder.join("blk00000.dat")).unwrap()[..293],
    );
    let data = scratch.join("data");
    for blocks in [&genesis, &empty] {
        run(&mut connect(blocks, &data, "regtest")).ends_with(0);
        run(&mut with(&["doctor"], &data)).ends_with(0);
    }
}

#[test]
fn a_flipped_bit_is_not_called_an_invalid_block() {
    let (scratch, chain) = chain();
    let mut file = std::fs::read(chain.folder.join("blk00000.dat")).unwrap();
    let last = file.len() - 10;
    file[last] ^= 1;
    let damaged = scratch.write("blk00000.dat", &file);
    let data = scratch.join("data");
    let refused = run(&mut connect(&damaged, &data, "regtest")).ends_with(1);
    assert_eq!(refused.json()["rejected"][0]["may_be_damaged"], true);
    refused.says(&["height 120", "its header is sound", "may be damage", "getblock HASH 0"]);
    // What it says helps.
    let report = run(&mut connect(&chain.folder, &data, "regtest")).ends_with(0);
    assert_eq!(report.json()["height"], 120);
}
