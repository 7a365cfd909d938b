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

use blockmill_block::hash::sha256;
use chacha20::ChaCha20;
use chacha20::cipher::{KeyIvInit, StreamCipher};

const LIMBS: usize = 48;
const BYTES: usize = LIMBS * 8;

/// The modulus is 2^3072 minus this number.
const PRIME_DIFFERENCE: u64 = 1_103_717;

/// A MuHash: the product so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MuHash {
    /// Least significant limb first. The number is below 2^3072, so it exceeds the modulus at most
    /// once.
    limbs: [u64; LIMBS],
}

impl Default for MuHash {
    fn default() -> Self {
        Self::new()
    }
}

fn element(bytes: &[u8]) -> [u64; LIMBS] {
    let mut stream = [0; BYTES];
    ChaCha20::new(&sha256(bytes).into(), &[0; 12].into()).apply_keystream(&mut stream);
    let mut limbs = [0; LIMBS];
    for (limb, bytes) in limbs.iter_mut().zip(stream.chunks_exact(8)) {
        let mut word = [0; 8];
        word.copy_from_slice(bytes);
        *limb = u64::from_le_bytes(word);
    }
    limbs
}

/// Adds `carry` times the difference: `carry` times 2^3072 is equal to that, modulo the modulus.
fn fold(limbs: &mut [u64; LIMBS], mut carry: u64) {
    while carry != 0 {
        let mut add = u128::from(carry) * u128::from(PRIME_DIFFERENCE);
        for limb in limbs.iter_mut() {
            add += u128::from(*limb);
            *limb = add as u64;
            add >>= 64;
            if add == 0 {
                break;
            }
        }
        carry = add as u64;
    }
}

fn multiply(left: &[u64; LIMBS], right: &[u64; LIMBS]) -> [u64; LIMBS] {
    let mut product = [0u64; 2 * LIMBS];
    for (index, &factor) in left.iter().enumerate() {
        let mut carry = 0u64;
        for (limb, &other) in product[index..index + LIMBS].iter_mut().zip(right) {
            // The largest sum is 2^128 - 1, so it fits.
            let sum = u128::from(factor) * u128::from(other) + u128::from(*limb) + u128::from(carry);
            *limb = sum as u64;
            carry = (sum >> 64) as u64;
        }
        // No earlier row has reached this limb.
        product[index + LIMBS] = carry;
    }
    let mut reduced = [0; LIMBS];
    let mut carry = 0u64;
    for (index, limb) in reduced.iter_mut().enumerate() {
        let high = u128::from(product[LIMBS + index]) * u128::from(PRIME_DIFFERENCE);
        let sum = high + u128::from(product[index]) + u128::from(carry);
        *limb = sum as u64;
        carry = (sum >> 64) as u64;
    }
    fold(&mut reduced, carry);
    reduced
}

impl MuHash {
    /// The hash of no elements.
    pub fn new() -> Self {
        let mut limbs = [0; LIMBS];
        limbs[0] = 1;
        Self { limbs }
    }

    /// Adds an element to the set.
    pub fn insert(&mut self, bytes: &[u8]) {
        self.limbs = multiply(&self.limbs, &element(bytes));
    }

    /// Adds all elements of another set.
    pub fn merge(&mut self, other: &Self) {
        self.limbs = multiply(&self.limbs, &other.limbs);
    }

    /// The hash. Core prints its bytes in reverse order.
    pub fn finalize(&self) -> [u8; 32] {
        let mut limbs = self.limbs;
        // All limbs of the modulus are ones but the lowest.
        let above = limbs[0] >= PRIME_DIFFERENCE.wrapping_neg() && limbs[1..].iter().all(|&limb| limb == u64::MAX);
        if above {
            // Subtracting the modulus is adding the difference, without the carry.
            limbs[0] = limbs[0].wrapping_add(PRIME_DIFFERENCE);
            limbs[1..].fill(0);
        }
        let mut bytes = [0; BYTES];
        for (bytes, limb) in bytes.chunks_exact_mut(8).zip(limbs) {
            bytes.copy_from_slice(&limb.to_le_bytes());
        }
        sha256(&bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use blockmill_block::Txid;
    use proptest::prelude::*;

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
    fn numbers_at_the_modulus() {
        // 2^3072 - 1 is the difference minus one, modulo the modulus.
        let most = [u64::MAX; LIMBS];
        let mut small = [0; LIMBS];
        small[0] = PRIME_DIFFERENCE - 1;
        assert_eq!(MuHash { limbs: most }.finalize(), MuHash { limbs: small }.finalize());
        assert_eq!(
            MuHash {
                limbs: multiply(&most, &most)
            }
            .finalize(),
            MuHash {
                limbs: multiply(&small, &small)
            }
            .finalize()
        );
        // The modulus is zero.
        let mut modulus = most;
        modulus[0] = PRIME_DIFFERENCE.wrapping_neg();
        assert_eq!(
            MuHash { limbs: modulus }.finalize(),
            MuHash { limbs: [0; LIMBS] }.finalize()
        );
        let mut below = modulus;
        below[0] -= 1;
        // Minus one, squared.
        assert_eq!(
            MuHash {
                limbs: multiply(&below, &below)
            }
            .finalize(),
            MuHash::new().finalize()
        );
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
