//! Block files made by hand, with undo data that says whatever a test wants.

use crate::common::blocks::undo_bytes;
use crate::common::{Scratch, record};
use bitcoin::consensus::serialize;
use bitcoin::constants::genesis_block;
use bitcoin::hashes::Hash;
use bitcoin::{Block, BlockHash, Transaction};
use blockmill_block::hash::Sha256d;
use blockmill_block::{Coin, Magic, Network};
use blockmill_chaingen::builder::BlockBuilder;
use blockmill_coins::{Tip, write_snapshot};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

/// A regtest chain, and the coins of each transaction but the coinbase, by block.
pub(crate) struct LyingChain {
    pub(crate) blocks: Vec<Block>,
    pub(crate) coins: Vec<Vec<Vec<Coin>>>,
}

impl LyingChain {
    pub(crate) fn new() -> Self {
        Self {
            blocks: vec![genesis_block(bitcoin::Network::Regtest)],
            coins: vec![Vec::new()],
        }
    }

    /// Adds a block of these transactions, and what its undo data says that they spend.
    pub(crate) fn push(&mut self, transactions: Vec<Transaction>, coins: Vec<Vec<Coin>>) {
        let tip = &self.blocks[self.blocks.len() - 1];
        let mut builder = BlockBuilder::new(tip.block_hash(), self.blocks.len() as u32, tip.header.time + 600);
        for transaction in transactions {
            builder = builder.transaction(transaction);
        }
        self.blocks.push(builder.build());
        self.coins.push(coins);
    }

    pub(crate) fn magic() -> Magic {
        Network::Regtest.magic()
    }

    pub(crate) fn tip(&self) -> Tip {
        Tip {
            hash: blockmill_block::BlockHash(self.blocks[self.blocks.len() - 1].block_hash().to_byte_array()),
            height: self.blocks.len() as u32 - 1,
        }
    }

    /// Writes block and undo files into a folder.
    pub(crate) fn write(&self, scratch: &Scratch, name: &str) -> PathBuf {
        let folder = scratch.folder(name);
        let mut blocks = File::create(folder.join("blk00000.dat")).unwrap();
        let mut undo = File::create(folder.join("rev00000.dat")).unwrap();
        for (block, coins) in self.blocks.iter().zip(&self.coins) {
            blocks.write_all(&record(Self::magic(), &serialize(block))).unwrap();
            if block.header.prev_blockhash != BlockHash::all_zeros() {
                undo.write_all(&undo_record(&block.header.prev_blockhash, &undo_bytes(coins)))
                    .unwrap();
            }
        }
        folder
    }
}

/// A record of an undo file.
pub(crate) fn undo_record(parent: &BlockHash, data: &[u8]) -> Vec<u8> {
    let mut checksum = Sha256d::new();
    checksum.update(&parent.to_byte_array());
    checksum.update(data);
    [record(LyingChain::magic(), data), checksum.finalize().to_vec()].concat()
}

/// Writes a snapshot of any coins, which are sorted.
pub(crate) fn write_coins(path: &Path, tip: &Tip, coins: impl Iterator<Item = (blockmill_block::OutPoint, Coin)>) {
    let mut file = File::create(path).unwrap();
    write_snapshot(&mut file, LyingChain::magic(), tip, coins.map(Ok), |_, _| ()).unwrap();
}
