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
use job::{Job, LOCKED, OURS, RAYON, steps_that_take};
use std::sync::Arc;
use std::time::Duration;

/// Numbers of threads and of workers.
const THREADS: [usize; 8] = [1, 2, 3, 4, 8, 16, 32, 64];

/// Rounds of checks in a queue.
#[derive(Clone, Copy)]
struct Rounded {
    steps: u32,
    checks: u32,
    rounds: u32,
}

impl Rounded {
    /// Makes a queue, and runs rounds in it. Starting and ending the queue's threads is not timed.
    fn run(self, queue: &'static str, threads: usize) -> Result<Run, Failure> {
        // With many threads a round of a locked queue takes long.
        let rounds = self.rounds.div_ceil(if threads < 32 { 1 } else { 4 });
        let contender: Box<dyn Rounds> = match queue {
            OURS => Box::new(contenders::Ours::new(threads)?),
            LOCKED => Box::new(locked::Locked::new(threads)?),
            _ => Box::new(contenders::Rayon::new(threads)?),
        };
        let job = |failing| {
            let Self { steps, checks, .. } = self;
            Arc::new(Job { steps, checks, failing })
        };
        let (passing, failing) = (job(None), job(Some([self.checks / 3, self.checks / 2])));
        let round = |job: &Arc<Job>| same(queue, "lowest failed check", contender.round(job), job.expected());
        // All threads start and come to rest. Then comes an untimed round.
        std::thread::sleep(Duration::from_millis(5));
        round(&passing)?;
        let checks = u64::from(self.checks) * u64::from(rounds);
        // The threads of the queue are at rest between rounds, as between blocks.
        let (all, run) = timed(checks, || (0..rounds).try_for_each(|_| round(&passing)));
        all?;
        round(&failing)?;
        round(&passing)?;
        Ok(run)
    }
}

/// The report of both benchmarks, without rows.
fn empty(bench: &'static str, title: &str, x: &'static str, options: &Options) -> Report {
    let mut report = Report::new(bench, title, &options.command());
    report.axes = Some(Axes {
        series: "queue",
        x,
        y: "per_second",
    });
    report
}

/// Runs the benchmark of check queues.
pub(crate) fn checks(options: &Options, progress: Progress<'_>) -> Result<Report, Failure> {
    let title = "rounds of checks of 1 us that a master adds in groups of 1 to 10, to the verdict";
    let mut report = empty("checkqueue", title, "threads", options);
    let rounded = Rounded {
        steps: steps_that_take(Duration::from_micros(1)),
        checks: options.size(100, 5_000, 5_000),
        rounds: options.size(2, 4, 20),
    };
    for threads in options.size(vec![1, 2, 8], vec![1, 2, 8, 64], THREADS.into()) {
        let contenders = [OURS, LOCKED, RAYON].map(|queue| {
            let row = Row::new("checks of 1 us").with("queue", queue).with("threads", threads);
            Contender::new(queue, row, move || rounded.run(queue, threads)).beside_ours(OURS)
        });
        let title = format!("{threads} threads");
        let rows = Turns::new(options.size(1, 3, 11)).take(&title, contenders.into(), progress)?;
        report.rows.extend(rows);
    }
    report.note(&[
        "threads: the master is one of them, and runs checks too after adding all; ratio: the queue's time over ours",
        "locked: one mutex and two condition variables, as Bitcoin Core's",
        "each run ends with an untimed round in which two checks fail: the queue must name the lower one",
    ]);
    check_claims(&mut report);
    Ok(report)
}

fn check_claims(report: &mut Report) {
    // With few threads all queues wait for the checks.
    for (queue, wanted) in [(LOCKED, 0.97), (RAYON, 0.95)] {
        let ratio = report.least("ratio_median", |row| row.is("queue", queue));
        report.at_least(&format!("over {queue}, worst number of threads"), ratio, wanted);
    }
}

/// Runs the benchmark of work queues.
pub(crate) fn work(options: &Options, progress: Progress<'_>) -> Result<Report, Failure> {
    let title = "a requester that hands jobs to worker threads and collects their results";
    let mut report = empty("workqueue", title, "workers", options);
    let time = Duration::from_millis(options.size(2, 40, 40));
    for job_us in options.size(vec![1], vec![1], vec![1, 10]) {
        let table = format!("jobs of {job_us} us");
        let load = Arc::new(work::Load::new(Duration::from_micros(job_us)));
        for workers in options.size(vec![1, 3], vec![1, 2, 8, 64], THREADS.into()) {
            let contenders = work::QUEUES.iter().map(|&(queue, run)| {
                let row = Row::new(&table).with("queue", queue).with("workers", workers);
                let load = &load;
                Contender::new(queue, row, move || run(load, workers, time)).beside_ours(OURS)
            });
            let title = format!("{table}, {workers} workers");
            let rows = Turns::new(options.size(1, 5, 20)).take(&title, contenders.collect(), progress)?;
            report.rows.extend(rows);
        }
        let others = |row: &Row| row.table() == table && !row.is("queue", OURS);
        let name = format!("{table}: ours over any other, worst number of workers");
        // With long jobs all queues wait for the jobs, and medians of rows differ by a few percent.
        let wanted = if job_us < 10 { 1.0 } else { 0.95 };
        report.at_least(&name, report.least("ratio_median", others), wanted);
    }
    report.notes.push(format!(
        "{} slots for each worker; a job reads a word of 2 MiB; runs of {} ms; the requester is a thread more than the workers",
        work::SLOTS_PER_WORKER,
        time.as_millis()
    ));
    report.note(&[
        "the requester submits while slots are free, waits for a job, collects all finished ones, and checks each result",
        "blockmill: the requester runs jobs itself while it waits",
        "rayon: as many jobs as there are slots spawned at a time, the requester being one of the pool's threads",
    ]);
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_queue_finds_the_lowest_failure() {
        let rounded = Rounded {
            steps: 10,
            checks: 300,
            rounds: 2,
        };
        for threads in [1, 2, 8] {
            for queue in [OURS, LOCKED, RAYON] {
                assert_eq!(rounded.run(queue, threads).unwrap().count, 600, "{queue}");
            }
        }
    }

    #[test]
    fn claims_take_the_worst_row() {
        let row = |queue: &str, ratio: f64| Row::new("").with("queue", queue).with("ratio_median", ratio);
        let mut report = Report::new("checkqueue", "", "");
        report.rows = vec![row(LOCKED, 1.5), row(LOCKED, 0.95), row(RAYON, 6.0)];
        check_claims(&mut report);
        let found: Vec<(f64, bool)> = report.claims.iter().map(|claim| (claim.value, claim.met)).collect();
        assert_eq!(found, [(0.95, false), (6.0, true)]);
    }
}
