//! What may not be looked at is not called missing.

use crate::common::core_folder::made;
use crate::common::{Run, Scratch, blockmill, connect, run};
use rustix::process::geteuid;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// A user with no rights of its own.
const NOBODY: u32 = 65_534;

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// A command of a user who has not all rights. Whoever runs the tests may have them.
fn with(arguments: &[&str], paths: &[(&str, &Path)]) -> Command {
    let mut command = blockmill();
    if geteuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    command.args(arguments);
    for (option, path) in paths {
        command.arg(option).arg(path);
    }
    command
}

/// Status 3, the path, and what is wrong with it; nothing that says that it is missing.
#[track_caller]
fn check(command: &mut Command, path: &Path) {
    let run: Run = run(command.stdin(Stdio::null())).ends_with(3);
    assert!(run.stderr.contains("Permission denied"), "{command:?}: {run:#?}");
    assert!(run.stderr.contains(path.to_str().unwrap()), "{command:?}: {run:#?}");
    for word in ["no data directory", "there is no", "no blk*.dat", "NotFound", "redb"] {
        assert!(!run.stderr.contains(word), "{command:?}: {run:#?}");
    }
}

/// Opens the scratch to all users. False, with a word, where one with no rights cannot run the
/// command.
fn is_for_all(scratch: &Scratch) -> bool {
    set_mode(scratch.join("x").parent().unwrap(), 0o755);
    let output = with(&["--version"], &[]).output();
    let runs = output.is_ok_and(|output| output.status.success());
    if !runs {
        eprintln!("skipped: a user with no rights cannot run the command");
    }
    runs
}

/// Each command that takes a data directory, with one that the user may not enter.
fn check_data(data: &Path, open: &Path) {
    let set = [("--data", data)];
    let outpoint = format!("{}:0", "ab".repeat(32));
    check(&mut with(&["stats"], &set), data);
    check(&mut with(&["coin", &outpoint], &set), data);
    check(&mut with(&["balance", "raw:51"], &set), data);
    check(
        &mut with(&["export", "coins", "--format", "csv", "--out", "-"], &set),
        data,
    );
    check(
        &mut with(&["export", "blocks", "--format", "jsonl", "--out", "-"], &set),
        data,
    );
    check(&mut with(&["snapshot", "dump", "-"], &set), data);
    check(&mut with(&["doctor"], &set), data);
    check(&mut with(&["audit"], &set), data);
    check(&mut with(&["submit"], &set), data);
    check(&mut with(&["submit", "--network", "regtest"], &set), data);
    let into = [("--data", data), ("--blocks", open)];
    check(&mut with(&["connect"], &into), data);
    check(&mut with(&["connect", "--network", "regtest"], &into), data);
}

/// Each command that takes block files, with files that may not be read. What it would make lies in
/// the folder `open`, as does the snapshot.
fn check_blocks(blocks: &Path, open: &Path, snapshot: &Path) {
    let files = [("--blocks", blocks)];
    let data = [("--data", &*open.join("new")), ("--blocks", blocks)];
    check(&mut with(&["connect", "--network", "regtest"], &data), blocks);
    check(&mut with(&["verify", "--network", "regtest"], &files), blocks);
    let export = [
        "export",
        "blocks",
        "--network",
        "regtest",
        "--format",
        "jsonl",
        "--out",
        "-",
    ];
    check(&mut with(&export, &files), blocks);
    let audit = [
        "audit",
        "--network",
        "regtest",
        "--snapshot",
        snapshot.to_str().unwrap(),
    ];
    check(&mut with(&audit, &files), blocks);
    assert!(!open.join("new").exists());
}

/// A folder that the user may not enter has all that the commands ask for, and a data directory
/// that may not be entered lies in an open one.
#[test]
fn a_folder_that_may_not_be_entered_is_not_called_missing() {
    let scratch = Scratch::new();
    if !is_for_all(&scratch) {
        return;
    }
    let (blocks, _) = made(&scratch);
    let data = scratch.join("data");
    let closed = scratch.folder("closed");
    for (from, to) in [(&blocks, "blocks"), (&data, "data")] {
        std::fs::rename(from, closed.join(to)).unwrap();
    }
    let snapshot = closed.join("snapshot");
    let mut dump = blockmill();
    dump.args(["snapshot", "dump", "--data"]).arg(closed.join("data"));
    run(dump.arg(&snapshot)).ends_with(0);
    let open = scratch.folder("open");
    let readable = open.join("snapshot");
    std::fs::copy(&snapshot, &readable).unwrap();
    set_mode(&readable, 0o644);
    std::fs::write(open.join("blk00000.dat"), []).unwrap();
    let inner = open.join("data");
    std::fs::create_dir(&inner).unwrap();
    for file in std::fs::read_dir(closed.join("data")).unwrap() {
        let file = file.unwrap();
        if file.file_type().unwrap().is_file() {
            std::fs::copy(file.path(), inner.join(file.file_name())).unwrap();
        }
    }
    // The user could write beside them, if only these were missing.
    set_mode(&open, 0o777);
    for folder in [&closed, &inner] {
        set_mode(folder, 0o000);
    }
    for data in [&closed.join("data"), &inner, &closed.join("nothing")] {
        check_data(data, &open);
    }
    for blocks in [&closed.join("blocks"), &closed, &closed.join("blocks/blk00000.dat")] {
        check_blocks(blocks, &open, &readable);
    }
    check(
        &mut with(
            &["export", "coins", "--format", "csv", "--out", "-"],
            &[("--snapshot", &snapshot)],
        ),
        &snapshot,
    );
    let load = [("--data", &*open.join("new")), ("--blocks", &open)];
    check(
        with(&["snapshot", "load", "--network", "regtest"], &load).arg(&snapshot),
        &snapshot,
    );
    // What is to be written.
    let generate = ["generate", "--profile", "utxo", "--blocks", "5"];
    for out in [&closed, &closed.join("new")] {
        check(&mut with(&generate, &[("--out", out)]), out);
        check(&mut with(&["demo"], &[("--keep", out)]), out);
    }
    let key = closed.join("key");
    check(with(&["audit", "key"], &[]).arg(&key), &key);
    for folder in [&closed, &inner] {
        set_mode(folder, 0o700);
    }
    // A set that may be read, and an output that may not be written.
    let data = closed.join("data");
    for path in [&closed, &data, &data.join("coins.log")] {
        set_mode(path, 0o755);
    }
    let shut = scratch.folder("shut");
    set_mode(&shut, 0o000);
    let out = shut.join("table.csv");
    for force in [&[][..], &["--force"]] {
        let export = [&["export", "coins"], force].concat();
        check(&mut with(&export, &[("--data", &data), ("--out", &out)]), &out);
        let dump = [&["snapshot", "dump"], force].concat();
        check(with(&dump, &[("--data", &data)]).arg(&out), &out);
    }
    set_mode(&shut, 0o700);
}

/// After `connect` the block files, or their key, may not be read any more: that is said, and not
/// that they are gone.
#[test]
fn block_files_that_may_not_be_read_any_more_are_named() {
    let scratch = Scratch::new();
    if !is_for_all(&scratch) {
        return;
    }
    let (blocks, _) = made(&scratch);
    let data = scratch.join("of_files");
    run(&mut connect(&blocks, &data, "regtest")).ends_with(0);
    // Retained blocks could be read.
    std::fs::remove_dir_all(data.join("kept")).unwrap();
    let key = blocks.join("xor.dat");
    let bytes = std::fs::read(&key).unwrap();
    let check_all = |words: &[&str]| {
        let commands: [&[&str]; 3] = [
            &["stats", "--hash", "none", "--at", "100"],
            &["export", "blocks", "--format", "jsonl", "--out", "-"],
            &["audit"],
        ];
        for arguments in commands {
            let run = run(&mut with(arguments, &[("--data", &data)])).ends_with(3).says(words);
            assert!(!run.stderr.contains("no block file that is still there"), "{run:#?}");
            assert!(!run.stderr.contains("in none of the block files"), "{run:#?}");
        }
    };
    set_mode(&blocks, 0);
    check_all(&["Permission denied", blocks.to_str().unwrap()]);
    set_mode(&blocks, 0o755);
    set_mode(&key, 0);
    check_all(&["Permission denied", key.to_str().unwrap()]);
    set_mode(&key, 0o644);
    std::fs::write(&key, &bytes[..7]).unwrap();
    check_all(&["does not have 8 bytes", key.to_str().unwrap()]);
    std::fs::remove_file(&key).unwrap();
    check_all(&["the key in xor.dat", blocks.to_str().unwrap()]);
    std::fs::write(&key, bytes).unwrap();
    run(&mut with(&["stats", "--at", "100"], &[("--data", &data)])).ends_with(0);
}

/// No reader needs the lock: it need not be readable.
#[test]
fn a_lock_that_may_not_be_read_has_one_answer() {
    let scratch = Scratch::new();
    if !is_for_all(&scratch) {
        return;
    }
    made(&scratch);
    let data = scratch.join("data");
    set_mode(&data.join("lock"), 0);
    for command in ["stats", "status", "doctor"] {
        let mut command = with(&[command], &[("--data", &data)]);
        let answer = run(&mut command).ends_with(0);
        assert!(!answer.stdout.contains("writer   none"), "{answer:#?}");
    }
}
