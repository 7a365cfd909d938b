//! The coin log of a data directory: damaged, cut off, lost, and of another program.

use crate::common::{Scratch, blockmill, connect, doctor, generate_command, manifest, run, stats, store};
use serde_json::Value;
use std::fs::File;
use std::path::PathBuf;

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

    /// Connects the chain in flushes of a few blocks.
    fn connected(&self) -> PathBuf {
        let data = self.scratch.join("data");
        let mut command = connect(&self.blocks, &data, "regtest");
        run(command.args(["--dbcache", "2", "--flush-seconds", "0.05"])).ends_with(0);
        data
    }
}

#[test]
fn damage_of_the_log_is_named() {
    let world = World::new();
    let data = world.connected();
    store::damage(&store::file(&data), 5000);
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
        run(command.args(["--stop-at-height", height])).ends_with(0);
    }
    let path = store::file(&data);
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
        run(blockmill().args(["stats", "--json", "--data"]).arg(&data))
            .ends_with(3)
            .says(&[&format!("height {height}"), "height 200"]);
        let found = doctor(&data).ends_with(3);
        let after = found.stdout.contains("after the last whole commit");
        assert_eq!(after, length != 4096, "{length}: {found:#?}");
        let json = run(&mut connect(&world.blocks, &data, "regtest")).ends_with(0).json();
        assert_eq!(json["start_height"], height, "{length}");
        assert_eq!(stats(&data)["hash_serialized_3"], world.manifest["hash_serialized_3"]);
    }
}

/// `meta.json` without its checksum.
fn without_checksum(meta: &str) -> String {
    let (before, after) = meta.split_once(",\n  \"checksum\"").expect("a checksum");
    format!("{before}\n{}", after.split_once('\n').expect("a line").1)
}

#[test]
fn the_store_that_is_lost_is_named() {
    let world = World::new();
    let data = world.connected();
    let path = data.join(store::PART);
    store::remove(&path);
    let words = [
        path.to_str().unwrap(),
        "gone",
        "coins with it",
        "headers.dat",
        "new data directory",
    ];
    run(&mut connect(&world.blocks, &data, "regtest"))
        .ends_with(3)
        .says(&words);
    run(blockmill().args(["stats", "--data"]).arg(&data))
        .ends_with(3)
        .says(&words);
    let found = doctor(&data).ends_with(3);
    assert!(words.iter().all(|word| found.stdout.contains(word)), "{found:#?}");
    // One of another program.
    let meta = data.join("meta.json");
    let noted = std::fs::read_to_string(&meta).unwrap();
    std::fs::write(&meta, without_checksum(&noted).replace("\"log\"", "\"tree\"")).unwrap();
    run(blockmill().args(["stats", "--data"]).arg(&data))
        .ends_with(3)
        .says(&["meta.json", "the store \"tree\""]);
}

#[test]
fn a_directory_without_a_checksum_is_refused() {
    let world = World::new();
    let data = world.connected();
    let meta = data.join("meta.json");
    let noted = std::fs::read_to_string(&meta).unwrap();
    std::fs::write(&meta, without_checksum(&noted)).unwrap();
    for command in [
        blockmill().args(["stats", "--data"]).arg(&data),
        &mut connect(&world.blocks, &data, "regtest"),
    ] {
        run(command).ends_with(3).says(&["meta.json", "no checksum"]);
    }
}
