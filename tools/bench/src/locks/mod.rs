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
use blockmill_harness::{Axes, Contender, Failure, Progress, Report, Row, Run, Turns};
use blockmill_sync::{CriticalSection, Semaphore};
use peers::Counted;
use posix::PosixSemaphore;
use runner::run;
use std::time::Duration;

/// Names of the two tables.
const SEMAPHORE: &str = "semaphore of one permit";
const SECTION: &str = "critical section";

const OURS: &str = "blockmill";
const STD: &str = "std Mutex";
const PARKING_LOT: &str = "parking_lot Mutex";

/// A contender with its name: one run of so many threads, for so long.
type NamedRun = (&'static str, fn(usize, Duration) -> Result<Run, Failure>);

const SEMAPHORES: [NamedRun; 2] = [
    (OURS, |threads, time| {
        run(|| Counted::new(Semaphore::new(1)), threads, time)
    }),
    ("sem_t", |threads, time| {
        run(|| Counted::new(PosixSemaphore::new(1)), threads, time)
    }),
];

const SECTIONS: [NamedRun; 3] = [
    (OURS, |threads, time| {
        run(|| Counted::new(CriticalSection::new()), threads, time)
    }),
    (STD, |threads, time| run(|| std::sync::Mutex::new(0), threads, time)),
    (PARKING_LOT, |threads, time| {
        run(|| parking_lot::Mutex::new(0), threads, time)
    }),
];

/// Runs the benchmark.
pub(crate) fn report(options: &Options, progress: Progress<'_>) -> Result<Report, Failure> {
    let title = "threads that pass through one permit, or one lock, as often as they can";
    let mut report = Report::new("semaphore", title, &options.command());
    let all = options.size(vec![1, 8], vec![1, 2, 8, 64], vec![1, 2, 3, 4, 8, 16, 32, 64]);
    let time = Duration::from_millis(options.size(5, 100, 300));
    for (table, locks) in [(SEMAPHORE, &SEMAPHORES[..]), (SECTION, &SECTIONS[..])] {
        for &threads in &all {
            let contenders = locks.iter().map(|&(name, run)| {
                let row = Row::new(table).with("lock", name).with("threads", threads);
                Contender::new(name, row, move || run(threads, time)).beside_ours(OURS)
            });
            let title = format!("{table}, {threads} threads");
            report
                .rows
                .extend(Turns::new(options.size(1, 3, 5)).take(&title, contenders.collect(), progress)?);
        }
    }
    report.note(&[
        "a pass: acquire, add one to a count, release; speed from runs without clocks; ratio: the peer's time for a pass over ours",
        "longest wait: from runs in which every pass is timed, the hold and the time without a core included, median of the runs",
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
    let longest = |lock| report.most("wait_longest_ms", of(lock));
    let times = longest(STD).zip(longest(OURS)).map(|(peer, ours)| peer / ours);
    report.at_least("longest wait of all rows: std Mutex over the section", times, 1.0);
    let alone = |row: &Row| row.table() == SEMAPHORE && row.number("threads") == Some(1.0);
    let ratio = report.least("ratio_median", alone);
    report.at_least(&format!("one thread: {SEMAPHORE} over its fastest peer"), ratio, 0.95);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_take_the_worst_row() {
        let row = |table: &str, lock: &str, threads: usize, ratio: Option<f64>, longest: f64| {
            let row = Row::new(table).with("lock", lock).with("threads", threads);
            row.with("ratio_median", ratio).with("wait_longest_ms", longest)
        };
        let mut report = Report::new("semaphore", "", "");
        report.rows = vec![
            row(SEMAPHORE, "sem_t", 1, Some(1.2), 9.0),
            row(SECTION, OURS, 1, None, 1.0),
            row(SECTION, OURS, 8, None, 4.0),
            row(SECTION, STD, 1, Some(0.94), 0.1),
            row(SECTION, STD, 8, Some(2.0), 2.0),
            row(SECTION, PARKING_LOT, 8, Some(0.8), 0.1),
        ];
        claims(&mut report);
        let found: Vec<(f64, bool)> = report.claims.iter().map(|claim| (claim.value, claim.met)).collect();
        let expected = [(0.94, true), (0.8, false), (0.5, false), (1.2, true)];
        assert_eq!(found, expected);
    }
}
