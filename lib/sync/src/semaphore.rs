//! A semaphore of 8 bytes in which newcomers cannot starve a waiter.
//!
//! # The state
//!
//! | bits | what |
//! |---|---|
//! | 0 to 29 | permits that anyone may take now |
//! | 30 | `WAKING`: a waiter is on its way to look, so nobody needs to wake another |
//! | 31 | `STARVING`: a waiter has waited too long, so only waiters may take permits |
//! | 32 to 63 | threads that wait: registered, asleep or on their way to or from sleep |
//!
//! All of it changes together, by compare and exchange. Threads sleep on the low half (see [`wait`](crate::wait)): a permit that
//! is released, and each of the two bits, changes it; the number of waiters does not, and no sleeper has to know of it.
//!
//! # The protocol
//!
//! - *Newcomers* take a permit if there is one and `STARVING` is not set; else they spin and yield for
//!   a bounded time and then become waiters; while somebody starves, at once.
//! - *Release* adds permits. If there are waiters and `WAKING` is not set, it sets it and wakes one.
//! - *A waiter* that looks does one of three things in one step, and clears `WAKING` with it, since it is here now: it takes a permit
//!   and is no waiter any more; it gives up, past its deadline; or it goes to sleep. It takes a permit if there is one, unless
//!   `STARVING` is set, by another, and it has not been woken yet: who has only just come may not take what a starving waiter was woken for. That
//!   the state had changed before it slept is no wake. When it leaves and leaves permits to other waiters, it sets `WAKING` again and wakes the next.
//! - A waiter that was woken and finds no permit spins once more before it looks and sleeps again. `WAKING` is set
//!   meanwhile, so that nobody is troubled to wake it or another.
//! - `STARVING` is set by a waiter that finds no permit after it has waited for [`STARVING_AFTER`], and cleared by that waiter when it
//!   leaves, or by the last waiter to leave.
//!
//! # Why no wake is lost
//!
//! Let there be a permit and a waiter. The step that brought this about was a release (or a waiter that left permits behind), and it
//! left `WAKING` set: it set the bit and woke a sleeper, or it found it set. Since then no waiter that may take the permit has
//! looked, or it would have taken it or found it gone. So either a woken waiter is on its way to look, or nobody slept when the wake
//! came: then every waiter was between its step and its sleep, and will not fall asleep, because the low half is not what its step
//! left. (Its step left no permit and `WAKING` clear; a later state with no permit and `WAKING` clear comes from a waiter that looked
//! since, so that the wake has done its work.) Waiters that may not take a permit, since they have only just come, exist beside the
//! one that set `STARVING`, which may.
//!
//! # How long a waiter can be robbed
//!
//! A newcomer can take a permit in front of a waiter only while `STARVING` is clear. A waiter looks after every wake; once it has waited for
//! [`STARVING_AFTER`] and finds no permit, it sets the bit, and goes to sleep behind those that sleep already. From then on permits go
//! to waiters that were woken, until its own turn. So newcomers can rob a waiter for [`STARVING_AFTER`], for the time until
//! its next look (it is woken again at the latest when all other waiters have been), and after it set the bit
//! no more; while it is set, each of the waiters before it has one turn. A waiter that did not set the bit itself can be robbed again when
//! the one that did has gone: it then sets the bit at its own next look.
//!
//! Measured in turns: once the bit is set, a waiter waits for at most one hold and one hand-over of each thread that waits before it.
//! That is where Linux keeps the order in which they fell asleep, which it does for threads of ordinary priority and does not
//! promise; without that order the turns are those of any waiters, but still not of newcomers.
//!
//! Time in which a thread could run but has no core is not the semaphore's, and not bounded by it.
//!
//! # Orderings
//!
//! The step that takes a permit is Acquire and pairs with the Release of the step in [`Semaphore::release`] that added it (and of all steps
//! between, which are read-modify-writes of the same word and so continue its release sequence). All other steps order nothing: Relaxed.
//!
//! Not guaranteed: fairness among newcomers, and order among waiters.

use crate::atomic::Ordering;
use crate::backoff::Backoff;
use crate::wait::{Deadline, WaitResult, WaitState, low};
use std::time::Duration;
use thiserror::Error;

/// Time after which a waiter is starving.
pub const STARVING_AFTER: Duration = Duration::from_millis(1);

/// Most permits that a semaphore holds.
pub const PERMITS_MAX: u32 = (1 << 30) - 1;

const PERMITS: u64 = PERMITS_MAX as u64;
const WAKING: u64 = 1 << 30;
const STARVING: u64 = 1 << 31;
const WAITER: u64 = 1 << 32;

/// What a thread guesses that it will find: a permit to take, and none where it gives one back. Right for a semaphore of one permit for
/// which nobody waits, where every nanosecond shows; elsewhere a wrong guess costs a failed exchange.
const LAST_PERMIT: u64 = 1;
const NO_PERMIT: u64 = 0;

/// A release that would make more than [`PERMITS_MAX`] permits; nothing was released.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("a semaphore holds at most {PERMITS_MAX} permits")]
pub struct PermitOverflow;

const fn permits(state: u64) -> u64 {
    state & PERMITS
}

const fn waiters(state: u64) -> u64 {
    state >> 32
}

/// Ordering of the step that takes a permit.
#[inline]
fn taking() -> Ordering {
    #[cfg(all(test, blockmill_loom))]
    if crate::tests::WEAKENED.get() {
        return Ordering::Relaxed;
    }
    Ordering::Acquire
}

/// A counting semaphore of 8 bytes.
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

/// What a waiter finds when it looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
enum Look {
    /// It has a permit.
    Taken,
    /// It has given up.
    GivenUp,
    /// It is to sleep while the low half is this.
    Sleep(u32),
}

/// What a waiter knows of itself.
struct Waiter {
    since: Since,
    /// Whether it has been woken at least once.
    woken: bool,
    /// Whether it has set `STARVING`.
    starving: bool,
    timed_out: bool,
}

impl Semaphore {
    /// A semaphore with so many permits, at most [`PERMITS_MAX`]; panics for more.
    #[cfg(not(blockmill_loom))]
    pub const fn new(permits: u32) -> Self {
        assert!(permits <= PERMITS_MAX, "too many permits");
        Self {
            state: WaitState::new(permits as u64),
        }
    }

    /// A semaphore with so many permits.
    #[cfg(blockmill_loom)]
    pub fn new(permits: u32) -> Self {
        assert!(permits <= PERMITS_MAX, "too many permits");
        Self {
            state: WaitState::new(permits.into()),
        }
    }

    /// Permits that could be taken at this moment; for diagnosis.
    pub fn permits(&self) -> u32 {
        permits(self.state.peek()) as u32
    }

    /// Threads that wait at this moment; for diagnosis.
    pub fn waiters(&self) -> u32 {
        waiters(self.state.peek()) as u32
    }

    /// Whether only waiters get permits at this moment; for diagnosis.
    pub fn is_starving(&self) -> bool {
        self.state.peek() & STARVING != 0
    }

    /// Takes a permit if there is one for newcomers. Returns whether it did.
    #[inline]
    pub fn try_acquire(&self) -> bool {
        self.try_acquire_from(LAST_PERMIT)
    }

    /// As [`try_acquire`](Self::try_acquire), where `state` is a guess: a right one saves a look.
    #[inline]
    fn try_acquire_from(&self, mut state: u64) -> bool {
        while permits(state) > 0 && state & STARVING == 0 {
            match self.replace(state, state - 1, taking()) {
                Ok(()) => return true,
                Err(found) => state = found,
            }
        }
        false
    }

    /// Takes a permit, and waits for one if there is none.
    #[inline]
    pub fn acquire(&self) {
        if !self.try_acquire() {
            let taken = self.acquire_slow(None);
            debug_assert!(taken, "without a deadline nobody gives up");
        }
    }

    /// Takes a permit, and waits for one for at most `time`. Returns whether it did.
    #[cfg(not(blockmill_loom))]
    pub fn acquire_timeout(&self, time: Duration) -> bool {
        self.try_acquire() || self.acquire_slow(Some(&Deadline::after(time)))
    }

    /// As [`acquire_timeout`](Self::acquire_timeout), until a deadline.
    pub fn acquire_until(&self, deadline: &Deadline) -> bool {
        self.try_acquire() || self.acquire_slow(Some(deadline))
    }

    /// Takes a permit that is given back when it is dropped.
    pub fn permit(&self) -> Permit<'_> {
        self.acquire();
        Permit { semaphore: self }
    }

    /// As [`permit`](Self::permit), if there is one for newcomers.
    pub fn try_permit(&self) -> Option<Permit<'_>> {
        self.try_acquire().then(|| Permit { semaphore: self })
    }

    /// Adds permits, and wakes a waiter if there are any.
    ///
    /// # Errors
    /// [`PermitOverflow`]; nothing is added then.
    #[inline]
    pub fn release(&self, count: u32) -> Result<(), PermitOverflow> {
        let address = self.state.address();
        let mut state = NO_PERMIT;
        loop {
            if u64::from(count) > PERMITS - permits(state) {
                return Err(PermitOverflow);
            }
            let wake = waiters(state) > 0 && state & WAKING == 0 && count > 0;
            let next = (state + u64::from(count)) | if wake { WAKING } else { 0 };
            match self.replace(state, next, Ordering::Release) {
                Ok(()) => {
                    // The semaphore may be gone by now.
                    if wake {
                        address.wake_one();
                    }
                    return Ok(());
                }
                Err(found) => state = found,
            }
        }
    }

    /// Adds as many permits as threads wait, and wakes them; does nothing when no one waits. Returns how many that were.
    ///
    /// # Errors
    /// [`PermitOverflow`]; nothing is added then.
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
            match self.replace(state, (state + count) | WAKING, Ordering::Release) {
                Ok(()) => {
                    address.wake_all();
                    return Ok(count as u32);
                }
                Err(found) => state = found,
            }
        }
    }

    /// Wakes all sleepers although nothing has happened.
    #[cfg(all(test, blockmill_loom))]
    pub(crate) fn wake_for_no_reason(&self) {
        self.state.address().wake_all();
    }

    #[inline]
    fn replace(&self, state: u64, next: u64, ordering: Ordering) -> Result<(), u64> {
        let outcome = self
            .state
            .atomic()
            .compare_exchange_weak(state, next, ordering, Ordering::Relaxed);
        outcome.map(|_| ())
    }

    /// Spins and yields for a bounded time, then waits. Returns whether a permit was taken.
    #[cold]
    fn acquire_slow(&self, deadline: Option<&Deadline>) -> bool {
        let mut backoff = Backoff::new();
        loop {
            // Looks before it tries: a failed try would take the cache line from the one who is inside.
            let state = self.state.peek();
            if permits(state) > 0 && self.try_acquire_from(state) {
                return true;
            }
            if state & STARVING != 0 || !backoff.snooze() {
                break;
            }
        }
        if !self.register() {
            return true;
        }
        let mut waiter = Waiter {
            since: Since::now(),
            woken: false,
            starving: false,
            timed_out: false,
        };
        loop {
            match self.look(&mut waiter) {
                Look::Taken => return true,
                Look::GivenUp => return false,
                Look::Sleep(expected) => match self.state.wait(expected, deadline) {
                    WaitResult::TimedOut => waiter.timed_out = true,
                    ended => {
                        // If the state had changed before it slept, another may have been woken, and not this one.
                        waiter.woken |= ended == WaitResult::LookAgain;
                        waiter.since.woke();
                        let mut backoff = Backoff::after_wake();
                        while permits(self.state.peek()) == 0 && backoff.snooze() {}
                    }
                },
            }
        }
    }

    /// Becomes a waiter; or takes a permit as a newcomer, if there is one now, and returns false.
    fn register(&self) -> bool {
        let mut state = self.state.peek();
        loop {
            let free = permits(state) > 0 && state & STARVING == 0;
            let next = if free { state - 1 } else { state + WAITER };
            match self.replace(state, next, taking()) {
                Ok(()) => return !free,
                Err(found) => state = found,
            }
        }
    }

    /// What a waiter does when it has come to look, all in one step.
    fn look(&self, waiter: &mut Waiter) -> Look {
        let mut state = self.state.peek();
        loop {
            let (next, look) = waiter.step(state);
            let pass_on = next & WAKING != 0;
            if next == state {
                return look;
            }
            match self.replace(state, next, taking()) {
                Ok(()) => {
                    waiter.starving = next & STARVING != 0 && (waiter.starving || state & STARVING == 0);
                    if pass_on {
                        self.state.address().wake_one();
                    }
                    return look;
                }
                Err(found) => state = found,
            }
        }
    }
}

impl Waiter {
    /// The state that a waiter leaves when it finds `state`, and what that means. `WAKING` is set in it if the next is to be woken.
    fn step(&self, state: u64) -> (u64, Look) {
        let awake = state & !WAKING;
        let may_take = self.woken || self.starving || state & STARVING == 0;
        if permits(state) > 0 && may_take {
            return (self.leave(awake - 1), Look::Taken);
        }
        if self.timed_out {
            return (self.leave(awake), Look::GivenUp);
        }
        let next = if permits(state) == 0 && self.since.is_long() {
            awake | STARVING
        } else {
            awake
        };
        (next, Look::Sleep(low(next)))
    }

    /// `state` without this waiter.
    fn leave(&self, state: u64) -> u64 {
        let left = state - WAITER;
        let others = waiters(left) > 0;
        let calm = if self.starving || !others {
            left & !STARVING
        } else {
            left
        };
        if permits(calm) > 0 && others {
            calm | WAKING
        } else {
            calm
        }
    }
}

/// Since when a thread waits.
#[cfg(not(blockmill_loom))]
struct Since(std::time::Instant);

#[cfg(not(blockmill_loom))]
impl Since {
    fn now() -> Self {
        Self(std::time::Instant::now())
    }

    fn woke(&mut self) {}

    fn is_long(&self) -> bool {
        self.0.elapsed() >= STARVING_AFTER
    }
}

/// Under loom a wait is long once it has ended in vain.
#[cfg(blockmill_loom)]
struct Since(bool);

#[cfg(blockmill_loom)]
impl Since {
    fn now() -> Self {
        Self(false)
    }

    fn woke(&mut self) {
        self.0 = true;
    }

    fn is_long(&self) -> bool {
        self.0
    }
}

/// A permit that is given back when it is dropped.
///
/// ```
/// use blockmill_sync::Semaphore;
///
/// let semaphore = Semaphore::new(2);
/// let first = semaphore.permit();
/// let second = semaphore.permit();
/// assert!(semaphore.try_permit().is_none());
/// drop(first);
/// second.forget();
/// assert_eq!(semaphore.permits(), 1);
/// ```
#[derive(Debug)]
#[must_use = "the permit is given back when it is dropped"]
pub struct Permit<'a> {
    semaphore: &'a Semaphore,
}

impl Permit<'_> {
    /// Keeps the permit: it is not given back.
    pub fn forget(self) {
        std::mem::forget(self);
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        // There is room for a permit that was taken, unless more were released than taken: then one less does no harm.
        let _ = self.semaphore.release(1);
    }
}

#[cfg(all(test, not(blockmill_loom)))]
mod tests {
    use super::*;

    fn waiter(woken: bool, starving: bool) -> Waiter {
        Waiter {
            since: Since::now(),
            woken,
            starving,
            timed_out: false,
        }
    }

    /// While somebody starves a permit is for waiters that were woken, and for the one that starves; not for one that came just now.
    #[test]
    fn who_may_take_a_permit() {
        let two_wait = 2 * WAITER + 1;
        for (state, woken, starving, takes) in [
            (two_wait, false, false, true),
            (two_wait | STARVING, false, false, false),
            (two_wait | STARVING | WAKING, false, false, false),
            (two_wait | STARVING, true, false, true),
            (two_wait | STARVING, false, true, true),
        ] {
            let (_, look) = waiter(woken, starving).step(state);
            assert_eq!(look == Look::Taken, takes, "{state:#x} {woken} {starving}");
        }
    }

    /// A waiter whose sleep was not begun, since a permit had come, leaves it to the one that starves.
    #[test]
    fn a_change_before_the_sleep_is_no_wake() {
        let semaphore = Semaphore::new(1);
        semaphore.state.atomic().fetch_or(STARVING, Ordering::Relaxed);
        semaphore.state.atomic().fetch_add(WAITER, Ordering::Relaxed);
        // It has looked when there was no permit; now there is one, so it does not sleep, and gives up at its deadline.
        assert_eq!(semaphore.state.wait(low(STARVING), None), WaitResult::Changed);
        let start = std::time::Instant::now();
        assert!(!semaphore.acquire_timeout(Duration::from_millis(20)));
        assert!(start.elapsed() >= Duration::from_millis(20));
        assert_eq!((semaphore.permits(), semaphore.waiters()), (1, 1));
    }
}
