//! The maps: ours, and hashbrown with `Coin` values, as its users would store coins.

use blockmill_block::{Coin, OutPoint};
use blockmill_coinmap::{CoinMap, CoinRef, EntryFlags, EntryRef, Update};
use siphasher::sip::SipHasher13;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};

/// Number of coins seen, and the sum of their amounts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Tally {
    pub(super) count: u64,
    value_sum: i64,
}

impl Tally {
    #[inline]
    pub(super) fn add(&mut self, value: Option<i64>) {
        if let Some(value) = value {
            self.count += 1;
            self.value_sum = self.value_sum.wrapping_add(value);
        }
    }

    pub(super) fn merge(&mut self, other: Self) {
        self.count += other.count;
        self.value_sum = self.value_sum.wrapping_add(other.value_sum);
    }
}

/// A map from outpoints to coins.
pub(super) trait Map: Default {
    /// Inserts a coin that is absent.
    fn insert(&mut self, outpoint: &OutPoint, coin: CoinRef<'_>);
    /// The amount of a coin.
    fn find(&mut self, outpoint: &OutPoint) -> Option<i64>;
    /// Removes a coin, and returns it.
    fn take(&mut self, outpoint: &OutPoint) -> Option<Coin>;
    /// Removes a coin, and returns its amount.
    fn erase(&mut self, outpoint: &OutPoint) -> Option<i64> {
        self.take(outpoint).map(|coin| coin.value)
    }
    /// Tallies all coins.
    fn all(&self) -> Tally;
    fn len(&self) -> usize;

    /// The amounts of several coins.
    fn find_many(&mut self, outpoints: &[OutPoint]) -> Tally {
        self.find_each(outpoints)
    }

    /// Finds outpoints one by one, in the same way for each map.
    fn find_each(&mut self, outpoints: &[OutPoint]) -> Tally {
        let mut tally = Tally::default();
        for outpoint in outpoints {
            tally.add(self.find(outpoint));
        }
        tally
    }

    /// Bytes that the map reports as its memory.
    fn bytes(&self) -> Option<usize> {
        None
    }
}

/// Our map with exclusive access.
#[derive(Debug, Default)]
pub(super) struct Ours(CoinMap);

impl Map for Ours {
    #[inline]
    fn insert(&mut self, outpoint: &OutPoint, coin: CoinRef<'_>) {
        self.0.exclusive().insert(outpoint, EntryFlags::NONE, Some(coin));
    }

    #[inline]
    fn find(&mut self, outpoint: &OutPoint) -> Option<i64> {
        self.0.exclusive().get(outpoint).map(|entry| entry.value())
    }

    #[inline]
    fn take(&mut self, outpoint: &OutPoint) -> Option<Coin> {
        let taken = |entry: Option<EntryRef<'_>>| (Update::Remove, entry.and_then(|entry| entry.coin()));
        self.0.exclusive().update(outpoint, taken)
    }

    #[inline]
    fn erase(&mut self, outpoint: &OutPoint) -> Option<i64> {
        let removed = |entry: Option<EntryRef<'_>>| (Update::Remove, entry.map(|entry| entry.value()));
        self.0.exclusive().update(outpoint, removed)
    }

    fn all(&self) -> Tally {
        let mut tally = Tally::default();
        self.0.for_each(|entry| tally.add(Some(entry.value())));
        tally
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    fn find_many(&mut self, outpoints: &[OutPoint]) -> Tally {
        let mut tally = Tally::default();
        let key = self.0.hash_key();
        let hashed: Vec<_> = outpoints.iter().map(|outpoint| key.hashed(outpoint)).collect();
        self.0
            .get_many(&hashed, |_, entry| tally.add(entry.map(|entry| entry.value())));
        tally
    }

    fn bytes(&self) -> Option<usize> {
        Some(self.0.bytes())
    }
}

/// An outpoint that gives its 36 bytes to the hasher in one call. A derived `Hash` makes several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Flat(OutPoint);

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

/// `hashbrown`'s map.
#[derive(Debug, Default)]
pub(super) struct Hashbrown<S>(hashbrown::HashMap<Flat, Coin, S>);

pub(super) type HashbrownSip = Hashbrown<SipKey>;
pub(super) type HashbrownFold = Hashbrown<hashbrown::DefaultHashBuilder>;

impl<S: BuildHasher + Default> Map for Hashbrown<S> {
    #[inline]
    fn insert(&mut self, outpoint: &OutPoint, coin: CoinRef<'_>) {
        let coin = Coin {
            value: coin.value,
            height: coin.height,
            is_coinbase: coin.is_coinbase,
            script_pubkey: coin.script_pubkey.into(),
        };
        self.0.insert(Flat(*outpoint), coin);
    }

    #[inline]
    fn find(&mut self, outpoint: &OutPoint) -> Option<i64> {
        self.0.get(&Flat(*outpoint)).map(|coin| coin.value)
    }

    #[inline]
    fn take(&mut self, outpoint: &OutPoint) -> Option<Coin> {
        self.0.remove(&Flat(*outpoint))
    }

    fn all(&self) -> Tally {
        let mut tally = Tally::default();
        self.0.values().for_each(|coin| tally.add(Some(coin.value)));
        tally
    }

    fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_piece_is_siphash_as_well() {
        let key = SipKey::default();
        for vout in [0, 1, u32::MAX] {
            let outpoint = OutPoint {
                txid: blockmill_block::Txid([7; 32]),
                vout,
            };
            let mut pieces = key.0;
            Flat(outpoint).hash(&mut pieces);
            assert_eq!(key.hash_one(Flat(outpoint)), pieces.finish());
        }
    }
}
