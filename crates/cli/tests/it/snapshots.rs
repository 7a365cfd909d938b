//! Snapshots: what is dumped is what Bitcoin Core dumps, byte for byte; what is loaded is checked,
//! and validation goes on from there.

use crate::common::{
    Rng, Scratch, blockmill, connect, generate_command, load_command, make_fifo, manifest, on_threads, run,
    shared_data, stats,
};
use std::path::Path;
use std::process::Command;

fn dump(data: &Path, file: &Path) -> Command {
    let mut command = blockmill();
    command
        .args(["snapshot", "dump", "--json", "--data"])
        .arg(data)
        .arg(file);
    command
}

/// The file comes last.
fn load(data: &Path, network: &str, blocks: &Path, hash: Option<&str>, file: &Path) -> Command {
    let mut command = load_command(blocks, data, network);
    if let Some(hash) = hash {
        command.args(["--hash", hash]);
    }
    command.arg(file);
    command
}

struct Known {
    network: &'static str,
    blocks: &'static str,
    snapshot: &'static str,
    height: u32,
    coins: u64,
    hash: &'static str,
}

const KNOWN: [Known; 2] = [
    Known {
        network: "bitcoin",
        blocks: "mainnet_0_14131.dat",
        snapshot: "mainnet_14131.utxo",
        height: 14_131,
        coins: 13_416,
        hash: "74c5a654587d4eaac9248b73889453e0b2fbc918bbc7bb8d8e6301d4d8c98db3",
    },
    Known {
        network: "testnet3",
        blocks: "testnet3_0_4000.dat",
        snapshot: "testnet3_4000.utxo",
        height: 4_000,
        coins: 4_197,
        hash: "d47a6ca2d786f0db1f8ce4bb8d56d5b26778c8dff317f62036e56b9d7ea0e82c",
    },
];

#[test]
fn dumps_are_those_of_core_and_its_dumps_load() {
    let Some(folder) = shared_data("chains") else { return };
    for known in &KNOWN {
        let scratch = Scratch::new();
        let (blocks, theirs) = (folder.join(known.blocks), folder.join(known.snapshot));
        let (data, ours) = (scratch.join("data"), scratch.join("ours.utxo"));
        run(&mut connect(&blocks, &data, known.network)).ends_with(0);
        let json = run(&mut dump(&data, &ours)).ends_with(0).json();
        assert_eq!(std::fs::read(&ours).unwrap(), std::fs::read(&theirs).unwrap());
        assert_eq!(json["coins_written"], known.coins);
        assert_eq!(json["base_height"], known.height);
        assert_eq!(json["txoutset_hash"], known.hash);
        assert_eq!(stats(&data)["snapshot_height"], serde_json::Value::Null);

        let loaded = scratch.join("loaded");
        let json = run(&mut load(&loaded, known.network, &blocks, Some(known.hash), &theirs))
            .ends_with(0)
            .json();
        assert_eq!(
            (&json["coins_loaded"], &json["base_height"]),
            (&known.coins.into(), &known.height.into())
        );
        let (of_loaded, of_connected) = (stats(&loaded), stats(&data));
        for key in [
            "height",
            "bestblock",
            "txouts",
            "hash_serialized_3",
            "muhash",
            "total_amount",
        ] {
            assert_eq!(of_loaded[key], of_connected[key], "{key}");
        }
        assert_eq!(of_loaded["snapshot_height"], known.height);
        let again = scratch.join("again.utxo");
        run(&mut dump(&loaded, &again)).ends_with(0);
        assert_eq!(std::fs::read(&again).unwrap(), std::fs::read(&theirs).unwrap());
        // There is nothing to connect, and that is well.
        let json = run(&mut connect(&blocks, &loaded, known.network)).ends_with(0).json();
        assert_eq!((&json["height"], &json["blocks"]), (&known.height.into(), &0.into()));
    }
}

#[test]
fn a_byte_that_is_another_is_refused() {
    let Some(folder) = shared_data("chains") else { return };
    let known = &KNOWN[1];
    let scratch = Scratch::new();
    let blocks = folder.join(known.blocks);
    let bytes = std::fs::read(folder.join(known.snapshot)).unwrap();
    let mut dice = Rng::new(8);
    // All kinds of metadata, and offsets all over the coins.
    let mut offsets = vec![0, 4, 5, 6, 7, 10, 11, 42, 43, 46, 50, 51, 83, 84, 85, bytes.len() - 1];
    offsets.extend((0..24).map(|_| dice.below(bytes.len())));
    on_threads(&offsets, |&offset| {
        let mut changed = bytes.clone();
        changed[offset] ^= 1 << (offset % 8);
        let file = scratch.write(&format!("changed-{offset}.utxo"), &changed);
        let data = scratch.join(&format!("data-{offset}"));
        let refused = run(&mut load(&data, known.network, &blocks, Some(known.hash), &file)).ends_with(3);
        let name = file.to_str().unwrap();
        // The base block is named where it is that which is another.
        let named = if (11..43).contains(&offset) {
            "the base of the snapshot"
        } else {
            name
        };
        assert!(refused.stderr.contains(named), "{offset}: {refused:#?}");
        // Nothing of it is there.
        assert!(!data.exists());
    });
    let data = scratch.join(&format!("data-{}", offsets[3]));
    run(&mut load(
        &data,
        known.network,
        &blocks,
        Some(known.hash),
        &folder.join(known.snapshot),
    ))
    .ends_with(0);
    assert_eq!(stats(&data)["hash_serialized_3"], known.hash);
}

#[test]
fn validation_goes_on_from_a_snapshot() {
    let scratch = Scratch::new();
    let out = scratch.join("chain");
    let mut command = generate_command(&out, "mixed", 220);
    run(command.args(["--inputs", "4000"])).ends_with(0);
    let manifest = manifest(&out);
    let early = scratch.join("early");
    run(connect(&out, &early, "regtest").args(["--stop-at-height", "170"])).ends_with(0);
    let hash = stats(&early)["hash_serialized_3"].as_str().unwrap().to_owned();
    let file = scratch.join("170.utxo");
    run(&mut dump(&early, &file)).ends_with(0);
    // A file that is there is not written over, and a name where no file can be is an error.
    run(&mut dump(&early, &file)).ends_with(2).says(&["170.utxo"]);
    run(&mut dump(&early, &scratch.join("no/such/folder")))
        .ends_with(3)
        .says(&["no/such/folder"]);

    let data = scratch.join("data");
    // No data directory is made for a name that is mistyped.
    let missing = scratch.join("missing");
    for (blocks, file) in [(&out, &missing), (&missing, &file)] {
        run(&mut load(&data, "regtest", blocks, Some(&hash), file))
            .ends_with(3)
            .says(&["missing"]);
        assert!(!data.exists());
    }
    // Nobody knows this chain, so its hash must be said; and it must be right.
    run(&mut load(&data, "regtest", &out, None, &file))
        .ends_with(2)
        .says(&["--hash", "height 170"]);
    let wrong = "11".repeat(32);
    run(&mut load(&data, "regtest", &out, Some(&wrong), &file))
        .ends_with(3)
        .says(&[&hash, &wrong]);
    run(&mut load(&scratch.join("other"), "bitcoin", &out, Some(&hash), &file))
        .ends_with(3)
        .says(&["magic"]);
    // Headers up to the base block are needed.
    let nothing = scratch.join("nothing");
    std::fs::create_dir(&nothing).unwrap();
    std::fs::write(nothing.join("blk00000.dat"), []).unwrap();
    run(&mut load(&data, "regtest", &nothing, Some(&hash), &file))
        .ends_with(3)
        .says(&["the base of the snapshot"]);
    run(&mut load(&data, "regtest", &out, Some(&hash), &file)).ends_with(0);
    assert_eq!(stats(&data)["height"], 170);
    run(&mut load(&data, "regtest", &out, Some(&hash), &file))
        .ends_with(2)
        .says(&["has a set already"]);

    let json = run(&mut connect(&out, &data, "regtest")).ends_with(0).json();
    assert_eq!((&json["start_height"], &json["blocks"]), (&170.into(), &50.into()));
    let figures = stats(&data);
    assert_eq!(figures["hash_serialized_3"], manifest["hash_serialized_3"]);
    assert_eq!(
        (&figures["height"], &figures["snapshot_height"]),
        (&220.into(), &170.into())
    );
    let table = run(blockmill().arg("stats").arg("--data").arg(&data)).ends_with(0);
    assert!(table.stdout.contains("above height 170"), "{table:#?}");
}

/// A snapshot that comes through a pipe is read once, to its end.
#[test]
fn a_snapshot_comes_through_a_pipe() {
    let scratch = Scratch::new();
    let out = scratch.join("chain");
    run(&mut generate_command(&out, "utxo", 110)).ends_with(0);
    let data = scratch.join("data");
    run(&mut connect(&out, &data, "regtest")).ends_with(0);
    let file = scratch.join("snapshot");
    run(&mut dump(&data, &file)).ends_with(0);
    let hash = stats(&data)["hash_serialized_3"].as_str().unwrap().to_owned();
    let fifo = scratch.join("fifo");
    make_fifo(&fifo);
    let loaded = scratch.join("loaded");
    // The first one is refused, and leaves no directory.
    for (hash, status) in [("00".repeat(32), 3), (hash, 0)] {
        let written = std::thread::scope(|scope| {
            let writer = scope.spawn(|| std::fs::copy(&file, &fifo));
            run(&mut load(&loaded, "regtest", &out, Some(&hash), &fifo)).ends_with(status);
            writer.join().unwrap()
        });
        assert_eq!(written.unwrap(), std::fs::metadata(&file).unwrap().len());
        assert_eq!(loaded.exists(), status == 0);
    }
}
