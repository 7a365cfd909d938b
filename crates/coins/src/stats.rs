//! Figures and hashes of the whole set, as Core's `gettxoutsetinfo` gives them.

use crate::muhash::MuHash;
use crate::store::{StoreError, Tip};
use blockmill_block::hash::Sha256d;
use blockmill_block::{BlockHash, Coin, OutPoint, Txid};

/// Bytes that Core's size measure counts for a coin besides its script: id, index, height and flag, amount, script length.
const BOGO_SIZE_BASE: u64 = 32 + 4 + 4 + 8 + 2;

/// Which hashes of the set are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hashes {
    /// `hash_serialized_3` alone.
    Serialized,
    /// Both.
    Both,
}

/// Figures of a set of coins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UtxoStats {
    /// Height of the block at whose end the set is this.
    pub height: u32,
    /// Its hash.
    pub best_block: BlockHash,
    /// Number of coins.
    pub txouts: u64,
    /// Core's measure of size in bytes, which does not depend on the database.
    pub bogosize: u64,
    /// Number of transactions with a coin in the set.
    pub transactions: u64,
    /// Sum of all coins in satoshi.
    pub total_amount: i64,
    /// Hash over all coins in order; printed like a block hash.
    pub hash_serialized_3: BlockHash,
    /// MuHash of all coins where it was asked for; printed like a block hash.
    pub muhash: Option<BlockHash>,
}

/// Takes in coins, in the order of their keys.
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
    /// No coins yet.
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

    /// Takes in the next coin. Coins must come by transaction id, then by output index.
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

    /// Takes in all coins of an iterator.
    ///
    /// # Errors
    /// What the iterator returns.
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

    /// The figures at `tip`.
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
