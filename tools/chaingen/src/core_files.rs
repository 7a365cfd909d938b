//! Chains in the files of Bitcoin Core: blocks (`blk*.dat`), undo data (`rev*.dat`), their key
//! (`xor.dat`), and snapshots. All of it can be changed before it is written, so that tests can
//! lie.
//!
//! Nothing here uses the engine's code, so its readers can be compared with it.

use bitcoin::block::Block;
use bitcoin::consensus::encode::{VarInt, serialize};
use bitcoin::hashes::{Hash, sha256d};
use bitcoin::secp256k1::PublicKey;
use bitcoin::{OutPoint, ScriptBuf, Transaction};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

/// Longest script that Core keeps in its set, in bytes.
const SCRIPT_BYTES_MAX: usize = 10_000;

/// Zeros that are allocated at the end of a file and not written.
const PADDING: usize = 5_000;

/// A coin, as undo data and snapshots have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CoreCoin {
    /// Height of the block that created it.
    pub height: u32,
    /// Whether a coinbase created it.
    pub coinbase: bool,
    /// Amount in satoshi.
    pub value: u64,
    /// Locking script.
    pub script: ScriptBuf,
}

/// A block, and the coins that its undo data will say it spends.
#[derive(Debug, Clone)]
pub struct CoreBlock {
    /// The block.
    pub block: Block,
    /// The coins, one for each input but the coinbase's, in order.
    pub spent: Vec<CoreCoin>,
}

/// A chain from the first block on, and its set.
#[derive(Debug, Clone)]
pub struct CoreChain {
    /// Magic of the network.
    pub magic: [u8; 4],
    /// The blocks by height.
    pub blocks: Vec<CoreBlock>,
    /// The set, by txid in wire order and output index.
    pub coins: BTreeMap<([u8; 32], u32), CoreCoin>,
}

/// How files are written.
#[derive(Debug, Clone)]
pub struct CoreLayout {
    /// The key in `xor.dat`; none writes no such file.
    pub key: Option<[u8; 8]>,
    /// Blocks in a file.
    pub blocks_per_file: usize,
    /// Whether the blocks of a file come last first. Undo data is in the order of the chain.
    pub reversed: bool,
    /// Blocks beside the chain, each with the height of its twin in it. They are written before
    /// their twins, their undo data too.
    pub stale: Vec<(usize, CoreBlock)>,
}

impl Default for CoreLayout {
    fn default() -> Self {
        Self {
            key: Some([0x51, 7, 0, 0xfa, 0xbf, 9, 1, 0xee]),
            blocks_per_file: 50,
            reversed: false,
            stale: Vec::new(),
        }
    }
}

fn key_of(outpoint: &OutPoint) -> ([u8; 32], u32) {
    (outpoint.txid.to_byte_array(), outpoint.vout)
}

fn is_kept(script: &ScriptBuf) -> bool {
    !script.is_op_return() && script.len() <= SCRIPT_BYTES_MAX
}

impl CoreChain {
    /// A chain of these blocks, from the first one of the network on.
    ///
    /// # Panics
    /// If a block spends a coin that is not there.
    pub fn new(magic: [u8; 4], blocks: impl IntoIterator<Item = Block>) -> Self {
        let mut chain = Self {
            magic,
            blocks: Vec::new(),
            coins: BTreeMap::new(),
        };
        for block in blocks {
            chain.push(block);
        }
        chain
    }

    /// The blocks of a file without a key, in their order.
    ///
    /// # Panics
    /// If the file is not a run of records, or the blocks are not in the order of a chain.
    pub fn of_file(bytes: &[u8]) -> Self {
        let mut blocks = Vec::new();
        let mut rest = bytes;
        let magic = [bytes[0], bytes[1], bytes[2], bytes[3]];
        while let Some((head, after)) = rest.split_first_chunk::<8>() {
            let length = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
            blocks.push(bitcoin::consensus::deserialize(&after[..length]).expect("a block"));
            rest = &after[length..];
        }
        Self::new(magic, blocks)
    }

    /// Appends a block.
    ///
    /// # Panics
    /// If it spends a coin that is not there.
    pub fn push(&mut self, block: Block) {
        self.push_with(block, |outpoint| panic!("coin {outpoint} is not there"));
    }

    /// Appends a block; `claim` makes up coins that are not there.
    pub fn push_with(&mut self, block: Block, mut claim: impl FnMut(&OutPoint) -> CoreCoin) {
        let height = self.blocks.len() as u32;
        let mut spent = Vec::new();
        for (index, transaction) in block.txdata.iter().enumerate() {
            // The coinbase spends nothing.
            for input in transaction.input.iter().filter(|_| index > 0) {
                let coin = self.coins.remove(&key_of(&input.previous_output));
                spent.push(coin.unwrap_or_else(|| claim(&input.previous_output)));
            }
            // The output of the first block is in no set.
            if height > 0 {
                self.create(transaction, height, index == 0);
            }
        }
        self.blocks.push(CoreBlock { block, spent });
    }

    fn create(&mut self, transaction: &Transaction, height: u32, coinbase: bool) {
        let txid = transaction.compute_txid().to_byte_array();
        for (vout, output) in (0..).zip(&transaction.output) {
            if is_kept(&output.script_pubkey) {
                let coin = CoreCoin {
                    height,
                    coinbase,
                    value: output.value.to_sat(),
                    script: output.script_pubkey.clone(),
                };
                self.coins.insert((txid, vout), coin);
            }
        }
    }

    /// The last block.
    ///
    /// # Panics
    /// If there is none.
    pub fn tip(&self) -> &Block {
        &self.blocks.last().expect("a block").block
    }

    /// Writes the files of Core's `blocks` folder, which is made.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn write(&self, folder: &Path, layout: &CoreLayout) -> io::Result<()> {
        fs::create_dir_all(folder)?;
        if let Some(key) = layout.key {
            fs::write(folder.join("xor.dat"), key)?;
        }
        let xor = |mut bytes: Vec<u8>| {
            let key = layout.key.unwrap_or_default();
            for (byte, key) in bytes.iter_mut().zip(key.iter().cycle()) {
                *byte ^= key;
            }
            // What Core has only allocated is not under the key.
            bytes.resize(bytes.len() + PADDING, 0);
            bytes
        };
        for (number, blocks) in self.blocks.chunks(layout.blocks_per_file).enumerate() {
            let first = number * layout.blocks_per_file;
            let (mut records, mut undo) = (Vec::new(), Vec::new());
            for (height, own) in (first..).zip(blocks) {
                let twins = layout.stale.iter().filter(|(twin, _)| *twin == height);
                for block in twins.map(|(_, stale)| stale).chain([own]) {
                    records.push(self.record(&serialize(&block.block)));
                    // The first block has no undo data.
                    if height > 0 {
                        undo.extend(self.undo_record(block));
                    }
                }
            }
            if layout.reversed {
                records.reverse();
            }
            fs::write(folder.join(format!("blk{number:05}.dat")), xor(records.concat()))?;
            fs::write(folder.join(format!("rev{number:05}.dat")), xor(undo))?;
        }
        Ok(())
    }

    fn record(&self, bytes: &[u8]) -> Vec<u8> {
        [&self.magic, &(bytes.len() as u32).to_le_bytes(), bytes].concat()
    }

    fn undo_record(&self, block: &CoreBlock) -> Vec<u8> {
        let undo = block_undo(block);
        let mut record = self.record(&undo);
        let parent = block.block.header.prev_blockhash.to_byte_array();
        record.extend(sha256d::Hash::hash(&[&parent[..], &undo].concat()).to_byte_array());
        record
    }

    /// Writes the set as `dumptxoutset` does.
    ///
    /// # Errors
    /// Those of the file system.
    ///
    /// # Panics
    /// If the chain has no block.
    pub fn write_snapshot(&self, path: &Path) -> io::Result<()> {
        let mut bytes = b"utxo\xff\x02\x00".to_vec();
        bytes.extend(self.magic);
        bytes.extend(self.tip().block_hash().to_byte_array());
        bytes.extend((self.coins.len() as u64).to_le_bytes());
        let mut groups: BTreeMap<[u8; 32], Vec<(u32, &CoreCoin)>> = BTreeMap::new();
        for ((txid, vout), coin) in &self.coins {
            groups.entry(*txid).or_default().push((*vout, coin));
        }
        for (txid, mut coins) in groups {
            // The order of the database: by the bytes of its numbers.
            coins.sort_by_key(|(vout, _)| {
                let mut key = Vec::new();
                varint((*vout).into(), &mut key);
                key
            });
            bytes.extend(txid);
            bytes.extend(serialize(&VarInt(coins.len() as u64)));
            for (vout, coin) in coins {
                bytes.extend(serialize(&VarInt(vout.into())));
                varint(u64::from(coin.height) * 2 + u64::from(coin.coinbase), &mut bytes);
                compressed_output(coin, &mut bytes);
            }
        }
        fs::write(path, bytes)
    }
}

fn block_undo(block: &CoreBlock) -> Vec<u8> {
    let mut spent = block.spent.iter();
    let transactions = &block.block.txdata[1..];
    let mut bytes = serialize(&VarInt(transactions.len() as u64));
    for transaction in transactions {
        bytes.extend(serialize(&VarInt(transaction.input.len() as u64)));
        for coin in spent.by_ref().take(transaction.input.len()) {
            varint(u64::from(coin.height) * 2 + u64::from(coin.coinbase), &mut bytes);
            if coin.height > 0 {
                // Once the version of the transaction.
                bytes.push(0);
            }
            compressed_output(coin, &mut bytes);
        }
    }
    bytes
}

/// Core's VARINT: digits to the base 128, the highest first, each but the last one less by one.
fn varint(number: u64, into: &mut Vec<u8>) {
    let mut digits = vec![(number & 0x7f) as u8];
    let mut rest = number >> 7;
    while rest > 0 {
        rest -= 1;
        digits.push((rest & 0x7f) as u8 | 0x80);
        rest >>= 7;
    }
    into.extend(digits.into_iter().rev());
}

/// Core's `CompressAmount`.
fn compressed_amount(mut amount: u64) -> u64 {
    if amount == 0 {
        return 0;
    }
    let mut zeros = 0;
    while zeros < 9 && amount.is_multiple_of(10) {
        amount /= 10;
        zeros += 1;
    }
    if zeros == 9 {
        return 1 + (amount - 1) * 10 + 9;
    }
    let digit = amount % 10;
    1 + ((amount / 10) * 9 + digit - 1) * 10 + zeros
}

/// Core's `TxOutCompression`.
fn compressed_output(coin: &CoreCoin, into: &mut Vec<u8>) {
    varint(compressed_amount(coin.value), into);
    match coin.script.as_bytes() {
        [0x76, 0xa9, 20, hash @ .., 0x88, 0xac] if hash.len() == 20 => {
            into.push(0);
            into.extend(hash);
        }
        [0xa9, 20, hash @ .., 0x87] if hash.len() == 20 => {
            into.push(1);
            into.extend(hash);
        }
        // The first byte of a compressed key is the number of its form, too.
        [33, key @ .., 0xac] if key.len() == 33 && (key[0] == 2 || key[0] == 3) => into.extend(key),
        [65, key @ .., 0xac] if key.len() == 65 && key[0] == 4 && PublicKey::from_slice(key).is_ok() => {
            // Form 4 or 5, by the lowest bit of y.
            into.push(4 | key[64] & 1);
            into.extend(&key[1..33]);
        }
        script => {
            // Numbers below 6 name the special forms.
            varint(script.len() as u64 + 6, into);
            into.extend(script);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_core() {
        // From the comments of Core's serialize.h and the tests of its compressor.
        for (number, bytes) in [
            (0, &[0x00][..]),
            (127, &[0x7f]),
            (128, &[0x80, 0x00]),
            (255, &[0x80, 0x7f]),
            (256, &[0x81, 0x00]),
            (16_383, &[0xfe, 0x7f]),
            (16_511, &[0xff, 0x7f]),
            (65_535, &[0x82, 0xfe, 0x7f]),
        ] {
            let mut written = Vec::new();
            varint(number, &mut written);
            assert_eq!(written, bytes, "{number}");
        }
        for (amount, compressed) in [
            (0, 0),
            (1, 1),
            (1_000_000, 7),
            (100_000_000, 9),
            (5_000_000_000, 50),
            (2_100_000_000_000_000, 21_000_000),
        ] {
            assert_eq!(compressed_amount(amount), compressed, "{amount}");
        }
    }
}
