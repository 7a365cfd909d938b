//! `--store`: both stores give the same set, and a directory keeps the one that it has.

use crate::common::{
    Scratch, blockmill, connect_without_store as connect, doctor, generate_command, manifest, run, stats,
};
use serde_json::Value;
use std::os::unix::fs::FileExt;
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
    let segment = data.join("coins.log/segment-00000001");
    let file = std::fs::File::options().read(true).write(true).open(&segment).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, 5000).unwrap();
    file.write_all_at(&[byte[0] ^ 1], 5000).unwrap();
    let wanted = ["segment-00000001: the page at offset 4096 is not what was written"];
    let found = doctor(&data);
    assert!(found.stdout.contains(wanted[0]), "{found:#?}");
    found.ends_with(3);
    run(blockmill().args(["stats", "--data"]).arg(&data))
        .ends_with(3)
        .says(&wanted);
    // The folder is gone, and the log of connected blocks is not.
    std::fs::remove_dir_all(data.join("coins.log")).unwrap();
    run(&mut connect(&world.blocks, &data, "regtest"))
        .ends_with(3)
        .says(&["coins with it"]);
}
