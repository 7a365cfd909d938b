//! The plan of the runs, and the rows from them.

use super::contenders::{Channel, Chili, Contender, Rayon, RayonSlice};
use super::job::{Job, Work, steps_that_take};
use super::locked::Locked;
use super::ours::Ours;
use super::script::{self, ScriptChecks};
use super::static_split::StaticSplit;
use super::targets::targets;
use crate::BenchOptions;
use crate::clock::{Elapsed, Spread, Stopwatch};
use crate::error::BenchError;
use crate::machine::Machine;
use crate::report::{Chart, Column, Report};
use serde::Serialize;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

pub(super) const EMPTY: &str = "empty checks";
pub(super) const SMALL: &str = "small checks of 1 us";
pub(super) const SCRIPT: &str = "script checks of mainnet block 413567";

pub(super) const OURS: &str = "blockmill";
pub(super) const LOCKED: &str = "locked, batches of 128";
pub(super) const LOCKED_SINGLE: &str = "locked, one by one";
pub(super) const SLICE: &str = "rayon, ready slice";
pub(super) const STATIC_SPLIT: &str = "no queue, dealt out";

/// Checks that the locked queue takes at a time.
const BATCH: usize = 128;

/// Time of a small check.
pub(super) const SMALL_TIME: Duration = Duration::from_micros(1);

const COLUMNS: &[Column] = &[
    Column::text("queue", "queue"),
    Column::number("threads", "threads", 0),
    Column::number("runs", "runs", 0),
    Column::number("checks", "checks", 0),
    Column::number("seconds_median", "seconds", 5),
    Column::number("seconds_min", "min", 5),
    Column::number("seconds_max", "max", 5),
    Column::number("cpu_seconds_median", "CPU s", 5),
    Column::number("checks_per_second", "checks/s", 0),
    Column::number("ours_over_this", "ours/this", 3),
    Column::number("ours_slower", "slower", 0),
    Column::number("times_one_thread", "over 1 thread", 2),
];

const CHARTS: &[Chart] = &[chart(EMPTY), chart(SMALL), chart(SCRIPT)];

const fn chart(table: &'static str) -> Chart {
    Chart {
        title: table,
        within: Some(("table", table)),
        series: "queue",
        x: "threads",
        x_label: "threads, the master included",
        y: "checks_per_second",
        y_label: "checks per second",
    }
}

/// A kind of checks, and the number of rounds in a run.
#[derive(Clone)]
struct Kind {
    table: &'static str,
    work: Work,
    checks: u32,
    rounds: u32,
}

/// The size of the benchmark.
struct Plan {
    kinds: Vec<Kind>,
    threads: Vec<usize>,
    runs: usize,
}

impl Plan {
    fn new(quick: bool, script: Option<ScriptChecks>) -> Self {
        let kind = |table, work, checks, rounds| Kind {
            table,
            work,
            checks,
            rounds,
        };
        let rounds = |full: u32| if quick { full.div_ceil(5) } else { full };
        let small = Work::Small(steps_that_take(SMALL_TIME));
        let mut kinds = vec![
            kind(EMPTY, Work::Empty, 5_000, rounds(40)),
            kind(SMALL, small, 5_000, rounds(20)),
        ];
        if let Some(script) = script {
            kinds.push(kind(SCRIPT, Work::Empty, script.count(), 1));
            let script = Work::Script(Arc::new(script));
            if let Some(last) = kinds.last_mut() {
                last.work = script;
            }
        }
        Self {
            kinds,
            threads: if quick {
                vec![1, 2, 8, 64]
            } else {
                vec![1, 2, 3, 4, 8, 16, 32, 64]
            },
            runs: if quick { 3 } else { 11 },
        }
    }
}

/// The runs of one queue with one number of threads.
struct Series {
    kind: usize,
    queue: &'static str,
    threads: usize,
    rounds: u32,
    elapsed: Vec<Elapsed>,
}

/// A printed row.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Row {
    pub(super) table: &'static str,
    pub(super) queue: &'static str,
    pub(super) threads: usize,
    pub(super) runs: usize,
    /// Checks of a run.
    pub(super) checks: u64,
    pub(super) seconds_median: f64,
    pub(super) seconds_min: f64,
    pub(super) seconds_max: f64,
    pub(super) cpu_seconds_median: f64,
    pub(super) checks_per_second: f64,
    /// Our checks per second over this queue's: the median over pairs of neighbouring runs.
    pub(super) ours_over_this: Option<f64>,
    /// Number of runs in which ours was slower.
    pub(super) ours_slower: Option<usize>,
    /// Checks per second over our own with one thread.
    pub(super) times_one_thread: f64,
}

/// Runs the benchmark.
///
/// # Errors
/// Any [`BenchError`] but those about names and output.
pub(crate) fn report(options: &BenchOptions, progress: &mut dyn FnMut(&str)) -> Result<Report, BenchError> {
    let script = ScriptChecks::load(Path::new("."))?;
    let has_script = script.is_some();
    let plan = Plan::new(options.quick, script);
    let mut report = Report::new(
        "checkqueue",
        "rounds of checks that a master adds in groups of 1 to 10, to the verdict",
        &options.command,
    );
    let rows = run_plan(&plan, progress)?;
    report.notes = [
        "threads: the master is one of them, and runs checks too after adding all",
        "locked: one mutex and two condition variables; chili gets all groups at once, the ready slice of rayon needs no queue",
        "each run ends with an untimed round in which two checks fail: the queue must name the lower one",
    ]
    .map(str::to_owned)
    .to_vec();
    if !has_script {
        let missing = format!(
            "no table of script checks: {} is missing; run this in the project's root",
            script::BLOCK
        );
        report.notes.push(missing);
    }
    report.group = Some("table");
    report.columns = COLUMNS.to_vec();
    report.targets = targets(&rows, report.machine.cores);
    report.rows = rows.iter().map(|row| serde_json::json!(row)).collect();
    report.charts = CHARTS.to_vec();
    Ok(report)
}

/// A queue with `threads` threads.
fn contender(queue: &'static str, threads: usize) -> Result<Box<dyn Contender>, BenchError> {
    let threads_error = BenchError::file("worker threads");
    let pool_error =
        |error: rayon::ThreadPoolBuildError| BenchError::file("worker threads")(std::io::Error::other(error));
    Ok(match queue {
        OURS => Box::new(Ours::new(threads).map_err(threads_error)?),
        LOCKED => Box::new(Locked::new(threads, BATCH).map_err(threads_error)?),
        LOCKED_SINGLE => Box::new(Locked::new(threads, 1).map_err(threads_error)?),
        "rayon" => Box::new(Rayon::new(threads).map_err(pool_error)?),
        SLICE => Box::new(RayonSlice::new(threads).map_err(pool_error)?),
        STATIC_SPLIT => Box::new(StaticSplit::new(threads, Machine::this().cores).map_err(threads_error)?),
        "crossbeam-channel" => Box::new(Channel::new(threads).map_err(threads_error)?),
        _ => Box::new(Chili::new(threads)),
    })
}

const QUEUES: [&str; 8] = [
    OURS,
    LOCKED,
    LOCKED_SINGLE,
    "rayon",
    "crossbeam-channel",
    "chili",
    SLICE,
    STATIC_SPLIT,
];

fn run_plan(plan: &Plan, progress: &mut dyn FnMut(&str)) -> Result<Vec<Row>, BenchError> {
    let mut all = Vec::new();
    for (number, kind) in plan.kinds.iter().enumerate() {
        for &threads in &plan.threads {
            // With many threads a round of a locked queue takes long.
            let rounds = if threads < 32 {
                kind.rounds
            } else {
                kind.rounds.div_ceil(4)
            };
            let mut series: Vec<Series> = QUEUES
                .map(|queue| Series {
                    kind: number,
                    queue,
                    threads,
                    rounds,
                    elapsed: Vec::new(),
                })
                .into();
            for _ in 0..plan.runs {
                for series in &mut series {
                    let elapsed = run(kind, series.queue, threads, rounds)?;
                    series.elapsed.push(elapsed);
                }
            }
            progress(&format!("{}: {threads} threads", kind.table));
            all.extend(series);
        }
    }
    Ok(all.iter().map(|series| row(series, &all, plan)).collect())
}

/// Makes a queue, and runs rounds in it. Starting and ending the queue's threads is not timed.
fn run(kind: &Kind, queue: &'static str, threads: usize, rounds: u32) -> Result<Elapsed, BenchError> {
    let contender = contender(queue, threads)?;
    let job = Arc::new(Job::new(kind.work.clone(), kind.checks));
    let failing = Arc::new(job.failing());
    let check = |job: &Arc<Job>| {
        let found = contender.round(job);
        if found == job.expected() {
            return Ok(());
        }
        Err(BenchError::Mismatch {
            run: format!("{queue} with {threads} threads, {}", kind.table),
            what: "lowest failed check",
            found: format!("{found:?}"),
            wanted: format!("{:?}", job.expected()),
        })
    };
    // All threads start and come to rest. Then comes an untimed round.
    std::thread::sleep(Duration::from_millis(5));
    check(&job)?;
    let clock = Stopwatch::start();
    for _ in 0..rounds {
        check(&job)?;
    }
    let elapsed = clock.elapsed();
    check(&failing)?;
    check(&job)?;
    Ok(elapsed)
}

fn row(series: &Series, all: &[Series], plan: &Plan) -> Row {
    let kind = &plan.kinds[series.kind];
    let checks = |series: &Series| u64::from(kind.checks) * u64::from(series.rounds);
    let seconds = Spread::of(series.elapsed.iter().map(|elapsed| elapsed.seconds));
    let ours = |threads: usize| {
        all.iter()
            .find(|other| (other.kind, other.queue, other.threads) == (series.kind, OURS, threads))
    };
    let pairs: Option<Vec<f64>> = ours(series.threads).filter(|_| series.queue != OURS).map(|ours| {
        let pairs = series.elapsed.iter().zip(&ours.elapsed);
        pairs.map(|(this, ours)| this.seconds / ours.seconds).collect()
    });
    let checks_per_second = checks(series) as f64 / seconds.median;
    let alone = ours(1).map(|one| {
        let seconds = Spread::of(one.elapsed.iter().map(|elapsed| elapsed.seconds)).median;
        checks(one) as f64 / seconds
    });
    Row {
        table: kind.table,
        queue: series.queue,
        threads: series.threads,
        runs: series.elapsed.len(),
        checks: checks(series),
        seconds_median: seconds.median,
        seconds_min: seconds.min,
        seconds_max: seconds.max,
        cpu_seconds_median: Spread::of(series.elapsed.iter().map(|elapsed| elapsed.cpu_seconds)).median,
        checks_per_second,
        ours_over_this: pairs.as_ref().map(|pairs| Spread::of(pairs.iter().copied()).median),
        ours_slower: pairs.map(|pairs| pairs.iter().filter(|&&pair| pair < 1.0).count()),
        times_one_thread: alone.map_or(f64::NAN, |alone| checks_per_second / alone),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everyone_finds_the_failure_at_every_number_of_threads() {
        let plan = Plan {
            kinds: vec![
                Kind {
                    table: EMPTY,
                    work: Work::Empty,
                    checks: 300,
                    rounds: 3,
                },
                Kind {
                    table: SMALL,
                    work: Work::Small(10),
                    checks: 100,
                    rounds: 2,
                },
            ],
            threads: vec![1, 2, 8],
            runs: 2,
        };
        let mut lines = Vec::new();
        let rows = run_plan(&plan, &mut |line| lines.push(line.to_owned())).unwrap();
        assert_eq!((rows.len(), lines.len()), (2 * 3 * QUEUES.len(), 6));
        for row in &rows {
            assert_eq!(row.ours_over_this.is_some(), row.queue != OURS);
            assert!(row.ours_slower.is_none_or(|slower| slower <= row.runs));
            assert!(row.seconds_min > 0.0 && row.times_one_thread > 0.0, "{row:?}");
            let value = serde_json::json!(row);
            let keys = COLUMNS.iter().map(|column| column.key);
            for key in keys.chain(CHARTS.iter().flat_map(|chart| [chart.series, chart.x, chart.y])) {
                assert!(value.get(key).is_some(), "{key}");
            }
        }
        let targets = targets(&rows, 2);
        assert_eq!(targets.len(), 5);
        assert!(targets.iter().all(|target| target.value.is_finite()), "{targets:?}");
    }
}
