//! The trait of a check queue in this benchmark, ours, and the peers.

use super::job::{Check, GROUP_MAX, Job};
use blockmill_checkqueue::CheckQueue;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// A queue with its threads.
pub(super) trait Rounds {
    /// Adds the checks of a round in their groups, and waits for the verdict: the lowest index of a
    /// failed check.
    fn round(&self, job: &Arc<Job>) -> Option<u32>;
}

/// The lowest index of a failed check. Checks above it may be left out.
pub(super) struct Lowest(AtomicU32);

impl Default for Lowest {
    fn default() -> Self {
        Self(AtomicU32::new(u32::MAX))
    }
}

impl Lowest {
    #[inline]
    pub(super) fn validate(&self, job: &Job, check: &Check) {
        if check.index < self.0.load(Ordering::Relaxed) && !job.run(check) {
            self.0.fetch_min(check.index, Ordering::Relaxed);
        }
    }

    /// Takes the index at the end of a round.
    pub(super) fn take(&self) -> Option<u32> {
        Some(self.0.swap(u32::MAX, Ordering::Relaxed)).filter(|&index| index < u32::MAX)
    }
}

impl blockmill_checkqueue::Check for Check {
    type Shared = Arc<Job>;
    type Error = ();

    #[inline]
    fn run(&mut self, job: &Arc<Job>) -> Result<(), ()> {
        if job.run(self) { Ok(()) } else { Err(()) }
    }
}

/// Our queue with its own pool.
pub(super) struct Ours(CheckQueue<Check>);

impl Ours {
    pub(super) fn new(threads: usize) -> std::io::Result<Self> {
        Ok(Self(CheckQueue::with_own_threads(threads - 1)?))
    }
}

impl Rounds for Ours {
    fn round(&self, job: &Arc<Job>) -> Option<u32> {
        let round = self.0.begin(job.checks as usize, Arc::clone(job));
        let mut round = round.expect("one round at a time");
        for group in job.groups() {
            round.add(group.map(Check::new));
        }
        round.complete().err().map(|failure| failure.index as u32)
    }
}

/// rayon: one job for each group, spawned as the group is added. The master is one of the pool's
/// threads, so it helps while it waits.
pub(super) struct Rayon(rayon::ThreadPool);

impl Rayon {
    pub(super) fn new(threads: usize) -> Result<Self, rayon::ThreadPoolBuildError> {
        Ok(Self(rayon::ThreadPoolBuilder::new().num_threads(threads).build()?))
    }
}

impl Rounds for Rayon {
    fn round(&self, job: &Arc<Job>) -> Option<u32> {
        let lowest = Lowest::default();
        self.0.scope(|scope| {
            for group in job.groups() {
                let lowest = &lowest;
                // An array, so that a group takes no allocation beside the one of its job.
                let checks: [Check; GROUP_MAX as usize] =
                    std::array::from_fn(|index| Check::new(group.start + index as u32));
                scope.spawn(move |_| {
                    for check in &checks[..group.len()] {
                        lowest.validate(job, check);
                    }
                });
            }
        });
        lowest.take()
    }
}
