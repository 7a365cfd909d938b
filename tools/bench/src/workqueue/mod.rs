//! `blockmill-bench workqueue`: curves over threads. A requester hands jobs to worker threads and
//! collects their results. The contenders are the work queue, the two earlier forms that the
//! document improves on, channels, and a pool.
//!
//! The document's call is `threaded-workqueue-bench -r 4 -m 2 -c 20 -t N`. There the letters mean:
//! requests per thread, GiB of memory with one page compressed per request, repetitions,
//! threads. Here:
//!
//! | letter | |
//! |---|---|
//! | `-r 4` | slots for each worker; all slots together limit the jobs in flight |
//! | `-m 2` | MiB of constant memory; a job names a page and reads one word of it |
//! | `-c 20` | runs of each contender with each number of workers, in turns |
//! | `-t N` | workers; the requester is one more thread |
//!
//! A job then takes 0, 1 or 10 us of arithmetic. Its result depends on its number and on the word,
//! and the requester checks each result.
//!
//! In reading order: `job`; `runner`, the requester's loop; the contenders `ours`, `baseline_v0`
//! and `peers`; `table`.

mod baseline_v0;
mod job;
mod ours;
mod peers;
mod runner;
mod table;

pub(crate) use table::report;
