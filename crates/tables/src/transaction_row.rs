//! A transaction of a block as a row of a table, with the coins that it spends.

#[cfg(feature = "arrow")]
pub(crate) mod columns;

use crate::sizes::Sizes;
use blockmill_block::{CoinRef, Input, Network, Output, Txid, hex};
use blockmill_chain::{SpendingBlock, SpendingTransaction};
use blockmill_descriptors::script_kind::{ScriptKind, address};
use serde::{Serialize, Serializer};

/// What is said of a block, and what all its rows have in common.
#[derive(Debug, Clone, Serialize)]
pub struct BlockRow {
    pub(crate) height: u32,
    pub(crate) block_hash: String,
    block_time: u32,
    /// The median of the times of this block and the ten before it.
    block_mediantime: u32,
    block_version: i32,
    merkle_root: String,
    bits: String,
    nonce: u32,
    block_size: u64,
    block_weight: u64,
}

impl BlockRow {
    /// Of a block, and the median of the times of it and the ten before it.
    pub fn new(read: &SpendingBlock, median_time: u32) -> Self {
        let header = read.block.header();
        Self {
            height: read.height,
            block_hash: read.block.hash().to_string(),
            block_time: header.time,
            block_mediantime: median_time,
            block_version: header.version,
            merkle_root: header.merkle_root.to_string(),
            bits: format!("{:08x}", header.bits),
            nonce: header.nonce,
            block_size: read.block.bytes().len() as u64,
            block_weight: read.block.weight() as u64,
        }
    }
}

/// A row.
#[derive(Debug, Serialize)]
pub struct TransactionRow {
    /// Its block.
    #[serde(flatten)]
    pub block: BlockRow,
    /// The transaction.
    #[serde(flatten)]
    pub transaction: TransactionFields,
}

/// What is said of a transaction. The words are Core's; amounts are in satoshi, and bytes in hex.
#[derive(Debug, Serialize)]
pub struct TransactionFields {
    /// Its number in the block.
    position: u32,
    txid: String,
    wtxid: String,
    version: u32,
    locktime: u32,
    size: u64,
    vsize: u64,
    weight: u64,
    sigop_cost: u64,
    coinbase: bool,
    /// None for a coinbase.
    fee: Option<i64>,
    inputs: Vec<InputRow>,
    outputs: Vec<OutputRow>,
}

/// An input, and the coin that it spends.
#[derive(Debug, Serialize)]
pub struct InputRow {
    /// What a coinbase's input has for an outpoint names nothing.
    pub(crate) txid: Option<String>,
    pub(crate) vout: Option<u32>,
    pub(crate) script_sig: String,
    pub(crate) witness: HexItems,
    pub(crate) sequence: u32,
    /// None where undo data of an old version of Core does not tell; and so with the next.
    pub(crate) height: Option<u32>,
    pub(crate) coinbase: Option<bool>,
    pub(crate) value: Option<i64>,
    pub(crate) script: Option<String>,
    pub(crate) script_type: Option<&'static str>,
    pub(crate) address: Option<String>,
}

/// Items of a witness in hex, one after the other: there may be millions in a block.
#[derive(Debug)]
pub(crate) struct HexItems {
    digits: String,
    /// Of each item.
    ends: Vec<u32>,
}

/// An output.
#[derive(Debug, Serialize)]
pub struct OutputRow {
    pub(crate) vout: u32,
    pub(crate) value: i64,
    pub(crate) script: String,
    pub(crate) script_type: &'static str,
    pub(crate) address: Option<String>,
}

impl HexItems {
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = &str> {
        let mut start = 0;
        self.ends.iter().map(move |&end| {
            let end = end as usize;
            &self.digits[std::mem::replace(&mut start, end)..end]
        })
    }

    /// The items, with a space between two.
    pub(crate) fn joined(&self) -> String {
        let mut joined = String::with_capacity(self.digits.len() + self.ends.len());
        for (number, item) in self.iter().enumerate() {
            joined.push_str(if number > 0 { " " } else { "" });
            joined.push_str(item);
        }
        joined
    }
}

impl<'a> FromIterator<&'a [u8]> for HexItems {
    fn from_iter<I: IntoIterator<Item = &'a [u8]>>(items: I) -> Self {
        let (mut digits, mut ends) = (Vec::new(), Vec::new());
        for item in items {
            hex::append(item, &mut digits);
            ends.push(digits.len() as u32);
        }
        Self {
            digits: String::from_utf8(digits).unwrap_or_default(),
            ends,
        }
    }
}

impl Serialize for HexItems {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl InputRow {
    pub(crate) fn new(input: &Input<'_>, coin: Option<CoinRef<'_>>, network: Network) -> Self {
        let outpoint = input.previous_output();
        // Undo data of an old Core has height 0 where it does not know.
        let dated = coin.filter(|coin| coin.height > 0);
        Self {
            txid: coin.map(|_| outpoint.txid.to_string()),
            vout: coin.map(|_| outpoint.vout),
            script_sig: hex::encode(input.script_sig()),
            witness: input.witness().iter().collect(),
            sequence: input.sequence(),
            height: dated.map(|coin| coin.height),
            coinbase: dated.map(|coin| coin.is_coinbase),
            value: coin.map(|coin| coin.value),
            script: coin.map(|coin| hex::encode(coin.script_pubkey)),
            script_type: coin.map(|coin| ScriptKind::of(coin.script_pubkey).word()),
            address: coin.and_then(|coin| address(coin.script_pubkey, network)),
        }
    }
}

impl OutputRow {
    pub(crate) fn new(vout: u32, output: &Output<'_>, network: Network) -> Self {
        let script = output.script_pubkey();
        Self {
            vout,
            value: output.value(),
            script: hex::encode(script),
            script_type: ScriptKind::of(script).word(),
            address: address(script, network),
        }
    }
}

impl TransactionFields {
    /// Of a transaction with this number in its block.
    pub fn new(position: u32, spending: &SpendingTransaction<'_>, network: Network) -> Self {
        let transaction = &spending.transaction;
        let Sizes { size, vsize, weight } = Sizes::of(spending);
        Self {
            position,
            txid: transaction.txid().to_string(),
            wtxid: transaction.wtxid().to_string(),
            version: transaction.version(),
            locktime: transaction.lock_time(),
            size,
            vsize,
            weight,
            sigop_cost: spending.sigop_cost(),
            coinbase: transaction.is_coinbase(),
            fee: spending.fee(),
            inputs: spending
                .inputs()
                .map(|(input, coin)| InputRow::new(&input, coin, network))
                .collect(),
            outputs: (0..)
                .zip(transaction.outputs())
                .map(|(vout, output)| OutputRow::new(vout, &output, network))
                .collect(),
        }
    }
}

/// Memory in bytes that a row takes, about.
pub fn memory_of_row(spending: &SpendingTransaction<'_>) -> usize {
    // Bytes become hex.
    let inputs = spending.inputs().map(|(input, coin)| {
        let script = coin.map_or(0, |coin| coin.script_pubkey.len());
        let witness: usize = input
            .witness()
            .iter()
            .map(|item| 2 * item.len() + size_of::<u32>())
            .sum();
        size_of::<InputRow>() + 2 * (size_of::<Txid>() + input.script_sig().len() + script) + witness
    });
    let outputs = spending.transaction.outputs();
    let outputs = outputs.map(|output| size_of::<OutputRow>() + 2 * output.script_pubkey().len());
    // A row has four hashes in hex.
    size_of::<TransactionRow>() + 8 * size_of::<Txid>() + inputs.sum::<usize>() + outputs.sum::<usize>()
}
