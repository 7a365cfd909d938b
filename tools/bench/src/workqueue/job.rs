//! A job, and its work.

use std::hint::black_box;
use std::time::{Duration, Instant};

/// Words of memory that jobs read: `-m 2`.
const WORDS: usize = (2 << 20) / size_of::<u64>();

/// Words of a page.
const PAGE_WORDS: u64 = 4096 / size_of::<u64>() as u64;

/// A request and its result, as the contenders carry them.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Job {
    pub(super) request: u64,
    pub(super) result: u64,
}

impl Job {
    pub(super) fn new(request: u64) -> Self {
        Self { request, result: 0 }
    }
}

/// The work of a job.
#[derive(Debug)]
pub(super) struct Load {
    memory: Box<[u64]>,
    steps: u32,
}

impl Load {
    /// Jobs that take `time`, besides the read.
    pub(super) fn new(time: Duration) -> Self {
        Self {
            memory: (0..WORDS as u64).map(mix).collect(),
            steps: if time.is_zero() { 0 } else { steps_that_take(time) },
        }
    }

    /// Does a job.
    #[inline]
    pub(super) fn handle(&self, job: &mut Job) {
        let mut value = job.request;
        for _ in 0..self.steps {
            value = step(value);
        }
        black_box(value);
        job.result = self.result(job.request);
    }

    /// The right result of a job.
    #[inline]
    pub(super) fn result(&self, request: u64) -> u64 {
        let word = (request * PAGE_WORDS + request / PAGE_WORDS) as usize % WORDS;
        mix(request ^ self.memory[word])
    }
}

#[inline]
fn step(value: u64) -> u64 {
    black_box(value.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (value >> 29))
}

#[inline]
fn mix(number: u64) -> u64 {
    (number ^ 0x2545_f491_4f6c_dd1d)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .rotate_left(31)
}

/// Number of steps of arithmetic that take `time`, by the fastest of several tries.
fn steps_that_take(time: Duration) -> u32 {
    const STEPS: u32 = 200_000;
    let tries = (0..10).map(|_| {
        let start = Instant::now();
        let mut value = 1;
        for _ in 0..STEPS {
            value = step(value);
        }
        black_box(value);
        start.elapsed()
    });
    let fastest = tries.min().unwrap_or(time).max(Duration::from_nanos(1));
    (f64::from(STEPS) * time.as_secs_f64() / fastest.as_secs_f64()).ceil() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_differ_and_jobs_take_their_time() {
        let load = Load::new(Duration::from_micros(20));
        let results: std::collections::HashSet<u64> = (0..100_000).map(|request| load.result(request)).collect();
        assert_eq!(results.len(), 100_000);
        let start = Instant::now();
        for request in 0..100 {
            let mut job = Job::new(request);
            load.handle(&mut job);
            assert_eq!(job.result, load.result(request));
        }
        // The time is 2 ms, but other programs may have had the core while the steps were counted.
        assert!(start.elapsed() > Duration::from_micros(100), "{:?}", start.elapsed());
    }
}
