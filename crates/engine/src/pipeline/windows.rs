//! How large windows are, and into how many jobs their shards are put.

use crate::pipeline::load::PrefetchedBlock;
use blockmill_coins::SHARDS;
use blockmill_rules::COINBASE_MATURITY;

/// Events below which a block by itself is resolved faster without shards.
const EVENTS_MIN: usize = 4_000;

/// How blocks are put together in windows and shards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Windows {
    /// Most blocks of a window. Without windows each block is resolved by itself, by the serial
    /// code.
    pub(crate) blocks_max: usize,
    /// Blocks for which there must be room in the check queue before a window is closed, so that
    /// windows stay large where checks are the slowest stage.
    pub(crate) blocks_min: usize,
    /// Jobs that the shards are put into.
    pub(crate) jobs: usize,
    /// Whether small windows are dealt out, too.
    pub(crate) always: bool,
}

// Shards rest on that (`ShardOutcome::insert_created`).
const _: () = assert!(Windows::FULL.blocks_max < COINBASE_MATURITY as usize);

impl Windows {
    pub(crate) const FULL: Self = Self {
        blocks_max: 32,
        blocks_min: 8,
        jobs: SHARDS,
        always: false,
    };

    pub(crate) const NONE: Self = Self {
        blocks_max: 0,
        blocks_min: 1,
        jobs: 1,
        always: false,
    };

    /// Whether these blocks are to be resolved in shards.
    pub(crate) fn take(self, blocks: &[PrefetchedBlock]) -> bool {
        let events: usize = blocks.iter().map(PrefetchedBlock::events).sum();
        let is_sound = !blocks.is_empty() && blocks.iter().all(PrefetchedBlock::is_sound);
        self.blocks_max > 0 && is_sound && (self.always || events >= EVENTS_MIN)
    }
}
