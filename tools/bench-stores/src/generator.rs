//! Coins by number: any of them can be made at any time, so what a store returns is checked without
//! a second copy.
//!
//! - loaded: coins `0..N` in the order of their keys, as the bulk load writes them;
//! - rounds: each takes away random loaded coins (no coin twice) and adds as many new ones;
//! - absent: outpoints that never were.

use blockmill_block::{Coin, OutPoint, Txid};
use blockmill_coins::{Before, Change, Changes, CoinRef};
use blockmill_harness::coins::{fill, mix, push_script, value};
use std::ops::Range;

/// What is left of transactions: eight coins of five transactions, as (transaction, output).
const GROUP: [(u64, u32); 8] = [(0, 0), (1, 1), (2, 0), (3, 0), (3, 1), (4, 0), (4, 1), (4, 5)];
const GROUP_TRANSACTIONS: u64 = 5;

/// Domains of the mixing function.
const LOADED: u64 = 1 << 60;
const ADDED: u64 = 2 << 60;
const ABSENT: u64 = 3 << 60;
const REMOVAL: u64 = 4 << 60;

/// Changes in a part of a load, and of a round.
const PART: usize = 1 << 13;

fn coin(seed: u64) -> Coin {
    let word = mix(seed);
    let mut script = Vec::new();
    push_script(word, &mut script);
    Coin {
        value: value(seed),
        height: (mix(word) % 900_000) as u32,
        is_coinbase: word >> 3 & 0x1ff == 0,
        script_pubkey: script.into(),
    }
}

fn txid(prefix: u64, seed: u64) -> Txid {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&prefix.to_be_bytes());
    fill(seed, &mut bytes[8..]);
    Txid(bytes)
}

/// An outpoint that is not one of the loaded ones.
fn outpoint(seed: u64) -> OutPoint {
    OutPoint {
        txid: txid(seed, seed),
        vout: (seed % 3) as u32,
    }
}

/// Outpoints with a coin, or with none: the changes of a round, sorted by outpoint, and what a read
/// must return. As in [`Changes`], an outpoint without a coin is spent, and was there before; one
/// with a coin was not.
#[derive(Debug, Default)]
pub(crate) struct CoinList(pub(crate) Vec<(OutPoint, Option<Coin>)>);

impl Changes for CoinList {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn parts(&self) -> usize {
        self.0.len().div_ceil(PART)
    }

    fn visit(&self, part: usize, each: &mut dyn FnMut(Change<'_>)) {
        for (outpoint, coin) in self.0.chunks(PART).nth(part).expect("there is such a part") {
            each(Change {
                outpoint: *outpoint,
                coin: coin.as_ref().map(CoinRef::from),
                before: if coin.is_some() { Before::Nothing } else { Before::Coin },
            });
        }
    }
}

/// Coins and changes by number.
#[derive(Debug, Clone)]
pub(crate) struct Generator {
    loaded: u64,
    /// How far apart the first eight bytes of loaded transactions lie.
    stride: u64,
    removals_per_round: u64,
    order: Permutation,
}

impl Generator {
    /// A set of `loaded` coins, changed in rounds of `changes`.
    pub(crate) fn new(loaded: u64, changes: u64) -> Self {
        let transactions = (loaded / GROUP.len() as u64 + 1) * GROUP_TRANSACTIONS;
        Self {
            loaded,
            stride: u64::MAX / transactions,
            removals_per_round: changes / 2,
            order: Permutation::new(loaded),
        }
    }

    /// The loaded coin of a number; outpoints rise with the number.
    fn loaded(&self, number: u64) -> (OutPoint, Coin) {
        (self.loaded_outpoint(number), coin(LOADED ^ mix(number)))
    }

    fn loaded_outpoint(&self, number: u64) -> OutPoint {
        let (transaction, vout) = GROUP[(number % GROUP.len() as u64) as usize];
        let transaction = number / GROUP.len() as u64 * GROUP_TRANSACTIONS + transaction;
        // Real ids are not evenly spaced either.
        let jitter = mix(LOADED | transaction);
        let txid = txid(transaction * self.stride + jitter % self.stride, jitter);
        OutPoint { txid, vout }
    }

    /// The coin of a number that some round adds.
    fn added(number: u64) -> (OutPoint, Coin) {
        let seed = mix(ADDED | number);
        (outpoint(seed), coin(ADDED ^ seed))
    }

    /// An outpoint that never was.
    pub(crate) fn absent(number: u64) -> OutPoint {
        outpoint(mix(ABSENT | number))
    }

    /// Coins there are, whatever the number of rounds.
    pub(crate) fn count(&self) -> u64 {
        self.loaded
    }

    /// Rounds until every loaded coin is removed.
    pub(crate) fn rounds_max(&self) -> u64 {
        self.loaded / self.removals_per_round.max(1)
    }

    /// The loaded coins of a range of numbers as changes of an empty store.
    pub(crate) fn load(&self, numbers: Range<u64>) -> CoinList {
        let loaded = numbers.map(|number| self.loaded(number));
        CoinList(loaded.map(|(outpoint, coin)| (outpoint, Some(coin))).collect())
    }

    /// The changes of a round, from 0.
    ///
    /// # Panics
    /// If there are too few coins for the rounds.
    pub(crate) fn round(&self, round: u64) -> CoinList {
        assert!(round < self.rounds_max(), "more rounds than coins");
        let mut list = Vec::new();
        for number in round * self.removals_per_round..(round + 1) * self.removals_per_round {
            list.push((self.loaded_outpoint(self.order.forward(number)), None));
            let (outpoint, coin) = Self::added(number);
            list.push((outpoint, Some(coin)));
        }
        list.sort_unstable_by_key(|entry| entry.0);
        // Scripts follow the order, too: else a cache miss for each would count as the store's.
        for coin in list.iter_mut().filter_map(|entry| entry.1.as_mut()) {
            coin.script_pubkey = coin.script_pubkey.clone();
        }
        CoinList(list)
    }

    /// A coin that is there after `rounds`, by a random number.
    pub(crate) fn present(&self, random: u64, rounds: u64) -> (OutPoint, Coin) {
        let removed = rounds * self.removals_per_round;
        let mut word = mix(random);
        loop {
            let number = word % (self.loaded + removed);
            if number >= self.loaded {
                return Self::added(number - self.loaded);
            }
            if self.order.backward(number) >= removed {
                return self.loaded(number);
            }
            // That coin is gone: another one is tried.
            word = mix(word);
        }
    }

    /// Sum of all values after `rounds`.
    pub(crate) fn total(&self, rounds: u64) -> i64 {
        let changed = rounds * self.removals_per_round;
        let loaded_value = |number| value(LOADED ^ mix(number));
        let loaded: i64 = (0..self.loaded).map(loaded_value).sum();
        let moved = |number| value(ADDED ^ mix(ADDED | number)) - loaded_value(self.order.forward(number));
        loaded + (0..changed).map(moved).sum::<i64>()
    }
}

/// A pseudorandom permutation of the numbers below a bound: four Feistel rounds, walked until the
/// number is in range.
#[derive(Debug, Clone)]
struct Permutation {
    bound: u64,
    half_bits: u32,
}

impl Permutation {
    fn new(bound: u64) -> Self {
        let bits = u64::BITS - bound.leading_zeros();
        Self {
            bound,
            half_bits: bits.div_ceil(2).max(1),
        }
    }

    fn forward(&self, number: u64) -> u64 {
        self.walk(number, [0, 1, 2, 3], false)
    }

    fn backward(&self, number: u64) -> u64 {
        self.walk(number, [3, 2, 1, 0], true)
    }

    fn walk(&self, mut number: u64, rounds: [u64; 4], swap: bool) -> u64 {
        let mask = (1 << self.half_bits) - 1;
        loop {
            let mut halves = [number >> self.half_bits, number & mask];
            if swap {
                halves.reverse();
            }
            for round in rounds {
                // A step backwards is one forwards between two exchanges of the halves.
                let [high, low] = halves;
                halves = [low, high ^ mix(REMOVAL | round << 40 | low) & mask];
            }
            if swap {
                halves.reverse();
            }
            number = halves[0] << self.half_bits | halves[1];
            // The halves have room for more numbers than there are: those are stepped over.
            if number < self.bound {
                return number;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn the_permutation_is_one() {
        for bound in [1, 2, 7, 1000, 4096] {
            let permutation = Permutation::new(bound);
            let mut seen: Vec<u64> = (0..bound).map(|number| permutation.forward(number)).collect();
            for (number, &image) in seen.iter().enumerate() {
                assert_eq!(permutation.backward(image), number as u64);
            }
            seen.sort_unstable();
            assert_eq!(seen, (0..bound).collect::<Vec<_>>());
        }
    }

    /// Applies changes to a plain map, and checks their order and what they say was there before.
    fn apply(changes: &dyn Changes, set: &mut BTreeMap<OutPoint, Coin>) {
        let (mut last, mut count) = (None, 0);
        changes.visit_all(&mut |change| {
            assert!(last.replace(change.outpoint) < Some(change.outpoint));
            count += 1;
            let before = match change.coin {
                Some(coin) => set.insert(change.outpoint, coin.to_coin()),
                None => set.remove(&change.outpoint),
            };
            assert_eq!(change.before == Before::Coin, before.is_some());
            assert!(before.is_some() || change.coin.is_some());
        });
        assert_eq!(count, changes.len());
    }

    #[test]
    fn rounds_lead_to_what_is_said_to_be_there() {
        let generator = Generator::new(20_000, 30_000 / 8);
        let mut set: BTreeMap<OutPoint, Coin> = BTreeMap::new();
        let load = generator.load(0..20_000);
        assert_eq!(load.parts(), 3);
        apply(&load, &mut set);
        assert_eq!(set.len() as u64, generator.count());
        for round in 0..5 {
            apply(&generator.round(round), &mut set);
            assert_eq!(set.len() as u64, generator.count());
            let total: i64 = set.values().map(|coin| coin.value).sum();
            assert_eq!(total, generator.total(round + 1));
            for number in 0..500 {
                let (outpoint, coin) = generator.present(number, round + 1);
                assert_eq!(set.get(&outpoint), Some(&coin));
                assert!(!set.contains_key(&Generator::absent(number)));
            }
        }
        assert_eq!(Generator::new(50_000_000, 1_000_000).rounds_max(), 100);
    }
}
