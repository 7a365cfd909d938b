//! Readers beside a writer that is killed again and again: each sees the last flushed set, whole.

use crate::common::own_set::OwnChain;
use crate::common::{Rng, Scratch, blockmill, connect, run, submit_command};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs::File;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

const BLOCKS: u32 = 160;
const READERS: usize = 10;
const KILLS: u32 = 12;

/// The number of coins and the hash of the set at each height, as `submit` says them.
fn figures_by_height(scratch: &Scratch, chain: &OwnChain) -> BTreeMap<u64, (Value, Value)> {
    let mut lines = String::new();
    for block in &chain.blocks[1..] {
        writeln!(lines, "{}", bitcoin::consensus::encode::serialize_hex(block)).unwrap();
    }
    let input = File::open(scratch.write("lines", lines.as_bytes())).unwrap();
    let submitted = run(submit_command(&scratch.join("submitted")).arg("--utxo").stdin(input)).ends_with(0);
    let answers = submitted
        .stdout
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    answers
        .map(|answer| {
            let figures = (answer["txouts"].clone(), answer["hash_serialized_3"].clone());
            (answer["height"].as_u64().unwrap(), figures)
        })
        .collect()
}

/// Reads again and again with one command, until it is told to stop. Returns the heights that it
/// saw.
fn read(number: usize, data: &Path, figures: &BTreeMap<u64, (Value, Value)>, end: &AtomicBool) -> Vec<u64> {
    let mut heights = Vec::new();
    while !end.load(Ordering::Relaxed) {
        let reader = |name: &str| run(blockmill().args([name, "--json", "--data"]).arg(data)).ends_with(0);
        if number.is_multiple_of(5) {
            let doctor = reader("doctor").json();
            assert_eq!(doctor["sound"], true, "{doctor}");
            continue;
        }
        if number % 5 == 1 {
            let status = reader("status").json();
            let height = status["height"].as_u64().unwrap();
            let coins = figures.get(&height).map_or(json!(0), |(coins, _)| coins.clone());
            assert_eq!(status["coins"], coins, "{status}");
            assert!(
                heights.last().is_none_or(|&last| last <= height),
                "{heights:?}, {height}"
            );
            heights.push(height);
            continue;
        }
        let stats = reader("stats").json();
        let height = stats["height"].as_u64().unwrap();
        if height == 0 {
            assert_eq!(stats["txouts"], 0);
        } else {
            let (coins, hash) = &figures[&height];
            assert_eq!(
                (&stats["txouts"], &stats["hash_serialized_3"]),
                (coins, hash),
                "{stats}"
            );
        }
        assert!(
            heights.last().is_none_or(|&last| last <= height),
            "{heights:?}, {height}"
        );
        heights.push(height);
    }
    heights
}

/// Connects a chain with a flush after almost every block, and is killed again and again.
fn write(chain: &OwnChain, data: &Path, kills: &AtomicU64) {
    let mut dice = Rng::new(3);
    let command = || {
        let mut command = connect(&chain.folder, data, "regtest");
        command.args(["--dbcache", "4", "--flush-seconds", "0", "--par", "1"]);
        command
    };
    for _ in 0..KILLS {
        let mut child = command().stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let end = Instant::now() + Duration::from_millis(50 + dice.below(250) as u64);
        while Instant::now() < end && child.try_wait().unwrap().is_none() {
            sleep(Duration::from_millis(10));
        }
        kills.fetch_add(u64::from(child.try_wait().unwrap().is_none()), Ordering::Relaxed);
        let _ = kill_process(Pid::from_child(&child), Signal::KILL);
        child.wait().unwrap();
    }
    run(&mut command()).ends_with(0);
}

#[test]
fn ten_readers_beside_a_writer_that_is_killed() {
    let scratch = Scratch::new();
    let options = ["--seed", "4", "--inputs", "6000", "--coins", "30000"];
    let chain = OwnChain::generate(&scratch, "utxo", BLOCKS, &options);
    let figures = figures_by_height(&scratch, &chain);
    assert_eq!(figures.len(), BLOCKS as usize);
    let data = scratch.folder("data");
    let empty = scratch.write("blk00000.dat", &[]);
    run(&mut connect(&empty, &data, "regtest")).ends_with(0);
    let (end, kills) = (AtomicBool::new(false), AtomicU64::new(0));
    let seen: Vec<Vec<u64>> = std::thread::scope(|scope| {
        let (data, figures, end) = (&data, &figures, &end);
        let readers: Vec<_> = (0..READERS)
            .map(|number| scope.spawn(move || read(number, data, figures, end)))
            .collect();
        // Ends the readers also where the writer fails.
        let written = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| write(&chain, data, &kills)));
        end.store(true, Ordering::Relaxed);
        let seen = readers.into_iter().map(|reader| reader.join().unwrap()).collect();
        written.unwrap();
        seen
    });
    let mut heights: Vec<u64> = seen.concat();
    let count = heights.len();
    heights.sort_unstable();
    heights.dedup();
    let kills = kills.into_inner();
    eprintln!("{count} answers at {} heights, {kills} kills", heights.len());
    assert!(heights.len() >= 5 && kills >= 3, "{heights:?}, {kills} kills");
}
