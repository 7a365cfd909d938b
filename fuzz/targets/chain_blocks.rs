//! The input describes files with whole records of a tree of blocks, in any order: blocks several
//! times, copies with other content, blocks without parents, and padding.
//!
//! Checked, beside a plain model: the chain of block files is the longest one whose last block was
//! linked first, where a block came with its first copy that has its content. It has the model's
//! hashes and blocks, and the same are found after its way through bytes. So has each other chain
//! that ends in a known block. What cannot be read, also when a file was cut since, is what the
//! model says. The chain is whole but for blocks without parents. Other bytes instead of a chain's
//! cause no panic.

#![no_main]

use blockmill_block::{Block, BlockHash};
use blockmill_chain::{ChainBlocks, NotWhole};
use blockmill_fuzz::block_content::is_own_content;
use blockmill_fuzz::block_tree::{Node, PARAMS, Rules};
use blockmill_fuzz::file_pairs::{Copy, Pairs};
use blockmill_fuzz::input::Input;
use libfuzzer_sys::fuzz_target;
use std::cmp::Reverse;
use std::collections::VecDeque;
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Most steps of an input.
const STEPS_MAX: usize = 40;

static GO_ON: AtomicBool = AtomicBool::new(false);

/// What lies in the files, without an index.
struct Model<'a> {
    nodes: &'a [Arc<Node>],
    /// The copies, and whether each has the content of its block.
    copies: Vec<(&'a Copy, bool)>,
    /// By block: whether it is there, and so are all below it.
    is_known: Vec<bool>,
}

impl<'a> Model<'a> {
    fn new(pairs: &'a Pairs) -> Self {
        let nodes = &pairs.tree.nodes[..];
        let is_sound = |copy: &Copy| is_own_content(&decode(&copy.bytes));
        let copies: Vec<_> = pairs.copies.iter().map(|copy| (copy, is_sound(copy))).collect();
        let mut is_known = vec![true];
        for number in 1..nodes.len() {
            let is_there = pairs.copies.iter().any(|copy| copy.node == number);
            is_known.push(is_there && is_known[nodes[number].parent]);
        }
        Self {
            nodes,
            copies,
            is_known,
        }
    }

    fn copies_of(&self, node: usize) -> impl Iterator<Item = &(&'a Copy, bool)> {
        self.copies.iter().filter(move |(copy, _)| copy.node == node)
    }

    /// The copies of blocks whose parents are nowhere.
    fn leftovers(&self) -> Vec<&'a Copy> {
        let copies = self.copies.iter().map(|(copy, _)| *copy);
        copies.filter(|copy| !self.is_known[copy.node]).collect()
    }

    /// Number of the copy with which a block came.
    fn arrival(&self, node: usize) -> usize {
        let with = |sound: bool| {
            let is_it = |(copy, is_sound): &(&Copy, bool)| copy.node == node && (*is_sound || !sound);
            self.copies.iter().position(is_it)
        };
        with(true).or(with(false)).unwrap_or(0)
    }

    /// The blocks of the best chain, the first one first.
    fn best(&self) -> Vec<usize> {
        let mut came: Vec<usize> = (1..self.nodes.len()).filter(|&node| self.is_known[node]).collect();
        came.sort_by_key(|&node| self.arrival(node));
        let (mut linked, mut waiting) = (vec![0], Vec::new());
        for node in came {
            let mut ready = VecDeque::from([node]);
            while let Some(node) = ready.pop_front() {
                if linked.contains(&self.nodes[node].parent) {
                    linked.push(node);
                    ready.extend(waiting.extract_if(.., |&mut other: &mut usize| self.nodes[other].parent == node));
                } else {
                    waiting.push(node);
                }
            }
        }
        let rank = |&(order, &node): &(usize, &usize)| (self.nodes[node].height, Reverse(order));
        let best = linked.iter().enumerate().max_by_key(rank);
        self.chain_to(best.map_or(0, |(_, &node)| node))
    }

    fn chain_to(&self, tip: usize) -> Vec<usize> {
        let mut chain = vec![tip];
        while let Some(&node) = chain.last().filter(|&&node| node > 0) {
            chain.push(self.nodes[node].parent);
        }
        chain.reverse();
        chain
    }

    /// Checks a chain that ends in a known block. `lengths` has what there is of each file.
    fn check(&self, blocks: &ChainBlocks, chain: &[usize], pairs: &Pairs, lengths: &[u64]) {
        assert_eq!(blocks.height() as usize, chain.len() - 1);
        let unreadable = blocks.find_unreadable(0..=blocks.height());
        for (height, &node) in (0..).zip(chain) {
            let expected = &self.nodes[node];
            assert_eq!(blocks.hash(height).expect("it is in the chain"), expected.hash);
            assert_eq!(
                blocks.header(height).expect("it is in the chain").to_bytes(),
                expected.bytes[..80]
            );
            let is_there = |copy: &Copy| copy.offset + copy.bytes.len() as u64 <= lengths[copy.file];
            let sound = self
                .copies_of(node)
                .find(|(copy, is_sound)| *is_sound && is_there(copy));
            // The first block is known without a file.
            let is_in_code = height == 0 && self.copies_of(node).next().is_none();
            match (blocks.block(height), sound) {
                (Ok(block), None) if is_in_code => assert_eq!(block.hash(), expected.hash),
                (Ok(block), Some((copy, _))) => assert_eq!(block.bytes(), copy.bytes),
                (Err(_), None) => {}
                (read, _) => panic!("height {height}: {:?}", read.map(|block| block.hash())),
            }
            let has_undo = |copy: &Copy| height == 0 || pairs.pairs[copy.file].undo.is_some();
            let usable: Vec<_> = self
                .copies_of(node)
                .filter(|(copy, _)| is_there(copy) && has_undo(copy))
                .collect();
            let is_unreadable = unreadable.iter().any(|(heights, _)| heights.contains(&height));
            // Copies before the first sound one may have been forgotten.
            if is_in_code || usable.iter().any(|(_, is_sound)| *is_sound) {
                assert!(!is_unreadable, "height {height}: {unreadable:?}");
            } else if usable.is_empty() {
                assert!(is_unreadable, "height {height}: {unreadable:?}");
            }
        }
        for (number, node) in self.nodes.iter().enumerate() {
            let height = chain.contains(&number).then_some(node.height);
            assert_eq!(blocks.height_of(&node.hash), height);
        }
        assert_eq!(blocks.height_of(&BlockHash([0xee; 32])), None);
    }
}

fn decode(bytes: &[u8]) -> Block {
    Block::decode(bytes.to_vec()).expect("copies are whole blocks")
}

/// Writes what the input says to the files.
fn put_steps(pairs: &mut Pairs, input: &mut Input<'_>) {
    for _ in 0..STEPS_MAX {
        if input.is_empty() {
            break;
        }
        match input.u8() % 8 {
            0..=2 => {
                let node = pairs.grow(input);
                pairs.put_block(node);
            }
            3 => drop(pairs.grow(input)),
            4 => {
                let node = pairs.tree.pick(input.u8());
                pairs.put_block(node);
            }
            5 => pairs.put_bad_copy(input),
            6 => {
                // Padding after a copy that is no block makes damage of it.
                let node = pairs.tree.pick(input.u8());
                pairs.put_block(node);
                if is_own_content(&decode(&pairs.tree.nodes[node].bytes)) {
                    pairs.put_zeros(usize::from(input.u16() % 600));
                }
            }
            _ => pairs.begin_file(input.u8() & 1 == 0),
        }
    }
}

fn read(folder: &PathBuf) -> ChainBlocks {
    ChainBlocks::of_files(std::slice::from_ref(folder), &[], &PARAMS, &GO_ON, &mut ())
        .expect("the files can be read")
        .expect("nobody stops it")
}

fn check_wholeness(blocks: &ChainBlocks, model: &Model<'_>) {
    let leftovers = model.leftovers();
    match (&blocks.wholeness().reasons[..], leftovers.first()) {
        ([], None) => {}
        ([NotWhole::LeftOver { blocks, first }], Some(copy)) => {
            assert_eq!(
                (*blocks, first.hash),
                (leftovers.len() as u64, model.nodes[copy.node].hash)
            );
            assert_eq!(first.offset, copy.offset);
        }
        (reasons, _) => panic!("{reasons:?}"),
    }
}

fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let (choice, change, at) = (input.u8(), input.u8(), input.u16());
    let mut pairs = Pairs::new(&mut input, Rules::Headers, false);
    put_steps(&mut pairs, &mut input);
    // What an obfuscated file is padded with reads as the key.
    let folder = pairs.write();
    let mut lengths: Vec<u64> = pairs.pairs.iter().map(|pair| pair.blocks.len() as u64).collect();
    let model = Model::new(&pairs);

    let blocks = read(&folder);
    let best = model.best();
    model.check(&blocks, &best, &pairs, &lengths);
    check_wholeness(&blocks, &model);

    let mut bytes = blocks.to_bytes();
    let again = ChainBlocks::from_bytes(&bytes, &PARAMS).expect("these are its bytes");
    model.check(&again, &best, &pairs, &lengths);
    for height in 0..=blocks.height() {
        assert_eq!(again.found_at(height), blocks.found_at(height));
        assert_eq!(again.length(height), blocks.length(height));
    }
    assert_eq!(again.to_bytes(), bytes);
    let changed = usize::from(at) % bytes.len();
    bytes[changed] ^= change.max(1);
    if let Ok(other) = ChainBlocks::from_bytes(&bytes, &PARAMS) {
        for height in 0..=other.height() {
            let _ = (other.block(height), other.found_at(height));
        }
        let _ = other.find_unreadable(0..=other.height());
    }
    let _ = ChainBlocks::from_bytes(&bytes[..changed], &PARAMS);

    let tip = pairs.tree.pick(choice);
    let ending = read(&folder).ending_in(&pairs.tree.nodes[tip].hash);
    assert_eq!(ending.is_some(), model.is_known[tip]);
    if let Some(ending) = ending {
        model.check(&ending, &model.chain_to(tip), &pairs, &lengths);
    }

    // A file becomes shorter.
    let file = usize::from(change) % lengths.len();
    lengths[file] = u64::from(at) % (lengths[file] + 1);
    let cut = File::options().write(true).open(Pairs::path(file));
    cut.and_then(|cut| cut.set_len(lengths[file]))
        .expect("the file can be cut");
    model.check(&blocks, &best, &pairs, &lengths);
}

fuzz_target!(|data: &[u8]| run(data));
