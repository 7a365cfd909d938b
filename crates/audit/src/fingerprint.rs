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

use crate::field::{Element, Wide};
use crate::key::Key;
use blockmill_block::coin::SCRIPT_SIZE_MAX;
use blockmill_block::{Coin, CoinRef, OutPoint, Txid};

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

/// In place of the length, for coins that no valid chain has.
const IMPOSSIBLE: u64 = (1 << LENGTH_BITS) - 1;
const _: () = assert!(SCRIPT_SIZE_MAX < IMPOSSIBLE as usize);

/// Words of the longest coin.
const WORDS_MAX: usize = 4 + (SCRIPT_SIZE_MAX - SCRIPT_START).div_ceil(2 * WORD) * 2;

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
        self.coins += other.coins;
        self.amount += other.amount;
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
}

/// The beginning of a coin's factor, the same for all outputs of a transaction.
#[derive(Clone, Copy)]
pub(crate) struct OfTransaction(Wide);

/// The eight bytes at `at`, in little endian, with zeros for those beyond the end. They are read
/// from where they are: a copy that was just written is slow to read at other places than it was
/// written.
#[inline(always)]
fn limb(bytes: &[u8], at: usize) -> u64 {
    let read = |at: usize| bytes.get(at..).and_then(|bytes| bytes.first_chunk());
    if let Some(bytes) = read(at) {
        return u64::from_le_bytes(*bytes);
    }
    let missing = at + 8 - bytes.len();
    match bytes.len().checked_sub(8).and_then(read) {
        _ if missing >= 8 => 0,
        Some(last) => u64::from_le_bytes(*last) >> (8 * missing),
        None => bytes[at..]
            .iter()
            .rev()
            .fold(0, |limb, &byte| limb << 8 | u64::from(byte)),
    }
}

/// The word of the 23 bytes at `at`, with zeros for those beyond the end.
#[inline(always)]
fn word(bytes: &[u8], at: usize) -> Element {
    const SEVEN_BYTES: u64 = u64::MAX >> 8;
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
        let [offset, point] = key.points();
        let mut powers = vec![point.canonical()];
        while powers.len() < WORDS_MAX {
            powers.push(powers[powers.len() - 1].multiply(point).canonical());
        }
        Self {
            offset,
            powers: powers.into(),
        }
    }

    /// Begins the factors of coins of a transaction, made at a height.
    #[inline]
    pub(crate) fn of_transaction(&self, txid: &Txid, height: u32, is_coinbase: bool) -> OfTransaction {
        let code = u64::from(height) << 1 | u64::from(is_coinbase);
        let second = Element([limb(&txid.0, WORD), u64::from(txid.0[31]) | code << 8, 0]);
        let mut sum = Wide::from(self.offset);
        sum.add_product(word(&txid.0, 0).plus(self.powers[0]), second.plus(self.powers[1]));
        OfTransaction(sum)
    }

    /// Adds an output of a transaction. All outputs whose amount no money can be, or whose script
    /// is longer than those that can be spent, are the same to it: no valid chain has them.
    #[inline]
    pub(crate) fn add(&self, of: &OfTransaction, vout: u32, value: i64, script: &[u8], fingerprint: &mut Fingerprint) {
        let is_possible = value.cast_unsigned() >> VALUE_BITS == 0 && script.len() <= SCRIPT_SIZE_MAX;
        let (length, value_bits, script) = match is_possible {
            true => (script.len() as u64, value.cast_unsigned(), script),
            false => (IMPOSSIBLE, 0, &[][..]),
        };
        let third = third(vout, length, value_bits, script);
        let fourth = word(script, SCRIPT_START - WORD);
        let mut sum = of.0;
        sum.add_product(third.plus(self.powers[2]), fourth.plus(self.powers[3]));
        let (powers, _) = self.powers[4..].as_chunks::<2>();
        for (at, [first, second]) in (SCRIPT_START..script.len()).step_by(2 * WORD).zip(powers) {
            // Only two products fit without a reduction.
            sum = Wide::from(sum.reduce());
            sum.add_product(word(script, at).plus(*first), word(script, at + WORD).plus(*second));
        }
        fingerprint.product = fingerprint.product.multiply(sum.reduce());
        fingerprint.coins += 1;
        fingerprint.amount += i128::from(value);
    }

    /// Adds one coin.
    pub(crate) fn add_coin(&self, outpoint: &OutPoint, coin: CoinRef<'_>, fingerprint: &mut Fingerprint) {
        let of = self.of_transaction(&outpoint.txid, coin.height, coin.is_coinbase);
        self.add(&of, outpoint.vout, coin.value, coin.script_pubkey, fingerprint);
    }

    /// Adds coins of which those of a transaction come one after the other.
    pub(crate) fn add_coins(&self, coins: &[(OutPoint, Coin)], fingerprint: &mut Fingerprint) {
        let key = |(outpoint, coin): &(OutPoint, Coin)| (outpoint.txid, coin.height, coin.is_coinbase);
        for group in coins.chunk_by(|a, b| key(a) == key(b)) {
            let (txid, height, is_coinbase) = key(&group[0]);
            let of = self.of_transaction(&txid, height, is_coinbase);
            for (outpoint, coin) in group {
                self.add(&of, outpoint.vout, coin.value, &coin.script_pubkey, fingerprint);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ethnum::U256;
    use proptest::prelude::*;

    fn coins(seed: u8, count: u8) -> Vec<(OutPoint, Coin)> {
        (0..count)
            .map(|number| {
                let outpoint = OutPoint {
                    txid: Txid([seed ^ number; 32]),
                    vout: number.into(),
                };
                let coin = Coin {
                    value: i64::from(number) * 1_000,
                    height: number.into(),
                    is_coinbase: number % 3 == 0,
                    script_pubkey: vec![seed; usize::from(number)].into(),
                };
                (outpoint, coin)
            })
            .collect()
    }

    fn fingerprint(coins: &[(OutPoint, Coin)]) -> Fingerprint {
        let fingerprinter = Fingerprinter::new(&Key::of_number(7));
        let mut fingerprint = Fingerprint::default();
        for (outpoint, coin) in coins {
            fingerprinter.add_coin(outpoint, CoinRef::from(coin), &mut fingerprint);
        }
        fingerprint
    }

    #[test]
    fn order_and_parts_do_not_matter() {
        let mut coins = coins(5, 100);
        let whole = fingerprint(&coins);
        assert_eq!(whole.coins, 100);
        coins.reverse();
        assert_eq!(fingerprint(&coins), whole);
        for cut in [0, 1, 37, 100] {
            assert_eq!(fingerprint(&coins[..cut]).with(&fingerprint(&coins[cut..])), whole);
        }
    }

    #[test]
    fn the_factor_is_the_polynomial() {
        // Word by word from bytes, with powers by repeated multiplication.
        for length in [0, 7, 8, 11, 12, 33, 34, 35, 57, 58, 80, 81, 200, SCRIPT_SIZE_MAX] {
            let (outpoint, mut coin) = coins(9, 100).remove(99);
            coin.script_pubkey = (0..length).map(|place| place as u8 ^ 0x5a).collect();
            let key = Key::of_number(7);
            let [offset, point] = key.points();
            let mut bytes = outpoint.txid.0.to_vec();
            bytes.extend((coin.height * 2 + u32::from(coin.is_coinbase)).to_le_bytes());
            bytes.resize(2 * WORD, 0);
            let (in_third, rest) = coin.script_pubkey.split_at(length.min(11));
            let mut script = [0; 32];
            script[..in_third.len()].copy_from_slice(in_third);
            let third: U256 = U256::from(outpoint.vout)
                + (U256::from(length as u32) << 32)
                + (U256::from(coin.value.cast_unsigned()) << 46)
                + (U256::from_le_bytes(script) << 97);
            let mut words: Vec<Element> = bytes.chunks(WORD).map(|chunk| word(chunk, 0)).collect();
            let third = third.to_le_bytes();
            words.push(Element(std::array::from_fn(|at| limb(&third, 8 * at))));
            words.extend(rest.chunks(WORD).map(|chunk| word(chunk, 0)));
            words.resize(words.len().max(4).next_multiple_of(2), Element::ZERO);
            let mut power = Element::ONE;
            let mut sum = offset;
            let mut factors = words.into_iter().map(|word| {
                power = power.multiply(point);
                word.plus(power.canonical())
            });
            while let (Some(a), Some(b)) = (factors.next(), factors.next()) {
                sum = sum.canonical().plus(a.multiply(b).canonical());
            }
            let expected = sum.to_bytes();
            let found = fingerprint(&[(outpoint, coin)]);
            assert_eq!(found.product_bytes(), expected, "{length}");
        }
    }

    #[test]
    fn impossible_coins_are_no_possible_ones() {
        let (outpoint, coin) = coins(1, 20).remove(19);
        let with = |value: i64, script: Vec<u8>| {
            let script_pubkey = script.into();
            fingerprint(&[(
                outpoint,
                Coin {
                    value,
                    script_pubkey,
                    ..coin.clone()
                },
            )])
            .product_bytes()
        };
        let script = vec![7; 25];
        let (possible, most) = (with(0, script.clone()), with((1 << VALUE_BITS) - 1, script.clone()));
        let impossible = with(-1, script.clone());
        assert!(possible != most && possible != impossible && most != impossible);
        // An amount whose highest bit would be in the script's first byte.
        let mut changed = script.clone();
        changed[0] = 6;
        for value in [1 << VALUE_BITS, 1 << 62, i64::MIN] {
            assert_eq!(with(value, changed.clone()), impossible);
        }
        assert_eq!(with(0, vec![7; SCRIPT_SIZE_MAX + 1]), impossible);
        assert_ne!(with(0, vec![7; SCRIPT_SIZE_MAX]), impossible);
    }

    #[test]
    fn groups_come_to_the_same() {
        let mut coins = coins(5, 60);
        for number in [3, 20, 21, 40] {
            coins[number].0.txid = coins[number - 1].0.txid;
            coins[number].1.height = coins[number - 1].1.height + u32::from(number == 21);
            coins[number].1.is_coinbase = coins[number - 1].1.is_coinbase;
        }
        let mut grouped = Fingerprint::default();
        Fingerprinter::new(&Key::of_number(7)).add_coins(&coins, &mut grouped);
        assert_eq!(grouped, fingerprint(&coins));
    }

    #[test]
    fn the_longest_script_has_its_words() {
        let (outpoint, coin) = coins(1, 2).remove(1);
        let with = |script: Vec<u8>| {
            let script_pubkey = script.into();
            fingerprint(&[(
                outpoint,
                Coin {
                    script_pubkey,
                    ..coin.clone()
                },
            )])
        };
        let long = vec![7; SCRIPT_SIZE_MAX];
        let mut changed = long.clone();
        changed[SCRIPT_SIZE_MAX - 1] ^= 0x80;
        assert_ne!(with(long.clone()), with(changed));
        assert_ne!(with(long[..SCRIPT_SIZE_MAX - 1].to_vec()), with(long));
        // Zeros at the end count.
        assert_ne!(with(vec![0; 40]), with(vec![0; 41]));
    }

    proptest! {
        #[test]
        fn every_change_is_seen(number in 0usize..60, kind in 0..7, other in 1u8..) {
            let mut changed = coins(3, 60);
            let whole = fingerprint(&changed);
            let (outpoint, coin) = &mut changed[number];
            match kind {
                0 => outpoint.vout ^= u32::from(other) << 13,
                1 => outpoint.txid.0[usize::from(other) % 32] ^= other,
                2 => coin.height ^= u32::from(other),
                3 => coin.is_coinbase ^= true,
                4 => coin.value ^= i64::from(other) << 30,
                5 => {
                    let mut script = coin.script_pubkey.to_vec();
                    script.push(other);
                    coin.script_pubkey = script.into();
                }
                _ => drop(changed.remove(number)),
            }
            prop_assert_ne!(fingerprint(&changed).product_bytes(), whole.product_bytes());
        }

        #[test]
        fn multiplicities_count(number in 0usize..60) {
            let mut coins = coins(3, 60);
            let whole = fingerprint(&coins);
            coins.push(coins[number].clone());
            let twice = fingerprint(&coins);
            prop_assert_ne!(twice.product_bytes(), whole.product_bytes());
            prop_assert_eq!(whole.with(&fingerprint(&coins[60..])), twice);
        }
    }
}
