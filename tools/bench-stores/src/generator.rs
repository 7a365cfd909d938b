//! Coins by number: any of them can be made at any time, so what a store returns is checked without
//! a second copy.
//!
//! - loaded: coins `0..N` in the order of their keys, as the bulk load writes them;
//! - rounds: each takes away random loaded coins (no coin twice) and adds as many new ones;
//! - absent: outpoints that never were.

use crate::list::CoinList;
use blockmill_block::{Coin, OutPoint, Txid};
use blockmill_coins::{Before, Change, Changes, CoinRef};
use std::ops::Range;

/// What is left of transactions: eight coins of five transactions, as (transaction, output).
const GROUP: [(u64, u32); 8] = [(0, 0), (1, 1), (2, 0), (3, 0), (3, 1), (4, 0), (4, 1), (4, 5)];
const GROUP_TRANSACTIONS: u64 = 5;

/// Locking scripts by kind, with their share in a hundred, close to today's set by count.
#[derive(Debug, Clone, Copy)]
enum Lock {
    TaprootKey,
    WitnessKeyHash,
    KeyHash,
    ScriptHash,
    WitnessScriptHash,
    BareMultisig,
    PublicKey,
}

const SCRIPTS: [(u64, Lock); 7] = [
    (33, Lock::TaprootKey),
    (27, Lock::WitnessKeyHash),
    (27, Lock::KeyHash),
    (8, Lock::ScriptHash),
    (2, Lock::WitnessScriptHash),
    (2, Lock::BareMultisig),
    (1, Lock::PublicKey),
];

/// Domains of the mixing function.
const LOADED: u64 = 1 << 60;
const ADDED: u64 = 2 << 60;
const ABSENT: u64 = 3 << 60;
const REMOVAL: u64 = 4 << 60;

/// The finalizer of splitmix64: a permutation of 64-bit numbers.
fn mix(number: u64) -> u64 {
    let mut state = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    state = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    state = (state ^ state >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^ state >> 31
}

/// Appends `count` bytes that depend on `seed`.
fn push_bytes(seed: u64, count: usize, into: &mut Vec<u8>) {
    let end = into.len() + count;
    let mut word = seed;
    while into.len() < end {
        word = mix(word);
        let bytes = word.to_le_bytes();
        let wanted = (end - into.len()).min(bytes.len());
        into.extend_from_slice(&bytes[..wanted]);
    }
}

fn script(seed: u64) -> Box<[u8]> {
    let mut place = seed % 100;
    let mut kind = Lock::PublicKey;
    for (share, lock) in SCRIPTS {
        if place < share {
            kind = lock;
            break;
        }
        place -= share;
    }
    let (before, length, after): (&[u8], usize, &[u8]) = match kind {
        Lock::TaprootKey => (&[0x51, 32], 32, &[]),
        Lock::WitnessKeyHash => (&[0, 20], 20, &[]),
        Lock::KeyHash => (&[0x76, 0xa9, 20], 20, &[0x88, 0xac]),
        Lock::ScriptHash => (&[0xa9, 20], 20, &[0x87]),
        Lock::WitnessScriptHash => (&[0, 32], 32, &[]),
        Lock::BareMultisig => (&[0x51], 102, &[0x53, 0xae]),
        Lock::PublicKey => (&[33, 2], 32, &[0xac]),
    };
    let mut script = Vec::with_capacity(before.len() + length + after.len());
    script.extend_from_slice(before);
    push_bytes(seed, length, &mut script);
    script.extend_from_slice(after);
    script.into_boxed_slice()
}

fn value(seed: u64) -> i64 {
    let word = mix(seed);
    let magnitude = 10i64.pow(3 + (word % 7) as u32);
    546 + (word >> 8).cast_signed() % magnitude
}

fn coin(seed: u64) -> Coin {
    let word = mix(seed);
    Coin {
        value: value(seed),
        height: (mix(word) % 900_000) as u32,
        is_coinbase: word >> 3 & 0x1ff == 0,
        script_pubkey: script(word),
    }
}

fn txid(prefix: u64, seed: u64) -> Txid {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&prefix.to_be_bytes());
    let mut word = seed;
    for part in bytes[8..].chunks_mut(8) {
        word = mix(word);
        part.copy_from_slice(&word.to_le_bytes());
    }
    Txid(bytes)
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
    pub(crate) fn loaded(&self, number: u64) -> (OutPoint, Coin) {
        (self.loaded_outpoint(number), coin(LOADED ^ mix(number)))
    }

    fn loaded_outpoint(&self, number: u64) -> OutPoint {
        let (transaction, vout) = GROUP[(number % GROUP.len() as u64) as usize];
        let transaction = number / GROUP.len() as u64 * GROUP_TRANSACTIONS + transaction;
        let jitter = mix(LOADED | transaction);
        let txid = txid(transaction * self.stride + jitter % self.stride, jitter);
        OutPoint { txid, vout }
    }

    /// The coin of a number that some round adds.
    pub(crate) fn added(&self, number: u64) -> (OutPoint, Coin) {
        let seed = mix(ADDED | number);
        let outpoint = OutPoint {
            txid: txid(seed, seed),
            vout: (seed % 3) as u32,
        };
        (outpoint, coin(ADDED ^ seed))
    }

    /// An outpoint that never was.
    pub(crate) fn absent(&self, number: u64) -> OutPoint {
        let seed = mix(ABSENT | number);
        OutPoint {
            txid: txid(seed, seed),
            vout: (seed % 3) as u32,
        }
    }

    /// Coins there are, whatever the number of rounds.
    pub(crate) fn count(&self) -> u64 {
        self.loaded
    }

    /// Rounds until every loaded coin is removed.
    pub(crate) fn rounds_max(&self) -> u64 {
        self.loaded / self.removals_per_round.max(1)
    }

    /// The loaded coins of a range of numbers as changes.
    pub(crate) fn load(&self, numbers: Range<u64>) -> Load<'_> {
        Load {
            generator: self,
            numbers,
        }
    }

    /// Makes `list` the changes of a round, from 0: sorted by key, removals without a coin.
    ///
    /// # Panics
    /// If there are too few coins for the rounds.
    pub(crate) fn fill_round(&self, round: u64, list: &mut CoinList) {
        assert!(round < self.rounds_max(), "more rounds than coins");
        list.clear();
        for number in round * self.removals_per_round..(round + 1) * self.removals_per_round {
            let removed = self.order.forward(number);
            list.push(self.loaded_outpoint(removed), None);
            let (outpoint, coin) = self.added(number);
            list.push(outpoint, Some(CoinRef::from(&coin)));
        }
        list.sort();
    }

    /// The changes of a round in a list of their own.
    pub(crate) fn round(&self, round: u64) -> CoinList {
        let mut list = CoinList::default();
        self.fill_round(round, &mut list);
        list
    }

    /// A coin that is there after `rounds`, by a random number.
    pub(crate) fn present(&self, random: u64, rounds: u64) -> (OutPoint, Coin) {
        let removed = rounds * self.removals_per_round;
        let mut word = mix(random);
        loop {
            let number = word % (self.loaded + removed);
            if number >= self.loaded {
                return self.added(number - self.loaded);
            }
            if self.order.backward(number) >= removed {
                return self.loaded(number);
            }
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

/// Changes in a part of a load.
const LOAD_PART: u64 = 1 << 13;

/// Loaded coins as changes of an empty store; coins are made as they are visited.
#[derive(Debug)]
pub(crate) struct Load<'a> {
    generator: &'a Generator,
    numbers: Range<u64>,
}

impl Changes for Load<'_> {
    fn len(&self) -> usize {
        (self.numbers.end - self.numbers.start) as usize
    }

    fn parts(&self) -> usize {
        (self.numbers.end - self.numbers.start).div_ceil(LOAD_PART) as usize
    }

    fn visit(&self, part: usize, each: &mut dyn FnMut(Change<'_>)) {
        let start = self.numbers.start + part as u64 * LOAD_PART;
        assert!(start < self.numbers.end, "no such part");
        for number in start..self.numbers.end.min(start + LOAD_PART) {
            let (outpoint, coin) = self.generator.loaded(number);
            each(Change {
                outpoint,
                coin: Some(CoinRef::from(&coin)),
                before: Before::Nothing,
            });
        }
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

    fn walk(&self, number: u64, rounds: [u64; 4], swap: bool) -> u64 {
        let mask = (1 << self.half_bits) - 1;
        let mut number = number;
        loop {
            let (mut high, mut low) = (number >> self.half_bits, number & mask);
            if swap {
                (high, low) = (low, high);
            }
            for round in rounds {
                (high, low) = (low, high ^ mix(REMOVAL | round << 40 | low) & mask);
            }
            if swap {
                (high, low) = (low, high);
            }
            number = high << self.half_bits | low;
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
        let mut last = None;
        let mut count = 0;
        changes.visit_all(&mut |change| {
            assert!(last.replace(change.outpoint) < Some(change.outpoint));
            count += 1;
            let before = match change.coin {
                Some(coin) => set.insert(change.outpoint, coin.to_coin()),
                None => set.remove(&change.outpoint),
            };
            let said = if before.is_some() {
                Before::Coin
            } else {
                Before::Nothing
            };
            assert_eq!(change.before, said);
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
            assert_eq!(
                set.values().map(|coin| coin.value).sum::<i64>(),
                generator.total(round + 1)
            );
            for number in 0..500 {
                let (outpoint, coin) = generator.present(number, round + 1);
                assert_eq!(set.get(&outpoint), Some(&coin));
                assert!(!set.contains_key(&generator.absent(number)));
            }
        }
    }

    #[test]
    fn a_large_set_bears_fifty_large_rounds_and_more() {
        assert_eq!(Generator::new(50_000_000, 1_000_000).rounds_max(), 100);
    }

    #[test]
    fn every_kind_of_script_comes() {
        let lengths: std::collections::BTreeSet<usize> = (0..2000).map(|seed| script(mix(seed)).len()).collect();
        assert_eq!(lengths.into_iter().collect::<Vec<_>>(), [22, 23, 25, 34, 35, 105]);
    }
}
