//! A data directory whose store has lost its end: commands that read it refuse to answer from the
//! older set that is left; commands that write resume from there, and report it.

use crate::common::{Run, blockmill, connect, doctor, run, stats, store, store::InTwoFlushes, submit_command};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Height that the store is left at, and height that it had.
const FOUND: u32 = InTwoFlushes::HEIGHTS[0];
const SYNCED: u32 = InTwoFlushes::HEIGHTS[1];

impl InTwoFlushes {
    /// A data directory that is a copy, after a change.
    fn changed(&self, name: &str, change: impl FnOnce(&Path)) -> PathBuf {
        let copy = self.scratch.join(name);
        store::copy(&self.data, &copy);
        change(&copy);
        copy
    }

    /// The commands that read a set, by their names. What they print is the same on each call.
    fn readers(&self, data: &Path) -> Vec<(&'static str, Command)> {
        let out = self.scratch.join("out");
        let _ = std::fs::remove_file(&out);
        let with = |words: &[&str], rest: &[&str]| {
            let mut command = blockmill();
            command.args(words).arg("--data").arg(data).args(rest);
            command
        };
        let none = format!("{}:0", "ab".repeat(32));
        let audit = self.blocks.to_str().unwrap();
        vec![
            ("stats", with(&["stats", "--json"], &[])),
            ("status", with(&["status", "--json"], &[])),
            ("coin", with(&["coin", "--json"], &[&none])),
            ("balance", with(&["balance", "--json"], &["raw:51"])),
            (
                "coins",
                with(&["export", "coins"], &["--format", "jsonl", "--out", "-"]),
            ),
            (
                "blocks",
                with(&["export", "blocks"], &["--format", "jsonl", "--out", "-"]),
            ),
            ("dump", with(&["snapshot", "dump"], &[out.to_str().unwrap()])),
            ("stats at", with(&["stats", "--json"], &["--at", "20"])),
            ("coin at", with(&["coin", "--json"], &["--at", "20", &none])),
            ("audit", with(&["audit", "--json"], &["--blocks", audit])),
        ]
    }

    /// Fails unless all commands that read refuse to answer, and name both heights.
    #[track_caller]
    fn all_refuse(&self, data: &Path) {
        for (name, mut command) in self.readers(data) {
            let refused = run(&mut command);
            assert_eq!((refused.status, &refused.stdout[..]), (3, ""), "{name}: {refused:#?}");
            refused.says(&["coins.log", "height 29", "height 30", "connect the blocks again"]);
        }
        let doctor = doctor(data).ends_with(3).json();
        assert_eq!(doctor["sound"], false, "{doctor}");
        let parts = doctor["parts"].as_array().unwrap();
        let of_store = parts.iter().find(|part| part["health"] == "damaged").unwrap();
        assert_eq!(of_store["part"], "coins.log");
        let detail = of_store["detail"].as_str().unwrap();
        for words in ["height 29", "height 30", "connect the blocks again"] {
            assert!(detail.contains(words), "{detail}");
        }
    }

    fn connect(&self, data: &Path) -> Run {
        run(&mut connect(&self.blocks, data, "regtest"))
    }
}

/// The file of the log, changed.
fn change_log(data: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let path = store::file(data);
    let mut bytes = std::fs::read(&path).unwrap();
    change(&mut bytes);
    std::fs::write(&path, bytes).unwrap();
}

fn flip_last(bytes: &mut [u8]) {
    if let Some(last) = bytes.last_mut() {
        *last ^= 1;
    }
}

/// What is done to the bytes of a file.
type Damage<'a> = &'a dyn Fn(&mut Vec<u8>);

#[test]
fn an_older_set_is_no_answer() {
    let made = InTwoFlushes::new();
    let damages: [(&str, Damage); 4] = [
        ("a bit", &|bytes| {
            let at = bytes.len() - 10;
            bytes[at] ^= 4;
        }),
        ("a page of coins", &|bytes| {
            let at = bytes.len() - 2 * store::PAGE;
            bytes[at..][..store::PAGE].fill(0);
        }),
        ("a byte less", &|bytes| {
            bytes.pop();
        }),
        ("a page less", &|bytes| bytes.truncate(bytes.len() - store::PAGE)),
    ];
    for (name, damage) in damages {
        eprintln!("{name}");
        let data = made.changed(name, |data| change_log(data, damage));
        made.all_refuse(&data);
        let _ = std::fs::remove_file(data.join("coins.log/checkpoint"));
        made.all_refuse(&data);
    }
    // An older log instead of the last one, as from a backup, or from a copy that was made
    // while a writer ran.
    let before = made.scratch.join("before");
    let mut command = connect(&made.blocks, &before, "regtest");
    run(command.args(["--stop-at-height", "29"])).ends_with(0);
    let older_log = made.scratch.join("older-log");
    store::copy(&before.join("coins.log"), &older_log);
    made.connect(&before).ends_with(0);
    store::remove(&before.join("coins.log"));
    std::fs::rename(&older_log, before.join("coins.log")).unwrap();
    made.all_refuse(&before);
}

#[test]
fn writers_go_on_from_an_older_set_and_say_so() {
    let made = InTwoFlushes::new();
    let whole = stats(&made.data);
    let damaged = |name: &str| made.changed(name, |data| change_log(data, |bytes| flip_last(bytes)));
    let words = ["coins.log", "height 29", "height 30"];
    // Without a block it stays so: the directory has retained the one above.
    let data = damaged("one");
    std::fs::remove_dir_all(data.join("kept")).unwrap();
    let submit = |data: &Path| run(submit_command(data).stdin(Stdio::null())).ends_with(0);
    for _ in 0..2 {
        submit(&data).says(&words);
        made.all_refuse(&data);
    }
    let json = made.connect(&data).ends_with(0).says(&words).json();
    assert_eq!((&json["start_height"], &json["blocks"]), (&FOUND.into(), &1.into()));
    let again = made.connect(&data).ends_with(0);
    assert!(!again.stderr.contains("older") && !submit(&data).stderr.contains("older"));
    assert_eq!(stats(&data), whole);
    doctor(&data).ends_with(0);
    // Where nothing is left of the set, a snapshot may be loaded.
    let snapshot = made.scratch.join("snapshot");
    run(blockmill()
        .args(["snapshot", "dump", "--data"])
        .arg(&made.data)
        .arg(&snapshot))
    .ends_with(0);
    let data = made.changed("empty", |data| change_log(data, |bytes| bytes.truncate(store::PAGE)));
    let _ = std::fs::remove_file(data.join("coins.log/checkpoint"));
    run(blockmill().args(["stats", "--data"]).arg(&data))
        .ends_with(3)
        .says(&["height 0", "height 30"]);
    let mut load = blockmill();
    load.args(["snapshot", "load", "--blocks"])
        .arg(&made.blocks)
        .arg("--data")
        .arg(&data);
    load.args(["--hash", whole["hash_serialized_3"].as_str().unwrap()])
        .arg(&snapshot);
    run(&mut load).ends_with(0).says(&["height 0", "height 30"]);
    let loaded = stats(&data);
    assert_eq!(
        (&loaded["hash_serialized_3"], &loaded["snapshot_height"]),
        (&whole["hash_serialized_3"], &SYNCED.into())
    );
}
