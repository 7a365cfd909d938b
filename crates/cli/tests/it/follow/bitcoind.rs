//! `follow` and a feed beside a real node: Core's `bitcoind`, whose path is in
//! `BLOCKMILL_BITCOIND`. At each quiet moment the set has the hash that the node gives for its own.

pub(crate) mod rpc;

use super::consumer::Consumer;
use super::{Events, PATIENCE, Place, Running, stop};
use crate::common::{Rng, Scratch, blockmill, run, stats};
use crate::export_statistics::bitcoind::compare_statistics;
use blockmill_chaingen::bitcoin::consensus::encode::serialize_hex;
use blockmill_chaingen::bitcoin::{OutPoint, Transaction};
use blockmill_chaingen::builder::spend_any;
use blockmill_datadir::Status;
use rpc::{Bitcoind, NodeKind};
use serde_json::{Value, json};
use std::fs::File;
use std::path::PathBuf;
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

/// Blocks before the first spends, as many as a coinbase has to wait for, and some.
const FIRST: usize = 110;

/// Core's name for a script that anybody can spend.
const ANYBODY: &str = "raw(51)#8lvh9jxk";

/// The deepest reorganisation.
const DEPTH: usize = 50;

/// The number in an environment variable, or else one for a short run.
fn number(variable: &str, short: usize) -> usize {
    let asked = std::env::var(variable).ok();
    asked.and_then(|text| text.parse().ok()).unwrap_or_else(|| {
        eprintln!("short: {short}; {variable} sets the number");
        short
    })
}

/// Where a follower writes what is not as it should be.
fn log_of(place: &Place) -> PathBuf {
    place.data.with_extension("log")
}

fn follow(place: &Place) -> Running {
    let log = File::options().append(true).create(true).open(log_of(place)).unwrap();
    Running::of(place.follow_command().stderr(log))
}

/// A node, a follower and a consumer, and what was done to them.
struct World {
    node: Bitcoind,
    place: Place,
    follower: Running,
    consumer: Consumer,
    events: Events,
    random: Rng,
    /// Blocks that the node has mined.
    mined: usize,
    /// From the node's answer until the consumer had the block.
    delays: Vec<Duration>,
    ours_killed: usize,
    node_killed: usize,
    node_restarted: usize,
    reorganised: usize,
    compared: usize,
    /// The highest block whose file the node has removed.
    pruned: i64,
}

impl World {
    fn new(scratch: &Scratch, program: &str, kind: NodeKind, seed: u64) -> Self {
        let node = Bitcoind::start(program, &scratch.folder("node"), kind);
        node.call("generatetodescriptor", json!([FIRST, ANYBODY]));
        let place = Place {
            blocks: node.blocks(),
            ..Place::new(scratch)
        };
        let follower = follow(&place);
        place.wait_for_data();
        let events = Events::of_process(&place.data, "0");
        Self {
            node,
            place,
            follower,
            consumer: Consumer::default(),
            events,
            random: Rng::new(seed),
            mined: 0,
            delays: Vec::new(),
            ours_killed: 0,
            node_killed: 0,
            node_restarted: 0,
            reorganised: 0,
            compared: 0,
            pruned: -1,
        }
    }

    /// A transaction that spends the newest coinbase that may be spent, and one that spends that.
    fn transactions(&mut self) -> Vec<String> {
        let height = self.node.height();
        if self.random.below(3) == 0 {
            return Vec::new();
        }
        let block = self.node.block_hash(height - 102);
        let txid = self.node.call("getblock", json!([block, 1]))["tx"][0].clone();
        let of = |transaction: &Transaction| OutPoint {
            txid: transaction.compute_txid(),
            vout: 0,
        };
        let coinbase = OutPoint {
            txid: txid.as_str().unwrap().parse().unwrap(),
            vout: 0,
        };
        let first = spend_any(coinbase, 5_000 + self.random.below(1_000) as u64);
        let second = spend_any(of(&first), 4_000);
        vec![serialize_hex(&first), serialize_hex(&second)]
    }

    fn mine(&mut self) {
        self.node.pass_time(1 + self.random.below(600) as u64);
        let transactions = self.transactions();
        self.node.call("generateblock", json!([ANYBODY, transactions]));
        self.mined += 1;
    }

    /// Another branch takes over.
    fn reorganise(&mut self, depth: usize) {
        let first = self.node.block_hash(self.node.height() + 1 - depth);
        self.node.call("invalidateblock", json!([first]));
        (0..=depth).for_each(|_| self.mine());
        // It has less work now.
        self.node.call("reconsiderblock", json!([first]));
        self.reorganised += 1;
    }

    /// The height of our own tip.
    fn own_height(&self) -> usize {
        Status::of(&self.place.data).unwrap().tip.height as usize
    }

    /// A node that was killed has forgotten blocks, and writes others over them.
    fn mine_above(&mut self, height: usize) {
        while self.node.height() <= height {
            self.mine();
        }
    }

    fn kill_follower(&mut self) {
        // The old process has the lock until it has ended.
        let _ = self.follower.0.kill();
        let _ = self.follower.0.wait();
        self.follower = follow(&self.place);
        self.ours_killed += 1;
    }

    fn step(&mut self, kills: usize, blocks: usize) {
        match self.random.below(8) {
            0 => {
                let depth = 1 + self.random.below(DEPTH.min(self.node.height() - FIRST + 5));
                self.reorganise(depth);
            }
            _ => self.mine(),
        }
        // About as often as is asked for.
        if self.ours_killed * blocks < kills * self.mined {
            self.kill_follower();
        }
        // What it forgets is most of what there is to be seen.
        let forgets = self.node.kind == NodeKind::Forgetting;
        let kinds = if forgets { 8 } else { 40 };
        match self.random.below(kinds) {
            0 => {
                if !forgets {
                    // To hash its set, the node writes what it knows to its disk.
                    self.settle();
                    self.compare();
                }
                self.node.kill_and_start();
                self.node_killed += 1;
                self.mine_above(self.own_height());
            }
            1 => {
                self.node.stop_and_start();
                self.node_restarted += 1;
            }
            2 => self.events = Events::of_process(&self.place.data, &self.consumer.cursor()),
            3 if self.node.kind == NodeKind::Pruning && self.node.height() > 300 => {
                // -1 where it has removed nothing.
                let height = self.node.height() - 300;
                self.pruned = self.node.call("pruneblockchain", json!([height])).as_i64().unwrap();
            }
            _ => {}
        }
    }

    /// Waits until the consumer is at the node's tip.
    fn settle(&mut self) {
        let (tip, start) = (self.node.best(), Instant::now());
        while self.consumer.cursor() != tip {
            let exited = self.follower.0.try_wait().unwrap();
            let log = || std::fs::read_to_string(log_of(&self.place)).unwrap();
            assert_eq!(exited, None, "follow has ended:\n{}", log());
            match self.events.lines.recv_timeout(Duration::from_secs(1)) {
                Ok(line) => {
                    self.consumer.apply(&line);
                }
                Err(RecvTimeoutError::Timeout) => {
                    let own = self.own_height();
                    assert!(
                        start.elapsed() < PATIENCE,
                        "{tip} does not come: our height is {own}, the consumer's {}, the node's {}\n{}",
                        self.consumer.chain.len(),
                        self.node.height(),
                        log()
                    );
                }
                Err(RecvTimeoutError::Disconnected) => panic!("the feed has ended"),
            }
        }
        self.delays.push(start.elapsed());
    }

    /// Compares the set, and the consumer's coins, with the node's own set.
    fn compare(&mut self) {
        let own = stats(&self.place.data);
        for (kind, name) in [("muhash", "muhash"), ("hash_serialized_3", "hash_serialized_3")] {
            let node = self.node.call("gettxoutsetinfo", json!([kind, null, false]));
            assert_eq!(own["bestblock"], node["bestblock"]);
            assert_eq!(own[name], node[name], "height {}", own["height"]);
            assert_eq!(own["txouts"], node["txouts"]);
            assert_eq!(Value::from(self.consumer.coins.len()), node["txouts"]);
        }
        self.compared += 1;
    }
}

/// Compares the filters of all blocks with those of the node's index.
fn compare_filters(world: &World) {
    let mut command = blockmill();
    command.args(["export", "filters", "--format", "jsonl", "--out", "-", "--data"]);
    let filters = run(command.arg(&world.place.data)).ends_with(0).stdout;
    assert_eq!(filters.lines().count(), world.node.height() + 1);
    for line in filters.lines() {
        let own: Value = serde_json::from_str(line).unwrap();
        let node = world.node.call("getblockfilter", json!([own["block_hash"]]));
        assert_eq!(
            (&own["filter"], &own["filter_header"]),
            (&node["filter"], &node["header"])
        );
    }
}

/// Path of Core's `bitcoind`; none, with a message, where it is not given.
pub(crate) fn program() -> Option<String> {
    let given = std::env::var("BLOCKMILL_BITCOIND").ok().filter(|path| !path.is_empty());
    if given.is_none() {
        eprintln!("skipped: BLOCKMILL_BITCOIND has no path of Core's bitcoind");
    }
    given
}

/// Runs a node and a follower. Skipped without a node.
fn beside_a_node(kind: NodeKind, seed: u64) {
    let Some(program) = program() else {
        return;
    };
    let blocks = number("BLOCKMILL_TEST_NODE_BLOCKS", 150);
    let kills = number("BLOCKMILL_TEST_NODE_KILLS", 8);
    let scratch = Scratch::new();
    let mut world = World::new(&scratch, &program, kind, seed);
    world.settle();
    world.compare();
    while world.mined < blocks {
        world.step(kills, blocks);
        if world.random.below(2) == 0 {
            world.settle();
            world.compare();
        }
    }
    world.settle();
    world.compare();
    if kind == NodeKind::Indexing {
        compare_filters(&world);
        let data = world.place.data.to_str().unwrap();
        compare_statistics(&world.node, &["--data", data]);
    }
    assert_eq!(stop(world.follower), Some(0));
    world.delays.sort_unstable();
    eprintln!(
        "{} blocks, {} reorganisations, {} quiet moments; killed: ours {} times, the node {}; restarted: the node {}; \
         pruned up to {}; block mined to event received: median {:?}, p99 {:?}, with restarts",
        world.mined,
        world.reorganised,
        world.compared,
        world.ours_killed,
        world.node_killed,
        world.node_restarted,
        world.pruned,
        world.delays[world.delays.len() / 2],
        world.delays[world.delays.len() * 99 / 100],
    );
    assert!(world.ours_killed >= kills.min(world.mined) / 2 && world.reorganised > 0);
}

#[test]
fn the_hash_is_the_nodes_at_each_quiet_moment() {
    beside_a_node(NodeKind::Indexing, 31);
}

#[test]
fn the_hash_is_that_of_a_node_that_prunes() {
    beside_a_node(NodeKind::Pruning, 32);
}

#[test]
fn the_hash_is_that_of_a_node_that_forgets_blocks() {
    beside_a_node(NodeKind::Forgetting, 33);
}
