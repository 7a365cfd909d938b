//! Bounded spinning.

use crate::atomic::spin_loop;
use std::sync::OnceLock;

/// Rounds of spinning before [`Backoff::spin`] says that it is enough. Each round is twice as long as the one before.
const ROUNDS: u32 = 6;

/// Spins for a while, longer each time, and says when to stop. On a machine with one core it never spins.
///
/// ```
/// use blockmill_sync::Backoff;
///
/// let mut backoff = Backoff::new();
/// let mut rounds = 0;
/// while backoff.spin() {
///     rounds += 1;
/// }
/// assert!(rounds <= 6);
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
            rounds: if spinning_helps() { ROUNDS } else { 0 },
        }
    }

    /// Spins for one round. Returns whether it did: once it has not, the caller should wait in another way.
    #[inline]
    pub fn spin(&mut self) -> bool {
        if self.round == self.rounds {
            return false;
        }
        for _ in 0..1 << self.round {
            spin_loop();
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
