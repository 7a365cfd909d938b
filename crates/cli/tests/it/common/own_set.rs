//! A generated chain and its UTXO set, read by code of the tests' own.

use crate::common::{RECORD_HEAD, Scratch, generate_command, manifest, records, run};
use bitcoin::hex::DisplayHex;
use bitcoin::{Address, Block, Network, OutPoint, Script, TxOut};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Locking scripts that are longer cannot be spent.
const SCRIPT_SIZE_MAX: usize = 10_000;

/// A chain that `generate` wrote.
pub(crate) struct OwnChain {
    /// Its folder.
    pub(crate) folder: PathBuf,
    pub(crate) manifest: Value,
    /// From the genesis block on.
    pub(crate) blocks: Vec<Block>,
}

impl OwnChain {
    /// Generates a chain in a folder of `scratch`. Options of `generate` may be added.
    pub(crate) fn generate(scratch: &Scratch, profile: &str, blocks: u32, options: &[&str]) -> Self {
        let folder = scratch.join(&format!("chain-{profile}"));
        run(generate_command(&folder, profile, blocks).args(options)).ends_with(0);
        let manifest = manifest(&folder);
        let mut blocks = Vec::new();
        for name in manifest["files"].as_array().unwrap() {
            let file = std::fs::read(folder.join(name.as_str().unwrap())).unwrap();
            for record in records(&file) {
                let bytes = &file[record.start + RECORD_HEAD..record.end];
                blocks.push(bitcoin::consensus::deserialize(bytes).unwrap());
            }
        }
        Self {
            folder,
            manifest,
            blocks,
        }
    }

    /// The set after the block at a height.
    pub(crate) fn set(&self, height: u32) -> OwnSet {
        let mut set = OwnSet::default();
        for (height, block) in (1..=height).zip(&self.blocks[1..]) {
            set.connect(height, block);
        }
        set
    }
}

/// An unspent output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OwnCoin {
    pub(crate) height: u32,
    pub(crate) is_coinbase: bool,
    pub(crate) output: TxOut,
}

/// Core's word for the scripts that the generator makes.
pub(crate) fn word(script: &Script) -> &'static str {
    match script {
        script if script.is_p2pk() => "pubkey",
        script if script.is_p2pkh() => "pubkeyhash",
        script if script.is_p2sh() => "scripthash",
        script if script.is_p2wpkh() => "witness_v0_keyhash",
        script if script.is_p2wsh() => "witness_v0_scripthash",
        script if script.is_p2tr() => "witness_v1_taproot",
        script if script.is_multisig() => "multisig",
        script if script.as_bytes() == [0x51, 2, 0x4e, 0x73] => "anchor",
        script if script.is_op_return() => "nulldata",
        _ => "nonstandard",
    }
}

/// What every table says of an output on regtest.
pub(crate) fn output_row(output: &TxOut) -> Value {
    let script = &output.script_pubkey;
    let address = Address::from_script(script, Network::Regtest).ok();
    json!({
        "value": output.value.to_sat(),
        "script": script.as_bytes().to_lower_hex_string(),
        "script_type": word(script),
        "address": address.map(|address| address.to_string()),
    })
}

impl OwnCoin {
    /// Its row in tables.
    pub(crate) fn row(&self, outpoint: &OutPoint) -> Value {
        let mut row = output_row(&self.output);
        row["txid"] = json!(outpoint.txid.to_string());
        row["vout"] = json!(outpoint.vout);
        row["height"] = json!(self.height);
        row["coinbase"] = json!(self.is_coinbase);
        row
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct OwnSet(pub(crate) BTreeMap<OutPoint, OwnCoin>);

impl OwnSet {
    fn connect(&mut self, height: u32, block: &Block) {
        for transaction in &block.txdata {
            let is_coinbase = transaction.is_coinbase();
            if !is_coinbase {
                for input in &transaction.input {
                    assert!(self.0.remove(&input.previous_output).is_some(), "{input:?}");
                }
            }
            let txid = transaction.compute_txid();
            for (vout, output) in (0..).zip(&transaction.output) {
                let script = &output.script_pubkey;
                if script.is_op_return() || script.len() > SCRIPT_SIZE_MAX {
                    continue;
                }
                let coin = OwnCoin {
                    height,
                    is_coinbase,
                    output: output.clone(),
                };
                assert_eq!(self.0.insert(OutPoint { txid, vout }, coin), None);
            }
        }
    }
}
