//! MuHash3072: a hash of a set that does not depend on the order of its elements.
//!
//! Every element becomes a number of 3,072 bits: the ChaCha20 key stream under the SHA-256 of the
//! element. The hash is the SHA-256 of the product of all numbers modulo 2^3072 - 1,103,717.
//! Source: Core's crypto/muhash.cpp.
//!
//! ```
//! use blockmill_coins::MuHash;
//!
//! let mut one = MuHash::new();
//! one.insert(b"first");
//! one.insert(b"second");
//! let mut other = MuHash::new();
//! other.insert(b"second");
//! other.insert(b"first");
//! assert_eq!(one.finalize(), other.finalize());
//! ```

#[cfg(target_arch = "x86_64")]
mod ifma;
mod inverse;
mod number;

use blockmill_block::hash::sha256;
use chacha20::ChaCha20;
use chacha20::cipher::{KeyIvInit, StreamCipher};
use number::{BYTES, Number};

/// Bytes of the product of a MuHash.
pub const MUHASH_BYTES: usize = BYTES;

/// A MuHash: the product so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MuHash(Number);

/// What comes into a set, and what leaves it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MuHashChange {
    came: MuHash,
    left: MuHash,
}

impl Default for MuHash {
    fn default() -> Self {
        Self::new()
    }
}

/// The element with this SHA-256.
fn element(hash: &[u8; 32]) -> Number {
    let mut stream = [0; BYTES];
    ChaCha20::new(hash.into(), &[0; 12].into()).apply_keystream(&mut stream);
    Number::from_bytes(&stream)
}

/// The product of elements, many at a time. None of too few, and where no way is faster than one
/// after the other.
fn product_in_lanes(hashes: &[[u8; 32]]) -> Option<Number> {
    #[cfg(target_arch = "x86_64")]
    return ifma::Ifma::detect()?.product(hashes);
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = hashes;
        None
    }
}

impl MuHash {
    /// The hash of no elements.
    pub fn new() -> Self {
        Self(Number::ONE)
    }

    /// Adds an element to the set.
    pub fn insert(&mut self, bytes: &[u8]) {
        self.0.multiply(&element(&sha256(bytes)));
    }

    /// Adds elements to the set.
    pub fn insert_all<'a>(&mut self, elements: impl IntoIterator<Item = &'a [u8]>) {
        let hashes: Vec<[u8; 32]> = elements.into_iter().map(sha256).collect();
        match product_in_lanes(&hashes) {
            Some(product) => self.0.multiply(&product),
            None => hashes.iter().for_each(|hash| self.0.multiply(&element(hash))),
        }
    }

    /// Adds all elements of another set.
    pub fn merge(&mut self, other: &Self) {
        self.0.multiply(&other.0);
    }

    /// The product, by which [`from_product`](Self::from_product) goes on.
    pub fn product(&self) -> [u8; MUHASH_BYTES] {
        self.0.to_bytes()
    }

    /// The hash with this product.
    pub fn from_product(product: &[u8; MUHASH_BYTES]) -> Self {
        Self(Number::from_bytes(product))
    }

    /// The hash. Core prints its bytes in reverse order.
    pub fn finalize(&self) -> [u8; 32] {
        sha256(&self.0.to_bytes())
    }
}

impl MuHashChange {
    /// These elements come, and those leave. An element that does both may be left out of both.
    pub fn new<'a>(came: impl IntoIterator<Item = &'a [u8]>, left: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut change = Self::default();
        change.came.insert_all(came);
        change.left.insert_all(left);
        change
    }

    /// What changes of a set, one after the other, have done after each: what its hash is to be
    /// merged with. To divide takes as much as thousands of products, so it is done once for all
    /// (Montgomery, 1987).
    pub fn running(changes: &[Self]) -> Vec<MuHash> {
        // Before each change, what has left so far.
        let mut left_before = Vec::with_capacity(changes.len());
        let mut left = Number::ONE;
        for change in changes {
            left_before.push(left.clone());
            left.multiply(&change.left.0);
        }
        let mut inverse = inverse::inverse(&left);
        // From the last change to the first, `inverse` is that of what has left up to it.
        let mut quotients = Vec::with_capacity(changes.len());
        for (change, before) in changes.iter().zip(left_before).rev() {
            let mut quotient = inverse.clone();
            quotient.multiply(&before);
            quotient.multiply(&change.came.0);
            quotients.push(MuHash(quotient));
            inverse.multiply(&change.left.0);
        }
        quotients.reverse();
        for number in 1..quotients.len() {
            let (before, rest) = quotients.split_at_mut(number);
            if let ([.., before], [next, ..]) = (before, rest) {
                next.merge(before);
            }
        }
        quotients
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use blockmill_block::Txid;
    use proptest::prelude::*;

    type Elements = [&'static [u8]];

    fn hash(elements: &[&[u8]]) -> String {
        let mut hash = MuHash::new();
        for element in elements {
            hash.insert(element);
        }
        Txid(hash.finalize()).to_string()
    }

    #[test]
    fn known_answers() {
        // From an independent implementation with Python's integers, which was checked against
        // Core's test vector.
        assert_eq!(
            hash(&[]),
            "dd5ad2a105c2d29495f577245c357409002329b9f4d6182c0af3dc2f462555c8"
        );
        assert_eq!(
            hash(&[b"a"]),
            "c86f5bef3f3290d80fb41260566e94e483f87d1af9c691e3d99378e3c9807c5b"
        );
        assert_eq!(
            hash(&[b"a", b"b", b"c"]),
            "80529e46a9d58efe9c6dac0a01ea5324afd19a0a570d759cb003ae0dd75d5840"
        );
        let many: Vec<Vec<u8>> = (0..100u8).map(|number| vec![number; usize::from(number)]).collect();
        let many: Vec<&[u8]> = many.iter().map(|element| &element[..]).collect();
        assert_eq!(
            hash(&many),
            "273118dfed765b4a0abddae5382d6409fae8acaed7cc91dfa902ae483a34df6e"
        );
    }

    #[test]
    fn a_product_goes_on() {
        let mut one = MuHash::new();
        one.insert(b"a");
        let mut again = MuHash::from_product(&one.product());
        assert_eq!(again, one);
        again.insert(b"b");
        one.insert(b"b");
        assert_eq!(again.finalize(), one.finalize());
    }

    #[test]
    fn changes_give_the_hash_of_each_set() {
        // What comes with each change, and what leaves.
        let changes: [(&Elements, &Elements); 5] = [
            (&[b"a", b"b"], &[]),
            (&[b"c"], &[b"a"]),
            (&[], &[]),
            (&[b"d", b"e"], &[b"c", b"b"]),
            (&[], &[b"d", b"e"]),
        ];
        let sets: [&[&[u8]]; 5] = [&[b"b", b"a"], &[b"b", b"c"], &[b"c", b"b"], &[b"e", b"d"], &[]];
        let all: Vec<MuHashChange> = changes
            .iter()
            .map(|(came, left)| MuHashChange::new(came.iter().copied(), left.iter().copied()))
            .collect();
        for run in 1..=all.len() {
            let mut before = MuHash::new();
            let mut found = Vec::new();
            for part in all.chunks(run) {
                for running in MuHashChange::running(part) {
                    let mut hash = before.clone();
                    hash.merge(&running);
                    found.push(hash);
                }
                before = found.last().unwrap().clone();
            }
            let found: Vec<String> = found.iter().map(|hash| Txid(hash.finalize()).to_string()).collect();
            assert_eq!(found, sets.map(hash), "{run}");
        }
        assert_eq!(MuHashChange::running(&[]), []);
    }

    proptest! {
        #[test]
        fn order_does_not_matter(mut elements in proptest::collection::vec(any::<[u8; 4]>(), 0..12), cut in 0usize..12) {
            let mut forward = MuHash::new();
            for element in &elements {
                forward.insert(element);
            }
            elements.reverse();
            let cut = cut.min(elements.len());
            let mut parts = [MuHash::new(), MuHash::new()];
            for (index, element) in elements.iter().enumerate() {
                parts[usize::from(index >= cut)].insert(element);
            }
            let [mut left, right] = parts;
            left.merge(&right);
            prop_assert_eq!(left.finalize(), forward.finalize());
        }
    }
}
