//! Files that were made to take memory: the commands that read them keep to the bounds that
//! docs/trust.md states.

use crate::common::lying::{LyingChain, undo_record, write_coins};
use crate::common::{
    Scratch, blockmill, connect, export_blocks_command, generate_command, load_command, peak_memory,
    peak_memory_and_status, run, stats,
};
use crate::worst_blocks;
use bitcoin::hashes::Hash;
use blockmill_block::{Coin, OutPoint, Txid};
use blockmill_coins::StatsBuilder;
use blockmill_coins::stats::Hashes;
use std::path::{Path, PathBuf};
use std::process::Command;

const MIB: u64 = 1 << 20;

/// Coins in CSV without the times of their blocks.
fn without_times(csv: &[u8]) -> Vec<u8> {
    let (head, rows) = std::str::from_utf8(csv).unwrap().split_once('\n').unwrap();
    let at = head.split(',').position(|name| name == "block_time").unwrap();
    let mut without = format!("{head}\n");
    for row in rows.lines() {
        let fields: Vec<&str> = row.splitn(at + 2, ',').collect();
        without += &fields[..at].join(",");
        without += ",,";
        without += fields[at + 1];
        without.push('\n');
    }
    without.into_bytes()
}

/// Lines of JSON are written as those of CSV are.
const FORMATS: [&str; 3] = ["csv", "parquet", "sqlite"];

/// What docs/trust.md states for commands without `--dbcache`, and for each thread of them.
const READER: u64 = 96 * MIB;
const READER_THREAD: u64 = 64 * MIB;

/// Of the index of the coin log.
const BYTES_PER_COIN: u64 = 10;

/// Of what `export hints` takes from the set.
const HINT_BYTES_PER_COIN: u64 = 8;

#[track_caller]
fn check(name: &str, command: &mut Command, limit: u64) {
    check_peak(name, peak_memory(command), limit);
}

/// As [`check`], of a command that finds its input corrupt.
#[track_caller]
fn check_failing(name: &str, command: &mut Command, limit: u64) {
    let (peak, status) = peak_memory_and_status(command);
    assert_eq!(status.code(), Some(3), "{name}");
    check_peak(name, peak, limit);
}

#[track_caller]
fn check_peak(name: &str, peak: u64, limit: u64) {
    eprintln!("{name}: {} MiB at the most, {} allowed", peak / MIB, limit / MIB);
    assert!(peak <= limit, "{name}: {} MiB, {} allowed", peak / MIB, limit / MIB);
}

fn cores() -> u64 {
    std::thread::available_parallelism().map_or(1, usize::from) as u64
}

/// A snapshot that nobody validated.
struct Snapshot {
    scratch: Scratch,
    blocks: PathBuf,
    path: PathBuf,
    coins: u64,
    hash: String,
}

impl Snapshot {
    fn new(coins: impl Iterator<Item = (OutPoint, Coin)>) -> Self {
        let scratch = Scratch::new();
        let mut chain = LyingChain::new();
        for _ in 0..5 {
            chain.push(Vec::new(), Vec::new());
        }
        let blocks = chain.write(&scratch, "blocks");
        let path = scratch.join("snapshot.dat");
        let mut stats = StatsBuilder::new(Hashes::Serialized);
        let coins = coins.inspect(|(outpoint, coin)| stats.add(outpoint, coin));
        write_coins(&path, &chain.tip(), coins);
        let stats = stats.finish(&chain.tip());
        Self {
            scratch,
            blocks,
            path,
            coins: stats.txouts,
            hash: stats.hash_serialized_3.to_string(),
        }
    }

    /// Loads the snapshot, and has all readers go through the set. The order of ids is a matter of
    /// readers, so one format is enough for a second order.
    fn check_all(&self, name: &str, formats: &[&str]) {
        let data = self.scratch.join("data");
        let index = self.coins * BYTES_PER_COIN;
        let mut load = load_command(&self.blocks, &data, "regtest");
        load.args(["--dbcache", "16", "--hash", &self.hash]).arg(&self.path);
        check(
            &format!("{name}: load"),
            &mut load,
            16 * MIB * 11 / 10 + 96 * MIB + index,
        );
        let limit = READER + cores() * READER_THREAD + index;
        let of_data = |words: &[&str], out: Option<&Path>| {
            let mut command = blockmill();
            command.args(words).arg("--data").arg(&data).args(out);
            check(&format!("{name}: {words:?}"), &mut command, limit);
        };
        of_data(&["stats"], None);
        assert_eq!(stats(&data)["hash_serialized_3"], self.hash);
        of_data(&["balance", "raw(52)"], None);
        of_data(&["doctor"], None);
        of_data(&["snapshot", "dump"], Some(&self.scratch.join("dumped")));
        assert!(std::fs::read(self.scratch.join("dumped")).unwrap() == std::fs::read(&self.path).unwrap());
        // No block has made these coins.
        let out = self.scratch.join("hints");
        let hints = || {
            let mut command = blockmill();
            command.args(["export", "hints", "--data"]).arg(&data);
            command.arg("--out").arg(&out);
            command
        };
        let limit_of_hints = limit + self.coins * HINT_BYTES_PER_COIN;
        check_failing(&format!("{name}: hints"), &mut hints(), limit_of_hints);
        run(&mut hints()).ends_with(3).says(&["height 1: of "]);
        assert!(!out.exists());
        for &format in formats {
            let out = self.scratch.join(format);
            let out = out.to_str().unwrap();
            let words = ["export", "coins", "--format", format, "--out", out];
            of_data(&words, None);
            let of_set = std::fs::read(out).unwrap();
            std::fs::remove_file(out).unwrap();
            let mut command = blockmill();
            command.args(words).arg("--snapshot").arg(&self.path);
            check(&format!("{name}: {words:?} --snapshot"), &mut command, limit);
            // A snapshot does not have the times of blocks.
            assert!(format != "csv" || std::fs::read(out).unwrap() == without_times(&of_set));
            std::fs::remove_file(out).unwrap();
        }
    }
}

/// The outpoint of a number: their first bytes are the same, or spread.
fn outpoint(number: u64, is_spread: bool) -> OutPoint {
    let mut txid = [0; 32];
    let at = if is_spread { 0 } else { 24 };
    txid[at..at + 8].copy_from_slice(&number.to_be_bytes());
    OutPoint {
        txid: Txid(txid),
        vout: 0,
    }
}

fn coin(script: Vec<u8>) -> Coin {
    Coin {
        value: 1,
        height: 1,
        is_coinbase: false,
        script_pubkey: script.into(),
    }
}

/// 300 MB of scripts in few coins, whose ids begin with the same bytes.
#[test]
fn large_coins_with_ids_alike() {
    let coins = (0..30_000).map(|number| (outpoint(number, false), coin(vec![0x61; 10_000])));
    Snapshot::new(coins).check_all("large, alike", &FORMATS);
}

#[test]
fn large_coins_with_ids_spread() {
    let coins = (0..30_000u64).map(|number| (outpoint(number << 48, true), coin(vec![0x61; 10_000])));
    Snapshot::new(coins).check_all("large, spread", &["parquet"]);
}

/// More coins than are read at once, whose ids begin with the same bytes.
#[test]
fn small_coins_with_ids_alike() {
    let coins = (0..700_000).map(|number| (outpoint(number, false), coin(vec![0x51])));
    Snapshot::new(coins).check_all("small, alike", &FORMATS);
}

/// Transactions with as many coins as fit into a block.
#[test]
fn transactions_of_many_coins() {
    let coins = (0..10u64).flat_map(|number| {
        let OutPoint { txid, .. } = outpoint(number << 32, true);
        (0..110_000).map(move |vout| (OutPoint { txid, vout }, coin(Vec::new())))
    });
    Snapshot::new(coins).check_all("many of one", &["parquet"]);
}

/// Exports the blocks in a folder: nested, flat, and the flat tables in one pass; `statistics` by
/// themselves, since they refuse coins that the chain has not made, once they have all of a run.
/// Nested Parquet may take more.
fn check_exports(scratch: &Scratch, folder: &Path, limit: u64, more_as_nested_parquet: u64) {
    let flat: &[&str] = &["inputs", "--and", "transactions,outputs,spenders,positions,filters"];
    for (number, (tables, format)) in [
        (["blocks"].as_slice(), "jsonl"),
        (&["blocks"], "parquet"),
        (&["inputs"], "csv"),
        (flat, "csv"),
        (flat, "jsonl"),
        (flat, "parquet"),
        (flat, "arrow"),
        (flat, "sqlite"),
    ]
    .into_iter()
    .enumerate()
    {
        let mut export = blockmill();
        export.arg("export").args(tables);
        export.args(["--network", "regtest", "--format", format, "--blocks"]);
        export.arg(folder).arg("--out").arg(scratch.join(&format!("{number}")));
        let more = match (tables, format) {
            (["blocks"], "parquet") => more_as_nested_parquet,
            _ => 0,
        };
        check(&format!("export {tables:?} as {format}"), &mut export, limit + more);
    }
    let mut export = blockmill();
    export.args([
        "export",
        "statistics",
        "--network",
        "regtest",
        "--format",
        "csv",
        "--out",
        "-",
        "--blocks",
    ]);
    let (peak, status) = peak_memory_and_status(export.arg(folder));
    assert!(matches!(status.code(), Some(0 | 3)), "{status}");
    check_peak("export statistics", peak, limit);
}

/// A block that spends 50 MB of scripts in one transaction, and one that does in many: each thread
/// takes up to four times what the coins of its block have.
#[test]
fn blocks_that_spend_much() {
    const INPUTS: usize = 5_000;
    let script = worst_blocks::huge_script().into_bytes();
    let spent = INPUTS as u64 * script.len() as u64;
    let (scratch, mut chain) = (Scratch::new(), LyingChain::new());
    let id = |number: usize| {
        let mut id = [0x11; 32];
        id[..8].copy_from_slice(&number.to_be_bytes());
        bitcoin::Txid::from_byte_array(id)
    };
    chain.push(Vec::new(), Vec::new());
    let coins = vec![coin(script.clone()); INPUTS];
    chain.push(vec![worst_blocks::fan_in(id(0), 0..INPUTS)], vec![coins]);
    let many = (1..=INPUTS / 10).map(|number| worst_blocks::fan_in(id(number), 0..10));
    chain.push(many.collect(), vec![vec![coin(script); 10]; INPUTS / 10]);
    let folder = chain.write(&scratch, "blocks");
    for threads in [1, 2] {
        let mut verify = blockmill();
        verify.args([
            "verify",
            "--network",
            "regtest",
            "--par",
            &threads.to_string(),
            "--blocks",
        ]);
        let limit = READER + threads * (4 * spent).max(READER_THREAD);
        check(&format!("verify --par {threads}"), verify.arg(&folder), limit);
    }
    check_exports(&scratch, &folder, READER + cores() * (4 * spent).max(READER_THREAD), 0);
}

/// An undo record of 114 MiB, which says that one transaction spends 30 million coins. No block has
/// room for so many inputs: it is refused before it is decoded.
#[test]
fn an_undo_record_of_more_coins_than_a_block_can_spend() {
    const COINS: u32 = 30_000_000;
    let (scratch, mut chain) = (Scratch::new(), LyingChain::new());
    chain.push(Vec::new(), Vec::new());
    chain.push(
        vec![worst_blocks::fan_in(bitcoin::Txid::all_zeros(), 0..1)],
        vec![vec![coin(vec![0x51])]],
    );
    let folder = chain.write(&scratch, "blocks");
    let mut data = vec![1, 0xfe];
    data.extend(COINS.to_le_bytes());
    // Height 1, version, no amount, no script.
    data.extend([2, 0, 0, 6].repeat(COINS as usize));
    let mut file = undo_record(&chain.blocks[0].block_hash(), &[0]);
    file.extend(undo_record(&chain.blocks[1].block_hash(), &data));
    drop(data);
    std::fs::write(folder.join("rev00000.dat"), &file).unwrap();
    let mut verify = blockmill();
    verify
        .args(["verify", "--network", "regtest", "--par", "1", "--blocks"])
        .arg(&folder);
    check_failing("verify", &mut verify, READER + READER_THREAD);
    let mut export = export_blocks_command();
    export
        .arg("--blocks")
        .arg(&folder)
        .arg("--out")
        .arg(scratch.join("rows"));
    check_failing("export blocks", &mut export, READER + cores() * READER_THREAD);
}

/// An undo file of magics alone after the true records. All blocks are found, and the tables of the
/// others have a bound.
#[test]
fn an_undo_file_of_magics() {
    let scratch = Scratch::new();
    let mut chain = LyingChain::new();
    for _ in 0..5 {
        chain.push(Vec::new(), Vec::new());
    }
    let folder = chain.write(&scratch, "blocks");
    let rev = folder.join("rev00000.dat");
    let mut file = std::fs::read(&rev).unwrap();
    let head = [&file[..4], &[8, 0, 0, 0]].concat();
    file.extend(head.repeat(16 << 20));
    std::fs::write(&rev, &file).unwrap();
    let mut verify = blockmill();
    verify
        .args(["verify", "--network", "regtest", "--par", "1", "--blocks"])
        .arg(&folder);
    check("verify", &mut verify, READER + READER_THREAD);
}

/// Verifies, audits and exports blocks. `witness_items` bytes more are allowed where scripts run,
/// and for each thread that makes nested Parquet.
fn check_all_readers(blocks: &worst_blocks::Chain, witness_items: u64) {
    let scratch = Scratch::new();
    let folder = blocks.write_with_undo(&scratch);
    for threads in [1u64, 2, 4] {
        let limit = READER + threads * READER_THREAD + witness_items;
        for signatures in ["lanes", "one-by-one"] {
            let mut verify = blockmill();
            verify.args(["verify", "--network", "regtest", "--signatures", signatures, "--par"]);
            verify.arg(threads.to_string()).arg("--blocks").arg(&folder);
            check(&format!("verify --par {threads} {signatures}"), &mut verify, limit);
        }
        let mut audit = blockmill();
        audit.args([
            "audit",
            "--network",
            "regtest",
            "--par",
            &threads.to_string(),
            "--blocks",
        ]);
        audit.arg(&folder).arg("--snapshot").arg(scratch.join("set"));
        check(&format!("audit --par {threads}"), &mut audit, limit);
    }
    let limit = READER + cores() * READER_THREAD;
    check_exports(&scratch, &folder, limit, cores() * witness_items);
}

/// Blocks that are full of one kind.
#[test]
fn the_worst_blocks() {
    check_all_readers(&worst_blocks::chain(), 0);
}

#[test]
fn witnesses_of_many_items() {
    let witness_items = worst_blocks::WITNESS_ITEMS_BYTES as u64;
    check_all_readers(&worst_blocks::many_witness_items(), witness_items);
}

/// Files that have gigabytes of nothing are not read whole.
#[test]
fn sparse_files_instead_of_small_ones() {
    let scratch = Scratch::new();
    let (blocks, data, set) = (scratch.join("chain"), scratch.join("data"), scratch.join("set"));
    run(&mut generate_command(&blocks, "utxo", 20)).ends_with(0);
    run(&mut connect(&blocks, &data, "regtest")).ends_with(0);
    let with = |arguments: &[&str], paths: &[&Path]| {
        let mut command = blockmill();
        command.args(arguments).args(paths);
        command
    };
    run(&mut with(&["snapshot", "dump", "--data"], &[&data, &set])).ends_with(0);
    run(&mut with(&["audit", "--data"], &[&data])).ends_with(0);
    let key = scratch.join("key");
    run(&mut with(&["audit", "key"], &[&key])).ends_with(0);
    let grow = |path: &Path| {
        let file = std::fs::File::options().append(true).create(true).open(path).unwrap();
        file.set_len(3 << 30).unwrap();
    };
    let limit = READER + cores() * READER_THREAD;
    // Nothing, and the begin of a part of one block and of many.
    for last in [None, Some(0u32), Some(u32::MAX)] {
        let part = scratch.join("part");
        let begin = last.map(|last| [b"bmaudit2", &[0; 24][..], &last.to_le_bytes()].concat());
        std::fs::write(&part, begin.unwrap_or_default()).unwrap();
        grow(&part);
        let mut merge = with(&["audit", "merge", "--key"], &[&key]);
        merge.arg("--snapshot").arg(&set).arg(&part);
        check_failing("part", &mut merge, limit);
    }
    grow(&data.join("audit.txt"));
    check_failing(
        "audit.txt",
        &mut with(&["stats", "--hash", "none", "--data"], &[&data]),
        limit,
    );
    grow(&data.join("meta.json"));
    check_failing("meta.json", &mut with(&["status", "--data"], &[&data]), limit);
}
