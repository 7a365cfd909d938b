//! Locks, events and waiting for threads that contend: a semaphore of 8 bytes in which newcomers
//! cannot starve a waiter, a lock over it, and the address waits below them.
//!
//! A [`Semaphore`] bounds how many threads do something at once. A [`Mutex`] or a
//! [`CriticalSection`] lets one thread in at a time. Events let one thread signal others. All are
//! built on [`wait`], which sleeps on an address and wakes sleepers, as a futex does.
//!
//! ```
//! use blockmill_sync::{Mutex, Semaphore};
//!
//! // At most two threads add at once, and the mutex protects the total.
//! let slots = Semaphore::new(2);
//! let total = Mutex::new(0);
//! std::thread::scope(|scope| {
//!     for number in 0..8 {
//!         let (slots, total) = (&slots, &total);
//!         scope.spawn(move || {
//!             let _slot = slots.permit();
//!             *total.lock() += number;
//!         });
//!     }
//! });
//! assert_eq!(*total.lock(), 28);
//! assert_eq!(slots.permits(), 2);
//! ```
//!
//! # Modules
//!
//! In reading order:
//! - [`atomic`]: atomics of `std`, or loom's under the cfg `blockmill_loom`;
//! - [`wait`]: wait on one half of a 64-bit state or on a word, and wake the waiters;
//! - [`semaphore`]: the semaphore, its states, and why it loses no wake;
//! - [`critical_section`]: a lock over a semaphore of one permit, also through `lock_api`;
//! - [`event`]: auto-reset and manual-reset events;
//! - [`padding`]: values on cache lines of their own;
//! - [`backoff`]: bounded spinning and yielding;
//! - [`contain`](mod@contain): containment of panics in units of work.
//!
//! # Starvation
//!
//! An unlocking thread that locks again at once can keep a sleeping waiter out for long. Here a
//! waiter that has waited for [`STARVING_AFTER`](semaphore::STARVING_AFTER) closes the semaphore to
//! newcomers until it has its permit. [`semaphore`] states the exact bound. Below that time
//! newcomers may overtake, so a short hold costs no switch of threads.
//!
//! # Errors and panics
//!
//! Releasing more than [`PERMITS_MAX`](semaphore::PERMITS_MAX) permits is the error
//! [`PermitOverflow`]. [`Semaphore::new`] panics for more permits. Nothing else fails. Locks are
//! not poisoned by a panic.
//!
//! # Loom
//!
//! With `--cfg blockmill_loom` in `RUSTFLAGS`, all types run under loom. Constructors are then not
//! `const`, and [`Mutex`] and the methods that take a [`Duration`](std::time::Duration) are
//! missing.

#[cfg(not(target_pointer_width = "64"))]
compile_error!("blockmill-sync is made for 64-bit processors: on others a futex takes another form of time");

pub mod atomic;
pub mod backoff;
pub mod contain;
pub mod critical_section;
pub mod event;
pub mod padding;
pub mod semaphore;
pub mod wait;

pub use backoff::Backoff;
pub use contain::{Panic, contain};
pub use critical_section::{CriticalGuard, CriticalSection};
#[cfg(not(blockmill_loom))]
pub use critical_section::{Mutex, MutexGuard, RawCriticalSection};
pub use event::{AutoResetEvent, ManualResetEvent};
pub use padding::CachePadded;
pub use semaphore::{OwnedPermit, Permit, PermitOf, PermitOverflow, Semaphore};

#[cfg(all(test, blockmill_loom))]
mod tests;

/// Compiles and runs the example of the README.
#[cfg(all(doctest, not(blockmill_loom)))]
#[doc = include_str!("../README.md")]
struct Readme;
