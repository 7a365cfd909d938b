//! How large windows are, and into how many jobs their shards are put.

use crate::internals::Internals;
use crate::pipeline::load::PrefetchedBlock;
use blockmill_coins::SHARDS;
use blockmill_rules::COINBASE_MATURITY;

/// Events from which a window is resolved faster by all threads than by one.
const EVENTS_MIN: usize = 4_000;

/// How blocks are put together in windows and shards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Windows {
    /// Most blocks of a window.
    pub(crate) blocks_max: usize,
    /// Blocks for which there must be room in the check queue before a window is closed, so that
    /// windows stay large where checks are the slowest stage.
    pub(crate) blocks_min: usize,
    /// Jobs that the shards are put into.
    pub(crate) jobs: usize,
    /// Events from which a window is dealt out to all threads.
    pub(crate) events_min: usize,
}

// Shards rest on that (`ShardOutcome::insert_created`).
const _: () = assert!(Windows::FULL.blocks_max < COINBASE_MATURITY as usize);

impl Windows {
    pub(crate) const FULL: Self = Self {
        blocks_max: 32,
        blocks_min: 8,
        jobs: SHARDS,
        events_min: EVENTS_MIN,
    };

    /// Each block is a window, which one thread resolves.
    pub(crate) const SINGLE: Self = Self {
        blocks_max: 1,
        blocks_min: 1,
        jobs: 1,
        events_min: usize::MAX,
    };

    /// As they are, or as tests and benchmarks want them.
    pub(crate) fn new(internals: &Internals) -> Self {
        match internals.windows {
            _ if internals.without.shards => Self::SINGLE,
            Some(sizes) => Self {
                blocks_max: sizes.blocks,
                blocks_min: 1,
                jobs: sizes.jobs,
                events_min: 0,
            },
            None => Self::FULL,
        }
    }

    /// Whether all threads are to resolve these blocks.
    pub(crate) fn are_dealt_out(self, blocks: &[PrefetchedBlock]) -> bool {
        blocks.iter().map(PrefetchedBlock::events).sum::<usize>() >= self.events_min
    }
}
