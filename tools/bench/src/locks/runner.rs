//! Threads that pass through a lock as often as they can, for a given time.

use blockmill_harness::{Failure, Run, Stopwatch, same};
use blockmill_sync::CachePadded;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A lock around a count, passed by one thread at a time.
pub(super) trait Passed: Sync {
    /// Enters, adds one to the count, leaves.
    fn pass(&self);

    /// The count. It is below the number of passes if two threads were inside at once.
    fn count(&self) -> u64;
}

/// Runs without clocks, then with every pass timed.
pub(super) fn run<C: Passed>(make: impl Fn() -> C, threads: usize, time: Duration) -> Result<Run, Failure> {
    let (run, _) = pass_all(make(), threads, time, untimed_passes)?;
    let (_, longest) = pass_all(make(), threads, time, timed_passes)?;
    Ok(run.with("wait_longest_ms", longest.as_secs_f64() * 1e3))
}

/// The passes of one thread.
#[derive(Default)]
struct Passes {
    count: u64,
    /// The longest of the timed ones.
    longest: Duration,
}

/// Lets `threads` threads pass for `time`, and checks the count. Returns the longest pass, too.
fn pass_all<C: Passed>(
    lock: C,
    threads: usize,
    time: Duration,
    passes: fn(&C, &AtomicBool) -> Passes,
) -> Result<(Run, Duration), Failure> {
    let lock = CachePadded::new(lock);
    let stop = CachePadded::new(AtomicBool::new(false));
    // This thread comes last, and starts the clock.
    let barrier = Barrier::new(threads + 1);
    let (run, all) = std::thread::scope(|scope| {
        let work = || {
            barrier.wait();
            passes(&lock, &stop)
        };
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        barrier.wait();
        let clock = Stopwatch::start();
        // This thread sleeps, so that it takes no core from those that pass.
        std::thread::sleep(time);
        stop.store(true, Ordering::Relaxed);
        // A thread may end its last pass after this. There is one such pass for each thread.
        let run = clock.run(0);
        let all: Result<Vec<Passes>, _> = running.into_iter().map(|thread| thread.join()).collect();
        (run, all)
    });
    let all = all.map_err(|_| "a thread panicked")?;
    let count = all.iter().map(|passes| passes.count).sum();
    // A lost addition: two threads were inside at once.
    same("lock", "count", lock.count(), count)?;
    let longest = all.iter().map(|passes| passes.longest).max();
    Ok((Run { count, ..run }, longest.unwrap_or_default()))
}

fn untimed_passes(lock: &impl Passed, stop: &AtomicBool) -> Passes {
    let mut passes = Passes::default();
    // At least one pass, however late the thread gets a core.
    loop {
        lock.pass();
        passes.count += 1;
        if stop.load(Ordering::Relaxed) {
            return passes;
        }
    }
}

/// The clock is read once per pass, outside of the lock. So a wait includes the hold, and the time
/// without a core.
fn timed_passes(lock: &impl Passed, stop: &AtomicBool) -> Passes {
    let mut passes = Passes::default();
    let mut before = Instant::now();
    loop {
        lock.pass();
        let after = Instant::now();
        passes.longest = passes.longest.max(after - before);
        before = after;
        passes.count += 1;
        if stop.load(Ordering::Relaxed) {
            return passes;
        }
    }
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

    impl Passed for Sieve {
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
        let time = Duration::from_millis(20);
        let pass = |lossy| {
            let make = || Sieve {
                count: AtomicU64::new(0),
                lossy,
            };
            run(make, 3, time)
        };
        let sound = pass(false).unwrap();
        assert!(sound.count > 3 && sound.figures["wait_longest_ms"] > 0.0, "{sound:?}");
        assert!(pass(true).unwrap_err().to_string().starts_with("lock: count is"));
    }
}
