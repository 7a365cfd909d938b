//! A generated chain: the answer does not depend on settings, and not on when the command is
//! stopped or killed.

use crate::common::children::wait_until;
use crate::common::{Rng, Run, Scratch, connect, generate_command, hash_of, manifest, records, run, stats, store};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const BLOCKS: u32 = 300;
const INPUTS: u64 = 60_000;

/// The chain as `generate` wrote it.
struct Chain {
    file: Vec<u8>,
    manifest: Value,
}

impl Chain {
    /// Writes the chain's file to a directory.
    fn write(&self, scratch: &Scratch) -> PathBuf {
        scratch.write("chain.dat", &self.file)
    }

    /// Hash of the block at a height.
    fn hash(&self, height: u64) -> String {
        let record = records(&self.file)[usize::try_from(height).unwrap()].clone();
        hash_of(&self.file[record]).to_string()
    }

    /// Fails unless the data directory has the whole chain and the coins that the generator says.
    #[track_caller]
    fn check_end(&self, data: &Path) {
        let figures = stats(data);
        assert_eq!(figures["height"], self.manifest["height"]);
        assert_eq!(figures["bestblock"], self.manifest["tip"]);
        assert_eq!(figures["txouts"], self.manifest["coins"]);
        assert_eq!(figures["hash_serialized_3"], self.manifest["hash_serialized_3"]);
    }
}

/// A chain with at least `inputs` inputs.
fn generate(profile: &str, blocks: u32, inputs: u64) -> Chain {
    let scratch = Scratch::new();
    let out = scratch.join("chain");
    let mut command = generate_command(&out, profile, blocks);
    run(command.args(["--seed", "7", "--inputs", &inputs.to_string()])).ends_with(0);
    let manifest = manifest(&out);
    assert!(manifest["inputs"].as_u64().unwrap() >= inputs, "{manifest}");
    assert_eq!(manifest["height"], blocks);
    let mut file = Vec::new();
    for name in manifest["files"].as_array().unwrap() {
        file.extend(std::fs::read(out.join(name.as_str().unwrap())).unwrap());
    }
    Chain { file, manifest }
}

fn chain() -> &'static Chain {
    static CHAIN: OnceLock<Chain> = OnceLock::new();
    CHAIN.get_or_init(|| generate("mixed", BLOCKS, INPUTS))
}

#[test]
fn settings_change_nothing() {
    let chain = chain();
    let scratch = Scratch::new();
    let file = chain.write(&scratch);
    for threads in ["1", "8"] {
        for (cache, signatures) in [("1", "lanes"), ("1000", "one-by-one"), ("1000", "lanes")] {
            let data = scratch.join(&format!("data-{threads}-{cache}-{signatures}"));
            let mut command = connect(&file, &data, "regtest");
            command.args(["--par", threads, "--dbcache", cache, "--signatures", signatures]);
            let connected = run(&mut command).ends_with(0).json();
            assert_eq!(connected["tip"], chain.manifest["tip"]);
            assert_eq!(connected["inputs"], chain.manifest["inputs"]);
            // A cache of 1 MiB is too small for all coins: they were written to the store and read
            // again.
            assert!(
                cache != "1" || connected["flushes"].as_u64().unwrap() > 1,
                "{connected}"
            );
            chain.check_end(&data);
            std::fs::remove_dir_all(&data).unwrap();
        }
    }
}

/// Starts the command with its output in files.
fn start(command: &mut Command, scratch: &Scratch) -> Child {
    let file = |name| Stdio::from(File::create(scratch.join(name)).unwrap());
    command
        .stdin(Stdio::null())
        .stdout(file("stdout"))
        .stderr(file("stderr"));
    command.spawn().expect("the command starts")
}

/// What a command that was started left.
fn end(child: Child, scratch: &Scratch, start: Instant) -> Run {
    let mut output = child.wait_with_output().unwrap();
    output.stdout = std::fs::read(scratch.join("stdout")).unwrap();
    output.stderr = std::fs::read(scratch.join("stderr")).unwrap();
    Run::new(output, start)
}

/// The height from which a run says that it went on; 0 if it says nothing.
fn height_at_start(stderr: &str) -> u64 {
    let text = stderr.split("going on from height ").nth(1);
    text.map_or(0, |text| text.split_whitespace().next().unwrap().parse().unwrap())
}

/// Height of what was flushed, looked up in a copy, so that the next start finds the directory as
/// the kill left it.
fn flushed_height(data: &Path, scratch: &Scratch) -> u64 {
    if !data.exists() {
        return 0;
    }
    let copy = scratch.join("copy");
    store::copy(data, &copy);
    // A kill may come before the directory is marked as one.
    let height = if copy.join("meta.json").exists() {
        stats(&copy)["height"].as_u64().unwrap()
    } else {
        0
    };
    std::fs::remove_dir_all(&copy).unwrap();
    height
}

/// Kills, if `BLOCKMILL_TEST_KILLS` does not say otherwise.
const KILLS: usize = 20;

/// Seconds since the coin store was last written: the work that is lost.
fn lost_seconds(data: &Path) -> f64 {
    let files = std::fs::read_dir(data).map_or_else(|_| Vec::new(), |_| store::files(data));
    let written = files
        .iter()
        .filter(|file| file.starts_with(data.join(store::PART)))
        .filter_map(|file| file.metadata().ok()?.modified().ok());
    let lost = written.max().and_then(|written| written.elapsed().ok());
    lost.map_or(0.0, |lost| lost.as_secs_f64())
}

/// The largest of some seconds, and their mean.
fn largest_and_mean(seconds: &[f64]) -> String {
    let sum: f64 = seconds.iter().sum();
    let most = seconds.iter().copied().fold(0.0, f64::max);
    format!(
        "{most:.3} s at the most, {:.3} on average",
        sum / seconds.len().max(1) as f64
    )
}

#[test]
fn killed_at_any_moment_it_goes_on() {
    let seed = match std::env::var("BLOCKMILL_TEST_SEED") {
        Ok(text) => text.parse().expect("a number"),
        Err(_) => SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64,
    };
    eprintln!("BLOCKMILL_TEST_SEED={seed}");
    let mut dice = Rng::new(seed);
    let chain = chain();
    let scratch = Scratch::new();
    let file = chain.write(&scratch);
    let data = scratch.join("data");
    let command = || {
        let mut command = connect(&file, &data, "regtest");
        command.args(["--flush-seconds", "0.1"]);
        command
    };
    // Nothing is spent before height 101, so this is a quarter of the work: a chain is killed
    // several times on its way.
    let quarter = run(command().args(["--stop-at-height", "150"])).ends_with(0);
    std::fs::remove_dir_all(&data).unwrap();
    let kills_wanted = std::env::var("BLOCKMILL_TEST_KILLS").map_or_else(
        |_| {
            eprintln!("short: {KILLS} kills; BLOCKMILL_TEST_KILLS sets the number");
            KILLS
        },
        |text| text.parse().expect("a number"),
    );
    let (mut kills, mut resumed, mut flushed) = (0, 0, 0);
    let (mut lost, mut resuming) = (Vec::new(), Vec::new());
    // A kill comes within these seconds. Other tests may make the machine slower than it was for
    // the quarter: a run that kept nothing gives the next one more time.
    let mut within = quarter.seconds;
    while kills < kills_wanted {
        let started = Instant::now();
        let mut child = start(&mut command(), &scratch);
        sleep(Duration::from_secs_f64(dice.share() * within));
        let finished = child.try_wait().unwrap().is_some();
        child.kill().unwrap();
        if finished {
            let finished = end(child, &scratch, started).ends_with(0);
            assert_eq!(height_at_start(&finished.stderr), flushed);
            chain.check_end(&data);
            std::fs::remove_dir_all(&data).unwrap();
            flushed = 0;
            within = quarter.seconds;
            continue;
        }
        child.wait().unwrap();
        lost.push(lost_seconds(&data));
        kills += 1;
        let said = height_at_start(&std::fs::read_to_string(scratch.join("stderr")).unwrap());
        assert!(
            said == flushed || said == 0,
            "it went on from {said}, and {flushed} was flushed"
        );
        let height = flushed_height(&data, &scratch);
        assert!(
            height >= flushed,
            "after kill {kills} the height fell from {flushed} to {height}"
        );
        if height == flushed {
            within *= 1.5;
        }
        flushed = height;
        resumed += usize::from(height > 0);
        // What a start takes until it goes on: opening, and finding all headers.
        if height > 0 {
            let at_once = run(command().args(["--stop-at-height", &height.to_string()])).ends_with(0);
            assert_eq!(at_once.json()["blocks"], 0);
            resuming.push(at_once.seconds);
        }
    }
    let last = run(&mut command()).ends_with(0);
    assert_eq!(height_at_start(&last.stderr), flushed);
    assert_eq!(last.json()["start_height"], flushed);
    chain.check_end(&data);
    eprintln!("{resumed} of {kills} restarts went on above height 0");
    eprintln!("work lost: {}", largest_and_mean(&lost));
    eprintln!("a start until it goes on: {}", largest_and_mean(&resuming));
    // Usually most of them; how many depends on what else the machine does.
    assert!(resumed > 0, "no restart of {kills} went on above height 0");
}

/// It takes far less, on a machine that does nothing else.
const SECONDS_TO_STOP_MAX: f64 = 20.0;

/// Sends a signal to a run in its midst; returns the height at which it ended.
fn check_stopped(signal: Signal, data: &Path, scratch: &Scratch, height_before: u64) -> u64 {
    let chain = chain();
    // One thread and rare flushes: there is time for the signal, and what is kept was flushed
    // because of it.
    let mut command = connect(&scratch.join("chain.dat"), data, "regtest");
    let child = start(command.args(["--par", "1", "--flush-seconds", "60"]), scratch);
    // The coin store is opened after the signals are listened for, the line about the height comes
    // after that.
    let begun = || match height_before {
        0 => store::file(data).exists(),
        _ => std::fs::read_to_string(scratch.join("stderr")).is_ok_and(|text| text.contains("going on")),
    };
    wait_until("its begin", begun);
    sleep(Duration::from_millis(600));
    let signalled = Instant::now();
    kill_process(Pid::from_child(&child), signal).unwrap();
    let stopped = end(child, scratch, signalled).ends_with(0);
    assert!(
        stopped.seconds < SECONDS_TO_STOP_MAX,
        "{signal:?}: {} seconds",
        stopped.seconds
    );
    assert_eq!(height_at_start(&stopped.stderr), height_before);
    let json = stopped.json();
    let height = json["height"].as_u64().unwrap();
    assert!(height > height_before && height < BLOCKS.into(), "{signal:?}: {json}");
    assert_eq!(json["tip"], chain.hash(height));
    let figures = stats(data);
    assert_eq!(figures["height"], height);
    assert_eq!(figures["bestblock"], chain.hash(height));
    height
}

#[test]
fn signals_flush_and_end_it() {
    let chain = chain();
    let scratch = Scratch::new();
    let file = chain.write(&scratch);
    let data = scratch.join("data");
    let interrupted = check_stopped(Signal::INT, &data, &scratch, 0);
    let terminated = check_stopped(Signal::TERM, &data, &scratch, interrupted);
    let last = run(&mut connect(&file, &data, "regtest")).ends_with(0);
    assert_eq!(height_at_start(&last.stderr), terminated);
    assert_eq!(last.json()["blocks"], u64::from(BLOCKS) - terminated);
    chain.check_end(&data);
}

#[test]
fn it_stops_at_a_height_and_goes_on() {
    let chain = generate("utxo", 120, 2_000);
    let scratch = Scratch::new();
    let file = chain.write(&scratch);
    let data = scratch.join("data");
    let mut height_before = 0;
    for height in [0, 1, 101, 110, 110, 119] {
        let mut command = connect(&file, &data, "regtest");
        let json = run(command.args(["--stop-at-height", &height.to_string()]))
            .ends_with(0)
            .json();
        assert_eq!(json["height"], height);
        assert_eq!(json["start_height"], height_before);
        assert_eq!(json["blocks"], height - height_before);
        let figures = stats(&data);
        assert_eq!(figures["height"], height);
        assert_eq!(figures["bestblock"], chain.hash(height));
        height_before = height;
    }
    // A height that is passed already takes nothing back.
    let mut command = connect(&file, &data, "regtest");
    let passed = run(command.args(["--stop-at-height", "110"])).ends_with(0);
    assert_eq!(passed.json()["height"], 119);
    passed.says(&["--stop-at-height 110 is below the tip"]);
    let json = run(&mut connect(&file, &data, "regtest")).ends_with(0).json();
    assert_eq!((&json["start_height"], &json["blocks"]), (&119.into(), &1.into()));
    chain.check_end(&data);
}
