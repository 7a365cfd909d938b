//! How large windows are, and into how many jobs their lanes are put.

use crate::pipeline::load::PrefetchedBlock;
use blockmill_coins::LANES;

/// Events at which a window is large enough to be dealt out.
const EVENTS_WANTED: usize = 60_000;

/// Events below which a block by itself is resolved faster without lanes.
const EVENTS_MIN: usize = 4_000;

/// Coins that a window makes take at most one part in this many of the memory for coins.
const CACHE_DIVISOR: usize = 16;

/// Bytes of a coin in the cache, about.
const COIN_BYTES: usize = 90;

/// How blocks are put together in windows and lanes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Windows {
    /// Most blocks of a window. Without windows each block is resolved by itself, by the serial
    /// code.
    pub(crate) blocks_max: usize,
    /// Jobs that the lanes are put into.
    pub(crate) jobs: usize,
    /// Whether small windows are dealt out, too.
    pub(crate) always: bool,
}

impl Windows {
    pub(crate) const FULL: Self = Self {
        blocks_max: 32,
        jobs: LANES,
        always: false,
    };

    pub(crate) const NONE: Self = Self {
        blocks_max: 0,
        jobs: 1,
        always: false,
    };

    /// Events at which a window needs no more blocks.
    pub(crate) fn events_wanted(cache_bytes: usize) -> usize {
        EVENTS_WANTED.min(cache_bytes / CACHE_DIVISOR / COIN_BYTES)
    }

    /// Whether these blocks are to be resolved in lanes.
    pub(crate) fn take(self, blocks: &[PrefetchedBlock]) -> bool {
        let events: usize = blocks.iter().map(PrefetchedBlock::events).sum();
        self.blocks_max > 0 && !blocks.is_empty() && (self.always || events >= EVENTS_MIN)
    }
}
