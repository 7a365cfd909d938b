//! The flat tables of a pass over blocks, beside rows that the tests made from the blocks with
//! rust-bitcoin, in each format, and read back by other programs.

use crate::common::python::Python;
use crate::common::{Run, Scratch, blockmill, connect, run, shared_data};
use crate::export_blocks::{HEIGHT, Made, blocks_of, lines};
use bitcoin::bip158::{BlockFilter, FilterHeader};
use bitcoin::hashes::Hash;
use bitcoin::hex::DisplayHex;
use bitcoin::{Block, OutPoint, ScriptBuf};
use serde_json::{Value, json};
use std::collections::HashMap;

const TABLES: [&str; 4] = ["transactions", "inputs", "outputs", "spenders"];

fn export(table: &str, arguments: &[String], more: &[&str]) -> Run {
    run(blockmill().args(["export", table]).args(arguments).args(more))
}

fn to_stdout(table: &str, arguments: &[String], more: &[&str]) -> Vec<Value> {
    let with: Vec<&str> = ["--format", "jsonl", "--out", "-"]
        .into_iter()
        .chain(more.iter().copied())
        .collect();
    lines(&export(table, arguments, &with).ends_with(0).stdout)
}

/// Some fields of a row, under names of their own.
fn pick(row: &Value, names: &[(&str, &str)]) -> Value {
    names
        .iter()
        .map(|(name, of)| ((*name).to_owned(), row[*of].clone()))
        .collect()
}

/// The rows of a flat table, of nested ones.
fn flat(table: &str, nested: &[Value]) -> Vec<Value> {
    let mut rows = Vec::new();
    for row in nested {
        let items = |name: &str| row[name].as_array().unwrap().clone();
        let of_block = |mut item: Value| {
            item["height"] = row["height"].clone();
            item["block_time"] = row["block_time"].clone();
            item
        };
        match table {
            "transactions" => {
                let mut row = row.clone();
                row["input_count"] = items("inputs").len().into();
                row["output_count"] = items("outputs").len().into();
                let fields = row.as_object_mut().unwrap();
                for name in [
                    "inputs",
                    "outputs",
                    "block_mediantime",
                    "block_version",
                    "merkle_root",
                    "bits",
                    "nonce",
                    "block_size",
                    "block_weight",
                ] {
                    fields.remove(name).unwrap();
                }
                rows.push(row);
            }
            "inputs" => rows.extend((0..).zip(items("inputs")).map(|(number, mut input): (u32, Value)| {
                input["coin_height"] = input["height"].take();
                input["spending_txid"] = row["txid"].clone();
                input["input"] = number.into();
                let witness: Vec<&str> = input["witness"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|item| item.as_str().unwrap())
                    .collect();
                input["witness"] = witness.join(" ").into();
                of_block(input)
            })),
            "outputs" => rows.extend(items("outputs").into_iter().map(|mut output| {
                output["txid"] = row["txid"].clone();
                output["coinbase"] = row["coinbase"].clone();
                of_block(output)
            })),
            "spenders" => rows.extend(
                (0..)
                    .zip(items("inputs"))
                    .filter(|(_, input): &(u32, Value)| !input["txid"].is_null())
                    .map(|(number, input)| {
                        let mut spender = pick(&input, &[("txid", "txid"), ("vout", "vout")]);
                        spender["spending_txid"] = row["txid"].clone();
                        spender["input"] = number.into();
                        of_block(spender)
                    }),
            ),
            other => panic!("{other}"),
        }
    }
    rows
}

#[test]
fn rows_are_those_of_the_nested_table() {
    let made = Made::new();
    for table in TABLES {
        let expected = flat(table, &made.expected(0, HEIGHT as usize));
        assert!(expected.len() > 500, "{table}");
        for arguments in [made.of_folder(), made.of_data()] {
            assert!(to_stdout(table, &arguments, &[]) == expected, "{table}");
        }
        let expected = flat(table, &made.expected(70, 72));
        assert!(
            to_stdout(table, &made.of_data(), &["--from", "70", "--to", "72"]) == expected,
            "{table}"
        );
    }
}

/// Each is the same as by itself.
#[test]
fn one_pass_makes_several_tables() {
    let made = Made::new();
    let out = made.scratch.join("tables");
    let to = out.to_str().unwrap();
    let and = "inputs,outputs,spenders,filters,inputs";
    let done = export(
        "transactions",
        &made.of_data(),
        &["--and", and, "--format", "csv", "--out", to],
    )
    .ends_with(0);
    for table in TABLES.into_iter().chain(["filters"]) {
        let name = format!("{table}.csv");
        assert!(done.stdout.contains(&name), "{}", done.stdout);
        let alone = made.scratch.join("alone.csv");
        export(table, &made.of_data(), &["--out", alone.to_str().unwrap(), "--force"]).ends_with(0);
        assert!(
            std::fs::read(out.join(name)).unwrap() == std::fs::read(alone).unwrap(),
            "{table}"
        );
    }
    assert_eq!(std::fs::read_dir(&out).unwrap().count(), 5);
    // What is there is not replaced, and nothing is half done.
    export(
        "inputs",
        &made.of_data(),
        &["--and", "outputs", "--format", "csv", "--out", to],
    )
    .ends_with(2)
    .says(&["inputs.csv"]);
    export("inputs", &made.of_data(), &["--and", "outputs", "--out", to])
        .ends_with(2)
        .says(&["--format"]);
    export(
        "inputs",
        &made.of_data(),
        &["--and", "outputs", "--format", "csv", "--out", "-"],
    )
    .ends_with(2)
    .says(&["folder"]);
}

/// What a program in Python reads, as lines of JSON; moments in seconds since 1970.
const PARQUET: &str = "
import json, sys, pyarrow.parquet as pq
for row in pq.read_table(sys.argv[1]).to_pylist():
    assert row['block_time'].utcoffset().total_seconds() == 0
    print(json.dumps(row | {'block_time': int(row['block_time'].timestamp())}))
";
const DUCKDB: &str = "
import json, sys, duckdb
rows = duckdb.sql(f\"select * replace (epoch(block_time)::bigint as block_time) from '{sys.argv[1]}'\")
for row in rows.fetchall(): print(json.dumps(dict(zip(rows.columns, row))))
";
const SQLITE: &str = "
import json, sqlite3, sys
db = sqlite3.connect(sys.argv[1])
[table] = db.execute(\"select name from sqlite_master where type = 'table'\").fetchone()
rows = db.execute(f'select * from {table}')
names = [column[0] for column in rows.description]
for row in rows:
    row = dict(zip(names, row))
    if row.get('coinbase') is not None: row['coinbase'] = bool(row['coinbase'])
    print(json.dumps(row))
";
const CSV: &str = "
import csv, datetime, json, sys
for row in csv.DictReader(open(sys.argv[1])):
    row['block_time'] = int(datetime.datetime.fromisoformat(row['block_time']).timestamp())
    print(json.dumps(row))
";

/// As CSV has it: all is text, and what is missing is empty.
fn as_csv(mut row: Value) -> Value {
    for (name, value) in row.as_object_mut().unwrap() {
        if name != "block_time" && !value.is_string() {
            let text = if value.is_null() {
                String::new()
            } else {
                value.to_string()
            };
            *value = text.into();
        }
    }
    row
}

#[test]
fn other_programs_read_each_format() {
    let Some(python) = Python::with(&["pyarrow", "duckdb"]) else {
        return;
    };
    let made = Made::new();
    for table in TABLES.into_iter().chain(["filters"]) {
        let expected = to_stdout(table, &made.of_data(), &[]);
        for (format, program) in [
            ("parquet", PARQUET),
            ("parquet", DUCKDB),
            ("sqlite", SQLITE),
            ("csv", CSV),
        ] {
            let out = made.scratch.join(&format!("{table}.{format}"));
            export(table, &made.of_data(), &["--out", out.to_str().unwrap(), "--force"]).ends_with(0);
            let found = lines(&python.run(program, &out));
            let is_csv = format == "csv";
            let expected = expected
                .iter()
                .cloned()
                .map(|row| if is_csv { as_csv(row) } else { row });
            assert!(found == expected.collect::<Vec<_>>(), "{table}, {format}");
        }
    }
}

/// The filters of a chain, by rust-bitcoin over whole blocks.
fn filters(blocks: &[Block]) -> Vec<Value> {
    let mut coins: HashMap<OutPoint, ScriptBuf> = HashMap::new();
    let mut header = FilterHeader::all_zeros();
    (0_u32..)
        .zip(blocks)
        .map(|(height, block)| {
            for transaction in &block.txdata {
                let txid = transaction.compute_txid();
                for (vout, output) in (0..).zip(&transaction.output) {
                    coins.insert(OutPoint { txid, vout }, output.script_pubkey.clone());
                }
            }
            let filter = BlockFilter::new_script_filter(block, |outpoint| Ok(coins[outpoint].clone())).unwrap();
            header = filter.filter_header(&header);
            json!({
                "height": height,
                "block_hash": block.block_hash().to_string(),
                "block_time": block.header.time,
                "filter_hash": bitcoin::hashes::sha256d::Hash::hash(&filter.content).to_string(),
                "filter_header": header.to_string(),
                "filter": filter.content.to_lower_hex_string(),
            })
        })
        .collect()
}

#[test]
fn filters_are_those_of_the_blocks() {
    let made = Made::new();
    let expected = filters(&blocks_of(&made.chain));
    assert!(to_stdout("filters", &made.of_data(), &[]) == expected);
    // A header rests on all blocks below.
    for (from, to) in [("1", "1"), ("77", "90"), ("140", "140")] {
        let part = &expected[from.parse().unwrap()..=to.parse().unwrap()];
        for arguments in [made.of_folder(), made.of_data()] {
            assert!(
                to_stdout("filters", &arguments, &["--from", from, "--to", to]) == part,
                "{from} to {to}"
            );
        }
    }
}

/// The first blocks of testnet3 are test vectors of BIP 158.
#[test]
fn filters_of_the_real_chains() {
    for (file, network) in [("mainnet_0_14131.dat", "bitcoin"), ("testnet3_0_4000.dat", "testnet3")] {
        let Some(path) = shared_data(&format!("chains/{file}")) else {
            return;
        };
        let scratch = Scratch::new();
        let data = scratch.join("data");
        run(&mut connect(&path, &data, network)).ends_with(0);
        let arguments = ["--data", data.to_str().unwrap()].map(str::to_owned);
        let found = to_stdout("filters", &arguments, &[]);
        assert!(
            found == filters(&blocks_of(&std::fs::read(&path).unwrap())),
            "{network}"
        );
        if network == "testnet3" {
            for (height, filter, header) in [
                (
                    0,
                    "019dfca8",
                    "21584579b7eb08997773e5aeff3a7f932700042d0ed2a6129012b7d7ae81b750",
                ),
                (
                    2,
                    "0174a170",
                    "186afd11ef2b5e7e3504f2e8cbf8df28a1fd251fe53d60dff8b1467d1b386cf0",
                ),
                (
                    3,
                    "016cf7a0",
                    "8d63aadf5ab7257cb6d2316a57b16f517bff1c6388f124ec4c04af1212729d2a",
                ),
            ] {
                assert_eq!(
                    (&found[height]["filter"], &found[height]["filter_header"]),
                    (&filter.into(), &header.into())
                );
            }
        }
    }
}
