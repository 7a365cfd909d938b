//! Blocks that are as large as they may be and full of what takes most memory: anonymous memory
//! stays within what the engine promises.

use crate::common::{Scratch, blockmill, connect, peak_memory, peak_memory_and_status, record, run, stats};
use bitcoin::consensus::serialize;
use bitcoin::constants::genesis_block;
use bitcoin::hashes::Hash;
use bitcoin::{Amount, Block, OutPoint, ScriptBuf, Sequence, Transaction, TxIn, TxOut, Txid, Witness};
use blockmill_block::Network;
use blockmill_chaingen::builder::{BlockBuilder, any_script, spend_any};
use blockmill_engine::Plan;
use std::ops::Range;
use std::path::PathBuf;

const DBCACHE_MIB: u64 = 16;

const SUBSIDY: u64 = 5_000_000_000;

/// Outputs of ten bytes that a block of 4 million weight has room for, nearly.
const OUTPUTS: usize = 99_000;

/// Inputs of 41 bytes.
const INPUTS: usize = 24_000;

pub(crate) struct Chain {
    blocks: Vec<Block>,
}

impl Chain {
    /// Blocks whose coinbases are mature.
    fn new() -> Self {
        let mut chain = Self {
            blocks: vec![genesis_block(bitcoin::Network::Regtest)],
        };
        for _ in 0..110 {
            chain.push(Vec::new());
        }
        chain
    }

    fn push(&mut self, transactions: Vec<Transaction>) {
        let tip = &self.blocks[self.blocks.len() - 1];
        let mut builder = BlockBuilder::new(tip.block_hash(), self.blocks.len() as u32, tip.header.time + 600);
        for transaction in transactions {
            builder = builder.transaction(transaction);
        }
        self.blocks.push(builder.build());
    }

    fn bytes(&self) -> Vec<u8> {
        let blocks = self.blocks.iter();
        blocks
            .flat_map(|block| record(Network::Regtest.magic(), &serialize(block)))
            .collect()
    }

    /// Writes the blocks and their undo data as files of Core's in a folder, and the set that they
    /// lead to in `set`.
    pub(crate) fn write_with_undo(&self, scratch: &Scratch) -> PathBuf {
        let folder = scratch.folder("blocks");
        let data = scratch.join("data");
        std::fs::write(folder.join("blk00000.dat"), self.bytes()).unwrap();
        run(&mut connect(&folder, &data, "regtest")).ends_with(0);
        std::fs::rename(data.join("undo.dat"), folder.join("rev00000.dat")).unwrap();
        let mut dump = blockmill();
        dump.args(["snapshot", "dump", "--data"])
            .arg(&data)
            .arg(scratch.join("set"));
        run(&mut dump).ends_with(0);
        folder
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
pub(crate) fn fan_in(from: Txid, outputs: Range<usize>) -> Transaction {
    Transaction {
        input: outputs.map(|vout| input(OutPoint::new(from, vout as u32))).collect(),
        output: vec![output(1, any_script())],
        ..spend_any(OutPoint::null(), 0)
    }
}

/// A script of nearly 10,000 bytes that succeeds: large pushes, and then a true one.
pub(crate) fn huge_script() -> ScriptBuf {
    let push = [&[0x4d, 0x08, 0x02][..], &[7; 520]].concat();
    let mut script = push.repeat(19);
    script.push(0x51);
    ScriptBuf::from_bytes(script)
}

/// Coins with huge scripts that a transaction makes, and the transactions that make such coins.
const EACH: usize = 98;
const MADE_BY: usize = 60;

/// Of how many such transactions a small block spends the coins.
const SPENT_BY_ONE: usize = 5;

/// The most anonymous memory is no more than what is promised where no block spends more than this
/// many bytes, and no witness has many items.
fn check_peak(peak: u64, threads: &str, spent: usize) {
    let cache_bytes = (DBCACHE_MIB << 20) as usize;
    // What a block spends comes on top, up to four times, where it is more than a window may.
    assert!(spent > Plan::for_memory(cache_bytes, threads.parse().unwrap()).window_spent_bytes);
    let limit = (Plan::promised_bytes(cache_bytes) + 4 * spent) as u64;
    let words = format!("--par {threads}: {} MiB, {} allowed", peak >> 20, limit >> 20);
    eprintln!("{words}");
    assert!(peak <= limit, "{words}");
}

/// Blocks that spend coins with huge scripts, each those of so many transactions.
fn push_spends_of_huge_scripts(chain: &mut Chain, spent_by_one: usize) {
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
    for spent in transactions.chunks(spent_by_one) {
        let spending = spent.iter().map(|made| fan_in(made.compute_txid(), 0..EACH));
        chain.push(spending.collect());
    }
}

/// Empty items of a witness that a block has room for, nearly.
const WITNESS_ITEMS: usize = 3_900_000;

/// Bytes that the items take at the most, by docs/trust.md.
pub(crate) const WITNESS_ITEMS_BYTES: usize = 48 * WITNESS_ITEMS;

/// A coin of a witness version that has no meaning yet: nothing counts the items of its witness.
const UNKNOWN_WITNESS_PROGRAM: [u8; 4] = [0x52, 2, 7, 7];

/// Pushes a block full of empty items of witnesses. Its inputs spend coins with this script.
fn push_many_witness_items(chain: &mut Chain, coinbase: usize, inputs: usize, script: &[u8]) {
    let made = Transaction {
        output: vec![output(1, ScriptBuf::from_bytes(script.to_vec())); inputs],
        ..spend_any(chain.coinbase(coinbase), 0)
    };
    let mut spending = fan_in(made.compute_txid(), 0..inputs);
    // An input has some bytes of its own.
    let items = (WITNESS_ITEMS - 200 * inputs) / inputs;
    for input in &mut spending.input {
        input.witness = Witness::from_slice(&vec![[0u8; 0]; items]);
    }
    chain.push(vec![made]);
    chain.push(vec![spending]);
}

/// Blocks of one input and of many, whose witnesses have as many items as there is room for.
pub(crate) fn many_witness_items() -> Chain {
    let mut chain = Chain::new();
    for (coinbase, inputs) in (1..).zip([1, 1, 1, 1, 1_000, 1_000]) {
        push_many_witness_items(&mut chain, coinbase, inputs, &UNKNOWN_WITNESS_PROGRAM);
    }
    chain
}

/// Blocks of many outputs, of many inputs, of huge scripts, of deep chains in a block, and of
/// spends of huge scripts.
pub(crate) fn chain() -> Chain {
    let mut chain = Chain::new();
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
    // Small blocks: many of them would be resolved together.
    push_spends_of_huge_scripts(&mut chain, SPENT_BY_ONE);
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
    let tip = blockmill_block::BlockHash(chain.blocks[chain.blocks.len() - 1].block_hash().to_byte_array());
    let scratch = Scratch::new();
    let file = scratch.write("chain.dat", &chain.bytes());
    for threads in ["1", "2", "4"] {
        let data = scratch.join(&format!("data-{threads}"));
        let mut connect = connect(&file, &data, "regtest");
        connect.args(["--dbcache", &DBCACHE_MIB.to_string(), "--par", threads]);
        let peak = peak_memory(connect.args(["--signatures", "lanes"]));
        assert_eq!(stats(&data)["bestblock"], tip.to_string());
        check_peak(peak, threads, SPENT_BY_ONE * EACH * huge_script().len());
        assert!(peak > 8 << 20, "{peak}");
    }
}

/// Here a block spends 58 MB.
#[test]
fn a_block_that_spends_much_takes_its_share() {
    let mut chain = Chain::new();
    push_spends_of_huge_scripts(&mut chain, MADE_BY);
    let scratch = Scratch::new();
    let file = scratch.write("chain.dat", &chain.bytes());
    for threads in ["1", "2"] {
        let mut connect = connect(&file, &scratch.join(&format!("data-{threads}")), "regtest");
        connect.args(["--dbcache", &DBCACHE_MIB.to_string(), "--par", threads]);
        let peak = peak_memory(&mut connect);
        check_peak(peak, threads, MADE_BY * EACH * huge_script().len());
    }
}

/// Core's interpreter has them in a form that takes more than the block, for one input at a time.
#[test]
fn many_items_of_witnesses_take_their_share() {
    let scratch = Scratch::new();
    let valid = many_witness_items();
    let mut invalid = many_witness_items();
    // The last item is the script. It is empty, and so leaves more than one item: but first Core
    // copies them all.
    let hash = bitcoin::WScriptHash::hash(&[]);
    push_many_witness_items(&mut invalid, 9, 1, ScriptBuf::new_p2wsh(&hash).as_bytes());
    let plan = Plan::promised_bytes((DBCACHE_MIB << 20) as usize);
    let limit = (plan + WITNESS_ITEMS_BYTES) as u64;
    for (name, chain, status) in [("valid", &valid, 0), ("invalid", &invalid, 1)] {
        let file = scratch.write(name, &chain.bytes());
        for threads in ["1", "2", "4"] {
            let data = scratch.join(&format!("{name}-{threads}"));
            let mut connect = connect(&file, &data, "regtest");
            connect.args(["--dbcache", &DBCACHE_MIB.to_string(), "--par", threads]);
            let (peak, ended) = peak_memory_and_status(&mut connect);
            let words = format!("{name}, --par {threads}: {} MiB, {} allowed", peak >> 20, limit >> 20);
            eprintln!("{words}");
            assert_eq!(ended.code(), Some(status), "{words}");
            assert!(peak <= limit, "{words}");
        }
    }
}
