//! One pool of worker threads for all parts of a program that have work.
//!
//! A [`ThreadPool`] is a fixed number of worker threads. Each part of the program that has work
//! implements [`WorkSource`] and registers with a priority. Workers serve the work source of the
//! lowest priority number first. Work that borrows from the stack goes through
//! [`Helpers::scope`].
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
//!
//! A work source keeps its own queue, in whatever form is best for its work. The pool asks it for
//! pending work and lets workers serve it:
//!
//! ```
//! use blockmill_pool::{Panic, ThreadPool, ThreadPoolOptions, WorkSource};
//! use std::sync::{Arc, Mutex, mpsc};
//!
//! struct Squares {
//!     numbers: Mutex<Vec<u64>>,
//!     results: mpsc::Sender<u64>,
//! }
//!
//! impl WorkSource for Squares {
//!     fn pending(&self) -> usize {
//!         self.numbers.lock().unwrap().len()
//!     }
//!     fn serve(&self, _worker: usize) {
//!         let number = self.numbers.lock().unwrap().pop();
//!         if let Some(number) = number {
//!             self.results.send(number * number).unwrap();
//!         }
//!     }
//!     fn panicked(&self, panic: Panic) {
//!         eprintln!("{panic}");
//!     }
//! }
//!
//! let (results, squares) = mpsc::channel();
//! let source = Arc::new(Squares { numbers: Mutex::default(), results });
//! let pool = ThreadPool::new(&ThreadPoolOptions::workers(2))?;
//! let handle = pool.register(0, source.clone());
//!
//! source.numbers.lock().unwrap().extend([1, 2, 3]);
//! handle.notify();
//! assert_eq!(squares.iter().take(3).sum::<u64>(), 14);
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! # When workers are awake
//!
//! All waking, spinning and parking is here, in one way for all work sources.
//!
//! - A thread that makes work for a while registers as a producer
//!   ([`WorkSourceHandle::register_producer`]). While there are producers, and fewer of them than
//!   cores, idle workers stay awake for [`AWAKE_FOR`] before they park. Otherwise they park after a
//!   brief spin.
//! - [`WorkSourceHandle::notify`] wakes a worker only while fewer than `cores - producers` workers
//!   are awake, and none is searching for work. So more threads than cores cost nothing. There are
//!   two exceptions. Registering or removing a work source wakes all workers once. A worker that
//!   parks at the very moment of a notification may find the work by itself.
//! - A wake waits for no lock. It takes the worker that parked last: its cache is warm. On which
//!   core the worker starts is the operating system's choice.
//!
//! # Errors and panics
//!
//! Only starting threads can fail. A worker catches a panic of a unit of work and passes it to the
//! work source as a [`Panic`]. A panic of a job is resumed by [`Helpers::scope`]. A panic in
//! another method of a work source aborts the process.
//!
//! # Modules
//!
//! Each uses only those before it in this list:
//! - `work_source`: what a pool asks of a source of work;
//! - `sleep`: which workers are awake;
//! - `worker`: the list of work sources, and the workers that serve them;
//! - `handle`: registration of work sources and producers;
//! - `threads`: the threads of a pool start and end;
//! - `jobs`: the queue of jobs;
//! - `helpers`: a handle through which callers give jobs of one priority;
//! - `scope`: jobs that borrow;
//! - `spawn`: jobs that own what they use, and pairs of jobs;
//! - `in_order`: work on many items, and results in the order of the items;
//! - `pool`: the pool, with all of these.

#[cfg(not(blockmill_loom))]
mod work_source;

#[cfg_attr(blockmill_loom, expect(dead_code, reason = "models use a part of it"))]
mod sleep;

#[cfg(not(blockmill_loom))]
mod worker;

#[cfg(not(blockmill_loom))]
mod handle;

#[cfg(not(blockmill_loom))]
mod threads;

#[cfg(not(blockmill_loom))]
mod jobs;

#[cfg(not(blockmill_loom))]
mod helpers;

#[cfg(not(blockmill_loom))]
mod scope;

#[cfg(not(blockmill_loom))]
mod spawn;

#[cfg(not(blockmill_loom))]
mod in_order;

#[cfg(not(blockmill_loom))]
mod pool;

#[cfg(not(blockmill_loom))]
pub use crate::{
    handle::{Producer, WorkSourceHandle},
    helpers::Helpers,
    pool::ThreadPool,
    scope::Scope,
    spawn::JoinHandle,
    threads::ThreadPoolOptions,
    work_source::WorkSource,
    worker::AWAKE_FOR,
};
pub use blockmill_sync::{Panic, contain};

#[cfg(all(test, blockmill_loom))]
mod tests;

/// Compiles and runs the example of the README.
#[cfg(all(doctest, not(blockmill_loom)))]
#[doc = include_str!("../README.md")]
struct Readme;
