//! `status`: what it says is what the set comes to, and it reads next to nothing for that.

use crate::common::{Scratch, blockmill, connect, generate_command, holder, load_command, run, stats, store};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

fn status(data: &Path) -> Value {
    let mut command = blockmill();
    run(command.args(["status", "--json", "--data"]).arg(data))
        .ends_with(0)
        .json()
}

/// Block files, and a data directory of the blocks in them.
fn made(scratch: &Scratch, options: &[&str]) -> (PathBuf, PathBuf) {
    let (blocks, data) = (scratch.join("chain"), scratch.join("data"));
    run(generate_command(&blocks, "utxo", 120).args(options)).ends_with(0);
    run(&mut connect(&blocks, &data, "regtest")).ends_with(0);
    (blocks, data)
}

#[test]
fn it_says_what_stats_say() {
    let scratch = Scratch::new();
    let (blocks, data) = made(&scratch, &["--inputs", "2000"]);
    let check = |data: &Path| {
        let (status, stats) = (status(data), stats(data));
        for (one, other) in [
            ("tip", "bestblock"),
            ("height", "height"),
            ("coins", "txouts"),
            ("snapshot_height", "snapshot_height"),
        ] {
            assert_eq!(status[one], stats[other], "{status} {stats}");
        }
        assert_eq!(
            (&status["network"], &status["writer"]),
            (&"regtest".into(), &Value::Null)
        );
        assert_eq!(status["store"], "log");
        assert_eq!(status["disk_size"], stats["disk_size"]);
    };
    check(&data);
    let mut table = blockmill();
    let table = run(table.args(["status", "--data"]).arg(&data)).ends_with(0).stdout;
    for words in ["regtest", "120", "log", "none"] {
        assert!(table.contains(words), "{table}");
    }
    // Without a mark it opens the store.
    std::fs::remove_file(data.join("commit.dat")).unwrap();
    check(&data);
    // A directory that began with a snapshot, before and after a block.
    let snapshot = scratch.join("snapshot");
    let mut dump = blockmill();
    let dump = dump.args(["snapshot", "dump", "--at", "110", "--data"]).arg(&data);
    run(dump.arg(&snapshot)).ends_with(0);
    let hash = run(blockmill()
        .args(["stats", "--json", "--at", "110", "--data"])
        .arg(&data))
    .json();
    let loaded = scratch.join("loaded");
    let mut load = load_command(&blocks, &loaded, "regtest");
    load.args(["--hash", hash["hash_serialized_3"].as_str().unwrap()])
        .arg(&snapshot);
    run(&mut load).ends_with(0);
    assert!(loaded.join("commit.dat").exists());
    check(&loaded);
    run(&mut connect(&blocks, &loaded, "regtest")).ends_with(0);
    check(&loaded);
}

#[test]
fn where_nothing_is_it_says_so() {
    let scratch = Scratch::new();
    run(blockmill().args(["status", "--data"]).arg(scratch.join("none"))).ends_with(2);
    let (data, empty) = (scratch.folder("data"), scratch.write("blk00000.dat", &[]));
    run(&mut connect(&empty, &data, "regtest")).ends_with(0);
    let said = status(&data);
    assert_eq!((&said["height"], &said["coins"]), (&0.into(), &0.into()), "{said}");
    store::remove(&data.join(store::PART));
    let said = status(&data);
    assert_eq!(
        (&said["store"], &said["disk_size"]),
        (&Value::Null, &0.into()),
        "{said}"
    );
}

#[test]
fn it_names_the_writer() {
    let scratch = Scratch::new();
    let (_, data) = made(&scratch, &["--inputs", "100"]);
    let before = status(&data);
    let mut child = holder(&data);
    let end = Instant::now() + Duration::from_secs(20);
    let said = loop {
        let said = status(&data);
        if said["writer"]["process"].is_u64() {
            break said;
        }
        assert!(Instant::now() < end, "{said}");
        std::thread::sleep(Duration::from_millis(20));
    };
    assert_eq!(said["writer"]["process"], child.id());
    let command = said["writer"]["command"].as_str().unwrap();
    // Arguments may have a password.
    assert_eq!(command, "blockmill submit");
    let note = std::fs::read_to_string(data.join("lock")).unwrap();
    assert_eq!(note, format!("{}\nblockmill submit\n", child.id()));
    for key in ["tip", "height", "coins", "store"] {
        assert_eq!(said[key], before[key], "{key}");
    }
    drop(child.stdin.take());
    child.wait().unwrap();
    assert_eq!(status(&data)["writer"], Value::Null);
}

/// Coins, checkpoint and undo data may be anything: they are not read where the last flush has more
/// than 4 MiB. So the size of the set does not matter. Only the last headers are read.
#[test]
fn it_reads_next_to_nothing() {
    let scratch = Scratch::new();
    let (_, data) = made(&scratch, &["--inputs", "3000", "--coins", "100000"]);
    let before = status(&data);
    let segment = store::file(&data);
    let mut bytes = std::fs::read(&segment).unwrap();
    let pages = bytes.len() / store::PAGE;
    assert!(pages > 1100, "{pages} pages");
    bytes[store::PAGE..(pages - 1) * store::PAGE].fill(7);
    std::fs::write(&segment, bytes).unwrap();
    for name in ["coins.log/checkpoint", "undo.dat", "places.dat"] {
        spoil(&data.join(name));
    }
    assert_eq!(status(&data), before);
    spoil(&data.join("headers.dat"));
    run(blockmill().args(["status", "--data"]).arg(&data))
        .ends_with(3)
        .says(&["headers.dat", "the header of the tip"]);
    run(blockmill().args(["stats", "--data"]).arg(&data)).ends_with(3);
}

fn spoil(path: &Path) {
    if let Ok(bytes) = std::fs::read(path) {
        std::fs::write(path, vec![7; bytes.len()]).unwrap();
    }
}
