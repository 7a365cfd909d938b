//! A work queue: requesters put jobs into slots, workers handle them there, and the requesters find the results in the same slots.
//!
//! - A job does not move between its submission and its collection; its result is what the handler makes of it.
//! - A slot changes hands by one bit of a word that only its requester writes, and comes back by one bit of a word that only who handled it
//!   writes. No lock is taken, and no cache line is written by two requesters or by two workers at once.
//! - A requester fills the slots of one worker before it goes on to the next; the number of jobs in a row follows from how long they take.
//! - Several requesters may use a queue at once, each with slots of its own.
//! - What all threads read, the handler and the sizes, does not change.
//! - Results are collected in the order of submission, or as jobs are completed. A job that panics gives an error in its place.
//! - A requester that waits handles jobs itself, keeps those that take less time than to hand them over, and shares small ones with the
//!   workers ([`Help`]).
//!
//! In reading order:
//! - `lane`: the slots, the words that say whose they are, and the argument for them;
//! - `bell`: how a requester that sleeps is woken;
//! - `desk`: what a requester shares with the workers;
//! - `requester`: submitting and collecting;
//! - `order`, `pace`: the order of a requester's jobs, and how long they take;
//! - `results`: what is collected;
//! - `queue`: the handler, the queue, its place in a pool;
//! - `options`: numbers of workers and slots.
//!
//! ```
//! use blockmill_workqueue::{Handler, Options, WorkQueue};
//!
//! struct Squares;
//!
//! impl Handler for Squares {
//!     type Job = u64;
//!
//!     fn handle(&self, job: &mut u64) {
//!         *job *= *job;
//!     }
//! }
//!
//! let queue = WorkQueue::alone(Squares, &Options::default())?;
//! let mut requester = queue.requester();
//! for number in 1..=2 {
//!     assert!(requester.submit(number).is_ok());
//! }
//! assert_eq!(*requester.collect_next().unwrap().unwrap(), 1);
//! assert_eq!(*requester.collect_next().unwrap().unwrap(), 4);
//! assert!(requester.collect_next().is_none());
//! # Ok::<(), std::io::Error>(())
//! ```

#[cfg(not(blockmill_loom))]
mod queue;

#[cfg(not(blockmill_loom))]
mod options;
#[cfg(not(blockmill_loom))]
mod order;
#[cfg(not(blockmill_loom))]
mod pace;
#[cfg(not(blockmill_loom))]
mod requester;
#[cfg(not(blockmill_loom))]
mod results;

#[cfg(not(blockmill_loom))]
mod desk;

mod bell;
mod cell;
#[cfg_attr(blockmill_loom, expect(dead_code, reason = "models use a part of it"))]
mod lane;

#[cfg(not(blockmill_loom))]
pub use options::{Help, Options};
#[cfg(not(blockmill_loom))]
pub use queue::{Handler, WorkQueue};
#[cfg(not(blockmill_loom))]
pub use requester::Requester;
#[cfg(not(blockmill_loom))]
pub use results::{Done, Full, Panicked, Ticket};

#[cfg(all(test, blockmill_loom))]
mod tests;
