//! `blockmill-bench semaphore`: two tables, the bare semaphore and the critical section, each
//! beside its peers.
//!
//! Threads pass through one permit or one lock as often as they can, and count inside, so that each
//! run shows that they were alone there. A run without clocks gives the speed; another, in which
//! every pass is timed, gives the waits.

mod drive;
mod histogram;
pub(crate) mod kernel_object;
mod peers;
mod posix;
mod table;

pub(crate) use table::report;
