//! Figures and hashes of the whole set, as Core's `gettxoutsetinfo` reports them.

use crate::muhash::MuHash;
use crate::store::{StoreError, Tip};
use blockmill_block::hash::Sha256d;
use blockmill_block::{BlockHash, Coin, OutPoint, Txid};

/// Bytes that Core's measure of size counts for a coin without its script: id, index, height and
/// flag, amount, script length.
const BOGO_SIZE_BASE: u64 = 32 + 4 + 4 + 8 + 2;

/// The hashes to compute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hashes {
    /// `hash_serialized_3` alone.
    Serialized,
    /// `hash_serialized_3` and MuHash.
    Both,
}

/// Figures of a set of coins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UtxoStats {
    /// Height of the set's last block.
    pub height: u32,
    /// Hash of the set's last block.
    pub best_block: BlockHash,
    /// Number of coins.
    pub txouts: u64,
    /// Core's measure of size in bytes, which does not depend on the database.
    pub bogosize: u64,
    /// Number of transactions with a coin in the set.
    pub transactions: u64,
    /// Sum of all coins in satoshi.
    pub total_amount: i64,
    /// Hash over all coins in order. Its bytes are printed in reverse order, like a block hash.
    pub hash_serialized_3: BlockHash,
    /// MuHash of all coins, if it was computed. Printed like a block hash.
    pub muhash: Option<BlockHash>,
}

/// Computes the figures of a set, coin by coin.
pub struct StatsBuilder {
    serialized: Sha256d,
    muhash: Option<MuHash>,
    previous: Option<Txid>,
    txouts: u64,
    bogosize: u64,
    transactions: u64,
    total_amount: i64,
    preimage: Vec<u8>,
}

impl StatsBuilder {
    /// A set without coins.
    pub fn new(hashes: Hashes) -> Self {
        Self {
            serialized: Sha256d::new(),
            muhash: (hashes == Hashes::Both).then(MuHash::new),
            previous: None,
            txouts: 0,
            bogosize: 0,
            transactions: 0,
            total_amount: 0,
            preimage: Vec::new(),
        }
    }

    /// Adds a coin. Coins must come sorted by transaction id, then by output index.
    pub fn add(&mut self, outpoint: &OutPoint, coin: &Coin) {
        self.preimage.clear();
        coin.write_hash_preimage(outpoint, &mut self.preimage);
        self.serialized.update(&self.preimage);
        if let Some(muhash) = &mut self.muhash {
            muhash.insert(&self.preimage);
        }
        if self.previous != Some(outpoint.txid) {
            self.previous = Some(outpoint.txid);
            self.transactions += 1;
        }
        self.txouts += 1;
        self.bogosize += BOGO_SIZE_BASE + coin.script_pubkey.len() as u64;
        self.total_amount = self.total_amount.saturating_add(coin.value);
    }

    /// Adds all coins of an iterator, which must be sorted as for [`add`](Self::add).
    ///
    /// # Errors
    /// The first error of the iterator.
    pub fn add_all(
        mut self,
        coins: impl Iterator<Item = Result<(OutPoint, Coin), StoreError>>,
    ) -> Result<Self, StoreError> {
        for entry in coins {
            let (outpoint, coin) = entry?;
            self.add(&outpoint, &coin);
        }
        Ok(self)
    }

    /// The figures of the set at `tip`.
    pub fn finish(self, tip: &Tip) -> UtxoStats {
        UtxoStats {
            height: tip.height,
            best_block: tip.hash,
            txouts: self.txouts,
            bogosize: self.bogosize,
            transactions: self.transactions,
            total_amount: self.total_amount,
            hash_serialized_3: BlockHash(self.serialized.finalize()),
            muhash: self.muhash.map(|muhash| BlockHash(muhash.finalize())),
        }
    }
}
