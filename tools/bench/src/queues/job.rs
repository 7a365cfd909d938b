//! The checks of a round, and their work.

use std::hint::black_box;
use std::time::{Duration, Instant};

/// The contenders.
pub(super) const OURS: &str = "blockmill";
pub(super) const LOCKED: &str = "locked, batches of 128";
pub(super) const RAYON: &str = "rayon";
pub(super) const CHANNEL: &str = "crossbeam-channel";
pub(super) const CHILI: &str = "chili";

/// Number of group sizes before they repeat.
const GROUPS: usize = 1 << 10;

/// The work of a check.
#[derive(Clone)]
pub(super) enum Work {
    /// Nothing.
    Empty,
    /// This many steps of arithmetic.
    Small(u32),
}

/// The data that the checks of a round read.
pub(super) struct Job {
    work: Work,
    /// Checks of the round.
    pub(super) checks: u32,
    /// The checks that fail.
    failing: Option<[u32; 2]>,
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
    pub(super) fn new(work: Work, checks: u32) -> Self {
        Self {
            work,
            checks,
            failing: None,
        }
    }

    /// The same checks, except that two fail.
    pub(super) fn failing(&self) -> Self {
        Self {
            work: self.work.clone(),
            checks: self.checks,
            failing: Some([self.checks / 3, self.checks / 2]),
        }
    }

    /// The lowest index of a check that fails.
    pub(super) fn expected(&self) -> Option<u32> {
        self.failing.map(|failing| failing[0])
    }

    /// Runs a check. Returns whether it passes.
    #[inline]
    pub(super) fn run(&self, check: &Check) -> bool {
        let passes = match &self.work {
            Work::Empty => true,
            Work::Small(steps) => black_steps(*steps, check.index.into()) != 1,
        };
        let fails = self
            .failing
            .is_some_and(|failing| failing.contains(&black_box(check).index));
        passes && !fails
    }

    /// The sizes of the groups in which checks are added: 1 to 10, the same in each run.
    pub(super) fn groups(&self) -> impl Iterator<Item = u32> + use<> {
        let mut remaining = self.checks;
        let mut state = 0x2545_f491_4f6c_dd1du64;
        let sizes: Vec<u32> = (0..GROUPS)
            .map(|_| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                1 + (state % 10) as u32
            })
            .collect();
        let mut next = 0;
        std::iter::from_fn(move || {
            let size = sizes[next % GROUPS].min(remaining);
            next += 1;
            remaining -= size;
            (size > 0).then_some(size)
        })
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

    #[test]
    fn a_check_has_the_stated_size() {
        assert_eq!(size_of::<Check>(), 64);
    }

    #[test]
    fn groups_cover_the_checks() {
        for checks in [0, 1, 7, 5_000] {
            let job = Job::new(Work::Empty, checks);
            let groups: Vec<u32> = job.groups().collect();
            assert_eq!(groups.iter().sum::<u32>(), checks);
            assert!(groups.iter().all(|group| (1..=10).contains(group)));
        }
    }

    #[test]
    fn a_third_of_the_way_the_first_fails() {
        let job = Job::new(Work::Small(3), 90);
        assert!((0..90).all(|index| job.run(&Check::new(index))) && job.expected().is_none());
        let failing = job.failing();
        let failed: Vec<u32> = (0..90).filter(|&index| !failing.run(&Check::new(index))).collect();
        assert_eq!((failed, failing.expected()), (vec![30, 45], Some(30)));
    }
}
