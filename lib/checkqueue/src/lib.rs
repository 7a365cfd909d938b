//! A lock-free queue of checks, in rounds that end with a verdict.
//!
//! A master is a thread that adds checks to a round as it meets them. Workers run the checks from
//! the first one on. At the end of the round the master learns whether all checks passed, or which
//! failed first in the order of addition, and why. One or several masters may have several rounds
//! open at once, and end them in any order. Workers serve the oldest round first ([`Round`] has the
//! exception).
//!
//! - A check is constructed, run and destroyed at one address. Nothing moves, and nothing
//!   is locked.
//! - A check that passes causes a single write that other threads see: its claim. One claim may
//!   cover several checks.
//! - The data that the checks of a round read belongs to the round. It is dropped after the last
//!   check is destroyed, before the round ends. No soundness rests on a guard's drop: leaking a
//!   round leaks at most its slot.
//! - After a failure, later checks are destroyed without a run, and all earlier checks run. So the
//!   verdict does not depend on timing.
//! - A panic in a check is a failure of the check.
//! - At most [`ROUNDS_MAX`] rounds are open at once. Checks beyond the capacity of a round run on
//!   the master.
//!
//! # Example
//!
//! A round of five checks finds the lowest odd number. `examples/primes.rs` is a round of real
//! work.
//!
//! ```
//! use blockmill_checkqueue::{Check, CheckQueue, Fault};
//! use std::sync::Arc;
//!
//! struct IsEven(usize);
//!
//! impl Check for IsEven {
//!     type Shared = Arc<[u32]>;
//!     type Error = u32;
//!
//!     fn run(&mut self, numbers: &Arc<[u32]>) -> Result<(), u32> {
//!         let number = numbers[self.0];
//!         if number % 2 == 0 { Ok(()) } else { Err(number) }
//!     }
//! }
//!
//! let queue = CheckQueue::with_own_threads(2)?;
//! let numbers: Arc<[u32]> = [2, 4, 7, 8, 9].into();
//! let mut round = queue.begin(numbers.len(), Arc::clone(&numbers)).unwrap();
//! round.add((0..numbers.len()).map(IsEven));
//! let failure = round.complete().unwrap_err();
//! assert_eq!(failure.index, 2);
//! assert!(matches!(failure.fault, Fault::Failed(7)));
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! # Modules, in reading order
//!
//! - `check`: checks and their failures;
//! - `round`: the protocol of one round;
//! - `queue`: rounds, their masters, and the pool that serves them.

mod cell;

mod check;

mod round;

#[cfg(not(blockmill_loom))]
mod queue;

pub use check::{Check, Failure, Fault};
#[cfg(not(blockmill_loom))]
pub use queue::{CheckQueue, ClosedRound, ROUNDS_MAX, Round, TooManyRounds};

#[cfg(all(test, blockmill_loom))]
mod tests;

/// The example of the README, as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
