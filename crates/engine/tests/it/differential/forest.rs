//! Random trees of blocks for imports, and their records in the order of block files.

use super::candidate::{CSV_BLOCKS, Candidate, Kind};
use super::mutations;
use super::random::Random;
use super::tree::{BOOTSTRAP, Spendable, Tree, coinbase_block};
use blockmill_block::BlockHash;
use blockmill_chaingen::bitcoin::consensus::{deserialize_partial, serialize};
use blockmill_chaingen::bitcoin::hashes::Hash;
use blockmill_chaingen::bitcoin::{Amount, Block, OutPoint};
use std::collections::HashMap;
use std::sync::OnceLock;

/// The blocks that all trees stand on, and the tree of them.
struct Trunk {
    tree: Tree,
    blocks: Vec<Block>,
}

fn trunk() -> &'static Trunk {
    static TRUNK: OnceLock<Trunk> = OnceLock::new();
    TRUNK.get_or_init(|| {
        let (mut tree, mut blocks) = (Tree::new(), Vec::new());
        for height in 1..=BOOTSTRAP {
            let block = coinbase_block(&tree.nodes[tree.tip], height).build();
            let hash = block.block_hash().to_string();
            tree.note(&serialize(&block), blockmill_engine::Verdict::Connected, false, &hash);
            blocks.push(block);
        }
        Trunk { tree, blocks }
    })
}

/// A random tree of blocks, some of them invalid.
pub(crate) struct Forest {
    tree: Tree,
    /// For each node from the trunk's end on, the coins that blocks on it may spend, and the height
    /// from which they may.
    coins: HashMap<usize, Vec<(u32, Spendable)>>,
    /// All blocks that decode.
    pub(crate) blocks: HashMap<BlockHash, Block>,
    /// The files: records that may be blocks.
    pub(crate) files: Vec<Vec<Vec<u8>>>,
    /// What was done to blocks.
    pub(crate) mutations: Vec<&'static str>,
}

impl Forest {
    pub(crate) fn new(random: &mut Random) -> Self {
        let Trunk { tree, blocks } = trunk();
        let mut forest = Self {
            tree: tree.clone(),
            coins: HashMap::from([(tree.tip, tree.coins.iter().map(|&coin| (0, coin)).collect())]),
            blocks: HashMap::new(),
            files: Vec::new(),
            mutations: Vec::new(),
        };
        for block in blocks {
            forest.note_block(block.clone());
        }
        let count = 3 + random.below(28);
        let faults = random.pick(&[0, 0, 1, 2, 4]);
        let mut records = Vec::new();
        for _ in 0..count {
            forest.grow(random.below(count) < faults, &mut records, random);
        }
        shuffle(&mut records, random);
        forest.files = split(records, random);
        let trunk = blocks.iter().map(serialize).collect();
        let at = if random.one_in(6) { forest.files.len() } else { 0 };
        forest.files.insert(at, trunk);
        forest
    }

    fn note_block(&mut self, block: Block) {
        self.blocks.insert(BlockHash(block.block_hash().to_byte_array()), block);
    }

    /// Makes a block, and its records: wrong copies may come before the right one, and copies of it
    /// after it.
    fn grow(&mut self, with_fault: bool, records: &mut Vec<Vec<u8>>, random: &mut Random) {
        let parent = self.choose_parent(random);
        self.tree.build_on(parent);
        let height = self.tree.nodes[parent].height + 1;
        let coins = self.coins[&parent].iter().filter(|coin| coin.0 <= height);
        let mut candidate = Candidate::on(&self.tree, parent, coins.map(|coin| coin.1).collect(), random);
        candidate.block.header.time += random.below(300) as u32;
        (candidate.sign, candidate.relink, candidate.repair) = (true, true, true);
        if with_fault {
            self.mutations
                .push(mutations::apply(&mut candidate, &self.tree, random));
        }
        let whole = if !with_fault && random.one_in(12) {
            let (wrong, whole) = candidate.finish_mutated(random);
            records.push(wrong);
            whole
        } else {
            candidate.finish(random)
        };
        // A record may be longer than its block.
        if let Ok((block, length)) = deserialize_partial::<Block>(&whole) {
            // A wrong copy of a block with a fault may be the right block.
            if !with_fault && random.one_in(8) {
                records.push(wrong_copy(&block, random));
            }
            self.add(parent, &whole[..length], block);
        }
        records.push(whole.clone());
        if random.one_in(12) {
            records.push(whole);
        }
    }

    /// Adds a block to the tree. Coins that it spends are gone for those on it, and coins that it
    /// makes are there.
    fn add(&mut self, parent: usize, bytes: &[u8], block: Block) {
        let count = self.tree.nodes.len();
        self.tree.note(bytes, blockmill_engine::Verdict::Side, false, "");
        if self.tree.nodes.len() == count {
            return;
        }
        let mut coins = self.coins.get(&parent).cloned().unwrap_or_default();
        for transaction in block.txdata.iter().skip(1) {
            let spent = |coin: &Spendable| {
                transaction
                    .input
                    .iter()
                    .any(|input| input.previous_output == coin.outpoint)
            };
            coins.retain(|coin| !spent(&coin.1));
            let txid = transaction.compute_txid();
            for (vout, output) in (0..).zip(&transaction.output) {
                let is_amount = output.value > Amount::ZERO && output.value < Amount::MAX_MONEY;
                if let (Some(kind), true) = (Kind::of(&output.script_pubkey), is_amount) {
                    let (outpoint, value) = (OutPoint { txid, vout }, output.value.to_sat());
                    // Every input of a candidate has a relative lock.
                    let from = self.tree.nodes[count].height + CSV_BLOCKS as u32;
                    coins.push((from, Spendable { outpoint, value, kind }));
                }
            }
        }
        self.tree.confirmed.extend(block.txdata.iter().skip(1).cloned());
        self.coins.insert(count, coins);
        self.note_block(block);
    }

    /// The last block, the end of a short branch, or any block.
    fn choose_parent(&self, random: &mut Random) -> usize {
        let end = BOOTSTRAP as usize;
        let known: Vec<usize> = (end..self.tree.nodes.len())
            .filter(|id| self.coins.contains_key(id))
            .collect();
        let is_leaf = |id: &usize| {
            !known
                .iter()
                .any(|&other| other != *id && self.tree.nodes[other].parent == *id)
        };
        match random.below(8) {
            0..4 => known[known.len() - 1],
            4..7 => {
                let leaves = known.iter().copied().filter(is_leaf);
                leaves.min_by_key(|&id| (self.tree.nodes[id].height, id)).unwrap_or(end)
            }
            _ => random.pick(&known),
        }
    }
}

/// Something else under the header of a block.
fn wrong_copy(block: &Block, random: &mut Random) -> Vec<u8> {
    let mut copy = block.clone();
    let last = copy.txdata.len().saturating_sub(1);
    match random.below(4) {
        // The same merkle root (CVE-2012-2459).
        0 if last > 0 && last.is_multiple_of(2) => copy.txdata.push(copy.txdata[last].clone()),
        1 => {
            let mut bytes = serialize(block);
            bytes.truncate(81 + random.below(bytes.len() as u64 - 81) as usize);
            return bytes;
        }
        2 if last > 0 => copy.txdata.truncate(last),
        _ => {
            if let Some(output) = copy.txdata.first_mut().and_then(|coinbase| coinbase.output.first_mut()) {
                output.value = Amount::from_sat(output.value.to_sat() ^ 1);
            }
        }
    }
    serialize(&copy)
}

/// Changes the order of records a little, or altogether.
fn shuffle(records: &mut [Vec<u8>], random: &mut Random) {
    let count = records.len() as u64;
    match random.below(5) {
        0 => {}
        1 => records.reverse(),
        2 => {
            for last in (1..records.len()).rev() {
                records.swap(last, random.below(last as u64 + 1) as usize);
            }
        }
        3 => {
            for _ in 0..1 + random.below(6) {
                let at = random.below(count) as usize;
                records.swap(at, (at + 1).min(records.len() - 1));
            }
        }
        _ => {
            for _ in 0..1 + random.below(3) {
                let at = random.below(count) as usize;
                records[at..].rotate_left(1);
            }
        }
    }
}

/// One to four files.
fn split(mut records: Vec<Vec<u8>>, random: &mut Random) -> Vec<Vec<Vec<u8>>> {
    let mut files = Vec::new();
    for _ in 0..random.below(4) {
        files.push(records.split_off(random.below(records.len() as u64 + 1) as usize));
    }
    files.push(records);
    files.reverse();
    files
}
