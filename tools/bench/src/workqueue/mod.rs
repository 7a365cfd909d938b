//! `blockmill-bench workqueue`: curves over threads. A requester hands jobs to worker threads and
//! collects their results, with the work queue, with the two shapes that the document improves on,
//! and with channels and a pool of others.
//!
//! The document's call is `threaded-workqueue-bench -r 4 -m 2 -c 20 -t N`. There the letters mean:
//! requests per thread, GiB of memory whose pages are compressed one per request, repetitions,
//! threads. Here:
//!
//! | letter | |
//! |---|---|
//! | `-r 4` | so many slots for each worker; no more jobs than the slots of all workers are in flight |
//! | `-m 2` | so many MiB of memory that does not change; a job reads one word of the page that it names |
//! | `-c 20` | so many runs of each contender with each number of workers, in turns |
//! | `-t N` | workers; the requester is a thread more |
//!
//! A job then takes 0, 1 or 10 us of arithmetic. Its result depends on its number and on the word
//! read, and the requester checks each.
//!
//! In reading order: `job`; `drive`, the requester's loop; `ours`, `shape_before`, `peers`, the
//! contenders; `table`.

mod drive;
mod job;
mod ours;
mod peers;
mod shape_before;
mod table;

pub(crate) use table::report;
