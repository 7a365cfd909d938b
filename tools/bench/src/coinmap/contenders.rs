//! The maps: ours, and those of others with `Coin` values, as a user of theirs would have.

use blockmill_block::{Coin, OutPoint};
use blockmill_coinmap::{CoinMap, CoinRef, EntryFlags, EntryRef, Update};
use siphasher::sip::SipHasher13;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};

/// How many coins were seen, and the sum of their amounts.
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
    /// Puts a coin in that is not there.
    fn insert(&mut self, outpoint: &OutPoint, coin: CoinRef<'_>);
    /// The amount of a coin.
    fn find(&mut self, outpoint: &OutPoint) -> Option<i64>;
    /// The amounts of several coins.
    fn find_many(&mut self, outpoints: &[OutPoint]) -> Tally;
    /// Removes a coin, and says its amount.
    fn erase(&mut self, outpoint: &OutPoint) -> Option<i64>;
    /// Removes a coin, and hands all of it out.
    fn take(&mut self, outpoint: &OutPoint) -> Option<Coin>;
    /// Looks at all coins.
    fn all(&self) -> Tally;
    fn len(&self) -> usize;
    fn clear(&mut self);
    /// Bytes that the map says it holds.
    fn bytes(&self) -> Option<usize> {
        None
    }
}

/// Our map, used by one thread that has it for itself.
#[derive(Debug, Default)]
pub(super) struct Ours(CoinMap);

/// Our map, with its locks.
#[derive(Debug, Default)]
pub(super) struct Locked(CoinMap);

#[inline]
fn removed(entry: Option<EntryRef<'_>>) -> (Update<'static>, Option<i64>) {
    (Update::Remove, entry.map(|entry| entry.value()))
}

fn taken(entry: Option<EntryRef<'_>>) -> (Update<'static>, Option<Coin>) {
    (Update::Remove, entry.and_then(|entry| entry.coin()))
}

/// What both ways of ours do alike.
macro_rules! both_ways {
    () => {
        fn find_many(&mut self, outpoints: &[OutPoint]) -> Tally {
            let mut tally = Tally::default();
            self.0
                .get_many(outpoints, |_, entry| tally.add(entry.map(|entry| entry.value())));
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

/// An outpoint that gives its 36 bytes to the hasher in one piece, which is less work than what is
/// derived.
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

/// The hash of the last piece that was written: keys are written in one.
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

    /// What the maps call: the hash of all bytes at once, which is faster than a hasher that takes
    /// them bit by bit.
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

/// The two have the same interface.
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

/// The standard library's map as it comes.
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
