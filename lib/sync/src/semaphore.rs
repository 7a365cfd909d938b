//! A semaphore of 8 bytes in which newcomers cannot starve a waiter.
//!
//! # State
//!
//! | bits | meaning |
//! |---|---|
//! | 0 to 29 | permits that a thread may take now |
//! | 30 | `WAKING`: a woken waiter is about to make its attempt, so no thread wakes another |
//! | 31 | `STARVING`: a waiter has waited too long, so only waiters may take permits |
//! | 32 to 63 | number of waiters: registered, asleep, falling asleep or waking up |
//!
//! All parts change together, by compare-and-exchange. Threads sleep on the low half (see
//! [`wait`](crate::wait)). A released permit and a change of either bit change the low half. A
//! change of the number of waiters does not, and no sleeper needs to know of it.
//!
//! # Protocol
//!
//! - A *newcomer* takes its permits if there are so many and `STARVING` is clear. Otherwise it
//!   spins and yields for a bounded time, and then becomes a waiter. While a waiter starves, a
//!   newcomer becomes a waiter at once.
//! - A *release* adds permits. If there are waiters and `WAKING` is clear, it sets `WAKING` and
//!   wakes one waiter.
//! - A *waiter* makes an attempt when it registers and after each sleep. An attempt is one step. It
//!   clears `WAKING`, and does one of three things:
//!     - it takes its permits and is no waiter any more;
//!     - it gives up, if its deadline has passed, and puts back what it has collected;
//!     - it goes to sleep.
//! - A waiter for several permits that finds some, but too few, *collects*: it sets `STARVING`,
//!   takes these, and goes to sleep. If another waiter has set `STARVING`, it takes none and passes
//!   its wake on. So only the waiter that set `STARVING` holds permits while it waits.
//! - A waiter may take any permit while `STARVING` is clear. While another waiter has set
//!   `STARVING`, it may take a permit only if it has been woken: a fresh waiter may not take the
//!   permit for which a starving waiter was woken. A sleep that ended with [`WaitResult::Changed`]
//!   was no wake.
//! - A waiter that leaves permits over for other waiters sets `WAKING` again and wakes the next.
//! - A woken waiter that finds no permit spins before it makes its attempt and sleeps again.
//!   `WAKING` stays set meanwhile, so no thread wakes another waiter.
//! - A waiter sets `STARVING` if it finds no permit after waiting for [`STARVING_AFTER`]. The same
//!   waiter clears `STARVING` when it leaves. The last waiter to leave clears it too.
//!
//! # Why no wake is lost
//!
//! Suppose that there are a permit and a waiter. The step that led to this state was a release, or
//! a waiter that left and left permits over. That step left `WAKING` set: it set the bit and woke a
//! sleeper, or it found the bit set. Since then no waiter that may take the permit has made an
//! attempt, or it would have taken the permit or found it gone. So there are two cases.
//!
//! 1. A woken waiter is about to make its attempt.
//! 2. No thread slept when the wake came. Then every waiter was between its attempt and its sleep.
//!    None of them falls asleep, because the low half is not what its attempt left: no permit, and
//!    `WAKING` clear. If a later state has no permit and `WAKING` clear, a waiter has made an
//!    attempt since, so the wake has done its work.
//!
//! Two waiters do not take the permit while `STARVING` is set: a fresh one, and one for several
//! permits that has used up a wake. Then the waiter that set `STARVING` is there too, and takes the
//! permit, be it to collect. The second passes its wake on before it sleeps, as in a release. So
//! the wake goes from one such waiter to the next, and ends at one that takes the permit.
//!
//! # How long newcomers can overtake a waiter
//!
//! A newcomer can take a permit ahead of a waiter only while `STARVING` is clear. A waiter makes an
//! attempt after every wake. Once it has waited for [`STARVING_AFTER`] and finds no permit, it sets
//! `STARVING` and goes to sleep after the earlier sleepers. From then on permits go to woken
//! waiters, until its own turn comes. So newcomers can overtake a waiter
//!
//! - for [`STARVING_AFTER`], and
//! - until its next attempt: it is woken again, at the latest, when all other waiters have been.
//!
//! They cannot overtake it once it has set `STARVING`. While the bit is set, each of the waiters
//! before it has one turn. A waiter that did not set the bit itself can be overtaken again after
//! the waiter that did has left. It then sets the bit at its own next attempt.
//!
//! Measured in turns: once a waiter has set the bit, it waits for at most one hold and one
//! hand-over of each thread that waits before it. This holds where Linux wakes sleepers in the
//! order in which they fell asleep. Linux does so for threads of ordinary priority, and does not
//! promise it. Without that order the turns are those of any waiters, but still not of newcomers.
//!
//! A waiter for `n` permits sets the bit at the latest as one for a single permit does. From then
//! on each of its turns adds at least one permit to what it has collected, unless a waiter that was
//! already awake took it. So the bound holds `n` times.
//!
//! The bound does not cover the time in which a thread could run but has no core.
//!
//! # Orderings
//!
//! The step that takes a permit is Acquire. It pairs with the Release of the step in
//! [`Semaphore::release`] that added the permit. All steps between are read-modify-writes of the
//! same word, so they continue its release sequence. All other steps are Relaxed and order nothing.
//!
//! # Not guaranteed
//!
//! Fairness among newcomers, and an order among waiters.

use crate::atomic::{Ordering, const_fn};
use crate::backoff::Backoff;
use crate::wait::{Deadline, WaitResult, WaitState};
use std::time::Duration;
use thiserror::Error;
use waiter::{Attempt, Waiter};

mod permit;
mod waiter;

pub use permit::{OwnedPermit, Permit, PermitOf};

/// A waiter that has waited for this long is starving.
pub const STARVING_AFTER: Duration = Duration::from_millis(1);

/// Most permits that a semaphore holds.
pub const PERMITS_MAX: u32 = (1 << 30) - 1;

const PERMITS: u64 = PERMITS_MAX as u64;
const WAKING: u64 = 1 << 30;
const STARVING: u64 = 1 << 31;
const ONE_WAITER: u64 = 1 << 32;

/// Guesses of the state, which save a load: one permit before an acquire, none before a release.
/// Both are right for a semaphore of one permit without waiters, where every nanosecond shows. With
/// constants the step is one instruction; in a loop it would wait until the next state is computed.
/// Elsewhere a wrong guess costs a failed exchange.
const GUESS_ONE_PERMIT: u64 = 1;
const GUESS_NO_PERMIT: u64 = 0;

/// A release would make more than [`PERMITS_MAX`] permits. Nothing was released.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("a semaphore holds at most {PERMITS_MAX} permits")]
pub struct PermitOverflow;

const fn permits(state: u64) -> u64 {
    state & PERMITS
}

const fn waiters(state: u64) -> u64 {
    state >> 32
}

/// Ordering of the step that takes a permit. Acquire: pairs with the Release in
/// [`Semaphore::release`].
#[inline]
fn acquire_ordering() -> Ordering {
    #[cfg(all(test, blockmill_loom))]
    if crate::tests::WEAKENED.get() {
        return Ordering::Relaxed;
    }
    Ordering::Acquire
}

/// A counting semaphore of 8 bytes, in which newcomers cannot starve a waiter.
///
/// ```
/// use blockmill_sync::Semaphore;
/// use std::time::Duration;
///
/// let semaphore = Semaphore::new(1);
/// let permit = semaphore.permit();
/// assert!(!semaphore.try_acquire());
/// assert!(!semaphore.acquire_timeout(Duration::from_millis(1)));
/// drop(permit);
/// assert!(semaphore.try_acquire());
/// assert_eq!(semaphore.permits(), 0);
/// semaphore.release(3).unwrap();
/// assert_eq!(semaphore.permits(), 3);
/// ```
#[derive(Debug)]
pub struct Semaphore {
    state: WaitState,
}

#[cfg(not(blockmill_loom))]
const _: () = assert!(size_of::<Semaphore>() == 8);

impl Semaphore {
    const_fn! {
        /// A semaphore with `permits` permits.
        ///
        /// # Panics
        /// If `permits` is more than [`PERMITS_MAX`].
        pub const fn new(permits: u32) -> Self {
            assert!(permits <= PERMITS_MAX, "too many permits");
            Self {
                state: WaitState::new(permits as u64),
            }
        }
    }

    /// Permits that are free at this moment. For diagnosis.
    pub fn permits(&self) -> u32 {
        permits(self.state.peek()) as u32
    }

    /// Threads that wait at this moment. For diagnosis.
    pub fn waiters(&self) -> u32 {
        waiters(self.state.peek()) as u32
    }

    /// Whether only waiters may take permits at this moment. For diagnosis.
    pub fn is_starving(&self) -> bool {
        self.state.peek() & STARVING != 0
    }

    /// Takes a permit if one is free and no waiter is starving. Returns whether it took one.
    #[inline]
    pub fn try_acquire(&self) -> bool {
        // No load first: see the guesses above.
        match self.exchange(GUESS_ONE_PERMIT, GUESS_ONE_PERMIT - 1, acquire_ordering()) {
            Ok(()) => true,
            Err(found) => self.try_acquire_from(found, 1),
        }
    }

    /// As [`try_acquire_many`](Self::try_acquire_many). `state` is a guess of the state: a right
    /// guess saves a load.
    fn try_acquire_from(&self, mut state: u64, count: u64) -> bool {
        while permits(state) >= count && state & STARVING == 0 {
            match self.exchange(state, state - count, acquire_ordering()) {
                Ok(()) => return true,
                Err(found) => state = found,
            }
        }
        false
    }

    /// Takes a permit. Waits until there is one.
    #[inline]
    pub fn acquire(&self) {
        if !self.try_acquire() {
            let taken = self.acquire_slow(1, None);
            debug_assert!(taken, "a wait without a deadline timed out");
        }
    }

    /// Takes a permit. Waits for one for at most `time`. Returns whether it took one.
    #[cfg(not(blockmill_loom))]
    pub fn acquire_timeout(&self, time: Duration) -> bool {
        self.try_acquire() || self.acquire_slow(1, Some(&Deadline::after(time)))
    }

    /// Takes a permit. Waits for one until `deadline`. Returns whether it took one.
    pub fn acquire_until(&self, deadline: &Deadline) -> bool {
        self.try_acquire() || self.acquire_slow(1, Some(deadline))
    }

    /// Takes `count` permits if so many are free and no waiter is starving. Returns whether it took
    /// them.
    pub fn try_acquire_many(&self, count: u32) -> bool {
        self.try_acquire_from(self.state.peek(), count.into())
    }

    /// Takes `count` permits. Waits until it has them.
    ///
    /// A waiter for several permits that finds too few takes these and collects the others. From
    /// then on newcomers take none, and other waiters take turns with it. One waiter collects at a
    /// time, so two that wait for several permits do not keep each other from them.
    ///
    /// A thread that holds a permit must not wait for another one. The thread that collects may
    /// need the first.
    ///
    /// # Panics
    /// If `count` is more than [`PERMITS_MAX`].
    pub fn acquire_many(&self, count: u32) {
        if !self.try_acquire_many(count) {
            let taken = self.acquire_slow(count, None);
            debug_assert!(taken, "a wait without a deadline timed out");
        }
    }

    /// Takes `count` permits, as [`acquire_many`](Self::acquire_many) does. Waits for them until
    /// `deadline`, and then puts back what it has collected. Returns whether it took them.
    ///
    /// # Panics
    /// If `count` is more than [`PERMITS_MAX`].
    pub fn acquire_many_until(&self, count: u32, deadline: &Deadline) -> bool {
        self.try_acquire_many(count) || self.acquire_slow(count, Some(deadline))
    }

    /// Adds `count` permits, and wakes a waiter if there are any.
    ///
    /// # Errors
    /// [`PermitOverflow`] if there would be more than [`PERMITS_MAX`] permits. Nothing is added
    /// then.
    #[inline]
    pub fn release(&self, count: u32) -> Result<(), PermitOverflow> {
        // Before the guess: with no permit in the state any count up to this fits.
        if count > PERMITS_MAX {
            return Err(PermitOverflow);
        }
        match self.exchange(GUESS_NO_PERMIT, count.into(), Ordering::Release) {
            Ok(()) => Ok(()),
            Err(found) => self.release_from(found, count),
        }
    }

    /// As [`release`](Self::release). `state` is a guess of the state.
    fn release_from(&self, mut state: u64, count: u32) -> Result<(), PermitOverflow> {
        // Taken before the exchange. Afterwards `self` may be gone.
        let address = self.state.address();
        loop {
            if u64::from(count) > PERMITS - permits(state) {
                return Err(PermitOverflow);
            }
            // A wake that is under way will pass on what it leaves. A release of nothing changes
            // nothing.
            let wake = waiters(state) > 0 && state & WAKING == 0 && count > 0;
            let next = (state + u64::from(count)) | if wake { WAKING } else { 0 };
            match self.exchange(state, next, Ordering::Release) {
                Ok(()) => {
                    // Since the exchange another thread may have freed the semaphore.
                    if wake {
                        address.wake_one();
                    }
                    return Ok(());
                }
                Err(found) => state = found,
            }
        }
    }

    /// Adds one permit for each waiter, and wakes all waiters. Returns the number of waiters.
    ///
    /// # Errors
    /// [`PermitOverflow`] if there would be more than [`PERMITS_MAX`] permits. Nothing is added
    /// then.
    pub fn release_all_waiters(&self) -> Result<u32, PermitOverflow> {
        let address = self.state.address();
        let mut state = self.state.peek();
        loop {
            let count = waiters(state);
            if count == 0 {
                return Ok(0);
            }
            if count > PERMITS - permits(state) {
                return Err(PermitOverflow);
            }
            match self.exchange(state, (state + count) | WAKING, Ordering::Release) {
                Ok(()) => {
                    // All of them: there is a permit for each.
                    address.wake_all();
                    return Ok(count as u32);
                }
                Err(found) => state = found,
            }
        }
    }

    /// Wakes all sleepers, though the state has not changed.
    #[cfg(all(test, blockmill_loom))]
    pub(crate) fn wake_spuriously(&self) {
        self.state.address().wake_all();
    }

    #[inline]
    fn exchange(&self, state: u64, next: u64, ordering: Ordering) -> Result<(), u64> {
        let outcome = self
            .state
            .atomic()
            .compare_exchange_weak(state, next, ordering, Ordering::Relaxed);
        outcome.map(|_| ())
    }

    /// Spins and yields for a bounded time, then waits. Returns whether it took the permits.
    #[cold]
    fn acquire_slow(&self, count: u32, deadline: Option<&Deadline>) -> bool {
        assert!(count <= PERMITS_MAX, "too many permits");
        // None wait for no permit: a waiter wants one at least.
        let count = u64::from(count.max(1));
        let mut backoff = Backoff::new();
        loop {
            // A load first: a failed exchange would take the cache line from the holder.
            let state = self.state.peek();
            if permits(state) >= count && self.try_acquire_from(state, count) {
                return true;
            }
            // While a waiter starves there is no point in spinning: no newcomer gets a permit.
            if state & STARVING != 0 || !backoff.snooze() {
                break;
            }
        }
        if !self.register(count) {
            return true;
        }
        // The clock starts here, not at the call: the spinning before is short, and reading the
        // clock is not free.
        let mut waiter = Waiter::new(count);
        loop {
            match self.attempt(&mut waiter) {
                Attempt::Acquired => return true,
                Attempt::TimedOut => return false,
                Attempt::Sleep(expected) => match self.state.wait(expected, deadline) {
                    WaitResult::TimedOut => waiter.timed_out = true,
                    ended => {
                        // If the state changed before the sleep, the wake may have gone to another
                        // waiter.
                        waiter.woken |= ended == WaitResult::Woken;
                        waiter.clock.sleep_ended();
                        let mut backoff = Backoff::after_wake();
                        while permits(self.state.peek()) == 0 && backoff.snooze() {}
                    }
                },
            }
        }
    }

    /// Registers a waiter and returns true. If `count` permits are free for newcomers, takes them
    /// instead and returns false.
    fn register(&self, count: u64) -> bool {
        let mut state = self.state.peek();
        loop {
            let free = permits(state) >= count && state & STARVING == 0;
            let next = if free { state - count } else { state + ONE_WAITER };
            match self.exchange(state, next, acquire_ordering()) {
                Ok(()) => return !free,
                Err(found) => state = found,
            }
        }
    }

    /// Makes one attempt for a waiter: takes permits, gives up, or prepares for sleep, in one
    /// exchange.
    fn attempt(&self, waiter: &mut Waiter) -> Attempt {
        let mut state = self.state.peek();
        loop {
            let (next, outcome) = waiter.next_state(state);
            let changed = if next == state {
                Ok(())
            } else {
                self.exchange(state, next, acquire_ordering())
            };
            match changed {
                Ok(()) => {
                    // After the exchange, as a release does it. This waiter may have left permits
                    // to others, or may have been woken in vain.
                    if next & WAKING != 0 {
                        self.state.address().wake_one();
                    }
                    if let Attempt::Sleep(_) = outcome {
                        waiter.record_step(state, next);
                    }
                    return outcome;
                }
                Err(found) => state = found,
            }
        }
    }
}

#[cfg(all(test, not(blockmill_loom)))]
mod tests {
    use super::*;
    use crate::wait::low_half;

    /// A waiter that did not sleep, because a permit had come, leaves the permit to the starving
    /// one.
    #[test]
    fn a_change_before_the_sleep_is_no_wake() {
        let semaphore = Semaphore::new(1);
        semaphore.state.atomic().fetch_or(STARVING, Ordering::Relaxed);
        semaphore.state.atomic().fetch_add(ONE_WAITER, Ordering::Relaxed);
        // The waiter's attempt found no permit. Now there is one, so the waiter does not sleep, and
        // gives up at its deadline.
        assert_eq!(semaphore.state.wait(low_half(STARVING), None), WaitResult::Changed);
        let start = std::time::Instant::now();
        assert!(!semaphore.acquire_timeout(Duration::from_millis(20)));
        assert!(start.elapsed() >= Duration::from_millis(20));
        assert_eq!((semaphore.permits(), semaphore.waiters()), (1, 1));
    }
}
