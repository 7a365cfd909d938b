//! `export blocks` beside rows that the tests made from the blocks with rust-bitcoin, and read back
//! by other programs.

use crate::common::core_folder::made;
use crate::common::own_set::{OwnCoin, output_row};
use crate::common::python::Python;
use crate::common::{RECORD_HEAD, Run, Scratch, blockmill, connected_real, records, run};
use bitcoin::consensus::encode::serialize_hex;
use bitcoin::hex::DisplayHex;
use bitcoin::{Block, OutPoint, Transaction, TxOut};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Height of the chain in a folder of Core's.
pub(crate) const HEIGHT: u32 = 140;

fn row(head: &Value, position: usize, transaction: &Transaction, coins: &HashMap<OutPoint, OwnCoin>) -> Value {
    let coin_of = |outpoint: &OutPoint| coins.get(outpoint);
    let mut row = head.clone();
    let mut set = |name: &str, value: Value| row[name] = value;
    set("position", json!(position));
    set("txid", json!(transaction.compute_txid().to_string()));
    set("wtxid", json!(transaction.compute_wtxid().to_string()));
    set("version", json!(transaction.version.0 as u32));
    set("locktime", json!(transaction.lock_time.to_consensus_u32()));
    set("size", json!(transaction.total_size()));
    set("vsize", json!(transaction.vsize()));
    set("weight", json!(transaction.weight().to_wu()));
    let output_of = |outpoint: &OutPoint| -> Option<TxOut> { coin_of(outpoint).map(|coin| coin.output.clone()) };
    set("sigop_cost", json!(transaction.total_sigop_cost(output_of)));
    set("coinbase", json!(transaction.is_coinbase()));
    let spent = transaction.input.iter().map(|input| coin_of(&input.previous_output));
    let spent: Option<u64> = spent.map(|coin| Some(coin?.output.value.to_sat())).sum();
    let made: u64 = transaction.output.iter().map(|output| output.value.to_sat()).sum();
    set("fee", json!(spent.map(|spent| spent - made)));
    let inputs = transaction.input.iter().map(|input| {
        let coin = coin_of(&input.previous_output);
        let none = json!({
            "txid": null, "vout": null, "height": null, "coinbase": null,
            "value": null, "script": null, "script_type": null, "address": null,
        });
        let mut row = coin.map_or(none, |coin| coin.row(&input.previous_output));
        row["script_sig"] = json!(input.script_sig.as_bytes().to_lower_hex_string());
        let witness: Vec<String> = input.witness.iter().map(|item| item.to_lower_hex_string()).collect();
        row["witness"] = json!(witness);
        row["sequence"] = json!(input.sequence.0);
        row
    });
    set("inputs", inputs.collect());
    let outputs = transaction.output.iter().enumerate().map(|(vout, output)| {
        let mut row = output_row(output);
        row["vout"] = json!(vout);
        row
    });
    set("outputs", outputs.collect());
    row
}

/// The rows of a chain, from the genesis block on; those of a height are together.
fn rows(blocks: &[Block]) -> Vec<Vec<Value>> {
    let mut coins = HashMap::new();
    let mut times = Vec::new();
    let mut all = Vec::new();
    for (height, block) in (0..).zip(blocks) {
        times.push(block.header.time);
        let mut last: Vec<u32> = times.iter().rev().take(11).copied().collect();
        last.sort_unstable();
        for transaction in &block.txdata {
            let txid = transaction.compute_txid();
            for (vout, output) in (0..).zip(&transaction.output) {
                let coin = OwnCoin {
                    height,
                    is_coinbase: transaction.is_coinbase(),
                    output: output.clone(),
                };
                coins.insert(OutPoint { txid, vout }, coin);
            }
        }
        let header = &block.header;
        let head = json!({
            "height": height,
            "block_hash": header.block_hash().to_string(),
            "block_time": header.time,
            "block_mediantime": last[last.len() / 2],
            "block_version": header.version.to_consensus(),
            "merkle_root": header.merkle_root.to_string(),
            "bits": format!("{:08x}", header.bits.to_consensus()),
            "nonce": header.nonce,
            "block_size": serialize_hex(block).len() / 2,
            "block_weight": block.weight().to_wu(),
        });
        let numbered = block.txdata.iter().enumerate();
        all.push(
            numbered
                .map(|(position, transaction)| row(&head, position, transaction, &coins))
                .collect(),
        );
    }
    all
}

pub(crate) fn blocks_of(file: &[u8]) -> Vec<Block> {
    let ranges = records(file);
    let blocks = ranges.iter().map(|range| &file[range.start + RECORD_HEAD..range.end]);
    blocks
        .map(|bytes| bitcoin::consensus::deserialize(bytes).unwrap())
        .collect()
}

fn command<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>, format: &str, out: &Path) -> Command {
    let mut command = blockmill();
    command.args(["export", "blocks"]).args(arguments);
    command.args(["--format", format, "--out"]).arg(out);
    command
}

fn to_stdout<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Run {
    run(&mut command(arguments, "jsonl", Path::new("-")))
}

#[track_caller]
pub(crate) fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A chain in Core's form and in a data directory, and its rows.
pub(crate) struct Made {
    pub(crate) scratch: Scratch,
    folder: PathBuf,
    /// Bytes of the blocks, in a file of Core's form.
    pub(crate) chain: Vec<u8>,
    rows: Vec<Vec<Value>>,
}

impl Made {
    pub(crate) fn new() -> Self {
        let scratch = Scratch::new();
        let (folder, chain) = made(&scratch);
        let rows = rows(&blocks_of(&chain));
        assert_eq!(rows.len(), HEIGHT as usize + 1);
        Self {
            scratch,
            folder,
            chain,
            rows,
        }
    }

    pub(crate) fn of_folder(&self) -> Vec<String> {
        ["--network", "regtest", "--blocks", self.folder.to_str().unwrap()]
            .map(str::to_owned)
            .to_vec()
    }

    pub(crate) fn of_data(&self) -> Vec<String> {
        ["--data", self.scratch.join("data").to_str().unwrap()]
            .map(str::to_owned)
            .to_vec()
    }

    pub(crate) fn expected(&self, from: usize, to: usize) -> Vec<Value> {
        self.rows[from..=to].concat()
    }
}

#[test]
fn rows_are_the_transactions_of_the_chain() {
    let made = Made::new();
    let expected = made.expected(0, HEIGHT as usize);
    assert!(expected.len() > 500);
    let witnesses = expected.iter().filter(|row| row["txid"] != row["wtxid"]).count();
    assert!(witnesses > 50 && witnesses < expected.len() - 50);
    // Core's files have undo data, and so has the data directory; it may use those of Core's files,
    // once its own is gone.
    for arguments in [
        made.of_folder(),
        made.of_data(),
        [made.of_data(), made.of_folder()].concat(),
    ] {
        let done = to_stdout(&arguments).ends_with(0);
        assert!(lines(&done.stdout) == expected, "{arguments:?}");
    }
    for (from, to) in [(0, 0), (1, 1), (69, 72), (100, 139), (140, 140)] {
        let (first, last) = (from.to_string(), to.to_string());
        for arguments in [made.of_folder(), made.of_data()] {
            let done = to_stdout(
                arguments
                    .iter()
                    .map(String::as_str)
                    .chain(["--from", &first, "--to", &last]),
            );
            assert!(
                lines(&done.ends_with(0).stdout) == made.expected(from, to),
                "{from} to {to}"
            );
        }
    }
    std::fs::remove_file(made.scratch.join("data/undo.dat")).unwrap();
    to_stdout(made.of_data()).ends_with(3).says(&["undo.dat is gone"]);
    let both = to_stdout([made.of_data(), made.of_folder()].concat()).ends_with(0);
    assert!(lines(&both.stdout) == expected);
}

#[test]
fn other_programs_read_parquet() {
    let Some(python) = Python::with(&["pyarrow", "duckdb"]) else {
        return;
    };
    let made = Made::new();
    let out = made.scratch.join("blocks.parquet");
    let done = run(&mut command(made.of_folder(), "parquet", &out)).ends_with(0);
    let count = made.rows.iter().map(Vec::len).sum::<usize>();
    let count = format!("{},{:03}", count / 1000, count % 1000);
    assert!(
        done.stdout
            .starts_with(&format!("{count} transactions of 141 blocks, ")),
        "{}",
        done.stdout
    );
    let pyarrow = "import json, sys, pyarrow.parquet as pq
for row in pq.read_table(sys.argv[1]).to_pylist(): print(json.dumps(row))";
    let expected = made.expected(0, HEIGHT as usize);
    assert!(lines(&python.run(pyarrow, &out)) == expected);
    let duckdb = "import json, sys, duckdb
rows = duckdb.sql(f\"select * from '{sys.argv[1]}'\")
for row in rows.fetchall(): print(json.dumps(dict(zip(rows.columns, row))))";
    assert!(lines(&python.run(duckdb, &out)) == expected);
    let bytes = std::fs::read(&out).unwrap();
    let piped = command(made.of_folder(), "parquet", Path::new("-")).output().unwrap();
    assert!(piped.status.success() && piped.stdout == bytes);
}

/// The one block of testnet3 from before BIP 16 that breaks its rule.
const WITHOUT_BIP16: &str = "00000000dd30457c001f4095d208cc1296b0eed002427aa599874af7a432b105";

#[test]
fn the_real_chains() {
    for (file, network, inputs) in [
        ("mainnet_0_14131.dat", "bitcoin", 865),
        ("testnet3_0_4000.dat", "testnet3", 1_919),
    ] {
        let Some((_scratch, data, path)) = connected_real(file, network) else {
            return;
        };
        let done = to_stdout(["--data", data.to_str().unwrap()]).ends_with(0);
        let expected = rows(&blocks_of(&std::fs::read(&path).unwrap())).concat();
        let found = lines(&done.stdout);
        assert_eq!(found.len(), expected.len());
        let mut spending = 0;
        for (mut found, mut expected) in found.into_iter().zip(expected) {
            spending += found["inputs"]
                .as_array()
                .unwrap()
                .iter()
                .filter(|input| !input["txid"].is_null())
                .count();
            // BIP 16 does not hold in this block, so a redeem script has no signature operations.
            // The tests' own rows do not know that.
            if found["block_hash"] == WITHOUT_BIP16 && expected["sigop_cost"] == 8 {
                expected["sigop_cost"] = 4.into();
            }
            for row in [&mut found, &mut expected] {
                // The tests' own rows have addresses of regtest.
                for side in ["inputs", "outputs"] {
                    row[side].as_array_mut().unwrap().iter_mut().for_each(|item| {
                        item.as_object_mut().unwrap().remove("address");
                    });
                }
            }
            assert_eq!(found, expected);
        }
        assert_eq!(spending, inputs);
    }
}

#[test]
fn what_is_wrong_or_missing_is_named() {
    let made = Made::new();
    let with = |arguments: Vec<String>, more: &[&str]| {
        to_stdout(arguments.iter().map(String::as_str).chain(more.iter().copied()))
    };
    for (from, to) in [("5", "4"), ("0", "141"), ("141", "141")] {
        with(made.of_folder(), &["--from", from, "--to", to])
            .ends_with(2)
            .says(&["there are no blocks from height", "heights 0 to 140"]);
    }
    with(made.of_data(), &["--network", "signet"])
        .ends_with(2)
        .says(&["is of regtest, not of signet"]);
    let folder = made.folder.to_str().unwrap();
    to_stdout(["--blocks", folder]).ends_with(2).says(&["--network"]);
    to_stdout(["--network", "regtest"]).ends_with(2);
    // No file is left where the work ends before its end.
    let out = made.scratch.join("out");
    let path = made.folder.join("rev00001.dat");
    let good = std::fs::read(&path).unwrap();
    let mut bad = good.clone();
    bad[good.len() / 2] ^= 1;
    std::fs::write(&path, &bad).unwrap();
    for format in ["parquet", "jsonl"] {
        run(&mut command(made.of_folder(), format, &out)).ends_with(3).says(&[
            "rev00001.dat",
            "no undo data there has its checksum",
            "height",
        ]);
        assert!(!out.exists() && !made.scratch.join("out.incomplete").exists());
    }
    // The blocks before are there.
    with(made.of_folder(), &["--to", "69"]).ends_with(0);
    std::fs::remove_file(&path).unwrap();
    with(made.of_folder(), &["--from", "70"])
        .ends_with(3)
        .says(&["there is no file of undo data (rev*.dat) beside it", "height 70"]);
    // The files that the data directory was made from have gone away.
    std::fs::rename(made.scratch.join("chain"), made.scratch.join("elsewhere")).unwrap();
    std::fs::remove_dir_all(made.scratch.join("data").join("kept")).unwrap();
    with(made.of_data(), &[])
        .ends_with(3)
        .says(&["is in no block file that is still there"]);
    let elsewhere = made.scratch.join("elsewhere");
    let moved = with(made.of_data(), &["--blocks", elsewhere.to_str().unwrap()]).ends_with(0);
    assert!(lines(&moved.stdout) == made.expected(0, HEIGHT as usize));
}
