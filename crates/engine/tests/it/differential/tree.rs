//! The tree of blocks as the tests know it, and coins that further blocks may spend.

use super::candidate::Kind;
use super::random::Random;
use crate::common::keys::Lock;
use blockmill_chaingen::bitcoin::consensus::deserialize;
use blockmill_chaingen::bitcoin::hashes::Hash;
use blockmill_chaingen::bitcoin::{self, Amount, BlockHash, OutPoint, Transaction, TxOut};
use blockmill_chaingen::builder::BlockBuilder;
use blockmill_engine::Verdict;
use std::collections::HashMap;

/// Time between blocks in seconds.
const SPACING: u32 = 600;

/// Blocks at the start of a chain, so that there are mature coins.
pub(crate) const BOOTSTRAP: u32 = 112;

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

/// Blocks, valid or not, by what was said of them.
#[derive(Clone)]
pub(crate) struct Tree {
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
}

impl Tree {
    /// The first block alone.
    pub(crate) fn new() -> Self {
        let genesis = bitcoin::constants::genesis_block(bitcoin::Network::Regtest);
        let node = Node {
            hash: genesis.block_hash(),
            parent: 0,
            height: 0,
            time: genesis.header.time,
        };
        Self {
            nodes: vec![node],
            by_hash: HashMap::from([(node.hash, 0)]),
            tip: 0,
            failed: Vec::new(),
            coins: Vec::new(),
            young: vec![Vec::new()],
            recent: Vec::new(),
            owed: Vec::new(),
            confirmed: Vec::new(),
        }
    }

    /// Makes a node the tip, so that blocks are made on it.
    pub(crate) fn build_on(&mut self, id: usize) {
        self.tip = id;
        let heights = self.nodes[id].height as usize + 1;
        self.young.resize(self.young.len().max(heights), Vec::new());
    }

    /// Notes a block that has become known. `tip` is the hash of the tip now.
    pub(crate) fn note(&mut self, bytes: &[u8], verdict: Verdict, ancestor_failed: bool, tip: &str) {
        let Ok(block) = deserialize::<bitcoin::Block>(bytes) else {
            return;
        };
        let hash = block.block_hash();
        let Some(&parent) = self.by_hash.get(&block.header.prev_blockhash) else {
            return;
        };
        if let (Some(&known), Verdict::Connected) = (self.by_hash.get(&hash), verdict) {
            // Its body came late, or it has become part of the best chain with a later block.
            return self.move_tip(known, &block, tip);
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
            Verdict::Connected => self.move_tip(id, &block, tip),
            Verdict::Invalid if !ancestor_failed => self.failed.push(id),
            _ => {}
        }
        if self.recent.len() > 50 {
            self.recent.remove(0);
        }
        self.recent.push(bytes.to_vec());
    }

    fn move_tip(&mut self, id: usize, block: &bitcoin::Block, tip: &str) {
        // Blocks that waited for this one may be connected with it.
        self.tip = self
            .nodes
            .iter()
            .rposition(|node| node.hash.to_string() == *tip)
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
