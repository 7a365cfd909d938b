//! The blocks that are left, dealt out in runs.

use blockmill_chain::chain_blocks::ChainBlocks;
use std::collections::VecDeque;
use std::ops::RangeInclusive;

/// Bytes of blocks in a run at most.
const RUN_BYTES_MAX: u64 = 8 << 20;

/// Blocks in a run at most.
const RUN_BLOCKS_MAX: u32 = 20_000;

/// A run is no longer than its thread's share of what is left, divided by this.
const RUNS_LEFT_PER_THREAD: u64 = 8;

/// The blocks that nobody has taken yet.
pub(super) struct BlocksLeft<'a> {
    blocks: &'a ChainBlocks,
    pub(super) ranges: VecDeque<RangeInclusive<u32>>,
    pub(super) bytes: u64,
    threads: u64,
}

impl<'a> BlocksLeft<'a> {
    pub(super) fn new(blocks: &'a ChainBlocks, heights: &[RangeInclusive<u32>], threads: usize) -> Self {
        let ranges: VecDeque<_> = heights.iter().filter(|range| !range.is_empty()).cloned().collect();
        let bytes = ranges.iter().cloned().flatten();
        let bytes = bytes.map(|height| u64::from(blocks.length(height))).sum();
        Self {
            blocks,
            ranges,
            bytes,
            threads: threads as u64,
        }
    }

    /// Bytes of the next run: fewer towards the end.
    fn wanted(&self) -> u64 {
        (self.bytes / (self.threads * RUNS_LEFT_PER_THREAD)).min(RUN_BYTES_MAX)
    }

    /// The last block of a run that has `wanted` bytes or a little more, and the bytes of the run.
    fn end(&self, start: u32, last: u32, wanted: u64) -> (u32, u64) {
        let mut bytes = 0;
        let mut end = start;
        loop {
            bytes += u64::from(self.blocks.length(end));
            if end == last || bytes >= wanted || end - start + 1 == RUN_BLOCKS_MAX {
                return (end, bytes);
            }
            end += 1;
        }
    }

    /// A run of the first range that each thread takes one before.
    pub(super) fn ahead(&self) -> Option<RangeInclusive<u32>> {
        let range = self.ranges.front()?;
        let wanted = self.wanted();
        let before = self.end(*range.start(), *range.end(), wanted * (self.threads - 1));
        let start = if self.threads > 1 { before.0 + 1 } else { *range.start() };
        (start <= *range.end()).then(|| start..=self.end(start, *range.end(), wanted).0)
    }

    /// The next run: within one range, one block at least.
    pub(super) fn take(&mut self) -> Option<RangeInclusive<u32>> {
        let wanted = self.wanted();
        let (start, last) = self.ranges.front()?.clone().into_inner();
        let (end, bytes) = self.end(start, last, wanted);
        let range = self.ranges.front_mut()?;
        if end == last {
            self.ranges.pop_front();
        } else {
            *range = end + 1..=last;
        }
        self.bytes -= bytes;
        Some(start..=end)
    }
}
