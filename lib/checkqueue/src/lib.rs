//! A lock-free queue of checks, in rounds that end with a verdict.
//!
//! A master adds checks to a round as it meets them; workers run them from the first one on; at the end the master learns whether all
//! passed, or which failed first in the order of adding, and why. Several rounds may be open at once, from one master or from several, and
//! end in any order; the oldest is served first (see [`Round`] for when it is not).
//!
//! - A check is constructed in its place and destroyed there; nothing moves, nothing is locked.
//! - A check that passes leads to a single write that other threads see: its claim, which may be for several.
//! - What the checks of a round read belongs to the round. It is dropped after the last check is destroyed, which is before
//!   the round's end. No soundness rests on a guard's drop: a forgotten round leaks at most its slot.
//! - After a failure the checks behind it are destroyed without being run; all before it are run, so the verdict does not depend on
//!   timing.
//! - A panic in a check is its failure.
//! - Checks so cheap that handing one over takes longer are run by the master. Whether they are is measured, now and then.
//!
//! In reading order:
//! - `check`: what a check is, and how it fails;
//! - `round`: the protocol of one round;
//! - `worth`: which checks a master keeps;
//! - `queue`: rounds, their masters, and the pool that serves them.
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
//! let queue = CheckQueue::alone(2)?;
//! let numbers: Arc<[u32]> = [2, 4, 7, 8, 9].into();
//! let mut round = queue.begin(numbers.len(), Arc::clone(&numbers)).unwrap();
//! round.add((0..numbers.len()).map(IsEven));
//! let failure = round.complete().unwrap_err();
//! assert_eq!(failure.index, 2);
//! assert!(matches!(failure.fault, Fault::Failed(7)));
//! # Ok::<(), std::io::Error>(())
//! ```

mod cell;

mod check;

mod round;

#[cfg(not(blockmill_loom))]
mod worth;

#[cfg(not(blockmill_loom))]
mod queue;

pub use check::{Check, Failure, Fault};
#[cfg(not(blockmill_loom))]
pub use queue::{CheckQueue, ClosedRound, ROUNDS_MAX, Round, TooManyRounds};

#[cfg(all(test, blockmill_loom))]
mod tests;
