//! `blockmill-bench semaphore`: two tables, the bare semaphore and the critical section, each
//! beside its peers.
//!
//! Threads pass through one permit or one lock as often as they can. They add to a plain count
//! inside, so that a lost addition shows a violation. Runs without clocks give the speed; runs with
//! timed passes give the waits.

mod histogram;
pub(crate) mod kernel_object;
mod peers;
mod posix;
mod runner;
mod table;

pub(crate) use table::report;
