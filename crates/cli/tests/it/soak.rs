//! Everything at once for a while: `connect` with a small cache, stopped and gone on with, whose
//! metrics are asked for all the time; `submit` with reorganisations, junk and duplicates; `stats`.
//! No error, no wrong answer, and nothing grows that should not.
//!
//! Ten seconds; `BLOCKMILL_TEST_SOAK=1800` makes it half an hour.

use crate::common::branches::{branch, genesis};
use crate::common::growth::{Sample, check_growth, sample};
use crate::common::{Rng, Scratch, connect, generate_command, manifest, run, stats, submit_command};
use blockmill_chaingen::bitcoin::{Block, consensus::serialize, hex::DisplayHex};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Time between lines of `submit`, so that half an hour is not millions of blocks.
const PACE: Duration = Duration::from_millis(4);

fn seconds() -> u64 {
    let Ok(text) = std::env::var("BLOCKMILL_TEST_SOAK") else {
        eprintln!("short: 10 s; BLOCKMILL_TEST_SOAK sets the seconds");
        return 10;
    };
    text.parse().expect("a number of seconds")
}

/// Asks for the metrics until nobody answers any more; returns how often they came. The height
/// never falls.
fn ask_for_metrics(address: &str) -> u64 {
    let mut answers = 0;
    let mut height = 0.0;
    loop {
        // One that says nothing, and goes away when the next has its answer.
        let silent = TcpStream::connect(address);
        let Ok(mut stream) = TcpStream::connect(address) else {
            return answers;
        };
        let mut text = String::new();
        let asked = stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n");
        drop(silent);
        if asked.is_err() || stream.read_to_string(&mut text).is_err() || text.is_empty() {
            // It has ended meanwhile.
            continue;
        }
        assert!(text.starts_with("HTTP/1.0 200"), "{text}");
        let line = text.lines().find_map(|line| line.strip_prefix("blockmill_height "));
        if let Some(now) = line {
            let now: f64 = now.parse().expect("a number");
            assert!(now >= height, "from height {height} to {now}");
            height = now;
        }
        answers += 1;
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A chain as `generate` writes it: its directory, and its manifest.
fn generate(scratch: &Scratch, profile: &str, blocks: u32, inputs: u64) -> (PathBuf, Value) {
    let out = scratch.join(profile);
    let mut command = generate_command(&out, profile, blocks);
    command.args(["--seed", "3", "--inputs", &inputs.to_string(), "--coins", "60000"]);
    run(&mut command).ends_with(0);
    let manifest = manifest(&out);
    (out, manifest)
}

/// Connects a part of a chain, or all of it; the most that the process took, and how often its
/// metrics were read.
fn connect_once(blocks: &Path, data: &Path, stop_at: Option<u64>) -> (Sample, u64) {
    let mut command = connect(blocks, data, "regtest");
    command.args(["--dbcache", "8", "--http", "0", "--log", "json"]);
    if let Some(height) = stop_at {
        command.args(["--stop-at-height", &height.to_string()]);
    }
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut next = || {
        lines
            .next()
            .map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap())
    };
    let address = loop {
        let line = next().expect("a line about the metrics");
        if line["event"] == "http" {
            break line["address"].as_str().unwrap().to_owned();
        }
    };
    let asking = std::thread::spawn(move || ask_for_metrics(&address));
    let mut most: Option<Sample> = None;
    let status = loop {
        if let Some(now) = sample(child.id(), 0) {
            most = Some(most.map_or(now, |most| most.most(now)));
        }
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    assert_eq!(status.code(), Some(0));
    while let Some(line) = next() {
        assert!(["debug", "info"].contains(&line["level"].as_str().unwrap()), "{line}");
    }
    let answers = asking.join().expect("the metrics are right");
    (most.expect("a sample"), answers)
}

/// Connects a chain again and again, in two runs each, and compares what `stats` says.
fn connect_all_the_time(scratch: &Scratch, end: Instant) {
    let (blocks, manifest) = generate(scratch, "utxo", 120, 150_000);
    let (mut samples, mut answers) = (Vec::new(), 0);
    while Instant::now() < end || samples.len() < 4 {
        let data = scratch.join("connected");
        let _ = std::fs::remove_dir_all(&data);
        for stop_at in [Some(100), None] {
            let (most, answered) = connect_once(&blocks, &data, stop_at);
            samples.push(most);
            answers += answered;
        }
        let figures = stats(&data);
        for (figure, name) in [
            ("height", "height"),
            ("bestblock", "tip"),
            ("txouts", "coins"),
            ("hash_serialized_3", "hash_serialized_3"),
        ] {
            assert_eq!(figures[figure], manifest[name], "{figure}");
        }
    }
    eprintln!("connect: {} runs, metrics read {answers} times", samples.len());
    assert!(answers > 0);
    // Runs come in pairs that do different parts of the chain.
    let pairs = samples.chunks(2).map(|pair| pair[0].most(pair[1]));
    let pairs: Vec<_> = pairs.collect();
    if pairs.len() >= 3 {
        check_growth("connect", &pairs);
    }
}

/// A `submit` to which lines are given one by one.
struct Submitter {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    lines: u64,
    samples: Vec<Sample>,
    sampled: Instant,
}

impl Submitter {
    fn new(data: &Path) -> Self {
        let mut command = submit_command(data);
        command.args(["--dbcache", "8", "--flush-seconds", "2"]);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        Self {
            input: child.stdin.take(),
            output: BufReader::new(child.stdout.take().unwrap()),
            child,
            lines: 0,
            samples: Vec::new(),
            sampled: Instant::now(),
        }
    }

    /// Submits a line; fails unless the verdict is `verdict`.
    #[track_caller]
    fn line(&mut self, line: &str, verdict: &str) -> Value {
        writeln!(self.input.as_mut().unwrap(), "{line}").unwrap();
        let mut text = String::new();
        self.output.read_line(&mut text).unwrap();
        let answer: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
        assert_eq!(answer["verdict"], verdict, "line {}: {answer}", self.lines);
        self.lines += 1;
        if self.sampled.elapsed() > Duration::from_millis(500) {
            self.sampled = Instant::now();
            self.samples.extend(sample(self.child.id(), self.lines));
        }
        std::thread::sleep(PACE);
        answer
    }

    #[track_caller]
    fn block(&mut self, block: &Block, verdict: &str) -> Value {
        self.line(&serialize(block).to_lower_hex_string(), verdict)
    }
}

/// Submits blocks that make reorganisations of up to six blocks, and junk, without end.
fn submit_all_the_time(scratch: &Scratch, end: Instant) {
    let data = scratch.join("submitted");
    let mut submitter = Submitter::new(&data);
    let mut dice = Rng::new(11);
    let mut tip = genesis();
    let (mut height, mut reorganisations) = (0, 0);
    while Instant::now() < end || reorganisations < 2 {
        let (fork, depth) = (tip.clone(), 1 + dice.below(6) as u32);
        let main = branch(&fork, height + 1, depth, 0, None);
        let side = branch(&fork, height + 1, depth + 1, 1, None);
        for block in &main {
            submitter.block(block, "connected");
        }
        submitter.line("no block", "malformed");
        submitter.block(&side[depth as usize], "orphan");
        submitter.block(&main[0], "duplicate");
        let above = height + depth + 1;
        let greedy = branch(&main[depth as usize - 1], above, 1, 2, Some(above)).remove(0);
        let answer = submitter.block(&greedy, "invalid");
        assert_eq!(answer["reason"], "bad-cb-amount");
        for (number, block) in side.iter().enumerate() {
            let last = number == depth as usize;
            submitter.block(block, if last { "connected" } else { "side" });
        }
        reorganisations += 1;
        height += depth + 1;
        tip = side[depth as usize].clone();
    }
    drop(submitter.input.take());
    assert!(submitter.child.wait().unwrap().success());
    let figures = stats(&data);
    assert_eq!(figures["bestblock"], tip.block_hash().to_string());
    assert_eq!(figures["height"], height);
    // The same blocks from their files, in one go.
    let again = scratch.join("again");
    let mut command = connect(&data.join("blocks"), &again, "regtest");
    // One block of every round is invalid, on a branch that was left.
    run(&mut command);
    let same = stats(&again);
    for figure in ["bestblock", "txouts", "hash_serialized_3", "muhash"] {
        assert_eq!(same[figure], figures[figure], "{figure}");
    }
    eprintln!(
        "submit: {} lines, {reorganisations} reorganisations, height {height}",
        submitter.lines
    );
    check_growth("submit", &submitter.samples);
}

/// One of the things that go on, in a directory of its own, until a moment.
type Part = fn(&Scratch, Instant);

#[test]
fn all_commands_at_once_and_nothing_grows() {
    let end = Instant::now() + Duration::from_secs(seconds());
    let scratch = [Scratch::new(), Scratch::new()];
    let failed = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        let parts: [(&str, Part); 2] = [("connect", connect_all_the_time), ("submit", submit_all_the_time)];
        for ((name, part), scratch) in parts.into_iter().zip(&scratch) {
            let failed = &failed;
            scope.spawn(move || {
                if std::panic::catch_unwind(|| part(scratch, end)).is_err() {
                    failed.lock().unwrap().push(name);
                }
            });
        }
    });
    assert_eq!(failed.into_inner().unwrap(), [""; 0], "see above");
}
