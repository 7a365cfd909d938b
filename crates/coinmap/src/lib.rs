//! A map from outpoints to coins, made for hundreds of millions of them.
//!
//! In reading order:
//! - `hash`: the keyed hash;
//! - `record`: how an entry lies in memory, in a short form of its own;
//! - `pool`: the memory of the records;
//! - `segment`, `overflow`: the index, a word for each record, with bounded searches;
//! - `shard`: records and index of a part of all outpoints; batched searches;
//! - `ordered`: entries in the order of their keys.
//!
//! A usual coin takes 72 bytes, and about 10 more in the index. Nothing doubles when the map grows: a thousandth of the index
//! grows at a time, by a quarter. Whatever the keys are, nothing fails (but for memory: a shard has room for 32 GiB of records, and for half a
//! million with scripts of more than a kilobyte), and every operation is bounded by the size of a segment of the index.
//!
//! # Threads
//!
//! There are [`SHARDS`] shards, each behind a lock for many readers or one writer, and an operation holds one lock at a time. So threads
//! may read and write at once; what spans several operations is not atomic. A closure that an operation calls must not use the map.
//! That no two threads touch a shard against its lock's rules is what the type of the lock says; there is no unsafe code here but
//! for the prefetch instruction.

mod hash;
pub mod key;
mod ordered;
mod overflow;
mod pool;
mod prefetch;
mod record;
mod segment;
mod shard;
#[cfg(test)]
mod tests;

pub use hash::HashKey;
pub use ordered::Ordered;
pub use record::{CoinRef, EntryFlags, EntryRef};
pub use segment::IndexStatistics;
pub use shard::Update;

use blockmill_block::{Coin, OutPoint};
use shard::{Difference, SHARD_BITS, Shard};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Parts of a map that are locked apart.
pub const SHARDS: usize = 1 << SHARD_BITS;

/// An entry, taken out of the map's memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The flags.
    pub flags: EntryFlags,
    /// The coin; none for the marker of a spent outpoint.
    pub coin: Option<Coin>,
}

impl From<EntryRef<'_>> for Entry {
    fn from(entry: EntryRef<'_>) -> Self {
        Self {
            flags: entry.flags(),
            coin: entry.coin(),
        }
    }
}

/// A map from outpoints to coins and spent markers.
pub struct CoinMap {
    key: HashKey,
    shards: Box<[RwLock<Shard>]>,
    /// Entries and bytes of all shards; exact whenever no operation is under way.
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

/// Searches whose ways through memory overlap.
const PREFETCH_WINDOW: usize = 32;

impl CoinMap {
    /// Bytes of an empty map.
    pub const EMPTY_BYTES: usize = SHARDS * size_of::<RwLock<Shard>>();

    /// An empty map with a key from the system.
    pub fn new() -> Self {
        Self::with_key(HashKey::random())
    }

    /// An empty map with a key of the caller's.
    pub fn with_key(key: HashKey) -> Self {
        Self {
            key,
            shards: (0..SHARDS).map(|_| RwLock::default()).collect(),
            len: AtomicUsize::new(0),
            bytes: AtomicUsize::new(Self::EMPTY_BYTES),
        }
    }

    /// Entries, spent markers included.
    pub fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of memory: records, their index, the room that both keep free, and what the allocator is taken to add.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    // A thread that panics in a caller's closure leaves its shard whole: closures are called before anything is changed.
    fn read(&self, shard: usize) -> RwLockReadGuard<'_, Shard> {
        self.shards[shard].read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, shard: usize) -> RwLockWriteGuard<'_, Shard> {
        self.shards[shard].write().unwrap_or_else(PoisonError::into_inner)
    }

    fn account(&self, difference: Difference) {
        if difference.bytes != 0 {
            self.bytes
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

    /// Lets `look` see the entry of an outpoint.
    #[inline]
    pub fn with<R>(&self, outpoint: &OutPoint, look: impl FnOnce(Option<EntryRef<'_>>) -> R) -> R {
        let hash = self.key.hash(outpoint);
        look(self.read(shard_of(hash)).get(hash, outpoint))
    }

    /// The entry of an outpoint.
    pub fn get(&self, outpoint: &OutPoint) -> Option<Entry> {
        self.with(outpoint, |entry| entry.map(Entry::from))
    }

    /// Lets `found` see the entries of several outpoints, each with the place that it has in `outpoints`, in any order. The more there
    /// are, the better their ways through memory overlap.
    ///
    /// # Panics
    /// With 2^32 outpoints or more.
    pub fn get_many(&self, outpoints: &[OutPoint], mut found: impl FnMut(usize, Option<EntryRef<'_>>)) {
        assert!(u32::try_from(outpoints.len()).is_ok(), "too many outpoints at once");
        let wanted = self.by_shard(outpoints);
        for shard in wanted.chunk_by(|one, other| shard_of(one.0) == shard_of(other.0)) {
            self.read(shard_of(shard[0].0)).get_many(shard, outpoints, &mut found);
        }
    }

    /// Begins to bring what a search for each of these outpoints reads into the caches of this processor: for a few dozen that are searched
    /// soon after.
    pub fn prefetch(&self, outpoints: &[OutPoint]) {
        for window in outpoints.chunks(PREFETCH_WINDOW) {
            let mut hashes = [0; PREFETCH_WINDOW];
            for (hash, outpoint) in hashes.iter_mut().zip(window) {
                *hash = self.key.hash(outpoint);
                self.read(shard_of(*hash)).prefetch_word(*hash);
            }
            for &hash in &hashes[..window.len()] {
                self.read(shard_of(hash)).prefetch_record(hash);
            }
        }
    }

    /// Hashes and numbers of outpoints, those of a shard together.
    fn by_shard(&self, outpoints: &[OutPoint]) -> Vec<(u64, u32)> {
        let hashes: Vec<u64> = outpoints.iter().map(|outpoint| self.key.hash(outpoint)).collect();
        let mut ends = [0u32; SHARDS];
        for &hash in &hashes {
            ends[shard_of(hash)] += 1;
        }
        let mut before = 0;
        for end in &mut ends {
            before += std::mem::replace(end, before);
        }
        let mut wanted = vec![(0, 0); outpoints.len()];
        for (number, &hash) in hashes.iter().enumerate() {
            let next = &mut ends[shard_of(hash)];
            wanted[*next as usize] = (hash, number as u32);
            *next += 1;
        }
        wanted
    }

    /// Lets `change` see the entry of an outpoint and say what becomes of it; nobody else sees or changes it in between.
    #[inline]
    pub fn update<'a, R>(
        &self,
        outpoint: &OutPoint,
        change: impl FnOnce(Option<EntryRef<'_>>) -> (Update<'a>, R),
    ) -> R {
        let hash = self.key.hash(outpoint);
        let mut shard = self.write(shard_of(hash));
        let (difference, result) = shard.update(hash, outpoint, change);
        drop(shard);
        self.account(difference);
        result
    }

    /// Puts a coin or a spent marker in, in the place of what was there. Returns whether there was something.
    pub fn insert(&self, outpoint: &OutPoint, flags: EntryFlags, coin: Option<CoinRef<'_>>) -> bool {
        self.update(outpoint, |old| (Update::Put(flags, coin), old.is_some()))
    }

    /// Removes the entry of an outpoint. Returns whether there was one.
    pub fn remove(&self, outpoint: &OutPoint) -> bool {
        self.update(outpoint, |old| (Update::Remove, old.is_some()))
    }

    /// The map for one thread alone, which needs no locks.
    pub fn exclusive(&mut self) -> Exclusive<'_> {
        Exclusive { map: self }
    }

    /// Lets `look` see all entries, in no order. A shard is locked for readers while its entries are shown.
    pub fn for_each(&self, mut look: impl FnMut(EntryRef<'_>)) {
        for shard in 0..SHARDS {
            let shard = self.read(shard);
            shard.places().for_each(|place| look(shard.at(place)));
        }
    }

    /// Gives every entry the flags that `change` makes of it, and removes those of which it makes none.
    pub fn retain_with_flags(&self, mut change: impl FnMut(EntryRef<'_>) -> Option<EntryFlags>) {
        let mut gone = Vec::new();
        for shard in 0..SHARDS {
            self.write(shard).retain_with_flags(&mut change, &mut gone);
            for outpoint in gone.drain(..) {
                self.remove(&outpoint);
            }
        }
    }

    /// Takes the entries of a shard out and lets `look` see them; their memory is free then.
    pub fn drain_shard(&self, shard: usize, mut look: impl FnMut(EntryRef<'_>)) {
        let shard = std::mem::take(&mut *self.write(shard));
        self.account(Difference {
            bytes: -(shard.bytes().cast_signed()),
            entries: -(shard.len().cast_signed()),
        });
        shard.places().for_each(|place| look(shard.at(place)));
    }

    /// Removes all entries and gives their memory back.
    pub fn clear(&self) {
        for shard in 0..SHARDS {
            self.drain_shard(shard, |_| {});
        }
    }

    /// How far the words of the index stand from where a search begins.
    pub fn index_statistics(&self) -> IndexStatistics {
        let mut statistics = IndexStatistics::default();
        for shard in 0..SHARDS {
            self.read(shard).add_statistics(&mut statistics);
        }
        statistics
    }
}

/// A map that only one thread uses at the moment: [`CoinMap::exclusive`].
#[derive(Debug)]
pub struct Exclusive<'m> {
    map: &'m mut CoinMap,
}

impl Exclusive<'_> {
    #[inline]
    fn shard(&mut self, hash: u64) -> &mut Shard {
        let shard = self.map.shards[shard_of(hash)].get_mut();
        shard.unwrap_or_else(PoisonError::into_inner)
    }

    /// As [`CoinMap::with`]; the entry can be kept as long as nothing is changed.
    #[inline]
    pub fn get(&mut self, outpoint: &OutPoint) -> Option<EntryRef<'_>> {
        let hash = self.map.key.hash(outpoint);
        self.shard(hash).get(hash, outpoint)
    }

    /// As [`CoinMap::update`].
    #[inline]
    pub fn update<'a, R>(
        &mut self,
        outpoint: &OutPoint,
        change: impl FnOnce(Option<EntryRef<'_>>) -> (Update<'a>, R),
    ) -> R {
        let hash = self.map.key.hash(outpoint);
        let (difference, result) = self.shard(hash).update(hash, outpoint, change);
        let bytes = self.map.bytes.get_mut();
        *bytes = bytes.wrapping_add_signed(difference.bytes);
        let len = self.map.len.get_mut();
        *len = len.wrapping_add_signed(difference.entries);
        result
    }

    /// As [`CoinMap::insert`].
    #[inline]
    pub fn insert(&mut self, outpoint: &OutPoint, flags: EntryFlags, coin: Option<CoinRef<'_>>) -> bool {
        self.update(outpoint, |old| (Update::Put(flags, coin), old.is_some()))
    }

    /// As [`CoinMap::remove`].
    #[inline]
    pub fn remove(&mut self, outpoint: &OutPoint) -> bool {
        self.update(outpoint, |old| (Update::Remove, old.is_some()))
    }
}
