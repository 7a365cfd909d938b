//! `blockmill balance`.
//!
//! - [`table`]: a row for each text;
//! - [`wanted`]: the scripts that are looked for.

#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

mod table;
mod wanted;

use self::table::{Row, Sum, Sums};
use self::wanted::Wanted;
use crate::arguments::BalanceArguments;
use crate::commands::{NEVER, open_set};
use crate::failure::Failure;
use crate::output;
use crate::progress::{EngineMeter, share};
use crate::signals;
use blockmill_block::{Coin, OutPoint, hex};
use blockmill_datadir::{Batch, UtxoSet};
use blockmill_descriptors::address;
use serde::Serialize;
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
    /// Without `--table`.
    #[serde(skip_serializing_if = "Option::is_none")]
    unspents: Option<Vec<Unspent>>,
    /// With `--table`.
    #[serde(skip_serializing_if = "Option::is_none")]
    balances: Option<Vec<Row>>,
    /// In BTC.
    total_amount: f64,
}

impl Balance {
    fn new(set: &UtxoSet, txouts: u64, total: Sum) -> Self {
        let tip = set.tip();
        Self {
            success: true,
            txouts,
            height: tip.height,
            bestblock: tip.hash.to_string(),
            unspents: None,
            balances: None,
            total_amount: output::amount(total.satoshi),
        }
    }
}

/// The sum of a coin alone.
fn sum_of(coin: &Coin) -> Sum {
    Sum {
        coins: 1,
        satoshi: coin.value.into(),
    }
}

/// Gives what `keep` makes of coins to `take`, in order. Returns the number of all coins.
fn scan<T: Send>(
    set: &UtxoSet,
    meter: &mut EngineMeter,
    keep: &(dyn Fn((OutPoint, Coin)) -> Option<T> + Sync),
    take: &mut dyn FnMut(T),
) -> Result<u64, Failure> {
    let mut coins = 0;
    let convert = |batch: Batch| {
        let (count, share) = (batch.len() as u64, share(&batch));
        // On the thread that has read the batch: hardly a coin goes on from here.
        let kept: Vec<T> = batch.into_iter().filter_map(keep).collect();
        Ok::<_, Failure>((kept, count, share))
    };
    set.for_each_batch(&convert, &mut |(kept, count, share)| {
        coins += count;
        kept.into_iter().for_each(&mut *take);
        meter.coins(coins, share);
        Ok(())
    })?;
    Ok(coins)
}

/// The last line for a person.
fn write_total(out: &mut impl Write, set: &UtxoSet, total: Sum) -> Result<(), Failure> {
    let (coins, height) = (output::counted(total.coins, "coin"), set.tip().height);
    let total = output::bitcoins(total.satoshi);
    writeln!(out, "{total} BTC in {coins}, at height {height}")?;
    out.flush()?;
    Ok(())
}

pub(crate) fn run(arguments: &BalanceArguments) -> Result<u8, Failure> {
    signals::end_at_once()?;
    let mut meter = EngineMeter::new();
    let set = open_set(&arguments.set, &NEVER, &mut meter)?;
    let wanted = Wanted::new(arguments, set.directory().chain_id().network)?;
    match arguments.table {
        true => sums(arguments.json, &set, &wanted, meter),
        false => coins(arguments.json, &set, &wanted, meter),
    }?;
    Ok(0)
}

/// Answers with a row for each text. Only sums are kept.
fn sums(as_json: bool, set: &UtxoSet, wanted: &Wanted, mut meter: EngineMeter) -> Result<(), Failure> {
    let mut sums = Sums::new(wanted);
    let keep = |(_, coin): (OutPoint, Coin)| Some((wanted.number(&coin.script_pubkey)?, sum_of(&coin)));
    let txouts = scan(set, &mut meter, &keep, &mut |(number, sum)| sums.add(number, sum))?;
    drop(meter);
    let mut out = BufWriter::new(output::stdout());
    if !as_json {
        sums.write(wanted, &mut out)?;
        return write_total(&mut out, set, sums.total());
    }
    let balance = Balance {
        balances: Some(sums.json_rows(wanted)),
        ..Balance::new(set, txouts, sums.total())
    };
    Ok(output::json_line(&mut out, &balance)?)
}

/// Answers with the coins.
fn coins(as_json: bool, set: &UtxoSet, wanted: &Wanted, mut meter: EngineMeter) -> Result<(), Failure> {
    let network = set.directory().chain_id().network;
    let (mut found, mut total) = (Vec::new(), Sum::default());
    let keep = |found: (OutPoint, Coin)| wanted.number(&found.1.script_pubkey).map(|_| found);
    let txouts = scan(set, &mut meter, &keep, &mut |(outpoint, coin)| {
        total.add(sum_of(&coin));
        found.push((outpoint, coin));
    })?;
    drop(meter);
    let mut out = BufWriter::new(output::stdout());
    if !as_json {
        for (outpoint, coin) in &found {
            let whose = address(&coin.script_pubkey, network);
            let whose = whose.unwrap_or_else(|| format!("script {}", hex::encode(&coin.script_pubkey)));
            let (value, height) = (output::bitcoins(coin.value), coin.height);
            writeln!(out, "{outpoint}  {value} BTC, height {height}, {whose}")?;
        }
        return write_total(&mut out, set, total);
    }
    let (blocks, tip) = (set.blocks()?, set.tip());
    let unspents = found.iter().map(|(outpoint, coin)| {
        Ok(Unspent {
            txid: outpoint.txid.to_string(),
            vout: outpoint.vout,
            script_pubkey: hex::encode(&coin.script_pubkey),
            desc: wanted.descriptor(&coin.script_pubkey).unwrap_or_default().to_owned(),
            amount: output::amount(coin.value),
            coinbase: coin.is_coinbase,
            height: coin.height,
            blockhash: blocks.hash(coin.height)?.to_string(),
            // A coin of the tip's own block has one.
            confirmations: (tip.height + 1).saturating_sub(coin.height),
        })
    });
    let balance = Balance {
        unspents: Some(unspents.collect::<Result<_, Failure>>()?),
        ..Balance::new(set, txouts, total)
    };
    Ok(output::json_line(&mut out, &balance)?)
}
