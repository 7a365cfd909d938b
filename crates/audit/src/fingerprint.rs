//! Products that tell multisets of coins apart.
//!
//! A coin is written as words `w1, w2, ..` of 248 bits, different coins as different words. With two
//! random numbers `r` and `s` modulo a prime its factor is `r + w1 s + w2 s^2 + ..`, and the
//! fingerprint of a multiset of coins is the product of their factors.
//!
//! Seen as a polynomial in `r` and `s`, each factor is irreducible, and different coins have
//! different ones. So different multisets have different polynomials, and these agree at a random
//! point with a probability of at most their degree over the prime (Schwartz and Zippel). The degree
//! is the number of words: below 2^37 for every set of coins that the chain could hold, which leaves
//! less than 2^-217. That needs no assumption about any hash function, but that whoever chose the
//! coins did not know the point.

use crate::field::{Element, Wide};
use crate::key::Key;
use blockmill_block::coin::SCRIPT_SIZE_MAX;
use blockmill_block::{OutPoint, Txid};

/// Bytes of a word.
const WORD: usize = 31;

/// Bytes of the second word before the script: the end of the txid, output index, height and
/// coinbase flag, amount, and length of the script.
const SECOND_HEAD: usize = 1 + 4 + 4 + 8 + 4;

/// Bytes of the script in the second word.
const SECOND_SCRIPT: usize = WORD - SECOND_HEAD;

/// Words of the longest coin.
const WORDS_MAX: usize = 2 + (SCRIPT_SIZE_MAX - SECOND_SCRIPT).div_ceil(WORD);

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
    pub(crate) fn product_bytes(&self) -> [u8; 32] {
        self.product.to_bytes()
    }

    pub(crate) fn from_parts(product: &[u8; 32], coins: u64, amount: i128) -> Self {
        Self {
            product: Element::from_bytes(product),
            coins,
            amount,
        }
    }
}

/// A coin, as far as it counts. Its script is no longer than those that can be spent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CoinFacts<'a> {
    pub(crate) vout: u32,
    pub(crate) height: u32,
    pub(crate) is_coinbase: bool,
    pub(crate) value: i64,
    pub(crate) script_pubkey: &'a [u8],
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
pub(crate) struct OfTransaction {
    sum: Wide,
    last: u8,
}

/// A word of at most 31 bytes.
#[inline]
fn word(bytes: &[u8]) -> Element {
    let mut padded = [0; 32];
    padded[..bytes.len()].copy_from_slice(bytes);
    Element::from_bytes(&padded)
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

    #[inline]
    pub(crate) fn of_transaction(&self, txid: &Txid) -> OfTransaction {
        let mut sum = Wide::from(self.offset);
        sum.add_product(word(&txid.0[..WORD]), self.powers[0]);
        OfTransaction {
            sum,
            last: txid.0[WORD],
        }
    }

    /// Adds an output of a transaction.
    #[inline]
    pub(crate) fn add(&self, of: &OfTransaction, coin: &CoinFacts<'_>, fingerprint: &mut Fingerprint) {
        let script = coin.script_pubkey;
        let mut second = [0; 32];
        second[0] = of.last;
        second[1..5].copy_from_slice(&coin.vout.to_le_bytes());
        let code = coin.height << 1 | u32::from(coin.is_coinbase);
        second[5..9].copy_from_slice(&code.to_le_bytes());
        second[9..17].copy_from_slice(&coin.value.to_le_bytes());
        second[17..SECOND_HEAD].copy_from_slice(&(script.len() as u32).to_le_bytes());
        let (head, rest) = script.split_at(script.len().min(SECOND_SCRIPT));
        second[SECOND_HEAD..SECOND_HEAD + head.len()].copy_from_slice(head);
        let mut sum = of.sum;
        sum.add_product(Element::from_bytes(&second), self.powers[1]);
        for (bytes, power) in rest.chunks(WORD).zip(&self.powers[2..]) {
            sum.add_product(word(bytes), *power);
        }
        fingerprint.product = fingerprint.product.multiply(sum.reduce());
        fingerprint.coins += 1;
        fingerprint.amount += i128::from(coin.value);
    }

    /// Adds one coin.
    pub(crate) fn add_coin(&self, outpoint: &OutPoint, coin: &blockmill_block::Coin, fingerprint: &mut Fingerprint) {
        let facts = CoinFacts {
            vout: outpoint.vout,
            height: coin.height,
            is_coinbase: coin.is_coinbase,
            value: coin.value,
            script_pubkey: &coin.script_pubkey,
        };
        self.add(&self.of_transaction(&outpoint.txid), &facts, fingerprint);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use blockmill_block::Coin;
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
            fingerprinter.add_coin(outpoint, coin, &mut fingerprint);
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
        // Word by word, with powers by repeated multiplication.
        let (outpoint, coin) = &coins(9, 100)[99];
        let key = Key::of_number(7);
        let [offset, point] = key.points();
        let mut bytes = outpoint.txid.0.to_vec();
        bytes.extend(outpoint.vout.to_le_bytes());
        bytes.extend((coin.height * 2 + u32::from(coin.is_coinbase)).to_le_bytes());
        bytes.extend(coin.value.to_le_bytes());
        bytes.extend((coin.script_pubkey.len() as u32).to_le_bytes());
        bytes.extend(&*coin.script_pubkey);
        let mut power = point;
        let mut sum = Wide::from(offset);
        for chunk in bytes.chunks(31) {
            sum = Wide::from(sum.reduce());
            sum.add_product(word(chunk), power);
            power = power.multiply(point);
        }
        let expected = sum.reduce().to_bytes();
        assert_eq!(fingerprint(&[(*outpoint, coin.clone())]).product_bytes(), expected);
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
