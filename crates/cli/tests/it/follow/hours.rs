//! Hours beside a node: blocks and reorganisations, feeds, readers and a page, and nothing grows.
//!
//! Ten seconds with ten steps a second; `BLOCKMILL_TEST_HOURS=7200` makes it two hours, with one.

use super::consumer::{Consumer, set_of};
use super::node::Node;
use super::{Events, PATIENCE, Place, Running, stop};
use crate::common::growth::{Sample, check_growth, sample};
use crate::common::{Scratch, stats};
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// The time of the run, and of a step in it.
fn times() -> (Duration, Duration) {
    let Ok(text) = std::env::var("BLOCKMILL_TEST_HOURS") else {
        eprintln!("short: 10 s; BLOCKMILL_TEST_HOURS sets the seconds");
        return (Duration::from_secs(10), Duration::from_millis(100));
    };
    let seconds = text.parse().expect("a number of seconds");
    (Duration::from_secs(seconds), Duration::from_secs(1))
}

/// The address of the page, from the lines of its process. The other lines are read and dropped.
fn address(process: &mut Running) -> String {
    let mut lines = BufReader::new(process.0.stderr.take().unwrap()).lines();
    let address = loop {
        let line: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        if line["event"] == "http" {
            break line["address"].as_str().unwrap().to_owned();
        }
    };
    std::thread::spawn(move || lines.for_each(drop));
    address
}

/// An open page, which polls the figures. Returns how many answers it got once the server has
/// ended.
fn open_page(address: &str) -> std::thread::JoinHandle<usize> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let request = format!("GET /status.json HTTP/1.1\r\nHost: {address}\r\n\r\n");
    std::thread::spawn(move || {
        let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
        let mut answers = 0;
        while stream.write_all(request.as_bytes()).is_ok()
            && lines.any(|line| line.is_ok_and(|line| line.ends_with('}')))
        {
            answers += 1;
            std::thread::sleep(Duration::from_secs(1));
        }
        answers
    })
}

#[test]
fn nothing_grows_beside_a_node() {
    let (time, pace) = times();
    let scratch = Scratch::new();
    let place = Place::new(&scratch);
    let mut node = Node::new(&place.blocks, 77);
    let mut command = place.follow_command();
    command.args(["--dbcache", "8", "--http", "127.0.0.1:0", "--log", "json"]);
    let mut follower = Running::of(command.stderr(Stdio::piped()));
    let page = open_page(&address(&mut follower));
    place.wait_for_data();
    let server = place.listen();
    let mut consumers = [
        Events::of_process(&place.data, "0"),
        Events::of_process(&place.data, "100"),
        Events::of_socket(&place.socket, "0"),
    ]
    .map(|events| (events, Consumer::default()));
    // The second begins in the midst of the chain, and keeps no coins.
    let [first, second, third] = &mut consumers;
    let processes = [
        ("follow", follower.0.id()),
        ("feed", first.0.process.as_ref().unwrap().0.id()),
        ("feed from 100", second.0.process.as_ref().unwrap().0.id()),
        ("server", server.0.id()),
    ];
    let mut samples: [Vec<Sample>; 4] = [const { Vec::new() }; 4];
    let mut delays = Vec::new();
    let end = Instant::now() + time;
    let mut steps = 0;
    while Instant::now() < end {
        let next = Instant::now() + pace;
        node.step();
        let (tip, written) = (node.hash(), Instant::now());
        for (events, consumer) in [&mut *first, &mut *third] {
            while consumer.apply(&events.lines.recv_timeout(PATIENCE).unwrap()) != Some(tip.clone()) {}
            delays.push(written.elapsed());
        }
        loop {
            let line = second.0.lines.recv_timeout(PATIENCE).unwrap();
            let event: Value = serde_json::from_str(&line).unwrap();
            if event["event"] == "tip" && event["block_hash"] == tip {
                break;
            }
        }
        steps += 1;
        if steps % 10 == 0 {
            assert_eq!(stats(&place.data)["bestblock"], tip);
            let (coins, at) = set_of(&place.data);
            assert_eq!(at, tip);
            assert!(
                coins == first.1.coins && coins == third.1.coins,
                "the coins differ at {tip}"
            );
        }
        for ((name, process), samples) in processes.iter().zip(&mut samples) {
            samples.push(sample(*process, node.written).unwrap_or_else(|| panic!("{name} has ended")));
        }
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    delays.sort_unstable();
    eprintln!(
        "{steps} steps, {} blocks; block to event: median {:?}, 99% {:?}, longest {:?}",
        node.written,
        delays[delays.len() / 2],
        delays[delays.len() * 99 / 100],
        delays[delays.len() - 1],
    );
    for ((name, _), samples) in processes.iter().zip(&samples) {
        check_growth(name, samples);
    }
    assert_eq!(stop(follower), Some(0));
    assert_eq!(stop(server), Some(0));
    assert!(page.join().unwrap() > 1, "the page has not moved");
    assert!(steps > 20, "{steps}");
}
