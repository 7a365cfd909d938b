//! A shard that a thread has for a while: its lock is taken once, and not for each operation.

use super::record::EntryRef;
use super::shard::{Difference, Shard, Update};
use super::{CoinMap, HashedOutPoint, shard_of};
use std::sync::{RwLockReadGuard, RwLockWriteGuard};

/// A shard that one thread has locked; from [`CoinMap::lock_shard`]. The lengths that the map tells
/// follow when it is dropped.
pub struct LockedShard<'m> {
    map: &'m CoinMap,
    number: usize,
    shard: RwLockWriteGuard<'m, Shard>,
    difference: Difference,
}

impl CoinMap {
    /// Locks a shard, for many changes in a row by one thread. Other threads wait for it.
    ///
    /// # Panics
    /// If `number` is not below [`SHARDS`](crate::SHARDS).
    pub fn lock_shard(&self, number: usize) -> LockedShard<'_> {
        LockedShard {
            map: self,
            number,
            shard: self.write(number),
            difference: Difference::default(),
        }
    }

    /// Locks a shard, for many look-ups in a row. Threads that would change it wait. The thread
    /// that has it MUST NOT read the shard by other means: it could wait for a thread that waits
    /// for it.
    ///
    /// # Panics
    /// If `number` is not below [`SHARDS`](crate::SHARDS).
    pub fn read_shard(&self, number: usize) -> ReadShard<'_> {
        ReadShard {
            number,
            shard: self.read(number),
        }
    }

    /// The shard of the outpoints with this hash.
    #[inline]
    pub fn shard_of(hash: u64) -> usize {
        shard_of(hash)
    }
}

impl LockedShard<'_> {
    /// Calls `visit` with the entry of an outpoint, whose hash MUST be of this shard.
    #[inline]
    pub fn with<R>(&self, at: &HashedOutPoint, visit: impl FnOnce(Option<EntryRef<'_>>) -> R) -> R {
        debug_assert_eq!(shard_of(at.hash()), self.number, "another shard's outpoint");
        visit(self.shard.get(at.hash(), at.outpoint()))
    }

    /// Calls `change` with the entry of an outpoint, whose hash MUST be of this shard, and does
    /// what `change` returns.
    #[inline]
    pub fn update<'a, R>(
        &mut self,
        at: &HashedOutPoint,
        change: impl FnOnce(Option<EntryRef<'_>>) -> (Update<'a>, R),
    ) -> R {
        debug_assert_eq!(shard_of(at.hash()), self.number, "another shard's outpoint");
        let (difference, result) = self.shard.update(at.hash(), at.outpoint(), change);
        self.difference.bytes += difference.bytes;
        self.difference.entries += difference.entries;
        result
    }

    /// Starts loading the word of the index at which a search for this hash begins.
    #[inline]
    pub fn prefetch_word(&self, hash: u64) {
        self.shard.prefetch_word(hash);
    }

    /// Starts loading the words of the index that an insertion with this hash will probably move.
    #[inline]
    pub fn prefetch_insertion(&self, hash: u64) {
        self.shard.prefetch_insertion(hash);
    }

    /// Starts loading the record that a search for this hash will probably find. Best a while after
    /// [`prefetch_word`](Self::prefetch_word). Returns whether there is one.
    #[inline]
    pub fn prefetch_record(&self, hash: u64) -> bool {
        self.shard.prefetch_record(hash)
    }
}

/// A shard that a thread reads; from [`CoinMap::read_shard`].
pub struct ReadShard<'m> {
    number: usize,
    shard: RwLockReadGuard<'m, Shard>,
}

impl ReadShard<'_> {
    /// Calls `visit` with the entry of an outpoint, whose hash MUST be of this shard.
    #[inline]
    pub fn with<R>(&self, at: &HashedOutPoint, visit: impl FnOnce(Option<EntryRef<'_>>) -> R) -> R {
        debug_assert_eq!(shard_of(at.hash()), self.number, "another shard's outpoint");
        visit(self.shard.get(at.hash(), at.outpoint()))
    }

    /// Starts loading the word of the index at which a search for this hash begins.
    #[inline]
    pub fn prefetch_word(&self, hash: u64) {
        self.shard.prefetch_word(hash);
    }
}

impl Drop for LockedShard<'_> {
    fn drop(&mut self) {
        // Once for all changes: all threads share the counters.
        self.map.account(self.difference);
    }
}
