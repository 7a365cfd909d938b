//! Events: one thread signals, other threads wait for the signal.
//!
//! The low half of the state is `SET` or `CLEAR`. The high half is unused. The swap in `set` is
//! Release and pairs with the Acquire of the step in which a waiter finds the event set. So a
//! waiter sees after `wait` what the signalling thread did before `set`. A sleeper expects `CLEAR`,
//! so it does not fall asleep after a `set` that it has not seen.

use crate::atomic::{Ordering, const_fn};
use crate::wait::{Deadline, WaitResult, WaitState};
#[cfg(not(blockmill_loom))]
use std::time::Duration;

const CLEAR: u64 = 0;
const SET: u64 = 1;

/// Ordering of the step that finds the event set. Acquire: pairs with the Release in `set`.
#[inline]
fn acquire_ordering() -> Ordering {
    #[cfg(all(test, blockmill_loom))]
    if crate::tests::WEAKENED.get() {
        return Ordering::Relaxed;
    }
    Ordering::Acquire
}

macro_rules! event {
    ($(#[$doc:meta])* $name:ident, $wake:ident, $after_wait:expr) => {
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
            const_fn! {
                /// A clear event.
                pub const fn new() -> Self {
                    Self {
                        state: WaitState::new(CLEAR),
                    }
                }
            }

            /// Sets the event. Wakes all waiters of a manual-reset event, one of an auto-reset
            /// event.
            pub fn set(&self) {
                // Taken before the swap: see below.
                let address = self.state.address();
                if self.state.atomic().swap(SET, Ordering::Release) == CLEAR {
                    // Since the swap a waiter may have returned and freed the event.
                    address.$wake();
                }
            }

            /// Clears the event.
            pub fn reset(&self) {
                self.state.atomic().store(CLEAR, Ordering::Relaxed);
            }

            /// Waits until the event is set.
            pub fn wait(&self) {
                let is_set = self.wait_until(None);
                debug_assert!(is_set, "a wait without a deadline timed out");
            }

            /// Waits until the event is set, for at most `time`. Returns whether the event was set.
            #[cfg(not(blockmill_loom))]
            pub fn wait_timeout(&self, time: Duration) -> bool {
                self.wait_until(Some(&Deadline::after(time)))
            }

            /// Waits until the event is set or the deadline passes. Returns whether the event was
            /// set.
            pub fn wait_until(&self, deadline: Option<&Deadline>) -> bool {
                // The event may be set at the moment of the timeout. So it is looked at once more
                // afterwards.
                let mut timed_out = false;
                loop {
                    if self.try_wait() {
                        return true;
                    }
                    if timed_out {
                        return false;
                    }
                    timed_out = self.state.wait(CLEAR as u32, deadline) == WaitResult::TimedOut;
                }
            }

            /// Whether the event is set. Clears it if it is an auto-reset event.
            fn try_wait(&self) -> bool {
                self.state
                    .atomic()
                    .compare_exchange(SET, $after_wait, acquire_ordering(), Ordering::Relaxed)
                    .is_ok()
            }
        }
    };
}

event!(
    /// An event that stays set, for all waiters, until [`reset`](Self::reset).
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
    /// An event that releases one waiter and is then clear again. Setting the event twice before a
    /// waiter comes releases one waiter.
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
