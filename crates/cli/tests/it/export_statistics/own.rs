//! The figures of blocks, in code of the tests' own: whole sets and no divisions.

use crate::common::own_set::{OwnCoin, word};
use bitcoin::{Block, OutPoint, Transaction};
use blockmill_chaingen::builder::subsidy;
use blockmill_coins::MuHash;
use serde_json::{Value, json};
use std::collections::BTreeMap;

const KINDS: [&str; 11] = [
    "nonstandard",
    "anchor",
    "pubkey",
    "pubkeyhash",
    "scripthash",
    "multisig",
    "nulldata",
    "witness_v0_keyhash",
    "witness_v0_scripthash",
    "witness_v1_taproot",
    "witness_unknown",
];

/// Locking scripts that are longer cannot be spent.
const SCRIPT_SIZE_MAX: usize = 10_000;

/// The coins of a set, at most, whose hash is made of all its coins. So are those of larger sets,
/// once in so many blocks, and that of the last.
const SET_MAX: usize = 1_000;
const LARGE_SETS: usize = 500;

type Set = BTreeMap<OutPoint, OwnCoin>;

fn muhash(set: &Set) -> String {
    let mut hash = MuHash::new();
    for (outpoint, coin) in set {
        let mut bytes = bitcoin::consensus::serialize(outpoint);
        bytes.extend((coin.height * 2 + u32::from(coin.is_coinbase)).to_le_bytes());
        bytes.extend(bitcoin::consensus::serialize(&coin.output));
        hash.insert(&bytes);
    }
    let mut bytes = hash.finalize();
    bytes.reverse();
    bitcoin::hex::DisplayHex::to_lower_hex_string(&bytes)
}

/// The fee and the weight of each transaction but the coinbase.
fn fees(block: &Block, spent: &[Vec<OwnCoin>]) -> Vec<(i64, i64)> {
    let of = |(transaction, coins): (&Transaction, &Vec<OwnCoin>)| {
        let into: u64 = coins.iter().map(|coin| coin.output.value.to_sat()).sum();
        let out: u64 = transaction.output.iter().map(|output| output.value.to_sat()).sum();
        ((into - out) as i64, transaction.weight().to_wu() as i64)
    };
    block.txdata[1..].iter().zip(spent).map(of).collect()
}

/// Core's: the weight up to a rate, over transactions sorted by rate, is compared with a share.
fn percentiles(fees: &[(i64, i64)]) -> [i64; 5] {
    let mut rates: Vec<(i64, i64)> = fees.iter().map(|&(paid, weight)| (4 * paid / weight, weight)).collect();
    rates.sort_unstable();
    let all: i64 = rates.iter().map(|(_, weight)| weight).sum();
    [0.1, 0.25, 0.5, 0.75, 0.9].map(|share| {
        let mut so_far = 0;
        for (rate, weight) in &rates {
            so_far += weight;
            if so_far as f64 >= all as f64 * share {
                return *rate;
            }
        }
        rates.last().map_or(0, |(rate, _)| *rate)
    })
}

fn median(fees: &[(i64, i64)]) -> i64 {
    let mut paid: Vec<i64> = fees.iter().map(|(paid, _)| *paid).collect();
    paid.sort_unstable();
    match paid.len() {
        0 => 0,
        length if length % 2 == 1 => paid[length / 2],
        length => (paid[length / 2 - 1] + paid[length / 2]) / 2,
    }
}

/// What a block does to the set.
#[derive(Default)]
struct Connected {
    /// By each transaction but the coinbase.
    spent: Vec<Vec<OwnCoin>>,
    made: Vec<OwnCoin>,
    /// What has scripts that nobody can spend.
    scripts: i64,
    kinds: [u64; KINDS.len()],
}

impl Connected {
    fn new(set: &mut Set, height: u32, block: &Block) -> Self {
        let mut connected = Self::default();
        for transaction in &block.txdata {
            let is_coinbase = transaction.is_coinbase();
            if !is_coinbase {
                let inputs = transaction.input.iter();
                let coins = inputs.map(|input| set.remove(&input.previous_output).unwrap());
                connected.spent.push(coins.collect());
            }
            for (vout, output) in (0..).zip(&transaction.output) {
                let script = &output.script_pubkey;
                let kind = KINDS.iter().position(|known| *known == word(script));
                connected.kinds[kind.unwrap()] += 1;
                if height == 0 {
                    continue;
                }
                if script.is_op_return() || script.len() > SCRIPT_SIZE_MAX {
                    connected.scripts += output.value.to_sat() as i64;
                    continue;
                }
                let coin = OwnCoin {
                    height,
                    is_coinbase,
                    output: output.clone(),
                };
                connected.made.push(coin.clone());
                let txid = transaction.compute_txid();
                set.insert(OutPoint { txid, vout }, coin);
            }
        }
        connected
    }

    /// Coin days, in bitcoins.
    fn days(&self, blocks: &[Block], height: u32) -> f64 {
        let time = |height: u32| i128::from(blocks[height as usize].header.time);
        let coins = self.spent.iter().flatten();
        let ages = coins.map(|coin| (time(height) - time(coin.height)) * i128::from(coin.output.value.to_sat()));
        ages.sum::<i128>() as f64 / (1e8 * 86_400.0)
    }

    /// What is said of the block alone, but for amounts.
    fn of_block(&self, block: &Block) -> Value {
        let fees = fees(block, &self.spent);
        let outs: usize = block.txdata.iter().map(|transaction| transaction.output.len()).sum();
        let ins = self.spent.iter().flatten().count();
        let witnesses = block.txdata[1..].iter();
        let witnesses = witnesses.filter(|of| of.input.iter().any(|input| !input.witness.is_empty()));
        let [p10, p25, p50, p75, p90] = percentiles(&fees);
        let mut row = json!({
            "height": 0,
            "block_hash": block.block_hash().to_string(),
            "block_time": block.header.time,
            "txs": block.txdata.len(),
            "ins": ins,
            "outs": outs,
            "totalfee": fees.iter().map(|(paid, _)| paid).sum::<i64>(),
            "medianfee": median(&fees),
            "minfee": fees.iter().map(|(paid, _)| *paid).min().unwrap_or(0),
            "maxfee": fees.iter().map(|(paid, _)| *paid).max().unwrap_or(0),
            "feerate_p10": p10, "feerate_p25": p25, "feerate_p50": p50, "feerate_p75": p75, "feerate_p90": p90,
            "total_size": block.txdata[1..].iter().map(Transaction::total_size).sum::<usize>(),
            "total_weight": fees.iter().map(|(_, weight)| weight).sum::<i64>(),
            "swtxs": witnesses.count(),
            "utxo_increase": outs as i64 - ins as i64,
            "coins_made": self.made.len(),
            "coins_spent": ins,
        });
        for (kind, count) in KINDS.iter().zip(self.kinds) {
            row[format!("outputs_{kind}")] = count.into();
        }
        row
    }
}

fn sum<'a>(coins: impl Iterator<Item = &'a OwnCoin>) -> i64 {
    coins.map(|coin| coin.output.value.to_sat() as i64).sum()
}

/// The figures of a chain from its genesis block on.
pub(super) fn figures(blocks: &[Block]) -> Vec<Value> {
    let mut set = Set::new();
    let (mut total_unspendable, mut rows) = (0, Vec::new());
    // The other chains are short: their subsidy has not halved yet.
    let is_regtest = blocks[0] == bitcoin::constants::genesis_block(bitcoin::Network::Regtest);
    for (height, block) in (0u32..).zip(blocks) {
        let connected = Connected::new(&mut set, height, block);
        let mut row = connected.of_block(block);
        let prevout_spent = sum(connected.spent.iter().flatten());
        let coinbase = sum(connected.made.iter().filter(|coin| coin.is_coinbase));
        let others = sum(connected.made.iter().filter(|coin| !coin.is_coinbase));
        let genesis = if height == 0 { 5_000_000_000 } else { 0 };
        let created = if is_regtest {
            subsidy(height) as i64
        } else {
            5_000_000_000
        };
        let scripts = connected.scripts;
        let unclaimed = prevout_spent + created - coinbase - others - scripts - genesis;
        total_unspendable += unclaimed + scripts + genesis;
        let more = json!({
            "height": height,
            "txouts": set.len(),
            "bogosize": set.values().map(|coin| 50 + coin.output.script_pubkey.len()).sum::<usize>(),
            "total_amount": sum(set.values()),
            "total_unspendable_amount": total_unspendable,
            "prevout_spent": prevout_spent,
            "coinbase": coinbase,
            "new_outputs_ex_coinbase": others,
            "unspendable": unclaimed + scripts + genesis,
            "genesis_block": genesis,
            "bip30": 0,
            "scripts": scripts,
            "unclaimed_rewards": unclaimed,
            "subsidy": created,
            "days_destroyed": connected.days(blocks, height),
            "muhash": null,
        });
        row.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        if set.len() < SET_MAX || (height as usize).is_multiple_of(LARGE_SETS) || height as usize + 1 == blocks.len() {
            row["muhash"] = muhash(&set).into();
        }
        rows.push(row);
    }
    rows
}
