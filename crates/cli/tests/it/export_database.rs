//! SQLite databases that go on: what a later call makes of one is what an export into a new file
//! makes.

use crate::common::branches::genesis;
use crate::common::{
    Run, Scratch, blockmill, connect, connected_to, generate_command, make_fifo, record, run, two_chains,
};
use bitcoin::consensus::serialize;
use bitcoin::{Block, OutPoint};
use blockmill_block::Network;
use blockmill_chaingen::builder::{BlockBuilder, spend_any, subsidy};
use rusqlite::types::Value;
use rusqlite::{Connection, OpenFlags};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const KINDS: [&str; 7] = [
    "transactions",
    "inputs",
    "outputs",
    "spenders",
    "positions",
    "filters",
    "statistics",
];

/// All tables of a database, their indexes, and all rows.
type Content = BTreeMap<String, (Vec<String>, Vec<Vec<Value>>)>;

fn open(path: &Path) -> Connection {
    // Also to undo what a killed process has left.
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE).unwrap();
    let checked: String = connection
        .query_row("PRAGMA integrity_check", [], |row| row.get(0))
        .unwrap();
    assert_eq!(checked, "ok");
    connection
}

fn strings(connection: &Connection, sql: &str) -> Vec<String> {
    let mut select = connection.prepare(sql).unwrap();
    let rows = select.query_map([], |row| row.get(0)).unwrap();
    rows.map(Result::unwrap).collect()
}

fn rows(connection: &Connection, table: &str) -> Vec<Vec<Value>> {
    let mut select = connection
        .prepare(&format!("SELECT rowid, * FROM {table} ORDER BY rowid"))
        .unwrap();
    let columns = select.column_count();
    // What is written over has another number.
    let first = usize::from(["metadata", "blockmill"].contains(&table));
    let rows = select.query_map([], |row| (first..columns).map(|column| row.get(column)).collect());
    rows.unwrap().map(Result::unwrap).collect()
}

fn content(path: &Path) -> Content {
    let connection = open(path);
    let tables = strings(&connection, "SELECT name FROM sqlite_master WHERE type = 'table'");
    let of = |table: String| {
        let select = format!("SELECT sql FROM sqlite_master WHERE tbl_name = '{table}' AND sql NOT NULL");
        let mut rows = rows(&connection, &table);
        if ["metadata", "blockmill"].contains(&&*table) {
            rows.sort_by_key(|row| format!("{row:?}"));
        }
        (table.clone(), (strings(&connection, &select), rows))
    };
    tables.into_iter().map(of).collect()
}

#[track_caller]
fn check_same(found: &Content, expected: &Content) {
    assert!(found.keys().eq(expected.keys()), "{:?}", found.keys());
    for (table, (sql, rows)) in expected {
        let (found_sql, found_rows) = &found[table];
        assert_eq!(found_sql, sql);
        assert_eq!(found_rows.len(), rows.len(), "{table}");
        for (found, row) in found_rows.iter().zip(rows) {
            assert!(found == row, "{table}: {found:?}, not {row:?}");
        }
    }
}

/// A data directory whose chain changes. From height 101 on each block spends a coin.
struct Moving {
    scratch: Scratch,
    chain: Vec<Block>,
    files: u32,
}

impl Moving {
    fn new(height: u32) -> Self {
        let scratch = Scratch::new();
        scratch.folder("blocks");
        let mut moving = Self {
            scratch,
            chain: vec![genesis()],
            files: 0,
        };
        moving.connect(0, height, 0);
        moving
    }

    /// Connects blocks above the one at a height, up to another one.
    fn connect(&mut self, fork: u32, tip: u32, time_more: u32) {
        self.chain.truncate(fork as usize + 1);
        let mut file = Vec::new();
        for height in fork + 1..=tip {
            let parent = &self.chain[height as usize - 1];
            let time = parent.header.time + 600 + time_more;
            let mut builder = BlockBuilder::new(parent.block_hash(), height, time);
            if height > 100 {
                let spent = height - 100;
                let coinbase = &self.chain[spent as usize].txdata[0];
                let coin = OutPoint::new(coinbase.compute_txid(), 0);
                builder = builder.transaction(spend_any(coin, subsidy(spent)));
            }
            let block = builder.build();
            file.extend(record(Network::Regtest.magic(), &serialize(&block)));
            self.chain.push(block);
        }
        self.scratch.write(&format!("blocks/blk{:05}.dat", self.files), &file);
        self.files += 1;
        let (folder, data) = (self.scratch.join("blocks"), self.scratch.join("data"));
        run(&mut connect(&folder, &data, "regtest")).ends_with(0);
    }

    fn export(&self, kinds: &[&str], out: &Path, more: &[&str]) -> Run {
        let mut command = blockmill();
        command
            .args(["export", kinds[0], "--data"])
            .arg(self.scratch.join("data"));
        if kinds.len() > 1 {
            command.args(["--and", &kinds[1..].join(",")]);
        }
        run(command.arg("--out").arg(out).args(more))
    }

    /// Goes on with a database of all tables and with one of one table, and compares them with new
    /// ones, and with exports of each table by itself.
    #[track_caller]
    fn check(&self) {
        let fresh = self.scratch.join("fresh.sqlite");
        for (name, kinds, more) in DATABASES {
            let out = self.scratch.join(name);
            let append = [&["--append"], more].concat();
            self.export(kinds, &out, &append).ends_with(0);
            self.export(kinds, &fresh, &append).ends_with(0);
            let found = content(&out);
            assert_eq!(found.len(), kinds.len() + 2);
            check_same(&found, &content(&fresh));
            std::fs::remove_file(&fresh).unwrap();
            for kind in kinds {
                self.export(&[kind], &fresh, more).ends_with(0);
                let mut whole = content(&fresh);
                std::fs::remove_file(&fresh).unwrap();
                whole.retain(|table, _| table == kind);
                let mut table = found.clone();
                table.retain(|table, _| table == kind);
                check_same(&table, &whole);
            }
            // Once more, with nothing new.
            let before = std::fs::read(&out).unwrap();
            let done = self.export(kinds, &out, &append).ends_with(0);
            let said = done.stdout.matches(" 0 of them added now").count();
            assert_eq!(said, kinds.len(), "{}", done.stdout);
            assert!(std::fs::read(&out).unwrap() == before);
        }
    }
}

/// Names, tables, and how they are written.
const DATABASES: [(&str, &[&str], &[&str]); 3] = [
    ("all.sqlite", &KINDS, &["--format", "sqlite"]),
    ("statistics.db", &["statistics"], &["--from", "20"]),
    ("binary", &["spenders", "filters"], &["--binary", "--format", "sqlite"]),
];

#[test]
fn what_goes_on_is_what_a_whole_export_is() {
    let mut moving = Moving::new(57);
    moving.check();
    for tip in [58, 130, 131, 350] {
        let fork = moving.chain.len() as u32 - 1;
        moving.connect(fork, tip, 0);
        moving.check();
    }
    // Reorganisations: of the last block, of some, of as many as there may be.
    for (fork, tip, time_more) in [(349, 352, 1), (330, 353, 2), (65, 354, 3), (353, 700, 4)] {
        moving.connect(fork, tip, time_more);
        moving.check();
    }
}

/// What filters and statistics need of the blocks below, the export before has left: also where the
/// blocks are gone, as on a node that prunes, and after a reorganisation.
#[test]
fn tables_go_on_without_the_blocks_below() {
    let mut moving = Moving::new(90);
    moving.connect(90, 120, 0);
    let kinds = ["filters", "statistics"];
    let (out, fresh) = (moving.scratch.join("out.sqlite"), moving.scratch.join("fresh.sqlite"));
    moving.export(&kinds, &out, &["--append"]).ends_with(0);
    moving.connect(115, 125, 7);
    moving.export(&kinds, &fresh, &["--append"]).ends_with(0);
    for file in ["blocks/blk00000.dat", "blocks/blk00001.dat"] {
        std::fs::remove_file(moving.scratch.join(file)).unwrap();
    }
    let done = moving.export(&kinds, &out, &["--append"]).ends_with(0);
    assert_eq!(done.stdout.matches("126 of").count(), 0, "{}", done.stdout);
    assert_eq!(
        done.stdout.matches(" 10 of them added now").count(),
        2,
        "{}",
        done.stdout
    );
    check_same(&content(&out), &content(&fresh));
}

/// A call may end below the tip, and the next one goes on from there.
#[test]
fn it_goes_on_step_by_step() {
    let moving = Moving::new(120);
    let (out, fresh) = (moving.scratch.join("out.sqlite"), moving.scratch.join("fresh.sqlite"));
    for to in ["0", "1", "60", "110", "120"] {
        moving.export(&KINDS, &out, &["--append", "--to", to]).ends_with(0);
        moving.export(&KINDS, &fresh, &["--append", "--to", to]).ends_with(0);
        check_same(&content(&out), &content(&fresh));
        std::fs::remove_file(&fresh).unwrap();
    }
    let before = std::fs::read(&out).unwrap();
    moving
        .export(&KINDS, &out, &["--append", "--to", "119"])
        .ends_with(2)
        .says(&["out.sqlite", "goes to height 120", "would end at height 119"]);
    assert!(std::fs::read(&out).unwrap() == before);
}

/// Stopped or killed in the middle, it leaves what was there, and a later call goes on.
#[test]
fn a_signal_in_the_middle_changes_nothing() {
    let scratch = Scratch::new();
    let chain = scratch.join("chain");
    let mut generate = generate_command(&chain, "utxo", 130);
    run(generate.args(["--coins", "300000", "--inputs", "100"])).ends_with(0);
    let connected = |name: &str, to: &str| connected_to(&scratch, name, &chain, to);
    let (low, whole) = (connected("low", "112"), connected("whole", "130"));
    let append = |data: &Path, out: &Path| {
        let mut command = blockmill();
        command.args(["export", "outputs", "--append", "--data"]).arg(data);
        command.arg("--out").arg(out);
        command
    };
    let fresh = scratch.join("fresh.sqlite");
    run(&mut append(&whole, &fresh)).ends_with(0);
    let fresh = content(&fresh);
    for (signal, status) in [
        (Signal::INT, Some(130)),
        (Signal::TERM, Some(143)),
        (Signal::KILL, None),
    ] {
        // On a busy machine the signal may come too late.
        let cut_off = (0..20).find_map(|number| {
            let out = scratch.join(&format!("{signal:?}-{number}.sqlite"));
            run(&mut append(&low, &out)).ends_with(0);
            let (before, length) = (content(&out), std::fs::metadata(&out).unwrap().len());
            let child = append(&whole, &out)
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            let waiting = Instant::now();
            // More than its memory holds was written.
            while std::fs::metadata(&out).unwrap().len() <= length {
                assert!(waiting.elapsed() < Duration::from_secs(60), "it does not begin");
                std::thread::sleep(Duration::from_millis(1));
            }
            kill_process(Pid::from_child(&child), signal).unwrap();
            let ended = child.wait_with_output().unwrap();
            (ended.status.code() != Some(0)).then_some((out, before, ended))
        });
        let (out, before, ended) = cut_off.expect("all exports were faster than the signal");
        assert_eq!(ended.status.code(), status);
        let said = String::from_utf8(ended.stderr).unwrap();
        assert!(status.is_none() || said.contains("the file is as it was"), "{said}");
        let journal = PathBuf::from(format!("{}-journal", out.display()));
        assert_eq!(journal.exists(), status.is_none());
        check_same(&content(&out), &before);
        run(&mut append(&whole, &out)).ends_with(0);
        check_same(&content(&out), &fresh);
    }
}

/// Neither a chain that lacks many blocks nor another one takes a table away.
#[test]
fn another_chain_removes_nothing() {
    let scratch = Scratch::new();
    let chains = two_chains(&scratch);
    let connected = |name: &str, chain: &Path, to: &str| connected_to(&scratch, name, chain, to);
    let export = |data: &Path, out: &Path| {
        let mut command = blockmill();
        command.args(["export", "outputs", "--append", "--data"]).arg(data);
        run(command.arg("--out").arg(out))
    };
    let whole = connected("whole", &chains[0], "420");
    let out = scratch.join("out.sqlite");
    export(&whole, &out).ends_with(0);
    let expected = std::fs::read(&out).unwrap();
    for (name, chain, to) in [
        ("short", &chains[0], "131"),
        ("other", &chains[1], "420"),
        ("begun", &chains[0], "20"),
    ] {
        let data = connected(name, chain, to);
        export(&data, &out).ends_with(2).says(&[
            "out.sqlite",
            "that is no reorganisation",
            "nothing was removed",
            "remove the file to begin anew",
        ]);
        assert!(std::fs::read(&out).unwrap() == expected, "{name}");
    }
    // As many blocks as a reorganisation may take away.
    let shorter = connected("shorter", &chains[0], "132");
    let fresh = scratch.join("fresh.sqlite");
    export(&shorter, &out).ends_with(0);
    export(&shorter, &fresh).ends_with(0);
    // What is deep stays one partition of the manifest.
    let rows = |path: &Path| {
        let mut content = content(path);
        content.remove("blockmill").unwrap();
        content
    };
    check_same(&rows(&out), &rows(&fresh));
    export(&whole, &out).ends_with(0);
    std::fs::remove_file(&fresh).unwrap();
    export(&whole, &fresh).ends_with(0);
    check_same(&content(&out), &content(&fresh));
}

#[test]
fn what_does_not_go_on_is_said() {
    let moving = Moving::new(110);
    let out = moving.scratch.join("out.sqlite");
    moving
        .export(&["outputs", "inputs"], &out, &["--append", "--from", "5"])
        .ends_with(0);
    let before = std::fs::read(&out).unwrap();
    for (kinds, more, said) in [
        (
            &["outputs"][..],
            "",
            "the tables there are inputs, outputs, not outputs",
        ),
        (
            &["outputs", "filters"],
            "",
            "the tables there are inputs, outputs, not filters, outputs",
        ),
        (
            &["outputs", "inputs", "filters"],
            "",
            "inputs, outputs, not filters, inputs, outputs",
        ),
        (
            &["outputs", "inputs"],
            "--binary",
            "form of ids of the table there is hex, not binary",
        ),
        (
            &["outputs", "inputs"],
            "--from=6",
            "first height of the table there is 5, not 6",
        ),
        (
            &["outputs", "inputs"],
            "--format=csv",
            "--append needs --partition, or --format sqlite",
        ),
    ] {
        let more: Vec<&str> = ["--append", more]
            .into_iter()
            .filter(|option| !option.is_empty())
            .collect();
        moving
            .export(kinds, &out, &more)
            .ends_with(2)
            .says(&["out.sqlite", said]);
        assert!(std::fs::read(&out).unwrap() == before, "{said}");
    }
    // In another order they are the same.
    moving.export(&["inputs", "outputs"], &out, &["--append"]).ends_with(0);
    assert!(std::fs::read(&out).unwrap() == before);
    // Another network.
    let signet = moving.scratch.folder("signet");
    moving.scratch.folder("none");
    run(&mut connect(
        &moving.scratch.write("none/blk00000.dat", &[]),
        &signet,
        "signet",
    ))
    .ends_with(0);
    let other = moving.scratch.join("other.sqlite");
    moving.export(&["outputs"], &other, &["--append"]).ends_with(0);
    let mut of_signet = blockmill();
    of_signet.args(["export", "outputs", "--append", "--data"]).arg(&signet);
    run(of_signet.arg("--out").arg(&other))
        .ends_with(2)
        .says(&["other.sqlite", "network of the table there is regtest, not signet"]);
    // One that another process writes.
    let writer = open(&out);
    writer.execute_batch("BEGIN IMMEDIATE").unwrap();
    moving
        .export(&["outputs", "inputs"], &out, &["--append"])
        .ends_with(2)
        .says(&["out.sqlite", "another process is writing it"]);
    drop(writer);
    moving.export(&["outputs", "inputs"], &out, &["--append"]).ends_with(0);
}

#[test]
fn a_file_that_is_no_export_is_left_alone() {
    let moving = Moving::new(3);
    let out = moving.scratch.join("out.sqlite");
    let check = |said: &str, status: i32| {
        let before = std::fs::read(&out).unwrap();
        moving
            .export(&["outputs"], &out, &["--append"])
            .ends_with(status)
            .says(&["out.sqlite", said]);
        assert!(std::fs::read(&out).unwrap() == before, "{said}");
    };
    std::fs::write(&out, "some text, which is long enough to be taken for more ".repeat(40)).unwrap();
    check("it is no SQLite database", 2);
    std::fs::write(&out, "").unwrap();
    check("it has no table blockmill", 2);
    std::fs::remove_file(&out).unwrap();
    Connection::open(&out)
        .unwrap()
        .execute_batch("CREATE TABLE outputs (height)")
        .unwrap();
    check("it has no table blockmill", 2);
    std::fs::remove_file(&out).unwrap();
    Connection::open(&out)
        .unwrap()
        .execute_batch("CREATE TABLE blockmill (a)")
        .unwrap();
    check("remove the file to begin anew", 3);
    // What a call without --append has made.
    moving.export(&["outputs"], &out, &["--force"]).ends_with(0);
    check("goes on with a database that --append has made", 2);
    std::fs::remove_file(&out).unwrap();
    make_fifo(&out);
    let pipe = moving.export(&["outputs"], &out, &["--append"]);
    pipe.ends_with(2).says(&["out.sqlite", "no regular file"]);
    // A folder has partitions.
    std::fs::remove_file(&out).unwrap();
    std::fs::create_dir(&out).unwrap();
    let folder = moving.export(&["outputs"], &out, &["--append"]);
    folder.ends_with(2).says(&["out.sqlite", "--append needs --partition"]);
}

/// Nothing is changed on the word of a state that is none, or of another table.
#[test]
fn damage_is_said() {
    let mut moving = Moving::new(110);
    let (good, out) = (moving.scratch.join("good.sqlite"), moving.scratch.join("out.sqlite"));
    let kinds = ["outputs", "statistics"];
    moving.export(&kinds, &good, &["--append"]).ends_with(0);
    moving.connect(108, 112, 5);
    for damage in [
        "DELETE FROM blockmill",
        "DELETE FROM blockmill WHERE name = 'outputs'",
        "UPDATE blockmill SET manifest = ''",
        "UPDATE blockmill SET manifest = x'ff' WHERE name = 'outputs'",
        "UPDATE blockmill SET manifest = replace(manifest, '\"to\": 109', '\"to\": 108')",
        "UPDATE blockmill SET manifest = substr(manifest, 1, length(manifest) - 1)",
        "UPDATE blockmill SET checksum = '0011223344556677'",
        "UPDATE blockmill SET checksum = NULL",
        "UPDATE blockmill SET name = 'inputs' WHERE name = 'outputs'",
        "DELETE FROM outputs WHERE rowid = (SELECT max(rowid) FROM outputs)",
        "DELETE FROM statistics",
        "INSERT INTO outputs SELECT * FROM outputs WHERE height = 3",
        "UPDATE outputs SET height = 108 WHERE height = 109",
        "UPDATE outputs SET height = 109 WHERE height = 108",
        "DROP TABLE outputs",
        "DROP TABLE outputs; CREATE VIEW outputs AS SELECT * FROM statistics",
        "PRAGMA writable_schema = ON; DELETE FROM sqlite_master WHERE name = 'outputs'",
    ] {
        std::fs::copy(&good, &out).unwrap();
        // Some damage is refused, and so is what it would be.
        let _ = Connection::open(&out).unwrap().execute_batch(damage);
        let before = std::fs::read(&out).unwrap();
        if before == std::fs::read(&good).unwrap() {
            assert!(damage.contains("NULL"), "{damage}");
            continue;
        }
        let ended = moving.export(&kinds, &out, &["--append"]);
        ended
            .ends_with(
                if damage.contains("= 'outputs'") && damage.starts_with("DELETE FROM blockmill") {
                    2
                } else {
                    3
                },
            )
            .says(&["out.sqlite"]);
        assert!(std::fs::read(&out).unwrap() == before, "{damage}");
    }
    // Bytes of the file itself.
    let whole = std::fs::read(&good).unwrap();
    for (number, page) in whole.chunks(4096).enumerate().skip(1) {
        let mut bytes = whole.clone();
        bytes[number * 4096..][..page.len()].fill(0xa5);
        std::fs::write(&out, &bytes).unwrap();
        let mut command: Command = blockmill();
        command.args(["export", "outputs", "--and", "statistics", "--append", "--data"]);
        command.arg(moving.scratch.join("data")).arg("--out").arg(&out);
        let status = command.output().unwrap().status.code();
        assert!(matches!(status, Some(0 | 2 | 3)), "page {number}: {status:?}");
    }
    std::fs::copy(&good, &out).unwrap();
    moving.export(&kinds, &out, &["--append"]).ends_with(0);
}
