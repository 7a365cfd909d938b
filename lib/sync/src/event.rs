//! Events: one thread says that something has happened, others wait for it.
//!
//! State: the low half is `SET` or `CLEAR`; the high half is not used. `set` stores with Release, which pairs with the Acquire of the step
//! by which a waiter finds the event set: what was done before `set` is seen after `wait`. A sleeper expects `CLEAR`, so it does not
//! fall asleep after a `set` that it has not seen.

use crate::atomic::Ordering;
use crate::wait::{Deadline, WaitResult, WaitState};
#[cfg(not(blockmill_loom))]
use std::time::Duration;

const CLEAR: u64 = 0;
const SET: u64 = 1;

/// Ordering of the step that finds the event set.
#[inline]
fn taking() -> Ordering {
    #[cfg(all(test, blockmill_loom))]
    if crate::tests::WEAKENED.get() {
        return Ordering::Relaxed;
    }
    Ordering::Acquire
}

macro_rules! event {
    ($(#[$doc:meta])* $name:ident, $wakes:ident, $taken:expr) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $name {
            state: WaitState,
        }

        impl Default for $name {
            fn default() -> Self {
                Self::new()
            }
        }

        impl $name {
            /// An event that has not happened.
            #[cfg(not(blockmill_loom))]
            pub const fn new() -> Self {
                Self {
                    state: WaitState::new(CLEAR),
                }
            }

            /// An event that has not happened.
            #[cfg(blockmill_loom)]
            pub fn new() -> Self {
                Self {
                    state: WaitState::new(CLEAR),
                }
            }

            /// Says that it has happened.
            pub fn set(&self) {
                let address = self.state.address();
                if self.state.atomic().swap(SET, Ordering::Release) == CLEAR {
                    // From the swap on a waiter may have gone on and freed the event.
                    address.$wakes();
                }
            }

            /// Takes it back.
            pub fn reset(&self) {
                self.state.atomic().store(CLEAR, Ordering::Relaxed);
            }

            /// Waits until it has happened.
            pub fn wait(&self) {
                let happened = self.wait_until(None);
                debug_assert!(happened, "without a deadline nobody gives up");
            }

            /// Waits until it has happened, for at most `time`. Returns whether it has.
            #[cfg(not(blockmill_loom))]
            pub fn wait_timeout(&self, time: Duration) -> bool {
                self.wait_until(Some(&Deadline::after(time)))
            }

            /// Waits until it has happened, or until a deadline. Returns whether it has.
            pub fn wait_until(&self, deadline: Option<&Deadline>) -> bool {
                let mut timed_out = false;
                loop {
                    if self.take() {
                        return true;
                    }
                    if timed_out {
                        return false;
                    }
                    timed_out = self.state.wait(CLEAR as u32, deadline) == WaitResult::TimedOut;
                }
            }

            /// Whether it has happened; an event that resets by itself is reset by that.
            fn take(&self) -> bool {
                self.state
                    .atomic()
                    .compare_exchange(SET, $taken, taking(), Ordering::Relaxed)
                    .is_ok()
            }
        }
    };
}

event!(
    /// An event that stays set for all who wait, until it is reset.
    ///
    /// ```
    /// use blockmill_sync::ManualResetEvent;
    ///
    /// let ready = ManualResetEvent::new();
    /// std::thread::scope(|scope| {
    ///     scope.spawn(|| ready.wait());
    ///     scope.spawn(|| ready.wait());
    ///     ready.set();
    /// });
    /// ready.wait();
    /// ready.reset();
    /// assert!(!ready.wait_timeout(std::time::Duration::ZERO));
    /// ```
    ManualResetEvent,
    wake_all,
    SET
);

event!(
    /// An event that lets one waiter go on for each time that it is found set, and resets by that. Setting it twice before a waiter comes
    /// counts once.
    ///
    /// ```
    /// use blockmill_sync::AutoResetEvent;
    ///
    /// let done = AutoResetEvent::new();
    /// std::thread::scope(|scope| {
    ///     scope.spawn(|| done.set());
    ///     done.wait();
    /// });
    /// assert!(!done.wait_timeout(std::time::Duration::ZERO));
    /// ```
    AutoResetEvent,
    wake_one,
    CLEAR
);
