//! `balance` beside a set that the tests made from the blocks. What it says of descriptors is
//! compared with Core's answers where descriptors are read.

use crate::common::own_set::{OwnChain, OwnCoin, OwnSet};
use crate::common::{Run, Scratch, blockmill, connect, run};
use bitcoin::hex::DisplayHex;
use bitcoin::{Address, Network, OutPoint, ScriptBuf};
use serde_json::{Value, json};
use std::path::Path;

const BLOCKS: u32 = 140;

fn balance(data: &Path, options: &[&str]) -> Run {
    run(blockmill().args(["balance", "--data"]).arg(data).args(options))
}

/// What Core says of the coins of some scripts at a height. The descriptors are left out.
fn expected(chain: &OwnChain, height: u32, wanted: &[ScriptBuf]) -> Value {
    let OwnSet(set) = chain.set(height);
    let is_wanted = |coin: &OwnCoin| wanted.contains(&coin.output.script_pubkey);
    let found: Vec<(&OutPoint, &OwnCoin)> = set.iter().filter(|(_, coin)| is_wanted(coin)).collect();
    let hash = |height: u32| chain.blocks[height as usize].block_hash().to_string();
    let unspents = found.iter().map(|(outpoint, coin)| {
        json!({
            "txid": outpoint.txid.to_string(),
            "vout": outpoint.vout,
            "scriptPubKey": coin.output.script_pubkey.as_bytes().to_lower_hex_string(),
            "amount": coin.output.value.to_btc(),
            "coinbase": coin.is_coinbase,
            "height": coin.height,
            "blockhash": hash(coin.height),
            "confirmations": height - coin.height + 1,
        })
    });
    let total: u64 = found.iter().map(|(_, coin)| coin.output.value.to_sat()).sum();
    json!({
        "success": true,
        "txouts": set.len(),
        "height": height,
        "bestblock": hash(height),
        "unspents": unspents.collect::<Vec<_>>(),
        "total_amount": total as f64 / 1e8,
    })
}

/// Takes the descriptors out of an answer.
fn descriptors(answer: &mut Value) -> Vec<String> {
    let unspents = answer["unspents"].as_array_mut().unwrap();
    let take = |unspent: &mut Value| unspent.as_object_mut().unwrap().remove("desc").unwrap();
    unspents
        .iter_mut()
        .map(|unspent| take(unspent).as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn coins_of_addresses_and_scripts() {
    let scratch = Scratch::new();
    let chain = OwnChain::generate(&scratch, "mixed", BLOCKS, &["--seed", "6"]);
    let data = scratch.join("data");
    run(&mut connect(&chain.folder, &data, "regtest")).ends_with(0);
    let address = |script: &ScriptBuf| Address::from_script(script, Network::Regtest);
    let mut scripts: Vec<ScriptBuf> = Vec::new();
    let mut texts: Vec<String> = Vec::new();
    let set = chain.set(BLOCKS);
    for coin in set.0.values() {
        let script = &coin.output.script_pubkey;
        if scripts.len() < 30 && !scripts.contains(script) {
            texts.push(match address(script) {
                Ok(address) if scripts.len().is_multiple_of(2) => address.to_string(),
                _ if scripts.len().is_multiple_of(3) => format!("raw:{}", script.as_bytes().to_lower_hex_string()),
                _ => format!("raw({})", script.as_bytes().to_lower_hex_string()),
            });
            scripts.push(script.clone());
        }
    }
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    for height in [BLOCKS, 120, 7] {
        let at = height.to_string();
        let mut options = vec!["--json", "--at", &at];
        options.extend(&texts);
        let mut answer = balance(&data, &options).ends_with(0).json();
        let descriptors = descriptors(&mut answer);
        assert_eq!(answer, expected(&chain, height, &scripts));
        for (unspent, descriptor) in answer["unspents"].as_array().unwrap().iter().zip(descriptors) {
            let script = ScriptBuf::from_hex(unspent["scriptPubKey"].as_str().unwrap()).unwrap();
            let hex = script.as_bytes().to_lower_hex_string();
            let prefix = match address(&script) {
                Ok(_) if script.is_p2tr() => format!("rawtr({})#", &hex[4..]),
                Ok(address) => format!("addr({address})#"),
                Err(_) if script.is_p2pk() => format!("pk({})#", &hex[2..hex.len() - 2]),
                Err(_) => "multi(".to_owned(),
            };
            assert!(descriptor.starts_with(&prefix), "{descriptor}");
        }
    }
    // For a person: a line for each coin, and the sum.
    let one = balance(&data, &texts[..1]).ends_with(0).stdout;
    let own = expected(&chain, BLOCKS, &scripts[..1]);
    let count = own["unspents"].as_array().unwrap().len();
    let total = own["total_amount"].as_f64().unwrap();
    let coins = if count == 1 { "coin" } else { "coins" };
    assert_eq!(one.lines().count(), count + 1);
    assert_eq!(
        one.lines().last().unwrap(),
        format!("{total:.8} BTC in {count} {coins}, at height {BLOCKS}")
    );
    // Two names of a script count once.
    let twice = balance(&data, &["--json", texts[0], texts[0]]).ends_with(0).json();
    assert_eq!(twice["unspents"].as_array().unwrap().len(), count);
}

#[test]
fn what_makes_no_sense_is_wrong_usage() {
    let scratch = Scratch::new();
    let data = scratch.folder("data");
    run(&mut connect(&scratch.write("blk00000.dat", &[]), &data, "regtest")).ends_with(0);
    let none = balance(&data, &["raw:51"]).ends_with(0);
    assert_eq!(none.stdout, "0.00000000 BTC in 0 coins, at height 0\n");
    balance(&data, &[]).ends_with(2);
    balance(&data, &["bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4"])
        .ends_with(2)
        .says(&["not an address of the network regtest"]);
    for range in ["x", "5-4", "0-1000000", "2147483648", "-1"] {
        balance(&data, &["--range", range, "raw:51"]).ends_with(2);
    }
    balance(&data, &["--range", "5-1000004", "raw:51"]).ends_with(0);
    balance(&data, &["--at", "1", "raw:51"])
        .ends_with(2)
        .says(&["the set is at height 0, and height 1 is above it"]);
}
