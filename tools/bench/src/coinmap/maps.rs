//! The maps: ours, and hashbrown with `Coin` values, as its users would store coins.

use blockmill_block::{Coin, OutPoint};
use blockmill_coinmap::{CoinMap, CoinRef, EntryFlags, EntryRef, Update};
use hashbrown::HashTable;
use siphasher::sip::SipHasher13;
use std::hash::{BuildHasher, RandomState};

/// Number of coins seen, and the sum of their amounts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Tally {
    count: u64,
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

    /// Tallies several amounts.
    #[inline]
    pub(super) fn of(values: impl IntoIterator<Item = Option<i64>>) -> Self {
        let mut tally = Self::default();
        values.into_iter().for_each(|value| tally.add(value));
        tally
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

    /// Finds outpoints one by one, in the same way for each map.
    fn find_each(&mut self, outpoints: &[OutPoint]) -> Tally {
        Tally::of(outpoints.iter().map(|outpoint| self.find(outpoint)))
    }

    /// Finds several outpoints as fast as the map can.
    fn find_many(&mut self, outpoints: &[OutPoint]) -> Tally {
        self.find_each(outpoints)
    }
}

/// Our map.
#[derive(Debug, Default)]
pub(super) struct Ours(CoinMap);

impl Map for Ours {
    #[inline]
    fn insert(&mut self, outpoint: &OutPoint, coin: CoinRef<'_>) {
        self.0.insert(outpoint, EntryFlags::NONE, Some(coin));
    }

    #[inline]
    fn find(&mut self, outpoint: &OutPoint) -> Option<i64> {
        self.0.with(outpoint, |entry| entry.map(|entry| entry.value()))
    }

    #[inline]
    fn take(&mut self, outpoint: &OutPoint) -> Option<Coin> {
        let taken = |entry: Option<EntryRef<'_>>| (Update::Remove, entry.and_then(|entry| entry.coin()));
        self.0.update(outpoint, taken)
    }

    #[inline]
    fn erase(&mut self, outpoint: &OutPoint) -> Option<i64> {
        let removed = |entry: Option<EntryRef<'_>>| (Update::Remove, entry.map(|entry| entry.value()));
        self.0.update(outpoint, removed)
    }

    fn all(&self) -> Tally {
        let mut tally = Tally::default();
        self.0.for_each(|entry| tally.add(Some(entry.value())));
        tally
    }

    fn find_many(&mut self, outpoints: &[OutPoint]) -> Tally {
        let mut tally = Tally::default();
        // All hashes come first, so that the reads from memory overlap.
        let key = self.0.hash_key();
        let hashed: Vec<_> = outpoints.iter().map(|outpoint| key.hashed(outpoint)).collect();
        self.0
            .get_many(&hashed, |_, entry| tally.add(entry.map(|entry| entry.value())));
        tally
    }
}

/// `hashbrown`'s table with SipHash-1-3, under a key from the system.
pub(super) struct Hashbrown {
    key: SipHasher13,
    coins: HashTable<(OutPoint, Coin)>,
}

impl Default for Hashbrown {
    fn default() -> Self {
        let random = RandomState::new();
        Self {
            key: SipHasher13::new_with_keys(random.hash_one(1u64), random.hash_one(2u64)),
            coins: HashTable::new(),
        }
    }
}

/// The hash of the 36 bytes in one call: a derived `Hash` makes several, which take longer.
#[inline]
fn hash(key: &SipHasher13, outpoint: &OutPoint) -> u64 {
    let mut bytes = [0; OutPoint::LENGTH];
    bytes[..32].copy_from_slice(&outpoint.txid.0);
    bytes[32..].copy_from_slice(&outpoint.vout.to_le_bytes());
    key.hash(&bytes)
}

impl Map for Hashbrown {
    #[inline]
    fn insert(&mut self, outpoint: &OutPoint, coin: CoinRef<'_>) {
        let is_same = |entry: &(OutPoint, Coin)| entry.0 == *outpoint;
        let rehash = |entry: &(OutPoint, Coin)| hash(&self.key, &entry.0);
        let entry = self.coins.entry(hash(&self.key, outpoint), is_same, rehash);
        entry.insert((*outpoint, coin.to_coin()));
    }

    #[inline]
    fn find(&mut self, outpoint: &OutPoint) -> Option<i64> {
        let found = self.coins.find(hash(&self.key, outpoint), |entry| entry.0 == *outpoint);
        found.map(|entry| entry.1.value)
    }

    #[inline]
    fn take(&mut self, outpoint: &OutPoint) -> Option<Coin> {
        let is_same = |entry: &(OutPoint, Coin)| entry.0 == *outpoint;
        let found = self.coins.find_entry(hash(&self.key, outpoint), is_same);
        found.ok().map(|entry| entry.remove().0.1)
    }

    fn all(&self) -> Tally {
        Tally::of(self.coins.iter().map(|entry| Some(entry.1.value)))
    }
}
