//! `--store`: both stores give the same set, and a directory keeps the one that it has.

use crate::common::{
    Scratch, blockmill, connect_without_store as connect, doctor, generate_command, manifest, run, stats, store,
};
use blockmill_engine::StoreKind;
use serde_json::Value;
use std::fs::File;
use std::path::PathBuf;

const STORES: [&str; 2] = ["redb", "log"];

struct World {
    scratch: Scratch,
    blocks: PathBuf,
    manifest: Value,
}

impl World {
    fn new() -> Self {
        let scratch = Scratch::new();
        let blocks = scratch.join("chain");
        run(generate_command(&blocks, "utxo", 200).args(["--inputs", "20000"])).ends_with(0);
        Self {
            manifest: manifest(&blocks),
            blocks,
            scratch,
        }
    }

    /// Connects the chain with a store, in flushes of a few blocks.
    fn connected(&self, store: &str) -> PathBuf {
        let data = self.scratch.join(store);
        let mut command = connect(&self.blocks, &data, "regtest");
        run(command.args(["--store", store, "--dbcache", "2", "--flush-seconds", "0.05"])).ends_with(0);
        data
    }
}

#[test]
fn both_stores_have_the_same_set() {
    let world = World::new();
    let mut dumps = Vec::new();
    for store in STORES {
        let data = world.connected(store);
        let found = stats(&data);
        for name in ["hash_serialized_3", "txouts"] {
            let wanted = if name == "txouts" { "coins" } else { name };
            assert_eq!(found[name], world.manifest[wanted], "{store}");
        }
        let file = world.scratch.join(&format!("{store}.utxo"));
        run(blockmill().args(["snapshot", "dump", "--data"]).arg(&data).arg(&file)).ends_with(0);
        dumps.push(std::fs::read(&file).unwrap());
        doctor(&data).ends_with(0);
    }
    assert!(dumps[0] == dumps[1]);
    // What one store has dumped the other loads.
    for (from, to) in [("redb", "log"), ("log", "redb")] {
        let data = world.scratch.join(&format!("{to}-loaded"));
        let mut load = blockmill();
        load.args(["snapshot", "load", "--network", "regtest", "--store", to, "--data"])
            .arg(&data)
            .args([
                "--hash",
                world.manifest["hash_serialized_3"].as_str().unwrap(),
                "--blocks",
            ])
            .arg(&world.blocks)
            .arg(world.scratch.join(&format!("{from}.utxo")));
        run(&mut load).ends_with(0);
        assert_eq!(stats(&data)["hash_serialized_3"], world.manifest["hash_serialized_3"]);
        assert!(data.join(format!("coins.{to}")).exists());
        run(&mut connect(&world.blocks, &data, "regtest")).ends_with(0);
    }
}

#[test]
fn a_directory_keeps_its_store() {
    let world = World::new();
    for (store, other) in [("redb", "log"), ("log", "redb")] {
        let data = world.connected(store);
        let refused = run(connect(&world.blocks, &data, "regtest").args(["--store", other]));
        refused
            .ends_with(2)
            .says(&[&format!("a store of kind {store}, not {other}"), "leave --store out"]);
        run(&mut connect(&world.blocks, &data, "regtest")).ends_with(0);
        run(connect(&world.blocks, &data, "regtest").args(["--store", store])).ends_with(0);
    }
    // Two stores are one too many.
    let both = world.scratch.join("redb");
    std::fs::rename(world.scratch.join("log").join("coins.log"), both.join("coins.log")).unwrap();
    run(&mut connect(&world.blocks, &both, "regtest"))
        .ends_with(3)
        .says(&["two stores"]);
}

#[test]
fn damage_of_the_log_is_named() {
    let world = World::new();
    let data = world.connected("log");
    store::damage(&store::file_of(StoreKind::Log, &data), 5000);
    let wanted = ["segment-00000001: the page at offset 4096 is not what was written"];
    let found = doctor(&data);
    assert!(found.stdout.contains(wanted[0]), "{found:#?}");
    found.ends_with(3);
    run(blockmill().args(["stats", "--data"]).arg(&data))
        .ends_with(3)
        .says(&wanted);
}

/// What is missing at its end was never committed, as far as the log knows, and neither was a last
/// commit with a damaged page. The directory knows more.
#[test]
fn a_log_that_is_cut_off_is_an_earlier_set() {
    let world = World::new();
    let data = world.scratch.join("data");
    for height in ["150", "199", "200"] {
        let mut command = connect(&world.blocks, &data, "regtest");
        run(command.args(["--store", "log", "--stop-at-height", height])).ends_with(0);
    }
    let path = store::file_of(StoreKind::Log, &data);
    let segment = File::options().write(true).open(&path).unwrap();
    let whole = segment.metadata().unwrap().len();
    // The last commit, damaged and cut off; the one before it, too; all of them.
    let damaged = whole - store::PAGE as u64;
    for (length, height) in [(damaged, 199), (whole - 1, 199), (whole / 2, 150), (5000, 0), (4096, 0)] {
        if length == damaged {
            store::damage(&path, damaged + 100);
        } else {
            segment.set_len(length).unwrap();
        }
        let older = || {
            let mut command = blockmill();
            command.args(["stats", "--json", "--data"]).arg(&data);
            command
        };
        let words = [&format!("height {height}")[..], "height 200"];
        run(&mut older()).ends_with(3).says(&words);
        let allowed = run(older().arg("--allow-older")).ends_with(0).says(&words).json();
        assert_eq!(allowed["height"], height, "{length}");
        let found = doctor(&data).ends_with(3);
        let after = found.stdout.contains("after the last whole commit");
        assert_eq!(after, length != 4096, "{length}: {found:#?}");
        let json = run(&mut connect(&world.blocks, &data, "regtest")).ends_with(0).json();
        assert_eq!(json["start_height"], height, "{length}");
        assert_eq!(stats(&data)["hash_serialized_3"], world.manifest["hash_serialized_3"]);
    }
}

/// What `meta.json` said before it had a checksum.
fn without_checksum(meta: &str) -> String {
    let (before, after) = meta.split_once(",\n  \"checksum\"").expect("a checksum");
    format!("{before}\n{}", after.split_once('\n').expect("a line").1)
}

/// What `meta.json` said before it named the store.
fn without_note(meta: &str, store: &str) -> String {
    let meta = &without_checksum(meta);
    let note = format!(",\n  \"store\": \"{store}\"");
    assert!(meta.contains(&note), "{meta}");
    meta.replace(&note, "")
}

#[test]
fn the_store_that_is_lost_is_named() {
    let world = World::new();
    for store in STORES {
        let data = world.connected(store);
        let part = format!("coins.{store}");
        let path = data.join(&part);
        let (path, folder) = (path.to_str().unwrap(), data.to_str().unwrap());
        store::remove(&data.join(&part));
        let lost = |words: &[&str]| {
            run(&mut connect(&world.blocks, &data, "regtest"))
                .ends_with(3)
                .says(words);
            run(blockmill().args(["stats", "--data"]).arg(&data))
                .ends_with(3)
                .says(words);
            let found = doctor(&data).ends_with(3);
            assert!(words.iter().all(|word| found.stdout.contains(word)), "{found:#?}");
        };
        let always = ["coins with it", "headers.dat", "new data directory"];
        lost(&[&always[..], &[path, "gone"]].concat());
        // A directory from before the store was noted.
        let meta = data.join("meta.json");
        let noted = std::fs::read_to_string(&meta).unwrap();
        std::fs::write(&meta, without_note(&noted, store)).unwrap();
        lost(&[&always[..], &[folder, "gone, coins.redb or coins.log"]].concat());
        // One of a later program.
        std::fs::write(&meta, without_checksum(&noted).replace(store, "tree")).unwrap();
        run(blockmill().args(["stats", "--data"]).arg(&data))
            .ends_with(3)
            .says(&["meta.json", "\"tree\" is no store"]);
    }
}

/// An older directory does not say which store it has; the next writer notes it.
#[test]
fn the_store_is_noted() {
    let world = World::new();
    for store in STORES {
        let data = world.connected(store);
        let meta = data.join("meta.json");
        let noted = std::fs::read_to_string(&meta).unwrap();
        let old = without_note(&noted, store);
        std::fs::write(&meta, &old).unwrap();
        stats(&data);
        doctor(&data).ends_with(0);
        assert_eq!(std::fs::read_to_string(&meta).unwrap(), old);
        run(&mut connect(&world.blocks, &data, "regtest")).ends_with(0);
        assert_eq!(std::fs::read_to_string(&meta).unwrap(), noted);
    }
}
