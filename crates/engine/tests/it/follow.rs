//! An engine beside a node, whose files are written while it reads.

use super::options;
use crate::common::{Chain, LARGE, figures_of, open, output, output_to, spend_into};
use crate::differential::random::Random;
use bitcoin::ScriptBuf;
use bitcoin::consensus::serialize;
use blockmill_block::{BlockHash, Network};
use blockmill_chaingen::bitcoin;
use blockmill_chaingen::node_writer::{NodeSettings, NodeWriter};
use blockmill_coins::stats::Hashes;
use blockmill_coins::{StatsBuilder, Tip, UtxoStats};
use blockmill_engine::datadir::{Cursor, Feed, FeedError, FeedEvent, UtxoSet};
use blockmill_engine::{Event, Level, Observer, Options};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

/// The longest that a test waits for a block.
const PATIENCE: Duration = Duration::from_secs(20);

/// What an engine has said.
#[derive(Debug, PartialEq)]
enum Said {
    Connected(BlockHash),
    Disconnected(BlockHash),
    CaughtUp(Tip),
    Event(String),
}

struct Ear(Sender<Said>);

impl Observer for Ear {
    fn event(&mut self, event: &Event<'_>) {
        let said = match event {
            Event::Connected(change) => Said::Connected(change.block.hash()),
            Event::Disconnected(change) => Said::Disconnected(change.block.hash()),
            Event::CaughtUp(tip) => Said::CaughtUp(*tip),
            _ if event.level() > Some(Level::Info) => Said::Event(event.to_string()),
            _ => return,
        };
        self.0.send(said).unwrap();
    }
}

fn settings(key: u8) -> NodeSettings {
    NodeSettings {
        magic: Network::Regtest.magic().0,
        key: [key; 8],
        chunk: 1 << 16,
        file_bytes: 1 << 17,
    }
}

/// The set in a directory, as others read it.
fn set_in(path: &Path) -> UtxoStats {
    let set = UtxoSet::open(path, 1).unwrap();
    let mut builder = StatsBuilder::new(Hashes::Serialized);
    for coin in set.coins().unwrap() {
        let (outpoint, coin) = coin.unwrap();
        builder.add(&outpoint, &coin);
    }
    builder.finish(&set.tip())
}

/// A chain by what an engine has said of its blocks.
fn apply(chain: &mut Vec<BlockHash>, said: &Said) {
    match said {
        Said::Connected(hash) => chain.push(*hash),
        Said::Disconnected(hash) => assert_eq!(chain.pop(), Some(*hash)),
        Said::CaughtUp(_) | Said::Event(_) => {}
    }
}

/// Runs an engine that follows `folder`, and `act` beside it.
fn follow(data: &Path, folder: &Path, options: Options, act: impl FnOnce(&Receiver<Said>)) {
    let stop = Arc::new(AtomicBool::new(false));
    let (sender, receiver) = channel();
    std::thread::scope(|scope| {
        let options = Options {
            stop: Arc::clone(&stop),
            ..options
        };
        let follower = scope.spawn(move || {
            let mut engine = open(data, options);
            let (sources, mut ear) = ([folder.to_owned()], Ear(sender));
            let mut follower = engine.follow(&sources);
            while follower.next(&mut ear).unwrap().is_some() {}
        });
        // A failure of the test must end the engine, too.
        let acted = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| act(&receiver)));
        stop.store(true, Ordering::Relaxed);
        follower.join().unwrap();
        if let Err(panic) = acted {
            std::panic::resume_unwind(panic);
        }
    });
}

/// Waits until the engine is at a block. Returns what was said of files meanwhile.
fn wait_for(tip: BlockHash, said: &Receiver<Said>, chain: &mut Vec<BlockHash>) -> Vec<String> {
    let (end, mut events) = (Instant::now() + PATIENCE, Vec::new());
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let heard = said.recv_timeout(left).expect("the engine comes to the block");
        apply(chain, &heard);
        match heard {
            Said::CaughtUp(at) if at.hash == tip => return events,
            Said::Event(text) => events.push(text),
            _ => {}
        }
    }
}

/// Applies what a feed has to tell to a chain. Returns the tip.
fn feed_to(feed: &mut Feed, chain: &mut Vec<BlockHash>) -> Tip {
    let mut tip = None;
    for event in feed {
        assert_eq!(tip, None, "the tip comes last");
        match event.unwrap() {
            FeedEvent::Connected(block) => {
                assert_eq!(block.height as usize, chain.len() + 1);
                assert!(block.undo.fits(&block.block));
                chain.push(block.block.hash());
            }
            FeedEvent::Disconnected(block) => assert_eq!(chain.pop(), Some(block.block.hash())),
            FeedEvent::Tip(at) => tip = Some(at),
        }
    }
    tip.expect("there is something to tell")
}

/// The next block of a chain, often with a transaction.
fn grow(chain: &mut Chain, random: &mut Random) {
    let mut next = chain.next().header(|header| header.time += random.below(100) as u32);
    let height = chain.height();
    if height > 120 && random.one_in(2) {
        let from = chain.coinbase(height - 105);
        next = next.transaction(spend_into(from, vec![output(1_000), output(2_000)]));
    }
    chain.push(next.build());
}

#[test]
fn a_thousand_blocks_with_reorganisations() {
    let directory = tempfile::tempdir().unwrap();
    let (data, folder) = (directory.path().join("data"), directory.path().join("blocks"));
    let mut node = NodeWriter::new(&folder, settings(7)).unwrap();
    let mut random = Random::new(41);
    let mut chain = Chain::of(110);
    chain
        .blocks
        .iter()
        .for_each(|block| node.write(&serialize(block)).unwrap());
    let mut told = Vec::new();
    let mut slowest = Duration::ZERO;
    follow(&data, &folder, options(2, LARGE), |said| {
        wait_for(chain.hash(), said, &mut told);
        let mut feed = Feed::open(&data, Cursor::Height(0)).unwrap();
        let mut fed = Vec::new();
        let mut written = 0;
        while written < 1_000 {
            let depth = match random.below(12) {
                0 => 1 + random.below(50) as u32,
                _ => 0,
            };
            chain = chain.up_to(chain.height() - depth);
            let start = Instant::now();
            for _ in 0..=depth {
                grow(&mut chain, &mut random);
                node.write(&serialize(chain.tip())).unwrap();
                written += 1;
            }
            let events = wait_for(chain.hash(), said, &mut told);
            assert_eq!(events, Vec::<String>::new());
            slowest = slowest.max(start.elapsed());
            assert_eq!(told, hashes(&chain));
            assert!(feed.poll().unwrap());
            let at = feed_to(&mut feed, &mut fed);
            assert_eq!((&fed, at.hash), (&told, chain.hash()));
            if random.one_in(40) {
                // Durable: others see it.
                assert_eq!(set_in(&data), figures_of(&chain));
            }
            if random.one_in(30) {
                node.restart().unwrap();
            }
            if random.one_in(30) {
                // Blocks of 50 heights stay.
                node.prune(4).unwrap();
            }
        }
    });
    eprintln!("the slowest block took {slowest:?}");
    assert_eq!(set_in(&data), figures_of(&chain));
}

/// The hashes of a chain without the first block.
fn hashes(chain: &Chain) -> Vec<BlockHash> {
    chain.blocks[1..].iter().map(crate::common::hash_of).collect()
}

/// A node that was killed has forgotten its last blocks, and writes others over them.
#[test]
fn a_node_that_forgets_blocks_is_followed() {
    let directory = tempfile::tempdir().unwrap();
    let (data, folder) = (directory.path().join("data"), directory.path().join("blocks"));
    let mut node = NodeWriter::new(&folder, settings(7)).unwrap();
    let mut write = |blocks: &[bitcoin::Block], forgotten| {
        node.forget(forgotten).unwrap();
        blocks.iter().for_each(|block| node.write(&serialize(block)).unwrap());
    };
    let mut chain = Chain::of(120);
    write(&chain.blocks, 0);
    // Nobody has followed these.
    let folders = [folder.clone()];
    open(&data, options(1, LARGE)).connect(&folders, &mut ()).unwrap();
    let mut told = hashes(&chain);
    let mut fed = Vec::new();
    follow(&data, &folder, options(1, LARGE), |said| {
        wait_for(chain.hash(), said, &mut told);
        chain.mine(10);
        write(&chain.blocks[121..], 0);
        wait_for(chain.hash(), said, &mut told);
        // Some are of before, some of after the engine has begun to follow.
        chain = chain.up_to(105);
        chain.push(chain.next().header(|header| header.time += 1).build());
        chain.mine(4);
        write(&chain.blocks[106..], 25);
        // A feed has the blocks that the node has not.
        let mut feed = Feed::open(&data, Cursor::Height(0)).unwrap();
        assert_eq!(feed_to(&mut feed, &mut fed).height, 130);
        assert_eq!(fed, told);
        let before = chain.blocks.len();
        chain.mine(21);
        write(&chain.blocks[before..], 0);
        wait_for(chain.hash(), said, &mut told);
        assert_eq!(told, hashes(&chain));
        assert!(feed.poll().unwrap());
        feed_to(&mut feed, &mut fed);
        assert_eq!(fed, told);
    });
    assert_eq!(set_in(&data), figures_of(&chain));
}

/// The numbers of the files in a folder.
fn file_numbers(folder: &Path) -> Vec<u32> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut numbers: Vec<u32> = entries
        .map(|entry| {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let number = name.strip_prefix("blk").and_then(|name| name.strip_suffix(".dat"));
            number.unwrap().parse().unwrap()
        })
        .collect();
    numbers.sort_unstable();
    numbers
}

/// What is kept is bounded: the last 288 blocks, and those that left the chain, for longer.
#[test]
fn old_blocks_are_not_kept() {
    let directory = tempfile::tempdir().unwrap();
    // The name of the data directory leads over a link: what it has itself is known all the same.
    let link = directory.path().join("link");
    std::fs::create_dir(directory.path().join("real")).unwrap();
    std::os::unix::fs::symlink("real", &link).unwrap();
    let (data, folder) = (link.join("data"), directory.path().join("blocks"));
    let file_bytes = 128 << 20;
    let mut node = NodeWriter::new(
        &folder,
        NodeSettings {
            file_bytes,
            ..settings(7)
        },
    )
    .unwrap();
    let mut chain = Chain::of(1);
    node.write(&serialize(&chain.blocks[0])).unwrap();
    node.write(&serialize(&chain.blocks[1])).unwrap();
    let mut told = Vec::new();
    // A file has 52 of these.
    let add = |chain: &mut Chain, count, seconds| {
        for _ in 0..count {
            let next = chain.next().header(|header| header.time += seconds);
            let large = output_to(0, ScriptBuf::from_bytes(vec![0x6a; 320_000]));
            chain.push(next.coinbase(|coinbase| coinbase.output.push(large)).build());
        }
    };
    let mut left = Vec::new();
    follow(&data, &folder, options(1, LARGE), |said| {
        wait_for(chain.hash(), said, &mut told);
        for (depth, count) in [(0, 100), (2, 200), (0, 50), (0, 50), (0, 30)] {
            chain = chain.up_to(chain.height() - depth);
            let before = chain.blocks.len();
            add(&mut chain, count, depth);
            chain.blocks[before..]
                .iter()
                .for_each(|block| node.write(&serialize(block)).unwrap());
            if depth > 0 {
                left = told.clone();
            }
            wait_for(chain.hash(), said, &mut told);
        }
        assert_eq!(told, hashes(&chain));
    });
    // Blocks 1 to 52 are in the first file, 101 and 102 of the first branch in the second: these
    // left the chain.
    let kept = file_numbers(&data.join("kept"));
    assert_eq!((kept.first(), kept.len()), (Some(&1), 8), "{kept:?}");
    let cursor = Cursor::Block(left[left.len() - 1]);
    feed_to(&mut Feed::open(&data, cursor).unwrap(), &mut left);
    assert_eq!(left, told);
    // The next engine has what is left, and appends to it.
    chain.mine(1);
    node.write(&serialize(chain.tip())).unwrap();
    follow(&data, &folder, options(1, LARGE), |said| {
        wait_for(chain.hash(), said, &mut told);
    });
    assert_eq!(file_numbers(&data.join("kept")), kept);
    assert_eq!(set_in(&data), figures_of(&chain));
    // A cursor on a block that is no longer kept is refused.
    std::fs::remove_dir_all(data.join("kept")).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    let refused = Feed::open(&data, cursor).unwrap().next().unwrap().unwrap_err();
    assert!(matches!(refused, FeedError::KeptNoLonger { .. }), "{refused}");
}

/// The node is set up anew: its folder is empty for a while, and its files have another key.
#[test]
fn a_node_that_begins_anew_is_followed() {
    let directory = tempfile::tempdir().unwrap();
    let (data, folder) = (directory.path().join("data"), directory.path().join("blocks"));
    let mut node = NodeWriter::new(&folder, settings(7)).unwrap();
    let mut chain = Chain::of(20);
    chain
        .blocks
        .iter()
        .for_each(|block| node.write(&serialize(block)).unwrap());
    let mut told = Vec::new();
    follow(&data, &folder, options(1, LARGE), |said| {
        wait_for(chain.hash(), said, &mut told);
        std::fs::remove_dir_all(&folder).unwrap();
        let Said::Event(text) = said.recv_timeout(PATIENCE).unwrap() else {
            panic!("nothing is connected");
        };
        assert!(text.contains("the search is tried again"), "{text}");
        let mut node = NodeWriter::new(&folder, settings(9)).unwrap();
        chain
            .blocks
            .iter()
            .for_each(|block| node.write(&serialize(block)).unwrap());
        chain.mine(1);
        node.write(&serialize(chain.tip())).unwrap();
        let events = wait_for(chain.hash(), said, &mut told);
        assert!(
            events.iter().any(|text| text.contains("another file than before")),
            "{events:?}"
        );
        // A block that breaks a rule is passed over, and the chain goes on beside it.
        let bad = chain
            .next()
            .transaction(spend_into(chain.coinbase(21), vec![output(1)]))
            .build();
        node.write(&serialize(&bad)).unwrap();
        let Said::Event(text) = said.recv_timeout(PATIENCE).unwrap() else {
            panic!("nothing is connected");
        };
        assert!(text.contains("bad-txns-premature-spend-of-coinbase"), "{text}");
        // Each look finds it again, and it is said once.
        for _ in 0..3 {
            chain.mine(1);
            node.write(&serialize(chain.tip())).unwrap();
            assert_eq!(wait_for(chain.hash(), said, &mut told), Vec::<String>::new());
        }
    });
    assert_eq!(set_in(&data), figures_of(&chain));
}
