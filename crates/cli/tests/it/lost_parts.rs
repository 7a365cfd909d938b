//! Data directories of which a part is lost or not to be had: no command takes one for new, and
//! each says what to do.

use crate::common::{Rng, Run, Scratch, blockmill, connect, doctor, run, stats, store, store::InTwoFlushes};
use blockmill_block::hash::sha256d;
use blockmill_block::{Header, Network};
use blockmill_rules::Params;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;

impl InTwoFlushes {
    fn file(&self, name: &str) -> PathBuf {
        self.data.join(name)
    }

    /// All commands that read or write a data directory.
    fn commands(&self) -> BTreeMap<&'static str, Run> {
        let dumped = self.scratch.join("dumped");
        let with_data = |command: &[&str]| {
            let mut process = blockmill();
            process.args(command).arg("--data").arg(&self.data);
            process
        };
        let mut submit = with_data(&["submit"]);
        submit.stdin(Stdio::null());
        let mut connect = with_data(&["connect", "--json"]);
        BTreeMap::from([
            ("connect", run(connect.arg("--blocks").arg(&self.blocks))),
            ("submit", run(&mut submit)),
            ("stats", run(&mut with_data(&["stats"]))),
            ("coin", run(with_data(&["coin"]).arg(format!("{}:0", "ab".repeat(32))))),
            ("dump", run(with_data(&["snapshot", "dump"]).arg(dumped))),
        ])
    }

    fn doctor(&self) -> Run {
        doctor(&self.data)
    }

    /// The names and the bytes of all files but the lock, in which a writer notes who it is.
    fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        store::files(&self.data)
            .into_iter()
            .filter(|path| path.is_file() && !path.ends_with("lock"))
            .map(|path| (path.clone(), std::fs::read(path).unwrap()))
            .collect()
    }

    /// Fails unless all commands end with `status` and say all of `words`, and change nothing.
    #[track_caller]
    fn refused(&self, status: i32, words: &[&str]) {
        let before = self.files();
        for (name, run) in self.commands() {
            assert_eq!(run.stdout, "", "{name}");
            assert_eq!(run.status, status, "{name}: {run:#?}");
            run.says(words);
        }
        assert!(self.files() == before, "a command has changed something");
    }

    /// What doctor says of a part.
    #[track_caller]
    fn part(&self, name: &str, status: i32) -> (String, String) {
        let run = self.doctor().ends_with(status);
        let json = run.json();
        let found = json["parts"]
            .as_array()
            .unwrap()
            .iter()
            .find(|part| part["part"] == name);
        let found = found.unwrap_or_else(|| panic!("nothing of {name}: {run:#?}"));
        let text = |key: &str| found[key].as_str().unwrap().to_owned();
        (text("health"), text("detail"))
    }
}

#[test]
fn a_store_that_is_lost_is_not_made_anew() {
    let made = InTwoFlushes::new();
    let store = made.file(store::PART);
    store::remove(&store);
    made.refused(3, &[store.to_str().unwrap(), "gone", "new data directory"]);
    let (health, detail) = made.part(store::PART, 3);
    assert_eq!(health, "damaged");
    assert!(
        detail.contains("gone") && detail.contains("new data directory"),
        "{detail}"
    );
    // Nothing but the undo data is left.
    std::fs::remove_file(made.file("headers.dat")).unwrap();
    made.refused(3, &[store.to_str().unwrap(), "undo.dat"]);
    // What is left of a store is no store.
    std::fs::create_dir(&store).unwrap();
    std::fs::write(store.join("checkpoint"), []).unwrap();
    made.refused(3, &[store.to_str().unwrap(), "gone", "new data directory"]);
    assert_eq!(made.part(store::PART, 3).0, "damaged");
}

#[test]
fn a_store_that_cannot_be_read_is_not_damaged() {
    let made = InTwoFlushes::new();
    let store = made.file(store::PART);
    let kept = made.scratch.join("kept");
    std::fs::rename(&store, &kept).unwrap();
    // A disk that is not mounted.
    std::os::unix::fs::symlink(made.scratch.join("unmounted/coins"), &store).unwrap();
    made.refused(4, &[store.to_str().unwrap(), "symbolic link"]);
    assert!(store.is_symlink());
    let (health, detail) = made.part(store::PART, 4);
    assert_eq!(health, "unreadable", "{detail}");
    assert!(!detail.contains("new data directory"), "{detail}");
    assert_eq!(made.doctor().json()["sound"], serde_json::Value::Null);
    store::remove(&store);
    std::fs::write(&store, "a file").unwrap();
    made.refused(4, &[store.to_str().unwrap(), "not a folder"]);
    assert_eq!(made.part(store::PART, 4).0, "unreadable");
    store::remove(&store);
    // A link to where it is is as good as the store itself.
    std::os::unix::fs::symlink(&kept, &store).unwrap();
    assert_eq!(stats(&made.data)["height"], 30);
    assert_eq!(made.part(store::PART, 0).0, "sound");
    // The same of another part.
    std::fs::remove_file(made.file("undo.dat")).unwrap();
    std::fs::create_dir(made.file("undo.dat")).unwrap();
    assert_eq!(made.part("undo.dat", 3).0, "unreadable");
}

#[test]
fn damage_of_the_store_is_status_3_everywhere() {
    let made = InTwoFlushes::new();
    let store = store::file(&made.data);
    let whole = std::fs::read(&store).unwrap();
    let zeroed = [&[0; store::PAGE], &whole[store::PAGE..]].concat();
    let cases = [
        ("cut off in the head", &whole[..3000]),
        ("garbage", &[7; 100_000][..]),
        ("a short one", b"text"),
        ("nothing", b""),
        ("no head", &zeroed),
    ];
    // What is missing at the end was never committed, as far as the log knows (`coin_log`).
    for (name, bytes) in cases {
        std::fs::write(&store, bytes).unwrap();
        for (command, run) in made.commands() {
            assert_eq!(run.status, 3, "{name}, {command}: {run:#?}");
            run.says(&[store.to_str().unwrap(), "new data directory"]);
        }
        let (health, detail) = made.part(store::PART, 3);
        assert_eq!(health, "damaged", "{name}: {detail}");
        assert!(detail.contains("new data directory"), "{detail}");
    }
}

#[test]
fn damaged_pages_of_the_store_end_no_command_by_a_panic() {
    const PAGE: usize = store::PAGE;
    let made = InTwoFlushes::new();
    let store = store::file(&made.data);
    let whole = std::fs::read(&store).unwrap();
    let used = store::pages(&store, 1);
    let mut dice = Rng::new(1);
    let mut found = 0;
    for number in 0..12 {
        let offset = used[dice.below(used.len())] as usize;
        let mut bytes = whole.clone();
        match number % 3 {
            0 => bytes[offset..offset + PAGE].fill(0),
            1 => bytes[offset + dice.below(100)] ^= 1 << dice.below(8),
            _ => (offset..offset + PAGE).for_each(|at| bytes[at] = dice.below(256) as u8),
        }
        std::fs::write(&store, &bytes).unwrap();
        let doctor = made.doctor();
        found += usize::from(doctor.status == 3);
        let mut runs = vec![doctor];
        runs.extend(made.commands().into_values());
        for run in runs {
            assert!(matches!(run.status, 0 | 3), "page {}: {run:#?}", offset / PAGE);
            assert!(!run.stderr.contains("panicked at"), "{run:#?}");
            assert!(!run.stderr.contains("RUST_BACKTRACE"), "{run:#?}");
        }
        let _ = std::fs::remove_file(made.scratch.join("dumped"));
    }
    assert!(found > 3, "{found}");
}

#[test]
fn a_directory_without_anything_connected_is_sound() {
    let made = InTwoFlushes::new();
    let empty = made.scratch.join("none.dat");
    std::fs::write(&empty, []).unwrap();
    let other = made.scratch.folder("other");
    run(&mut connect(&empty, &other, "regtest")).ends_with(0);
    let fresh = InTwoFlushes { data: other, ..made };
    let genesis = stats(&fresh.data)["bestblock"].as_str().unwrap().to_owned();
    let (health, detail) = fresh.part(store::PART, 0);
    assert_eq!(health, "sound");
    assert!(
        detail.contains(&format!("0 coins at block {genesis} (height 0)")),
        "{detail}"
    );
    // As a kill before the store was made leaves it.
    for name in [store::PART, "headers.dat", "undo.dat"] {
        store::remove(&fresh.file(name));
    }
    assert_eq!(fresh.part(store::PART, 0).0, "sound");
    assert_eq!(stats(&fresh.data)["txouts"], 0);
    assert!(!fresh.file(store::PART).exists(), "looking has made a store");
    assert_eq!(fresh.commands()["connect"].status, 0);
    assert_eq!(stats(&fresh.data)["height"], 30);
    assert!(fresh.file(store::PART).exists(), "another store than before");
}

#[test]
fn looking_changes_no_file() {
    let made = InTwoFlushes::new();
    let before = made.files();
    made.doctor().ends_with(0);
    stats(&made.data);
    let dumped = made.scratch.join("file");
    let mut dump = blockmill();
    dump.args(["snapshot", "dump", "--data"]).arg(&made.data).arg(&dumped);
    run(&mut dump).ends_with(0);
    assert!(made.files() == before);
    // Where there is nothing, that is said.
    let nowhere = made.scratch.join("nowhere");
    let named = nowhere.to_str().unwrap();
    let words = ["there is no data directory at", named];
    run(blockmill().args(["stats", "--data", named]))
        .ends_with(2)
        .says(&words);
    run(blockmill().args(["doctor", "--data", named]))
        .ends_with(2)
        .says(&words);
    let dump = run(blockmill().args(["snapshot", "dump", "--data", named]).arg(&dumped));
    dump.ends_with(2).says(&words);
    assert!(!nowhere.exists());
}

#[test]
fn marks_are_written_again_for_the_network_of_the_store() {
    let made = InTwoFlushes::new();
    let meta = made.file("meta.json");
    let named = meta.to_str().unwrap();
    std::fs::remove_file(&meta).unwrap();
    made.refused(3, &[named, "missing", "--network"]);
    let (health, detail) = made.part("meta.json", 3);
    assert_eq!(health, "damaged");
    assert!(detail.contains("--network"), "{detail}");
    assert_eq!(made.part(store::PART, 3).0, "sound");
    assert_eq!(made.part("undo.dat", 3).0, "sound");
    // That blocks were submitted too does not make it a directory of somebody else's.
    std::fs::create_dir(made.file("blocks")).unwrap();
    made.refused(3, &[named, "missing"]);
    for network in ["testnet3", "bitcoin"] {
        let wrong = run(&mut connect(&made.blocks, &made.data, network));
        wrong.ends_with(2).says(&["regtest", network]);
        assert!(!meta.exists(), "a meta.json for {network}");
    }
    let json = run(&mut connect(&made.blocks, &made.data, "regtest"))
        .ends_with(0)
        .json();
    assert_eq!((&json["height"], &json["blocks"]), (&30.into(), &0.into()));
    made.doctor().ends_with(0);
}

#[test]
fn damaged_marks_come_with_what_to_do() {
    let made = InTwoFlushes::new();
    let meta = made.file("meta.json");
    for text in [
        &b""[..],
        b"{}",
        b"\xff\xfe",
        b"{\"format\":1,\"network\":\"moon\",\"signet_challenge\":null}",
    ] {
        std::fs::write(&meta, text).unwrap();
        made.refused(3, &[meta.to_str().unwrap(), "--network", "made again"]);
        let (health, detail) = made.part("meta.json", 3);
        assert_eq!(health, "damaged");
        assert!(detail.contains("made again"), "{detail}");
        assert_eq!(made.part(store::PART, 3).0, "sound");
    }
    std::fs::remove_file(&meta).unwrap();
    run(&mut connect(&made.blocks, &made.data, "regtest")).ends_with(0);
    assert_eq!(stats(&made.data)["height"], 30);
}

#[test]
fn undo_data_that_is_missing_is_warned_of() {
    let made = InTwoFlushes::new();
    let undo = made.file("undo.dat");
    let whole = std::fs::read(&undo).unwrap();
    // What a kill leaves is no reason for a word.
    std::fs::write(&undo, [&whole[..], &[7; 90]].concat()).unwrap();
    for run in made.commands().into_values() {
        assert!(!run.stderr.contains("undo.dat"), "{run:#?}");
    }
    let words = [undo.to_str().unwrap(), "new data directory"];
    for bytes in [&whole[..whole.len() - 1], &vec![7; whole.len()], &[]] {
        std::fs::write(&undo, bytes).unwrap();
        run(&mut connect(&made.blocks, &made.data, "regtest"))
            .ends_with(0)
            .says(&words);
    }
    std::fs::remove_file(&undo).unwrap();
    let submit = |log| {
        let mut command = blockmill();
        command
            .args(["submit", "--log", log, "--data"])
            .arg(&made.data)
            .stdin(Stdio::null());
        run(&mut command).ends_with(0)
    };
    let said = submit("json").says(&words);
    let event: serde_json::Value = serde_json::from_str(said.stderr.lines().next().unwrap()).unwrap();
    assert_eq!(
        (&event["event"], &event["level"]),
        (&"undo_damaged".into(), &"warning".into())
    );
    assert_eq!((&event["file"], &event["height"]), (&words[0].into(), &30.into()));
}

/// The challenge of the default signet.
const DEFAULT: &str = concat!(
    "512103ad5e0edad18cb1f0fc0d28a3d4f1f3e445640337489abb10404f2d1e086be430",
    "210359ef5021964fe22d6f8e05b2463c9540ce96883fe3b278760f048f5189f2e6c452ae"
);

/// Appends the header of a block above the first one: a directory with a block keeps its chain.
fn add_header(data: &Path) {
    let header = Header {
        prev_block_hash: Params::new(Network::Signet, None).genesis.hash(),
        ..Params::new(Network::Signet, None).genesis
    };
    let mut record = header.to_bytes().to_vec();
    record.extend([0; 12]);
    let checksum = sha256d(&record);
    record.extend(&checksum[..4]);
    std::fs::write(data.join("headers.dat"), record).unwrap();
}

#[test]
fn challenges_are_compared() {
    let scratch = Scratch::new();
    let blocks = scratch.write("blk00000.dat", &[]);
    for data in ["default", "own", "named"] {
        scratch.folder(data);
    }
    let connect = |data: &str, options: &[&str]| {
        let mut command = blockmill();
        command
            .args(["connect", "--blocks"])
            .arg(&blocks)
            .arg("--data")
            .arg(scratch.join(data));
        run(command.args(options))
    };
    let challenge = |hex| ["--signet-challenge", hex];
    connect("default", &["--network", "signet"]).ends_with(0);
    add_header(&scratch.join("default"));
    connect("default", &challenge(DEFAULT)).ends_with(0);
    connect("default", &challenge("52")).ends_with(2).says(&["signet:52"]);
    // Without a block a directory takes another challenge.
    connect("own", &[&["--network", "signet"][..], &challenge("53")].concat()).ends_with(0);
    connect("own", &[&["--network", "signet"][..], &challenge("51")].concat()).ends_with(0);
    add_header(&scratch.join("own"));
    connect("own", &challenge("51")).ends_with(0);
    connect("own", &["--network", "signet"]).ends_with(0);
    for other in ["52", DEFAULT] {
        connect("own", &challenge(other)).ends_with(2).says(&["signet:51"]);
        connect("own", &[&["--network", "signet"][..], &challenge(other)].concat()).ends_with(2);
    }
    connect("named", &[&["--network", "signet"][..], &challenge(DEFAULT)].concat()).ends_with(0);
    connect("named", &["--network", "signet"]).ends_with(0);
    // No other network has one.
    for network in ["regtest", "bitcoin"] {
        let wrong = connect("none", &[&["--network", network][..], &challenge("52")].concat());
        wrong.ends_with(2).says(&["--signet-challenge", network]);
        assert!(!scratch.join("none").exists());
    }
}
