//! Both engines, Core, and the chain as the tests know it.

use super::core_node::{CoreAnswer, CoreLog, CoreNode};
use super::random::Random;
use crate::common::keys::Lock;
use crate::common::rejections::Rejections;
use crate::common::{Settings, internals};
use blockmill_block::Network;
use blockmill_chaingen::bitcoin::consensus::deserialize;
use blockmill_chaingen::bitcoin::hashes::Hash;
use blockmill_chaingen::bitcoin::{self, Amount, BlockHash, OutPoint, Transaction, TxOut};
use blockmill_chaingen::builder::BlockBuilder;
use blockmill_coins::stats::Hashes;
use blockmill_coins::{StatsBuilder, UtxoStats};
use blockmill_engine::engine::internals::Without;
use blockmill_engine::{Engine, Options, Signatures, Submission, Verdict};
use blockmill_kernel::KernelVerifier;
use blockmill_rules::{ScriptVerifier, SignatureCounts};
use blockmill_script::CoreVerifier;
use std::collections::HashMap;

use super::candidate::Kind;

/// Time between blocks in seconds.
const SPACING: u32 = 600;

/// Blocks at the start of a world, so that there are mature coins.
const BOOTSTRAP: u32 = 112;

/// A block that both sides know.
#[derive(Clone, Copy)]
pub(crate) struct Node {
    pub(crate) hash: BlockHash,
    pub(crate) parent: usize,
    pub(crate) height: u32,
    pub(crate) time: u32,
}

/// A coin that a block may spend.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spendable {
    pub(crate) outpoint: OutPoint,
    pub(crate) value: u64,
    pub(crate) kind: Kind,
}

pub(crate) struct World {
    engine: Engine<KernelVerifier>,
    rejections: Rejections,
    /// The same, with signatures verified in lanes.
    in_lanes: Engine<CoreVerifier>,
    rejections_in_lanes: Rejections,
    core: CoreNode,
    pub(crate) nodes: Vec<Node>,
    by_hash: HashMap<BlockHash, usize>,
    /// The node of the tip.
    pub(crate) tip: usize,
    /// Nodes of blocks that proved invalid.
    pub(crate) failed: Vec<usize>,
    /// Mature coins that no block has spent yet.
    pub(crate) coins: Vec<Spendable>,
    /// Coins by the height of the coinbase that made them.
    young: Vec<Vec<Spendable>>,
    recent: Vec<Vec<u8>>,
    /// Blocks whose mutated body was sent. The right body is still to be sent.
    pub(crate) owed: Vec<Vec<u8>>,
    /// Transactions of blocks that were connected lately.
    pub(crate) confirmed: Vec<Transaction>,
    /// The outcome of each block, for the message about a difference.
    history: Vec<String>,
    _directory: tempfile::TempDir,
}

impl World {
    pub(crate) fn new(log: &CoreLog, threads: usize) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let options = |signatures| Options {
            threads,
            signatures,
            ..Options::default()
        };
        let path = |name: &str| directory.path().join(name);
        // One engine resolves blocks by the serial code, the other one in lanes.
        let without_lanes = Without {
            lanes: true,
            ..Without::default()
        };
        let engine = Engine::builder(path("data"))
            .network(Network::Regtest)
            .options(options(Signatures::Kernel))
            .internals(Settings::without(Options::default(), without_lanes).internals)
            .open(KernelVerifier);
        let in_lanes = Engine::builder(path("lanes"))
            .network(Network::Regtest)
            .options(options(Signatures::Lanes))
            .internals(internals())
            .open(CoreVerifier::new(blockmill_script::Signatures::Lanes));
        let genesis = bitcoin::constants::genesis_block(bitcoin::Network::Regtest);
        let node = Node {
            hash: genesis.block_hash(),
            parent: 0,
            height: 0,
            time: genesis.header.time,
        };
        let mut world = Self {
            engine: engine.unwrap(),
            rejections: Rejections::default(),
            in_lanes: in_lanes.unwrap(),
            rejections_in_lanes: Rejections::default(),
            core: CoreNode::new(log),
            nodes: vec![node],
            by_hash: HashMap::from([(node.hash, 0)]),
            tip: 0,
            failed: Vec::new(),
            coins: Vec::new(),
            young: vec![Vec::new()],
            recent: Vec::new(),
            owed: Vec::new(),
            confirmed: Vec::new(),
            history: Vec::new(),
            _directory: directory,
        };
        for height in 1..=BOOTSTRAP {
            let bytes = coinbase_block(&world.nodes[world.tip], height).build_bytes();
            assert_eq!(world.judge(&bytes).as_deref(), Ok("connected"));
        }
        world
    }

    /// Sends a block to all sides. Returns the outcome (Core's reason, or this engine's verdict),
    /// or what differs.
    pub(crate) fn judge(&mut self, bytes: &[u8]) -> Result<String, String> {
        let core = self.core.judge(bytes);
        let ours = self.engine.submit(bytes.to_vec(), &mut self.rejections).unwrap();
        let in_lanes = self
            .in_lanes
            .submit(bytes.to_vec(), &mut self.rejections_in_lanes)
            .unwrap();
        let lanes_tip = self.in_lanes.tip_hash();
        if in_lanes != ours || lanes_tip != self.engine.tip_hash() {
            return Err(format!("{ours:?}, but in lanes {in_lanes:?}, tip {lanes_tip}"));
        }
        let reason = ours.reason.as_deref().map(|reason| match reason.find('(') {
            Some(place) => reason[..place].to_owned(),
            None => reason.to_owned(),
        });
        let malformed = ours.verdict == Verdict::Malformed;
        let duplicate = ours.verdict == Verdict::Duplicate;
        let rejected = matches!(ours.verdict, Verdict::Invalid | Verdict::Orphan);
        let blamed = ours.failed.or(ours.hash).map(|hash| hash.to_string());
        let core_reason = core.reason_for(blamed, ours.failed.is_none());
        let same = malformed != core.decodes
            && duplicate == core.duplicate
            && rejected == core_reason.is_some()
            && (!rejected || reason.as_deref() == core_reason)
            && self.engine.tip_hash().to_string() == core.tip;
        self.history.push(describe(bytes, &ours, &core));
        if !same {
            let last = self.history.len().saturating_sub(20);
            let history = self.history[last..].join("\n");
            return Err(format!("tip {}\n{history}", self.engine.tip_hash()));
        }
        self.note(bytes, ours.verdict, ours.failed.is_some());
        Ok(if rejected {
            reason.unwrap_or_default()
        } else {
            ours.verdict.word().to_owned()
        })
    }

    pub(crate) fn compare_sets(&self) {
        assert_eq!(figures(&self.in_lanes), figures(&self.engine));
    }

    /// Compares the sets and the rejected blocks of both engines. Returns how signatures were
    /// verified in lanes.
    pub(crate) fn finish(mut self) -> SignatureCounts {
        self.compare_sets();
        self.in_lanes.connect(&[], &mut self.rejections_in_lanes).unwrap();
        self.engine.connect(&[], &mut self.rejections).unwrap();
        assert_eq!(self.rejections_in_lanes.reasons(), self.rejections.reasons());
        self.in_lanes.totals().signatures
    }

    /// Notes a block that has become known.
    fn note(&mut self, bytes: &[u8], verdict: Verdict, ancestor_failed: bool) {
        let Ok(block) = deserialize::<bitcoin::Block>(bytes) else {
            return;
        };
        let hash = block.block_hash();
        let Some(&parent) = self.by_hash.get(&block.header.prev_blockhash) else {
            return;
        };
        if let (Some(&known), Verdict::Connected) = (self.by_hash.get(&hash), verdict) {
            // Its body came late, or it has become part of the best chain with a later block.
            return self.move_tip(known, &block);
        }
        if verdict == Verdict::Orphan || self.by_hash.contains_key(&hash) {
            return;
        }
        let node = Node {
            hash,
            parent,
            height: self.nodes[parent].height + 1,
            time: block.header.time,
        };
        self.nodes.push(node);
        let id = self.nodes.len() - 1;
        self.by_hash.insert(hash, id);
        match verdict {
            Verdict::Connected => self.move_tip(id, &block),
            Verdict::Invalid if !ancestor_failed => self.failed.push(id),
            _ => {}
        }
        if self.recent.len() > 50 {
            self.recent.remove(0);
        }
        self.recent.push(bytes.to_vec());
    }

    fn move_tip(&mut self, id: usize, block: &bitcoin::Block) {
        // Blocks that waited for this one may be connected with it.
        let tip = self.engine.tip_hash().to_string();
        self.tip = self
            .nodes
            .iter()
            .rposition(|node| node.hash.to_string() == tip)
            .unwrap_or(id);
        let height = self.nodes[id].height as usize;
        self.confirmed.extend_from_slice(&block.txdata[1..]);
        self.confirmed.drain(..self.confirmed.len().saturating_sub(30));
        for transaction in &block.txdata[1..] {
            for input in &transaction.input {
                self.coins.retain(|coin| coin.outpoint != input.previous_output);
            }
        }
        // A reorganisation has changed the coinbases of some blocks below. Their coins are not
        // used.
        self.young.resize(height, Vec::new());
        let txid = block.txdata[0].compute_txid();
        let outputs = block.txdata[0].output.iter().enumerate();
        self.young.push(
            outputs
                .filter_map(|(vout, output)| {
                    Kind::of(&output.script_pubkey).map(|kind| Spendable {
                        outpoint: OutPoint::new(txid, vout as u32),
                        value: output.value.to_sat(),
                        kind,
                    })
                })
                .collect(),
        );
        // Blocks that waited for this one are connected too. Their coins are not used.
        self.young.resize(self.nodes[self.tip].height as usize + 1, Vec::new());
        // These coins stay mature in a short reorganisation.
        if let Some(matured) = height.checked_sub(105) {
            let matured = std::mem::take(&mut self.young[matured]);
            self.coins.extend(matured);
        }
    }

    /// Coins of the coinbase that has `confirmations` confirmations at the next block.
    pub(crate) fn coinbase_coins(&self, confirmations: u32) -> &[Spendable] {
        let height = (self.nodes[self.tip].height + 1).saturating_sub(confirmations);
        &self.young[height as usize]
    }

    /// A block that was sent before.
    pub(crate) fn earlier_block(&self, random: &mut Random) -> Option<Vec<u8>> {
        if self.recent.is_empty() {
            return None;
        }
        Some(self.recent[random.below(self.recent.len() as u64) as usize].clone())
    }

    /// Median of the times of a node and the ten before it.
    pub(crate) fn median_time_past(&self, id: usize) -> u32 {
        let mut times = Vec::new();
        let mut next = id;
        while times.len() < 11 {
            times.push(self.nodes[next].time);
            if next == 0 {
                break;
            }
            next = self.nodes[next].parent;
        }
        times.sort_unstable();
        times[times.len() / 2]
    }

    /// The usual time of a block on this node.
    pub(crate) fn next_time(&self, id: usize) -> u32 {
        // The parent's own time may be as late as is allowed, so the median counts.
        self.median_time_past(id) + SPACING
    }

    /// A hash that no block has.
    pub(crate) fn unknown_hash(random: &mut Random) -> BlockHash {
        let mut bytes = [7; 32];
        bytes[..8].copy_from_slice(&random.next().to_le_bytes());
        BlockHash::from_byte_array(bytes)
    }
}

/// Tip, figures and hash of the UTXO set.
fn figures<V: ScriptVerifier + 'static>(engine: &Engine<V>) -> UtxoStats {
    StatsBuilder::new(Hashes::Serialized)
        .add_all(engine.coins().coins().unwrap())
        .unwrap()
        .finish(&engine.tip())
}

/// A line about a block: its hash, its parent, and what both sides said.
fn describe(bytes: &[u8], ours: &Submission, core: &CoreAnswer) -> String {
    let parent = deserialize::<bitcoin::Block>(bytes).map(|block| block.header.prev_blockhash);
    format!(
        "{:?} on {:?}: {} {:?}, failed {:?}; Core {:?}, tip {}",
        ours.hash,
        parent.ok(),
        ours.verdict.word(),
        ours.reason,
        ours.failed,
        core.reasons,
        core.tip
    )
}

/// A block whose coinbase pays to a script of every kind, and twice to those that keys lock.
pub(crate) fn coinbase_block(parent: &Node, height: u32) -> BlockBuilder {
    BlockBuilder::new(parent.hash, height, parent.time + SPACING).coinbase(|coinbase| {
        let total = coinbase.output[0].value.to_sat();
        let kinds = Kind::all().chain(Lock::ALL.map(Kind::Locked));
        let share = total / kinds.clone().count() as u64;
        coinbase.output = kinds
            .map(|kind| TxOut {
                value: Amount::from_sat(share),
                script_pubkey: kind.script_pubkey(),
            })
            .collect();
    })
}
