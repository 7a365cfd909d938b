//! A consumer that keeps the coins of a set, and the set itself to compare them with.

use blockmill_block::coin::is_unspendable;
use blockmill_block::hex;
use blockmill_datadir::UtxoSet;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// What a consumer keeps of a coin.
pub(super) type Coin = (i64, String, u64, bool);

/// Keeps the coins, by events alone. A copy is what it has on its disk.
#[derive(Clone, Default)]
pub(super) struct Consumer {
    pub(super) coins: BTreeMap<(String, u64), Coin>,
    /// The hashes of the chain, by height.
    pub(super) chain: Vec<String>,
    pub(super) events: usize,
}

impl Consumer {
    pub(super) fn cursor(&self) -> String {
        self.chain.last().cloned().unwrap_or_else(|| "0".to_owned())
    }

    pub(super) fn insert(&mut self, key: (String, u64), coin: Coin) {
        assert_eq!(self.coins.insert(key, coin), None);
    }

    pub(super) fn remove(&mut self, key: &(String, u64), coin: &Coin) {
        assert_eq!(self.coins.remove(key).as_ref(), Some(coin));
    }

    /// Takes in an event. Returns the hash of a tip.
    pub(super) fn apply(&mut self, line: &str) -> Option<String> {
        let event: Value = serde_json::from_str(line).unwrap();
        let hash = event["block_hash"].as_str().unwrap().to_owned();
        let height = event["height"].as_u64().unwrap();
        self.events += 1;
        let transactions = || event["transactions"].as_array().unwrap().iter();
        match event["event"].as_str().unwrap() {
            "tip" => {
                assert_eq!(self.cursor(), hash);
                return Some(hash);
            }
            "connected" => {
                assert_eq!(height as usize, self.chain.len() + 1);
                for transaction in transactions() {
                    inputs(transaction).for_each(|(key, coin)| self.remove(&key, &coin));
                    outputs(transaction, height).for_each(|(key, coin)| self.insert(key, coin));
                }
                self.chain.push(hash);
            }
            "disconnected" => {
                assert_eq!(self.chain.pop().as_ref(), Some(&hash));
                for transaction in transactions().rev() {
                    outputs(transaction, height).for_each(|(key, coin)| self.remove(&key, &coin));
                    inputs(transaction).for_each(|(key, coin)| self.insert(key, coin));
                }
            }
            other => panic!("{other}"),
        }
        None
    }
}

/// The coins that a transaction spends.
pub(super) fn inputs(transaction: &Value) -> impl Iterator<Item = ((String, u64), Coin)> {
    let inputs = transaction["inputs"].as_array().unwrap().iter();
    // A coinbase spends none.
    inputs.filter(|input| !input["txid"].is_null()).map(|input| {
        let key = (
            input["txid"].as_str().unwrap().to_owned(),
            input["vout"].as_u64().unwrap(),
        );
        let coin = (
            input["value"].as_i64().unwrap(),
            input["script"].as_str().unwrap().to_owned(),
            input["height"].as_u64().unwrap(),
            input["coinbase"].as_bool().unwrap(),
        );
        (key, coin)
    })
}

/// The coins that a transaction makes.
pub(super) fn outputs(transaction: &Value, height: u64) -> impl Iterator<Item = ((String, u64), Coin)> {
    let (txid, coinbase) = (
        transaction["txid"].as_str().unwrap(),
        transaction["coinbase"].as_bool().unwrap(),
    );
    let outputs = transaction["outputs"].as_array().unwrap().iter();
    let script = |output: &Value| output["script"].as_str().unwrap().to_owned();
    let outputs = outputs.filter(move |output| !is_unspendable(&hex::decode(&script(output)).unwrap()));
    outputs.map(move |output| {
        let key = (txid.to_owned(), output["vout"].as_u64().unwrap());
        (
            key,
            (output["value"].as_i64().unwrap(), script(output), height, coinbase),
        )
    })
}

/// The coins of a directory, and the hash of its tip.
pub(super) fn set_of(data: &Path) -> (BTreeMap<(String, u64), Coin>, String) {
    let set = UtxoSet::open(data, 1).unwrap();
    let coins = set.coins().unwrap().map(|coin| {
        let (outpoint, coin) = coin.unwrap();
        let key = (outpoint.txid.to_string(), u64::from(outpoint.vout));
        let script = hex::encode(&coin.script_pubkey);
        (key, (coin.value, script, u64::from(coin.height), coin.is_coinbase))
    });
    (coins.collect(), set.tip().hash.to_string())
}
