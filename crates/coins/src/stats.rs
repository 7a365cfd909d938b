//! Figures and hashes of the whole set, as Core's `gettxoutsetinfo` reports them.

#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use crate::muhash::MuHash;
use crate::store::{StoreError, Tip};
use blockmill_block::hash::Sha256d;
use blockmill_block::{BlockHash, Coin, OutPoint, Txid};

/// Bytes that Core's measure of size counts for a coin without its script: id, index, height and
/// flag, amount, script length.
const BOGO_SIZE_BASE: u64 = 32 + 4 + 4 + 8 + 2;

/// Core's measure of the size of a coin with this script.
pub fn bogosize(script_pubkey: &[u8]) -> u64 {
    BOGO_SIZE_BASE + script_pubkey.len() as u64
}

/// Bytes that a usual coin adds to what `hash_serialized_3` is computed of.
const PREIMAGE_BYTES: usize = 80;

/// The hashes to compute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hashes {
    /// None of them.
    Neither,
    /// `hash_serialized_3` alone.
    Serialized,
    /// MuHash alone.
    MuHash,
    /// `hash_serialized_3` and MuHash.
    Both,
}

impl Hashes {
    /// Whether `hash_serialized_3` is among them.
    pub fn has_serialized(self) -> bool {
        matches!(self, Self::Serialized | Self::Both)
    }

    /// Whether MuHash is among them.
    pub fn has_muhash(self) -> bool {
        matches!(self, Self::MuHash | Self::Both)
    }
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
    /// Sum of all coins in satoshi. It is wide: coins that nobody validated may be worth more than
    /// all money.
    pub total_amount: i128,
    /// Hash over all coins in order, or over none if it was not asked for. Its bytes are printed in
    /// reverse order, like a block hash.
    pub hash_serialized_3: BlockHash,
    /// MuHash of all coins, if it was computed. Printed like a block hash.
    pub muhash: Option<BlockHash>,
}

/// Computes the figures of a set, coin by coin.
pub struct StatsBuilder {
    serialized: Sha256d,
    /// Of all coins that were added. Its preimages are empty between two calls.
    total: StatsPart,
}

/// What a part of a set adds to its figures. Several threads may compute parts at once; a
/// [`StatsBuilder`] takes them in order.
pub struct StatsPart {
    hashes: Hashes,
    /// What `hash_serialized_3` is computed of.
    preimages: Vec<u8>,
    muhash: Option<MuHash>,
    first: Option<Txid>,
    last: Option<Txid>,
    txouts: u64,
    bogosize: u64,
    transactions: u64,
    total_amount: i128,
}

impl StatsPart {
    /// The part with these coins, which are sorted as for [`StatsBuilder::add`].
    pub fn new(hashes: Hashes, coins: &[(OutPoint, Coin)]) -> Self {
        let mut part = Self::empty(hashes);
        if hashes.has_serialized() {
            part.preimages.reserve(coins.len() * PREIMAGE_BYTES);
        }
        for (outpoint, coin) in coins {
            part.add(outpoint, coin);
        }
        part
    }

    fn empty(hashes: Hashes) -> Self {
        Self {
            hashes,
            preimages: Vec::new(),
            muhash: hashes.has_muhash().then(MuHash::new),
            first: None,
            last: None,
            txouts: 0,
            bogosize: 0,
            transactions: 0,
            total_amount: 0,
        }
    }

    fn add(&mut self, outpoint: &OutPoint, coin: &Coin) {
        let start = self.preimages.len();
        if self.hashes != Hashes::Neither {
            coin.write_hash_preimage(outpoint, &mut self.preimages);
        }
        if let Some(muhash) = &mut self.muhash {
            muhash.insert(&self.preimages[start..]);
        }
        if !self.hashes.has_serialized() {
            // MuHash has taken it, and nothing else needs it.
            self.preimages.clear();
        }
        self.first.get_or_insert(outpoint.txid);
        self.transactions += u64::from(self.last.replace(outpoint.txid) != Some(outpoint.txid));
        self.txouts += 1;
        self.bogosize += bogosize(&coin.script_pubkey);
        self.total_amount += i128::from(coin.value);
    }

    /// Number of its coins.
    pub fn txouts(&self) -> u64 {
        self.txouts
    }
}

impl StatsBuilder {
    /// A set without coins.
    pub fn new(hashes: Hashes) -> Self {
        Self {
            serialized: Sha256d::new(),
            total: StatsPart::empty(hashes),
        }
    }

    /// Adds a coin. Coins must come sorted by transaction id, then by output index.
    pub fn add(&mut self, outpoint: &OutPoint, coin: &Coin) {
        self.total.add(outpoint, coin);
        self.serialized.update(&self.total.preimages);
        self.total.preimages.clear();
    }

    /// Adds the coins of a part, which come after those that were added.
    pub fn add_part(&mut self, part: &StatsPart) {
        // This hash depends on the order, so it cannot be computed in parts.
        self.serialized.update(&part.preimages);
        let total = &mut self.total;
        if let (Some(muhash), Some(other)) = (&mut total.muhash, &part.muhash) {
            muhash.merge(other);
        }
        // A transaction may have coins in both.
        let shared = part.first.is_some() && part.first == total.last;
        total.transactions += part.transactions - u64::from(shared);
        total.last = part.last.or(total.last);
        total.txouts += part.txouts;
        total.bogosize += part.bogosize;
        total.total_amount += part.total_amount;
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
        let total = self.total;
        UtxoStats {
            height: tip.height,
            best_block: tip.hash,
            txouts: total.txouts,
            bogosize: total.bogosize,
            transactions: total.transactions,
            total_amount: total.total_amount,
            hash_serialized_3: BlockHash(self.serialized.finalize()),
            muhash: total.muhash.map(|muhash| BlockHash(muhash.finalize())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use blockmill_block::Txid;

    #[test]
    fn parts_make_the_same_figures() {
        let coins: Vec<(OutPoint, Coin)> = (0..97u32)
            .map(|number| {
                let mut txid = Txid([0; 32]);
                txid.0[..4].copy_from_slice(&(number / 3).to_be_bytes());
                let coin = Coin {
                    value: i64::from(number) * 7_001,
                    height: number / 2,
                    is_coinbase: number % 5 == 0,
                    script_pubkey: vec![number as u8; number as usize].into(),
                };
                let vout = number % 3;
                (OutPoint { txid, vout }, coin)
            })
            .collect();
        let tip = Tip {
            hash: BlockHash([9; 32]),
            height: 50,
        };
        let mut found = Vec::new();
        for hashes in [Hashes::Both, Hashes::Serialized, Hashes::MuHash, Hashes::Neither] {
            let mut whole = StatsBuilder::new(hashes);
            for (outpoint, coin) in &coins {
                whole.add(outpoint, coin);
            }
            let whole = whole.finish(&tip);
            assert_eq!((whole.txouts, whole.transactions), (97, 33));
            for size in [1, 2, 3, 10, 97, 200] {
                let mut parts = StatsBuilder::new(hashes);
                for part in coins.chunks(size) {
                    parts.add_part(&StatsPart::new(hashes, part));
                    parts.add_part(&StatsPart::new(hashes, &[]));
                }
                assert_eq!(parts.finish(&tip), whole, "{size}");
            }
            found.push(whole);
        }
        let [both, serialized, muhash, neither] = &found[..] else {
            unreachable!("one for each choice");
        };
        assert_eq!(serialized.hash_serialized_3, both.hash_serialized_3);
        assert_eq!((serialized.muhash, muhash.muhash), (None, both.muhash));
        assert_eq!(
            (neither.hash_serialized_3, neither.muhash),
            (muhash.hash_serialized_3, None)
        );
        assert_eq!(
            (neither.txouts, neither.bogosize, neither.total_amount),
            (97, both.bogosize, both.total_amount)
        );
    }
}
