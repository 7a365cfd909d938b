//! One pool of worker threads for everything that has work to hand out.
//!
//! A [`WorkSource`] hands out units of work; a [`ThreadPool`] is a number of threads that serve its work sources, the one of highest priority
//! first. Waking, spinning, parking and catching panics are done here, in one way for all work sources:
//!
//! - While somebody attends a work source (a master that adds work), idle workers stay awake for [`AWAKE_FOR`] before they park, if there are
//!   more cores than threads that attend; else they park after a brief spin.
//! - Nobody is woken for work when as many workers are awake as there are cores for, less those that attend. So more threads than cores cost nothing. (When
//!   a work source comes or goes all are woken once; one that parks at the very moment of a notification may find the work by itself.)
//! - Waking waits for no lock, and wakes the worker that parked last, on another core than that of who wakes it.
//! - A panic in a unit of work is caught and given to its work source. Dropping the pool ends and joins its threads.
//!
//! In reading order:
//! - `work source`: what hands out work, and its place in a pool;
//! - `pool`: the threads;
//! - `sleep`: which of them are awake;
//! - `cores`: on which cores a woken one runs first;
//! - `scope`: jobs that borrow;
//! - `contain`: panics.
//!
//! ```
//! use blockmill_pool::{ThreadPool, ThreadPoolOptions};
//!
//! let pool = ThreadPool::new(&ThreadPoolOptions::default())?;
//! let mut halves = [0; 2];
//! let (first, second) = halves.split_at_mut(1);
//! pool.scope(|scope| {
//!     scope.spawn(|| first[0] = (0..500).sum());
//!     scope.spawn(|| second[0] = (500..1_000).sum());
//! });
//! assert_eq!(halves, [124_750, 374_750]);
//! # Ok::<(), std::io::Error>(())
//! ```

#[cfg(not(blockmill_loom))]
mod work_source;

#[cfg(not(blockmill_loom))]
mod pool;

mod cores;

#[cfg_attr(blockmill_loom, expect(dead_code, reason = "models use a part of it"))]
mod sleep;

#[cfg(not(blockmill_loom))]
mod scope;

mod contain;

pub use contain::{Panic, contain};
#[cfg(not(blockmill_loom))]
pub use pool::{AWAKE_FOR, ThreadPool, ThreadPoolOptions};
#[cfg(not(blockmill_loom))]
pub use scope::Scope;
#[cfg(not(blockmill_loom))]
pub use work_source::{Producer, WorkSource, WorkSourceHandle};

#[cfg(all(test, blockmill_loom))]
mod tests;
