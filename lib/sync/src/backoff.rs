//! Bounded spinning and yielding.
//!
//! Every look at a shared value takes the cache line from the thread that works on the value. So a
//! waiting thread looks seldom. The time between two looks is in nanoseconds, not in pause
//! instructions: a pause takes 40 cycles on some processors and 140 on others.

use crate::atomic::{spin_loop, yield_now};
use std::sync::OnceLock;

/// Length of each round of spinning, in nanoseconds.
const SPINS_NS: [u32; 2] = [750, 3_000];

/// Rounds of yielding, after those of spinning. The thread that gets the core may be the one that
/// the caller waits for.
const YIELDS: usize = 1;

/// Most pauses in a microsecond.
const PAUSES_PER_US_MAX: u32 = 1_000;

/// Bounded waiting: rounds of spinning, each longer than the last, then a round of yielding.
///
/// After the last round [`snooze`](Self::snooze) returns false, and the caller should sleep. On a
/// machine with one core there are no rounds.
///
/// ```
/// use blockmill_sync::Backoff;
///
/// let mut backoff = Backoff::new();
/// let mut rounds = 0;
/// while backoff.snooze() {
///     rounds += 1;
/// }
/// assert!(rounds <= 3);
/// ```
#[derive(Debug, Clone)]
pub struct Backoff {
    round: usize,
    end: usize,
}

impl Default for Backoff {
    fn default() -> Self {
        Self::new()
    }
}

impl Backoff {
    /// A backoff with all rounds.
    pub fn new() -> Self {
        Self {
            round: 0,
            end: if pauses_per_us() > 0 {
                SPINS_NS.len() + YIELDS
            } else {
                0
            },
        }
    }

    /// A backoff with only the longest round of spinning, for a thread that has just been woken.
    pub fn after_wake() -> Self {
        // The short rounds are for a holder that is about to leave. A woken thread has slept for
        // longer than that.
        let spins = if pauses_per_us() > 0 { SPINS_NS.len() } else { 0 };
        Self {
            round: spins.saturating_sub(1),
            end: spins,
        }
    }

    /// Spins or yields for one round. Returns false if no round is left.
    #[inline]
    pub fn snooze(&mut self) -> bool {
        if self.round == self.end {
            return false;
        }
        match SPINS_NS.get(self.round) {
            Some(spin_ns) => {
                for _ in 0..(spin_ns * pauses_per_us()).div_ceil(1_000) {
                    spin_loop();
                }
            }
            // If the holder has lost its core, this may give it one.
            None => yield_now(),
        }
        self.round += 1;
        true
    }
}

/// Pauses in a microsecond, measured once. 0 on a machine with one core, where no other thread can
/// run meanwhile. 0 under loom, where spinning only repeats the same executions.
fn pauses_per_us() -> u32 {
    static PAUSES: OnceLock<u32> = OnceLock::new();
    if cfg!(blockmill_loom) {
        return 0;
    }
    *PAUSES.get_or_init(|| {
        // On one core nobody else runs while this thread spins.
        if std::thread::available_parallelism().is_ok_and(|cores| cores.get() > 1) {
            measure_pauses_per_us()
        } else {
            0
        }
    })
}

/// Takes the fastest of several tries: in the others another thread may have had the core.
fn measure_pauses_per_us() -> u32 {
    const PAUSES: u32 = 64;
    const TRIES: u32 = 4;
    let tries = (0..TRIES).map(|_| {
        let start = std::time::Instant::now();
        for _ in 0..PAUSES {
            spin_loop();
        }
        start.elapsed().as_nanos()
    });
    let fastest_ns = tries.min().unwrap_or(0).max(1);
    let pauses = u128::from(PAUSES) * 1_000 / fastest_ns;
    u32::try_from(pauses).unwrap_or(u32::MAX).clamp(1, PAUSES_PER_US_MAX)
}

#[cfg(all(test, not(blockmill_loom)))]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn pauses_are_measured_within_bounds() {
        for _ in 0..10 {
            assert!((1..=PAUSES_PER_US_MAX).contains(&measure_pauses_per_us()));
        }
    }

    /// The shortest of many waits is not much longer than the sum of its rounds. A woken thread
    /// spins for one round.
    #[test]
    fn spinning_ends() {
        let rounds = |mut backoff: Backoff| {
            let start = Instant::now();
            let mut rounds = 0;
            while backoff.snooze() {
                rounds += 1;
            }
            (rounds, start.elapsed())
        };
        let (all, _) = rounds(Backoff::new());
        assert!(all == 0 || all == SPINS_NS.len() + YIELDS);
        let after_wake = (0..100).map(|_| rounds(Backoff::after_wake())).min_by_key(|run| run.1);
        let (count, time) = after_wake.unwrap();
        assert_eq!(count, usize::from(all > 0));
        assert!(time < Duration::from_millis(1), "{time:?}");
    }
}
