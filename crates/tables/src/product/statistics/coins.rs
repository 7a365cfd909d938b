//! The coins that a block makes and spends.

#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use crate::product::{OfBlock, OfChain};
use blockmill_block::coin::is_unspendable;
use blockmill_block::{CoinRef, OutPoint};
use blockmill_chain::SpendingBlock;
use blockmill_coins::MuHashChange;
use std::collections::HashSet;

/// Elements of a MuHash.
#[derive(Default)]
struct Elements {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Elements {
    fn push(&mut self, outpoint: &OutPoint, coin: CoinRef<'_>) {
        coin.write_hash_preimage(outpoint, &mut self.bytes);
        self.ends.push(self.bytes.len());
    }

    fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let mut start = 0;
        let ends = self.ends.iter();
        ends.map(move |&end| &self.bytes[std::mem::replace(&mut start, end)..end])
    }
}

/// The coins that a block makes and spends. Of those that it both makes and spends there are none.
pub(super) struct Coins {
    made: Elements,
    spent: Elements,
    /// Satoshi times the seconds that they were unspent. None if the age of a coin is not known.
    pub(super) satoshi_seconds: Option<i128>,
    is_known: bool,
}

impl Coins {
    pub(super) fn of(chain: &OfChain, of: &OfBlock, read: &SpendingBlock) -> Self {
        let mut coins = Self {
            made: Elements::default(),
            spent: Elements::default(),
            satoshi_seconds: Some(0),
            is_known: true,
        };
        let inside = coins.add_spent(chain, of, read);
        coins.add_made(chain, of, read, inside);
        coins
    }

    /// Adds coins that are spent. Returns those that the block may have made itself: they have its
    /// height, or none that is known. They have no age.
    fn add_spent(&mut self, chain: &OfChain, of: &OfBlock, read: &SpendingBlock) -> HashSet<OutPoint> {
        let mut inside = HashSet::new();
        for spending in read.transactions() {
            for (input, coin) in spending.inputs() {
                let (outpoint, Some(coin)) = (input.previous_output(), coin) else {
                    continue;
                };
                // Undo data of an old Core has height 0 where it does not know.
                if coin.height == of.height || coin.height == 0 {
                    inside.insert(outpoint);
                    continue;
                }
                self.is_known &= coin.height < of.height;
                let time = chain.times.get(coin.height as usize);
                self.satoshi_seconds = self.satoshi_seconds.zip(time).map(|(sum, &time)| {
                    let seconds = i128::from(of.time.0) - i128::from(time);
                    sum + seconds * i128::from(coin.value)
                });
                self.spent.push(&outpoint, coin);
            }
        }
        inside
    }

    /// Adds coins that are made, but for those that the block spends itself. Nothing is known of a
    /// coin that it spends and has not made.
    fn add_made(&mut self, chain: &OfChain, of: &OfBlock, read: &SpendingBlock, mut inside: HashSet<OutPoint>) {
        for transaction in read.block.transactions() {
            let is_coinbase = transaction.is_coinbase();
            if is_coinbase && chain.is_without_coinbase(of) {
                continue;
            }
            let txid = transaction.txid();
            for (vout, output) in (0..).zip(transaction.outputs()) {
                let outpoint = OutPoint { txid, vout };
                if is_unspendable(output.script_pubkey()) || (!inside.is_empty() && inside.remove(&outpoint)) {
                    continue;
                }
                self.made.push(&outpoint, output.coin(of.height, is_coinbase));
            }
        }
        if !inside.is_empty() {
            self.is_known = false;
            self.satoshi_seconds = None;
        }
    }

    /// What they change in the MuHash of the set. None if one of them is not known.
    pub(super) fn muhash(&self) -> Option<MuHashChange> {
        self.is_known
            .then(|| MuHashChange::new(self.made.iter(), self.spent.iter()))
    }
}
