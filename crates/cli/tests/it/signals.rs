//! A signal in the midst of what takes long: it ends soon, says so, and leaves nothing half done.
//! `connect` ends with status 0, since what it did is kept, all others with 128 and the signal.

use crate::common::children::wait_until;
use crate::common::{self, Run, Scratch, blockmill, generate_command, load_command, make_fifo, names_in, run};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// It takes far less, on a machine that does nothing else.
const SECONDS_TO_STOP_MAX: f64 = 10.0;

/// A block file of zeros, as Core allocates them, that takes minutes to look through and no room on
/// the disk.
fn huge_file(scratch: &Scratch) -> PathBuf {
    let path = scratch.join("blk00000.dat");
    File::create(&path).unwrap().set_len(1 << 40).unwrap();
    path
}

/// How long a command that takes minutes is left to itself, so that it is in the midst of it.
const AT_WORK: Duration = Duration::from_millis(1000);

/// Starts a command, sends it a signal so long after it is `begun`, and returns what it left. It
/// says that it was stopped.
#[track_caller]
fn stopped(command: &mut Command, signal: Signal, begun: &dyn Fn() -> bool, after: Duration) -> Run {
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("its begin", begun);
    sleep(after);
    let start = Instant::now();
    kill_process(Pid::from_child(&child), signal).unwrap();
    let run = Run::new(child.wait_with_output().unwrap(), start);
    assert!(run.seconds < SECONDS_TO_STOP_MAX, "{run:#?}");
    run.says(&["stopped"])
}

#[test]
fn connect_stops_inside_a_file() {
    let scratch = Scratch::new();
    let (blocks, data) = (huge_file(&scratch), scratch.join("data"));
    for (format, signal) in [("text", Signal::INT), ("json", Signal::TERM), ("text", Signal::HUP)] {
        let mut command = common::connect(&blocks, &data, "regtest");
        let run = stopped(command.args(["--log", format]), signal, &|| data.exists(), AT_WORK).ends_with(0);
        assert_eq!(run.json()["height"], 0);
        if format == "json" {
            run.says(&["\"event\":\"stopped\"", "\"height\":0"]);
        }
    }
}

#[test]
fn verify_says_that_it_was_cut_off() {
    let scratch = Scratch::new();
    let blocks = huge_file(&scratch);
    let mut command = blockmill();
    command.args(["verify", "--network", "regtest", "--log", "json", "--blocks"]);
    let run = stopped(command.arg(&blocks), Signal::HUP, &|| true, AT_WORK);
    assert!(run.stdout.contains("remaining     all"), "{run:#?}");
    run.ends_with(129)
        .says(&["\"event\":\"stopped\"", "\"remaining\":null"]);
}

#[test]
fn a_snapshot_is_loaded_whole_or_not_at_all() {
    let scratch = Scratch::new();
    let (empty, data) = (scratch.write("blk00001.dat", b""), scratch.folder("data"));
    run(&mut common::connect(&empty, &data, "regtest")).ends_with(0);
    let file = scratch.join("snapshot");
    run(blockmill().args(["snapshot", "dump", "--data"]).arg(&data).arg(&file)).ends_with(0);
    let loaded = scratch.join("loaded");
    let mut command = load_command(&huge_file(&scratch), &loaded, "regtest");
    command.args(["--log", "json"]).arg(&file);
    let run = stopped(&mut command, Signal::INT, &|| loaded.exists(), AT_WORK)
        .ends_with(130)
        .says(&["\"event\":\"stopped\"", "nothing of it is kept"]);
    assert_eq!(run.stdout, "");
    assert!(!loaded.exists());
}

#[test]
fn generate_leaves_nothing() {
    let scratch = Scratch::new();
    let out = scratch.join("chain");
    let mut command = generate_command(&out, "mixed", 50_000);
    command.args(["--log", "json"]);
    let run = stopped(&mut command, Signal::INT, &|| out.exists(), AT_WORK)
        .ends_with(130)
        .says(&[out.to_str().unwrap(), "nothing of it is kept"]);
    assert_eq!(run.stdout, "");
    assert!(!out.exists());
}

#[test]
fn demo_leaves_nothing() {
    let scratch = Scratch::new();
    let temporary = scratch.join("tmp");
    std::fs::create_dir(&temporary).unwrap();
    // Its chain is made in a second or two: it listens for signals before it begins.
    let begun = || {
        let inner = names_in(&temporary).into_iter().next();
        inner.is_some_and(|name| temporary.join(name).join("blocks").exists())
    };
    let mut demo = blockmill();
    let demo = demo.arg("demo").env("TMPDIR", &temporary);
    stopped(demo, Signal::TERM, &begun, Duration::ZERO).ends_with(143);
    assert_eq!(names_in(&temporary), [""; 0]);
}

/// Starts a command, waits until it is `begun`, and sends it SIGINT. Returns the command, what it
/// answers, and how long that takes.
fn answered(command: &mut Command, begun: &dyn Fn() -> bool) -> (Child, String, Duration) {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("its begin", begun);
    sleep(AT_WORK);
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let start = Instant::now();
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let answer = lines.find(|line| line.as_ref().unwrap().contains("SIGINT"));
    let time = start.elapsed();
    child.stderr = None;
    // It goes on without a reader of its messages.
    std::thread::spawn(move || lines.for_each(drop));
    (child, answer.unwrap().unwrap(), time)
}

/// The answer says what is done, what remains, and what a second signal costs. It comes at once,
/// on a machine that is not busy with other things.
#[test]
fn the_answer_to_a_signal_comes_at_once() {
    let scratch = Scratch::new();
    let (chain, data) = (scratch.join("chain"), scratch.join("data"));
    run(&mut generate_command(&chain, "utxo", 7)).ends_with(0);
    run(&mut common::connect(&chain, &data, "regtest")).ends_with(0);
    let blocks = huge_file(&scratch);
    let mut times = Vec::new();
    for _ in 0..3 {
        let mut command = common::connect(&blocks, &data, "regtest");
        let (mut child, answer, time) = answered(&mut command, &|| true);
        for said in [
            "SIGINT: stopping; reading headers, file 1 of 1",
            "% remain",
            "a second signal ends it at once, and loses the work since height 7",
        ] {
            assert!(answer.contains(said), "{answer}");
        }
        assert_eq!(child.wait().unwrap().code(), Some(0));
        times.push(time);
    }
    assert!(times.iter().min().unwrap() < &Duration::from_millis(100), "{times:?}");
    // In JSON.
    let mut command = common::connect(&blocks, &data, "regtest");
    let (mut child, answer, _) = answered(command.args(["--log", "json"]), &|| true);
    let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(
        (&answer["event"], &answer["signal"]),
        (&"stopping".into(), &"SIGINT".into())
    );
    assert_eq!(answer["flushed_height"], 7);
    assert!(answer["remaining_share"].as_f64().unwrap() > 0.5, "{answer}");
    assert_eq!(child.wait().unwrap().code(), Some(0));
    // Commands that keep nothing.
    let mut verify = blockmill();
    verify.args(["verify", "--network", "regtest", "--blocks"]).arg(&blocks);
    let (mut child, answer, _) = answered(&mut verify, &|| true);
    assert!(answer.ends_with("a second signal ends it at once"), "{answer}");
    assert_eq!(child.wait().unwrap().code(), Some(130));
    // Those that a signal ends at once.
    let mut coin = blockmill();
    coin.args(["coin", "--data"]).arg(&data).stdin(Stdio::piped());
    let (mut child, answer, _) = answered(&mut coin, &|| true);
    assert!(answer.contains("SIGINT: stopped; answering outpoints"), "{answer}");
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

/// A command that waits for its reader does not look at the first signal. The second ends it.
#[test]
fn a_second_signal_ends_it_at_once() {
    let scratch = Scratch::new();
    let (chain, data) = (scratch.join("chain"), scratch.join("data"));
    run(generate_command(&chain, "utxo", 130).args(["--coins", "20000"])).ends_with(0);
    run(&mut common::connect(&chain, &data, "regtest")).ends_with(0);
    for (second, status) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let mut command = blockmill();
        command.args(["snapshot", "dump", "-", "--data"]).arg(&data);
        let (mut child, answer, _) = answered(&mut command, &|| true);
        assert!(answer.contains("a second signal ends it at once"), "{answer}");
        assert_eq!(child.try_wait().unwrap(), None);
        let start = Instant::now();
        kill_process(Pid::from_child(&child), second).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(status));
        assert!(start.elapsed() < Duration::from_secs(2));
    }
}

/// What the parent has set to be ignored stays so: `nohup` does that.
#[test]
fn a_signal_that_is_ignored_stays_so() {
    let scratch = Scratch::new();
    let (blocks, data) = (huge_file(&scratch), scratch.join("data"));
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' HUP; exec \"$@\"", "sh"]);
    let inner = common::connect(&blocks, &data, "regtest");
    let command = command.arg(inner.get_program()).args(inner.get_args());
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("the data directory", || data.exists());
    let process = Pid::from_child(&child);
    sleep(AT_WORK);
    kill_process(process, Signal::HUP).unwrap();
    sleep(AT_WORK);
    let start = Instant::now();
    // It is still there.
    kill_process(process, Signal::INT).unwrap();
    let run = Run::new(child.wait_with_output().unwrap(), start);
    run.ends_with(0).says(&["stopped"]);
}

/// A FIFO of which nobody is the writer.
fn fifo(scratch: &Scratch, name: &str) -> PathBuf {
    let path = scratch.join(name);
    make_fifo(&path);
    path
}

/// A command that waits for a pipe ends at a signal, whether the pipe has a writer or not.
#[test]
fn what_waits_for_a_pipe_is_stopped() {
    let scratch = Scratch::new();
    let (empty, source) = (scratch.write("blk00001.dat", b""), scratch.folder("source"));
    run(&mut common::connect(&empty, &source, "regtest")).ends_with(0);
    let snapshot = scratch.join("snapshot");
    run(blockmill()
        .args(["snapshot", "dump", "--data"])
        .arg(&source)
        .arg(&snapshot))
    .ends_with(0);
    let key = scratch.join("key");
    run(blockmill().args(["audit", "key"]).arg(&key)).ends_with(0);
    let fifo = fifo(&scratch, "fifo");
    let (loaded, out) = (scratch.join("loaded"), scratch.join("out"));
    let hash = "00".repeat(32);
    let command = |input: &Path, number: u32| {
        let mut command = blockmill();
        match number {
            0 => {
                let mut load = load_command(&empty, &loaded, "regtest");
                load.args(["--hash", &hash]).arg(input);
                return load;
            }
            1 => {
                command.args(["snapshot", "load", "--network", "regtest", "--hash", &hash, "--data"]);
                command.arg(&loaded).arg("--headers").arg(input).arg(&snapshot);
            }
            2 => {
                command.args(["export", "coins", "--format", "csv", "--snapshot"]);
                command.arg(input).arg("--out").arg(&out);
            }
            _ => {
                command.args([
                    "audit",
                    "part",
                    "--network",
                    "regtest",
                    "--from",
                    "0",
                    "--to",
                    "0",
                    "--blocks",
                ]);
                command.arg(&empty).arg("--key").arg(&key).arg("--headers").arg(input);
                command.arg("--out").arg(&out);
            }
        }
        command
    };
    for number in 0..4 {
        for input in [&*fifo, Path::new("-")] {
            let (reader, writer) = std::io::pipe().unwrap();
            let mut command = command(input, number);
            let child = command.stdin(reader).stdout(Stdio::piped()).stderr(Stdio::piped());
            let child = child.spawn().unwrap();
            sleep(Duration::from_millis(300));
            let start = Instant::now();
            kill_process(Pid::from_child(&child), Signal::INT).unwrap();
            let run = Run::new(child.wait_with_output().unwrap(), start).ends_with(130);
            assert!(run.seconds < 1.0, "{run:#?}");
            drop(writer);
            assert!(!loaded.exists() && !out.exists(), "{run:#?}");
        }
    }
}

/// What must be a file is refused at once where it is a pipe.
#[test]
fn a_pipe_instead_of_a_file_is_refused() {
    let scratch = Scratch::new();
    let blocks = scratch.write("blk00001.dat", b"");
    let data = scratch.folder("data");
    run(&mut common::connect(&blocks, &data, "regtest")).ends_with(0);
    let (key, fifo) = (scratch.join("key"), fifo(&scratch, "fifo"));
    run(blockmill().args(["audit", "key"]).arg(&key)).ends_with(0);
    let refused = |arguments: &[&str], paths: &[(&str, &Path)]| {
        let mut command = blockmill();
        command.args(arguments);
        for (option, path) in paths {
            command.arg(option).arg(path);
        }
        run(&mut command).ends_with(3).says(&["no regular file"]);
    };
    refused(
        &["audit", "part", "--network", "regtest", "--from", "0", "--to", "0"],
        &[("--key", &fifo), ("--blocks", &blocks), ("--out", &scratch.join("out"))],
    );
    let merge = ["audit", "merge", fifo.to_str().unwrap()];
    refused(&merge, &[("--key", &key), ("--data", &data)]);
    refused(
        &["audit", "--network", "regtest"],
        &[("--snapshot", &fifo), ("--blocks", &blocks)],
    );
}

/// No command waits for a pipe in a data directory, whoever has put it there.
#[test]
fn a_pipe_in_a_data_directory_is_refused() {
    let scratch = Scratch::new();
    let (blocks, data) = (scratch.join("chain"), scratch.join("data"));
    run(generate_command(&blocks, "utxo", 30).args(["--inputs", "60"])).ends_with(0);
    run(&mut common::connect(&blocks, &data, "regtest")).ends_with(0);
    let commands: [&[&str]; 5] = [
        &["stats"],
        &["status"],
        &["doctor"],
        &["stats", "--at", "20"],
        &["connect", "--blocks", blocks.to_str().unwrap()],
    ];
    for name in [
        "meta.json",
        "lock",
        "commit.dat",
        "headers.dat",
        "undo.dat",
        "places.dat",
    ] {
        let (file, kept) = (data.join(name), scratch.join("kept"));
        std::fs::rename(&file, &kept).unwrap();
        make_fifo(&file);
        for arguments in commands {
            let mut command = Command::new("timeout");
            command.args(["--signal=KILL", "20"]).arg(blockmill().get_program());
            command.args(arguments).arg("--data").arg(&data);
            let run = run(&mut command);
            // Not every command needs every file, and positions are only hints.
            assert!([0, 3, 4].contains(&run.status), "{name} {arguments:?} {run:#?}");
            if arguments[0] == "connect" && !["undo.dat", "places.dat"].contains(&name) {
                assert_ne!(run.status, 0, "{name}");
                run.says(&[name]);
            }
        }
        std::fs::remove_file(&file).unwrap();
        std::fs::rename(&kept, &file).unwrap();
    }
}

/// White space without end is no file of headers.
#[test]
fn white_space_without_end_is_refused() {
    let scratch = Scratch::new();
    let snapshot = scratch.write("snapshot", b"utxo");
    let mut spaces = Command::new("yes").arg("").stdout(Stdio::piped()).spawn().unwrap();
    let mut command = blockmill();
    command.args(["snapshot", "load", "--network", "regtest", "--headers", "-", "--data"]);
    command
        .arg(scratch.join("loaded"))
        .arg(snapshot)
        .stdin(spaces.stdout.take().unwrap());
    run(&mut command).ends_with(3).says(&["headers"]);
    // It holds an end of the pipe, too.
    drop(command);
    spaces.wait().unwrap();
    assert!(!scratch.join("loaded").exists());
}
