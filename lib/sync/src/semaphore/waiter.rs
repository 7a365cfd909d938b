//! A waiter's own part of the state, and its attempts as pure steps from state to state.

#[cfg(not(blockmill_loom))]
use super::STARVING_AFTER;
use super::{ONE_WAITER, STARVING, WAKING, permits, waiters};
use crate::wait::low_half;

/// Outcome of a waiter's attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(super) enum Attempt {
    /// The waiter has all its permits and has left.
    Acquired,
    /// The deadline had passed. The waiter has put back what it had collected, and has left.
    TimedOut,
    /// The waiter must sleep while the low half has this value.
    Sleep(u32),
}

/// The waiter's own part of the state.
pub(super) struct Waiter {
    pub(super) clock: WaitClock,
    /// Permits that the waiter wants, at least 1.
    wanted: u64,
    /// Permits of these that the waiter does not have yet. Fewer than `wanted` only while
    /// `starving`.
    missing: u64,
    /// Whether the waiter has been woken at least once.
    pub(super) woken: bool,
    /// Whether this waiter has set `STARVING`.
    starving: bool,
    pub(super) timed_out: bool,
}

impl Waiter {
    pub(super) fn new(wanted: u64) -> Self {
        Self {
            clock: WaitClock::start(),
            wanted,
            missing: wanted,
            woken: false,
            starving: false,
            timed_out: false,
        }
    }

    /// The state after an attempt that finds `state`, and the outcome. The new state has `WAKING`
    /// set if this waiter must wake the next.
    pub(super) fn next_state(&self, state: u64) -> (u64, Attempt) {
        let arrived = state & !WAKING;
        let free = permits(state);
        let others_starve = state & STARVING != 0 && !self.starving;
        let may_take = self.woken || !others_starve;
        if free >= self.missing && may_take {
            return (self.leave(arrived - self.missing), Attempt::Acquired);
        }
        if self.timed_out {
            // There is room: a waiter that has collected may take, so `free` is less than it
            // misses, and the sum is less than it wanted.
            let collected = self.wanted - self.missing;
            return (self.leave(arrived + collected), Attempt::TimedOut);
        }
        let next = if free == 0 {
            let starves = self.clock.is_starving();
            arrived | if starves { STARVING } else { 0 }
        } else if !may_take {
            // A fresh waiter leaves the permits to the starving one, which has been woken for them.
            arrived
        } else if others_starve {
            // This waiter used up a wake that another waiter needs, if only the starving one.
            arrived | WAKING
        } else {
            // From now on no newcomer takes what this waiter collects.
            (arrived - free) | STARVING
        };
        (next, Attempt::Sleep(low_half(next)))
    }

    /// Records that the waiter's attempt has changed `state` to `next`, and that it must sleep.
    pub(super) fn record_step(&mut self, state: u64, next: u64) {
        self.missing -= permits(state) - permits(next);
        self.starving = next & STARVING != 0 && (self.starving || state & STARVING == 0);
    }

    /// `state` without this waiter.
    fn leave(&self, state: u64) -> u64 {
        let left = state - ONE_WAITER;
        let others = waiters(left) > 0;
        // Nobody is there for whom newcomers should wait. If another waiter starves, it sets the
        // bit again.
        let next = if self.starving || !others {
            left & !STARVING
        } else {
            left
        };
        // The release that woke this waiter relied on it: it found `WAKING` set, and woke nobody
        // else.
        if permits(next) > 0 && others {
            next | WAKING
        } else {
            next
        }
    }
}

/// The moment at which a wait began.
#[cfg(not(blockmill_loom))]
pub(super) struct WaitClock(std::time::Instant);

#[cfg(not(blockmill_loom))]
impl WaitClock {
    pub(super) fn start() -> Self {
        Self(std::time::Instant::now())
    }

    pub(super) fn sleep_ended(&mut self) {}

    pub(super) fn is_starving(&self) -> bool {
        self.0.elapsed() >= STARVING_AFTER
    }
}

/// Whether a sleep has ended. Under loom a waiter is starving after its first sleep.
#[cfg(blockmill_loom)]
pub(super) struct WaitClock(bool);

#[cfg(blockmill_loom)]
impl WaitClock {
    pub(super) fn start() -> Self {
        Self(false)
    }

    pub(super) fn sleep_ended(&mut self) {
        self.0 = true;
    }

    pub(super) fn is_starving(&self) -> bool {
        self.0
    }
}

#[cfg(all(test, not(blockmill_loom)))]
mod tests {
    use super::*;

    fn waiter(wanted: u64, woken: bool, starving: bool) -> Waiter {
        Waiter {
            woken,
            starving,
            ..Waiter::new(wanted)
        }
    }

    /// While a waiter starves, permits are for that waiter and for woken ones. A fresh waiter gets
    /// none.
    #[test]
    fn a_fresh_waiter_takes_no_permit_while_another_starves() {
        let two_wait = 2 * ONE_WAITER + 1;
        for (state, woken, starving, takes) in [
            (two_wait, false, false, true),
            (two_wait | STARVING, false, false, false),
            (two_wait | STARVING | WAKING, false, false, false),
            (two_wait | STARVING, true, false, true),
            (two_wait | STARVING, false, true, true),
        ] {
            let (_, outcome) = waiter(1, woken, starving).next_state(state);
            assert_eq!(outcome == Attempt::Acquired, takes, "{state:#x} {woken} {starving}");
        }
    }

    /// A waiter for several permits collects them if no other waiter starves, and otherwise passes
    /// its wake on.
    #[test]
    fn a_waiter_for_three_collects_or_passes_on() {
        let two_wait = 2 * ONE_WAITER;
        let asleep = |next: u64| (next, Attempt::Sleep(low_half(next)));
        for (state, woken, starving, expected) in [
            (two_wait | 3, false, false, (ONE_WAITER, Attempt::Acquired)),
            (two_wait | 5, true, true, (ONE_WAITER | WAKING | 2, Attempt::Acquired)),
            (two_wait | 2, false, false, asleep(two_wait | STARVING)),
            (
                two_wait | WAKING | STARVING | 2,
                true,
                true,
                asleep(two_wait | STARVING),
            ),
            (two_wait | STARVING | 2, false, false, asleep(two_wait | STARVING | 2)),
            (
                two_wait | WAKING | STARVING | 2,
                true,
                false,
                asleep(two_wait | WAKING | STARVING | 2),
            ),
            (two_wait | WAKING, true, false, asleep(two_wait)),
        ] {
            let found = waiter(3, woken, starving).next_state(state);
            assert_eq!(found, expected, "{state:#x} {woken} {starving}");
        }
    }

    #[test]
    fn a_waiter_that_gives_up_puts_back_what_it_has() {
        let mut waiter = Waiter::new(5);
        let state = (2 * ONE_WAITER) | 3;
        let (next, _) = waiter.next_state(state);
        waiter.record_step(state, next);
        assert_eq!((waiter.missing, waiter.starving), (2, true));
        waiter.timed_out = true;
        let expected = (ONE_WAITER | WAKING | 4, Attempt::TimedOut);
        assert_eq!(waiter.next_state(next + 1), expected);
        // With all permits there it takes them, though it is late.
        let expected = (ONE_WAITER | WAKING | 1, Attempt::Acquired);
        assert_eq!(waiter.next_state(next + 3), expected);
    }
}
