//! Wall and CPU time.

use crate::run::Run;
use rustix::time::{ClockId, clock_gettime};
use std::time::Instant;

/// A running measurement. CPU time is the sum over all threads of the process.
#[derive(Debug, Clone, Copy)]
pub struct Stopwatch {
    start: Instant,
    cpu_seconds_at_start: f64,
}

impl Stopwatch {
    /// Begins a measurement.
    pub fn start() -> Self {
        Self {
            // First: it takes longer to read than the wall clock.
            cpu_seconds_at_start: process_cpu_seconds(),
            start: Instant::now(),
        }
    }

    /// The time until now, as that of a run over `count` units of work.
    pub fn run(&self, count: u64) -> Run {
        Run {
            seconds: self.start.elapsed().as_secs_f64(),
            cpu_seconds: process_cpu_seconds() - self.cpu_seconds_at_start,
            count,
            ..Run::default()
        }
    }
}

/// Does `count` units of work. Returns the result of `work`, too.
pub fn timed<R>(count: u64, work: impl FnOnce() -> R) -> (R, Run) {
    let clock = Stopwatch::start();
    let result = work();
    (result, clock.run(count))
}

fn seconds(clock: ClockId) -> f64 {
    let time = clock_gettime(clock);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// CPU time of all threads of this process so far.
pub fn process_cpu_seconds() -> f64 {
    seconds(ClockId::ProcessCPUTime)
}

/// CPU time of this thread so far.
pub fn thread_cpu_seconds() -> f64 {
    seconds(ClockId::ThreadCPUTime)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_takes_time() {
        let before = process_cpu_seconds();
        let (sum, run) = timed(7, || {
            let mut sum = 0u64;
            loop {
                sum = std::hint::black_box(sum + 1);
                if process_cpu_seconds() > before {
                    break sum;
                }
            }
        });
        assert!(
            sum > 0 && run.seconds > 0.0 && run.cpu_seconds > 0.0 && run.count == 7,
            "{run:?}"
        );
    }
}
