//! Coins are added to a fingerprint: eight at a time, where the processor has lanes for that.

#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use super::{
    Fingerprint, Fingerprinter, IMPOSSIBLE, OfTransaction, SCRIPT_SIZE_MAX, SCRIPT_START, VALUE_BITS, WORD, third, word,
};
use blockmill_block::{CoinRef, OutPoint};

#[cfg(target_arch = "x86_64")]
use super::ifma::{Coins, LANES, Products};
#[cfg(target_arch = "x86_64")]
use super::{Element, WORDS_SHORT};

/// Adds coins up.
pub(crate) struct Adder<'f> {
    fingerprinter: &'f Fingerprinter,
    fingerprint: Fingerprint,
    #[cfg(target_arch = "x86_64")]
    waiting: Waiting,
}

/// Coins that wait until they are enough for all lanes.
#[cfg(target_arch = "x86_64")]
struct Waiting {
    coins: Coins,
    count: usize,
    /// The products of the coins before them, none if there were none.
    products: Option<Products>,
}

#[cfg(target_arch = "x86_64")]
impl Waiting {
    const NONE: Self = Self {
        coins: Coins::NONE,
        count: 0,
        products: None,
    };

    #[inline]
    fn add(&mut self, fingerprinter: &Fingerprinter, words: &[Element; WORDS_SHORT]) {
        self.coins.set(self.count, words);
        self.count += 1;
        if self.count == LANES
            && let Some((ifma, point)) = &fingerprinter.lanes
        {
            let products = self.products.get_or_insert(Products::ONES);
            ifma.multiply(&self.coins, point, products);
            self.count = 0;
        }
    }

    /// The product of all coins.
    fn finish(&self, fingerprinter: &Fingerprinter) -> Element {
        let product = self.products.as_ref().map_or(Element::ONE, Products::product);
        // These are fewer than the lanes, so they are multiplied one by one.
        (0..self.count).fold(product, |product, lane| {
            let [first, second, third, fourth] = self.coins.get(lane);
            let sum = fingerprinter.begin(&[first, second]);
            product.multiply(fingerprinter.go_on(sum, third, fourth).reduce())
        })
    }
}

impl<'f> Adder<'f> {
    pub(crate) fn new(fingerprinter: &'f Fingerprinter) -> Self {
        Self {
            fingerprinter,
            fingerprint: Fingerprint::default(),
            #[cfg(target_arch = "x86_64")]
            waiting: Waiting::NONE,
        }
    }

    /// Adds an output of a transaction. All outputs whose amount no money can be, or whose script
    /// is longer than those that can be spent, are the same to it: no valid chain has them.
    #[inline]
    pub(crate) fn add(&mut self, of: &OfTransaction, vout: u32, value: i64, script: &[u8]) {
        let is_possible = value.cast_unsigned() >> VALUE_BITS == 0 && script.len() <= SCRIPT_SIZE_MAX;
        let (length, value_bits, script) = match is_possible {
            true => (script.len() as u64, value.cast_unsigned(), script),
            false => (IMPOSSIBLE, 0, &[][..]),
        };
        // 64 bits of coins, each of 63 bits: neither sum is too large.
        self.fingerprint.coins = self.fingerprint.coins.wrapping_add(1);
        self.fingerprint.amount += i128::from(value);
        let third = third(vout, length, value_bits, script);
        let fourth = word(script, SCRIPT_START - WORD);
        #[cfg(target_arch = "x86_64")]
        if self.fingerprinter.has_lanes() && script.len() <= SCRIPT_START {
            let words = [of.words[0], of.words[1], third, fourth];
            return self.waiting.add(self.fingerprinter, &words);
        }
        let begun = of.sum.unwrap_or_else(|| self.fingerprinter.begin(&of.words));
        let sum = self.fingerprinter.go_on(begun, third, fourth);
        let factor = self.fingerprinter.end(sum, script);
        self.fingerprint.product = self.fingerprint.product.multiply(factor);
    }

    /// Adds one coin.
    #[inline]
    pub(crate) fn add_coin(&mut self, outpoint: &OutPoint, coin: CoinRef<'_>) {
        let of = self
            .fingerprinter
            .of_transaction(&outpoint.txid, coin.height, coin.is_coinbase);
        self.add(&of, outpoint.vout, coin.value, coin.script_pubkey);
    }

    /// The fingerprint of all coins.
    #[cfg_attr(not(target_arch = "x86_64"), expect(unused_mut, reason = "no lanes"))]
    pub(crate) fn finish(mut self) -> Fingerprint {
        #[cfg(target_arch = "x86_64")]
        {
            let product = self.waiting.finish(self.fingerprinter);
            self.fingerprint.product = self.fingerprint.product.multiply(product);
        }
        self.fingerprint
    }
}
