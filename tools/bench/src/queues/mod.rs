//! `blockmill-bench checkqueue` and `blockmill-bench workqueue`.
//!
//! *Check queue.* The master adds the checks of a round in groups of 1 to 10, like those of a
//! block's transactions, and checks begin at once. At the end the master learns the lowest index of
//! a failed check. A check is a value of 64 bytes, about the size of Bitcoin Core's. The master
//! makes it, and the thread that runs it destroys it.
//!
//! *Work queue.* A requester hands jobs to worker threads, collects their results in any order, and
//! checks each.
//!
//! In reading order: `job`, the checks and their work; `contenders` and `locked`, the check queues;
//! `work`, the work queues.

mod contenders;
mod job;
mod locked;
mod work;

use crate::options::Options;
use blockmill_harness::{Axes, Contender, Failure, Progress, Report, Row, Run, Turns, same, timed};
use contenders::Rounds;
use job::{CHANNEL, CHILI, Job, LOCKED, OURS, RAYON, Work, steps_that_take};
use std::sync::Arc;
use std::time::Duration;

const EMPTY: &str = "empty checks";
const SMALL: &str = "small checks of 1 us";

/// Time of a small check.
const SMALL_TIME: Duration = Duration::from_micros(1);

/// A kind of checks, and the number of rounds in a run.
struct Kind {
    table: &'static str,
    work: Work,
    checks: u32,
    rounds: u32,
}

impl Kind {
    /// Makes a queue, and runs rounds in it. Starting and ending the queue's threads is not timed.
    fn run(&self, queue: &'static str, threads: usize) -> Result<Run, Failure> {
        // With many threads a round of a locked queue takes long.
        let rounds = self.rounds.div_ceil(if threads < 32 { 1 } else { 4 });
        let contender = contender(queue, threads)?;
        let job = Arc::new(Job::new(self.work.clone(), self.checks));
        let failing = Arc::new(job.failing());
        let round = |job: &Arc<Job>| same(queue, "lowest failed check", contender.round(job), job.expected());
        // All threads start and come to rest. Then comes an untimed round.
        std::thread::sleep(Duration::from_millis(5));
        round(&job)?;
        let checks = u64::from(self.checks) * u64::from(rounds);
        // The threads of the queue are at rest between rounds, as between blocks.
        let (all, run) = timed(checks, || (0..rounds).try_for_each(|_| round(&job)));
        all?;
        round(&failing)?;
        round(&job)?;
        Ok(run)
    }
}

/// A queue with `threads` threads.
fn contender(queue: &'static str, threads: usize) -> Result<Box<dyn Rounds>, Failure> {
    Ok(match queue {
        OURS => Box::new(contenders::Ours::new(threads)?),
        LOCKED => Box::new(locked::Locked::new(threads)?),
        RAYON => Box::new(contenders::Rayon::new(threads)?),
        CHANNEL => Box::new(contenders::Channel::new(threads)?),
        _ => Box::new(contenders::Chili::new(threads)),
    })
}

/// The curves of both benchmarks.
fn axes(x: &'static str) -> Option<Axes> {
    Some(Axes {
        series: "queue",
        x,
        y: "per_second",
    })
}

/// Runs the benchmark of check queues.
pub(crate) fn checks(options: &Options, progress: Progress<'_>) -> Result<Report, Failure> {
    let title = "rounds of checks that a master adds in groups of 1 to 10, to the verdict";
    let mut report = Report::new("checkqueue", title, &options.command());
    let small = Work::Small(steps_that_take(SMALL_TIME));
    let kind = |table, work, checks, rounds| Kind {
        table,
        work,
        checks,
        rounds,
    };
    let kinds = [
        kind(
            EMPTY,
            Work::Empty,
            options.size(300, 5_000, 5_000),
            options.size(3, 8, 40),
        ),
        kind(SMALL, small, options.size(100, 5_000, 5_000), options.size(2, 4, 20)),
    ];
    for kind in &kinds {
        for threads in options.size(vec![1, 2, 8], vec![1, 2, 8, 64], vec![1, 2, 3, 4, 8, 16, 32, 64]) {
            let contenders = [OURS, LOCKED, RAYON, CHANNEL, CHILI].map(|queue| {
                let row = Row::new(kind.table).with("queue", queue).with("threads", threads);
                let contender = Contender::new(queue, row, move || kind.run(queue, threads));
                if queue == OURS {
                    contender
                } else {
                    contender.beside_ours(OURS)
                }
            });
            let title = format!("{}, {threads} threads", kind.table);
            let rows = Turns::new(options.size(1, 3, 11)).take(&title, contenders.into(), progress)?;
            report.rows.extend(rows);
        }
    }
    report.note(&[
        "threads: the master is one of them, and runs checks too after adding all; ratio: the queue's time over ours",
        "locked: one mutex and two condition variables, as Bitcoin Core's; chili gets all groups at once",
        "each run ends with an untimed round in which two checks fail: the queue must name the lower one",
    ]);
    report.axes = axes("threads");
    check_claims(&mut report);
    Ok(report)
}

fn check_claims(report: &mut Report) {
    let of = |tables: &'static [&'static str], queues: &'static [&'static str], threads_min: f64| {
        move |row: &Row| {
            let threads = row.number("threads").unwrap_or(0.0);
            tables.contains(&row.table()) && threads >= threads_min && queues.iter().any(|queue| row.is("queue", queue))
        }
    };
    let ratio = report.least("ratio_median", of(&[EMPTY], &[LOCKED], 8.0));
    report.at_least("empty: over the locked queue, worst of 8 and more threads", ratio, 5.7);
    let ratio = report.least("ratio_median", of(&[EMPTY, SMALL], &[LOCKED], 1.0));
    report.at_least("over the locked queue, worst row of all", ratio, 0.97);
    let ratio = report.least("ratio_median", of(&[EMPTY, SMALL], &[RAYON, CHANNEL, CHILI], 1.0));
    report.at_least(
        "empty and small: over rayon, crossbeam-channel and chili, worst row",
        ratio,
        1.0,
    );
}

/// Runs the benchmark of work queues.
pub(crate) fn work(options: &Options, progress: Progress<'_>) -> Result<Report, Failure> {
    let title = "a requester that hands jobs to worker threads and collects their results";
    let mut report = Report::new("workqueue", title, &options.command());
    let all = options.size(
        vec![1, 3],
        vec![1, 2, 8, 64],
        vec![1, 2, 3, 4, 6, 8, 12, 16, 20, 24, 32, 48, 64],
    );
    let time = Duration::from_millis(options.size(2, 40, 40));
    for job_us in options.size(vec![0], vec![0, 1], vec![0, 1, 10]) {
        let table = format!("jobs of {job_us} us");
        let load = Arc::new(work::Load::new(Duration::from_micros(job_us)));
        for &workers in &all {
            let contenders = work::QUEUES.iter().map(|&(queue, run)| {
                let row = Row::new(&table).with("queue", queue).with("workers", workers);
                let load = &load;
                let contender = Contender::new(queue, row, move || run(load, workers, time));
                if queue == work::QUEUES[0].0 {
                    contender
                } else {
                    contender.beside_ours(work::QUEUES[0].0)
                }
            });
            let title = format!("{table}, {workers} workers");
            let rows = Turns::new(options.size(1, 5, 20)).take(&title, contenders.collect(), progress)?;
            report.rows.extend(rows);
        }
        let ours = |row: &Row| row.table() == table && row.is("queue", OURS);
        let peak = report.most("per_second", ours);
        let peak_workers = report.least("workers", |row| ours(row) && row.number("per_second") == peak);
        let beyond = |row: &Row| ours(row) && row.number("workers") >= peak_workers;
        let kept = report
            .least("per_second", beyond)
            .zip(peak)
            .map(|(least, peak)| least / peak);
        let name = format!("{table}: ours over its peak, worst number of workers from there on");
        report.at_least(&name, kept, 0.9);
        let others = |row: &Row| row.table() == table && (row.is("queue", CHANNEL) || row.is("queue", RAYON));
        let name = format!("{table}: ours over any other, worst number of workers");
        report.at_least(&name, report.least("ratio_median", others), 1.0);
    }
    report.notes.push(format!(
        "{} slots for each worker; a job reads a word of 2 MiB; runs of {} ms; the requester is a thread more than the workers",
        work::SLOTS_PER_WORKER,
        time.as_millis()
    ));
    report.note(&[
        "the requester submits while slots are free, waits for a job, collects all finished ones, and checks each result",
        "blockmill: the requester helps while it waits, and keeps tiny jobs and some of the small ones; workers only: it hands over all",
        "rayon: as many jobs as there are slots spawned at a time, the requester being one of the pool's threads",
    ]);
    report.axes = axes("workers");
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_queue_finds_the_lowest_failure() {
        let kind = Kind {
            table: SMALL,
            work: Work::Small(10),
            checks: 300,
            rounds: 2,
        };
        for threads in [1, 2, 8] {
            for queue in [OURS, LOCKED, RAYON, CHANNEL, CHILI] {
                assert_eq!(kind.run(queue, threads).unwrap().count, 600, "{queue}");
            }
        }
    }

    #[test]
    fn claims_take_the_worst_row() {
        let row = |table: &str, queue: &str, threads: usize, ratio: Option<f64>, speed: f64| {
            let row = Row::new(table).with("queue", queue).with("threads", threads);
            row.with("ratio_median", ratio).with("per_second", speed)
        };
        let mut report = Report::new("checkqueue", "", "");
        report.rows = vec![
            row(EMPTY, LOCKED, 2, Some(1.5), 1.0),
            row(EMPTY, LOCKED, 8, Some(6.0), 1.0),
            row(EMPTY, CHILI, 8, Some(0.9), 1.0),
            row(SMALL, LOCKED, 2, Some(0.95), 1.0),
        ];
        check_claims(&mut report);
        let found: Vec<(f64, bool)> = report.claims.iter().map(|claim| (claim.value, claim.met)).collect();
        assert_eq!(found, [(6.0, true), (0.95, false), (0.9, false)]);
    }
}
