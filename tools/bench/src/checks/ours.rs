//! Our check queue.

use super::contenders::Contender;
use super::job::{Check, Job};
use blockmill_checkqueue::CheckQueue;
use std::sync::Arc;

impl blockmill_checkqueue::Check for Check {
    type Shared = Arc<Job>;
    type Error = ();

    #[inline]
    fn run(&mut self, job: &Arc<Job>) -> Result<(), ()> {
        if job.run(self) { Ok(()) } else { Err(()) }
    }
}

/// The queue with its own pool.
pub(super) struct Ours(CheckQueue<Check>);

impl Ours {
    pub(super) fn new(threads: usize) -> std::io::Result<Self> {
        Ok(Self(CheckQueue::with_own_threads(threads - 1)?))
    }
}

impl Contender for Ours {
    fn round(&self, job: &Arc<Job>) -> Option<u32> {
        let mut round = self
            .0
            .begin(job.checks as usize, Arc::clone(job))
            .expect("one round at a time");
        let mut next = 0;
        for group in job.groups() {
            round.add((next..next + group).map(Check::new));
            next += group;
        }
        round.complete().err().map(|failure| failure.index as u32)
    }
}
