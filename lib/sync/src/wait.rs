//! Waiting on one half of a 64-bit state, or on a word of 32 bits.
//!
//! A [`WaitState`] is an `AtomicU64` on whose low half threads can wait. [`WaitState::wait`] sleeps
//! if the low half has the expected value. [`wake_one`](Address::wake_one) and
//! [`wake_all`](Address::wake_all) end sleeps. For a waking thread, comparing and falling asleep
//! are one step. The program reads and writes only the whole state; only the operating system reads
//! the half. A [`WaitWord`] is the same over an `AtomicU32`.
//!
//! ```
//! use blockmill_sync::atomic::Ordering;
//! use blockmill_sync::wait::WaitWord;
//!
//! let word = WaitWord::new(0);
//! std::thread::scope(|scope| {
//!     scope.spawn(|| {
//!         word.atomic().store(1, Ordering::Release);
//!         word.address().wake_all();
//!     });
//!     while word.atomic().load(Ordering::Acquire) == 0 {
//!         // Sleeps only while the word is 0. A sleep may end spuriously.
//!         let _ = word.wait(0, None);
//!     }
//! });
//! ```
//!
//! | platform | implementation |
//! |---|---|
//! | Linux | futex on the address of the half |
//! | elsewhere, or with cfg `blockmill_portable_wait` | `parking_lot_core`, keyed by that address |
//! | with cfg `blockmill_loom` | a mutex and a condition variable of loom; a model sets the clock |
//!
//! # Why a change of the high half loses no wake
//!
//! A thread decides to sleep in one atomic operation on the whole state. It then passes to `wait`
//! the low half that this operation left. If any thread has changed the low half since, the thread
//! does not fall asleep. A change of the high half alone gives a sleeper no reason to look again,
//! so it needs no wake.
//!
//! # Not guaranteed
//!
//! - An order among waiters. Linux promises none.
//! - A reason for every end of a sleep: sleeps may end spuriously.

use crate::atomic::{AtomicU32, AtomicU64, Ordering, const_fn};

/// How a sleep ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "the end of a sleep says nothing about the state: look again"]
pub enum WaitResult {
    /// A thread woke the sleeper, or the sleep ended spuriously.
    Woken,
    /// The low half had another value, so the thread did not sleep and used up no wake.
    Changed,
    /// The deadline has passed.
    TimedOut,
}

/// The low half of a state, which threads wait on.
pub const fn low_half(state: u64) -> u32 {
    state as u32
}

macro_rules! wait_on {
    ($(#[$doc:meta])* $name:ident, $value:ty, $atomic:ty, $address:expr) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $name {
            state: $atomic,
            #[cfg(blockmill_loom)]
            sleepers: model::Sleepers,
        }

        impl $name {
            const_fn! {
                /// A state with this value.
                pub const fn new(value: $value) -> Self {
                    Self {
                        state: <$atomic>::new(value),
                        #[cfg(blockmill_loom)]
                        sleepers: model::Sleepers::default(),
                    }
                }
            }

            /// The atomic itself, for all operations but waiting.
            #[inline]
            pub fn atomic(&self) -> &$atomic {
                &self.state
            }

            /// The address that waiters sleep on. A thread that wakes others takes the address
            /// before its last change of the state. From that change on a waiter may go on and free
            /// the state.
            #[inline]
            pub fn address(&self) -> Address<'_> {
                #[cfg(not(blockmill_loom))]
                return Address($address(&self.state), std::marker::PhantomData);
                #[cfg(blockmill_loom)]
                return Address(&self.sleepers);
            }

            /// Sleeps until woken or until `deadline`, if the low 32 bits are `expected`.
            #[inline]
            pub fn wait(&self, expected: u32, deadline: Option<&Deadline>) -> WaitResult {
                let as_expected = || self.peek() as u32 == expected;
                #[cfg(not(blockmill_loom))]
                return platform::wait(self.address().0, expected, as_expected, deadline);
                #[cfg(blockmill_loom)]
                return self.sleepers.wait(as_expected, deadline);
            }

            /// Loads the state. Relaxed: the load orders nothing.
            #[inline]
            pub fn peek(&self) -> $value {
                self.state.load(Ordering::Relaxed)
            }
        }
    };
}

wait_on!(
    /// A 64-bit state on whose low half threads can wait.
    ///
    /// ```
    /// use blockmill_sync::wait::{Deadline, WaitResult, WaitState};
    /// use std::time::Duration;
    ///
    /// let state = WaitState::new(7 | 1 << 32);
    /// // The low half is not 8, so the thread does not sleep.
    /// assert_eq!(state.wait(8, None), WaitResult::Changed);
    /// // The low half is 7 and no thread wakes: the thread sleeps until the deadline.
    /// let deadline = Deadline::after(Duration::from_millis(1));
    /// while state.wait(7, Some(&deadline)) == WaitResult::Woken {}
    /// assert_eq!(deadline.remaining(), None);
    /// ```
    WaitState,
    u64,
    AtomicU64,
    low_half_address
);

wait_on!(
    /// A word of 32 bits on which threads can wait.
    WaitWord,
    u32,
    AtomicU32,
    |state: &AtomicU32| state.as_ptr().cast_const()
);

/// The address that waiters of a [`WaitState`] or [`WaitWord`] sleep on.
///
/// Waking is allowed after the state is gone. If no thread sleeps at the address, nothing happens.
/// If threads sleep on another state at the same address, they wake spuriously.
#[cfg(not(blockmill_loom))]
#[derive(Debug, Clone, Copy)]
pub struct Address<'a>(*const u32, std::marker::PhantomData<&'a ()>);

/// The address that waiters of a [`WaitState`] or [`WaitWord`] sleep on.
#[cfg(blockmill_loom)]
#[derive(Debug, Clone, Copy)]
pub struct Address<'a>(&'a model::Sleepers);

impl Address<'_> {
    /// Wakes one sleeper, if there is one.
    #[inline]
    pub fn wake_one(self) {
        #[cfg(not(blockmill_loom))]
        platform::wake(self.0, false);
        #[cfg(blockmill_loom)]
        self.0.wake(false);
    }

    /// Wakes all sleepers.
    #[inline]
    pub fn wake_all(self) {
        #[cfg(not(blockmill_loom))]
        platform::wake(self.0, true);
        #[cfg(blockmill_loom)]
        self.0.wake(true);
    }
}

#[cfg(not(blockmill_loom))]
pub use clock::Deadline;
#[cfg(blockmill_loom)]
pub use model::Deadline;

/// Address of the low half.
#[cfg(not(blockmill_loom))]
fn low_half_address(state: &AtomicU64) -> *const u32 {
    let first = state.as_ptr().cast_const().cast::<u32>();
    if cfg!(target_endian = "little") {
        first
    } else {
        first.wrapping_add(1)
    }
}

#[cfg(not(blockmill_loom))]
mod clock {
    use std::time::{Duration, Instant};

    /// The moment at which a wait ends.
    #[derive(Debug, Clone, Copy)]
    pub struct Deadline(Option<Instant>);

    impl Deadline {
        /// A deadline `time` from now. If the clock cannot represent the moment, it never comes.
        pub fn after(time: Duration) -> Self {
            Self(Instant::now().checked_add(time))
        }

        /// Time that remains, or `None` once the moment has passed.
        pub fn remaining(&self) -> Option<Duration> {
            match self.0 {
                Some(moment) => moment
                    .checked_duration_since(Instant::now())
                    .filter(|time| !time.is_zero()),
                None => Some(Duration::MAX),
            }
        }
    }
}

/// Futexes.
#[cfg(all(not(blockmill_loom), target_os = "linux", not(blockmill_portable_wait)))]
mod platform {
    use super::{Deadline, WaitResult};

    /// Ignores `as_expected`: the operating system compares the value with `expected`.
    pub(super) fn wait(
        address: *const u32,
        expected: u32,
        _as_expected: impl Fn() -> bool,
        deadline: Option<&Deadline>,
    ) -> WaitResult {
        // A relative timeout: FUTEX_WAIT takes no other.
        let timeout = match deadline.map(Deadline::remaining) {
            Some(None) => return WaitResult::TimedOut,
            // A timeout too long for the operating system is as good as none.
            Some(Some(time)) => libc::time_t::try_from(time.as_secs())
                .ok()
                .map(|seconds| libc::timespec {
                    tv_sec: seconds,
                    tv_nsec: time.subsec_nanos().into(),
                }),
            None => None,
        };
        let timeout = timeout.as_ref().map_or(std::ptr::null(), |timeout| &raw const *timeout);
        #[expect(
            unsafe_code,
            reason = "the futex system call has no safe wrapper for one half of a word"
        )]
        // SAFETY: the operating system reads four bytes at `address` and writes nothing. The
        // address lies inside the state that the caller borrows, and is aligned to four bytes.
        // `timeout` is null or points to a local that outlives the call.
        let outcome = unsafe {
            libc::syscall(
                libc::SYS_futex,
                address,
                libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
                expected,
                timeout,
            )
        };
        if outcome != -1 {
            return WaitResult::Woken;
        }
        // A signal ends a sleep too. It counts as a wake, and the caller looks again.
        match std::io::Error::last_os_error().raw_os_error() {
            Some(libc::ETIMEDOUT) => WaitResult::TimedOut,
            Some(libc::EAGAIN) => WaitResult::Changed,
            _ => WaitResult::Woken,
        }
    }

    pub(super) fn wake(address: *const u32, all: bool) {
        // The operating system takes the count as signed.
        let count = if all { i32::MAX } else { 1 };
        #[expect(
            unsafe_code,
            reason = "the futex system call has no safe wrapper for one half of a word"
        )]
        // SAFETY: for a wake the operating system uses the address only as a key and reads nothing
        // there. So the address need not be valid any more.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                address,
                libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
                count,
            );
        }
    }
}

/// The table of sleepers of `parking_lot_core`.
#[cfg(all(not(blockmill_loom), any(not(target_os = "linux"), blockmill_portable_wait)))]
mod platform {
    use super::{Deadline, WaitResult};
    use parking_lot_core::{DEFAULT_PARK_TOKEN, DEFAULT_UNPARK_TOKEN, ParkResult, park, unpark_all, unpark_one};
    use std::time::Instant;

    pub(super) fn wait(
        address: *const u32,
        _expected: u32,
        as_expected: impl Fn() -> bool,
        deadline: Option<&Deadline>,
    ) -> WaitResult {
        let moment = match deadline.map(Deadline::remaining) {
            Some(None) => return WaitResult::TimedOut,
            Some(Some(time)) => Instant::now().checked_add(time),
            None => None,
        };
        #[expect(unsafe_code, reason = "parking is unsafe since keys are shared by the whole process")]
        // SAFETY: the key is an address inside our own object, so no other code parks on it. The
        // closures do not panic and do not call into `parking_lot_core`.
        let outcome = unsafe {
            park(
                address as usize,
                as_expected,
                || {},
                |_, _| {},
                DEFAULT_PARK_TOKEN,
                moment,
            )
        };
        match outcome {
            ParkResult::TimedOut => WaitResult::TimedOut,
            ParkResult::Unparked(_) => WaitResult::Woken,
            ParkResult::Invalid => WaitResult::Changed,
        }
    }

    pub(super) fn wake(address: *const u32, all: bool) {
        let key = address as usize;
        #[expect(unsafe_code, reason = "parking is unsafe since keys are shared by the whole process")]
        // SAFETY: the key is a number, used as in `wait`. The closure does not panic and does not
        // call into `parking_lot_core`.
        unsafe {
            if all {
                unpark_all(key, DEFAULT_UNPARK_TOKEN);
            } else {
                unpark_one(key, |_| DEFAULT_UNPARK_TOKEN);
            }
        }
    }
}

/// A model of sleeping for loom. The mutex stands for the operating system's lock of a queue of
/// sleepers. A waking thread takes the mutex after its change of the state. A waiter compares under
/// the mutex.
#[cfg(blockmill_loom)]
mod model {
    use super::WaitResult;
    use crate::atomic::{AtomicBool, Ordering};
    use loom::sync::{Arc, Condvar, Mutex};

    #[derive(Debug)]
    pub(super) struct Sleepers {
        queue: Mutex<()>,
        woken: Condvar,
    }

    impl Default for Sleepers {
        fn default() -> Self {
            Self {
                queue: Mutex::new(()),
                woken: Condvar::new(),
            }
        }
    }

    impl Sleepers {
        pub(super) fn wait(&self, as_expected: impl Fn() -> bool, deadline: Option<&Deadline>) -> WaitResult {
            let queue = self.queue.lock().unwrap();
            // Under the mutex, so that a deadline which passes together with a wake is seen by the
            // waiter.
            let passed = || deadline.is_some_and(Deadline::has_passed);
            if passed() {
                return WaitResult::TimedOut;
            }
            if !as_expected() {
                return WaitResult::Changed;
            }
            drop(self.woken.wait(queue).unwrap());
            if passed() {
                WaitResult::TimedOut
            } else {
                WaitResult::Woken
            }
        }

        pub(super) fn wake(&self, all: bool) {
            let _queue = self.queue.lock().unwrap();
            if all {
                self.woken.notify_all();
            } else {
                self.woken.notify_one();
            }
        }
    }

    /// A deadline that a model lets pass, at any point of an execution. The model must then wake
    /// the sleepers. Those wakes stand for spurious ends of sleeps too.
    #[derive(Debug, Clone)]
    pub struct Deadline(Arc<AtomicBool>);

    impl Deadline {
        /// A deadline that has not passed.
        pub fn in_the_future() -> Self {
            Self(Arc::new(AtomicBool::new(false)))
        }

        /// Lets the deadline pass.
        pub fn pass(&self) {
            self.0.store(true, Ordering::Release);
        }

        pub(super) fn has_passed(&self) -> bool {
            self.0.load(Ordering::Acquire)
        }
    }
}
