//! Sockets of feeds under slow, wrong and many clients.

use super::consumer::Consumer;
use super::node::Node;
use super::{Events, PATIENCE, Place, Running, stop};
use crate::common::growth::{Sample, sample};
use crate::common::{Scratch, blockmill};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Stdio;
use std::time::{Duration, Instant};

/// Consumers that a server takes.
const CONSUMERS: usize = 32;

/// Time that a client has for its line.
const LINE_TIME: Duration = Duration::from_secs(10);

/// A server at a port of its own.
struct Server {
    running: Running,
    address: SocketAddr,
}

impl Server {
    fn new(place: &Place) -> Self {
        let mut command = blockmill();
        command.arg("feed").arg("--data").arg(&place.data);
        command.args(["--log", "json", "--listen", "127.0.0.1:0"]);
        let mut running = Running::of(command.stdout(Stdio::null()).stderr(Stdio::piped()));
        let mut lines = BufReader::new(running.0.stderr.take().unwrap()).lines();
        let address = loop {
            let line: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
            if let Some(address) = line["address"].as_str() {
                break address.parse().unwrap();
            }
        };
        // Somebody has to read what it says.
        std::thread::spawn(move || lines.for_each(drop));
        Self { running, address }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    fn consumer(&self, cursor: &str) -> Events {
        let mut stream = self.connect();
        writeln!(stream, "blockmill-feed 1 {cursor}").unwrap();
        Events::new(stream, None)
    }

    fn sample(&self) -> Sample {
        sample(self.running.0.id(), 0).unwrap()
    }
}

/// What a client gets until the connection is closed.
fn rest(stream: &mut TcpStream) -> String {
    let mut text = String::new();
    let _ = stream.read_to_string(&mut text);
    text
}

fn read_to(consumer: &mut Consumer, events: &Events, node: &Node) -> Duration {
    let start = Instant::now();
    while consumer.apply(&events.lines.recv_timeout(PATIENCE).unwrap()) != Some(node.hash()) {}
    start.elapsed()
}

#[test]
fn clients_over_tcp_are_bounded_in_all_they_take() {
    let scratch = Scratch::new();
    let place = Place::new(&scratch);
    let mut node = Node::new(&place.blocks, 14);
    (0..900).for_each(|_| node.mine());
    let follower = place.follow();
    place.wait_for_data();
    let server = Server::new(&place);
    let (mut consumer, good) = (Consumer::default(), server.consumer("0"));
    read_to(&mut consumer, &good, &node);
    let before = server.sample();
    // They ask for everything, and read nothing. No more are let in.
    let mut slow: Vec<TcpStream> = Vec::new();
    let mut refused = 0;
    for number in 0..300 {
        let mut stream = server.connect();
        let format = if number % 2 == 0 { "" } else { " arrow" };
        // It may be refused before it has sent all.
        let _ = writeln!(stream, "blockmill-feed 1 0{format}");
        if number < CONSUMERS - 1 {
            slow.push(stream);
            // One after the other, so that the last ones are those that are refused.
            let end = Instant::now() + PATIENCE;
            while server.sample().threads < before.threads + slow.len() as u64 {
                assert!(Instant::now() < end, "{number} is not let in");
                std::thread::sleep(Duration::from_millis(2));
            }
            continue;
        }
        let text = rest(&mut stream);
        assert!(
            text.contains("there are 32 consumers already") || text.is_empty(),
            "{text}"
        );
        refused += usize::from(!text.is_empty());
    }
    assert!(refused > 200, "{refused}");
    let after = server.sample();
    eprintln!("before {before:?}, with {} slow readers {after:?}", slow.len());
    assert!(after.threads <= before.threads + CONSUMERS as u64, "{after:?}");
    // A socket, and the files that are read.
    assert!(after.files <= before.files + 6 * CONSUMERS as u64, "{after:?}");
    assert!(
        after.resident < before.resident + ((CONSUMERS * 16) << 20) as u64,
        "{after:?}"
    );
    // The good one hears of each block at once.
    for _ in 0..10 {
        node.step();
        let took = read_to(&mut consumer, &good, &node);
        assert!(took < PATIENCE / 10, "{took:?}");
    }
    // Some go without a word, in the middle of an event. They make room for others.
    drop(slow);
    let end = Instant::now() + PATIENCE;
    while server.sample().threads > before.threads {
        assert!(Instant::now() < end, "consumers that are gone keep their threads");
        std::thread::sleep(Duration::from_millis(20));
    }
    let (mut second, late) = (Consumer::default(), server.consumer("0"));
    read_to(&mut second, &late, &node);
    assert!(second.coins == consumer.coins);
    assert_eq!(stop(server.running), Some(0));
    assert_eq!(stop(follower), Some(0));
}

/// Those that send a byte now and then, or nothing, have ten seconds. Nobody else waits for them.
#[test]
fn a_line_that_does_not_end_is_not_waited_for() {
    let scratch = Scratch::new();
    let place = Place::new(&scratch);
    let mut node = Node::new(&place.blocks, 15);
    let follower = place.follow();
    place.wait_for_data();
    let server = Server::new(&place);
    let (mut consumer, good) = (Consumer::default(), server.consumer("0"));
    read_to(&mut consumer, &good, &node);
    let start = Instant::now();
    let mut silent: Vec<TcpStream> = (0..10).map(|_| server.connect()).collect();
    let mut dripping: Vec<TcpStream> = (0..10).map(|_| server.connect()).collect();
    while start.elapsed() < LINE_TIME + Duration::from_secs(2) {
        for stream in &mut dripping {
            let _ = stream.write_all(b"b");
        }
        if start.elapsed() < LINE_TIME {
            node.step();
            let took = read_to(&mut consumer, &good, &node);
            assert!(took < PATIENCE / 10, "{took:?}");
        }
        std::thread::sleep(Duration::from_millis(300));
    }
    for stream in &mut silent {
        assert!(rest(stream).contains("send one line"));
    }
    // They have written on, and may have lost the answer.
    for stream in &mut dripping {
        let text = rest(stream);
        assert!(text.is_empty() || text.contains("send one line"), "{text}");
    }
    assert!(start.elapsed() < LINE_TIME * 3);
    assert_eq!(stop(server.running), Some(0));
    assert_eq!(stop(follower), Some(0));
}

/// The reason comes, also over TCP and to a client that has sent more than was read.
#[test]
fn wrong_clients_are_told_why() {
    let scratch = Scratch::new();
    let place = Place::new(&scratch);
    let node = Node::new(&place.blocks, 16);
    let follower = place.follow();
    place.wait_for_data();
    let server = Server::new(&place);
    let _ = node.hash();
    let long = [b'x'; 20_000];
    for (bytes, why) in [
        (
            &b"GET / HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n\r\n"[..],
            "send one line",
        ),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\n", "send one line"),
        (b"blockmill-feed 1 0 xml\n", "send one line"),
        (b"blockmill-feed 1 7777777\n", "is above the tip"),
        (&long, "send one line"),
    ] {
        let mut stream = server.connect();
        let _ = stream.write_all(bytes);
        let event: Value = serde_json::from_str(&rest(&mut stream)).unwrap();
        assert_eq!(event["event"], "error");
        assert!(event["error"].as_str().unwrap().contains(why), "{event}");
    }
    assert_eq!(stop(server.running), Some(0));
    assert_eq!(stop(follower), Some(0));
}
