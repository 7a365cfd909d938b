//! `blockmill-bench semaphore`: two tables, the bare semaphore and the critical section, each
//! beside its peers.
//!
//! Threads pass through one permit or one lock as often as they can. They add to a plain count
//! inside, so that a lost addition shows a violation. Runs without clocks give the speed; runs with
//! timed passes give the waits.

mod peers;
mod posix;
mod runner;

use crate::options::Options;
use blockmill_harness::{Axes, Contender, Failure, Progress, Report, Row, Turns};
use blockmill_sync::{CriticalSection, Semaphore};
use peers::Counted;
use posix::PosixSemaphore;
use runner::{Passed, run};
use std::time::Duration;

/// Names of the two tables.
const SEMAPHORE: &str = "semaphore of one permit";
const SECTION: &str = "critical section";

const OURS: &str = "blockmill";
const STD: &str = "std Mutex";
const PARKING_LOT: &str = "parking_lot Mutex";

/// Most time by which the 99.99th percentile of the waits may exceed the fair share.
const WAIT_BEYOND_FAIR: Duration = Duration::from_millis(5);

/// A contender with its name: one run of so many threads, for so long.
type Lock = (
    &'static str,
    fn(usize, Duration) -> Result<blockmill_harness::Run, Failure>,
);

/// Makes a fresh lock for each run.
fn pass<C: Passed>(make: fn() -> C, threads: usize, time: Duration) -> Result<blockmill_harness::Run, Failure> {
    run(make, threads, time, WAIT_BEYOND_FAIR)
}

const SEMAPHORES: [Lock; 2] = [
    (OURS, |threads, time| {
        pass(|| Counted::new(Semaphore::new(1)), threads, time)
    }),
    ("sem_t", |threads, time| {
        pass(|| Counted::new(PosixSemaphore::new(1)), threads, time)
    }),
];

const SECTIONS: [Lock; 3] = [
    (OURS, |threads, time| {
        pass(|| Counted::new(CriticalSection::new()), threads, time)
    }),
    (STD, |threads, time| pass(|| std::sync::Mutex::new(0), threads, time)),
    (PARKING_LOT, |threads, time| {
        pass(|| parking_lot::Mutex::new(0), threads, time)
    }),
];

fn contenders(table: &str, locks: &[Lock], threads: usize, time: Duration) -> Vec<Contender<'static>> {
    let contender = |&(name, run): &Lock| {
        let row = Row::new(table).with("lock", name).with("threads", threads);
        let contender = Contender::new(name, row, move || run(threads, time));
        if name == OURS {
            contender
        } else {
            contender.beside_ours(OURS)
        }
    };
    locks.iter().map(contender).collect()
}

/// Runs the benchmark.
pub(crate) fn report(options: &Options, progress: Progress<'_>) -> Result<Report, Failure> {
    let title = "threads that pass through one permit, or one lock, as often as they can";
    let mut report = Report::new("semaphore", title, &options.command());
    let all = options.size(vec![1, 8], vec![1, 2, 8, 64], vec![1, 2, 3, 4, 8, 16, 32, 64]);
    let time = Duration::from_millis(options.size(5, 100, 300));
    for (table, locks) in [(SEMAPHORE, &SEMAPHORES[..]), (SECTION, &SECTIONS[..])] {
        for &threads in &all {
            let contenders = contenders(table, locks, threads, time);
            let title = format!("{table}, {threads} threads");
            report
                .rows
                .extend(Turns::new(options.size(1, 3, 5)).take(&title, contenders, progress)?);
        }
    }
    report.note(&[
        "a pass: acquire, add one to a count, release; speed from runs without clocks; ratio: the peer's time for a pass over ours",
        "waits from runs in which every pass is timed, the hold and the time without a core included, medians of the runs",
        "of limit: p99.99 as a share of 5 ms and the fair share, threads - 1 times the mean of hold and hand-over",
        "unluckiest: the fewest passes of a thread over the mean of all",
    ]);
    report.axes = Some(Axes {
        series: "lock",
        x: "threads",
        y: "per_second",
    });
    claims(&mut report);
    Ok(report)
}

fn claims(report: &mut Report) {
    let of = |lock: &'static str| move |row: &Row| row.table() == SECTION && row.is("lock", lock);
    for peer in [STD, PARKING_LOT] {
        let ratio = report.least("ratio_median", of(peer));
        report.at_least(&format!("section over {peer}, worst row"), ratio, 0.9);
    }
    let wait = report.most("of_limit", of(OURS));
    report.at_most("section: p99.99 of the wait over its limit, worst row", wait, 1.0);
    let wait = report.most("of_limit", of(STD));
    report.at_least("std Mutex: p99.99 of the wait over its limit, worst row", wait, 1.0);
    for table in [SEMAPHORE, SECTION] {
        let alone = |row: &Row| row.table() == table && row.number("threads") == Some(1.0);
        let ratio = report.least("ratio_median", alone);
        report.at_least(&format!("one thread: {table} over its fastest peer"), ratio, 0.95);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_take_the_worst_row() {
        let row = |table: &str, lock: &str, threads: usize, ratio: Option<f64>, of_limit: f64| {
            let row = Row::new(table).with("lock", lock).with("threads", threads);
            row.with("ratio_median", ratio).with("of_limit", of_limit)
        };
        let mut report = Report::new("semaphore", "", "");
        report.rows = vec![
            row(SEMAPHORE, "sem_t", 1, Some(1.2), 0.1),
            row(SECTION, OURS, 1, None, 0.1),
            row(SECTION, OURS, 8, None, 1.2),
            row(SECTION, STD, 1, Some(0.94), 0.1),
            row(SECTION, STD, 8, Some(2.0), 2.0),
            row(SECTION, PARKING_LOT, 8, Some(0.8), 0.1),
        ];
        claims(&mut report);
        let found: Vec<(f64, bool)> = report.claims.iter().map(|claim| (claim.value, claim.met)).collect();
        let expected = [
            (0.94, true),
            (0.8, false),
            (1.2, false),
            (2.0, true),
            (1.2, true),
            (0.94, false),
        ];
        assert_eq!(found, expected);
    }
}
