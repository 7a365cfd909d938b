//! A flipped byte anywhere in a data directory: each command that reads gives the answer that it
//! gave before, or ends with another status than 0.

use crate::common::own_set::OwnChain;
use crate::common::{Run, Scratch, blockmill, connect, load_command, on_threads, run, stats, store, submit_command};
use blockmill_store_log::{LogOptions, LogStore};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

const BLOCKS: u32 = 120;

/// Of files with at most so many bytes, every other byte is flipped; of others this many bytes.
const SMALL: usize = 400;
const SPREAD: usize = 30;

/// What is added to a byte, without carry.
const FLIPS: [u8; 4] = [0x01, 0x80, 0xff, 0x10];

/// A data directory, in copies that threads change.
struct Site {
    scratch: Scratch,
    chain: OwnChain,
    copies: Mutex<Vec<PathBuf>>,
}

/// Status and answers of commands, by their names.
type Answers = BTreeMap<&'static str, (i32, String)>;

impl Site {
    fn new() -> Self {
        let scratch = Scratch::new();
        let chain = OwnChain::generate(&scratch, "mixed", BLOCKS, &["--inputs", "300"]);
        Self {
            scratch,
            chain,
            copies: Mutex::default(),
        }
    }

    /// The last blocks come one by one.
    fn connect_and_submit(&self, data: &Path) {
        let mut command = connect(&self.chain.folder, data, "regtest");
        let below = (BLOCKS - 4).to_string();
        run(command.args(["--stop-at-height", &below])).ends_with(0);
        let mut lines = String::new();
        for block in &self.chain.blocks[BLOCKS as usize - 3..] {
            writeln!(lines, "{}", bitcoin::consensus::encode::serialize_hex(block)).unwrap();
        }
        let input = File::open(self.scratch.write("lines", lines.as_bytes())).unwrap();
        run(submit_command(data).args(["--flush-seconds", "0"]).stdin(input)).ends_with(0);
        // The submitted blocks are in no other file.
        let file = self.chain.folder.join("blk00000.dat");
        let blocks = std::fs::read(&file).unwrap();
        let records = crate::common::records(&blocks);
        std::fs::write(&file, &blocks[..records[BLOCKS as usize - 3].start]).unwrap();
    }

    /// Copies a directory, and removes it: the files of blocks in it must not be found.
    fn copy(&self, data: &Path) {
        let copies = (0..4).map(|number| {
            let copy = self.scratch.join(&format!("copy-{number}"));
            store::copy(data, &copy);
            copy
        });
        *self.copies.lock().unwrap() = copies.collect();
        store::remove(data);
    }

    fn answers(&self, data: &Path) -> Answers {
        let out = data.with_extension("dumped");
        let _ = std::fs::remove_file(&out);
        let coinbase = self.chain.blocks[BLOCKS as usize - 20].txdata[0].compute_txid();
        let outpoint = format!("{coinbase}:0");
        let with = |words: &[&str], rest: &[&str]| run(blockmill().args(words).arg("--data").arg(data).args(rest));
        let dumped = with(&["snapshot", "dump"], &[out.to_str().unwrap()]);
        let file = std::fs::read(&out).unwrap_or_default();
        let mut answers: Answers = [
            ("stats", with(&["stats", "--json"], &[])),
            ("stats at", with(&["stats", "--json"], &["--at", "110"])),
            ("status", with(&["status", "--json"], &[])),
            (
                "coin",
                with(&["coin", "--json"], &[&outpoint, &format!("{}:7", "ab".repeat(32))]),
            ),
            ("coin at", with(&["coin", "--json"], &["--at", "112", &outpoint])),
            ("balance", with(&["balance", "--json"], &["raw:51"])),
            (
                "coins",
                with(&["export", "coins"], &["--format", "jsonl", "--out", "-"]),
            ),
            (
                "blocks",
                with(
                    &["export", "blocks"],
                    &["--from", "105", "--format", "jsonl", "--out", "-"],
                ),
            ),
        ]
        .map(|(name, run)| (name, (run.status, answer(name, &run))))
        .into();
        answers.insert("dump", (dumped.status, blockmill_block::hex::encode(&file)));
        let doctor = with(&["doctor", "--json"], &[]);
        answers.insert("doctor", (doctor.status, answer("doctor", &doctor)));
        answers
    }

    /// Flips bytes of the files whose names are `wanted`, and compares all answers.
    fn check(&self, wanted: impl Fn(&str) -> bool, all: bool) {
        let first = self.copies.lock().unwrap()[0].clone();
        let right = self.answers(&first);
        assert!(right.values().all(|(status, _)| *status == 0), "{right:#?}");
        let mut flips: Vec<(PathBuf, usize)> = Vec::new();
        for path in store::files(&first) {
            let name = path.strip_prefix(&first).unwrap();
            if !wanted(name.to_str().unwrap()) {
                continue;
            }
            let length = std::fs::metadata(&path).unwrap().len() as usize;
            let step = match (all, length <= SMALL) {
                (true, _) => 1,
                (false, true) => 2,
                (false, false) => length / SPREAD,
            };
            let count = flips.len();
            flips.extend((0..length).step_by(step).map(|at| (name.to_owned(), at)));
            eprintln!("{}: {} flips", name.display(), flips.len() - count);
        }
        assert!(!flips.is_empty());
        let faults = on_threads(&flips, |(name, at)| self.fault_of_flip(name, *at, &right));
        let faults: Vec<String> = faults.into_iter().flatten().collect();
        let count = faults.len();
        assert!(faults.is_empty(), "{count} of {} flips: {faults:#?}", flips.len());
    }

    fn fault_of_flip(&self, name: &Path, at: usize, right: &Answers) -> Option<String> {
        let copy = self.copies.lock().unwrap().pop().expect("one for each thread");
        let path = copy.join(name);
        let whole = std::fs::read(&path).unwrap();
        let mut bytes = whole.clone();
        // Digits become other digits often, which other checks than a checksum may take.
        bytes[at] ^= if bytes[at].is_ascii_digit() {
            1
        } else {
            FLIPS[at / 2 % FLIPS.len()]
        };
        std::fs::write(&path, bytes).unwrap();
        let answers = self.answers(&copy);
        std::fs::write(&path, whole).unwrap();
        self.copies.lock().unwrap().push(copy);
        let wrong = |(name, answer): &(&&str, &(i32, String))| answer.0 == 0 && **answer != right[**name];
        let (command, (_, answer)) = answers.iter().find(wrong)?;
        let position = answer
            .bytes()
            .zip(right[command].1.bytes())
            .take_while(|(one, other)| one == other);
        let from = position.count().saturating_sub(40);
        let shown = answer.get(from..(from + 80).min(answer.len())).unwrap_or_default();
        Some(format!("{}, byte {at}: {command}: ...{shown}", name.display()))
    }
}

/// What a command answered, without what may differ.
fn answer(name: &str, run: &Run) -> String {
    let Ok(mut json) = serde_json::from_str::<Value>(&run.stdout) else {
        return run.stdout.clone();
    };
    if name == "doctor" {
        // It may say more of other parts. What is sound of the coins is what it was.
        let parts = json["parts"].as_array().cloned().unwrap_or_default();
        let coins = parts
            .into_iter()
            .filter(|part| part["part"] == "coins.log" && part["health"] == "sound");
        return Value::Array(coins.collect()).to_string();
    }
    if let Value::Object(fields) = &mut json {
        fields.remove("store_memory");
    }
    json.to_string()
}

/// Writes a checkpoint, which so few coins would not have.
fn add_checkpoint(data: &Path) {
    let options = LogOptions {
        checkpoint_changes: 1,
        ..LogOptions::default()
    };
    let log = data.join("coins.log");
    drop(LogStore::open(&log, "regtest", options).unwrap());
    assert!(log.join("checkpoint").exists());
}

#[test]
fn of_a_directory_that_was_connected() {
    let site = Site::new();
    let data = site.scratch.join("data");
    site.connect_and_submit(&data);
    // Its note is in the directory, too.
    run(blockmill().args(["audit", "--data"]).arg(&data)).ends_with(0);
    assert!(data.join("audit.txt").exists());
    site.copy(&data);
    site.check(|name| !name.starts_with("blocks"), false);
}

#[test]
fn of_a_directory_with_a_checkpoint_and_a_snapshot() {
    let site = Site::new();
    let (early, data, snapshot) = (
        site.scratch.join("early"),
        site.scratch.join("data"),
        site.scratch.join("set"),
    );
    run(connect(&site.chain.folder, &early, "regtest").args(["--stop-at-height", "104"])).ends_with(0);
    run(blockmill()
        .args(["snapshot", "dump", "--data"])
        .arg(&early)
        .arg(&snapshot))
    .ends_with(0);
    let hash = stats(&early)["hash_serialized_3"].as_str().unwrap().to_owned();
    let mut load = load_command(&site.chain.folder, &data, "regtest");
    run(load.args(["--hash", &hash]).arg(&snapshot)).ends_with(0);
    run(&mut connect(&site.chain.folder, &data, "regtest")).ends_with(0);
    add_checkpoint(&data);
    site.copy(&data);
    site.check(
        |name| ["meta.json", "coins.log/checkpoint", "coins.log/segment-00000001"].contains(&name),
        false,
    );
}

#[test]
fn of_submitted_blocks() {
    let site = Site::new();
    let data = site.scratch.join("data");
    site.connect_and_submit(&data);
    site.copy(&data);
    site.check(|name| name.starts_with("blocks"), false);
}

#[test]
#[ignore = "an hour: every byte of all files"]
fn of_every_byte() {
    let site = Site::new();
    let data = site.scratch.join("data");
    site.connect_and_submit(&data);
    site.copy(&data);
    site.check(|_| true, true);
}
