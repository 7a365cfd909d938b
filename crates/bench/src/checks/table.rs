//! Who runs what with how many threads, and the rows and targets of that.

use super::contenders::{Channel, Chili, Contender, Rayon, RayonSlice};
use super::job::{Job, Work, steps_that_take};
use super::locked::Locked;
use super::ours::Ours;
use super::script::ScriptChecks;
use crate::BenchOptions;
use crate::clock::{Elapsed, Spread, Stopwatch};
use crate::error::BenchError;
use crate::report::{Chart, Column, Report, Target};
use serde::Serialize;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const EMPTY: &str = "empty checks";
const SMALL: &str = "small checks of 1 us";
const SCRIPT: &str = "script checks of mainnet block 413567";

const OURS: &str = "blockmill";
const LOCKED: &str = "locked, batches of 128";
const LOCKED_SINGLE: &str = "locked, one by one";
const SLICE: &str = "rayon, ready slice";

/// Checks that the locked queue takes at a time.
const BATCH: usize = 128;

/// How long a small check takes.
const SMALL_TIME: Duration = Duration::from_micros(1);

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
    Column::number("ours_over_this", "ours/this", 2),
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

/// A kind of checks, and how often a run repeats its round.
#[derive(Clone)]
struct Kind {
    table: &'static str,
    work: Work,
    checks: u32,
    rounds: u32,
}

/// How much to run.
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
            runs: if quick { 3 } else { 5 },
        }
    }
}

/// What one queue did with one number of threads.
struct Series {
    kind: usize,
    queue: &'static str,
    threads: usize,
    elapsed: Vec<Elapsed>,
}

/// A printed row.
#[derive(Debug, Clone, Serialize)]
struct Row {
    table: &'static str,
    queue: &'static str,
    threads: usize,
    runs: usize,
    /// Checks of a run.
    checks: u64,
    seconds_median: f64,
    seconds_min: f64,
    seconds_max: f64,
    cpu_seconds_median: f64,
    checks_per_second: f64,
    /// Our checks per second over this queue's.
    ours_over_this: Option<f64>,
    /// Checks per second over our own with one thread.
    times_one_thread: f64,
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
        "threads: the master is one of them, and runs checks too when it has added all",
        "locked: the queue of document 000; chili gets all groups at once, the ready slice of rayon needs no queue",
        "after the timed rounds of each run comes one in which two checks fail: each queue must name the lower",
    ]
    .map(str::to_owned)
    .to_vec();
    if !has_script {
        report.notes.push(
            "the block for script checks is not at hand: run this in the project's root, beside its data".to_owned(),
        );
    }
    report.group = Some("table");
    report.columns = COLUMNS.to_vec();
    report.targets = targets(&rows, report.machine.cores);
    report.rows = rows.iter().map(|row| serde_json::json!(row)).collect();
    report.charts = CHARTS.to_vec();
    Ok(report)
}

/// A queue with so many threads.
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
        "crossbeam-channel" => Box::new(Channel::new(threads).map_err(threads_error)?),
        _ => Box::new(Chili::new(threads)),
    })
}

const QUEUES: [&str; 7] = [
    OURS,
    LOCKED,
    LOCKED_SINGLE,
    "rayon",
    "crossbeam-channel",
    "chili",
    SLICE,
];

fn run_plan(plan: &Plan, progress: &mut dyn FnMut(&str)) -> Result<Vec<Row>, BenchError> {
    let mut all = Vec::new();
    for (number, kind) in plan.kinds.iter().enumerate() {
        for &threads in &plan.threads {
            let mut series: Vec<Series> = QUEUES
                .map(|queue| Series {
                    kind: number,
                    queue,
                    threads,
                    elapsed: Vec::new(),
                })
                .into();
            for _ in 0..plan.runs {
                for series in &mut series {
                    let elapsed = run(kind, series.queue, threads)?;
                    series.elapsed.push(elapsed);
                }
            }
            progress(&format!("{}: {threads} threads", kind.table));
            all.extend(series);
        }
    }
    Ok(all.iter().map(|series| row(series, &all, plan)).collect())
}

/// Makes a queue, and runs rounds in it; the queue's threads are started and ended outside of the time.
fn run(kind: &Kind, queue: &'static str, threads: usize) -> Result<Elapsed, BenchError> {
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
    // Until all threads have started and come to rest; then a round that is not timed.
    std::thread::sleep(Duration::from_millis(5));
    check(&job)?;
    let clock = Stopwatch::start();
    for _ in 0..kind.rounds {
        check(&job)?;
    }
    let elapsed = clock.elapsed();
    check(&failing)?;
    check(&job)?;
    Ok(elapsed)
}

fn row(series: &Series, all: &[Series], plan: &Plan) -> Row {
    let seconds = |series: &Series| Spread::of(series.elapsed.iter().map(|elapsed| elapsed.seconds));
    let ours = |threads: usize| {
        let is_ours = |other: &&Series| (other.kind, other.queue, other.threads) == (series.kind, OURS, threads);
        all.iter().find(is_ours).map(|ours| seconds(ours).median)
    };
    let spread = seconds(series);
    let kind = &plan.kinds[series.kind];
    let checks = u64::from(kind.checks) * u64::from(kind.rounds);
    Row {
        table: kind.table,
        queue: series.queue,
        threads: series.threads,
        runs: series.elapsed.len(),
        checks,
        seconds_median: spread.median,
        seconds_min: spread.min,
        seconds_max: spread.max,
        cpu_seconds_median: Spread::of(series.elapsed.iter().map(|elapsed| elapsed.cpu_seconds)).median,
        checks_per_second: checks as f64 / spread.median,
        ours_over_this: ours(series.threads)
            .filter(|_| series.queue != OURS)
            .map(|ours| spread.median / ours),
        times_one_thread: ours(1).map_or(f64::NAN, |one| one / spread.median),
    }
}

/// The claims, computed from the rows.
fn targets(rows: &[Row], cores: usize) -> Vec<Target> {
    let least = |ratios: &mut dyn Iterator<Item = f64>| ratios.fold(f64::INFINITY, f64::min);
    let over = |table: &[&str], queues: &[&str], threads_min: usize| {
        let chosen = rows
            .iter()
            .filter(|row| table.contains(&row.table) && queues.contains(&row.queue) && row.threads >= threads_min);
        least(&mut chosen.filter_map(|row| row.ours_over_this))
    };
    // Of what a small check allows: 2.9 times the locked queue, or 95% of what the cores can do.
    let small = rows
        .iter()
        .filter(|row| row.table == SMALL && row.queue == LOCKED)
        .filter_map(|row| {
            let ours = row.ours_over_this? * row.checks_per_second;
            let most = 0.95 * row.threads.min(cores) as f64 / SMALL_TIME.as_secs_f64();
            Some(ours / most.min(2.9 * row.checks_per_second))
        });
    let script = rows
        .iter()
        .filter(|row| row.table == SCRIPT && row.queue == OURS && row.threads <= cores);
    let mut targets = vec![
        Target::at_least(
            "empty: over the locked queue, worst of 8 and more threads",
            over(&[EMPTY], &[LOCKED], 8),
            5.7,
        ),
        Target::at_least(
            "empty: over the locked queue, worst row",
            over(&[EMPTY], &[LOCKED], 1),
            1.0,
        ),
        Target::at_least(
            "small: of the smaller of 2.9 times the locked queue and 95% of the cores, worst row",
            least(&mut { small }),
            1.0,
        ),
        Target::at_least(
            "over both locked queues, worst row of all",
            over(&[EMPTY, SMALL, SCRIPT], &[LOCKED, LOCKED_SINGLE], 1),
            1.0,
        ),
        Target::at_least(
            "empty and small: over rayon, crossbeam-channel and chili, worst row",
            over(&[EMPTY, SMALL], &["rayon", "crossbeam-channel", "chili"], 1),
            1.0,
        ),
    ];
    let parallel = least(&mut script.map(|row| row.times_one_thread / row.threads as f64));
    if parallel.is_finite() {
        targets.push(Target::at_least(
            "script checks: of N times one thread, worst N up to the cores",
            parallel,
            0.97,
        ));
    }
    targets
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

    fn row(table: &'static str, queue: &'static str, threads: usize, ratio: Option<f64>, speed: f64) -> Row {
        Row {
            table,
            queue,
            threads,
            runs: 1,
            checks: 1,
            seconds_median: 1.0,
            seconds_min: 1.0,
            seconds_max: 1.0,
            cpu_seconds_median: 1.0,
            checks_per_second: speed,
            ours_over_this: ratio,
            times_one_thread: 1.9,
        }
    }

    #[test]
    fn targets_take_the_worst_row() {
        let rows = [
            row(EMPTY, OURS, 2, None, 1.0),
            row(EMPTY, LOCKED, 2, Some(1.5), 1.0),
            row(EMPTY, LOCKED, 8, Some(6.0), 1.0),
            row(EMPTY, "chili", 8, Some(0.9), 1.0),
            // Ours does 1.8 million a second, of 1.9 million that two cores can at 95%.
            row(SMALL, LOCKED, 8, Some(2.0), 900_000.0),
            // Ours does 3 times the locked queue.
            row(SMALL, LOCKED, 16, Some(3.0), 100_000.0),
            row(SCRIPT, OURS, 2, None, 1.0),
            row(SCRIPT, LOCKED_SINGLE, 2, Some(0.99), 1.0),
        ];
        let found: Vec<(f64, bool)> = targets(&rows, 2)
            .iter()
            .map(|target| (target.value, target.met))
            .collect();
        let expected = [
            (6.0, true),
            (1.5, true),
            (1.8 / 1.9, false),
            (0.99, false),
            (0.9, false),
            (0.95, false),
        ];
        for (found, expected) in found.iter().zip(expected) {
            assert!(
                (found.0 - expected.0).abs() < 1e-9 && found.1 == expected.1,
                "{found:?} {expected:?}"
            );
        }
        assert_eq!(found.len(), expected.len());
    }
}
