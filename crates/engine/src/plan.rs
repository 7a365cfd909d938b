//! The plan of memory: what `--dbcache` is for, and what comes beside it.
//!
//! The coins cache gets all of `--dbcache`. Blocks on their way, and coins that are read ahead,
//! come on top. All shares together, [`Plan::most_bytes`], keep to [`Plan::promised_bytes`], which
//! is promise 9 of docs/trust.md.
//!
//! Not in the plan are the index of the headers, the index that the store keeps
//! ([`CoinStore::memory`](blockmill_coins::CoinStore::memory)), and a block that spends more coins
//! than a window may: four times their bytes. The shares are never all full at once. That pays for
//! what an allocator keeps of pages that were free for less than a second: blocks of 4 MB, made to
//! take most, had 60 to 66 MiB in use, and 40 more kept.

const MIB: usize = 1 << 20;

/// Blocks that are loaded ahead take at most one part in this many of the memory for coins, and
/// blocks in flight as much. All of it comes on top, as do the shares below.
const BLOCKS_DIVISOR: usize = 16;

/// The least that this may come to in bytes, which any block fits into, and the most.
const BLOCKS_BYTES_MIN: usize = 12 * MIB;
const BLOCKS_BYTES_MAX: usize = 48 * MIB;

/// The blocks of a window, decoded, take at most one part in this many of the memory for coins.
const WINDOW_BLOCKS_DIVISOR: usize = 8;

/// Coins that a window creates take at most one part in this many.
const WINDOW_COINS_DIVISOR: usize = 16;

/// Bytes of a coin in the cache, about.
const COIN_BYTES: usize = 90;

/// Events at which a window is large enough to be dealt out, whatever the memory.
const WINDOW_EVENTS: usize = 280_000;

/// Copies of a coin that a window spends: in its shard, in the undo data of its block, and in the
/// record of the undo data.
const COPIES_OF_SPENT: usize = 3;

/// Fetched coins that the cache has not taken use at most one part in this many of the memory for
/// coins, or what one block needs.
const FETCHED_DIVISOR: usize = 16;

/// Memory in bytes for fetched coins at least: more than usual coins of any one block take.
const FETCHED_BYTES_MIN: usize = 8 * MIB;

/// Bytes of a fetched coin, about.
const FETCHED_COIN_BYTES: usize = 150;

/// What is there whatever the memory for coins: one block beyond the bound of those ahead (9 MiB),
/// one beyond that of those in flight (5), the buffers of the undo log (5), the ids of upcoming
/// transactions (2), the program and what fragments (6).
const FIXED_BYTES: usize = 27 * MIB;

/// What a thread takes: its deferred signature checks, its stack, its caches in the allocator.
const THREAD_BYTES: usize = 128 << 10;

/// The shares of the memory of an engine.
///
/// ```
/// use blockmill_engine::Plan;
///
/// let plan = Plan::for_memory(450 << 20, 2);
/// assert_eq!(plan.cache_bytes, 450 << 20);
/// assert!(plan.most_bytes() <= Plan::promised_bytes(450 << 20));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Plan {
    /// Threads that validate.
    pub threads: usize,
    /// Bytes of the coins cache.
    pub cache_bytes: usize,
    /// Bytes of coins that are read from the store and that the cache has not taken.
    pub fetched_bytes: usize,
    /// Inputs of blocks whose coins are read at once; of one block all are.
    pub fetched_inputs: usize,
    /// Bytes of blocks that are loaded ahead, decoded. One more block begins below that.
    pub ahead_bytes: usize,
    /// Bytes of blocks in flight, with the coins that they spend and their deferred signature
    /// checks. One more block or window begins below that.
    pub in_flight_bytes: usize,
    /// Bytes that the blocks of a window take of both, decoded; of one block all is taken. The
    /// coins that they create, and the tables in which those are resolved, are no larger.
    pub window_bytes: usize,
    /// Coins that blocks spend and create, at which a window needs no more blocks.
    pub window_events: usize,
    /// Bytes of the coins that a window spends, each copy of them.
    pub window_spent_bytes: usize,
}

impl Plan {
    /// The plan for `cache_bytes` of memory for coins, and `threads` that validate.
    pub fn for_memory(cache_bytes: usize, threads: usize) -> Self {
        let fetched_bytes = (cache_bytes / FETCHED_DIVISOR).max(FETCHED_BYTES_MIN);
        let beside_blocks = [cache_bytes, fetched_bytes, beside(threads)];
        let left = beside_blocks
            .into_iter()
            .fold(Self::promised_bytes(cache_bytes), usize::saturating_sub);
        // Three such shares: blocks ahead, blocks in flight, and what a window spends.
        let blocks_bytes = (cache_bytes / BLOCKS_DIVISOR)
            .min(left / 3)
            .clamp(BLOCKS_BYTES_MIN, BLOCKS_BYTES_MAX);
        Self {
            threads,
            cache_bytes,
            fetched_bytes,
            fetched_inputs: cache_bytes / FETCHED_DIVISOR / FETCHED_COIN_BYTES,
            ahead_bytes: blocks_bytes,
            in_flight_bytes: blocks_bytes,
            window_bytes: cache_bytes / WINDOW_BLOCKS_DIVISOR,
            window_events: WINDOW_EVENTS.min(cache_bytes / WINDOW_COINS_DIVISOR / COIN_BYTES),
            window_spent_bytes: blocks_bytes / COPIES_OF_SPENT,
        }
    }

    /// The most memory in bytes that all shares take together.
    ///
    /// The blocks of a window count twice, among those ahead and among those in flight. That pays
    /// for the coins by which the window makes the cache grow beyond its limit: no more blocks are
    /// requested while the cache is full.
    pub fn most_bytes(&self) -> usize {
        [
            self.cache_bytes,
            self.fetched_bytes,
            self.ahead_bytes,
            self.in_flight_bytes,
            COPIES_OF_SPENT * self.window_spent_bytes,
            beside(self.threads),
        ]
        .into_iter()
        .fold(0, usize::saturating_add)
    }

    /// The memory that `connect` is promised to keep to, with `cache_bytes` for coins: 110% of them
    /// and 96 MiB.
    pub fn promised_bytes(cache_bytes: usize) -> usize {
        cache_bytes.saturating_add(cache_bytes / 10).saturating_add(96 * MIB)
    }
}

/// What takes memory beside coins and blocks.
fn beside(threads: usize) -> usize {
    threads.saturating_mul(THREAD_BYTES).saturating_add(FIXED_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_shares_together_keep_to_the_promise() {
        let sizes = (0..=8192).map(|mebibytes| mebibytes * MIB);
        for cache_bytes in sizes.chain([1, 700_000, 450_000_001, 1 << 40, usize::MAX]) {
            for threads in (1..=16).chain([24, 32, 48, 64, 96, 128]) {
                let plan = Plan::for_memory(cache_bytes, threads);
                let (most, promised) = (plan.most_bytes(), Plan::promised_bytes(cache_bytes));
                assert!(most <= promised, "{most} of {promised}: {plan:?}");
            }
        }
    }

    /// The sizes that all measurements have, and those of a large cache.
    #[test]
    fn blocks_get_a_sixteenth_of_the_usual_sizes() {
        for threads in 1..=8 {
            let blocks = |mebibytes: usize| Plan::for_memory(mebibytes * MIB, threads).ahead_bytes;
            assert_eq!(blocks(0), 12 * MIB);
            assert_eq!(blocks(192), 12 * MIB);
            assert_eq!(blocks(256), 16 * MIB);
            assert_eq!(blocks(450), 450 * MIB / 16);
            assert_eq!(blocks(4096), 48 * MIB);
        }
    }

    #[test]
    fn a_window_fits_into_the_blocks_in_flight() {
        for mebibytes in [0, 16, 112, 450, 1000, 8192] {
            let plan = Plan::for_memory(mebibytes * MIB, 4);
            assert!(
                plan.window_spent_bytes * COPIES_OF_SPENT <= plan.in_flight_bytes,
                "{plan:?}"
            );
            let created = plan.window_events * COIN_BYTES;
            assert!(
                created <= plan.window_bytes && created <= plan.cache_bytes / 16,
                "{plan:?}"
            );
        }
    }
}
