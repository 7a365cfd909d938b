//! `blockmill balance`.

use crate::arguments::BalanceArguments;
use crate::commands::{NEVER, open_set, share};
use crate::failure::Failure;
use crate::output;
use crate::progress::EngineMeter;
use crate::signals;
use blockmill_block::{Coin, OutPoint, hex};
use blockmill_chain::Observer;
use blockmill_datadir::{Batch, UtxoSet};
use blockmill_descriptors::{address, targets};
use serde::Serialize;
use std::collections::HashMap;
use std::io::{BufWriter, Write};

/// A coin, with the keys of Core's `scantxoutset`.
#[derive(Serialize)]
struct Unspent {
    txid: String,
    vout: u32,
    #[serde(rename = "scriptPubKey")]
    script_pubkey: String,
    desc: String,
    /// In BTC.
    amount: f64,
    coinbase: bool,
    height: u32,
    blockhash: String,
    confirmations: u32,
}

/// The answer, with the same.
#[derive(Serialize)]
struct Balance {
    success: bool,
    txouts: u64,
    height: u32,
    bestblock: String,
    unspents: Vec<Unspent>,
    /// In BTC.
    total_amount: f64,
    /// Height of the set that was written last, where this is an older one.
    #[serde(skip_serializing_if = "Option::is_none")]
    synced_height: Option<u32>,
}

/// The coins with scripts that are looked for, and the number of all coins.
fn scan(
    set: &UtxoSet,
    wanted: &HashMap<Vec<u8>, String>,
    meter: &mut EngineMeter,
) -> Result<(Vec<(OutPoint, Coin)>, u64), Failure> {
    let (mut found, mut coins) = (Vec::new(), 0);
    let convert = |mut batch: Batch| {
        let (count, share) = (batch.len() as u64, share(&batch));
        // On the thread that has read the batch: hardly a coin goes on from here.
        batch.retain(|(_, coin)| wanted.contains_key(&*coin.script_pubkey));
        Ok::<_, Failure>((batch, count, share))
    };
    set.for_each_batch(&convert, &mut |(batch, count, share)| {
        coins += count;
        found.extend(batch);
        meter.coins(coins, share);
        Ok(())
    })?;
    Ok((found, coins))
}

pub(crate) fn run(arguments: &BalanceArguments) -> Result<u8, Failure> {
    signals::end_at_once()?;
    let mut meter = EngineMeter::new();
    let set = open_set(&arguments.set, &NEVER, &mut meter)?;
    let network = set.directory().chain_id().network;
    let mut wanted: HashMap<Vec<u8>, String> = HashMap::new();
    for text in &arguments.targets {
        for target in targets(text, arguments.range.indices(), network)? {
            // Of descriptors for one script, the first one names it.
            wanted.entry(target.script_pubkey).or_insert(target.descriptor);
        }
    }
    let (found, txouts) = scan(&set, &wanted, &mut meter)?;
    drop(meter);
    let tip = set.tip();
    let mut out = BufWriter::new(output::stdout());
    // A damaged set may have amounts whose sum has more than 64 bits.
    let total: i128 = found.iter().map(|(_, coin)| i128::from(coin.value)).sum();
    if !arguments.json {
        for (outpoint, coin) in &found {
            let whose = address(&coin.script_pubkey, network);
            let whose = whose.unwrap_or_else(|| format!("script {}", hex::encode(&coin.script_pubkey)));
            let (value, height) = (output::bitcoins(coin.value), coin.height);
            writeln!(out, "{outpoint}  {value} BTC, height {height}, {whose}")?;
        }
        let (total, height) = (output::bitcoins(total), tip.height);
        let coins = output::counted(found.len() as u64, "coin");
        writeln!(out, "{total} BTC in {coins}, at height {height}")?;
        out.flush()?;
        return Ok(0);
    }
    let blocks = set.blocks()?;
    let unspents = found.iter().map(|(outpoint, coin)| {
        Ok(Unspent {
            txid: outpoint.txid.to_string(),
            vout: outpoint.vout,
            script_pubkey: hex::encode(&coin.script_pubkey),
            desc: wanted.get(&*coin.script_pubkey).cloned().unwrap_or_default(),
            amount: output::amount(coin.value),
            coinbase: coin.is_coinbase,
            height: coin.height,
            blockhash: blocks.hash(coin.height)?.to_string(),
            // A coin of the tip's own block has one.
            confirmations: (tip.height + 1).saturating_sub(coin.height),
        })
    });
    let balance = Balance {
        success: true,
        txouts,
        height: tip.height,
        bestblock: tip.hash.to_string(),
        unspents: unspents.collect::<Result<_, Failure>>()?,
        total_amount: output::amount(total),
        synced_height: set.older().map(|older| older.synced.height),
    };
    output::json_line(&mut out, &balance)?;
    Ok(0)
}
