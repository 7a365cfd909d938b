//! `export coins` beside a set that the tests made from the blocks, and read back by other
//! programs.

use crate::common::own_set::OwnChain;
use crate::common::python::Python;
use crate::common::{Run, Scratch, blockmill, connect, run};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const BLOCKS: u32 = 140;

/// The rows of the coins after the block at a height.
fn rows(chain: &OwnChain, height: u32) -> Vec<Value> {
    let set = chain.set(height);
    let rows = set.0.iter().map(|(outpoint, coin)| {
        let mut row = coin.row(outpoint);
        row["block_time"] = chain.blocks[coin.height as usize].header.time.into();
        row
    });
    rows.collect()
}

fn command(source: &str, path: &Path, format: &str, out: &Path) -> Command {
    let mut command = blockmill();
    command.args(["export", "coins", source]).arg(path);
    command.args(["--format", format, "--out"]).arg(out);
    command
}

#[track_caller]
fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A chain, and the data directory into which it was connected.
struct Made {
    scratch: Scratch,
    chain: OwnChain,
    data: PathBuf,
}

impl Made {
    fn new() -> Self {
        let scratch = Scratch::new();
        let chain = OwnChain::generate(&scratch, "mixed", BLOCKS, &["--seed", "8"]);
        let data = scratch.join("data");
        run(&mut connect(&chain.folder, &data, "regtest")).ends_with(0);
        Self { scratch, chain, data }
    }

    /// Exports to a file, and returns its path.
    fn export(&self, format: &str, name: &str, options: &[&str]) -> PathBuf {
        let out = self.scratch.join(name);
        let done = run(command("--data", &self.data, format, &out).args(options)).ends_with(0);
        assert!(
            done.stdout.ends_with(&format!(" to {}\n", out.display())),
            "{}",
            done.stdout
        );
        out
    }

    fn to_stdout(&self, format: &str, options: &[&str]) -> Run {
        run(command("--data", &self.data, format, Path::new("-")).args(options))
    }
}

#[test]
fn rows_are_the_coins_of_the_chain() {
    let made = Made::new();
    let expected = rows(&made.chain, BLOCKS);
    assert!(expected.len() > 5_000);
    let jsonl = std::fs::read_to_string(made.export("jsonl", "all.jsonl", &[])).unwrap();
    assert!(lines(&jsonl) == expected);
    assert_eq!(made.to_stdout("jsonl", &[]).ends_with(0).stdout, jsonl);

    let csv = std::fs::read_to_string(made.export("csv", "all.csv", &[])).unwrap();
    let (head, rest) = csv.split_once('\n').unwrap();
    assert_eq!(
        head,
        "txid,vout,height,block_time,coinbase,value,script,script_type,address"
    );
    let moment = |seconds| {
        let moment = std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
        humantime::format_rfc3339_seconds(moment).to_string()
    };
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let names: Vec<&str> = head.split(',').collect();
    let from_expected = expected.iter().map(|row| {
        let field = |name: &&str| match *name {
            "block_time" => moment(row[name].as_u64().unwrap()),
            name => text(&row[name]).replace("null", ""),
        };
        names.iter().map(field).collect::<Vec<_>>().join(",")
    });
    assert!(rest.lines().map(str::to_owned).eq(from_expected));

    // A snapshot has the same coins. It does not have the times of their blocks.
    let snapshot = made.scratch.join("snapshot.dat");
    let mut dump = blockmill();
    dump.args(["snapshot", "dump", "--data"]).arg(&made.data).arg(&snapshot);
    run(&mut dump).ends_with(0);
    let own = run(&mut command("--snapshot", &snapshot, "jsonl", Path::new("-"))).ends_with(0);
    let mut without_times = expected;
    without_times.iter_mut().for_each(|row| row["block_time"] = Value::Null);
    assert!(lines(&own.stdout) == without_times);
}

#[test]
fn the_set_as_it_was_and_parts_of_it() {
    let made = Made::new();
    for height in [0, 1, 77, 101, 120, BLOCKS - 1, BLOCKS] {
        let expected = rows(&made.chain, height);
        let found = made.to_stdout("jsonl", &["--at", &height.to_string()]).ends_with(0);
        assert!(lines(&found.stdout) == expected, "height {height}");
    }
    let above = (BLOCKS + 1).to_string();
    let refused = made.to_stdout("jsonl", &["--at", &above]).ends_with(2);
    refused.says(&["the set is at height 140, and height 141 is above it"]);

    // Those of two addresses, and of a script.
    let all = rows(&made.chain, BLOCKS);
    let addresses: Vec<&str> = all.iter().filter_map(|row| row["address"].as_str()).collect();
    let bare = all.iter().find(|row| row["address"].is_null()).unwrap();
    let (first, second) = (addresses[0], addresses[addresses.len() / 2]);
    let raw = format!("raw:{}", bare["script"].as_str().unwrap());
    let wanted = ["--where", first, "--where", second, "--where", &raw];
    let found = made.to_stdout("jsonl", &wanted).ends_with(0);
    let is_wanted = |row: &&Value| {
        row["script"] == bare["script"] || [first, second].contains(&row["address"].as_str().unwrap_or_default())
    };
    let expected: Vec<Value> = all.iter().filter(is_wanted).cloned().collect();
    assert!(expected.len() >= 3);
    assert_eq!(lines(&found.stdout), expected);
    let nobody = format!("raw:{}", "51".repeat(9));
    assert_eq!(made.to_stdout("jsonl", &["--where", &nobody]).ends_with(0).stdout, "");
}

#[test]
fn other_programs_read_parquet() {
    let Some(python) = Python::with(&["pyarrow", "duckdb"]) else {
        return;
    };
    let made = Made::new();
    let expected = rows(&made.chain, BLOCKS);
    let file = made.export("parquet", "coins.parquet", &[]);
    let pyarrow = "import json, sys, pyarrow.parquet as pq
file = pq.ParquetFile(sys.argv[1])
assert all(file.metadata.row_group(0).column(i).compression == 'ZSTD' for i in range(9))
for row in file.read().to_pylist():
    print(json.dumps(row | {'block_time': int(row['block_time'].timestamp())}))";
    assert!(lines(&python.run(pyarrow, &file)) == expected);
    let duckdb = "import json, sys, duckdb
rows = duckdb.sql(f\"select * replace (epoch(block_time)::bigint as block_time) from '{sys.argv[1]}'\")
for row in rows.fetchall(): print(json.dumps(dict(zip(rows.columns, row))))
";
    assert!(lines(&python.run(duckdb, &file)) == expected);
    let file = made.export("arrow", "coins.arrow", &[]);
    let arrow = "import json, sys, pyarrow as pa
for row in pa.ipc.open_stream(sys.argv[1]).read_all().to_pylist():
    print(json.dumps(row | {'block_time': int(row['block_time'].timestamp())}))";
    assert!(lines(&python.run(arrow, &file)) == expected);
    let file = made.scratch.join("coins.parquet");
    // Standard output has the same bytes.
    let mut out = command("--data", &made.data, "parquet", Path::new("-"));
    let bytes = out.stderr(Stdio::null()).output().unwrap();
    assert!(bytes.status.success() && bytes.stdout == std::fs::read(&file).unwrap());
}

#[test]
fn other_programs_read_sqlite() {
    let Some(python) = Python::with(&["sqlite3"]) else {
        return;
    };
    let made = Made::new();
    let expected = rows(&made.chain, BLOCKS);
    let file = made.export("sqlite", "coins.sqlite", &[]);
    let script = "import json, sys, sqlite3
database = sqlite3.connect(sys.argv[1])
assert database.execute('pragma integrity_check').fetchall() == [('ok',)]
plan = database.execute('explain query plan select * from coins where script = ?', ('51',)).fetchall()
assert 'coins_by_script' in plan[0][3], plan
rows = database.execute('select * from coins order by rowid')
names = [column[0] for column in rows.description]
for row in rows:
    row = dict(zip(names, row))
    row['coinbase'] = bool(row['coinbase'])
    print(json.dumps(row))";
    assert!(lines(&python.run(script, &file)) == expected);
    run(&mut command("--data", &made.data, "sqlite", Path::new("-")))
        .ends_with(2)
        .says(&["sqlite writes a file"]);
}

#[test]
fn a_file_is_complete_or_not_there() {
    let scratch = Scratch::new();
    let (data, out) = (scratch.folder("data"), scratch.join("out"));
    run(&mut connect(&scratch.write("blk00000.dat", &[]), &data, "regtest")).ends_with(0);
    for format in ["parquet", "arrow", "csv", "jsonl", "sqlite"] {
        run(&mut command("--data", &data, format, &out)).ends_with(0);
        // An existing file stays.
        let bytes = std::fs::read(&out).unwrap();
        run(&mut command("--data", &data, format, &out))
            .ends_with(2)
            .says(&["there is a file of this name already"]);
        assert!(std::fs::read(&out).unwrap() == bytes);
        std::fs::remove_file(&out).unwrap();
        // What an export that was killed has left is not added to.
        let left = scratch.write("out.incomplete", b"left by an earlier run");
        run(&mut command("--data", &data, format, &out)).ends_with(0);
        assert!(std::fs::read(&out).unwrap() == bytes && !left.exists());
        std::fs::remove_file(&out).unwrap();
        let nowhere = scratch.join("nowhere/out");
        run(&mut command("--data", &data, format, &nowhere)).ends_with(3);
    }
    run(&mut command(
        "--snapshot",
        &scratch.write("short", b"utxo"),
        "csv",
        &out,
    ))
    .ends_with(3);
    assert!(!out.exists() && !scratch.join("out.incomplete").exists());
    run(blockmill().args(["export", "coins", "--format", "csv", "--out", "-"])).ends_with(2);
    run(command("--snapshot", &scratch.join("short"), "csv", &out).args(["--at", "3"])).ends_with(2);
}

/// The reader takes the first bytes, and then nothing: the command waits for it when the signal
/// comes.
#[test]
fn a_signal_ends_it() {
    let scratch = Scratch::new();
    let chain = OwnChain::generate(&scratch, "utxo", 130, &["--coins", "400000", "--inputs", "100"]);
    let data = scratch.join("data");
    run(&mut connect(&chain.folder, &data, "regtest")).ends_with(0);
    let mut child = command("--data", &data, "csv", Path::new("-"))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let mut rest = vec![0; 1000];
    stdout.read_exact(&mut rest).unwrap();
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(300));
    stdout.read_to_end(&mut rest).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let lines = rest.iter().filter(|&&byte| byte == b'\n').count();
    assert!(lines < 400_000, "{lines}");
}
