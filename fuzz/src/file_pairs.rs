//! Pairs of `blk*.dat` and `rev*.dat` with the blocks of a tree, in a folder for scratch files. The
//! fuzzer's bytes choose what lies where, and what is wrong with it.

use crate::block_content::{CopyFault, faulty_copy};
use crate::block_tree::{PARAMS, Rules, Tree};
use crate::input::Input;
use crate::scratch::SCRATCH;
use blockmill_block::undo::write_record;
use blockmill_block::{BlockHash, BlockUndo, CoinRef};
use blockmill_blockfiles::XorKey;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Most files of blocks.
const PAIRS_MAX: usize = 3;

/// Most blocks above those that are always there.
const BLOCKS_MAX: usize = 14;

/// Most pieces of all files.
const PIECES_MAX: usize = 40;

/// A file of blocks, and the undo file beside it. Bytes are those before obfuscation.
#[derive(Default)]
pub struct Pair {
    /// The blocks.
    pub blocks: Vec<u8>,
    /// The undo data; none where there is no such file.
    pub undo: Option<Vec<u8>>,
}

/// A copy of a block in a file.
pub struct Copy {
    /// Number of the file.
    pub file: usize,
    /// Where the block begins.
    pub offset: u64,
    /// The block.
    pub node: usize,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// Files of blocks.
pub struct Pairs {
    /// The blocks.
    pub tree: Tree,
    /// The files, by number.
    pub pairs: Vec<Pair>,
    /// Their key.
    pub key: XorKey,
    /// Copies in whole records, in the order of the files.
    pub copies: Vec<Copy>,
    /// Whether every undo record has the coins of the only block that it can belong to.
    pub is_truthful: bool,
    /// The blocks with an undo record of their own coins.
    with_undo: BTreeSet<BlockHash>,
    /// Blocks that are always there.
    first: usize,
}

impl Pairs {
    /// No blocks in the first file; its key and whether it has an undo file are the input's.
    pub fn new(input: &mut Input<'_>, rules: Rules, with_base: bool) -> Self {
        let flags = input.u8();
        let key = if flags & 1 == 0 { [0; 8] } else { input.array() };
        let tree = Tree::new(rules, with_base);
        let mut pairs = Self {
            first: tree.nodes.len(),
            tree,
            pairs: Vec::new(),
            key: XorKey::new(key),
            copies: Vec::new(),
            is_truthful: true,
            with_undo: BTreeSet::new(),
        };
        pairs.begin_file(flags & 2 == 0);
        for node in 1..pairs.tree.nodes.len() {
            pairs.put_block(node);
            pairs.put_undo(node);
        }
        pairs
    }

    /// Begins the next file, if there may be more.
    pub fn begin_file(&mut self, with_undo: bool) {
        if self.pairs.len() < PAIRS_MAX {
            self.pairs.push(Pair {
                blocks: Vec::new(),
                undo: with_undo.then(Vec::new),
            });
        }
    }

    /// The file that is being written.
    pub fn last(&mut self) -> &mut Pair {
        self.pairs.last_mut().expect("there is a file")
    }

    /// Adds a block to the tree, while there may be more. Returns the number of the last block.
    pub fn grow(&mut self, input: &mut Input<'_>) -> usize {
        if self.tree.nodes.len() - self.first < BLOCKS_MAX {
            self.tree.grow(input)
        } else {
            self.tree.pick(0)
        }
    }

    /// Writes a block to the last file.
    pub fn put_block(&mut self, node: usize) {
        let bytes = self.tree.nodes[node].bytes.clone();
        self.put_copy(node, bytes);
    }

    /// Writes a record with content that goes for a block.
    pub fn put_copy(&mut self, node: usize, bytes: Vec<u8>) {
        self.put_head(bytes.len() as u32);
        let file = self.pairs.len() - 1;
        let offset = self.last().blocks.len() as u64;
        self.last().blocks.extend(&bytes);
        self.copies.push(Copy {
            file,
            offset,
            node,
            bytes,
        });
    }

    fn put_head(&mut self, length: u32) {
        let blocks = &mut self.last().blocks;
        blocks.extend(PARAMS.magic().0);
        blocks.extend(length.to_le_bytes());
    }

    /// Writes a block's undo record beside the last file.
    pub fn put_undo(&mut self, node: usize) {
        let undo = self.tree.nodes[node].undo.clone();
        if self.last().undo.is_some() {
            self.with_undo.insert(self.tree.nodes[node].hash);
        }
        self.put_undo_record(node, &undo);
    }

    /// Whether a block and all below it have undo records. The first block needs none.
    pub fn has_undo_up_to(&self, tip: &BlockHash) -> bool {
        let nodes = &self.tree.nodes;
        let mut node = nodes.iter().position(|node| node.hash == *tip).expect("it is in the tree");
        while node > 0 && self.with_undo.contains(&nodes[node].hash) {
            node = nodes[node].parent;
        }
        node == 0
    }

    fn put_undo_record(&mut self, node: usize, undo: &BlockUndo) {
        let previous = self.tree.nodes[self.tree.nodes[node].parent].hash;
        // The first block has none.
        if let (Some(file), true) = (&mut self.last().undo, node > 0) {
            write_record(PARAMS.magic(), &previous, undo, file);
        }
    }

    /// Writes pieces while the input has bytes.
    pub fn put_pieces(&mut self, input: &mut Input<'_>) {
        for _ in 0..PIECES_MAX {
            if input.is_empty() {
                break;
            }
            self.put_piece(input);
        }
        let nodes = &self.tree.nodes;
        let spends = |node: usize| nodes[node].undo.transaction_count() > 0;
        let has_twin = |node: usize| {
            (1..nodes.len()).any(|other| other != node && nodes[other].parent == nodes[node].parent && spends(other))
        };
        self.is_truthful &= (1..nodes.len()).all(|node| nodes[node].has_coins && !(spends(node) && has_twin(node)));
    }

    fn put_piece(&mut self, input: &mut Input<'_>) {
        match input.u8() % 16 {
            0..=4 => {
                let node = self.grow(input);
                self.put_block(node);
                self.put_undo(node);
            }
            5 => drop(self.grow(input)),
            6 => {
                let node = self.tree.pick(input.u8());
                self.put_block(node);
            }
            7 => self.put_bad_copy(input),
            8 => {
                let node = self.tree.pick(input.u8());
                let stated = self.tree.nodes[node].bytes.len() as u32 + u32::from(input.u16() % 2000);
                let zeros = usize::from(input.u8());
                self.put_head(stated);
                let bytes = self.tree.nodes[node].bytes.clone();
                self.last().blocks.extend(bytes);
                self.put_zeros(zeros);
            }
            9 => {
                let length = usize::from(input.u8());
                self.last().blocks.extend(input.take(length));
            }
            10 => self.put_zeros(usize::from(input.u16() % 600)),
            11 => {
                let node = self.tree.pick(input.u8());
                self.put_undo(node);
            }
            12 => self.put_false_undo(input),
            13 => self.put_damaged_undo(input),
            14 => self.put_cut_record(input),
            _ => self.begin_file(input.u8() & 3 != 0),
        }
    }

    /// Writes zeros to the last file, as they are before obfuscation.
    pub fn put_zeros(&mut self, count: usize) {
        let length = self.last().blocks.len() + count;
        self.last().blocks.resize(length, 0);
    }

    /// Writes a copy of a block whose content is not that of its header.
    pub fn put_bad_copy(&mut self, input: &mut Input<'_>) {
        let node = self.tree.pick(input.u8());
        let bytes = faulty_copy(&self.tree.nodes[node].bytes, CopyFault::of(input.u8()));
        self.put_copy(node, bytes);
    }

    /// Writes a part of a block, in a record that is as long as the part or longer.
    fn put_cut_record(&mut self, input: &mut Input<'_>) {
        let node = self.tree.pick(input.u8());
        let bytes = self.tree.nodes[node].bytes.clone();
        let length = usize::from(input.u16()) % bytes.len();
        self.put_head(length as u32 + u32::from(input.u16() % 1000));
        self.last().blocks.extend(&bytes[..length]);
    }

    /// Writes undo data with other coins for a block, or with many coins. The checksum is right.
    fn put_false_undo(&mut self, input: &mut Input<'_>) {
        let node = self.tree.pick(input.u8());
        let true_undo = self.tree.nodes[node].undo.clone();
        let (shape, by) = (input.u8(), input.u16());
        let mut undo = BlockUndo::default();
        let count = true_undo.transaction_count();
        for transaction in 0..count.max(usize::from(shape & 3)) {
            if transaction < count {
                for coin in true_undo.transaction(transaction).iter() {
                    undo.push_coin(other_coin(coin, shape, by));
                }
            }
            for number in 0..if shape & 0x80 != 0 { by % 2_000 } else { 0 } {
                undo.push_coin(CoinRef {
                    value: number.into(),
                    height: 1,
                    is_coinbase: false,
                    script_pubkey: &[],
                });
            }
            undo.end_transaction();
        }
        self.is_truthful = false;
        self.put_undo_record(node, &undo);
    }

    /// Writes a part of an undo record, or other bytes.
    fn put_damaged_undo(&mut self, input: &mut Input<'_>) {
        let choice = input.u8();
        if choice & 1 == 0 {
            let length = usize::from(input.u8());
            let bytes = input.take(length);
            self.last().undo.get_or_insert_default().extend(bytes);
            return;
        }
        let node = self.tree.pick(choice >> 1);
        let before = self.last().undo.as_ref().map_or(0, Vec::len);
        self.put_undo(node);
        let cut = usize::from(input.u8());
        if let Some(undo) = &mut self.last().undo {
            undo.truncate(undo.len().saturating_sub(cut).max(before));
            undo.extend(vec![0; usize::from(input.u8())]);
        }
    }

    /// Bytes of all files.
    pub fn length(&self) -> usize {
        let lengths = self.pairs.iter();
        lengths
            .map(|pair| pair.blocks.len() + pair.undo.as_ref().map_or(0, Vec::len))
            .sum()
    }

    /// The path of a file of blocks.
    pub fn path(file: usize) -> PathBuf {
        folder().join(format!("blk{file:05}.dat"))
    }

    /// Writes the files into the folder for scratch files, and removes those of the input before.
    ///
    /// # Panics
    /// If they cannot be written.
    pub fn write(&self) -> PathBuf {
        let write = |path: &Path, bytes: Option<&Vec<u8>>| {
            let done = match bytes {
                Some(bytes) => {
                    let mut bytes = bytes.clone();
                    self.key.apply(&mut bytes, 0);
                    std::fs::write(path, bytes)
                }
                None => std::fs::remove_file(path).or_else(|error| match error.kind() {
                    std::io::ErrorKind::NotFound => Ok(()),
                    _ => Err(error),
                }),
            };
            done.expect("files can be written");
        };
        for file in 0..PAIRS_MAX {
            let pair = self.pairs.get(file);
            write(&Self::path(file), pair.map(|pair| &pair.blocks));
            let undo = folder().join(format!("rev{file:05}.dat"));
            write(&undo, pair.and_then(|pair| pair.undo.as_ref()));
        }
        std::fs::write(folder().join("xor.dat"), self.key.bytes()).expect("files can be written");
        folder()
    }
}

/// The folder of the block files.
fn folder() -> PathBuf {
    SCRATCH.join("blocks")
}

/// A coin that is not the one that was spent.
fn other_coin(coin: CoinRef<'_>, shape: u8, by: u16) -> CoinRef<'_> {
    CoinRef {
        value: coin.value + if shape & 4 != 0 { i64::from(by) } else { 0 },
        height: if shape & 8 != 0 { by.into() } else { coin.height },
        is_coinbase: coin.is_coinbase != (shape & 0x10 != 0),
        script_pubkey: if shape & 0x20 != 0 { &[0x52] } else { coin.script_pubkey },
    }
}
