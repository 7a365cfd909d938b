//! A node that writes blocks, and changes its mind.

use super::TRUNK;
use crate::common::Rng;
use crate::common::branches::genesis;
use blockmill_block::Network;
use blockmill_chaingen::bitcoin::consensus::serialize;
use blockmill_chaingen::bitcoin::{Amount, Block, OutPoint, Transaction, TxOut};
use blockmill_chaingen::builder::{BlockBuilder, any_script, spend_any};
use blockmill_chaingen::node_writer::{NodeSettings, NodeWriter};
use std::path::Path;

/// A node with a chain, which writes its blocks.
pub(crate) struct Node {
    pub(super) writer: NodeWriter,
    pub(crate) chain: Vec<Block>,
    /// Blocks so far, those of left branches too.
    pub(super) written: u64,
    random: Rng,
}

impl Node {
    pub(crate) fn new(folder: &Path, seed: u64) -> Self {
        let settings = NodeSettings {
            magic: Network::Regtest.magic().0,
            key: [0x5a; 8],
            chunk: 1 << 16,
            file_bytes: 1 << 17,
        };
        let mut node = Self {
            writer: NodeWriter::new(folder, settings).unwrap(),
            chain: vec![genesis()],
            written: 0,
            random: Rng::new(seed),
        };
        node.writer.write(&serialize(&node.chain[0])).unwrap();
        (0..TRUNK).for_each(|_| node.mine());
        node
    }

    pub(super) fn height(&self) -> usize {
        self.chain.len() - 1
    }

    pub(crate) fn hash(&self) -> String {
        self.chain[self.height()].block_hash().to_string()
    }

    /// A coinbase that can be spent, one output that cannot, and a second transaction that spends
    /// an output of the first.
    pub(super) fn transactions(&mut self) -> Vec<Transaction> {
        let height = self.height();
        if height <= TRUNK || self.random.below(3) == 0 {
            return Vec::new();
        }
        let from = |transaction: &Transaction, vout| OutPoint {
            txid: transaction.compute_txid(),
            vout,
        };
        let coinbase = &self.chain[height - 104].txdata[0];
        // The subsidy halves every 150 blocks, down to nothing.
        let quarter = coinbase.output[0].value.to_sat() / 4;
        let mut first = spend_any(from(coinbase, 0), quarter.min(5_000));
        first.output.push(TxOut {
            value: Amount::from_sat(quarter.min(7)),
            script_pubkey: vec![0x6a, 0x01, 0x02].into(),
        });
        first.output.push(TxOut {
            value: Amount::from_sat(quarter.min(1_000 + self.random.below(1_000) as u64)),
            script_pubkey: any_script(),
        });
        let second = spend_any(from(&first, 0), quarter.min(4_000));
        vec![first, second]
    }

    pub(crate) fn mine(&mut self) {
        let tip = &self.chain[self.height()];
        let (height, time) = (
            self.chain.len() as u32,
            tip.header.time + 600 + self.random.below(100) as u32,
        );
        let mut builder = BlockBuilder::new(tip.block_hash(), height, time);
        for transaction in self.transactions() {
            builder = builder.transaction(transaction);
        }
        let block = builder.build();
        self.writer.write(&serialize(&block)).unwrap();
        self.written += 1;
        self.chain.push(block);
    }

    /// Another branch takes over, or the chain goes on.
    pub(super) fn step(&mut self) {
        let depth = match self.random.below(4) {
            0 => 1 + self.random.below(20),
            _ => 0,
        };
        self.chain.truncate(self.chain.len() - depth);
        (0..=depth).for_each(|_| self.mine());
        if self.random.below(20) == 0 {
            self.writer.restart().unwrap();
        }
        if self.random.below(20) == 0 {
            self.writer.prune(4).unwrap();
        }
    }
}
