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

/// The coins of a set, at most, whose hash is made of all its coins; and so is that of the last.
const SET_MAX: usize = 3_000;

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

/// The figures of a chain from its genesis block on.
pub(super) fn figures(blocks: &[Block]) -> Vec<Value> {
    let mut set = Set::new();
    let (mut total_unspendable, mut rows) = (0, Vec::new());
    // The other chains are short: their subsidy has not halved yet.
    let is_regtest = blocks[0] == bitcoin::constants::genesis_block(bitcoin::Network::Regtest);
    for (height, block) in (0u32..).zip(blocks) {
        let mut row = json!({
            "height": height,
            "block_hash": block.block_hash().to_string(),
            "block_time": block.header.time,
        });
        let (mut spent, mut made, mut days) = (Vec::new(), Vec::new(), 0i128);
        let (mut scripts, mut kinds) = (0, [0u64; KINDS.len()]);
        for transaction in &block.txdata {
            let is_coinbase = transaction.is_coinbase();
            if !is_coinbase {
                let coins = transaction
                    .input
                    .iter()
                    .map(|input| set.remove(&input.previous_output).unwrap());
                spent.push(coins.collect::<Vec<_>>());
            }
            for (vout, output) in (0..).zip(&transaction.output) {
                let kind = word(&output.script_pubkey);
                kinds[KINDS.iter().position(|known| *known == kind).unwrap()] += 1;
                if height == 0 {
                    continue;
                }
                if output.script_pubkey.is_op_return() || output.script_pubkey.len() > SCRIPT_SIZE_MAX {
                    scripts += output.value.to_sat() as i64;
                    continue;
                }
                let coin = OwnCoin {
                    height,
                    is_coinbase,
                    output: output.clone(),
                };
                made.push(coin.clone());
                set.insert(
                    OutPoint {
                        txid: transaction.compute_txid(),
                        vout,
                    },
                    coin,
                );
            }
        }
        for coin in spent.iter().flatten() {
            let seconds = i128::from(block.header.time) - i128::from(blocks[coin.height as usize].header.time);
            days += seconds * i128::from(coin.output.value.to_sat());
        }
        let sum = |coins: &mut dyn Iterator<Item = &OwnCoin>| -> i64 {
            coins.map(|coin| coin.output.value.to_sat() as i64).sum()
        };
        let into = sum(&mut spent.iter().flatten());
        let coinbase = sum(&mut made.iter().filter(|coin| coin.is_coinbase));
        let others = sum(&mut made.iter().filter(|coin| !coin.is_coinbase));
        let genesis = if height == 0 { 5_000_000_000 } else { 0 };
        let subsidy = if is_regtest {
            subsidy(height) as i64
        } else {
            5_000_000_000
        };
        let unclaimed = into + subsidy - coinbase - others - scripts - genesis;
        total_unspendable += unclaimed + scripts + genesis;
        let fees = fees(block, &spent);
        let [outs, ins] = [
            block
                .txdata
                .iter()
                .map(|transaction| transaction.output.len())
                .sum::<usize>(),
            spent.iter().flatten().count(),
        ];
        let witnesses = block.txdata[1..].iter();
        let witnesses = witnesses.filter(|of| of.input.iter().any(|input| !input.witness.is_empty()));
        let [p10, p25, p50, p75, p90] = percentiles(&fees);
        let more = json!({
            "txouts": set.len(),
            "bogosize": set.values().map(|coin| 50 + coin.output.script_pubkey.len()).sum::<usize>(),
            "total_amount": sum(&mut set.values()),
            "total_unspendable_amount": total_unspendable,
            "prevout_spent": into,
            "coinbase": coinbase,
            "new_outputs_ex_coinbase": others,
            "unspendable": unclaimed + scripts + genesis,
            "genesis_block": genesis,
            "bip30": 0,
            "scripts": scripts,
            "unclaimed_rewards": unclaimed,
            "txs": block.txdata.len(),
            "ins": ins,
            "outs": outs,
            "subsidy": subsidy,
            "totalfee": fees.iter().map(|(paid, _)| paid).sum::<i64>(),
            "medianfee": median(&fees),
            "minfee": fees.iter().map(|(paid, _)| *paid).min().unwrap_or(0),
            "maxfee": fees.iter().map(|(paid, _)| *paid).max().unwrap_or(0),
            "feerate_p10": p10, "feerate_p25": p25, "feerate_p50": p50, "feerate_p75": p75, "feerate_p90": p90,
            "total_size": block.txdata[1..].iter().map(Transaction::total_size).sum::<usize>(),
            "total_weight": fees.iter().map(|(_, weight)| weight).sum::<i64>(),
            "swtxs": witnesses.count(),
            "utxo_increase": outs as i64 - ins as i64,
            "coins_made": made.len(),
            "coins_spent": ins,
            "days_destroyed": days as f64 / (1e8 * 86_400.0),
        });
        row.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        for (kind, count) in KINDS.iter().zip(kinds) {
            row[format!("outputs_{kind}")] = count.into();
        }
        row["muhash"] = Value::Null;
        if set.len() < SET_MAX || height as usize + 1 == blocks.len() {
            row["muhash"] = muhash(&set).into();
        }
        rows.push(row);
    }
    rows
}
