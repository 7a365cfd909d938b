//! Blocks in order, with the answers that they must get.

use crate::common::rejections::Rejections;
use crate::common::{
    BOTH_WAYS, Chain, CoreEngine, LARGE, Node, SUBSIDY, figures_of, hash_of, options, outpoint, output, output_to,
    spend_into, write_blocks,
};
use bitcoin::consensus::serialize;
use bitcoin::{Block, OutPoint, ScriptBuf};
use blockmill_block::BlockHash;
use blockmill_chaingen::builder::BlockBuilder;
use blockmill_engine::{Options, Rejected, Signatures, Submission, Verdict};
use std::collections::HashMap;

/// Height of the chain on which a scenario begins: forty coinbases are mature.
const START: u32 = 140;

/// Outputs of the block that fills a coins cache of 1 MiB.
const FAN_OUT: u64 = 12_000;

/// Threads, and bytes for coins. With no bytes the cache is emptied after every block.
const CONFIGURATIONS: [(usize, usize); 5] = [(1, 0), (1, 1 << 20), (1, LARGE), (4, 1 << 20), (4, LARGE)];

/// The answer that a block must get.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Expected {
    Connected,
    /// Invalid, now and whenever it is sent again: nothing is kept of it.
    Refused(&'static str),
    /// Invalid, and its hash is that of an invalid block from then on. It broke a rule before it
    /// was stored.
    Failed(&'static str),
    /// The same, with transaction and input that are to blame. The block broke the rule when it was
    /// to be connected.
    Rejected(&'static str, Option<usize>, Option<usize>),
    Orphan,
    Malformed,
}

struct Step {
    name: String,
    bytes: Vec<u8>,
    expected: Expected,
}

/// A chain under construction, and everything that is submitted on the way.
pub(crate) struct Scenario {
    pub(crate) chain: Chain,
    /// Height up to which the chain is connected before the first step.
    start: u32,
    steps: Vec<Step>,
    next_coin: u32,
    /// Whether there are blocks with enough signatures for lanes.
    pub(crate) signed: bool,
}

impl Scenario {
    pub(crate) fn new() -> Self {
        Self::at(START)
    }

    /// A scenario that begins on a chain of this height.
    pub(crate) fn at(height: u32) -> Self {
        let mut scenario = Self {
            chain: Chain::of(height),
            start: height,
            steps: Vec::new(),
            next_coin: 1,
            signed: false,
        };
        if height == START {
            let outputs = (0..FAN_OUT).map(|_| output(100)).collect();
            let fan_out = spend_into(scenario.coin(), outputs);
            scenario.good("many outputs", scenario.next().transaction(fan_out).build());
        }
        scenario
    }

    /// A block on the tip, still to be built.
    pub(crate) fn next(&self) -> BlockBuilder {
        self.chain.next()
    }

    /// A mature coinbase of [`SUBSIDY`] satoshi that no step has been given yet.
    pub(crate) fn coin(&mut self) -> OutPoint {
        let coin = self.chain.coinbase(self.next_coin);
        self.next_coin += 1;
        assert!(self.next_coin + 100 <= self.chain.height(), "no coin is left");
        coin
    }

    /// Connects a block that pays to this script, and returns the coins: `count` with `value`
    /// satoshi each.
    pub(crate) fn coins_to(&mut self, script: &ScriptBuf, count: u32, value: u64) -> Vec<OutPoint> {
        assert!(u64::from(count) * value <= SUBSIDY);
        let outputs = (0..count).map(|_| output_to(value, script.clone())).collect();
        let payment = spend_into(self.coin(), outputs);
        let coins = (0..count).map(|vout| outpoint(&payment, vout)).collect();
        self.good("coins to a script", self.next().transaction(payment).build());
        coins
    }

    /// A block that becomes the tip.
    pub(crate) fn good(&mut self, name: impl Into<String>, block: Block) {
        self.step(name, serialize(&block), Expected::Connected);
        self.chain.push(block);
    }

    /// A block that is invalid by its header, by itself, or because it is not what its header
    /// stands for.
    pub(crate) fn refused(&mut self, reason: &'static str, name: impl Into<String>, block: &Block) {
        self.step(name, serialize(block), Expected::Refused(reason));
    }

    /// The same for bytes that the `bitcoin` crate does not make.
    pub(crate) fn refused_bytes(&mut self, reason: &'static str, name: impl Into<String>, bytes: Vec<u8>) {
        self.step(name, bytes, Expected::Refused(reason));
    }

    /// A block that breaks a rule of its position in the chain.
    pub(crate) fn failed(&mut self, reason: &'static str, name: impl Into<String>, block: &Block) {
        self.step(name, serialize(block), Expected::Failed(reason));
    }

    /// A block that breaks a rule among the coins.
    pub(crate) fn rejected(
        &mut self,
        reason: &'static str,
        transaction: usize,
        name: impl Into<String>,
        block: &Block,
    ) {
        let expected = Expected::Rejected(reason, Some(transaction), None);
        self.step(name, serialize(block), expected);
    }

    /// A block that breaks a rule at an input.
    pub(crate) fn rejected_at(
        &mut self,
        reason: &'static str,
        (transaction, input): (usize, usize),
        name: impl Into<String>,
        block: &Block,
    ) {
        let expected = Expected::Rejected(reason, Some(transaction), Some(input));
        self.step(name, serialize(block), expected);
    }

    pub(crate) fn orphan(&mut self, name: impl Into<String>, block: &Block) {
        self.step(name, serialize(block), Expected::Orphan);
    }

    pub(crate) fn malformed(&mut self, name: impl Into<String>, bytes: Vec<u8>) {
        self.step(name, bytes, Expected::Malformed);
    }

    fn step(&mut self, name: impl Into<String>, bytes: Vec<u8>, expected: Expected) {
        self.steps.push(Step {
            name: name.into(),
            bytes,
            expected,
        });
    }

    /// Submits everything in each configuration, and compares the set at the end with that of the
    /// good blocks alone.
    pub(crate) fn play(self) {
        let good = figures_of(&self.chain);
        let configurations = BOTH_WAYS
            .into_iter()
            .flat_map(|way| CONFIGURATIONS.map(|configuration| (way, configuration)));
        for (signatures, (threads, cache_bytes_max)) in configurations {
            let case = format!("{signatures:?}, {threads} threads, {cache_bytes_max} bytes of cache");
            let mut node = Node::new(Options {
                signatures,
                ..options(threads, cache_bytes_max)
            });
            let start = write_blocks(&node.file("start.dat"), &self.chain.up_to(self.start).blocks);
            assert_eq!(node.connect(&[&start]).height, self.start);
            let mut rejections = Rejections::default();
            for step in &self.steps {
                let case = format!("{} ({case})", step.name);
                step.play(&mut node.engine, &mut rejections, &case);
            }
            assert_eq!(node.figures(), good, "{case}");
            self.check_flushes(node.engine.totals().flushes, cache_bytes_max);
            let in_lanes = node.engine.totals().signatures.lanes;
            assert_eq!(in_lanes > 0, self.signed && signatures == Signatures::Lanes, "{case}");
            assert_eq!(node.connect(&[]).rejected, [], "{case}");
            self.compare_rejected(rejections.0, &case);
        }
    }

    /// The configurations are as different as they are meant to be.
    fn check_flushes(&self, flushes: u64, cache_bytes_max: usize) {
        let connected = u64::from(self.chain.height() - self.start);
        match cache_bytes_max {
            0 => assert!(flushes > connected),
            LARGE => assert_eq!(flushes, 1),
            _ if self.start == START => assert!(flushes > 1),
            _ => {}
        }
    }

    /// The blocks that were reported as rejected, and what was to blame.
    fn compare_rejected(&self, rejected: Vec<Rejected>, case: &str) {
        let mut found: HashMap<_, _> = rejected
            .into_iter()
            .map(|rejected| (rejected.hash, rejected.reject))
            .collect();
        for step in &self.steps {
            if let Expected::Rejected(reason, transaction, input) = step.expected {
                let reject = found.remove(&step.hash()).unwrap();
                assert_eq!(reject.reason, reason, "{} ({case})", step.name);
                let blamed = (reject.transaction, reject.input);
                assert_eq!(blamed, (transaction, input), "{} ({case})", step.name);
            }
        }
        assert_eq!(found.len(), 0, "{found:?} ({case})");
    }
}

impl Step {
    fn hash(&self) -> BlockHash {
        BlockHash(blockmill_block::hash::sha256d(&self.bytes[..80]))
    }

    fn play(&self, engine: &mut CoreEngine, rejections: &mut Rejections, case: &str) {
        let before = engine.tip_hash();
        let check = |submission: Submission, verdict, reason: Option<&str>| {
            assert_eq!(submission.verdict, verdict, "{case}: {submission:?}");
            assert_eq!(submission.reason.as_deref(), reason, "{case}");
            assert_eq!(submission.failed, None, "{case}");
        };
        let first = engine.submit(self.bytes.clone(), rejections).unwrap();
        if self.expected == Expected::Connected {
            check(first, Verdict::Connected, None);
            assert_eq!(engine.tip_hash(), self.hash(), "{case}");
            return;
        }
        let again = engine.submit(self.bytes.clone(), rejections).unwrap();
        match self.expected {
            Expected::Connected => {}
            Expected::Refused(reason) => {
                check(first, Verdict::Invalid, Some(reason));
                check(again, Verdict::Invalid, Some(reason));
            }
            Expected::Failed(reason) | Expected::Rejected(reason, ..) => {
                check(first, Verdict::Invalid, Some(reason));
                check(again, Verdict::Invalid, Some("duplicate-invalid"));
            }
            Expected::Orphan => {
                check(first, Verdict::Orphan, Some("prev-blk-not-found"));
                check(again, Verdict::Orphan, Some("prev-blk-not-found"));
            }
            Expected::Malformed => {
                assert_eq!(first.verdict, Verdict::Malformed, "{case}");
                assert_eq!(again.verdict, Verdict::Malformed, "{case}");
            }
        }
        assert_eq!(engine.tip_hash(), before, "{case}");
    }
}

/// A block whose parent the engine does not know.
pub(crate) fn orphan_of(chain: &Chain) -> Block {
    let mut other = chain.clone();
    other.push(chain.next().header(|header| header.time += 7).build());
    assert_ne!(hash_of(other.tip()), chain.hash());
    other.next().build()
}
