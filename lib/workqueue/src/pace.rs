//! How long a requester's jobs take, and what follows for handing them over.
//!
//! To hand a job over costs both sides some cache lines: its slot goes to the other core and comes back, and so do the words that say
//! whose it is. That is more than a tiny job takes. Small jobs are worth it, but less so than when they are handed over in rows that share
//! the cost of the words, and when nobody waits for them.

use crate::lane::SLOTS_MAX;
use std::time::Duration;

/// Jobs that take less are tiny: to hand one over costs its requester about as much.
const TINY_BELOW_NS: u32 = 150;

/// Jobs that take more are not tiny any more.
const TINY_UP_TO_NS: u32 = 300;

/// Jobs that take less are small.
const SMALL_BELOW_NS: u32 = 5_000;

/// So long a unit of work may take: jobs put in a row into one lane, and served without looking for more urgent ones. Small jobs
/// are held back while together they take less.
const UNIT_NS: u32 = 10_000;

/// So long a requester handles small jobs of its own before it looks at those of others.
const TURN_NS: u32 = 2_000;

/// What a timed unit may add to more than twice the figure before: a thread that lost its core is no measure.
const STEP_NS: u32 = 50;

/// Of tiny jobs so many go untimed between those that are timed: reading the clock takes as long as a few of them.
const UNTIMED: u32 = 64;

/// What follows from how long jobs take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Size {
    /// Less than to hand them over: they are kept.
    Tiny,
    /// They are shared with workers, in rows.
    Small,
    /// They are handed over in rows, and none is kept: tiny and small jobs of a requester that does not help.
    Rows,
    /// Or not known: each is handed over at once.
    Large,
}

/// How long jobs take: a moving average over the units that were timed.
#[derive(Debug)]
pub(crate) struct Pace {
    /// 0 until one was timed.
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

    /// Jobs of its own that a requester handles before it looks at those of others.
    #[inline]
    pub(crate) fn turn_jobs(&self) -> u32 {
        match self.size {
            Size::Tiny => u32::MAX,
            Size::Small | Size::Rows | Size::Large => TURN_NS.checked_div(self.job_ns).unwrap_or(1).max(1),
        }
    }

    /// Notes how long each of some jobs took. Returns whether anything follows from it.
    #[inline]
    pub(crate) fn note(&mut self, job_ns: u32) -> bool {
        let before = (self.size, self.unit_jobs);
        self.job_ns = if self.job_ns == 0 {
            job_ns
        } else {
            let counted = u64::from(job_ns).min(2 * u64::from(self.job_ns) + u64::from(STEP_NS));
            // Between the two, so it fits.
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

    /// Whether so many tiny jobs are to be timed.
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

/// How long each of some jobs took, in nanoseconds: at least 1, and no more than fits.
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

    /// One unit that took long ends the keeping of tiny jobs, but not for long.
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
