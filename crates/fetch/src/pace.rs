//! Whether reads block.
//!
//! Each range that was read gives its time per key. One that takes longer than [`SLOW_NS`] is a vote for readers of their own, one below
//! [`FAST_NS`] a vote against; after [`VOTES`] more on one side than on the other it is changed. Single ranges of a thread that lost its core, or
//! that had to go to the disk once, so change nothing.

use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::Duration;

/// A read from memory takes a few thousand nanoseconds, one from a fast disk not below this.
const SLOW_NS: u128 = 20_000;

/// Below this a read has not blocked.
const FAST_NS: u128 = 12_000;

/// Lead of one side that decides.
const VOTES: i32 = 4;

/// What the ranges so far have shown. At first reads pass for fast.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    blocks: AtomicBool,
    votes: AtomicI32,
}

impl Pace {
    /// Whether reads block.
    pub(crate) fn blocks(&self) -> bool {
        self.blocks.load(Ordering::Relaxed)
    }

    /// Whether it is beyond doubt that reads are fast.
    pub(crate) fn is_surely_fast(&self) -> bool {
        self.votes.load(Ordering::Relaxed) == -VOTES
    }

    /// Takes in how long a range took. Returns whether reads have just begun to block.
    pub(crate) fn took(&self, keys: usize, time: Duration) -> bool {
        if keys == 0 {
            return false;
        }
        let each = time.as_nanos() / keys as u128;
        let vote = i32::from(each > SLOW_NS) - i32::from(each < FAST_NS);
        let before = self.votes.load(Ordering::Relaxed);
        // Votes of two threads at once may count as one: there are more.
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
    fn it_takes_several_ranges_to_change() {
        let pace = Pace::default();
        let slow = Duration::from_micros(800);
        let fast = Duration::from_micros(20);
        assert!(!pace.blocks());
        let changes: Vec<bool> = (0..6).map(|_| pace.took(8, slow)).collect();
        assert_eq!(changes, [false, false, false, true, false, false]);
        assert!(pace.blocks());
        for _ in 0..7 {
            pace.took(8, fast);
            assert!(pace.blocks());
        }
        pace.took(8, fast);
        assert!(!pace.blocks() && pace.is_surely_fast());
        pace.took(8, slow);
        assert!(!pace.blocks() && !pace.is_surely_fast());
    }

    #[test]
    fn single_slow_ranges_and_empty_ones_change_nothing() {
        let pace = Pace::default();
        for round in 0..1000 {
            let time = if round % 3 == 0 { 5_000 } else { 20 };
            pace.took(8, Duration::from_micros(time));
            pace.took(0, Duration::from_secs(1));
            assert!(!pace.blocks());
        }
    }
}
