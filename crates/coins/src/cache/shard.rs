//! Shards: parts of the cache that several threads change at once, each its own.
//!
//! A shard of the cache is a shard of the live entries, and what becomes of an outpoint is decided
//! in its shard alone. A shard never decides what is wrong with a block: where it cannot tell that
//! all is well, it says so, and its user has everything taken back by the logs.

use super::CoinsCache;
#[cfg(test)]
use super::Rule;
use super::log::EntryLog;
use crate::flush_epoch::FlushClock;
use crate::store::CoinStore;
use blockmill_coinmap::{CoinMap, HashedOutPoint, LockedShard, ReadShard};

/// The shard of the outpoints with this hash.
#[inline]
pub fn shard_of(hash: u64) -> usize {
    CoinMap::shard_of(hash)
}

/// The cache while its shards are dealt out; from [`CoinsCache::shards`].
pub struct CacheShards<'c> {
    live: &'c CoinMap,
    frozen: Option<&'c CoinMap>,
    below: Below<'c>,
}

impl std::fmt::Debug for CacheShards<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("CacheShards").finish_non_exhaustive()
    }
}

/// What lies below all entries: the store, and what the cache knows of it.
#[derive(Clone, Copy)]
pub(super) struct Below<'c> {
    pub(super) store: &'c dyn CoinStore,
    pub(super) clock: &'c FlushClock,
    /// Whether every coin of the store is in the cache.
    pub(super) complete: bool,
    #[cfg(test)]
    pub(super) disabled: Option<Rule>,
}

/// A shard that one thread has; from [`CacheShards::lock`]. For outpoints that are hashed with
/// [`CoinsCache::hash_key`] and belong to the shard. Everything that is done is noted in a log, and
/// can be taken back with it, the last first.
pub struct CacheShard<'s> {
    pub(super) live: LockedShard<'s>,
    /// The frozen entries, if there is a flush. Its promotion waits for the shard.
    pub(super) frozen: Option<ReadShard<'s>>,
    pub(super) below: Below<'s>,
}

impl std::fmt::Debug for CacheShard<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("CacheShard").finish_non_exhaustive()
    }
}

impl CoinsCache {
    /// The cache for changes in shards. The logs of what the shards have done MUST be given to
    /// [`end_shards`](Self::end_shards).
    pub fn shards(&mut self) -> CacheShards<'_> {
        self.dealt_out()
    }

    /// Counts what shards have done.
    pub fn end_shards<'l>(&mut self, logs: impl IntoIterator<Item = &'l EntryLog>) {
        for log in logs {
            self.count(log);
        }
    }

    /// Changes the entry of one outpoint, and counts what was done.
    pub(super) fn change<T>(
        &mut self,
        at: &HashedOutPoint,
        change: impl FnOnce(&mut CacheShard<'_>, &mut EntryLog) -> T,
    ) -> T {
        let mut log = EntryLog::default();
        let outcome = change(&mut self.lock(at), &mut log);
        self.count(&log);
        outcome
    }

    /// Locks the shard of an outpoint.
    pub(super) fn lock(&self, at: &HashedOutPoint) -> CacheShard<'_> {
        self.dealt_out().lock(shard_of(at.hash()))
    }

    fn dealt_out(&self) -> CacheShards<'_> {
        CacheShards {
            live: &self.map,
            frozen: self.flush.as_ref().map(|flush| &**flush.frozen()),
            below: Below {
                store: &*self.store,
                clock: &self.clock,
                complete: self.complete,
                #[cfg(test)]
                disabled: self.disabled,
            },
        }
    }
}

impl<'c> CacheShards<'c> {
    /// Locks a shard. Another thread that wants it waits.
    ///
    /// # Panics
    /// If `number` is not below [`SHARDS`](blockmill_coinmap::SHARDS).
    pub fn lock(&self, number: usize) -> CacheShard<'c> {
        CacheShard {
            live: self.live.lock_shard(number),
            frozen: self.frozen.map(|frozen| frozen.read_shard(number)),
            below: self.below,
        }
    }
}

impl CacheShard<'_> {
    /// Starts loading what a search for this hash reads first.
    #[inline]
    pub fn prefetch_word(&self, hash: u64) {
        self.live.prefetch_word(hash);
    }

    /// Starts loading what an insertion with this hash reads and moves.
    #[inline]
    pub fn prefetch_insertion(&self, hash: u64) {
        self.live.prefetch_insertion(hash);
        if let Some(frozen) = &self.frozen {
            frozen.prefetch_word(hash);
        }
    }

    /// Starts loading what a search for this hash reads next.
    #[inline]
    pub fn prefetch_record(&self, hash: u64) {
        if !self.live.prefetch_record(hash)
            && let Some(frozen) = &self.frozen
        {
            frozen.prefetch_word(hash);
        }
    }
}
