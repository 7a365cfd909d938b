//! What all benchmarks share: contenders that run in turns, the spread of their runs, processes of
//! their own, and a report as a table, as JSON and as a page.
//!
//! It links no peer and no part of Blockmill, so that every benchmark can use it, also the stores
//! in C and C++ of `bench-stores`.
//!
//! In reading order:
//! - `failure`: errors, and the check of a result;
//! - `clock`: wall and CPU time;
//! - `spread`: median and ends of several figures;
//! - `run`: one run, and the row that several runs make;
//! - `turns`: contenders that run in turns, in pairs;
//! - `process`: runs in processes of their own, and what the system says about them;
//! - `row`: a printed row;
//! - `report`: rows, claims, the text table, JSON;
//! - `page`, `chart`: the report as a page with curves;
//! - `machine`: the machine of the runs;
//! - `system`: its operating system and its disks;
//! - `coins`: coins for maps and stores.
//!
//! ```
//! use blockmill_harness::{Contender, Report, Row, Turns, timed};
//!
//! let add = |count: u64| std::hint::black_box((0..count).sum::<u64>());
//! let sum = |count: u64| move || Ok(timed(count, || add(count)).1);
//! let row = |name: &str| Row::new("sums").with("what", name);
//! let contenders = vec![
//!     Contender::new("few", row("few"), sum(1_000)),
//!     Contender::new("many", row("many"), sum(9_000)).beside_ours("few"),
//! ];
//! let mut report = Report::new("example", "sums of numbers", "example");
//! report.rows = Turns::new(3).take("sums", contenders, &mut |line| eprintln!("{line}"))?;
//! report.at_least("few over many", report.least("ratio_median", |_| true), 0.01);
//! assert!(report.claims[0].met);
//! # Ok::<(), blockmill_harness::Failure>(())
//! ```

mod chart;
mod clock;
pub mod coins;
mod failure;
mod machine;
mod page;
mod process;
mod report;
mod row;
mod run;
mod spread;
mod system;
mod turns;

pub use chart::{Axes, file as chart_file};
pub use clock::{Stopwatch, process_cpu_seconds, thread_cpu_seconds, timed};
pub use failure::{Failure, Wrong, at, same};
pub use machine::Machine;
pub use page::page;
pub use process::{Finished, finish, finish_watched, number_in, part, print, status_bytes};
pub use report::{Claim, Report};
pub use row::Row;
pub use run::Run;
pub use spread::Spread;
pub use system::{disk_of, free_bytes, operating_system};
pub use turns::{Clock, Contender, Progress, Turns, ratio};
