//! Blocks that are as large as they may be and full of what takes most memory: anonymous memory
//! stays within `--dbcache` and a stated constant.

use crate::common::{Scratch, connect, peak_memory, record, stats};
use bitcoin::consensus::serialize;
use bitcoin::constants::genesis_block;
use bitcoin::hashes::Hash;
use bitcoin::{Amount, Block, OutPoint, ScriptBuf, Sequence, Transaction, TxIn, TxOut, Txid, Witness};
use blockmill_block::Network;
use blockmill_chaingen::builder::{BlockBuilder, any_script, spend_any};

const DBCACHE_MIB: u64 = 16;

/// Anonymous memory in MiB beside that for coins, whatever the blocks are: what ARCHITECTURE.md
/// states.
const CONSTANT_MIB: u64 = 96;

const SUBSIDY: u64 = 5_000_000_000;

/// Outputs of ten bytes that a block of 4 million weight has room for, nearly.
const OUTPUTS: usize = 99_000;

/// Inputs of 41 bytes.
const INPUTS: usize = 24_000;

struct Chain {
    blocks: Vec<Block>,
}

impl Chain {
    fn push(&mut self, transactions: Vec<Transaction>) {
        let tip = &self.blocks[self.blocks.len() - 1];
        let mut builder = BlockBuilder::new(tip.block_hash(), self.blocks.len() as u32, tip.header.time + 600);
        for transaction in transactions {
            builder = builder.transaction(transaction);
        }
        self.blocks.push(builder.build());
    }

    fn coinbase(&self, height: usize) -> OutPoint {
        OutPoint::new(self.blocks[height].txdata[0].compute_txid(), 0)
    }
}

fn input(from: OutPoint) -> TxIn {
    TxIn {
        previous_output: from,
        script_sig: ScriptBuf::new(),
        sequence: Sequence::MAX,
        witness: Witness::new(),
    }
}

fn output(value: u64, script: ScriptBuf) -> TxOut {
    TxOut {
        value: Amount::from_sat(value),
        script_pubkey: script,
    }
}

/// A transaction of one input and many outputs that anyone can spend.
fn fan_out(from: OutPoint, outputs: usize) -> Transaction {
    Transaction {
        output: (0..outputs).map(|_| output(1, any_script())).collect(),
        ..spend_any(from, 0)
    }
}

/// A transaction that spends many of them.
fn fan_in(from: Txid, outputs: std::ops::Range<usize>) -> Transaction {
    Transaction {
        input: outputs.map(|vout| input(OutPoint::new(from, vout as u32))).collect(),
        output: vec![output(1, any_script())],
        ..spend_any(OutPoint::null(), 0)
    }
}

/// A script of nearly 10,000 bytes that succeeds: large pushes, and then a true one.
fn huge_script() -> ScriptBuf {
    let push = [&[0x4d, 0x08, 0x02][..], &[7; 520]].concat();
    let mut script = push.repeat(19);
    script.push(0x51);
    ScriptBuf::from_bytes(script)
}

/// Small blocks that spend coins with huge scripts: many of them would be resolved together.
fn push_spends_of_huge_scripts(chain: &mut Chain) {
    const EACH: usize = 98;
    const MADE_BY: usize = 60;
    const SPENT_BY_ONE: usize = 5;
    let transactions: Vec<Transaction> = (11..11 + MADE_BY)
        .map(|height| {
            let transaction = Transaction {
                output: (0..EACH).map(|_| output(1, huge_script())).collect(),
                ..spend_any(chain.coinbase(height), 0)
            };
            chain.push(vec![transaction.clone()]);
            transaction
        })
        .collect();
    for spent in transactions.chunks(SPENT_BY_ONE) {
        let spending = spent.iter().map(|made| fan_in(made.compute_txid(), 0..EACH));
        chain.push(spending.collect());
    }
}

/// Blocks of many outputs, of many inputs, of huge scripts, of deep chains in a block, and of
/// spends of huge scripts.
fn chain() -> Chain {
    let mut chain = Chain {
        blocks: vec![genesis_block(bitcoin::Network::Regtest)],
    };
    for _ in 0..110 {
        chain.push(Vec::new());
    }
    let mut fans = Vec::new();
    for height in 1..=4 {
        let fan = fan_out(chain.coinbase(height), OUTPUTS);
        fans.push(fan.compute_txid());
        chain.push(vec![fan]);
    }
    for &fan in &fans {
        for part in 0..OUTPUTS / INPUTS {
            chain.push(vec![fan_in(fan, part * INPUTS..(part + 1) * INPUTS)]);
        }
    }
    for height in 5..=7 {
        // Scripts of 10,000 bytes, the longest that can be spent.
        let script = ScriptBuf::from_bytes(vec![0x61; 10_000]);
        let transaction = Transaction {
            output: (0..98).map(|_| output(1, script.clone())).collect(),
            ..spend_any(chain.coinbase(height), 0)
        };
        chain.push(vec![transaction]);
    }
    for height in 8..=10 {
        let mut from = chain.coinbase(height);
        let mut transactions = Vec::new();
        for number in 0..15_000 {
            let transaction = spend_any(from, SUBSIDY - number);
            from = OutPoint::new(transaction.compute_txid(), 0);
            transactions.push(transaction);
        }
        chain.push(transactions);
    }
    push_spends_of_huge_scripts(&mut chain);
    chain
}

#[test]
fn memory_is_bounded_whatever_the_blocks() {
    let chain = chain();
    let weights: Vec<u64> = chain.blocks.iter().map(|block| block.weight().to_wu()).collect();
    assert!(weights.iter().all(|&weight| weight <= 4_000_000));
    assert!(
        weights.iter().filter(|&&weight| weight > 3_500_000).count() >= 20,
        "{weights:?}"
    );
    let bytes: Vec<u8> = chain
        .blocks
        .iter()
        .flat_map(|block| record(Network::Regtest.magic(), &serialize(block)))
        .collect();
    let tip = blockmill_block::BlockHash(chain.blocks[chain.blocks.len() - 1].block_hash().to_byte_array());
    let scratch = Scratch::new();
    let file = scratch.write("chain.dat", &bytes);
    for threads in ["1", "2", "4"] {
        let data = scratch.join(&format!("data-{threads}"));
        let mut connect = connect(&file, &data, "regtest");
        connect.args(["--dbcache", &DBCACHE_MIB.to_string(), "--par", threads]);
        let peak = peak_memory(connect.args(["--signatures", "lanes"]));
        assert_eq!(stats(&data)["bestblock"], tip.to_string());
        let limit = (DBCACHE_MIB << 20) * 11 / 10 + (CONSTANT_MIB << 20);
        eprintln!(
            "--par {threads}: {} MiB at the most, {} allowed",
            peak >> 20,
            limit >> 20
        );
        assert!(
            peak <= limit,
            "--par {threads}: {} MiB, {} allowed",
            peak >> 20,
            limit >> 20
        );
        assert!(peak > 8 << 20, "{peak}");
    }
}
