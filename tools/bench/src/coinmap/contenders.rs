//! The maps: ours, and peers with `Coin` values, as their users would store coins.

use blockmill_block::{Coin, OutPoint};
use blockmill_coinmap::{CoinMap, CoinRef, EntryFlags, EntryRef, Update};
use siphasher::sip::SipHasher13;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};

/// Number of coins seen, and the sum of their amounts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Tally {
    pub(super) count: u64,
    pub(super) value_sum: i64,
}

impl Tally {
    #[inline]
    pub(super) fn add(&mut self, value: Option<i64>) {
        if let Some(value) = value {
            self.count += 1;
            self.value_sum = self.value_sum.wrapping_add(value);
        }
    }
}

/// A map from outpoints to coins.
pub(super) trait Contender: Default {
    /// Inserts a coin that is absent.
    fn insert(&mut self, outpoint: &OutPoint, coin: CoinRef<'_>);
    /// The amount of a coin.
    fn find(&mut self, outpoint: &OutPoint) -> Option<i64>;
    /// The amounts of several coins.
    fn find_many(&mut self, outpoints: &[OutPoint]) -> Tally;
    /// Removes a coin, and returns its amount.
    fn erase(&mut self, outpoint: &OutPoint) -> Option<i64>;
    /// Removes a coin, and returns it.
    fn take(&mut self, outpoint: &OutPoint) -> Option<Coin>;
    /// Tallies all coins.
    fn all(&self) -> Tally;
    fn len(&self) -> usize;
    fn clear(&mut self);
    /// Bytes that the map reports as its memory.
    fn bytes(&self) -> Option<usize> {
        None
    }
}

/// Our map with exclusive access.
#[derive(Debug, Default)]
pub(super) struct Ours(CoinMap);

/// Our map through its locks.
#[derive(Debug, Default)]
pub(super) struct Locked(CoinMap);

#[inline]
fn removed(entry: Option<EntryRef<'_>>) -> (Update<'static>, Option<i64>) {
    (Update::Remove, entry.map(|entry| entry.value()))
}

fn taken(entry: Option<EntryRef<'_>>) -> (Update<'static>, Option<Coin>) {
    (Update::Remove, entry.and_then(|entry| entry.coin()))
}

/// Implements the trait for both kinds of access to our map.
macro_rules! both_ways {
    () => {
        fn find_many(&mut self, outpoints: &[OutPoint]) -> Tally {
            let mut tally = Tally::default();
            let key = self.0.hash_key();
            let hashed: Vec<_> = outpoints.iter().map(|outpoint| key.hashed(outpoint)).collect();
            self.0
                .get_many(&hashed, |_, entry| tally.add(entry.map(|entry| entry.value())));
            tally
        }

        fn all(&self) -> Tally {
            let mut tally = Tally::default();
            self.0.for_each(|entry| tally.add(Some(entry.value())));
            tally
        }

        fn len(&self) -> usize {
            self.0.len()
        }

        fn clear(&mut self) {
            self.0.clear();
        }

        fn bytes(&self) -> Option<usize> {
            Some(self.0.bytes())
        }
    };
}

impl Contender for Ours {
    #[inline]
    fn insert(&mut self, outpoint: &OutPoint, coin: CoinRef<'_>) {
        self.0.exclusive().insert(outpoint, EntryFlags::NONE, Some(coin));
    }

    #[inline]
    fn find(&mut self, outpoint: &OutPoint) -> Option<i64> {
        self.0.exclusive().get(outpoint).map(|entry| entry.value())
    }

    #[inline]
    fn erase(&mut self, outpoint: &OutPoint) -> Option<i64> {
        self.0.exclusive().update(outpoint, removed)
    }

    #[inline]
    fn take(&mut self, outpoint: &OutPoint) -> Option<Coin> {
        self.0.exclusive().update(outpoint, taken)
    }

    both_ways!();
}

impl Contender for Locked {
    #[inline]
    fn insert(&mut self, outpoint: &OutPoint, coin: CoinRef<'_>) {
        self.0.insert(outpoint, EntryFlags::NONE, Some(coin));
    }

    #[inline]
    fn find(&mut self, outpoint: &OutPoint) -> Option<i64> {
        self.0.with(outpoint, |entry| entry.map(|entry| entry.value()))
    }

    #[inline]
    fn erase(&mut self, outpoint: &OutPoint) -> Option<i64> {
        self.0.update(outpoint, removed)
    }

    #[inline]
    fn take(&mut self, outpoint: &OutPoint) -> Option<Coin> {
        self.0.update(outpoint, taken)
    }

    both_ways!();
}

/// An outpoint that gives its 36 bytes to the hasher in one call. A derived `Hash` makes several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Flat(OutPoint);

impl From<OutPoint> for Flat {
    #[inline]
    fn from(outpoint: OutPoint) -> Self {
        Self(outpoint)
    }
}

impl Hash for Flat {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        let mut bytes = [0; OutPoint::LENGTH];
        bytes[..32].copy_from_slice(&self.0.txid.0);
        bytes[32..].copy_from_slice(&self.0.vout.to_le_bytes());
        state.write(&bytes);
    }
}

/// SipHash-1-3 of one piece, with a key from the system.
#[derive(Debug, Clone)]
pub(super) struct SipKey(SipHasher13);

impl Default for SipKey {
    fn default() -> Self {
        let state = RandomState::new();
        Self(SipHasher13::new_with_keys(state.hash_one(1u64), state.hash_one(2u64)))
    }
}

/// The hash of the last write: each key is one write.
#[derive(Debug)]
pub(super) struct OnePiece<'k> {
    key: &'k SipHasher13,
    hash: u64,
}

impl Hasher for OnePiece<'_> {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        self.hash = self.key.hash(bytes);
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.hash
    }
}

impl BuildHasher for SipKey {
    type Hasher = SipHasher13;

    fn build_hasher(&self) -> SipHasher13 {
        self.0
    }

    /// Hashes all bytes of a key at once. That is faster than a hasher that takes them piece by
    /// piece.
    #[inline]
    fn hash_one<T: Hash>(&self, value: T) -> u64 {
        let mut hasher = OnePiece { key: &self.0, hash: 0 };
        value.hash(&mut hasher);
        hasher.finish()
    }
}

/// The standard library's map.
#[derive(Debug)]
pub(super) struct Std<K, S>(std::collections::HashMap<K, Coin, S>);

/// `hashbrown`'s map.
#[derive(Debug)]
pub(super) struct Hashbrown<K, S>(hashbrown::HashMap<K, Coin, S>);

/// Implements the trait for both peers: they have the same interface.
macro_rules! peer {
    ($peer:ident) => {
        impl<K, S: Default> Default for $peer<K, S> {
            fn default() -> Self {
                Self(Default::default())
            }
        }

        impl<K: From<OutPoint> + Hash + Eq, S: BuildHasher + Default> Contender for $peer<K, S> {
            #[inline]
            fn insert(&mut self, outpoint: &OutPoint, coin: CoinRef<'_>) {
                let coin = Coin {
                    value: coin.value,
                    height: coin.height,
                    is_coinbase: coin.is_coinbase,
                    script_pubkey: coin.script_pubkey.into(),
                };
                self.0.insert(K::from(*outpoint), coin);
            }

            #[inline]
            fn find(&mut self, outpoint: &OutPoint) -> Option<i64> {
                self.0.get(&K::from(*outpoint)).map(|coin| coin.value)
            }

            fn find_many(&mut self, outpoints: &[OutPoint]) -> Tally {
                let mut tally = Tally::default();
                for outpoint in outpoints {
                    tally.add(self.find(outpoint));
                }
                tally
            }

            #[inline]
            fn erase(&mut self, outpoint: &OutPoint) -> Option<i64> {
                self.take(outpoint).map(|coin| coin.value)
            }

            #[inline]
            fn take(&mut self, outpoint: &OutPoint) -> Option<Coin> {
                self.0.remove(&K::from(*outpoint))
            }

            fn all(&self) -> Tally {
                let mut tally = Tally::default();
                self.0.values().for_each(|coin| tally.add(Some(coin.value)));
                tally
            }

            fn len(&self) -> usize {
                self.0.len()
            }

            fn clear(&mut self) {
                self.0.clear();
            }
        }
    };
}

peer!(Std);
peer!(Hashbrown);

/// The standard library's map with its own hasher.
pub(super) type StdDefault = Std<OutPoint, RandomState>;
pub(super) type StdSip = Std<Flat, SipKey>;
pub(super) type HashbrownSip = Hashbrown<Flat, SipKey>;
pub(super) type HashbrownFold = Hashbrown<Flat, hashbrown::DefaultHashBuilder>;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coinmap::coins::outpoint;

    #[test]
    fn one_piece_is_siphash_as_well() {
        let key = SipKey::default();
        let flat = Flat(outpoint(5));
        let mut hasher = key.0;
        flat.hash(&mut hasher);
        assert_eq!(key.hash_one(flat), hasher.finish());
    }
}
