//! The flat tables of a pass over blocks, beside rows that the tests made from the blocks with
//! rust-bitcoin, in each format, and read back by other programs.

use crate::common::python::Python;
use crate::common::{Run, blockmill, connected_real, run};
use crate::export_blocks::{HEIGHT, Made, blocks_of, lines};
use bitcoin::bip158::{BlockFilter, FilterHeader};
use bitcoin::hashes::Hash;
use bitcoin::hex::DisplayHex;
use bitcoin::{Block, OutPoint, ScriptBuf};
use serde_json::{Value, json};
use std::collections::HashMap;

pub(crate) const TABLES: [&str; 4] = ["transactions", "inputs", "outputs", "spenders"];

pub(crate) fn export(table: &str, arguments: &[String], more: &[&str]) -> Run {
    run(blockmill().args(["export", table]).args(arguments).args(more))
}

pub(crate) fn to_stdout(table: &str, arguments: &[String], more: &[&str]) -> Vec<Value> {
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

/// What a program in Python reads, as lines of JSON; moments in seconds since 1970, and bytes in
/// hex.
pub(crate) const PARQUET: &str = "
import json, sys, pyarrow.parquet as pq
for row in pq.read_table(sys.argv[1]).to_pylist():
    assert row['block_time'].utcoffset().total_seconds() == 0
    print(json.dumps(row | {'block_time': int(row['block_time'].timestamp())}, default=bytes.hex))
";
pub(crate) const ARROW: &str = "
import json, sys, pyarrow as pa
for row in pa.ipc.open_stream(sys.argv[1]).read_all().to_pylist():
    assert row['block_time'].utcoffset().total_seconds() == 0
    print(json.dumps(row | {'block_time': int(row['block_time'].timestamp())}, default=bytes.hex))
";
pub(crate) const DUCKDB: &str = "
import json, sys, duckdb
rows = duckdb.sql(f\"select * replace (epoch(block_time)::bigint as block_time) from '{sys.argv[1]}'\")
for row in rows.fetchall(): print(json.dumps(dict(zip(rows.columns, row)), default=bytes.hex))
";
pub(crate) const SQLITE: &str = "
import json, sqlite3, sys
db = sqlite3.connect(sys.argv[1])
tables = db.execute(\"select name from sqlite_master where type = 'table' and name != 'metadata'\")
[[table]] = tables.fetchall()
rows = db.execute(f'select * from {table}')
names = [column[0] for column in rows.description]
for row in rows:
    row = dict(zip(names, row))
    if row.get('coinbase') is not None: row['coinbase'] = bool(row['coinbase'])
    print(json.dumps(row, default=bytes.hex))
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
            ("arrow", ARROW),
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

/// The types of the columns of ids, which are those whose name has a word for them.
const TYPES: &str = "
import sqlite3, sys, pyarrow as pa, pyarrow.parquet as pq
path = sys.argv[1]
if path.endswith('.sqlite'):
    db = sqlite3.connect(path)
    [[table]] = db.execute(\"select name from sqlite_master where type = 'table' and name != 'metadata'\")
    types = [(row[1], row[2]) for row in db.execute(f'pragma table_info({table})')]
    for (name, _) in types:
        found = {kind for [kind] in db.execute(f'select distinct typeof({name}) from {table}')}
        assert 'id' not in name or found <= {'blob', 'null'}, (name, found)
elif path.endswith('.parquet'): types = [(field.name, field.type) for field in pq.read_schema(path)]
else: types = [(field.name, field.type) for field in pa.ipc.open_stream(path).schema]
words = ['txid', 'block_hash', 'filter_hash', 'filter_header']
for (name, kind) in types:
    if any(word in name for word in words): print(kind)
    else: assert 'binary' not in str(kind) and kind != 'BLOB', name
";

/// The same rows, but for the type of ids.
#[test]
fn ids_are_bytes_where_that_is_asked_for() {
    let Some(python) = Python::with(&["pyarrow", "duckdb"]) else {
        return;
    };
    let made = Made::new();
    for table in TABLES.into_iter().chain(["filters"]) {
        let expected = to_stdout(table, &made.of_data(), &[]);
        for (format, program, kind) in [
            ("parquet", PARQUET, "fixed_size_binary[32]"),
            ("parquet", DUCKDB, "fixed_size_binary[32]"),
            ("arrows", ARROW, "fixed_size_binary[32]"),
            ("sqlite", SQLITE, "BLOB"),
        ] {
            let out = made.scratch.join(&format!("{table}.{format}"));
            let to = out.to_str().unwrap();
            export(table, &made.of_data(), &["--binary", "--out", to, "--force"]).ends_with(0);
            assert!(lines(&python.run(program, &out)) == expected, "{table}, {format}");
            let types = python.run(TYPES, &out);
            assert!(
                types.lines().count() > 0 && types.lines().all(|found| found == kind),
                "{types}"
            );
        }
    }
    for format in ["csv", "jsonl"] {
        let out = made.scratch.join("text");
        for (command, arguments) in [
            ("inputs", vec![]),
            ("inputs", vec!["--and", "outputs"]),
            ("coins", vec![]),
        ] {
            let to = ["--binary", "--format", format, "--out", out.to_str().unwrap()];
            export(command, &made.of_data(), &[&*arguments, &to].concat())
                .ends_with(2)
                .says(&["--binary is for parquet, arrow and sqlite"]);
            assert!(!out.exists());
        }
    }
}

/// What a table says of itself, as a line of JSON.
const METADATA: &str = "
import json, sqlite3, sys, duckdb, pyarrow as pa, pyarrow.parquet as pq
path = sys.argv[1]
if path.endswith('.sqlite'): pairs = dict(sqlite3.connect(path).execute('select key, value from metadata'))
else:
    is_parquet = path.endswith('.parquet')
    schema = pq.read_schema(path) if is_parquet else pa.ipc.open_stream(path).schema
    pairs = {key.decode(): text.decode() for (key, text) in schema.metadata.items()}
    if is_parquet:
        rows = duckdb.sql(f\"select key, value from parquet_kv_metadata('{path}')\").fetchall()
        others = {key.decode(): text.decode() for (key, text) in rows if key != b'ARROW:schema'}
        assert others == pairs, (others, pairs)
print(json.dumps(pairs))
";

#[test]
fn a_table_says_where_it_comes_from() {
    let Some(python) = Python::with(&["pyarrow", "duckdb"]) else {
        return;
    };
    let made = Made::new();
    let blocks = blocks_of(&made.chain);
    let data = made.of_data()[1].clone();
    let snapshot = made.scratch.join("utxo.dat");
    run(blockmill().args(["snapshot", "dump", "--data", &data]).arg(&snapshot)).ends_with(0);
    let of_snapshot = ["--snapshot".to_owned(), snapshot.to_str().unwrap().to_owned()].to_vec();
    let both = [made.of_data(), made.of_folder()].concat();
    let folder = made.of_folder()[3].clone();
    let with = |expected: Value, height: usize, source: String| {
        let mut expected = expected;
        expected["network"] = "regtest".into();
        expected["hash"] = blocks[height].block_hash().to_string().into();
        expected["version"] = env!("CARGO_PKG_VERSION").into();
        expected["source"] = source.into();
        expected
    };
    let cases = [
        (
            "inputs",
            both,
            vec![],
            with(json!({"from": "0", "height": "140"}), 140, format!("{data}\n{folder}")),
        ),
        (
            "outputs",
            made.of_data(),
            vec!["--from", "7", "--to", "70"],
            with(json!({"from": "7", "height": "70"}), 70, data.clone()),
        ),
        (
            "coins",
            made.of_data(),
            vec!["--at", "77"],
            with(json!({"height": "77"}), 77, data.clone()),
        ),
        (
            "coins",
            of_snapshot.clone(),
            vec![],
            with(json!({}), 140, of_snapshot[1].clone()),
        ),
    ];
    for (table, arguments, more, expected) in cases {
        for format in ["parquet", "arrow", "sqlite"] {
            let out = made.scratch.join(&format!("{table}.{format}"));
            let to = ["--force", "--out", out.to_str().unwrap()];
            export(table, &arguments, &[&*more, &to].concat()).ends_with(0);
            let found = lines(&python.run(METADATA, &out));
            assert_eq!(found, std::slice::from_ref(&expected), "{table}, {format}");
        }
    }
    let out = made.scratch.join("blocks.parquet");
    export("blocks", &made.of_data(), &["--out", out.to_str().unwrap()]).ends_with(0);
    let expected = with(json!({"from": "0", "height": "140"}), 140, data);
    assert_eq!(lines(&python.run(METADATA, &out)), [expected]);
}

/// Standard output has the bytes of the file.
#[test]
fn a_stream_of_arrow_goes_to_standard_output() {
    let made = Made::new();
    for table in ["spenders", "coins"] {
        let out = made.scratch.join(&format!("{table}.arrows"));
        export(table, &made.of_data(), &["--out", out.to_str().unwrap()]).ends_with(0);
        let mut piped = blockmill();
        piped.args(["export", table]).args(made.of_data());
        let piped = piped.args(["--format", "arrow", "--out", "-"]).output().unwrap();
        assert!(piped.status.success() && piped.stdout == std::fs::read(&out).unwrap());
        assert!(piped.stdout.ends_with(&[0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]));
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
        let Some((_scratch, data, path)) = connected_real(file, network) else {
            return;
        };
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
