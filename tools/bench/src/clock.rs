//! Wall and CPU time of a run, and the spread of several runs.

use rustix::time::{ClockId, clock_gettime};
use std::time::Instant;

/// A running measurement. CPU time is the sum over all threads of the process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stopwatch {
    start: Instant,
    cpu_seconds_at_start: f64,
}

/// The time of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Elapsed {
    /// Wall time in seconds.
    pub(crate) seconds: f64,
    /// CPU time of the process in seconds.
    pub(crate) cpu_seconds: f64,
}

impl Stopwatch {
    pub(crate) fn start() -> Self {
        Self {
            cpu_seconds_at_start: process_cpu_seconds(),
            start: Instant::now(),
        }
    }

    pub(crate) fn elapsed(&self) -> Elapsed {
        Elapsed {
            seconds: self.start.elapsed().as_secs_f64(),
            cpu_seconds: process_cpu_seconds() - self.cpu_seconds_at_start,
        }
    }
}

fn process_cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Median and extremes of several measurements, in their unit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Spread {
    /// The median; of an even number the mean of the two in the middle.
    pub(crate) median: f64,
    /// The smallest.
    pub(crate) min: f64,
    /// The largest.
    pub(crate) max: f64,
}

impl Spread {
    /// The spread of `values`; panics without values.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut sorted: Vec<f64> = values.into_iter().collect();
        sorted.sort_unstable_by(f64::total_cmp);
        let count = sorted.len();
        assert!(count > 0, "a spread needs a measurement");
        Self {
            median: f64::midpoint(sorted[(count - 1) / 2], sorted[count / 2]),
            min: sorted[0],
            max: sorted[count - 1],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(values: &[f64], median: f64, min: f64, max: f64) {
        assert_eq!(Spread::of(values.iter().copied()), Spread { median, min, max });
    }

    #[test]
    fn spreads() {
        check(&[4.0], 4.0, 4.0, 4.0);
        check(&[9.0, 1.0], 5.0, 1.0, 9.0);
        check(&[3.0, 1.0, 2.0], 2.0, 1.0, 3.0);
        check(&[8.0, 1.0, 2.0, 4.0], 3.0, 1.0, 8.0);
    }

    #[test]
    fn work_takes_time() {
        let clock = Stopwatch::start();
        let mut sum = 0u64;
        while clock.elapsed().cpu_seconds <= 0.0 {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        let elapsed = clock.elapsed();
        assert!(elapsed.seconds > 0.0 && elapsed.cpu_seconds > 0.0);
    }
}
