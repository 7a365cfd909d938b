//! A model of feeds and their writer. The feeds poll between any two calls of the writer to its
//! disk, while it connects, follows, submits and reorganises, fails and is killed. What each
//! consumer gets is a path of the block tree, in which no block is missing or comes twice. A power
//! cut right after a delivery keeps what was delivered. Once the writer is idle, each consumer is
//! at its tip.

use super::older::{Damaged, SYNCED};
use super::options;
use super::power_cuts::{ScenarioError, for_all, open_on};
use crate::common::generated::scratch;
use crate::common::{Chain, LARGE, open, submit_good, write_blocks};
use bitcoin::Block;
use bitcoin::consensus::serialize;
use blockmill_block::BlockHash;
use blockmill_blockfiles::disk::SystemDisk;
use blockmill_chaingen::bitcoin;
use blockmill_coins::Tip;
use blockmill_engine::datadir::{Cursor, Feed, FeedBlock, FeedError, FeedEvent, OpenError};
use blockmill_engine::{Event, Observer, Options};
use blockmill_faultdisk::{Cut, Failing, JournalDisk, files_after, write_files};
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How a consumer reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reading {
    /// Everything, event by event.
    Events,
    /// Everything, in batches.
    Batches,
    /// One event at a time, of what others have polled.
    Slowly,
    /// With a new feed from its cursor each time.
    Reopened,
}

/// A consumer by its events alone.
struct Consumer {
    reading: Reading,
    feed: Option<Feed>,
    /// The blocks above genesis.
    chain: Vec<BlockHash>,
    /// Last tip reported.
    tip: Option<Tip>,
}

impl Consumer {
    fn new(reading: Reading, feed: Option<Feed>) -> Self {
        Self {
            reading,
            feed,
            chain: Vec::new(),
            tip: None,
        }
    }

    fn cursor(&self) -> Cursor {
        self.chain.last().map_or(Cursor::Height(0), |hash| Cursor::Block(*hash))
    }

    fn connected(chain: &mut Vec<BlockHash>, block: &blockmill_engine::SpendingBlock) {
        assert_eq!(block.height as usize, chain.len() + 1);
        if let Some(last) = chain.last() {
            assert_eq!(block.block.header().prev_block_hash, *last);
        }
        assert!(block.undo.fits(&block.block));
        chain.push(block.block.hash());
    }

    fn apply(&mut self, event: FeedEvent) {
        match event {
            FeedEvent::Connected(block) => Self::connected(&mut self.chain, &block),
            FeedEvent::Disconnected(block) => assert_eq!(self.chain.pop(), Some(block.block.hash())),
            FeedEvent::Tip(tip) => {
                assert_eq!(tip.height as usize, self.chain.len());
                assert!(self.chain.last().is_none_or(|last| *last == tip.hash));
                self.tip = Some(tip);
            }
        }
    }

    /// Takes what there is.
    fn take(&mut self, data: &Path) -> Result<(), FeedError> {
        if self.reading == Reading::Reopened || self.feed.is_none() {
            self.feed = Some(Feed::open(data, self.cursor())?);
        }
        let Some(mut feed) = self.feed.take() else {
            return Ok(());
        };
        let taken = self.take_from(&mut feed);
        self.feed = Some(feed);
        taken
    }

    fn take_from(&mut self, feed: &mut Feed) -> Result<(), FeedError> {
        if self.reading == Reading::Slowly {
            return feed.next().transpose().map(|event| {
                if let Some(event) = event {
                    self.apply(event);
                }
            });
        }
        if !feed.poll()? {
            return Ok(());
        }
        if self.reading == Reading::Batches {
            let chain = &mut self.chain;
            let mut take = |block: FeedBlock| {
                if block.is_connected {
                    Self::connected(chain, &block.block);
                } else {
                    assert_eq!(chain.pop(), Some(block.block.block.hash()));
                }
                Ok(())
            };
            let tip = feed.run(1, &|block| Ok::<_, FeedError>(block), &mut take)?;
            self.apply(FeedEvent::Tip(tip));
            return Ok(());
        }
        for event in feed {
            self.apply(event?);
        }
        Ok(())
    }
}

/// All consumers of a directory, which take what there is between any two calls of its writer.
struct Consumers {
    data: PathBuf,
    consumers: Vec<Consumer>,
    /// Number of steps at the last turn.
    steps: usize,
    turns: usize,
    /// Number of steps at which the first consumer came to a tip, and that tip.
    delivered: Vec<(usize, BlockHash)>,
    seen: BTreeSet<[u8; 32]>,
}

/// New consumers begin after so many turns, as long as there are fewer than this many.
const TURNS: usize = 9;
const CONSUMERS_MAX: usize = 16;

impl Consumers {
    fn new(data: &Path) -> Self {
        Self {
            data: data.to_owned(),
            consumers: Vec::new(),
            steps: usize::MAX,
            turns: 0,
            delivered: Vec::new(),
            seen: BTreeSet::new(),
        }
    }

    fn turn(&mut self, steps: usize) {
        if self.steps == steps {
            return;
        }
        self.steps = steps;
        self.turns += 1;
        if self.turns % TURNS == 1 && self.consumers.len() < CONSUMERS_MAX {
            let readings = [Reading::Events, Reading::Batches, Reading::Reopened];
            let reading = readings[self.consumers.len() % readings.len()];
            let consumer = Consumer::new(reading, None);
            self.consumers.push(consumer);
            // Two more share the chain of one that polls.
            if let Some(feed) = self.consumers.first().and_then(|first| first.feed.as_ref())
                && self.consumers.len() % 4 == 2
            {
                let shared = [Reading::Slowly, Reading::Batches];
                let shared = shared.map(|reading| Consumer::new(reading, feed.another(Cursor::Height(0)).ok()));
                self.consumers.extend(shared);
            }
        }
        for consumer in &mut self.consumers {
            // A new feed reads everything.
            if consumer.reading == Reading::Reopened && !self.turns.is_multiple_of(4) {
                continue;
            }
            match consumer.take(&self.data) {
                Ok(()) | Err(FeedError::Behind { .. }) => {}
                // The directory is being made.
                Err(FeedError::Open(OpenError::NotThere { .. })) if consumer.chain.is_empty() => {}
                Err(error) => panic!("after {steps} steps: {error}"),
            }
            if let Some(tip) = consumer.tip
                && tip.height > 0
                && self.seen.insert(tip.hash.0)
            {
                self.delivered.push((steps, tip.hash));
            }
        }
    }

    /// Gives each consumer the turns that it needs to come to a block.
    fn settle(&mut self, tip: BlockHash) {
        let end = Instant::now() + Duration::from_secs(20);
        for consumer in &mut self.consumers {
            while consumer.tip.map(|tip| tip.hash) != Some(tip) {
                assert!(Instant::now() < end, "{:?} does not come to the tip", consumer.reading);
                consumer.take(&self.data).unwrap();
            }
        }
    }
}

/// Ends `follow` once it has caught up.
struct Once(Arc<AtomicBool>);

impl Observer for Once {
    fn event(&mut self, event: &Event<'_>) {
        self.0.fetch_or(matches!(event, Event::CaughtUp(_)), Ordering::Relaxed);
    }
}

/// What a writer does: a chain from files in several flushes, a branch that replaces its end, the
/// first chain again, and blocks that are submitted, in two branches. Another writer then connects
/// a branch from far below.
struct Story {
    files: [PathBuf; 4],
    submitted: Vec<Block>,
    tip: BlockHash,
    last: BlockHash,
    _folder: TempDir,
}

/// A branch of a chain: from `height` on, `count` other blocks.
fn branch(chain: &Chain, height: u32, count: u32) -> Chain {
    let mut branch = chain.up_to(height);
    let seconds = 1 + count;
    branch.push(branch.next().header(|header| header.time += seconds).build());
    branch.mine(count - 1);
    branch
}

impl Story {
    fn new() -> Self {
        let folder = scratch();
        let write =
            |name: &str, chain: &Chain, from: usize| write_blocks(&folder.path().join(name), &chain.blocks[from..]);
        let first = Chain::of(8);
        let second = branch(&first, 5, 4);
        let mut again = first.clone();
        again.mine(3);
        let submitted = branch(&again, 10, 3);
        let other = branch(&submitted, 11, 4);
        let last = branch(&first, 3, 14);
        Self {
            files: [
                write("first", &first, 0),
                write("second", &second, 6),
                write("again", &again, 9),
                write("last", &last, 4),
            ],
            tip: other.hash(),
            last: last.hash(),
            submitted: [&submitted.blocks[11..], &other.blocks[12..]].concat(),
            _folder: folder,
        }
    }

    fn run(&self, disk: &JournalDisk, data: &Path, options: &Options) -> Result<(), ScenarioError> {
        let begin = |options| open_on(Arc::new(disk.clone()), data, options);
        let stop_at_height = Some(3);
        let mut engine = begin(Options {
            stop_at_height,
            ..options.clone()
        })?;
        engine.connect(&self.files[..1], &mut ())?;
        drop(engine);
        let mut engine = begin(options.clone())?;
        engine.connect(&self.files[..1], &mut ())?;
        drop(engine);
        let stop = Arc::new(AtomicBool::new(false));
        let mut engine = begin(Options {
            stop: Arc::clone(&stop),
            ..options.clone()
        })?;
        let (mut follower, mut once) = (engine.follow(&self.files[..2]), Once(stop));
        while follower.next(&mut once)?.is_some() {}
        drop(engine);
        let mut engine = begin(options.clone())?;
        engine.connect(&self.files[..3], &mut ())?;
        drop(engine);
        let mut engine = begin(Options {
            flush_interval: Duration::ZERO,
            ..options.clone()
        })?;
        for block in &self.submitted {
            engine.submit(serialize(block), &mut ())?;
        }
        Ok(engine.flush()?)
    }

    /// What the next writer does, whatever the first one has come to.
    fn end(&self, disk: &JournalDisk, data: &Path, options: &Options) {
        let mut engine = open_on(Arc::new(disk.clone()), data, options.clone()).unwrap();
        let files = [&self.files[..1], &self.files[3..]].concat();
        engine.connect(&files, &mut ()).unwrap();
        assert_eq!(engine.tip_hash(), self.last);
    }
}

/// Runs the story on a disk, with consumers. Returns what they got, and whether the first writer
/// came to its end.
fn run(story: &Story, disk: &JournalDisk, data: &Path, options: &Options) -> (Vec<(usize, BlockHash)>, bool) {
    let consumers = Arc::new(Mutex::new(Consumers::new(data)));
    let watched = Arc::clone(&consumers);
    disk.watch(move |steps| watched.lock().unwrap().turn(steps));
    let ended = story.run(disk, data, options);
    disk.fail(Failing::Nothing);
    if ended.is_ok() {
        consumers.lock().unwrap().settle(story.tip);
    }
    story.end(disk, data, options);
    let mut consumers = consumers.lock().unwrap();
    consumers.settle(story.last);
    (std::mem::take(&mut consumers.delivered), ended.is_ok())
}

/// Cuts the power when a consumer has just got a block. The next writer, and a feed before it, must
/// have the block.
fn check_power_cuts(disk: &JournalDisk, data: &Path, left: &Path, delivered: &[(usize, BlockHash)], options: &Options) {
    let steps = disk.steps();
    for &(count, hash) in delivered {
        for cut in [Cut::Power, Cut::Torn(count as u64)] {
            write_files(&files_after(&steps, count, cut), data, left);
            let cursor = Cursor::Block(hash);
            let at = format!("{hash}, {cut:?} after {count} steps");
            // The mark may be lost, and the commit is not.
            let mut feed = Feed::open(left, cursor).unwrap_or_else(|error| panic!("{at}: {error}"));
            match feed.next() {
                Some(Ok(FeedEvent::Tip(tip))) => assert_eq!(tip.hash, hash, "{at}"),
                Some(Err(FeedError::Behind { .. })) => {}
                event => panic!("{at}: {event:?}"),
            }
            let engine = open_on(Arc::new(SystemDisk), left, options.clone()).unwrap();
            assert_eq!(engine.tip_hash(), hash, "{at}");
            assert!(feed.poll().unwrap() || feed.cursor().hash == hash, "{at}");
            drop(engine);
            std::fs::remove_dir_all(left).unwrap();
        }
    }
}

fn settings() -> Options {
    options(1, LARGE)
}

#[test]
fn feeds_deliver_a_path_of_durable_blocks_between_any_two_writes() {
    let (story, folder) = (Story::new(), scratch());
    for (number, options) in [
        settings(),
        Options {
            flush_interval: Duration::ZERO,
            ..settings()
        },
        // Background flushes.
        Options {
            flush_interval: Duration::from_millis(1),
            ..options(2, LARGE)
        },
    ]
    .into_iter()
    .enumerate()
    {
        let (data, left) = (folder.path().join(format!("data-{number}")), folder.path().join("left"));
        let disk = JournalDisk::new(Failing::Nothing);
        let (delivered, has_ended) = run(&story, &disk, &data, &options);
        assert!(has_ended && delivered.len() > 10, "{delivered:?}");
        check_power_cuts(&disk, &data, &left, &delivered, &options);
    }
}

#[test]
fn feeds_continue_whenever_their_writer_fails_or_is_killed() {
    let (story, folder) = (Story::new(), scratch());
    let options = settings();
    let whole = JournalDisk::new(Failing::Nothing);
    let data = folder.path().join("whole");
    story.run(&whole, &data, &options).unwrap();
    let calls = whole.calls();
    let cut = AtomicUsize::new(0);
    for_all(calls.div_ceil(2), |number| {
        let call = number * 2;
        let failing = match number % 4 {
            // As a kill: nothing changes any more.
            0..3 => Failing::From(call, ErrorKind::Other),
            _ => Failing::Once(call, ErrorKind::StorageFull),
        };
        let data = folder.path().join(format!("data-{number}"));
        let disk = JournalDisk::new(failing);
        let (delivered, has_ended) = run(&story, &disk, &data, &options);
        cut.fetch_add(usize::from(!has_ended), Ordering::Relaxed);
        if number % 16 == 0 {
            let left = folder.path().join(format!("left-{number}"));
            check_power_cuts(&disk, &data, &left, &delivered, &options);
        }
        std::fs::remove_dir_all(&data).unwrap();
    });
    eprintln!("{} of {} runs were cut", cut.into_inner(), calls.div_ceil(2));
}

/// One consumer reads while another feed of the same chain polls reorganisations.
#[test]
fn a_reorganisation_polled_by_another_feed_leaves_no_block_out() {
    let folder = scratch();
    let data = folder.path().join("data");
    let options = Options {
        flush_interval: Duration::ZERO,
        ..settings()
    };
    let mut engine = open(&data, options);
    let mut chain = Chain::of(10);
    for block in &chain.blocks[1..] {
        submit_good(&mut engine, block);
    }
    let polling = Feed::open(&data, Cursor::Height(0)).unwrap();
    let mut feed = polling.another(Cursor::Height(0)).unwrap();
    let has_ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut consumer = Consumer::new(Reading::Slowly, None);
            loop {
                let is_last = has_ended.load(Ordering::Relaxed);
                match feed.next().transpose() {
                    Ok(Some(event)) => consumer.apply(event),
                    Ok(None) if is_last => return consumer.chain,
                    Ok(None) | Err(FeedError::Behind { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        });
        let poller = scope.spawn(|| {
            while !has_ended.load(Ordering::Relaxed) {
                polling.poll_shared().unwrap();
            }
        });
        for round in 0..60 {
            let depth = 1 + round % 4;
            let other = branch(&chain, chain.height() - depth, depth + 1);
            for block in &other.blocks[(chain.height() - depth + 1) as usize..] {
                engine.submit(serialize(block), &mut ()).unwrap();
            }
            chain = other;
            assert_eq!(engine.tip_hash(), chain.hash());
        }
        polling.poll_shared().unwrap();
        has_ended.store(true, Ordering::Relaxed);
        poller.join().unwrap();
        let expected: Vec<_> = chain.blocks[1..].iter().map(crate::common::hash_of).collect();
        assert_eq!(reader.join().unwrap(), expected);
    });
}

/// The end of the coin log is lost, and a writer connects its blocks again.
#[test]
fn a_lost_end_of_the_coin_log_disconnects_nothing() {
    let damaged = Damaged::new();
    let hashes: Vec<_> = damaged.chain.blocks.iter().map(crate::common::hash_of).collect();
    let at = SYNCED as usize;
    let refused = Feed::open(&damaged.data, Cursor::Block(hashes[at]))
        .map(drop)
        .unwrap_err();
    assert!(matches!(refused, FeedError::Open(OpenError::Older { .. })), "{refused}");
    let consumers = Arc::new(Mutex::new(Consumers::new(&damaged.data)));
    for reading in [Reading::Events, Reading::Batches, Reading::Reopened] {
        let mut consumer = Consumer::new(reading, None);
        consumer.chain = hashes[1..=at].to_vec();
        consumers.lock().unwrap().consumers.push(consumer);
    }
    let disk = JournalDisk::new(Failing::Nothing);
    let (watched, turns) = (Arc::clone(&consumers), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&turns);
    let chain = hashes.clone();
    disk.watch(move |_| {
        let consumers = &mut *watched.lock().unwrap();
        for consumer in &mut consumers.consumers {
            match consumer.take(&consumers.data) {
                Ok(()) => {}
                Err(FeedError::Behind { .. } | FeedError::Open(OpenError::Older { .. })) => {
                    counted.fetch_add(1, Ordering::Relaxed);
                }
                Err(error) => panic!("{error}"),
            }
            let length = consumer.chain.len();
            assert!(
                length >= at && consumer.chain == chain[1..=length],
                "{:?}",
                consumer.reading
            );
        }
    });
    let options = Options {
        flush_interval: Duration::ZERO,
        ..settings()
    };
    let mut engine = open_on(Arc::new(disk), &damaged.data, options).unwrap();
    engine.connect(std::slice::from_ref(&damaged.blocks), &mut ()).unwrap();
    drop(engine);
    assert!(turns.load(Ordering::Relaxed) > 10);
    consumers.lock().unwrap().settle(hashes[hashes.len() - 1]);
}
