//! `export statistics` beside figures that the tests made from the blocks with rust-bitcoin, and
//! beside Core's own.

pub(crate) mod bitcoind;
mod own;

use crate::common::core_folder::made;
use crate::common::lying::LyingChain;
use crate::common::python::Python;
use crate::common::{Run, Scratch, blockmill, connect, connected_real, run};
use crate::export_blocks::{blocks_of, lines};
use bitcoin::hashes::Hash;
use bitcoin::{Amount, Block, OutPoint, ScriptBuf, Transaction, TxOut, Txid};
use blockmill_block::Coin;
use blockmill_chaingen::builder::{BlockBuilder, any_script, spend_any, subsidy};
use own::figures;
use serde_json::{Value, json};
use std::path::Path;

pub(crate) const MAX_MONEY: i64 = 21_000_000 * 100_000_000;

pub(crate) fn export(source: &[&str], more: &[&str]) -> Run {
    run(blockmill()
        .args(["export", "statistics", "--format", "jsonl", "--out", "-"])
        .args(source)
        .args(more))
}

#[track_caller]
pub(crate) fn statistics(source: &[&str], more: &[&str]) -> Vec<Value> {
    lines(&export(source, more).ends_with(0).stdout)
}

fn of_folder(folder: &Path) -> [&str; 4] {
    ["--network", "regtest", "--blocks", folder.to_str().unwrap()]
}

/// Row by row, so that a difference is short.
#[track_caller]
pub(crate) fn compare(found: &[Value], expected: &[Value]) {
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        let mut expected = expected.clone();
        if expected["muhash"].is_null() {
            // To hash so large a set at each height takes too long.
            assert_eq!(found["muhash"].as_str().unwrap().len(), 64);
            expected["muhash"] = found["muhash"].clone();
        }
        // The tests' reader of JSON is off by a bit of a fraction at times.
        if let (Some(found), Some(days)) = (found["days_destroyed"].as_f64(), expected["days_destroyed"].as_f64()) {
            assert!((found - days).abs() <= days.abs() * 1e-15, "{found}, not {days}");
            expected["days_destroyed"] = found.into();
        }
        assert_eq!(*found, expected, "height {}", expected["height"]);
    }
}

#[test]
fn rows_are_the_figures_of_the_blocks() {
    let scratch = Scratch::new();
    let (folder, chain) = made(&scratch);
    let data = scratch.join("data");
    let expected = figures(&blocks_of(&chain));
    let of_data = ["--data", data.to_str().unwrap()];
    compare(&statistics(&of_data, &[]), &expected);
    compare(&statistics(&of_folder(&folder), &[]), &expected);
    for (from, to) in [("1", "1"), ("77", "90"), ("140", "140")] {
        let part = &expected[from.parse().unwrap()..=to.parse().unwrap()];
        compare(&statistics(&of_data, &["--from", from, "--to", to]), part);
    }
    // The kinds of scripts and the ages are not all the same.
    for column in [
        "outputs_pubkeyhash",
        "outputs_witness_v1_taproot",
        "days_destroyed",
        "swtxs",
    ] {
        assert!(expected.iter().any(|row| row[column].as_f64() > Some(0.0)), "{column}");
    }
}

/// The set's own hash.
#[test]
fn the_hash_is_that_of_the_set() {
    let scratch = Scratch::new();
    made(&scratch);
    let data = scratch.join("data");
    let rows = statistics(&["--data", data.to_str().unwrap()], &[]);
    for height in [0, 1, 33, 101, 120, 139, 140] {
        let mut stats = blockmill();
        stats.args(["stats", "--json", "--at", &format!("{height}"), "--data"]);
        let stats = run(stats.arg(&data)).ends_with(0).json();
        let row = &rows[height];
        for name in ["muhash", "txouts", "bogosize"] {
            assert_eq!(row[name], stats[name], "height {height}");
        }
        let satoshi = stats["total_amount"].as_f64().unwrap() * 1e8;
        assert_eq!(row["total_amount"], json!(satoshi.round() as i64), "height {height}");
    }
}

/// Neither the number of threads nor the other tables of the pass change a byte.
#[test]
fn threads_and_other_tables_change_nothing() {
    let scratch = Scratch::new();
    made(&scratch);
    let (data, out) = (scratch.join("data"), scratch.join("tables"));
    let file = scratch.join("alone.csv");
    let mut command = blockmill();
    command
        .args(["export", "statistics", "--data"])
        .arg(&data)
        .arg("--out")
        .arg(&file);
    run(&mut command).ends_with(0);
    let alone = std::fs::read_to_string(file).unwrap();
    for core in ["0", "0-1"] {
        let mut command = std::process::Command::new("taskset");
        command.args(["-c", core]).arg(env!("CARGO_BIN_EXE_blockmill"));
        command.args([
            "export",
            "filters",
            "--and",
            "statistics,inputs",
            "--format",
            "csv",
            "--force",
            "--data",
        ]);
        let Ok(output) = command.arg(&data).arg("--out").arg(&out).output() else {
            eprintln!("skipped: there is no taskset");
            return;
        };
        assert!(output.status.success(), "{output:?}");
        let found = std::fs::read_to_string(out.join("statistics.csv")).unwrap();
        assert!(found == alone, "{core}");
    }
}

/// A script of this many bytes, which anybody can spend if that is not too long. It has pushes
/// alone.
fn long_script(length: usize) -> Vec<u8> {
    let mut script = Vec::new();
    while length - script.len() > 520 + 3 {
        script.extend([0x4d, 8, 2]);
        script.extend([1; 520]);
    }
    let rest = length - script.len() - 1;
    assert!((1..=75).contains(&rest), "{rest}");
    script.push(rest as u8);
    script.extend(vec![1; rest]);
    script
}

fn output(worth: u64, script: Vec<u8>) -> TxOut {
    TxOut {
        value: Amount::from_sat(worth),
        script_pubkey: ScriptBuf::from_bytes(script),
    }
}

/// Blocks with what nobody can spend: rewards that nobody claims, data, and scripts that are too
/// long. Coins are spent in the block that makes them.
pub(crate) fn odd_blocks() -> Vec<Block> {
    let mut blocks = vec![bitcoin::constants::genesis_block(bitcoin::Network::Regtest)];
    let mut first: Vec<Transaction> = Vec::new();
    for height in 1..=104u32 {
        let tip = &blocks[blocks.len() - 1];
        let mut builder = BlockBuilder::new(tip.block_hash(), height, tip.header.time + 600);
        if height > 101 {
            let coinbase = OutPoint {
                txid: first[height as usize - 102].compute_txid(),
                vout: 0,
            };
            let mut spending = spend_any(coinbase, subsidy(1) - 9_000);
            spending.output[0].value = Amount::from_sat(1_000_000);
            spending.output.extend([
                output(2_000, vec![0x6a, 1, 7]),
                output(3_000, long_script(10_001)),
                output(4_000, long_script(10_000)),
                output(5_000, vec![0x51, 2, 0x4e, 0x73]),
            ]);
            let txid = spending.compute_txid();
            let inside = spend_any(OutPoint { txid, vout: 3 }, 3_500);
            let last = spend_any(
                OutPoint {
                    txid: inside.compute_txid(),
                    vout: 0,
                },
                3_500,
            );
            builder = builder.transaction(spending).transaction(inside);
            if height == 103 {
                builder = builder.transaction(last);
            }
        }
        let builder = match height % 3 {
            // The first three are spent.
            0 if height > 3 => builder.coinbase(|coinbase| coinbase.output[0].value = Amount::from_sat(7)),
            1 => builder.coinbase(|coinbase| coinbase.output.push(output(0, vec![0x6a]))),
            _ => builder,
        };
        let block = builder.build();
        first.push(block.txdata[0].clone());
        blocks.push(block);
    }
    blocks
}

#[test]
fn what_nobody_can_spend_is_counted() {
    let scratch = Scratch::new();
    let mut file = Vec::new();
    let blocks = odd_blocks();
    for block in &blocks {
        file.extend(crate::common::record(
            LyingChain::magic(),
            &bitcoin::consensus::serialize(block),
        ));
    }
    let (folder, data) = (scratch.folder("blocks"), scratch.join("data"));
    std::fs::write(folder.join("blk00000.dat"), file).unwrap();
    run(&mut connect(&folder, &data, "regtest")).ends_with(0);
    let rows = statistics(&["--data", data.to_str().unwrap()], &[]);
    compare(&rows, &figures(&blocks));
    for (column, height) in [
        ("scripts", 103),
        ("unclaimed_rewards", 6),
        ("genesis_block", 0),
        ("outputs_anchor", 102),
    ] {
        assert!(rows[height][column].as_i64() > Some(0), "{column}");
    }
    // Without what was made and spent in the same block.
    assert_eq!(
        (&rows[103]["coins_spent"], &rows[103]["coins_made"]),
        (&json!(3), &json!(6))
    );
}

fn lying(number: u8, inputs: u32, outputs: &[i64], coins: &[i64]) -> (Transaction, Vec<Coin>) {
    let mut transaction = spend_any(OutPoint::null(), 0);
    let input = transaction.input[0].clone();
    transaction.input = (0..inputs)
        .map(|vout| bitcoin::TxIn {
            previous_output: OutPoint::new(Txid::from_byte_array([number; 32]), vout),
            ..input.clone()
        })
        .collect();
    transaction.output = outputs
        .iter()
        .map(|worth| output(worth.cast_unsigned(), any_script().into_bytes()))
        .collect();
    let coin = |&value: &i64| Coin {
        value,
        height: 1,
        is_coinbase: false,
        script_pubkey: vec![0x51].into(),
    };
    (transaction, coins.iter().map(coin).collect())
}

#[track_caller]
fn is_refused(transactions: Vec<(Transaction, Vec<Coin>)>, words: &[&str]) {
    let scratch = Scratch::new();
    let mut chain = LyingChain::new();
    chain.push(Vec::new(), Vec::new());
    let (transactions, coins) = transactions.into_iter().unzip();
    chain.push(transactions, coins);
    let folder = chain.write(&scratch, "blocks");
    export(&of_folder(&folder), &["--to", "1"]).ends_with(0);
    export(&of_folder(&folder), &[]).ends_with(3).says(words);
    // The block is below the first row.
    let is_below = export(&of_folder(&folder), &["--from", "2"]);
    is_below.ends_with(3).says(words);
}

#[test]
fn blocks_that_no_chain_has_are_refused() {
    let range = ["(height 2)", "transaction 1", "range of money"];
    is_refused(vec![lying(7, 1, &[-1], &[5])], &range);
    is_refused(vec![lying(7, 1, &[6], &[5])], &range);
    is_refused(vec![lying(7, 1, &[i64::MAX, i64::MAX], &[5])], &range);
    is_refused(vec![lying(7, 2, &[1], &[MAX_MONEY, 1])], &range);
    // More coins, and more money, than the chain has made.
    is_refused(
        vec![lying(7, 4, &[1], &[1, 1, 1, 1])],
        &["(height 2)", "not those that the chain has made"],
    );
    // 4,400 times all money is more than 63 bits have room for.
    let many = (0..4_400u32).map(|number| {
        let (mut transaction, coins) = lying(9, 1, &[0], &[MAX_MONEY]);
        transaction.input[0].previous_output.vout = number;
        (transaction, coins)
    });
    is_refused(many.collect(), &["(height 2)", "64 bits"]);
}

#[test]
fn a_greedy_coinbase_is_refused() {
    let scratch = Scratch::new();
    let mut chain = LyingChain::new();
    let genesis = &chain.blocks[0];
    let greedy = BlockBuilder::new(genesis.block_hash(), 1, genesis.header.time + 600)
        .fees(1)
        .build();
    chain.blocks.push(greedy);
    chain.coins.push(Vec::new());
    let folder = chain.write(&scratch, "blocks");
    let words = ["(height 1)", "takes more than subsidy and fees"];
    export(&of_folder(&folder), &[]).ends_with(3).says(&words);
}

/// Undo data of an old Core does not tell every height: the hash is not known from that block on,
/// and all else is.
#[test]
fn heights_that_are_not_known() {
    let scratch = Scratch::new();
    let mut chain = LyingChain::new();
    chain.push(Vec::new(), Vec::new());
    chain.push(Vec::new(), Vec::new());
    let (transaction, mut coins) = lying(7, 1, &[5], &[5]);
    coins[0].height = 0;
    chain.push(vec![transaction], vec![coins]);
    chain.push(Vec::new(), Vec::new());
    let folder = chain.write(&scratch, "blocks");
    let rows = statistics(&of_folder(&folder), &[]);
    let names = ["muhash", "days_destroyed"].map(|name| rows.iter().map(move |row| row[name].is_null()));
    let [hashes, days] = names.map(Iterator::collect::<Vec<_>>);
    assert_eq!(hashes, [false, false, false, true, true]);
    assert_eq!(days, [false, false, false, true, false]);
    assert_eq!((&rows[4]["txouts"], &rows[3]["totalfee"]), (&json!(4), &json!(0)));
}

/// The answers for the last block are Core's.
#[test]
fn the_real_chains() {
    for (file, network, txouts, muhash) in [
        (
            "mainnet_0_14131.dat",
            "bitcoin",
            13_416,
            "859e27f17a6cce9768b75dd0dbd969890157d29a152b0f4a0afa6c67cbcd5975",
        ),
        (
            "testnet3_0_4000.dat",
            "testnet3",
            4_197,
            "6a155d607dccdf17321178f9598283ca7d2b05cc7fa64f8cc4293f2533ff7124",
        ),
    ] {
        let Some((_scratch, data, path)) = connected_real(file, network) else {
            return;
        };
        let rows = statistics(&["--data", data.to_str().unwrap()], &[]);
        let last = &rows[rows.len() - 1];
        assert_eq!((&last["muhash"], &last["txouts"]), (&json!(muhash), &json!(txouts)));
        compare(&rows, &figures(&blocks_of(&std::fs::read(&path).unwrap())));
    }
}

/// What a program in Python reads, as lines of JSON; moments in seconds since 1970.
const PARQUET: &str = "
import json, sys, pyarrow.parquet as pq
for row in pq.read_table(sys.argv[1]).to_pylist():
    print(json.dumps(row | {'block_time': int(row['block_time'].timestamp())}))
";
const SQLITE: &str = "
import json, sqlite3, sys
rows = sqlite3.connect(sys.argv[1]).execute('select * from statistics')
names = [column[0] for column in rows.description]
for row in rows: print(json.dumps(dict(zip(names, row))))
";
const CSV: &str = "
import csv, datetime, json, sys
for row in csv.DictReader(open(sys.argv[1])):
    time = int(datetime.datetime.fromisoformat(row.pop('block_time')).timestamp())
    row = {name: text if name in ('block_hash', 'muhash') else json.loads(text) for name, text in row.items()}
    print(json.dumps(row | {'block_time': time}))
";

#[test]
fn other_programs_read_each_format() {
    let Some(python) = Python::with(&["pyarrow"]) else {
        return;
    };
    let scratch = Scratch::new();
    made(&scratch);
    let data = scratch.join("data");
    let source = ["--data", data.to_str().unwrap()];
    let expected = statistics(&source, &[]);
    for (format, program) in [("parquet", PARQUET), ("sqlite", SQLITE), ("csv", CSV)] {
        let out = scratch.join(&format!("statistics.{format}"));
        let mut command = blockmill();
        command.args(["export", "statistics", "--out"]).arg(&out).args(source);
        run(&mut command).ends_with(0);
        compare(&lines(&python.run(program, &out)), &expected);
    }
}
