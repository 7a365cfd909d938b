//! `follow` and `feed`: a consumer has the coins of a set that moves, by events alone, whoever is
//! killed.

mod arrow;
pub(crate) mod bitcoind;
mod consumer;
mod document;
mod exec;
mod hours;
#[cfg(feature = "postgres")]
mod mirror;
pub(crate) mod node;
mod pace;
mod service;
mod shared_watch;
mod sockets;

use crate::common::children::wait_until;
use crate::common::{Rng, Scratch, blockmill, connect, run, stats};
use consumer::{Consumer, set_of};
use node::Node;
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// The longest that a test waits for an event.
const PATIENCE: Duration = Duration::from_secs(60);

/// Blocks before the reorganisations.
const TRUNK: usize = 110;

/// A process that is killed with its owner, and what it has started too.
struct Running(Child);

impl Running {
    fn of(command: &mut Command) -> Self {
        Self(command.process_group(0).spawn().unwrap())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Once it is waited for, its number may be another's.
        if matches!(self.0.try_wait(), Ok(None)) {
            let group = rustix::process::Pid::from_child(&self.0);
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
            let _ = self.0.wait();
        }
    }
}

/// Asks a process to end, and waits. Returns its status.
fn stop(mut running: Running) -> Option<i32> {
    let process = rustix::process::Pid::from_child(&running.0);
    rustix::process::kill_process(process, rustix::process::Signal::TERM).unwrap();
    running.0.wait().unwrap().code()
}

/// Where a consumer gets its events: a process of its own, or a socket.
struct Events {
    lines: Receiver<String>,
    process: Option<Running>,
}

impl Events {
    fn of_process(data: &Path, cursor: &str) -> Self {
        let mut process = Running::of(
            blockmill()
                .args(["feed", "--follow", "--from", cursor, "--data"])
                .arg(data)
                .stdout(Stdio::piped())
                .stderr(Stdio::null()),
        );
        let stdout = process.0.stdout.take().unwrap();
        Self::new(stdout, Some(process))
    }

    fn of_socket(socket: &Path, cursor: &str) -> Self {
        let end = Instant::now() + PATIENCE;
        let mut stream = loop {
            match UnixStream::connect(socket) {
                Ok(stream) => break stream,
                Err(error) => assert!(Instant::now() < end, "{error}"),
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        writeln!(stream, "blockmill-feed 1 {cursor}").unwrap();
        Self::new(stream, None)
    }

    fn new(stream: impl std::io::Read + Send + 'static, process: Option<Running>) -> Self {
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stream).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self { lines, process }
    }
}

/// A data directory with what is beside it.
struct Place {
    data: PathBuf,
    blocks: PathBuf,
    socket: PathBuf,
}

impl Place {
    fn new(scratch: &Scratch) -> Self {
        Self {
            data: scratch.join("data"),
            blocks: scratch.join("blocks"),
            socket: scratch.join("feed.sock"),
        }
    }

    fn follow_command(&self) -> Command {
        let mut command = blockmill();
        command.args(["follow", "--network", "regtest", "--json", "--blocks"]);
        command.arg(&self.blocks).arg("--data").arg(&self.data);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    fn follow(&self) -> Running {
        Running::of(&mut self.follow_command())
    }

    fn listen(&self) -> Running {
        let mut command = blockmill();
        command.arg("feed").arg("--data").arg(&self.data);
        command.arg("--listen").arg(format!("unix:{}", self.socket.display()));
        Running::of(command.stdout(Stdio::null()).stderr(Stdio::null()))
    }

    fn wait_for_data(&self) {
        wait_until("a commit", || self.data.join("commit.dat").exists());
    }
}

/// Reorganisations of the long test: `BLOCKMILL_TEST_FEED`.
fn steps() -> usize {
    let asked = std::env::var("BLOCKMILL_TEST_FEED").ok();
    asked.and_then(|text| text.parse().ok()).unwrap_or_else(|| {
        eprintln!("short: 60 steps; BLOCKMILL_TEST_FEED sets the number");
        60
    })
}

#[test]
fn a_consumer_has_the_coins_by_events_alone_whoever_is_killed() {
    let scratch = Scratch::new();
    let place = Place::new(&scratch);
    let mut node = Node::new(&place.blocks, 41);
    let mut follower = place.follow();
    place.wait_for_data();
    let mut server = place.listen();
    let mut random = Rng::new(7);
    let mut consumer = Consumer::default();
    // What the consumer has on its disk; the rest is gone when it is killed.
    let mut kept = consumer.clone();
    let mut events = Events::of_process(&place.data, "0");
    let (mut kills, mut slowest) = (0, Duration::ZERO);
    for _ in 0..steps() {
        node.step();
        let (tip, start) = (node.hash(), Instant::now());
        let mut is_disturbed = false;
        loop {
            match events.lines.recv_timeout(PATIENCE.saturating_sub(start.elapsed())) {
                Ok(line) => {
                    if consumer.apply(&line) == Some(tip.clone()) {
                        break;
                    }
                    if random.below(3) == 0 {
                        kept = consumer.clone();
                    }
                }
                // The server was killed.
                Err(RecvTimeoutError::Disconnected) => {
                    (events, is_disturbed) = (Events::of_socket(&place.socket, &consumer.cursor()), true);
                }
                Err(RecvTimeoutError::Timeout) => panic!("{tip} does not come"),
            }
            match random.below(30) {
                0 => {
                    (kills, is_disturbed) = (kills + 1, true);
                    drop(follower);
                    follower = place.follow();
                }
                1 => {
                    (kills, is_disturbed) = (kills + 1, true);
                    drop(server);
                    server = place.listen();
                }
                2 | 3 => {
                    (kills, is_disturbed) = (kills + 1, true);
                    consumer = kept.clone();
                    events = match random.below(2) {
                        0 => Events::of_process(&place.data, &consumer.cursor()),
                        _ => Events::of_socket(&place.socket, &consumer.cursor()),
                    };
                }
                _ => {}
            }
        }
        if !is_disturbed {
            slowest = slowest.max(start.elapsed());
        }
        kept = consumer.clone();
        let (coins, at) = set_of(&place.data);
        assert_eq!(at, tip);
        assert!(coins == consumer.coins, "the coins differ at {tip}");
    }
    eprintln!(
        "{kills} kills, {} events, the slowest step took {slowest:?}",
        consumer.events
    );
    assert!(kills > 3);
    // Both processes are up, and end in order.
    node.mine();
    let events = Events::of_socket(&place.socket, &consumer.cursor());
    while consumer.apply(&events.lines.recv_timeout(PATIENCE).unwrap()) != Some(node.hash()) {}
    assert_eq!(stop(follower), Some(0));
    assert_eq!(stop(server), Some(0));
    assert!(!place.socket.exists());
    assert_eq!(stats(&place.data)["bestblock"], node.hash());
}

/// A feed whose reader is gone ends, although nothing comes that it could not write.
#[test]
fn a_feed_ends_with_its_reader() {
    let scratch = Scratch::new();
    let place = Place::new(&scratch);
    Node::new(&place.blocks, 3);
    let follower = place.follow();
    place.wait_for_data();
    let mut command = blockmill();
    command
        .args(["feed", "--follow", "--data"])
        .arg(&place.data)
        .stdout(Stdio::piped());
    let mut feed = Running::of(&mut command);
    let mut lines = BufReader::new(feed.0.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("\"tip\"")));
    drop(lines);
    assert_eq!(feed.0.wait().unwrap().code(), Some(141));
    assert_eq!(stop(follower), Some(0));
}

#[test]
fn a_feed_without_follow_ends_at_the_tip_and_begins_at_any_block() {
    let scratch = Scratch::new();
    let place = Place::new(&scratch);
    let mut node = Node::new(&place.blocks, 5);
    let connect = || {
        let mut command = blockmill();
        command
            .args(["connect", "--network", "regtest", "--blocks"])
            .arg(&place.blocks);
        run(command.arg("--data").arg(&place.data)).ends_with(0)
    };
    connect();
    let feed = |cursor: &str| {
        let mut command = blockmill();
        run(command.args(["feed", "--from", cursor, "--data"]).arg(&place.data))
    };
    let events = |cursor: &str| -> Vec<(String, u64)> {
        let out = feed(cursor).ends_with(0).stdout;
        let events = out.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let word = |event: &Value| event["event"].as_str().unwrap().to_owned();
        events
            .map(|event| (word(&event), event["height"].as_u64().unwrap()))
            .collect()
    };
    let all = events("0");
    assert_eq!(all.len(), TRUNK + 1);
    assert_eq!(all[0], ("connected".to_owned(), 1));
    assert_eq!(all[TRUNK], ("tip".to_owned(), TRUNK as u64));
    assert_eq!(events("100"), all[100..]);
    let old = node.chain[TRUNK].block_hash().to_string();
    assert_eq!(events(&old), all[TRUNK..]);
    // Three blocks leave the chain, and five come.
    node.chain.truncate(TRUNK - 2);
    (0..5).for_each(|_| node.mine());
    // Files with the old blocks may be gone: the directory has kept the blocks.
    connect();
    let after: Vec<_> = events(&old);
    let height = TRUNK as u64;
    let mut expected: Vec<_> = (0..3).map(|down| ("disconnected".to_owned(), height - down)).collect();
    expected.extend((0..5).map(|up| ("connected".to_owned(), height - 2 + up)));
    expected.push(("tip".to_owned(), height + 2));
    assert_eq!(after, expected);
    feed("500")
        .ends_with(2)
        .says(&["height 500 is above the tip, which is at height 112"]);
    let unknown = "11".repeat(32);
    feed(&unknown)
        .ends_with(2)
        .says(&["was never connected in", "connect first", "start over with --from 0"]);
    feed("none").ends_with(2).says(&["a height or the hash of a block"]);
}

/// A directory that was recreated, and has not caught up: its consumer is ahead of it, and waits.
#[test]
fn a_feed_waits_for_a_directory_that_is_behind_its_consumer() {
    let scratch = Scratch::new();
    let place = Place::new(&scratch);
    let node = Node::new(&place.blocks, 5);
    let connect = |height: &str| {
        let mut command = connect(&place.blocks, &place.data, "regtest");
        run(command.args(["--stop-at-height", height])).ends_with(0);
    };
    connect("100");
    let hash = node.chain[TRUNK - 2].block_hash().to_string();
    let feed = run(blockmill().args(["feed", "--from", &hash, "--data"]).arg(&place.data)).ends_with(2);
    assert!(
        feed.stdout.is_empty() && !feed.stderr.contains("anew"),
        "{}",
        feed.stderr
    );
    feed.says(&["is not connected yet in", "at height 100", "run connect"]);
    let server = place.listen();
    let followers = [
        Events::of_process(&place.data, &hash),
        Events::of_socket(&place.socket, &hash),
    ];
    std::thread::sleep(Duration::from_millis(300));
    connect("105");
    std::thread::sleep(Duration::from_millis(300));
    connect("110");
    for events in &followers {
        for (word, height) in [("connected", TRUNK - 1), ("connected", TRUNK), ("tip", TRUNK)] {
            let line = events.lines.recv_timeout(PATIENCE).unwrap();
            let event: Value = serde_json::from_str(&line).unwrap();
            assert_eq!(
                (event["event"].as_str(), event["height"].as_u64()),
                (Some(word), Some(height as u64))
            );
        }
    }
    assert_eq!(stop(server), Some(0));
}

/// The command of `--exec` gets each block, in order, also after failures. A block that it handled
/// right before a kill may come again.
#[test]
fn a_command_is_run_for_each_block() {
    let scratch = Scratch::new();
    let place = Place::new(&scratch);
    let mut node = Node::new(&place.blocks, 6);
    let (log, fails) = (scratch.join("log"), scratch.join("fails"));
    let script = scratch.write(
        "on-block",
        format!(
            "if [ -e {fails} ]; then rm {fails}; exit 3; fi\ncat >> {log}\n",
            fails = fails.display(),
            log = log.display()
        )
        .as_bytes(),
    );
    let follow = || {
        Running::of(
            place
                .follow_command()
                .arg("--exec")
                .arg(format!("sh {}", script.display())),
        )
    };
    let mut follower = follow();
    wait_until("the cursor", || place.data.join("exec.cursor").exists());
    // From here on each block is handled. The table of before comes from the set.
    let mut consumer = Consumer {
        coins: set_of(&place.data).0,
        chain: node.chain[1..]
            .iter()
            .map(|block| block.block_hash().to_string())
            .collect(),
        events: 0,
    };
    let mut done: Vec<String> = Vec::new();
    for step in 0..12 {
        node.step();
        if step % 4 == 1 {
            std::fs::write(&fails, []).unwrap();
        }
        if step % 5 == 4 {
            drop(follower);
            follower = follow();
        }
        let end = Instant::now() + PATIENCE;
        while consumer.chain.last() != Some(&node.hash()) {
            assert!(Instant::now() < end, "{} is not handled", node.hash());
            let text = std::fs::read_to_string(&log).unwrap_or_default();
            let whole = text.rfind('\n').map_or(0, |end| end + 1);
            for line in text[..whole].lines().skip(done.len()) {
                if done.last().is_none_or(|last| last != line) {
                    consumer.apply(line);
                }
                done.push(line.to_owned());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    assert_eq!(stop(follower), Some(0));
    assert!(set_of(&place.data).0 == consumer.coins);
}

/// What a client of the socket gets for some bytes, until the connection is closed.
fn answer(socket: &Path, bytes: &[u8]) -> String {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    // It may be refused before it has sent all.
    let _ = stream.write_all(bytes);
    let mut text = String::new();
    let _ = std::io::Read::read_to_string(&mut stream, &mut text);
    text
}

#[test]
fn a_consumer_that_does_not_read_holds_up_itself_alone() {
    let scratch = Scratch::new();
    let place = Place::new(&scratch);
    let mut node = Node::new(&place.blocks, 9);
    // More than fits into the buffers of a socket.
    (0..600).for_each(|_| node.mine());
    let follower = place.follow();
    place.wait_for_data();
    let server = place.listen();
    let mut good = Events::of_socket(&place.socket, "0");
    let mut consumer = Consumer::default();
    let mut read = |node: &Node, good: &mut Events| {
        let end = Instant::now() + PATIENCE;
        loop {
            let line = good
                .lines
                .recv_timeout(end.saturating_duration_since(Instant::now()))
                .unwrap();
            if consumer.apply(&line) == Some(node.hash()) {
                return;
            }
        }
    };
    read(&node, &mut good);
    // Clients that send nothing, or ask for everything and read nothing, up to the limit.
    let mut silent = Vec::new();
    for number in 0..31 {
        let mut stream = UnixStream::connect(&place.socket).unwrap();
        if number % 2 == 0 {
            stream.write_all(b"blockmill-feed 1 0\n").unwrap();
        }
        silent.push(stream);
    }
    let end = Instant::now() + Duration::from_secs(5);
    while !answer(&place.socket, b"").contains("there are 32 consumers already") {
        assert!(Instant::now() < end, "all are let in");
    }
    for _ in 0..20 {
        let start = Instant::now();
        node.step();
        read(&node, &mut good);
        assert!(start.elapsed() < PATIENCE / 10, "{:?}", start.elapsed());
    }
    drop(silent);
    for (bytes, why) in [
        (&b"GET / HTTP/1.1\r\n\r\n"[..], "send one line"),
        (b"blockmill-feed 2 0\n", "send one line"),
        (b"blockmill-feed 1 x\n", "send one line"),
        (&[b'x'; 1_000], "send one line"),
        (b"\xff\xfe\n", "send one line"),
        (b"blockmill-feed 1 9999999\n", "is above the tip"),
        (
            format!("blockmill-feed 1 {}\n", "22".repeat(32)).as_bytes(),
            "was never connected",
        ),
    ] {
        let end = Instant::now() + PATIENCE;
        let mut text = answer(&place.socket, bytes);
        // The threads of those that are gone end one after the other.
        while text.contains("consumers already") && Instant::now() < end {
            text = answer(&place.socket, bytes);
        }
        let event: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(event["event"], "error");
        assert!(event["error"].as_str().unwrap().contains(why), "{text}");
    }
    assert_eq!(stop(server), Some(0));
    assert_eq!(stop(follower), Some(0));
}
