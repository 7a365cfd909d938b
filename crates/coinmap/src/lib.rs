//! A map from outpoints to coins, made for hundreds of millions of entries.
//!
//! ```
//! use blockmill_block::{Coin, OutPoint, Txid};
//! use blockmill_coinmap::{CoinMap, CoinRef, EntryFlags};
//!
//! let map = CoinMap::new();
//! let outpoint = OutPoint { txid: Txid([7; 32]), vout: 0 };
//! let coin = Coin { value: 5_000, height: 1, is_coinbase: true, script_pubkey: [0x51].into() };
//!
//! let changed = EntryFlags::bit(0);
//! let replaced = map.insert(&outpoint, changed, Some(CoinRef::from(&coin)));
//! assert!(!replaced);
//! let entry = map.get(&outpoint).expect("the entry was inserted");
//! assert_eq!((entry.flags, entry.coin), (changed, Some(coin)));
//!
//! // An entry without a coin says that the outpoint is spent.
//! map.insert(&outpoint, changed, None);
//! assert!(map.with(&outpoint, |entry| entry.is_some_and(|entry| entry.is_spent())));
//! assert_eq!(map.len(), 1);
//! ```
//!
//! In reading order:
//! - `hash`: the keyed hash;
//! - [`key`]: the key of an outpoint, by which entries are sorted;
//! - `record`: the layout of an entry in memory, a short form of its own;
//! - `pool`: the memory of the records;
//! - `word`, `segment`, `overflow`: the index, one word for each record, with bounded searches;
//! - `shard`: records and index of a part of all outpoints; batched searches;
//! - `sorted`: entries in the order of their keys;
//! - `locked`: a shard that one thread has for a while;
//! - `adopt`: entries that move to another map.
//!
//! # Memory and bounds
//!
//! A usual coin takes 72 bytes, and about 10 bytes in the index. Nothing doubles when the map
//! grows: a thousandth of the index grows at a time, by a quarter.
//!
//! No operation fails, whatever the keys are, while there is memory. Every operation is bounded by
//! the size of one segment of the index. A shard has room for 32 GiB of records, and for half a
//! million scripts of more than a kilobyte.
//!
//! # Threads
//!
//! The map has [`SHARDS`] shards. Each shard has a lock for many readers or one writer. An
//! operation holds one lock at a time; [`lock_shard`](CoinMap::lock_shard) holds one for many
//! operations. So threads may read and write at once. A sequence of operations is not atomic. A
//! closure that an operation calls must not use the map.
//!
//! The type of the lock keeps threads from breaking its rules. The only unsafe code here is the
//! prefetch instruction.

mod adopt;
mod hash;
pub mod key;
mod locked;
mod overflow;
mod pool;
mod prefetch;
mod record;
mod segment;
mod shard;
mod sorted;
#[cfg(test)]
mod tests;
mod word;

pub use blockmill_block::CoinRef;
pub use hash::{HashKey, HashedOutPoint, TransactionHash};
pub use locked::{LockedShard, ReadShard};
pub use prefetch::prefetch;
pub use record::{EntryFlags, EntryRef};
pub use shard::Update;
pub use sorted::SortedEntries;

use blockmill_block::{Coin, OutPoint};
use shard::{Difference, SHARD_BITS, Shard};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// The examples of the README compile and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// Number of shards. Each has a lock of its own.
pub const SHARDS: usize = 1 << SHARD_BITS;

/// An entry, copied out of the map's memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MapEntry {
    /// The flags.
    pub flags: EntryFlags,
    /// The coin; none for a spent outpoint.
    pub coin: Option<Coin>,
}

impl From<EntryRef<'_>> for MapEntry {
    fn from(entry: EntryRef<'_>) -> Self {
        Self {
            flags: entry.flags(),
            coin: entry.coin(),
        }
    }
}

/// A map from outpoints to coins and spent markers. See the [crate] for an example.
pub struct CoinMap {
    key: HashKey,
    shards: Box<[RwLock<Shard>]>,
    /// Entries and bytes of all shards. Both are exact whenever no operation is running.
    len: AtomicUsize,
    bytes: AtomicUsize,
}

impl std::fmt::Debug for CoinMap {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("CoinMap")
            .field("len", &self.len())
            .field("bytes", &self.bytes())
            .finish_non_exhaustive()
    }
}

impl Default for CoinMap {
    fn default() -> Self {
        Self::new()
    }
}

const fn shard_of(hash: u64) -> usize {
    (hash >> (64 - SHARD_BITS)) as usize
}

/// Numbers of the outpoints, grouped by shard.
fn by_shard(outpoints: &[HashedOutPoint]) -> Vec<u32> {
    assert!(u32::try_from(outpoints.len()).is_ok(), "too many outpoints at once");
    let mut ends = [0u32; SHARDS];
    for outpoint in outpoints {
        ends[shard_of(outpoint.hash())] += 1;
    }
    let mut before = 0;
    // Counts become starts, and end as ends when the numbers are dealt out.
    for end in &mut ends {
        before += std::mem::replace(end, before);
    }
    let mut numbers = vec![0; outpoints.len()];
    for (number, outpoint) in (0..).zip(outpoints) {
        let next = &mut ends[shard_of(outpoint.hash())];
        numbers[*next as usize] = number;
        *next += 1;
    }
    numbers
}

impl CoinMap {
    /// Bytes that an empty map takes.
    pub const EMPTY_BYTES: usize = SHARDS * size_of::<RwLock<Shard>>();

    /// An empty map with a key from the system's source of randomness.
    pub fn new() -> Self {
        Self::with_key(HashKey::random())
    }

    /// An empty map with the caller's key.
    pub fn with_key(key: HashKey) -> Self {
        Self {
            key,
            shards: (0..SHARDS).map(|_| RwLock::default()).collect(),
            len: AtomicUsize::new(0),
            bytes: AtomicUsize::new(Self::EMPTY_BYTES),
        }
    }

    /// Number of entries, spent markers included.
    pub fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    /// Whether the map has no entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Memory of the map in bytes: records, their index, the free memory of both, and an estimate
    /// of the allocator's own share.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    // A panic in a caller's closure leaves its shard whole: closures run before anything is
    // changed.
    fn read(&self, shard: usize) -> RwLockReadGuard<'_, Shard> {
        self.shards[shard].read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, shard: usize) -> RwLockWriteGuard<'_, Shard> {
        self.shards[shard].write().unwrap_or_else(PoisonError::into_inner)
    }

    fn account(&self, difference: Difference) {
        if difference.bytes != 0 {
            self.bytes
                // A negative difference wraps around, which subtracts it.
                .fetch_add(difference.bytes.cast_unsigned(), Ordering::Relaxed);
        }
        if difference.entries != 0 {
            self.len
                .fetch_add(difference.entries.cast_unsigned(), Ordering::Relaxed);
        }
    }

    /// The key of the hashes.
    pub fn hash_key(&self) -> &HashKey {
        &self.key
    }

    /// Calls `visit` with the entry of an outpoint.
    #[inline]
    pub fn with<R>(&self, outpoint: &OutPoint, visit: impl FnOnce(Option<EntryRef<'_>>) -> R) -> R {
        self.with_hashed(&self.key.hashed(outpoint), visit)
    }

    /// As [`with`](Self::with), for an outpoint whose hash is known.
    #[inline]
    pub fn with_hashed<R>(&self, at: &HashedOutPoint, visit: impl FnOnce(Option<EntryRef<'_>>) -> R) -> R {
        let hash = at.hash();
        visit(self.read(shard_of(hash)).get(hash, at.outpoint()))
    }

    /// The entry of an outpoint, copied.
    pub fn get(&self, outpoint: &OutPoint) -> Option<MapEntry> {
        self.with(outpoint, |entry| entry.map(MapEntry::from))
    }

    /// Calls `found` once for each outpoint: with its index in `outpoints`, and with its entry. The
    /// order of the calls is not defined. The reads from memory overlap, so large batches are
    /// faster.
    ///
    /// # Panics
    /// With 2^32 outpoints or more.
    pub fn get_many(&self, outpoints: &[HashedOutPoint], mut found: impl FnMut(usize, Option<EntryRef<'_>>)) {
        let numbers = by_shard(outpoints);
        let shard_of_number = |number: u32| shard_of(outpoints[number as usize].hash());
        for numbers in numbers.chunk_by(|&one, &other| shard_of_number(one) == shard_of_number(other)) {
            self.read(shard_of_number(numbers[0]))
                .get_many(numbers, outpoints, &mut found);
        }
    }

    /// Calls `change` with the entry of an outpoint, and does what `change` returns. No other
    /// thread sees or changes the entry in between.
    #[inline]
    pub fn update<'a, R>(
        &self,
        outpoint: &OutPoint,
        change: impl FnOnce(Option<EntryRef<'_>>) -> (Update<'a>, R),
    ) -> R {
        self.update_hashed(&self.key.hashed(outpoint), change)
    }

    /// As [`update`](Self::update), for an outpoint whose hash is known.
    #[inline]
    pub fn update_hashed<'a, R>(
        &self,
        at: &HashedOutPoint,
        change: impl FnOnce(Option<EntryRef<'_>>) -> (Update<'a>, R),
    ) -> R {
        let mut shard = self.write(shard_of(at.hash()));
        let (difference, result) = shard.update(at.hash(), at.outpoint(), change);
        // The counters are atomic and need no lock.
        drop(shard);
        self.account(difference);
        result
    }

    /// Inserts a coin, or a spent marker, and replaces the old entry. Returns whether there was an
    /// old entry.
    pub fn insert(&self, outpoint: &OutPoint, flags: EntryFlags, coin: Option<CoinRef<'_>>) -> bool {
        self.update(outpoint, |old| (Update::Put(flags, coin), old.is_some()))
    }

    /// Removes the entry of an outpoint. Returns whether there was an entry.
    pub fn remove(&self, outpoint: &OutPoint) -> bool {
        self.update(outpoint, |old| (Update::Remove, old.is_some()))
    }

    /// Calls `visit` with every entry, in no defined order. A shard is locked for reading while
    /// `visit` sees its entries.
    pub fn for_each(&self, mut visit: impl FnMut(EntryRef<'_>)) {
        for shard in 0..SHARDS {
            let shard = self.read(shard);
            shard.for_each_slot(|slot| visit(shard.entry_at(slot)));
        }
    }

    /// Gives every entry the flags that `change` returns, and removes the entries for which it
    /// returns none.
    pub fn retain_with_flags(&self, mut change: impl FnMut(EntryRef<'_>) -> Option<EntryFlags>) {
        let mut removed = Vec::new();
        for shard in 0..SHARDS {
            self.write(shard).retain_with_flags(&mut change, &mut removed);
            for outpoint in removed.drain(..) {
                // Removal moves words of the index, so it waits until the walk has ended.
                self.remove(&outpoint);
            }
        }
    }

    /// Removes all entries and frees their memory.
    pub fn clear(&self) {
        for shard in 0..SHARDS {
            self.take_shard(shard);
        }
    }

    /// How far words of the index are from the position where their search begins.
    #[cfg(test)]
    pub(crate) fn index_statistics(&self) -> segment::IndexStatistics {
        let mut statistics = segment::IndexStatistics::default();
        for shard in 0..SHARDS {
            self.read(shard).add_statistics(&mut statistics);
        }
        statistics
    }
}
