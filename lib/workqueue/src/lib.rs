//! A work queue: requesters put jobs into slots, workers handle the jobs there, and requesters find
//! the results in the same slots.
//!
//! - A job never moves between its submission and its collection. The handler turns the job into
//!   its own result, in its slot.
//! - A slot changes hands by one bit of a word that only its requester writes. The slot comes back
//!   by one bit of a word that only the thread that handled the job writes. Neither step takes a
//!   lock, and no two requesters or two workers write one cache line at the same time.
//! - Several requesters may use a queue at once, each with slots of its own.
//! - All threads read the handler and the sizes. Both never change.
//! - Results arrive in the order of submission, or as jobs finish. A job that panics yields an
//!   error instead of its result.
//! - A requester that waits handles jobs itself, unless [`Help`] says otherwise.
//! - All queues are bounded: [`Requester::capacity`] jobs per requester. A full queue returns the
//!   job ([`Full`]).
//!
//! # Example
//!
//! One requester submits two jobs and collects the results in order. `examples/requesters.rs` has
//! several requesters and both orders of collection.
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
//! let queue = WorkQueue::with_own_threads(Squares, &Options::default())?;
//! let mut requester = queue.requester();
//! for number in 1..=2 {
//!     assert!(requester.submit(number).is_ok());
//! }
//! assert_eq!(*requester.collect_next().unwrap().unwrap(), 1);
//! assert_eq!(*requester.collect_next().unwrap().unwrap(), 4);
//! assert!(requester.collect_next().is_none());
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! # Modules
//!
//! Each uses only those before it in this list:
//!
//! - `slot_ring`: the slots, the words that say who owns them, and the argument for both;
//! - `notifier`: waking a requester that sleeps;
//! - `options`: numbers of workers and slots;
//! - `handler`: the work to do on a job;
//! - `requester_queue`: what a requester shares with the workers;
//! - `dispatcher`: the queue as a work source of a pool;
//! - `results`: what submission and collection return;
//! - `order`: the order of a requester's jobs;
//! - `requester`: submission and collection;
//! - `queue`: the queue.

#[cfg(not(blockmill_loom))]
mod dispatcher;
#[cfg(not(blockmill_loom))]
mod handler;
#[cfg(not(blockmill_loom))]
mod queue;

#[cfg(not(blockmill_loom))]
mod options;
#[cfg(not(blockmill_loom))]
mod order;
#[cfg(not(blockmill_loom))]
mod requester;
#[cfg(not(blockmill_loom))]
mod results;

#[cfg(not(blockmill_loom))]
mod requester_queue;

mod cell;
mod notifier;
#[cfg_attr(blockmill_loom, expect(dead_code, reason = "models use a part of it"))]
mod slot_ring;

#[cfg(not(blockmill_loom))]
pub use handler::{FnHandler, Handler, handler};
#[cfg(not(blockmill_loom))]
pub use options::{Help, Options};
#[cfg(not(blockmill_loom))]
pub use queue::WorkQueue;
#[cfg(not(blockmill_loom))]
pub use requester::{Done, Requester};
#[cfg(not(blockmill_loom))]
pub use results::{Full, Panicked, Ticket};

#[cfg(all(test, blockmill_loom))]
mod tests;

/// The example of the README, as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
