//! The live coins of the chain in four groups: immature coinbases, mature coinbases, young coins,
//! old coins.

use std::collections::VecDeque;

use bitcoin::Txid;
use bitcoin::constants::COINBASE_MATURITY;

use crate::address::Address;
use crate::rng::Rng;

/// An unspent output. With 56 bytes each, millions of coins take some hundred megabytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Coin {
    /// The transaction that created it.
    pub(crate) txid: Txid,
    /// Satoshi.
    pub(crate) value: u64,
    /// Its index among the transaction's outputs.
    pub(crate) vout: u32,
    /// Twice the height, plus 1 for a coinbase.
    pub(crate) height_code: u32,
    /// The address that it pays to.
    pub(crate) address: Address,
}

impl Coin {
    /// The height of the block that created it.
    pub(crate) fn height(&self) -> u32 {
        self.height_code / 2
    }
}

/// Mature coinbases kept for fan-outs; the others join the old coins.
const RICH_MAX: usize = 64;
/// Coins drawn to find one of high value.
const RICH_SAMPLES: usize = 12;
/// Draws of 100 that take a young coin. The others take an old one, so that a cache of recent coins
/// misses.
const YOUNG_PERCENT: u64 = 75;
/// One draw in this many takes a mature coinbase.
const COINBASE_ONE_IN: u64 = 64;

/// All live coins.
pub(crate) struct CoinPool {
    immature: VecDeque<Coin>,
    rich: VecDeque<Coin>,
    young: VecDeque<Coin>,
    old: Vec<Coin>,
    young_max: usize,
}

impl CoinPool {
    /// An empty pool in which the last `young_max` coins count as young.
    pub(crate) fn new(young_max: usize) -> CoinPool {
        CoinPool {
            immature: VecDeque::new(),
            rich: VecDeque::new(),
            young: VecDeque::new(),
            old: Vec::new(),
            young_max,
        }
    }

    /// Makes the coinbases spendable that are mature at `height`.
    pub(crate) fn mature(&mut self, height: u32) {
        // Coinbases come in the order of their heights, so the first is the first to be mature.
        while let Some(coin) = self.immature.front()
            && coin.height() + COINBASE_MATURITY <= height
        {
            self.rich.extend(self.immature.pop_front());
            if self.rich.len() > RICH_MAX {
                self.old.extend(self.rich.pop_front());
            }
        }
    }

    /// Adds the output of a coinbase.
    pub(crate) fn add_coinbase(&mut self, coin: Coin) {
        self.immature.push_back(coin);
    }

    /// Adds any other output.
    pub(crate) fn add(&mut self, coin: Coin) {
        self.young.push_back(coin);
        if self.young.len() > self.young_max {
            self.old.extend(self.young.pop_front());
        }
    }

    /// Returns a coin that was taken and not spent.
    pub(crate) fn give_back(&mut self, coin: Coin) {
        self.old.push(coin);
    }

    /// Number of coins, spendable or not.
    pub(crate) fn len(&self) -> u64 {
        self.immature.len() as u64 + self.spendable()
    }

    /// Number of coins that can be taken.
    pub(crate) fn spendable(&self) -> u64 {
        (self.rich.len() + self.young.len() + self.old.len()) as u64
    }

    /// Takes a coin for a payment: mostly a young one.
    pub(crate) fn take(&mut self, rng: &mut Rng) -> Option<Coin> {
        if rng.one_in(COINBASE_ONE_IN)
            && let Some(coin) = self.rich.pop_front()
        {
            return Some(coin);
        }
        let wants_young = rng.below(100) < YOUNG_PERCENT;
        if !self.young.is_empty() && (wants_young || self.old.is_empty()) {
            let index = rng.index(self.young.len());
            return self.young.swap_remove_back(index);
        }
        if !self.old.is_empty() {
            let index = rng.index(self.old.len());
            return Some(self.old.swap_remove(index));
        }
        self.rich.pop_front()
    }

    /// Takes a coin of high value: a mature coinbase, or else the best of a few.
    pub(crate) fn take_rich(&mut self, rng: &mut Rng) -> Option<Coin> {
        if let Some(coin) = self.rich.pop_front() {
            return Some(coin);
        }
        let mut best = self.take(rng)?;
        for _ in 1..RICH_SAMPLES.min(self.spendable() as usize) {
            let Some(mut coin) = self.take(rng) else { break };
            // The poorer one goes back.
            if coin.value > best.value {
                std::mem::swap(&mut coin, &mut best);
            }
            self.give_back(coin);
        }
        Some(best)
    }

    /// Every coin, in the order of the UTXO set's serialization: by the bytes of the txid, then by
    /// output index.
    pub(crate) fn into_sorted(self) -> Vec<Coin> {
        let mut coins = self.old;
        coins.extend(self.immature);
        coins.extend(self.rich);
        coins.extend(self.young);
        coins.sort_unstable_by_key(|coin| (coin.txid, coin.vout));
        coins
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::Kind;
    use bitcoin::hashes::Hash;

    fn coin(number: u8, height_code: u32) -> Coin {
        Coin {
            txid: Txid::from_byte_array([number; 32]),
            value: number.into(),
            vout: 0,
            height_code,
            address: Address {
                kind: Kind::True,
                number: 0,
            },
        }
    }

    #[test]
    fn coinbases_mature_after_100_blocks() {
        let mut coin_pool = CoinPool::new(10);
        coin_pool.add_coinbase(coin(1, 3));
        coin_pool.mature(100);
        assert_eq!((coin_pool.len(), coin_pool.spendable()), (1, 0));
        coin_pool.mature(101);
        assert_eq!((coin_pool.len(), coin_pool.spendable()), (1, 1));
        assert_eq!(coin_pool.take(&mut Rng::new(0, 0)).unwrap().height(), 1);
    }

    #[test]
    fn draws_come_from_young_and_old() {
        let mut coin_pool = CoinPool::new(50);
        (0..100).for_each(|number| coin_pool.add(coin(number, 10)));
        let mut rng = Rng::new(0, 0);
        let mut young = 0;
        for _ in 0..40 {
            young += u32::from(coin_pool.take(&mut rng).unwrap().value >= 50);
        }
        assert!((20..=38).contains(&young), "{young} young coins of 40");
        assert!(coin_pool.take_rich(&mut rng).unwrap().value > 60);
        assert_eq!(coin_pool.len(), 59);
        let order: Vec<u64> = coin_pool.into_sorted().iter().map(|coin| coin.value).collect();
        assert!(order.is_sorted());
        assert_eq!(order.len(), 59);
    }

    #[test]
    fn an_empty_pool_gives_nothing() {
        let mut coin_pool = CoinPool::new(1);
        assert!(coin_pool.take(&mut Rng::new(0, 0)).is_none() && coin_pool.take_rich(&mut Rng::new(0, 0)).is_none());
        assert_eq!(size_of::<Coin>(), 56);
    }
}
