//! The note that a proof leaves in a data directory.

use super::{Site, is};
use crate::common::{Run, blockmill, connect, run, store};
use blockmill_datadir::DataDir;
use blockmill_datadir::store_file::open_store;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

fn stats(data: &Path) -> Value {
    run(blockmill().args(["stats", "--json", "--data"]).arg(data))
        .ends_with(0)
        .json()
}

fn audit(data: &Path) -> Run {
    run(blockmill().args(["audit", "--json", "--data"]).arg(data))
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let name = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &name);
        } else {
            fs::copy(&path, &name).unwrap();
        }
    }
}

/// Data directories of one chain.
struct Directories {
    site: Site,
}

impl Directories {
    fn new() -> Self {
        Self {
            site: Site::generated(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.site.scratch.join(name)
    }

    /// Connects the chain up to a height.
    fn connect(&self, name: &str, height: u32) -> PathBuf {
        let data = self.path(name);
        let mut command = connect(&self.path("generated"), &data, "regtest");
        command.args(["--stop-at-height", &height.to_string()]);
        run(&mut command).ends_with(0);
        data
    }

    /// Loads the snapshot of the site, whatever its coins are.
    fn load(&self, name: &str) -> PathBuf {
        let data = self.path(name);
        let load = |hash: &str| {
            let mut command = blockmill();
            command.args(["snapshot", "load", "--network", "regtest"]);
            command.arg("--blocks").arg(self.site.blocks()).arg("--data").arg(&data);
            run(command.args(["--hash", hash]).arg(self.site.set()))
        };
        let refused = load(&"00".repeat(32)).stderr;
        let (_, after) = refused.split_once("have the hash ").expect(&refused);
        load(&after[..64]).ends_with(0);
        data
    }
}

/// Puts the store of one directory into another.
fn replace_store(from: &Path, to: &Path) {
    let (from, to) = (from.join(store::PART), to.join(store::PART));
    fs::remove_dir_all(&to).unwrap();
    copy(&from, &to);
}

/// A set that was swapped for a wrong one of the same block was never proved.
#[test]
fn a_mark_is_of_one_store() {
    let mut directories = Directories::new();
    let data = directories.connect("data", 140);
    is(&audit(&data).ends_with(0).json(), "proved", &[]);
    assert_eq!(stats(&data)["audited_height"], 140);
    // A copy of the directory has the store that was proved.
    let copied = directories.path("copied");
    copy(&data, &copied);
    assert_eq!(stats(&copied)["audited_height"], 140);
    directories.site.chain.coins.values_mut().next().unwrap().value += 1;
    directories.site.chain.write_snapshot(&directories.site.set()).unwrap();
    let lie = directories.load("lie");
    assert_eq!(stats(&lie)["bestblock"], stats(&data)["bestblock"]);
    replace_store(&lie, &data);
    assert_eq!(stats(&data)["audited_height"], Value::Null, "another set");
    let table = run(blockmill().args(["stats", "--data"]).arg(&data)).ends_with(0);
    assert!(!table.stdout.contains("audit run"), "{table:?}");
    // The note of another directory says nothing of this one.
    fs::copy(copied.join("audit.txt"), lie.join("audit.txt")).unwrap();
    assert_eq!(stats(&lie)["audited_height"], Value::Null, "another note");
    // Even the same coins, in a store that was made anew.
    replace_store(&directories.connect("anew", 140), &copied);
    assert_eq!(stats(&copied)["audited_height"], Value::Null, "made anew");
    is(&audit(&copied).ends_with(0).json(), "proved", &[]);
    assert_eq!(stats(&copied)["audited_height"], 140);
}

/// The store is the same one, its coins are not.
#[test]
fn a_mark_is_of_one_set() {
    let directories = Directories::new();
    let data = directories.connect("data", 140);
    is(&audit(&data).ends_with(0).json(), "proved", &[]);
    let directory = DataDir::open(&data, None).unwrap();
    let opened = open_store(&directory, Default::default()).unwrap();
    let (outpoint, mut coin) = opened.coins().unwrap().next().unwrap().unwrap();
    coin.value += 1;
    let tip = opened.tip().unwrap().unwrap();
    opened.commit(&[(outpoint, Some(coin))], &tip).unwrap();
    drop((opened, directory));
    let now = stats(&data);
    assert_eq!((&now["height"], &now["audited_height"]), (&140.into(), &Value::Null));
    is(&audit(&data).ends_with(1).json(), "refuted", &["sums"]);
}

#[test]
fn a_mark_stays_while_its_store_goes_on() {
    let directories = Directories::new();
    let data = directories.connect("data", 100);
    is(&audit(&data).ends_with(0).json(), "proved", &[]);
    directories.connect("data", 140);
    let now = stats(&data);
    assert_eq!((&now["height"], &now["audited_height"]), (&140.into(), &100.into()));
}

/// Whatever is computed of the set, the answer on the audit is the same.
#[test]
fn a_mark_counts_with_each_hash() {
    let directories = Directories::new();
    let data = directories.connect("data", 100);
    audit(&data).ends_with(0);
    let run_of = |options: &[&str]| {
        let mut command = blockmill();
        command.args(["stats", "--json", "--data"]).arg(&data).args(options);
        let stats = run(&mut command).ends_with(0).json();
        (stats["audited_height"].clone(), stats["audit_run"].clone())
    };
    let hashes = ["both", "serialized", "muhash", "none"];
    let first = run_of(&[]);
    assert_eq!(first.0, 100);
    for hash in hashes {
        assert_eq!(run_of(&["--hash", hash]), first, "{hash}");
    }
    directories.connect("data", 140);
    for hash in hashes {
        assert_eq!(run_of(&["--hash", hash]), first, "{hash}, later");
        assert_eq!(run_of(&["--hash", hash, "--at", "100"]), first, "{hash}, back");
        assert_eq!(run_of(&["--hash", hash, "--at", "120"]), first, "{hash}, between");
        assert_eq!(run_of(&["--hash", hash, "--at", "99"]).0, Value::Null, "{hash}, below");
    }
}

/// Each flipped byte is said, and no other run or height is named.
#[test]
fn a_flipped_byte_of_a_mark_is_said() {
    let directories = Directories::new();
    let data = directories.connect("data", 140);
    audit(&data).ends_with(0);
    let path = data.join("audit.txt");
    let whole = fs::read(&path).unwrap();
    for at in (0..whole.len()).step_by(7) {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        fs::write(&path, bytes).unwrap();
        let damaged = run(blockmill().args(["stats", "--json", "--data"]).arg(&data)).ends_with(3);
        assert_eq!(damaged.json()["audited_height"], Value::Null, "byte {at}");
        damaged.says(&["audit.txt", "damaged"]);
        let doctor = run(blockmill().args(["doctor", "--data"]).arg(&data)).ends_with(3);
        assert!(doctor.stdout.contains("audit.txt"), "{doctor:?}");
    }
    fs::write(&path, &whole).unwrap();
    assert_eq!(stats(&data)["audited_height"], 140);
}

#[test]
fn a_refuted_set_keeps_no_mark() {
    let mut directories = Directories::new();
    let data = directories.connect("data", 140);
    audit(&data).ends_with(0);
    let mark = data.join("audit.txt");
    let site = &mut directories.site;
    run(blockmill().args(["audit", "key"]).arg(site.scratch.join("key"))).ends_with(0);
    let merge = |parts: &[&Path]| {
        let mut command = blockmill();
        let key = site.scratch.join("key");
        command
            .args(["audit", "merge", "--json", "--key"])
            .arg(key)
            .arg("--data");
        run(command.arg(&data).args(parts))
    };
    let low = site.part(0, 100).0;
    // What is open refutes nothing.
    is(&merge(&[&low]).ends_with(3).json(), "incomplete", &["parts"]);
    assert!(mark.exists());
    let spends = |block: &blockmill_chaingen::core_files::CoreBlock| !block.spent.is_empty();
    let lied = site.chain.blocks.iter().rposition(spends).unwrap();
    let chain = &mut site.chain.clone();
    chain.blocks[lied].spent[0].height -= 1;
    chain.write(&site.blocks(), &Default::default()).unwrap();
    let high = site.part(101, 140).0;
    let merged = merge(&[&low, &high]).ends_with(1).json();
    assert_eq!(merged["verdict"], "refuted");
    assert!(!mark.exists());
}

/// A note is for convenience: the verdict does not wait for it.
#[test]
fn the_verdict_is_given_where_no_note_can_be_left() {
    let directories = Directories::new();
    let data = directories.connect("data", 140);
    let in_the_way = data.join("audit.txt");
    fs::create_dir(&in_the_way).unwrap();
    let mut command = blockmill();
    command.args(["audit", "--json", "--log", "json", "--data"]).arg(&data);
    let audited = run(&mut command).ends_with(0);
    is(&audited.json(), "proved", &[]);
    // It is said before the work.
    let first = audited.stderr.lines().next().unwrap();
    assert!(
        first.contains("audit.txt") && first.contains("is not noted"),
        "{audited:?}"
    );
    assert_eq!(stats(&data)["audited_height"], Value::Null);
    // A set that is not proved has its status, too.
    fs::rename(data.join("undo.dat"), directories.path("undo.dat")).unwrap();
    let open = audit(&data).ends_with(3);
    assert_eq!(open.json()["verdict"], "incomplete");
    open.says(&["is not noted"]);
    fs::rename(directories.path("undo.dat"), data.join("undo.dat")).unwrap();
    fs::remove_dir(&in_the_way).unwrap();
    let noted = audit(&data).ends_with(0);
    assert!(!noted.stderr.contains("not noted"), "{noted:?}");
    assert_eq!(stats(&data)["audited_height"], 140);
    // Nothing of the trial is left.
    let left = fs::read_dir(&data).unwrap().map(|entry| entry.unwrap().file_name());
    let left: Vec<_> = left.filter(|name| name.to_str().unwrap().contains("audit")).collect();
    assert_eq!(left, ["audit.txt"]);
}
