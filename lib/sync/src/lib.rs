//! Waiting on addresses, and what is built on it: a semaphore of 8 bytes in which newcomers cannot starve a waiter, a critical
//! section over it, and events.
//!
//! In reading order:
//! - [`atomic`]: the one doorway to atomics: those of `std`, or loom's under the cfg `blockmill_loom`;
//! - [`wait`]: wait on one half of a 64-bit state or on a word, wake those who wait;
//! - [`semaphore`]: the semaphore, its states, and the argument for them;
//! - [`critical_section`]: a lock over a semaphore of one permit, also through `lock_api`;
//! - [`event`]: events that reset by themselves or by hand;
//! - [`padding`], [`backoff`]: cache lines of one's own, and bounded spinning and yielding.
//!
//! ```
//! use blockmill_sync::{Mutex, Semaphore};
//!
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

pub mod atomic;
pub mod backoff;
pub mod critical_section;
pub mod event;
pub mod padding;
pub mod semaphore;
pub mod wait;

pub use backoff::Backoff;
pub use critical_section::{CriticalGuard, CriticalSection};
#[cfg(not(blockmill_loom))]
pub use critical_section::{Mutex, MutexGuard, RawCriticalSection};
pub use event::{AutoResetEvent, ManualResetEvent};
pub use padding::CachePadded;
pub use semaphore::{Permit, PermitOverflow, Semaphore};

#[cfg(all(test, blockmill_loom))]
mod tests;
