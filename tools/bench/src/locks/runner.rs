//! Threads that pass through a lock as often as they can, for a given time.

use super::histogram::Histogram;
use crate::clock::{Elapsed, Stopwatch};
use blockmill_sync::CachePadded;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// For longer passes the run queue is read too.
const LONG: Duration = Duration::from_micros(200);

/// A lock around a count, passed by one thread at a time.
pub(super) trait Contender: Sync {
    /// Enters, adds one to the count, leaves.
    fn pass(&self);

    /// The count. It is below the number of passes if two threads were inside at once.
    fn count(&self) -> u64;
}

/// The outcome of a run.
#[derive(Debug, Clone)]
pub(super) struct Outcome {
    /// Passes of each thread.
    pub(super) passes: Vec<u64>,
    pub(super) elapsed: Elapsed,
    /// Times of passes, in a timed run.
    pub(super) waits: Histogram,
    /// Times of passes without the time on the run queue, where the system reports that time.
    pub(super) lock_waits: Histogram,
    /// Whether the count has every pass.
    pub(super) exclusive: bool,
}

impl Outcome {
    pub(super) fn all_passes(&self) -> u64 {
        self.passes.iter().sum()
    }

    pub(super) fn passes_per_second(&self) -> f64 {
        self.all_passes() as f64 / self.elapsed.seconds
    }

    /// The fewest and the most passes of a thread, each over the fair share.
    pub(super) fn shares(&self) -> (f64, f64) {
        let fair = self.all_passes() as f64 / self.passes.len() as f64;
        let share = |passes: Option<&u64>| passes.map_or(0.0, |&passes| passes as f64 / fair);
        (share(self.passes.iter().min()), share(self.passes.iter().max()))
    }
}

/// Lets `threads` threads pass for `time`. In a timed run the clock is read once per pass, outside
/// of the lock. So a wait includes the hold, and the time without a core.
pub(super) fn run<C: Contender>(contender: C, threads: usize, time: Duration, timed: bool) -> Outcome {
    let contender = CachePadded::new(contender);
    let stop = CachePadded::new(AtomicBool::new(false));
    let barrier = Barrier::new(threads + 1);
    std::thread::scope(|scope| {
        let work = || {
            barrier.wait();
            if timed {
                timed_passes(&*contender, &stop)
            } else {
                untimed_passes(&*contender, &stop)
            }
        };
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        barrier.wait();
        let clock = Stopwatch::start();
        std::thread::sleep(time);
        stop.store(true, Ordering::Relaxed);
        let mut outcome = Outcome {
            passes: Vec::new(),
            elapsed: clock.elapsed(),
            waits: Histogram::default(),
            lock_waits: Histogram::default(),
            exclusive: false,
        };
        for thread in running {
            match thread.join() {
                Ok(passes) => {
                    outcome.passes.push(passes.count);
                    outcome.waits.merge(&passes.waits);
                    outcome.lock_waits.merge(&passes.lock_waits);
                }
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        outcome.exclusive = contender.count() == outcome.all_passes();
        outcome
    })
}

/// The outcome of one thread.
#[derive(Default)]
struct Passes {
    count: u64,
    waits: Histogram,
    lock_waits: Histogram,
}

fn untimed_passes(contender: &impl Contender, stop: &AtomicBool) -> Passes {
    let mut count = 0;
    // At least one pass, however late the thread gets a core.
    loop {
        contender.pass();
        count += 1;
        if stop.load(Ordering::Relaxed) {
            break;
        }
    }
    Passes {
        count,
        ..Passes::default()
    }
}

fn timed_passes(contender: &impl Contender, stop: &AtomicBool) -> Passes {
    let mut passes = Passes::default();
    let mut run_queue = RunQueue::of_this_thread();
    let mut before = Instant::now();
    loop {
        contender.pass();
        let mut after = Instant::now();
        let wait = after - before;
        passes.waits.add(wait);
        if wait > LONG {
            passes.lock_waits.add(wait.saturating_sub(run_queue.since_last()));
            after = Instant::now();
        } else {
            passes.lock_waits.add(wait);
        }
        before = after;
        passes.count += 1;
        if stop.load(Ordering::Relaxed) {
            return passes;
        }
    }
}

/// The time of this thread on the run queue: ready, but without a core.
struct RunQueue {
    file: Option<File>,
    last: Duration,
}

impl RunQueue {
    fn of_this_thread() -> Self {
        let mut this = Self {
            file: File::open("/proc/thread-self/schedstat").ok(),
            last: Duration::ZERO,
        };
        this.since_last();
        this
    }

    /// The time since the last call.
    fn since_last(&mut self) -> Duration {
        let now = self.file.as_ref().and_then(run_delay).unwrap_or(self.last);
        let since = now.saturating_sub(self.last);
        self.last = now;
        since
    }
}

/// The second of three numbers: nanoseconds on the run queue.
fn run_delay(file: &File) -> Option<Duration> {
    let mut text = [0; 80];
    let length = file.read_at(&mut text, 0).ok()?;
    let text = std::str::from_utf8(&text[..length]).ok()?;
    let delay_ns = text.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Some(Duration::from_nanos(delay_ns))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    /// Counts, and loses every third pass if `lossy`: each of three threads has at least one.
    struct Sieve {
        count: AtomicU64,
        lossy: bool,
    }

    impl Contender for Sieve {
        fn pass(&self) {
            if self.count.fetch_add(1, Ordering::Relaxed) % 3 == 2 && self.lossy {
                self.count.fetch_sub(1, Ordering::Relaxed);
            }
        }

        fn count(&self) -> u64 {
            self.count.load(Ordering::Relaxed)
        }
    }

    #[test]
    fn a_run_counts_and_notices_what_is_lost() {
        for lossy in [false, true] {
            for timed in [false, true] {
                let count = AtomicU64::new(0);
                let outcome = run(Sieve { count, lossy }, 3, Duration::from_millis(20), timed);
                assert_eq!(outcome.exclusive, !lossy);
                assert_eq!(outcome.passes.len(), 3);
                assert!(outcome.all_passes() > 0 && outcome.passes_per_second() > 0.0);
                let timed_passes = if timed { outcome.all_passes() } else { 0 };
                assert_eq!(outcome.waits.count(), timed_passes);
                assert_eq!(outcome.lock_waits.count(), timed_passes);
                assert!(outcome.lock_waits.quantile_ns(1.0) <= outcome.waits.quantile_ns(1.0));
                let (unlucky, lucky) = outcome.shares();
                assert!(unlucky <= 1.0 && lucky >= 1.0);
            }
        }
    }
}
