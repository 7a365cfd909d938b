//! The keyed hash of outpoints: SipHash-1-3, with a key that no outsider can know.
//!
//! An attacker who makes transactions chooses their ids, at a cost. So the hash must be one whose
//! collisions cannot be found without its key. Core takes SipHash-1-3 too for its maps in memory.

use blockmill_block::{OutPoint, Txid};
use std::hash::{BuildHasher, RandomState};

/// The key of a map's hash.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct HashKey {
    first: u64,
    second: u64,
    /// The bits of a hash that are kept. With few bits outpoints collide, as if an attacker who
    /// knows the key had chosen them.
    #[cfg(test)]
    kept: u64,
}

impl std::fmt::Debug for HashKey {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("HashKey(secret)")
    }
}

impl HashKey {
    /// A new key from the system's source of randomness.
    pub fn random() -> Self {
        // The standard library draws the keys of its hasher from the system.
        let state = RandomState::new();
        Self::known(state.hash_one(1u64), state.hash_one(2u64))
    }

    /// A key that the caller knows, for tests and measurements. The answers of a map with this key
    /// are still right. But an attacker who knows the key can make the map slow.
    pub fn known(first: u64, second: u64) -> Self {
        Self {
            first,
            second,
            #[cfg(test)]
            kept: u64::MAX,
        }
    }

    /// A key whose hashes differ in these bits only.
    #[cfg(test)]
    pub(crate) fn colliding(kept: u64) -> Self {
        Self {
            kept,
            ..Self::known(1, 2)
        }
    }

    /// SipHash-1-3 of the 36 bytes of an outpoint: the id, then the index in little endian.
    #[inline]
    pub fn hash(&self, outpoint: &OutPoint) -> u64 {
        self.transaction(&outpoint.txid).hash(outpoint.vout)
    }

    /// An outpoint with its hash.
    #[inline]
    pub fn hashed(&self, outpoint: &OutPoint) -> HashedOutPoint {
        HashedOutPoint::new(*outpoint, self.hash(outpoint))
    }

    /// The part of the hash that the outputs of a transaction have in common.
    #[inline]
    pub fn transaction(&self, txid: &Txid) -> TransactionHash {
        let mut sip = Sip {
            // SipHash's constants: "somepseudorandomlygeneratedbytes" in ASCII.
            a: self.first ^ 0x736f_6d65_7073_6575,
            b: self.second ^ 0x646f_7261_6e64_6f6d,
            c: self.first ^ 0x6c79_6765_6e65_7261,
            d: self.second ^ 0x7465_6462_7974_6573,
        };
        let (words, _) = txid.0.as_chunks::<8>();
        for word in words {
            sip.take_in(u64::from_le_bytes(*word));
        }
        TransactionHash {
            sip,
            #[cfg(test)]
            kept: self.kept,
        }
    }
}

/// The part of a hash that all outputs of a transaction have in common.
#[derive(Clone, Copy)]
pub struct TransactionHash {
    sip: Sip,
    #[cfg(test)]
    kept: u64,
}

impl std::fmt::Debug for TransactionHash {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("TransactionHash(secret)")
    }
}

impl TransactionHash {
    /// The hash of the output with this number.
    #[inline]
    pub fn hash(&self, vout: u32) -> u64 {
        let mut sip = self.sip;
        // The last word holds the remaining four bytes, and the length in its highest byte.
        sip.take_in(u64::from(vout) | (OutPoint::LENGTH as u64) << 56);
        sip.c ^= 0xff;
        // One round for each word, and three at the end: SipHash-1-3.
        for _ in 0..3 {
            sip.round();
        }
        let hash = sip.a ^ sip.b ^ sip.c ^ sip.d;
        #[cfg(test)]
        let hash = hash & self.kept;
        hash
    }
}

/// An outpoint with its hash under the key of a map. An outpoint that several maps of one key are
/// asked for is hashed once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HashedOutPoint {
    outpoint: OutPoint,
    hash: u64,
}

impl HashedOutPoint {
    /// `hash` MUST be the hash of `outpoint` under the key of each map that is asked for it. A map
    /// that is given another hash does not find the entry.
    #[inline]
    pub const fn new(outpoint: OutPoint, hash: u64) -> Self {
        Self { outpoint, hash }
    }

    /// The outpoint.
    #[inline]
    pub fn outpoint(&self) -> &OutPoint {
        &self.outpoint
    }

    /// The hash.
    #[inline]
    pub fn hash(&self) -> u64 {
        self.hash
    }
}

/// The four words of SipHash's state.
#[derive(Clone, Copy)]
struct Sip {
    a: u64,
    b: u64,
    c: u64,
    d: u64,
}

impl Sip {
    #[inline]
    fn take_in(&mut self, word: u64) {
        self.d ^= word;
        self.round();
        self.a ^= word;
    }

    #[inline]
    fn round(&mut self) {
        self.a = self.a.wrapping_add(self.b);
        self.c = self.c.wrapping_add(self.d);
        self.b = self.b.rotate_left(13) ^ self.a;
        self.d = self.d.rotate_left(16) ^ self.c;
        self.a = self.a.rotate_left(32);
        self.c = self.c.wrapping_add(self.b);
        self.a = self.a.wrapping_add(self.d);
        self.b = self.b.rotate_left(17) ^ self.c;
        self.d = self.d.rotate_left(21) ^ self.a;
        self.c = self.c.rotate_left(32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use blockmill_block::Txid;
    use std::hash::Hasher;

    /// The default hasher of `std` is SipHash-1-3 with a key of zero.
    #[test]
    fn it_is_siphash_1_3() {
        let mut reference = std::collections::hash_map::DefaultHasher::default();
        let outpoint = OutPoint {
            txid: Txid(std::array::from_fn(|index| index as u8 * 7)),
            vout: 0x0102_0304,
        };
        let mut bytes = outpoint.txid.0.to_vec();
        bytes.extend(outpoint.vout.to_le_bytes());
        reference.write(&bytes);
        assert_eq!(HashKey::known(0, 0).hash(&outpoint), reference.finish());
    }

    #[test]
    fn each_key_is_another() {
        assert!(HashKey::random() != HashKey::random());
        assert_eq!(format!("{:?}", HashKey::known(1, 2)), "HashKey(secret)");
    }
}
