//! How long a requester's jobs take, and what follows for handing them over.
//!
//! A hand-over costs both sides some cache lines. The slot travels to the other core and back, and
//! so do the words that say who owns the slot. For a tiny job that is more than the job itself.
//! Small jobs are worth a hand-over. They are worth more in batches, which share the cost of the
//! words, and while no requester waits for the jobs.

use crate::slot_ring::SLOTS_MAX;
use std::time::Duration;

/// Jobs that take less are tiny: a hand-over costs the requester about the same.
const TINY_BELOW_NS: u32 = 150;

/// Jobs that take more are no longer tiny.
const TINY_UP_TO_NS: u32 = 300;

/// Jobs that take less are small.
const SMALL_BELOW_NS: u32 = 5_000;

/// Duration of a unit of work: a batch of jobs put into one ring, which a server handles without
/// looking for more urgent work. A requester holds small jobs back while together they take less.
const UNIT_NS: u32 = 10_000;

/// For this time a requester handles small jobs of its own before looking at jobs that others
/// handle.
const TURN_NS: u32 = 2_000;

/// A timed unit counts at most as twice the previous figure plus this much: a thread that lost its
/// core measures nothing.
const STEP_NS: u32 = 50;

/// Number of untimed tiny jobs between timed ones: reading the clock takes as long as a few tiny
/// jobs.
const UNTIMED: u32 = 64;

/// The class of a job by its duration, which decides how jobs are handed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Size {
    /// Shorter than a hand-over: the requester keeps the jobs.
    Tiny,
    /// The requester shares the jobs with the workers, in batches.
    Small,
    /// Tiny and small jobs of a requester that does not help: handed over in batches, none kept.
    Batched,
    /// Long, or not known yet: each job is handed over at once.
    Large,
}

/// How long jobs take: a moving average over the timed units.
#[derive(Debug)]
pub(crate) struct Pace {
    /// 0 until a unit was timed.
    job_ns: u32,
    size: Size,
    /// Most jobs of a unit of work.
    unit_jobs: u32,
    untimed: u32,
}

impl Pace {
    pub(crate) fn new() -> Self {
        Self {
            job_ns: 0,
            size: Size::Large,
            unit_jobs: 1,
            untimed: 0,
        }
    }

    #[inline]
    pub(crate) fn size(&self) -> Size {
        self.size
    }

    /// Most jobs of a unit of work.
    #[inline]
    pub(crate) fn unit_jobs(&self) -> u32 {
        self.unit_jobs
    }

    /// Jobs of its own that a requester handles before looking at jobs that others handle.
    #[inline]
    pub(crate) fn turn_jobs(&self) -> u32 {
        match self.size {
            Size::Tiny => u32::MAX,
            Size::Small | Size::Batched | Size::Large => TURN_NS.checked_div(self.job_ns).unwrap_or(1).max(1),
        }
    }

    /// Adds a measurement: the duration of each of some jobs. Returns whether the class or the unit
    /// changed.
    #[inline]
    pub(crate) fn note(&mut self, job_ns: u32) -> bool {
        let before = (self.size, self.unit_jobs);
        self.job_ns = if self.job_ns == 0 {
            job_ns
        } else {
            let counted = u64::from(job_ns).min(2 * u64::from(self.job_ns) + u64::from(STEP_NS));
            // The mean lies between the two values, so it fits.
            (3 * u64::from(self.job_ns) + counted).div_ceil(4) as u32
        };
        let stays_tiny = self.size == Size::Tiny && job_ns <= TINY_UP_TO_NS;
        self.size = if stays_tiny || (job_ns < TINY_BELOW_NS && self.job_ns < TINY_BELOW_NS) {
            Size::Tiny
        } else if self.job_ns < SMALL_BELOW_NS {
            Size::Small
        } else {
            Size::Large
        };
        self.unit_jobs = (UNIT_NS / self.job_ns).clamp(1, SLOTS_MAX as u32);
        before != (self.size, self.unit_jobs)
    }

    /// Whether to time this many tiny jobs.
    #[inline]
    pub(crate) fn is_to_be_timed(&mut self, jobs: u32) -> bool {
        self.untimed += jobs;
        let timed = self.size != Size::Tiny || self.untimed >= UNTIMED;
        if timed {
            self.untimed = 0;
        }
        timed
    }
}

/// The duration of each of some jobs in nanoseconds: at least 1, at most `u32::MAX`.
#[inline]
pub(crate) fn mean_ns(time: Duration, jobs: u32) -> u32 {
    let all_ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let mean_ns = all_ns.checked_div(jobs.into()).unwrap_or(all_ns);
    u32::try_from(mean_ns).unwrap_or(u32::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(notes: &[u32]) -> Pace {
        let mut pace = Pace::new();
        for &job_ns in notes {
            pace.note(job_ns);
        }
        pace
    }

    #[test]
    fn sizes_of_jobs() {
        let check = |job_ns, size, unit_jobs, turn_jobs| {
            for notes in [1, 30] {
                let pace = after(&vec![job_ns; notes]);
                let found = (pace.size(), pace.unit_jobs(), pace.turn_jobs());
                assert_eq!(found, (size, unit_jobs, turn_jobs), "{job_ns} ns");
            }
        };
        check(1, Size::Tiny, 64, u32::MAX);
        check(100, Size::Tiny, 64, u32::MAX);
        check(200, Size::Small, 50, 10);
        check(1_000, Size::Small, 10, 2);
        check(4_000, Size::Small, 2, 1);
        check(5_000, Size::Large, 2, 1);
        check(u32::MAX, Size::Large, 1, 1);
        assert_eq!((after(&[]).size(), after(&[]).unit_jobs()), (Size::Large, 1));
    }

    /// One long unit ends the keeping of tiny jobs, but only for a short while.
    #[test]
    fn a_lost_core_is_soon_forgotten() {
        let mut pace = after(&[5; 20]);
        assert!(pace.note(4_000_000));
        assert!(pace.size() == Size::Small && pace.unit_jobs() > 32, "{pace:?}");
        assert!(pace.note(5) && pace.size() == Size::Tiny);
    }

    #[test]
    fn means() {
        let mean = |ns, jobs| mean_ns(Duration::from_nanos(ns), jobs);
        assert_eq!((mean(100, 3), mean(0, 3), mean(7, 0)), (33, 1, 7));
        assert_eq!(mean_ns(Duration::MAX, 1), u32::MAX);
    }

    #[test]
    fn some_tiny_jobs_are_timed() {
        let timed = |pace: &mut Pace| (0..8).map(|_| pace.is_to_be_timed(16)).collect::<Vec<bool>>();
        assert_eq!(
            timed(&mut after(&[5])),
            [false, false, false, true, false, false, false, true]
        );
        assert_eq!(timed(&mut after(&[5_000])), [true; 8]);
    }
}
