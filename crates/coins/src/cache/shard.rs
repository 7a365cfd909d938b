//! Shards: parts of the cache that several threads change at once, each its own.
//!
//! A shard of the cache is a shard of the live entries, and what becomes of an outpoint is decided
//! in its shard alone. A shard never decides what is wrong with a block: where it cannot tell that
//! all is well, it says so, and its user has everything taken back by the logs.

use super::CoinsCache;
use super::entry::{Below, CoinEntries, EntryAccess};
use super::log::EntryLog;
use blockmill_coinmap::{CoinMap, EntryRef, HashedOutPoint, LockedShard, ReadShard, Update};

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

impl CoinsCache {
    /// The cache for changes in shards. The logs of what the shards have done MUST be given to
    /// [`end_shards`](Self::end_shards).
    pub fn shards(&mut self) -> CacheShards<'_> {
        CacheShards {
            live: &self.map,
            frozen: self.flush.as_ref().map(|flush| &**flush.frozen()),
            below: self.below(),
        }
    }

    /// Counts what shards have done.
    pub fn end_shards<'l>(&mut self, logs: impl IntoIterator<Item = &'l EntryLog>) {
        for log in logs {
            self.count(log);
        }
    }
}

impl CacheShards<'_> {
    /// Locks a shard. Another thread that wants it waits.
    ///
    /// # Panics
    /// If `number` is not below [`SHARDS`](blockmill_coinmap::SHARDS).
    pub fn lock(&self, number: usize) -> CacheShard<'_> {
        CoinEntries {
            access: OneShard {
                live: self.live.lock_shard(number),
                frozen: self.frozen.map(|frozen| frozen.read_shard(number)),
            },
            below: self.below,
        }
    }
}

/// The entries of a shard that one thread has locked.
#[derive(Debug)]
pub struct OneShard<'s> {
    live: LockedShard<'s>,
    /// The frozen entries, if there is a flush. Its promotion waits for the shard.
    frozen: Option<ReadShard<'s>>,
}

/// A shard that one thread has; from [`CacheShards::lock`].
pub type CacheShard<'s> = CoinEntries<'s, OneShard<'s>>;

impl EntryAccess for OneShard<'_> {
    #[inline]
    fn with<R>(&self, at: &HashedOutPoint, visit: impl FnOnce(Option<EntryRef<'_>>) -> R) -> R {
        self.live.with(at, visit)
    }

    #[inline]
    fn update<'a, R>(
        &mut self,
        at: &HashedOutPoint,
        change: impl FnOnce(Option<EntryRef<'_>>) -> (Update<'a>, R),
    ) -> R {
        self.live.update(at, change)
    }

    #[inline]
    fn with_frozen<R>(&self, at: &HashedOutPoint, visit: impl FnOnce(Option<EntryRef<'_>>) -> R) -> Option<R> {
        Some(self.frozen.as_ref()?.with(at, visit))
    }
}

impl CacheShard<'_> {
    /// Starts loading what a search for this hash reads first.
    #[inline]
    pub fn prefetch_word(&self, hash: u64) {
        self.access.live.prefetch_word(hash);
    }

    /// Starts loading what an insertion with this hash reads and moves.
    #[inline]
    pub fn prefetch_insertion(&self, hash: u64) {
        self.access.live.prefetch_insertion(hash);
        if let Some(frozen) = &self.access.frozen {
            frozen.prefetch_word(hash);
        }
    }

    /// Starts loading what a search for this hash reads next.
    #[inline]
    pub fn prefetch_record(&self, hash: u64) {
        if !self.access.live.prefetch_record(hash)
            && let Some(frozen) = &self.access.frozen
        {
            frozen.prefetch_word(hash);
        }
    }
}
