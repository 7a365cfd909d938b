//! The consumers of a server share one watch of the directory.

use super::consumer::Consumer;
use super::node::Node;
use super::{Events, PATIENCE, Place, stop};
use crate::common::Scratch;
use crate::common::growth::sample;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Consumers that read.
const CONSUMERS: usize = 10;

/// Time in which each has a block, and in which the server ends. A watch that has missed a change
/// looks again later than that.
const SOON: Duration = Duration::from_secs(4);

/// How many watches of the system a process has.
#[cfg(target_os = "linux")]
fn watches(process: u32) -> usize {
    let links = std::fs::read_dir(format!("/proc/{process}/fd")).unwrap();
    let links = links.filter_map(|link| std::fs::read_link(link.unwrap().path()).ok());
    links.filter(|link| link.to_str() == Some("anon_inode:inotify")).count()
}

/// Applies what a consumer gets until it is at the tip of the node.
fn read_to_tip(consumer: &mut Consumer, events: &Events, node: &Node) {
    let end = Instant::now() + SOON;
    loop {
        let line = events.lines.recv_timeout(end.saturating_duration_since(Instant::now()));
        let line = line.unwrap_or_else(|error| panic!("{} does not come: {error}", node.hash()));
        if consumer.apply(&line) == Some(node.hash()) {
            return;
        }
    }
}

/// The connection of a consumer that has got all there is.
fn at_tip(place: &Place, node: &Node) -> BufReader<UnixStream> {
    let mut stream = UnixStream::connect(&place.socket).unwrap();
    writeln!(stream, "blockmill-feed 1 {}", node.hash()).unwrap();
    let (mut stream, mut line) = (BufReader::new(stream), String::new());
    stream.read_line(&mut line).unwrap();
    assert!(line.contains("\"tip\""), "{line}");
    stream
}

#[test]
fn ten_consumers_get_all_events_by_one_watch() {
    let scratch = Scratch::new();
    let place = Place::new(&scratch);
    let mut node = Node::new(&place.blocks, 23);
    (0..400).for_each(|_| node.mine());
    let follower = place.follow();
    place.wait_for_data();
    let server = place.listen();
    let process = server.0.id();
    let mut consumers: Vec<_> = (0..CONSUMERS)
        .map(|_| (Consumer::default(), Events::of_socket(&place.socket, "0")))
        .collect();
    // One asks for everything, and reads nothing.
    let mut silent = UnixStream::connect(&place.socket).unwrap();
    writeln!(silent, "blockmill-feed 1 0").unwrap();
    for (consumer, events) in &mut consumers {
        read_to_tip(consumer, events, &node);
    }
    #[cfg(target_os = "linux")]
    assert_eq!(watches(process), 1);
    for _ in 0..20 {
        node.step();
        for (consumer, events) in &mut consumers {
            read_to_tip(consumer, events, &node);
        }
    }
    assert!(
        consumers
            .iter()
            .all(|(consumer, _)| consumer.coins == consumers[0].0.coins)
    );
    // Those that close their connections are found without a block.
    let threads = || sample(process, 0).unwrap().threads;
    let before = threads();
    let gone: Vec<_> = (0..CONSUMERS).map(|_| at_tip(&place, &node)).collect();
    assert_eq!(threads(), before + CONSUMERS as u64);
    drop(gone);
    let end = Instant::now() + PATIENCE;
    while threads() > before {
        assert!(Instant::now() < end, "consumers that are gone keep their threads");
        std::thread::sleep(Duration::from_millis(20));
    }
    node.step();
    for (consumer, events) in &mut consumers {
        read_to_tip(consumer, events, &node);
    }
    let start = Instant::now();
    assert_eq!(stop(server), Some(0));
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
    // It has been held up by itself alone.
    let mut text = String::new();
    let _ = silent.read_to_string(&mut text);
    assert!(!text.contains(&node.hash()));
    assert_eq!(stop(follower), Some(0));
}
