//! A Golomb-coded set (BIP 158), byte for byte as `GcsFilterWriter` of rust-bitcoin writes it. That
//! one holds a copy of each element in an ordered set, which takes most of the time of a filter.

use bitcoin::VarInt;
use bitcoin::consensus::Encodable;
use bitcoin::hashes::siphash24;

/// The parameters of a basic filter: the inverse of its rate of false positives, and the bits of a
/// remainder.
const M: u64 = 784_931;
const P: u32 = 19;

/// Elements, each with its hash under the key of the set.
pub(super) struct CodedSet<'a> {
    key: [u64; 2],
    elements: Vec<(u64, &'a [u8])>,
}

impl<'a> CodedSet<'a> {
    pub(super) fn new(key: [u64; 2]) -> Self {
        Self {
            key,
            elements: Vec::new(),
        }
    }

    /// Adds an element. An element may come more than once. An empty one is left out.
    pub(super) fn add(&mut self, element: &'a [u8]) {
        if !element.is_empty() {
            let [low, high] = self.key;
            let hash = siphash24::Hash::hash_to_u64_with_keys(low, high, element);
            self.elements.push((hash, element));
        }
    }

    /// The set: the number of its elements, and the differences of their hashes.
    pub(super) fn encode(mut self) -> Vec<u8> {
        // Elements are compared where their hashes are equal: whoever makes a block can look for
        // two scripts with one hash.
        self.elements.sort_unstable();
        self.elements.dedup();
        let number = self.elements.len() as u64;
        let mut bytes = Vec::with_capacity(9 + self.elements.len() * 3);
        // A vector takes everything.
        let _ = VarInt(number).consensus_encode(&mut bytes);
        let mut bits = Bits::new(bytes);
        let range = u128::from(number * M);
        let mut last = 0;
        for (hash, _) in self.elements {
            // The order of the hashes is that of what they are mapped to.
            let mapped = ((u128::from(hash) * range) >> 64) as u64;
            bits.push_golomb_rice(mapped - last);
            last = mapped;
        }
        bits.end()
    }
}

/// Bits in the order of a stream: the highest one of a byte first.
struct Bits {
    bytes: Vec<u8>,
    /// The last bits, which do not fill a word yet: the lowest `held` ones.
    word: u64,
    held: u32,
}

impl Bits {
    fn new(bytes: Vec<u8>) -> Self {
        Self {
            bytes,
            word: 0,
            held: 0,
        }
    }

    /// Appends the lowest bits of a number, 32 at most.
    fn push(&mut self, number: u64, bits: u32) {
        self.word = self.word << bits | number & ((1 << bits) - 1);
        self.held += bits;
        while self.held >= 8 {
            self.held -= 8;
            self.bytes.push((self.word >> self.held) as u8);
        }
    }

    /// Appends the quotient by 2^P in ones, a zero, and the remainder.
    fn push_golomb_rice(&mut self, number: u64) {
        let mut ones = number >> P;
        while ones >= 32 {
            self.push(u64::MAX, 32);
            ones -= 32;
        }
        self.push(u64::MAX << 1, ones as u32 + 1);
        self.push(number, P);
    }

    /// Zeros fill the last byte.
    fn end(mut self) -> Vec<u8> {
        if self.held > 0 {
            self.push(0, 8 - self.held);
        }
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bitcoin::bip158::GcsFilterWriter;
    use proptest::prelude::*;

    fn of_rust_bitcoin(key: [u64; 2], elements: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut writer = GcsFilterWriter::new(&mut bytes, key[0], key[1], M, P as u8);
        elements.iter().for_each(|element| writer.add_element(element));
        writer.finish().expect("a vector takes everything");
        bytes
    }

    fn ours(key: [u64; 2], elements: &[Vec<u8>]) -> Vec<u8> {
        let mut set = CodedSet::new(key);
        elements.iter().for_each(|element| set.add(element));
        set.encode()
    }

    proptest! {
        /// Few bytes, so that elements repeat.
        #[test]
        fn sets_are_those_of_rust_bitcoin(
            key: [u64; 2],
            short in prop::collection::vec(prop::collection::vec(0u8..3, 0..4), 0..300),
            long in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..100), 0..300),
        ) {
            let mut elements = [short, long].concat();
            prop_assert_eq!(ours(key, &elements), of_rust_bitcoin(key, &elements));
            elements.reverse();
            prop_assert_eq!(ours(key, &elements), of_rust_bitcoin(key, &elements));
        }
    }

    #[test]
    fn a_set_of_none_is_a_zero() {
        assert_eq!(ours([1, 2], &[]), [0]);
        assert_eq!(ours([1, 2], &[Vec::new()]), [0]);
    }

    /// Differences of small sets are the longest, and those of large ones the most.
    #[test]
    fn sets_of_all_sizes() {
        for number in [1, 2, 3, 252, 253, 70_000u32] {
            let elements: Vec<_> = (0..number).map(|element| element.to_le_bytes().to_vec()).collect();
            assert_eq!(ours([3, 4], &elements), of_rust_bitcoin([3, 4], &elements), "{number}");
        }
    }

    #[test]
    fn long_runs_of_ones() {
        for ones in [0, 1, 31, 32, 33, 63, 64, 65, 200u64] {
            let mut bits = Bits::new(Vec::new());
            bits.push_golomb_rice(ones << P | 5);
            let bytes = bits.end();
            let text: String = bytes.iter().map(|byte| format!("{byte:08b}")).collect();
            let expected = format!("{}0{:019b}", "1".repeat(ones as usize), 5);
            assert!(text.starts_with(&expected), "{ones}: {text}");
            assert!(!text[expected.len()..].contains('1') && text.len() < expected.len() + 8);
        }
    }
}
