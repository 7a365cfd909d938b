//! The checks of a round, and their work.

use std::hint::black_box;
use std::ops::Range;
use std::time::{Duration, Instant};

/// The contenders.
pub(super) const OURS: &str = "blockmill";
pub(super) const LOCKED: &str = "locked, batches of 128";
pub(super) const RAYON: &str = "rayon";
pub(super) const CHANNEL: &str = "crossbeam-channel";

/// Number of group sizes before they repeat, and the largest size.
const GROUPS: usize = 1 << 10;
pub(super) const GROUP_MAX: u32 = 10;

/// The data that the checks of a round read.
pub(super) struct Job {
    /// Steps of arithmetic in a check.
    pub(super) steps: u32,
    /// Checks of the round.
    pub(super) checks: u32,
    /// The checks that fail.
    pub(super) failing: Option<[u32; 2]>,
}

/// A check as the queues carry it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Check {
    pub(super) index: u32,
    /// Padding to the size of a script check.
    _rest: [u8; 60],
}

impl Check {
    #[inline]
    pub(super) fn new(index: u32) -> Self {
        Self { index, _rest: [0; 60] }
    }
}

impl Job {
    /// The lowest index of a check that fails.
    pub(super) fn expected(&self) -> Option<u32> {
        self.failing.map(|failing| failing[0])
    }

    /// Runs a check. Returns whether it passes.
    #[inline]
    pub(super) fn run(&self, check: &Check) -> bool {
        // The steps never lead to 1, which the compiler does not know.
        let passes = black_steps(self.steps, check.index.into()) != 1;
        let fails = self.failing.is_some_and(|failing| failing.contains(&check.index));
        passes && !fails
    }

    /// The groups of indices in which checks are added: 1 to 10, the same in each run.
    pub(super) fn groups(&self) -> impl Iterator<Item = Range<u32>> + use<> {
        let checks = self.checks;
        let mut state = 0x2545_f491_4f6c_dd1du64;
        let mut random = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            1 + (state % u64::from(GROUP_MAX)) as u32
        };
        // Sizes are drawn first: a draw between two groups would be timed.
        let sizes: Vec<u32> = (0..GROUPS).map(|_| random()).collect();
        let mut start = 0;
        let groups = sizes.into_iter().cycle().map(move |size| {
            let group = start..checks.min(start + size);
            start = group.end;
            group
        });
        groups.take_while(|group| !group.is_empty())
    }
}

/// Steps that depend on each other. The function is not inlined, so that all queues run the same
/// code.
#[inline(never)]
pub(super) fn black_steps(steps: u32, seed: u64) -> u64 {
    let mut value = seed | 1 << 40;
    for _ in 0..steps {
        value = black_box(value.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (value >> 29));
    }
    value
}

/// Number of steps of arithmetic that take `time`, by the fastest of several tries.
pub(super) fn steps_that_take(time: Duration) -> u32 {
    const STEPS: u32 = 200_000;
    let tries = (0..10).map(|_| {
        let start = Instant::now();
        black_box(black_steps(STEPS, 1));
        start.elapsed()
    });
    let fastest = tries.min().unwrap_or(time).as_secs_f64();
    (f64::from(STEPS) * time.as_secs_f64() / fastest).round().max(1.0) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(checks: u32, failing: Option<[u32; 2]>) -> Job {
        Job {
            steps: 3,
            checks,
            failing,
        }
    }

    #[test]
    fn a_check_has_the_stated_size() {
        assert_eq!(size_of::<Check>(), 64);
    }

    #[test]
    fn groups_cover_the_checks() {
        for checks in [0, 1, 7, 5_000] {
            let groups: Vec<_> = job(checks, None).groups().collect();
            assert!(groups.iter().all(|group| (1..=10).contains(&group.len())));
            assert_eq!(
                groups.into_iter().flatten().collect::<Vec<_>>(),
                (0..checks).collect::<Vec<_>>()
            );
        }
    }

    #[test]
    fn two_checks_fail() {
        let passing = job(90, None);
        assert!((0..90).all(|index| passing.run(&Check::new(index))) && passing.expected().is_none());
        let failing = job(90, Some([30, 45]));
        let failed: Vec<u32> = (0..90).filter(|&index| !failing.run(&Check::new(index))).collect();
        assert_eq!((failed, failing.expected()), (vec![30, 45], Some(30)));
    }
}
