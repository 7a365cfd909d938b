//! How fast a block reaches consumers, and what ten of them cost `follow`.

use super::node::Node;
use super::{Events, PATIENCE, Place, Running, stop};
use crate::common::Scratch;
use crate::common::growth::cpu_time;
use serde_json::Value;
use std::time::{Duration, Instant};

/// Between two blocks.
const SPACING: Duration = Duration::from_millis(40);

/// Consumers at once.
const CONSUMERS: usize = 10;

/// Blocks before the first run. `follow` keeps the last 288, and each costs it a little.
const KEPT: usize = 300;

/// Rounds, and blocks of a run in them: `BLOCKMILL_TEST_PACE`.
fn rounds_and_blocks() -> (usize, usize) {
    let Ok(text) = std::env::var("BLOCKMILL_TEST_PACE") else {
        eprintln!("short: one round of 60 blocks; BLOCKMILL_TEST_PACE sets the number for four");
        return (1, 60);
    };
    (4, text.parse().expect("a number of blocks"))
}

/// When a consumer has got blocks, by their hashes.
fn listen(events: Events, count: usize) -> std::thread::JoinHandle<Vec<(String, Instant)>> {
    std::thread::spawn(move || {
        let mut got = Vec::new();
        while got.len() < count {
            let line = events.lines.recv_timeout(PATIENCE).unwrap();
            let at = Instant::now();
            let event: Value = serde_json::from_str(&line).unwrap();
            if event["event"] == "connected" {
                got.push((event["block_hash"].as_str().unwrap().to_owned(), at));
            }
        }
        got
    })
}

/// Mines blocks one by one. Returns the CPU time of `follow`, and how long each block took to each
/// consumer, sorted.
fn run(
    node: &mut Node,
    place: &Place,
    follower: &Running,
    consumers: usize,
    count: usize,
) -> (Duration, Vec<Duration>) {
    let cursor = node.hash();
    let consumers: Vec<_> = (0..consumers)
        .map(|_| {
            let events = Events::of_socket(&place.socket, &cursor);
            // It has begun once it is at the tip.
            let line = events.lines.recv_timeout(PATIENCE).unwrap();
            assert!(line.contains("\"tip\""), "{line}");
            listen(events, count)
        })
        .collect();
    let before = cpu_time(follower.0.id());
    let mut written = Vec::new();
    for _ in 0..count {
        let start = Instant::now();
        node.mine();
        written.push((node.hash(), Instant::now()));
        std::thread::sleep(SPACING.saturating_sub(start.elapsed()));
    }
    let mut delays = Vec::new();
    for consumer in consumers {
        for ((hash, at), (mined, written)) in consumer.join().unwrap().into_iter().zip(&written) {
            assert_eq!(&hash, mined);
            delays.push(at.saturating_duration_since(*written));
        }
    }
    delays.sort_unstable();
    // What the last blocks cost without consumers, too.
    std::thread::sleep(Duration::from_millis(500));
    (cpu_time(follower.0.id()) - before, delays)
}

#[test]
fn a_block_is_with_ten_consumers_at_once() {
    let scratch = Scratch::new();
    let place = Place::new(&scratch);
    let mut node = Node::new(&place.blocks, 17);
    (0..KEPT).for_each(|_| node.mine());
    let follower = place.follow();
    place.wait_for_data();
    let server = place.listen();
    drop(Events::of_socket(&place.socket, "0"));
    let (mut alone, mut together) = (Vec::new(), Vec::new());
    let (rounds, count) = rounds_and_blocks();
    for round in 0..rounds {
        // Longer chains cost more, so each comes first in turn.
        for is_alone in [round % 2 == 0, round % 2 == 1] {
            if is_alone {
                alone.push(run(&mut node, &place, &follower, 0, count).0);
                continue;
            }
            let (cpu, delays) = run(&mut node, &place, &follower, CONSUMERS, count);
            together.push(cpu);
            let p99 = delays[delays.len() * 99 / 100];
            let median = delays[delays.len() / 2];
            eprintln!("block written to event received, {CONSUMERS} consumers: median {median:?}, p99 {p99:?}");
            // What is wanted on a quiet machine is a tenth of it.
            assert!(p99 < Duration::from_secs(1));
        }
    }
    eprintln!("CPU time of follow: alone {alone:?}, with {CONSUMERS} consumers {together:?}");
    assert_eq!(stop(server), Some(0));
    assert_eq!(stop(follower), Some(0));
}
