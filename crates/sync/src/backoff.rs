//! Bounded spinning and yielding.

use crate::atomic::{spin_loop, yield_now};
use std::sync::OnceLock;

/// Rounds of spinning; each is twice as long as the one before.
const SPIN_ROUNDS: u32 = 4;

/// Rounds after those in which the core is offered to another thread: it may be the one that is waited for.
const YIELD_ROUNDS: u32 = 6;

/// Spins for a while, longer each time, then yields, and then says that it is enough: the caller should sleep. On a machine with one
/// core it does neither.
///
/// ```
/// use blockmill_sync::Backoff;
///
/// let mut backoff = Backoff::new();
/// let mut rounds = 0;
/// while backoff.snooze() {
///     rounds += 1;
/// }
/// assert!(rounds <= 10);
/// ```
#[derive(Debug, Clone)]
pub struct Backoff {
    round: u32,
    rounds: u32,
}

impl Default for Backoff {
    fn default() -> Self {
        Self::new()
    }
}

impl Backoff {
    /// A fresh start.
    pub fn new() -> Self {
        Self {
            round: 0,
            rounds: if spinning_helps() {
                SPIN_ROUNDS + YIELD_ROUNDS
            } else {
                0
            },
        }
    }

    /// Spins or yields for one round. Returns whether it did.
    #[inline]
    pub fn snooze(&mut self) -> bool {
        if self.round == self.rounds {
            return false;
        }
        if self.round < SPIN_ROUNDS {
            for _ in 0..1 << self.round {
                spin_loop();
            }
        } else {
            yield_now();
        }
        self.round += 1;
        true
    }
}

/// Whether another thread can run while this one spins. Under loom spinning only makes more of the same executions.
fn spinning_helps() -> bool {
    static HELPS: OnceLock<bool> = OnceLock::new();
    !cfg!(blockmill_loom)
        && *HELPS.get_or_init(|| std::thread::available_parallelism().is_ok_and(|cores| cores.get() > 1))
}
