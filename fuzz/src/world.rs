//! Short chains of small blocks, as the fuzzer's bytes describe them. Every block decodes. Some
//! double spend, overspend or repeat transactions; most inputs lead to valid blocks, so that chains
//! grow.

use crate::input::Input;
use crate::parts::{InputParts, OutputParts, TransactionParts, block, coinbase};
use blockmill_block::coin::is_unspendable;
use blockmill_block::transaction::OwnedTransaction;
use blockmill_block::{Block, Coin, Network, OutPoint, Txid};
use blockmill_rules::connect::Overwriting;
use blockmill_rules::spend::block_subsidy;
use blockmill_rules::{Params, sigops};
use std::sync::{Arc, LazyLock};

/// Most blocks of a chain.
pub const BLOCKS_MAX: usize = 5;

/// Most transactions of a block, the coinbase not counted.
const TRANSACTIONS_MAX: u8 = 4;

/// Seconds between blocks.
pub const SPACING: u32 = 600;

/// Number of coins before the first block.
const FIRST_COINS: u8 = 14;

/// Parameters of the chain's network.
pub static PARAMS: LazyLock<Params> = LazyLock::new(|| Params::new(Network::Regtest, None));

/// An output, as its spender sees it.
#[derive(Debug, Clone, Copy)]
struct Known {
    outpoint: OutPoint,
    value: i64,
    /// Whether a script that pushes a redeem script unlocks it.
    is_p2sh: bool,
}

/// A transaction that was in a block.
#[derive(Debug, Clone)]
struct Old {
    bytes: Vec<u8>,
    is_coinbase: bool,
}

/// A block of the chain.
pub struct Planned {
    /// The block.
    pub block: Arc<Block>,
    /// Its height.
    pub height: u32,
    /// For each transaction the signature operations in its own scripts.
    pub legacy_sigops: Vec<u64>,
    /// Whether it may overwrite coins (BIP 30).
    pub overwriting: Overwriting,
}

/// The outputs and transactions that later blocks can spend and repeat.
#[derive(Clone)]
pub struct World {
    height_step: u32,
    height: u32,
    unspent: Vec<Known>,
    spent: Vec<Known>,
    old: Vec<Old>,
    /// A counter in each transaction, so that equal ones have different ids.
    number: u32,
}

/// The coins before the first block, in the order of the store's keys.
pub fn first_coins() -> Vec<(OutPoint, Coin)> {
    (0..FIRST_COINS)
        .filter(|&number| !is_unspendable(&script(number)))
        .map(|number| {
            let outpoint = OutPoint {
                txid: Txid([number / 2 + 1; 32]),
                vout: u32::from(number % 2),
            };
            let coin = Coin {
                value: 1_000_000 * i64::from(number + 1),
                height: u32::from(number),
                is_coinbase: number < 2,
                script_pubkey: script(number).into(),
            };
            (outpoint, coin)
        })
        .collect()
}

/// A locking script, standard or not. Each long one has only one number: it costs time.
fn script(form: u8) -> Vec<u8> {
    let around = |before: &[u8], length: usize, after: &[u8]| [before, &vec![form; length], after].concat();
    match form {
        // Two of these exceed a block's limit of signature operations.
        7 => return vec![0xae; 600],
        10 => return around(&[0x4d, 16, 39], 10_000, &[]),
        _ => {}
    }
    match form % 16 {
        0 => around(&[0x76, 0xa9, 20], 20, &[0x88, 0xac]),
        1 => around(&[0xa9, 20], 20, &[0x87]),
        2 => around(&[0, 20], 20, &[]),
        3 => around(&[0, 32], 32, &[]),
        4 => around(&[0x51, 32], 32, &[]),
        5 => around(&[33], 33, &[0xac]),
        6 => vec![0x6a, 1, form],
        8 => vec![0xac; 40],
        9 => around(&[0x4d, 44, 1], 300, &[]),
        _ => vec![0x51; usize::from(form / 16)],
    }
}

fn is_p2sh(script: &[u8]) -> bool {
    script.len() == 23 && script[0] == 0xa9
}

impl World {
    /// The world before the first block, with the [`first_coins`] or without.
    pub fn new(height_step: u32, with_coins: bool) -> Self {
        let coins = if with_coins { first_coins() } else { Vec::new() };
        let known = |(outpoint, coin): (OutPoint, Coin)| Known {
            outpoint,
            value: coin.value,
            is_p2sh: is_p2sh(&coin.script_pubkey),
        };
        Self {
            height_step,
            height: 200,
            unspent: coins.into_iter().map(known).collect(),
            spent: Vec::new(),
            old: Vec::new(),
            number: 0,
        }
    }

    /// The next block. The world counts it as connected.
    pub fn next_block(&mut self, input: &mut Input<'_>) -> Planned {
        self.height += self.height_step;
        let flags = input.u8();
        // A block without BIP 30 may repeat only coinbases.
        let enforce_bip30 = flags & 0xc0 != 0xc0;
        let mut transactions = vec![self.coinbase(input, flags)];
        for _ in 0..(flags & 7).min(TRANSACTIONS_MAX) {
            let transaction = self.transaction(input, enforce_bip30);
            transactions.push(transaction);
        }
        let block = Block::decode(block(&transactions)).expect("a block of whole transactions decodes");
        Planned {
            legacy_sigops: block
                .transactions()
                .map(|transaction| sigops::legacy_count(&transaction))
                .collect(),
            block: Arc::new(block),
            height: self.height,
            overwriting: if enforce_bip30 {
                Overwriting::Forbidden
            } else {
                Overwriting::Allowed
            },
        }
    }

    fn coinbase(&mut self, input: &mut Input<'_>, flags: u8) -> Vec<u8> {
        if flags & 8 != 0
            && let Some(old) = self.pick_old(input.u8(), true)
        {
            return self.made(old, true);
        }
        self.number += 1;
        let subsidy = block_subsidy(&PARAMS, self.height);
        let value = match flags >> 4 & 3 {
            0 => subsidy,
            1 => subsidy / 2,
            2 => 0,
            _ => subsidy + i64::from(input.u8()),
        };
        let output = OutputParts {
            value,
            script_pubkey: script(input.u8()),
        };
        let script_sig = self.number.to_le_bytes().to_vec();
        self.made(coinbase(script_sig, output).write(), true)
    }

    fn pick_old(&self, choice: u8, is_coinbase: bool) -> Option<Vec<u8>> {
        let mut fitting = self.old.iter().rev().filter(|old| old.is_coinbase == is_coinbase);
        fitting.nth(usize::from(choice & 7)).map(|old| old.bytes.clone())
    }

    /// A transaction; the fuzzer's bytes choose its inputs and outputs.
    fn transaction(&mut self, input: &mut Input<'_>, may_repeat: bool) -> Vec<u8> {
        let shape = input.u8();
        if shape >= 0xf0
            && may_repeat
            && let Some(old) = self.pick_old(shape, false)
        {
            return self.made(old, false);
        }
        let spending: Vec<(Known, u32)> = (0..=shape & 3).map(|_| self.previous(input)).collect();
        let total: i64 = spending.iter().map(|(known, _)| known.value).sum();
        let outputs = i64::from(shape >> 2 & 3) + 1;
        let excess = i64::from(shape & 0x40 != 0 && shape & 0x20 != 0 && shape & 0x10 != 0);
        self.number += 1;
        let parts = TransactionParts {
            version: 1 + u32::from(shape & 0x80 == 0),
            inputs: spending
                .iter()
                .map(|(known, sequence)| spend(known, *sequence))
                .collect(),
            outputs: (0..outputs)
                .map(|_| OutputParts {
                    value: total / outputs + excess * 1000,
                    script_pubkey: script(input.u8()),
                })
                .collect(),
            // A lock to a height, open by now.
            lock_time: self.number % 100,
        };
        self.made(parts.write(), false)
    }

    /// The output that an input spends, and its sequence number: mostly a recent unspent output.
    fn previous(&mut self, input: &mut Input<'_>) -> (Known, u32) {
        let choice = input.u8();
        let sequence = match choice >> 5 {
            // A relative lock, open or not.
            6 => u32::from(input.u8()),
            7 => 1 << 22 | u32::from(input.u8()),
            _ => u32::MAX,
        };
        let missing = Known {
            outpoint: OutPoint {
                txid: Txid([0xee; 32]),
                vout: u32::from(choice),
            },
            value: 1000,
            is_p2sh: false,
        };
        let known = match choice & 31 {
            31 => missing,
            30 => self.spent.last().copied().unwrap_or(missing),
            29 => self.spent.first().copied().unwrap_or(missing),
            choice if self.unspent.is_empty() => self.spent.get(usize::from(choice)).copied().unwrap_or(missing),
            choice => {
                let index = self.unspent.len() - 1 - usize::from(choice) % self.unspent.len();
                let known = self.unspent.remove(index);
                self.spent.push(known);
                known
            }
        };
        (known, sequence)
    }

    /// Notes a transaction of a block.
    fn made(&mut self, bytes: Vec<u8>, is_coinbase: bool) -> Vec<u8> {
        let decoded = OwnedTransaction::decode(bytes.clone()).expect("a transaction of parts decodes");
        let txid = decoded.view().txid();
        for (vout, output) in (0..).zip(decoded.view().outputs()) {
            let known = Known {
                outpoint: OutPoint { txid, vout },
                value: output.value(),
                is_p2sh: is_p2sh(output.script_pubkey()),
            };
            let is_there = self.unspent.iter().any(|other| other.outpoint == known.outpoint);
            // A spend of a coinbase is rarely mature.
            if !is_there && !is_unspendable(output.script_pubkey()) {
                self.unspent
                    .insert(if is_coinbase { 0 } else { self.unspent.len() }, known);
            }
        }
        self.old.push(Old {
            bytes: bytes.clone(),
            is_coinbase,
        });
        bytes
    }
}

fn spend(known: &Known, sequence: u32) -> InputParts {
    InputParts {
        previous_output: known.outpoint,
        // A push of a script with three signature operations.
        script_sig: if known.is_p2sh { vec![2, 0x53, 0xae] } else { Vec::new() },
        sequence,
    }
}
