//! What was done to entries, so that it can be taken back.

use super::{CacheCounters, CoinsCache};
use blockmill_block::{Coin, CoinList, Coins};
use blockmill_coinmap::{CoinRef, EntryFlags};
use std::time::Duration;

/// Where a coin was that was spent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SpentFrom {
    /// A live entry with these flags.
    Live(EntryFlags),
    /// Frozen, or in the store alone.
    Below,
    /// Not in the cache.
    Elsewhere,
}

/// The entry that a coin was created over.
#[derive(Debug)]
pub(super) struct CreatedOver {
    /// Number of the coin among those that were created.
    pub(super) number: usize,
    pub(super) flags: EntryFlags,
    /// None for the marker of a spent outpoint.
    pub(super) coin: Option<Coin>,
}

/// What was done to entries.
#[derive(Debug, Default)]
pub struct EntryLog {
    /// The coins that were spent.
    pub(super) spent: CoinList,
    /// For each of them where it was.
    pub(super) spent_from: Vec<SpentFrom>,
    /// Number of coins that were created and not taken back.
    pub(super) created: usize,
    /// What they were created over, where that was an entry.
    pub(super) created_over: Vec<CreatedOver>,
    /// By how much the number of dirty entries has changed.
    pub(super) dirty: isize,
    pub(super) counters: CacheCounters,
    pub(super) store_time: Duration,
}

impl EntryLog {
    /// Makes room for coins that will be spent.
    pub fn reserve(&mut self, coins: usize) {
        self.spent.reserve(coins);
        self.spent_from.reserve(coins);
    }

    /// The coins that were spent, in their order.
    pub fn spent(&self) -> Coins<'_> {
        self.spent.coins()
    }

    /// Bytes of the coins that were spent, unused capacity not counted.
    pub fn spent_bytes(&self) -> usize {
        self.spent.used()
    }

    /// Forgets the changes, which will not be taken back. The memory is kept.
    pub fn forget_changes(&mut self) {
        self.spent.clear();
        self.spent_from.clear();
        self.created = 0;
        self.created_over.clear();
    }

    /// Notes that a coin was spent which is not in the cache.
    #[inline]
    pub fn push_elsewhere(&mut self, coin: CoinRef<'_>) {
        self.counters.hits += 1;
        self.spent.push(coin);
        self.spent_from.push(SpentFrom::Elsewhere);
    }

    /// Forgets how many coins were found in the cache and how many were not. For changes that are
    /// taken back: what replaces them counts them again.
    pub fn forget_counts(&mut self) {
        self.counters = CacheCounters::default();
    }
}

impl CoinsCache {
    /// Counts what a log says.
    pub(super) fn count(&mut self, log: &EntryLog) {
        // The logs of shards come in any order, so a sum on the way may be below zero.
        self.dirty = self.dirty.wrapping_add_signed(log.dirty);
        self.counters.hits += log.counters.hits;
        self.counters.misses += log.counters.misses;
        self.store_time += log.store_time;
    }
}
