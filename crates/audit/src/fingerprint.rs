//! Products that tell multisets of coins apart.
//!
//! A coin is written as words `w1, w2, ..` of up to 185 bits, an even number of them, different
//! coins as different words. With two random numbers `r` and `s` modulo a prime, its factor is
//!
//! > `r + (w1 + s)(w2 + s^2) + (w3 + s^3)(w4 + s^4) + ..`
//!
//! and the fingerprint of a multiset of coins is the product of their factors.
//!
//! Seen as a polynomial in `r` and `s`, a factor is irreducible: it is linear in `r`. Different
//! coins have different ones: the coefficient of `s^j` is `w(j-1)` if `j` is even, and `w(j+1)` if
//! it is odd, plus 1 for some `j` that depend on the number of words alone; that follows from the
//! length of the script, a part of `w3`. So different multisets have different polynomials, and
//! these agree at a random point with a probability of at most their degree over the prime
//! (Schwartz and Zippel). The degree is twice the number of words: below 2^40 for every set of
//! coins that the chain could hold, which leaves less than 2^-150. That needs no assumption about
//! any hash function, but that whoever chose the coins did not know the point.

mod adder;
#[cfg(target_arch = "x86_64")]
mod ifma;
#[cfg(test)]
mod tests;

pub(crate) use adder::Adder;

use crate::field::{Element, Wide};
use crate::key::Key;
use blockmill_block::coin::SCRIPT_SIZE_MAX;
use blockmill_block::{Coin, OutPoint, Txid};
#[cfg(target_arch = "x86_64")]
use ifma::{Ifma, Point};

/// Bytes of a word.
const WORD: usize = 23;

/// Bits of the third word: output index, length of the script, amount, and then bytes of the
/// script.
const VOUT_BITS: u32 = 32;
const LENGTH_BITS: u32 = 14;
const VALUE_BITS: u32 = 51;

/// Bytes of the script in the third word.
const SCRIPT_IN_THIRD: usize = 11;

/// Bytes of the script in the first four words. With these, no script of a usual form has more.
const SCRIPT_START: usize = SCRIPT_IN_THIRD + WORD;

/// Instead of the length, for coins that no valid chain has.
const IMPOSSIBLE: u64 = (1 << LENGTH_BITS) - 1;
const _: () = assert!(SCRIPT_SIZE_MAX < IMPOSSIBLE as usize);

/// Words of a coin with no more bytes of script.
const WORDS_SHORT: usize = 4;

/// Words of the longest coin.
const WORDS_MAX: usize = WORDS_SHORT + (SCRIPT_SIZE_MAX - SCRIPT_START).div_ceil(2 * WORD) * 2;

/// The fingerprint of a multiset of coins, and how many they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fingerprint {
    product: Element,
    /// Number of coins.
    pub(crate) coins: u64,
    /// Sum of their amounts in satoshi. It proves nothing; it is for the reader of a report.
    pub(crate) amount: i128,
}

impl Default for Fingerprint {
    /// Of no coins.
    fn default() -> Self {
        Self {
            product: Element::ONE,
            coins: 0,
            amount: 0,
        }
    }
}

impl Fingerprint {
    /// Adds the coins of another multiset.
    pub(crate) fn add(&mut self, other: &Self) {
        self.product = self.product.multiply(other.product);
        // Coins that are read are far too few to wrap. What a part says of itself may be any
        // number, and multisets that are the same stay the same modulo any.
        self.coins = self.coins.wrapping_add(other.coins);
        self.amount = self.amount.wrapping_add(other.amount);
    }

    /// The sum of two multisets.
    #[must_use]
    pub(crate) fn with(mut self, other: &Self) -> Self {
        self.add(other);
        self
    }

    /// The product in little endian. It is as secret as the key.
    pub(crate) fn product_bytes(&self) -> [u8; Element::LENGTH] {
        self.product.to_bytes()
    }

    pub(crate) fn from_parts(product: &[u8; Element::LENGTH], coins: u64, amount: i128) -> Self {
        Self {
            product: Element::from_bytes(product),
            coins,
            amount,
        }
    }
}

/// Takes fingerprints under a key.
#[derive(Clone)]
pub(crate) struct Fingerprinter {
    offset: Element,
    /// The powers of the second point, from the first on, below the prime.
    powers: Box<[Element]>,
    #[cfg(target_arch = "x86_64")]
    lanes: Option<(Ifma, Point)>,
}

/// The beginning of a coin's factor, the same for all outputs of a transaction.
#[derive(Clone, Copy)]
pub(crate) struct OfTransaction {
    words: [Element; 2],
    /// Their part of the factor, where lanes do not compute it.
    sum: Option<Wide>,
}

/// The eight bytes at `at`, in little endian, with zeros for those beyond the end. They are read
/// from where they are: a copy that was just written is slow to read at other offsets than it was
/// written.
#[inline(always)]
fn limb(bytes: &[u8], at: usize) -> u64 {
    let read = |at: usize| bytes.get(at..).and_then(|bytes| bytes.first_chunk());
    if let Some(bytes) = read(at) {
        return u64::from_le_bytes(*bytes);
    }
    let missing = at + 8 - bytes.len();
    match bytes.len().checked_sub(8).and_then(read) {
        // All eight are beyond the end.
        _ if missing >= 8 => 0,
        // The last eight bytes, without those that are before `at`.
        Some(last) => u64::from_le_bytes(*last) >> (8 * missing),
        None => bytes[at..]
            .iter()
            .rev()
            .fold(0, |limb, &byte| limb << 8 | u64::from(byte)),
    }
}

const SEVEN_BYTES: u64 = u64::MAX >> 8;

/// The word of the 23 bytes at `at`, with zeros for those beyond the end.
#[inline(always)]
fn word(bytes: &[u8], at: usize) -> Element {
    Element([limb(bytes, at), limb(bytes, at + 8), limb(bytes, at + 16) & SEVEN_BYTES])
}

/// The third word.
#[inline(always)]
fn third(vout: u32, length: u64, value: u64, script: &[u8]) -> Element {
    const VALUE_AT: u32 = VOUT_BITS + LENGTH_BITS;
    // In the second limb.
    const SCRIPT_AT: u32 = VALUE_AT + VALUE_BITS - 64;
    const LAST_BYTES: u64 = (1 << (8 * (SCRIPT_IN_THIRD - 8))) - 1;
    let (low, high) = (limb(script, 0), limb(script, 8) & LAST_BYTES);
    Element([
        u64::from(vout) | length << VOUT_BITS | value << VALUE_AT,
        value >> (64 - VALUE_AT) | low << SCRIPT_AT,
        low >> (64 - SCRIPT_AT) | high << SCRIPT_AT,
    ])
}

impl Fingerprinter {
    pub(crate) fn new(key: &Key) -> Self {
        Self::at(key.points())
    }

    /// At a point: the offset, and the number whose powers are added to words.
    fn at([offset, point]: [Element; 2]) -> Self {
        let mut powers = vec![point.canonical()];
        while powers.len() < WORDS_MAX {
            powers.push(powers[powers.len() - 1].multiply(point).canonical());
        }
        #[cfg(target_arch = "x86_64")]
        let short = std::array::from_fn(|number| powers[number]);
        Self {
            offset,
            powers: powers.into(),
            #[cfg(target_arch = "x86_64")]
            lanes: Ifma::detect().map(|ifma| (ifma, Point::new(offset, &short))),
        }
    }

    /// The same without lanes.
    #[cfg(test)]
    fn without_lanes(self) -> Self {
        Self {
            #[cfg(target_arch = "x86_64")]
            lanes: None,
            ..self
        }
    }

    #[inline]
    fn has_lanes(&self) -> bool {
        #[cfg(target_arch = "x86_64")]
        return self.lanes.is_some();
        #[cfg(not(target_arch = "x86_64"))]
        false
    }

    /// Begins the factors of coins of a transaction, created at a height.
    #[inline]
    pub(crate) fn of_transaction(&self, txid: &Txid, height: u32, is_coinbase: bool) -> OfTransaction {
        let code = u64::from(height) << 1 | u64::from(is_coinbase);
        // Eight bytes as they were written: a copy is slow to read across its pieces.
        let eight = |number: usize| u64::from_le_bytes(txid.0.as_chunks::<8>().0[number]);
        let (third, fourth) = (eight(2), eight(3));
        let words = [
            Element([eight(0), eight(1), third & SEVEN_BYTES]),
            Element([third >> 56 | fourth << 8, fourth >> 56 | code << 8, 0]),
        ];
        let sum = (!self.has_lanes()).then(|| self.begin(&words));
        OfTransaction { words, sum }
    }

    /// The offset, and the part of the first two words.
    #[inline]
    fn begin(&self, [first, second]: &[Element; 2]) -> Wide {
        let mut sum = Wide::from(self.offset);
        sum.add_product(first.plus(self.powers[0]), second.plus(self.powers[1]));
        sum
    }

    /// Adds the part of the third and fourth word.
    #[inline]
    fn go_on(&self, mut sum: Wide, third: Element, fourth: Element) -> Wide {
        sum.add_product(third.plus(self.powers[2]), fourth.plus(self.powers[3]));
        sum
    }

    /// Adds the part of the words after these, and reduces the factor.
    #[inline]
    fn end(&self, mut sum: Wide, script: &[u8]) -> Element {
        let (powers, _) = self.powers[WORDS_SHORT..].as_chunks::<2>();
        for (at, [first, second]) in (SCRIPT_START..script.len()).step_by(2 * WORD).zip(powers) {
            // Only two products fit without a reduction.
            sum = Wide::from(sum.reduce());
            sum.add_product(word(script, at).plus(*first), word(script, at + WORD).plus(*second));
        }
        sum.reduce()
    }

    /// Adds coins of which those of a transaction come one after the other.
    pub(crate) fn add_coins(&self, coins: &[(OutPoint, Coin)], fingerprint: &mut Fingerprint) {
        let key = |(outpoint, coin): &(OutPoint, Coin)| (outpoint.txid, coin.height, coin.is_coinbase);
        let mut adder = Adder::new(self);
        for group in coins.chunk_by(|a, b| key(a) == key(b)) {
            let (txid, height, is_coinbase) = key(&group[0]);
            let of = self.of_transaction(&txid, height, is_coinbase);
            for (outpoint, coin) in group {
                adder.add(&of, outpoint.vout, coin.value, &coin.script_pubkey);
            }
        }
        fingerprint.add(&adder.finish());
    }
}
