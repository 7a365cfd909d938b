//! Decides whether reads block.
//!
//! Each range gives its time per key. A time above [`SLOW_NS`] is a vote for readers, a time below
//! [`FAST_NS`] a vote against. A lead of [`VOTES`] votes decides. So single ranges change nothing:
//! the thread may have lost its core, or one read may have gone to the disk.

use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::Duration;

/// A read from memory takes a few thousand nanoseconds. A read from a fast disk takes longer than
/// this.
const SLOW_NS: u128 = 20_000;

/// A read that takes less has not blocked.
const FAST_NS: u128 = 12_000;

/// The lead in votes that decides.
const VOTES: i32 = 4;

/// The votes so far. Initially reads count as fast.
#[derive(Debug, Default)]
pub(crate) struct ReadPace {
    blocks: AtomicBool,
    votes: AtomicI32,
}

impl ReadPace {
    /// Whether reads block.
    pub(crate) fn blocks(&self) -> bool {
        self.blocks.load(Ordering::Relaxed)
    }

    /// Whether the votes have decided that reads are fast.
    pub(crate) fn is_surely_fast(&self) -> bool {
        self.votes.load(Ordering::Relaxed) == -VOTES
    }

    /// Records the time of a range. Returns whether reads have begun to block with this vote.
    pub(crate) fn record(&self, keys: usize, time: Duration) -> bool {
        if keys == 0 {
            return false;
        }
        let each = time.as_nanos() / keys as u128;
        let vote = i32::from(each > SLOW_NS) - i32::from(each < FAST_NS);
        let before = self.votes.load(Ordering::Relaxed);
        // Votes of two threads at once may count as one: more votes come.
        let votes = (before + vote).clamp(-VOTES, VOTES);
        self.votes.store(votes, Ordering::Relaxed);
        if votes == VOTES {
            return !self.blocks.swap(true, Ordering::Relaxed);
        }
        if votes == -VOTES {
            self.blocks.store(false, Ordering::Relaxed);
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_takes_several_ranges() {
        let pace = ReadPace::default();
        let slow = Duration::from_micros(800);
        let fast = Duration::from_micros(20);
        assert!(!pace.blocks());
        let changes: Vec<bool> = (0..6).map(|_| pace.record(8, slow)).collect();
        assert_eq!(changes, [false, false, false, true, false, false]);
        assert!(pace.blocks());
        for _ in 0..7 {
            pace.record(8, fast);
            assert!(pace.blocks());
        }
        pace.record(8, fast);
        assert!(!pace.blocks() && pace.is_surely_fast());
        pace.record(8, slow);
        assert!(!pace.blocks() && !pace.is_surely_fast());
    }

    #[test]
    fn single_slow_ranges_and_empty_ones_change_nothing() {
        let pace = ReadPace::default();
        for round in 0..1000 {
            let time = if round % 3 == 0 { 5_000 } else { 20 };
            pace.record(8, Duration::from_micros(time));
            pace.record(0, Duration::from_secs(1));
            assert!(!pace.blocks());
        }
    }
}
