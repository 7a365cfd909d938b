//! What commands write, and who reads it: files that are whole or not there, whoever writes at the
//! same time; and standard output that nobody reads any more.

use crate::common::children::wait_until;
use crate::common::core_folder::made;
use crate::common::{Scratch, block_of, blockmill, connect, names_in, records, run, stats};
use crate::common::{generate_command, submit_command};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

fn with(arguments: &[&str], paths: &[(&str, &Path)]) -> Command {
    let mut command = blockmill();
    // Nothing but warnings and errors.
    command.arg("-q").args(arguments);
    for (option, path) in paths {
        command.arg(option).arg(path);
    }
    command
}

/// A pipe that nobody reads.
fn closed_pipe() -> Stdio {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    writer.into()
}

/// A command whose reader is gone ends with 141, or with 0 where it takes no notice. It says
/// nothing about that.
#[track_caller]
fn check_closed(command: &mut Command, may_be_0: bool) {
    let output = command
        .stdout(closed_pipe())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
        .wait_with_output()
        .unwrap();
    let words = String::from_utf8_lossy(&output.stderr);
    assert_eq!(words, "", "{command:?}");
    let code = output.status.code();
    assert!(
        code == Some(141) || may_be_0 && code == Some(0),
        "{command:?}: {code:?}"
    );
}

/// A file system of two pages, for a test.
struct Small(PathBuf);

impl Small {
    /// None where this process may not mount it.
    fn mount(folder: PathBuf) -> Option<Self> {
        let mut mount = Command::new("mount");
        let options = ["-t", "tmpfs", "-o", "size=8k", "tmpfs"];
        let status = mount.args(options).arg(&folder).stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success()).then_some(Self(folder))
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_is_named_with_its_file() {
    let scratch = Scratch::new();
    made(&scratch);
    let data = scratch.join("data");
    // What has no name is named by what it is.
    for arguments in [
        &["export", "coins", "--format", "parquet", "--out", "-"][..],
        &["export", "coins", "--format", "csv", "--out", "-"],
        &["snapshot", "dump", "-"],
        &["stats"],
    ] {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let mut command = with(arguments, &[("--data", &data)]);
        let run = run(command.stdout(full)).ends_with(4);
        assert!(run.stderr.contains("blockmill: standard streams: No space"), "{run:#?}");
    }
    let Some(small) = Small::mount(scratch.folder("small")) else {
        eprintln!("skipped: a file system of its own needs root");
        return;
    };
    for (table, format) in [
        ("blocks", "parquet"),
        ("blocks", "jsonl"),
        ("coins", "parquet"),
        ("coins", "arrow"),
        ("coins", "sqlite"),
        ("coins", "csv"),
        ("outputs", "parquet"),
        ("statistics", "parquet"),
    ] {
        let out = small.0.join(format!("{table}.{format}"));
        let mut command = with(&["export", table], &[("--data", &data), ("--out", &out)]);
        run(&mut command).ends_with(4).says(&[out.to_str().unwrap()]);
        assert_eq!(names_in(&small.0), [""; 0]);
    }
    let snapshot = small.0.join("snapshot");
    let mut dump = with(&["snapshot", "dump"], &[("--data", &data)]);
    run(dump.arg(&snapshot))
        .ends_with(4)
        .says(&[snapshot.to_str().unwrap()]);
    let new = small.0.join("data");
    run(&mut connect(&scratch.join("chain"), &new, "regtest"))
        .ends_with(4)
        .says(&[new.to_str().unwrap(), "No space left"]);
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let scratch = Scratch::new();
    let (blocks, chain) = made(&scratch);
    let data = scratch.join("data");
    let set = [("--data", &*data)];
    let snapshot = scratch.join("snapshot");
    run(with(&["snapshot", "dump"], &set).arg(&snapshot)).ends_with(0);
    let files = [("--blocks", &*blocks)];
    let stdout = Path::new("-");
    let outpoint = format!("{}:0", "ab".repeat(32));
    check_closed(&mut with(&["balance", "raw:51"], &set), false);
    check_closed(&mut with(&["balance", "--json", "raw:51"], &set), false);
    check_closed(&mut with(&["coin", &outpoint], &set), false);
    check_closed(&mut with(&["stats"], &set), false);
    check_closed(&mut with(&["stats", "--json"], &set), false);
    check_closed(&mut with(&["doctor"], &set), false);
    check_closed(&mut with(&["doctor", "--json"], &set), false);
    check_closed(with(&["snapshot", "dump"], &set).arg("-"), false);
    check_closed(with(&["snapshot", "dump"], &set).arg(scratch.join("other")), false);
    for format in ["csv", "jsonl", "parquet"] {
        let to = [("--data", &*data), ("--out", stdout)];
        check_closed(&mut with(&["export", "coins", "--format", format], &to), false);
    }
    for format in ["jsonl", "parquet"] {
        let to = [("--out", stdout), ("--blocks", &*blocks)];
        check_closed(
            &mut with(&["export", "blocks", "--network", "regtest", "--format", format], &to),
            false,
        );
    }
    let table = scratch.join("table.csv");
    check_closed(
        &mut with(&["export", "coins"], &[("--data", &data), ("--out", &table)]),
        false,
    );
    for json in [&[][..], &["--json"]] {
        let verify = [&["verify", "--network", "regtest"], json].concat();
        check_closed(&mut with(&verify, &files), false);
        let audit = [
            &[
                "audit",
                "--network",
                "regtest",
                "--snapshot",
                snapshot.to_str().unwrap(),
            ],
            json,
        ]
        .concat();
        check_closed(&mut with(&audit, &files), false);
    }
    let (block, undo) = (scratch.join("block"), scratch.write("undo", &[0]));
    std::fs::write(&block, block_of(&chain[records(&chain)[1].clone()]).bytes()).unwrap();
    let one = [("--block", &*block), ("--undo", &undo)];
    for json in [&[][..], &["--json"]] {
        let verify = [&["verify", "--network", "regtest", "--height", "1"], json].concat();
        check_closed(&mut with(&verify, &one), false);
    }
    check_closed(with(&["audit", "key"], &[]).arg(scratch.join("key")), false);
    check_closed(generate_command(&scratch.join("generated"), "utxo", 5).arg("-q"), false);
    check_closed(&mut with(&["man"], &[]), false);
    check_closed(&mut with(&["completions", "bash"], &[]), false);
    for help in [
        &["--help"][..],
        &["help"],
        &["help", "connect"],
        &["connect", "--help"],
        &["--version"],
    ] {
        check_closed(&mut with(help, &[]), true);
    }
}

/// The work is kept: what nobody reads is the report alone.
#[test]
fn what_was_connected_is_kept_without_a_reader() {
    let scratch = Scratch::new();
    let out = scratch.join("chain");
    run(&mut generate_command(&out, "utxo", 5)).ends_with(0);
    for (name, options) in [("line", &[][..]), ("json", &["--json"]), ("table", &["-v"])] {
        let data = scratch.join(name);
        let paths = [("--blocks", &*out), ("--data", &data)];
        let connect = [&["connect", "--network", "regtest"], options].concat();
        check_closed(&mut with(&connect, &paths), false);
        assert_eq!(stats(&data)["height"], 5);
    }
    let file = std::fs::read(out.join("blk00000.dat")).unwrap();
    let blocks = records(&file).into_iter().skip(1).map(|record| {
        let hex: Vec<String> = block_of(&file[record])
            .bytes()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        hex.concat() + "\n"
    });
    let lines = scratch.write("lines", blocks.collect::<String>().as_bytes());
    let data = scratch.join("submitted");
    check_closed(submit_command(&data).stdin(File::open(&lines).unwrap()), false);
    // The answer to the first block was lost, and the others were not read.
    assert_eq!(stats(&data)["height"], 1);
}

/// A data directory with coins, and a snapshot of them.
fn coins(scratch: &Scratch) -> (PathBuf, PathBuf) {
    let (out, data, snapshot) = (scratch.join("chain"), scratch.join("data"), scratch.join("snapshot"));
    run(generate_command(&out, "utxo", 120).args(["--coins", "3000"])).ends_with(0);
    run(&mut connect(&out, &data, "regtest")).ends_with(0);
    run(with(&["snapshot", "dump"], &[("--data", &data)]).arg(&snapshot)).ends_with(0);
    (data, snapshot)
}

/// An export that waits for the rest of its snapshot; the rest is returned.
fn begun(snapshot: &Path, format: &str, out: &Path) -> (Child, Vec<u8>) {
    let mut bytes = std::fs::read(snapshot).unwrap();
    let rest = bytes.split_off(60);
    let mut command = with(
        &["export", "coins", "--format", format, "--snapshot", "-"],
        &[("--out", out)],
    );
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    child.stdin.as_mut().unwrap().write_all(&bytes).unwrap();
    let temporary = out.with_file_name(format!("{}.incomplete", out.file_name().unwrap().display()));
    wait_until("its file", || temporary.exists());
    (child, rest)
}

#[test]
fn two_exports_to_one_name_do_not_mix() {
    let scratch = Scratch::new();
    let (_, snapshot) = coins(&scratch);
    for format in ["csv", "jsonl", "parquet", "arrow", "sqlite"] {
        let folder = scratch.folder(format);
        let out = folder.join("table");
        let export = |options: &[&str]| {
            let arguments = [&["export", "coins", "--format", format], options].concat();
            let mut command = with(&arguments, &[("--snapshot", Path::new("-")), ("--out", &out)]);
            run(command.stdin(File::open(&snapshot).unwrap()))
        };
        let (mut first, rest) = begun(&snapshot, format, &out);
        for options in [&[][..], &["--force"]] {
            export(options).ends_with(2).says(&["another process is writing it"]);
        }
        assert_eq!(names_in(&folder), ["table.incomplete"]);
        first.stdin.take().unwrap().write_all(&rest).unwrap();
        assert!(first.wait().unwrap().success());
        let whole = std::fs::read(&out).unwrap();
        assert_eq!(names_in(&folder), ["table"]);
        std::fs::remove_file(&out).unwrap();
        export(&[]).ends_with(0);
        assert!(std::fs::read(&out).unwrap() == whole);
        std::fs::remove_file(&out).unwrap();
        // A killed one is in nobody's way.
        let (mut killed, _) = begun(&snapshot, format, &out);
        killed.kill().unwrap();
        killed.wait().unwrap();
        assert_eq!(names_in(&folder), ["table.incomplete"]);
        export(&[]).ends_with(0);
        assert!(std::fs::read(&out).unwrap() == whole);
        assert_eq!(names_in(&folder), ["table"]);
    }
}

#[test]
fn a_file_is_replaced_with_force_alone() {
    let scratch = Scratch::new();
    let (data, _) = coins(&scratch);
    let set = [("--data", &*data)];
    let out = scratch.join("file");
    let export = with(
        &["export", "coins", "--format", "csv", "--out", out.to_str().unwrap()],
        &set,
    );
    let dump = with(&["snapshot", "dump", out.to_str().unwrap()], &set);
    for mut command in [export, dump] {
        std::fs::write(&out, "old").unwrap();
        run(&mut command)
            .ends_with(2)
            .says(&["there is a file of this name already"]);
        assert_eq!(std::fs::read(&out).unwrap(), b"old");
        run(command.arg("--force")).ends_with(0);
        assert!(std::fs::read(&out).unwrap().len() > 1000);
        // A run that fails leaves the old file.
        let before = std::fs::read(&out).unwrap();
        run(command.args(["--at", "7000"])).ends_with(2);
        assert!(std::fs::read(&out).unwrap() == before);
    }
    // What is no file stays.
    let folder = scratch.folder("folder");
    for kept in [&*folder, Path::new("/dev/null")] {
        let to = [("--data", &*data), ("--out", kept)];
        run(&mut with(&["export", "coins", "--format", "csv", "--force"], &to)).ends_with(2);
    }
    assert!(folder.is_dir() && !Path::new("/dev/null").is_file());
}

#[test]
fn the_ending_of_a_name_says_the_format() {
    let scratch = Scratch::new();
    let (blocks, _) = made(&scratch);
    let data = scratch.join("data");
    let export = |kind: &str, name: &Path, format: Option<&str>| {
        let format = format.map_or(vec![], |format| vec!["--format", format]);
        let arguments = [&["export", kind, "--network", "regtest"][..], &format].concat();
        // Coins have no network of their own.
        let arguments: Vec<&str> = match kind {
            "coins" => arguments
                .into_iter()
                .filter(|word| !["--network", "regtest"].contains(word))
                .collect(),
            _ => arguments,
        };
        let source = if kind == "coins" {
            ("--data", &*data)
        } else {
            ("--blocks", &*blocks)
        };
        run(&mut with(&arguments, &[source, ("--out", name)]))
    };
    for (kind, ending, format) in [
        ("coins", "parquet", "parquet"),
        ("coins", "csv", "csv"),
        ("coins", "jsonl", "jsonl"),
        ("coins", "JSONL", "jsonl"),
        ("coins", "sqlite", "sqlite"),
        ("coins", "db", "sqlite"),
        ("blocks", "parquet", "parquet"),
        ("blocks", "jsonl", "jsonl"),
    ] {
        let [derived, given] = ["derived", "given"].map(|name| scratch.join(&format!("{kind}-{name}.{ending}")));
        export(kind, &derived, None).ends_with(0);
        export(kind, &given, Some(format)).ends_with(0);
        assert!(
            std::fs::read(&derived).unwrap() == std::fs::read(&given).unwrap(),
            "{kind} {ending}"
        );
    }
    // What is given goes first.
    let odd = scratch.join("odd.parquet");
    export("coins", &odd, Some("csv")).ends_with(0);
    assert!(std::fs::read(&odd).unwrap().starts_with(b"txid,vout,"));
    for (kind, known) in [
        ("coins", ".parquet, .arrows, .arrow, .csv, .jsonl, .sqlite, .db"),
        ("blocks", ".parquet, .jsonl"),
    ] {
        for name in ["table", "table.json", "table.csv.gz", "-", ".csv", "table."] {
            let path = if name == "-" {
                PathBuf::from(name)
            } else {
                scratch.join(name)
            };
            export(kind, &path, None).ends_with(2).says(&["--format", known]);
            assert!(!path.exists());
        }
    }
    export("blocks", &scratch.join("blocks.csv"), None)
        .ends_with(2)
        .says(&[".parquet, .jsonl"]);
}

#[test]
fn hashes_are_computed_as_asked_for() {
    let scratch = Scratch::new();
    let (data, _) = coins(&scratch);
    let both = stats(&data);
    assert!(both["hash_serialized_3"].is_string() && both["muhash"].is_string());
    for (word, has_serialized, has_muhash) in [
        ("none", false, false),
        ("serialized", true, false),
        ("muhash", false, true),
        ("both", true, true),
    ] {
        let mut expected = both.clone();
        let object = expected.as_object_mut().unwrap();
        if !has_serialized {
            object.remove("hash_serialized_3");
        }
        if !has_muhash {
            object.remove("muhash");
        }
        let set = [("--data", &*data)];
        let found = run(&mut with(&["stats", "--json", "--hash", word], &set))
            .ends_with(0)
            .json();
        assert_eq!(found, expected, "{word}");
        let table = run(&mut with(&["stats", "--hash", word], &set)).ends_with(0).stdout;
        let has = |row: &str| table.lines().any(|line| line.starts_with(row));
        assert_eq!(
            (has("hash_serialized_3"), has("muhash")),
            (has_serialized, has_muhash),
            "{table}"
        );
        assert!(has("txouts") && has("disk_size"), "{table}");
    }
    run(&mut with(&["stats", "--hash", "sha256"], &[("--data", &data)])).ends_with(2);
}

/// Two audits with one directory for their parts: one works, the other is refused or comes later.
#[test]
fn two_audits_do_not_share_a_directory() {
    let scratch = Scratch::new();
    let (blocks, _) = made(&scratch);
    let (data, snapshot, parts) = (scratch.join("data"), scratch.join("snapshot"), scratch.folder("parts"));
    run(with(&["snapshot", "dump"], &[("--data", &data)]).arg(&snapshot)).ends_with(0);
    let audit = || {
        let paths = [("--blocks", &*blocks), ("--snapshot", &snapshot), ("--resume", &parts)];
        with(&["audit", "--json", "--network", "regtest"], &paths)
    };
    let lock = File::open(&parts).unwrap();
    lock.lock().unwrap();
    run(&mut audit()).ends_with(2).says(&["another process is writing it"]);
    drop(lock);
    // A key that was cut off by a kill is not there.
    std::fs::write(parts.join("key.incomplete"), "blockmill aud").unwrap();
    run(&mut audit()).ends_with(0);
    let left = names_in(&parts);
    assert!(
        left.contains(&"key".to_owned()) && !left.iter().any(|name| name.ends_with(".incomplete")),
        "{left:?}"
    );
}

/// `generate` leaves a file of the user alone, whatever it is called.
#[test]
fn generate_replaces_nothing() {
    for (name, status) in [
        ("incomplete/blk00000.dat", 0),
        ("incomplete-1/movie.part", 0),
        ("manifest.json", 2),
        ("blk00001.dat", 2),
    ] {
        let scratch = Scratch::new();
        let path = scratch.join("chain").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, "mine").unwrap();
        let out = scratch.join("chain");
        let run = run(&mut generate_command(&out, "utxo", 2)).ends_with(status);
        assert_eq!(std::fs::read(&path).unwrap(), b"mine");
        assert_eq!(out.join("blk00000.dat").exists(), status == 0, "{run:?}");
        assert_eq!(names_in(&out).len(), if status == 0 { 3 } else { 1 });
    }
}

/// Waits until nothing more goes into a pipe, which has room for 64 KiB.
fn wait_until_full(pipe: &ChildStdout) {
    let (waiting, mut before) = (Instant::now(), 0);
    loop {
        assert!(waiting.elapsed() < Duration::from_secs(60), "{before} bytes");
        sleep(Duration::from_millis(500));
        let bytes = rustix::io::ioctl_fionread(pipe).unwrap();
        if bytes > 50_000 && bytes == before {
            return;
        }
        before = bytes;
    }
}

/// One signal is enough where a reader does not read and does not go either.
#[test]
fn a_signal_ends_a_write_that_waits_for_its_reader() {
    let scratch = Scratch::new();
    let (out, data) = (scratch.join("chain"), scratch.join("data"));
    let mut generate = generate_command(&out, "utxo", 120);
    run(generate.args(["--inputs", "20000", "--coins", "20000"])).ends_with(0);
    run(&mut connect(&out, &data, "regtest")).ends_with(0);
    let to = [("--data", &*data), ("--out", Path::new("-"))];
    for command in [
        &mut with(&["export", "coins", "--format", "csv"], &to),
        with(&["snapshot", "dump"], &to[..1]).arg("-"),
        with(&["feed", "--follow"], &to[..1]).args(["--from", "0"]),
    ] {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let stdout = child.stdout.take().unwrap();
        wait_until_full(&stdout);
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        let start = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            assert!(start.elapsed() < Duration::from_secs(60), "{command:?} does not end");
            sleep(Duration::from_millis(10));
        };
        assert_eq!(status.code(), Some(130), "{command:?}");
    }
}

/// What `submit` has done is kept, however long its answers wait for their reader.
#[test]
fn a_signal_does_not_end_a_submit_whose_answers_wait() {
    let scratch = Scratch::new();
    let (out, data) = (scratch.join("chain"), scratch.join("data"));
    run(&mut generate_command(&out, "utxo", 400)).ends_with(0);
    let chain = std::fs::read(out.join("blk00000.dat")).unwrap();
    let mut lines = String::new();
    for record in records(&chain).into_iter().skip(1) {
        lines += &blockmill_block::hex::encode(block_of(&chain[record]).bytes());
        lines.push('\n');
    }
    let input = File::open(scratch.write("lines", lines.as_bytes())).unwrap();
    let mut command = submit_command(&data);
    let mut child = command
        .stdin(input)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut stdout = child.stdout.take().unwrap();
    wait_until_full(&stdout);
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    sleep(Duration::from_secs(3));
    assert!(child.try_wait().unwrap().is_none());
    let mut answers = String::new();
    std::io::Read::read_to_string(&mut stdout, &mut answers).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(stats(&data)["height"].as_u64().unwrap(), answers.lines().count() as u64);
}
