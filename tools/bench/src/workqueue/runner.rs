//! The requester's loop, the same for all contenders.

use super::job::{Job, Load};
use crate::clock::{Elapsed, Stopwatch};
use std::time::{Duration, Instant};

/// Slots for each worker: `-r 4`.
pub(super) const SLOTS_PER_WORKER: usize = 4;

/// Jobs between two readings of the clock.
const JOBS_PER_LOOK: u64 = 256;

/// A queue: jobs come out in any order.
pub(super) trait Queue {
    /// Hands a job over. The caller makes sure that a slot is free.
    fn submit(&mut self, job: Job);

    /// Waits for a finished job. The caller makes sure that one is in flight.
    fn collect(&mut self) -> Job;

    /// A finished job, if there is one.
    fn try_collect(&mut self) -> Option<Job>;
}

/// The settings of a run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Run<'a> {
    pub(super) load: &'a Load,
    pub(super) workers: usize,
    pub(super) time: Duration,
}

/// The outcome of a run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Outcome {
    pub(super) jobs: u64,
    pub(super) elapsed: Elapsed,
    /// A job with a wrong result.
    pub(super) wrong: Option<Job>,
}

impl Outcome {
    pub(super) fn jobs_per_second(&self) -> f64 {
        self.jobs as f64 / self.elapsed.seconds
    }
}

impl Run<'_> {
    /// Most jobs in flight.
    pub(super) fn slots(&self) -> usize {
        self.workers * SLOTS_PER_WORKER
    }

    /// Repeats until the time is over and no job is in flight: submits while slots are free, waits
    /// for a job, collects all finished ones.
    pub(super) fn execute(&self, queue: &mut impl Queue) -> Outcome {
        let clock = Stopwatch::start();
        let (jobs, wrong) = self.requests(queue, self.slots() as u64, 0);
        Outcome {
            jobs,
            elapsed: clock.elapsed(),
            wrong,
        }
    }

    /// The loop of one requester. Returns the number of jobs, and a job with a wrong result.
    pub(super) fn requests(&self, queue: &mut impl Queue, slots: u64, first: u64) -> (u64, Option<Job>) {
        let mut wrong = None;
        let (mut submitted, mut collected, mut look) = (0, 0, JOBS_PER_LOOK);
        let start = Instant::now();
        let mut goes_on = true;
        loop {
            while goes_on && submitted - collected < slots {
                queue.submit(Job::new(first + submitted));
                submitted += 1;
            }
            if submitted == collected {
                return (collected, wrong);
            }
            let mut done = Some(queue.collect());
            while let Some(job) = done {
                collected += 1;
                self.check(&job, &mut wrong);
                done = if collected < submitted {
                    queue.try_collect()
                } else {
                    None
                };
            }
            if collected >= look {
                look = collected + JOBS_PER_LOOK;
                goes_on = start.elapsed() < self.time;
            }
        }
    }

    /// Checks a result.
    #[inline]
    pub(super) fn check(&self, job: &Job, wrong: &mut Option<Job>) {
        if job.result != self.load.result(job.request) {
            *wrong = Some(*job);
        }
    }

    /// The loop of a requester that hands over one job for each slot, and waits for all of them.
    pub(super) fn execute_in_batches(&self, mut batch: impl FnMut(&mut [Job])) -> Outcome {
        let clock = Stopwatch::start();
        let start = Instant::now();
        let mut jobs = vec![Job::default(); self.slots()];
        let mut outcome = Outcome {
            jobs: 0,
            elapsed: clock.elapsed(),
            wrong: None,
        };
        let mut look = JOBS_PER_LOOK;
        loop {
            for job in &mut jobs {
                *job = Job::new(outcome.jobs);
                outcome.jobs += 1;
            }
            batch(&mut jobs);
            for job in &jobs {
                self.check(job, &mut outcome.wrong);
            }
            if outcome.jobs >= look {
                look = outcome.jobs + JOBS_PER_LOOK;
                if start.elapsed() >= self.time {
                    break;
                }
            }
        }
        outcome.elapsed = clock.elapsed();
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    /// Does each job when it is collected; every hundredth result is wrong if that is asked for.
    struct Sloppy<'a> {
        load: &'a Load,
        jobs: VecDeque<Job>,
        sloppy: bool,
    }

    impl Queue for Sloppy<'_> {
        fn submit(&mut self, job: Job) {
            assert!(self.jobs.len() < 8);
            self.jobs.push_back(job);
        }

        fn collect(&mut self) -> Job {
            self.try_collect().unwrap()
        }

        fn try_collect(&mut self) -> Option<Job> {
            let mut job = self.jobs.pop_front()?;
            self.load.handle(&mut job);
            job.result ^= u64::from(self.sloppy && job.request % 100 == 99);
            Some(job)
        }
    }

    #[test]
    fn wrong_results_are_noticed() {
        let load = Load::new(Duration::ZERO);
        let run = Run {
            load: &load,
            workers: 2,
            time: Duration::from_millis(2),
        };
        for sloppy in [false, true] {
            let mut queue = Sloppy {
                load: &load,
                jobs: VecDeque::new(),
                sloppy,
            };
            let outcome = run.execute(&mut queue);
            assert!(outcome.jobs >= JOBS_PER_LOOK && outcome.jobs_per_second() > 0.0);
            assert_eq!(outcome.wrong.is_some(), sloppy);
            let outcome = run.execute_in_batches(|jobs| {
                for job in jobs {
                    load.handle(job);
                    job.result ^= u64::from(sloppy && job.request % 100 == 99);
                }
            });
            assert_eq!(outcome.wrong.is_some(), sloppy);
        }
    }
}
