//! The plan of the runs, the rows and the targets.

use super::histogram::Histogram;
use super::kernel_object::SpinningSemaphore;
use super::peers::{CondvarSemaphore, Counted};
use super::posix::PosixSemaphore;
use super::runner::{Contender, Outcome, run};
use crate::BenchOptions;
use crate::clock::Spread;
use crate::error::BenchError;
use crate::report::{Chart, Column, Report, Target};
use blockmill_sync::{CriticalSection, Semaphore};
use serde::Serialize;
use std::time::Duration;

/// Names of the two tables, and of the sweep before them.
const SEMAPHORE: &str = "semaphore of one permit";
const SECTION: &str = "critical section";
const SWEEP: &str = "the semaphore before, by its spins";

const OURS: &str = "blockmill";
const BEFORE: &str = "before";
const STD: &str = "std Mutex";
const PARKING_LOT: &str = "parking_lot Mutex";

/// The target over the previous semaphore holds from this number of threads on.
const MANY_THREADS: usize = 8;
const MANY_THREADS_RATIO: f64 = 20.0;

/// Most time by which the 99.99th percentile of the waits may exceed the fair share.
const WAIT_BEYOND_FAIR: Duration = Duration::from_millis(5);

const COLUMNS: &[Column] = &[
    Column::text("lock", "lock"),
    Column::number("threads", "threads", 0),
    Column::number("runs", "runs", 0),
    Column::number("kops_per_second_and_thread", "Kops/s/thread", 1),
    Column::number("kops_min", "min", 1),
    Column::number("kops_max", "max", 1),
    Column::number("ours_over_this", "ours/this", 2),
    Column::number("wait_p999_us", "p99.9 us", 2),
    Column::number("wait_p9999_us", "p99.99 us", 2),
    Column::number("wait_longest_ms", "longest ms", 2),
    Column::number("lock_wait_p9999_us", "lock p99.99 us", 2),
    Column::number("lock_wait_longest_ms", "lock longest ms", 2),
    Column::number("wait_limit_ms", "limit ms", 2),
    Column::number("unluckiest_share", "unluckiest", 2),
    Column::number("luckiest_share", "luckiest", 2),
    Column::number("cpu_seconds", "CPU s", 3),
];

const CHARTS: &[Chart] = &[chart(SEMAPHORE), chart(SECTION)];

const fn chart(table: &'static str) -> Chart {
    Chart {
        title: table,
        within: Some(("table", table)),
        series: "lock",
        x: "threads",
        x_label: "threads",
        y: "kops_per_second",
        y_label: "passes per ms, all threads",
    }
}

/// The size of the benchmark.
#[derive(Debug, Clone)]
struct Plan {
    threads: Vec<usize>,
    runs: usize,
    time: Duration,
    /// Numbers of spins of the previous semaphore. The best one counts at each number of threads.
    sweep: Vec<u32>,
    sweep_time: Duration,
}

impl Plan {
    fn new(quick: bool) -> Self {
        if quick {
            return Self {
                threads: vec![1, 2, 8, 64],
                runs: 3,
                time: Duration::from_millis(100),
                sweep: vec![0, 100, 1_000],
                sweep_time: Duration::from_millis(50),
            };
        }
        Self {
            threads: vec![1, 2, 3, 4, 8, 16, 32, 64],
            runs: 5,
            time: Duration::from_millis(300),
            sweep: vec![0, 10, 100, 1_000, 10_000],
            sweep_time: Duration::from_millis(200),
        }
    }
}

type Runner = Box<dyn Fn(usize, Duration, bool) -> Outcome>;

/// Makes a fresh contender for each run.
fn runner_of<C: Contender>(make: impl Fn() -> C + 'static) -> Runner {
    Box::new(move |threads, time, timed| run(make(), threads, time, timed))
}

/// The runs of one contender with one number of threads.
struct Series {
    table: &'static str,
    lock: String,
    threads: usize,
    runner: Runner,
    untimed: Vec<Outcome>,
    waits: Histogram,
    lock_waits: Histogram,
}

impl Series {
    fn new(table: &'static str, lock: impl Into<String>, threads: usize, runner: Runner) -> Self {
        Self {
            table,
            lock: lock.into(),
            threads,
            runner,
            untimed: Vec::new(),
            waits: Histogram::default(),
            lock_waits: Histogram::default(),
        }
    }

    fn run(&mut self, time: Duration, timed: bool) -> Result<(), BenchError> {
        let outcome = (self.runner)(self.threads, time, timed);
        if !outcome.exclusive {
            return Err(BenchError::Mismatch {
                run: format!("{} with {} threads", self.lock, self.threads),
                what: "count",
                found: "another".to_owned(),
                wanted: outcome.all_passes().to_string(),
            });
        }
        if timed {
            self.waits.merge(&outcome.waits);
            self.lock_waits.merge(&outcome.lock_waits);
        } else {
            self.untimed.push(outcome);
        }
        Ok(())
    }

    fn passes_per_second(&self) -> Spread {
        Spread::of(self.untimed.iter().map(Outcome::passes_per_second))
    }
}

/// A printed row.
#[derive(Debug, Clone, Serialize)]
struct Row {
    table: &'static str,
    lock: String,
    threads: usize,
    runs: usize,
    /// Passes of the median run. A pass is an acquire and a release.
    kops_per_second: f64,
    kops_per_second_and_thread: f64,
    kops_min: f64,
    kops_max: f64,
    /// Our passes per second over this lock's.
    ours_over_this: Option<f64>,
    wait_p999_us: Option<f64>,
    wait_p9999_us: Option<f64>,
    wait_longest_ms: Option<f64>,
    /// Without the time on the run queue.
    lock_wait_p9999_us: Option<f64>,
    lock_wait_longest_ms: Option<f64>,
    /// 5 ms and the fair share: threads - 1 times the mean of hold and hand-over.
    wait_limit_ms: Option<f64>,
    unluckiest_share: f64,
    luckiest_share: f64,
    cpu_seconds: f64,
}

/// Runs the benchmark.
///
/// # Errors
/// [`BenchError::Mismatch`] if two threads were inside at once.
pub(crate) fn report(options: &BenchOptions, progress: &mut dyn FnMut(&str)) -> Result<Report, BenchError> {
    let plan = Plan::new(options.quick);
    let mut report = Report::new(
        "semaphore",
        "threads that pass through one permit, or one lock, as often as they can",
        &options.command,
    );
    let rows = run_plan(&plan, progress)?;
    report.notes = [
        "a pass: acquire, add one to a count, release; speed from runs without clocks (median of the runs)",
        "waits from runs in which every pass is timed, the hold and the time without a core included",
        "lock: without the time on the run queue, where threads wait when there are more threads than cores",
        "limit: 5 ms and the fair share, threads - 1 times the mean of hold and hand-over",
        "unluckiest, luckiest: passes of that thread of a run over the mean of all (median of the runs)",
    ]
    .map(str::to_owned)
    .to_vec();
    report.group = Some("table");
    report.columns = COLUMNS.to_vec();
    report.targets = targets(&rows);
    report.rows = rows.iter().map(|row| serde_json::json!(row)).collect();
    report.charts = CHARTS.to_vec();
    Ok(report)
}

fn before(spins: u32) -> Runner {
    runner_of(move || Counted::new(SpinningSemaphore::new(1, spins)))
}

/// All contenders with `threads` threads, except the previous semaphore.
fn contenders(threads: usize) -> Vec<Series> {
    let of = |table, lock, runner| Series::new(table, lock, threads, runner);
    vec![
        of(SEMAPHORE, OURS, runner_of(|| Counted::new(Semaphore::new(1)))),
        of(SEMAPHORE, "sem_t", runner_of(|| Counted::new(PosixSemaphore::new(1)))),
        of(
            SEMAPHORE,
            "Mutex and Condvar",
            runner_of(|| Counted::new(CondvarSemaphore::new(1))),
        ),
        of(
            SEMAPHORE,
            "tokio",
            runner_of(|| Counted::new(tokio::sync::Semaphore::new(1))),
        ),
        of(SECTION, OURS, runner_of(|| Counted::new(CriticalSection::new()))),
        of(SECTION, STD, runner_of(|| std::sync::Mutex::new(0))),
        of(SECTION, PARKING_LOT, runner_of(|| parking_lot::Mutex::new(0))),
        of(
            SECTION,
            "parking_lot FairMutex",
            runner_of(|| parking_lot::FairMutex::new(0)),
        ),
    ]
}

fn run_plan(plan: &Plan, progress: &mut dyn FnMut(&str)) -> Result<Vec<Row>, BenchError> {
    let mut all = Vec::new();
    for &threads in &plan.threads {
        let mut sweep: Vec<Series> = plan
            .sweep
            .iter()
            .map(|&spins| Series::new(SWEEP, format!("{spins} spins"), threads, before(spins)))
            .collect();
        for series in &mut sweep {
            series.run(plan.sweep_time, false)?;
        }
        let speed = |spins: &usize| sweep[*spins].passes_per_second().median;
        let best = (0..sweep.len())
            .max_by(|a, b| speed(a).total_cmp(&speed(b)))
            .unwrap_or(0);
        let best = plan.sweep.get(best).copied().unwrap_or(0);
        let mut series = contenders(threads);
        series.insert(
            1,
            Series::new(SEMAPHORE, format!("{BEFORE}, {best} spins"), threads, before(best)),
        );
        for run in 1..=plan.runs {
            for timed in [false, true] {
                for series in &mut series {
                    series.run(plan.time, timed)?;
                }
            }
            progress(&format!("{threads} threads: run {run} of {}", plan.runs));
        }
        all.extend(sweep);
        all.extend(series);
    }
    // Each table in one piece, by threads.
    all.sort_by_key(|series| {
        [SEMAPHORE, SECTION, SWEEP]
            .iter()
            .position(|table| *table == series.table)
    });
    Ok(all.iter().map(|series| row(series, &all)).collect())
}

fn row(series: &Series, all: &[Series]) -> Row {
    let speed = series.passes_per_second();
    let ours = all
        .iter()
        .find(|other| (other.table, other.threads, other.lock.as_str()) == (series.table, series.threads, OURS))
        .filter(|_| series.lock != OURS);
    let (unluckiest, luckiest): (Vec<f64>, Vec<f64>) = series.untimed.iter().map(Outcome::shares).unzip();
    let timed = (series.waits.count() > 0).then_some(&series.waits);
    let threads = series.threads as f64;
    let us = |ns: u64| ns as f64 / 1e3;
    Row {
        table: series.table,
        lock: series.lock.clone(),
        threads: series.threads,
        runs: series.untimed.len(),
        kops_per_second: speed.median / 1e3,
        kops_per_second_and_thread: speed.median / 1e3 / threads,
        kops_min: speed.min / 1e3 / threads,
        kops_max: speed.max / 1e3 / threads,
        ours_over_this: ours.map(|ours| ours.passes_per_second().median / speed.median),
        wait_p999_us: timed.map(|waits| us(waits.quantile_ns(0.999))),
        wait_p9999_us: timed.map(|waits| us(waits.quantile_ns(0.9999))),
        wait_longest_ms: timed.map(|waits| us(waits.longest_ns()) / 1e3),
        lock_wait_p9999_us: timed.map(|_| us(series.lock_waits.quantile_ns(0.9999))),
        lock_wait_longest_ms: timed.map(|_| us(series.lock_waits.longest_ns()) / 1e3),
        wait_limit_ms: timed.map(|_| WAIT_BEYOND_FAIR.as_secs_f64() * 1e3 + (threads - 1.0) / speed.median * 1e3),
        unluckiest_share: Spread::of(unluckiest).median,
        luckiest_share: Spread::of(luckiest).median,
        cpu_seconds: Spread::of(series.untimed.iter().map(|outcome| outcome.elapsed.cpu_seconds)).median,
    }
}

/// The claims, computed from the rows.
fn targets(rows: &[Row]) -> Vec<Target> {
    let of = |table: &'static str, lock: &'static str| {
        rows.iter()
            .filter(move |row| row.table == table && row.lock.starts_with(lock))
    };
    let least = |ratios: &mut dyn Iterator<Item = Option<f64>>| ratios.flatten().fold(f64::INFINITY, f64::min);
    let over = |table, lock| least(&mut of(table, lock).map(|row| row.ours_over_this));
    let over_before = of(SEMAPHORE, BEFORE).filter(|row| row.threads >= MANY_THREADS);
    let alone = |table: &'static str| {
        let peers = rows.iter().filter(|row| row.table == table && row.threads == 1);
        least(&mut peers.map(|row| row.ours_over_this))
    };
    // The 99.99th percentile of the waits in the row where it is the largest part of its limit.
    let limit = |lock, wait: fn(&Row) -> Option<f64>| {
        let parts = of(SECTION, lock).filter_map(|row| Some(wait(row)? / 1e3 / row.wait_limit_ms?));
        parts.fold(0.0, f64::max)
    };
    vec![
        Target::at_least(
            "semaphore over the one before, worst of 8 and more threads",
            least(&mut over_before.map(|row| row.ours_over_this)),
            MANY_THREADS_RATIO,
        ),
        Target::at_least("section over std Mutex, worst row", over(SECTION, STD), 0.9),
        Target::at_least(
            "section over parking_lot Mutex, worst row",
            over(SECTION, PARKING_LOT),
            0.9,
        ),
        Target::at_most(
            "section: p99.99 of the wait over its limit, worst row",
            limit(OURS, |row| row.wait_p9999_us),
            1.0,
        ),
        Target::at_most(
            "section: the same without the run queue",
            limit(OURS, |row| row.lock_wait_p9999_us),
            1.0,
        ),
        Target::at_least(
            "std Mutex: p99.99 of the wait over its limit, worst row",
            limit(STD, |row| row.wait_p9999_us),
            1.0,
        ),
        Target::at_least("one thread: semaphore over its fastest peer", alone(SEMAPHORE), 0.95),
        Target::at_least("one thread: section over its fastest peer", alone(SECTION), 0.95),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tiny() -> Plan {
        Plan {
            threads: vec![1, 8],
            runs: 2,
            time: Duration::from_millis(5),
            sweep: vec![0, 100],
            sweep_time: Duration::from_millis(5),
        }
    }

    #[test]
    fn everyone_has_rows_at_every_number_of_threads() {
        let mut lines = Vec::new();
        let rows = run_plan(&tiny(), &mut |line| lines.push(line.to_owned())).unwrap();
        assert_eq!(
            lines,
            [
                "1 threads: run 1 of 2",
                "1 threads: run 2 of 2",
                "8 threads: run 1 of 2",
                "8 threads: run 2 of 2"
            ]
        );
        let count = |table| rows.iter().filter(|row| row.table == table).count();
        assert_eq!((count(SEMAPHORE), count(SECTION), count(SWEEP)), (2 * 5, 2 * 4, 2 * 2));
        for row in &rows {
            assert!(row.kops_per_second > 0.0, "{row:?}");
            assert!(row.unluckiest_share <= 1.0 && row.luckiest_share >= 1.0, "{row:?}");
            assert_eq!(row.wait_p9999_us.is_some(), row.table != SWEEP);
            assert_eq!(row.ours_over_this.is_some(), row.lock != OURS && row.table != SWEEP);
            let value = serde_json::json!(row);
            for column in COLUMNS {
                assert!(value.get(column.key).is_some(), "{}", column.key);
            }
        }
        for chart in CHARTS {
            let value = serde_json::json!(rows[0]);
            for key in [chart.series, chart.x, chart.y] {
                assert!(value.get(key).is_some(), "{key}");
            }
        }
        assert!(targets(&rows).iter().all(|target| target.value.is_finite()));
    }

    /// A row with only the figures that targets need.
    fn row(table: &'static str, lock: &str, threads: usize, ratio: Option<f64>, wait_p9999_us: f64) -> Row {
        Row {
            table,
            lock: lock.to_owned(),
            threads,
            runs: 1,
            kops_per_second: 1.0,
            kops_per_second_and_thread: 1.0,
            kops_min: 1.0,
            kops_max: 1.0,
            ours_over_this: ratio,
            wait_p999_us: Some(wait_p9999_us),
            wait_p9999_us: Some(wait_p9999_us),
            wait_longest_ms: Some(1.0),
            lock_wait_p9999_us: Some(wait_p9999_us / 2.0),
            lock_wait_longest_ms: Some(1.0),
            wait_limit_ms: Some(5.0),
            unluckiest_share: 1.0,
            luckiest_share: 1.0,
            cpu_seconds: 1.0,
        }
    }

    #[test]
    fn targets_take_the_worst_row() {
        let rows = [
            row(SEMAPHORE, OURS, 1, None, 1.0),
            row(SEMAPHORE, "before, 10 spins", 1, Some(0.97), 1.0),
            row(SEMAPHORE, "sem_t", 1, Some(1.2), 1.0),
            row(SEMAPHORE, "before, 0 spins", 8, Some(30.0), 1.0),
            row(SEMAPHORE, "before, 0 spins", 16, Some(19.0), 1.0),
            row(SECTION, OURS, 1, None, 1.0),
            row(SECTION, OURS, 8, None, 6_000.0),
            row(SECTION, STD, 1, Some(0.94), 1.0),
            row(SECTION, STD, 8, Some(2.0), 10_000.0),
            row(SECTION, PARKING_LOT, 1, Some(1.0), 1.0),
            row(SECTION, PARKING_LOT, 8, Some(0.8), 1.0),
        ];
        let found: Vec<(f64, bool)> = targets(&rows).iter().map(|target| (target.value, target.met)).collect();
        let expected = [
            (19.0, false),
            (0.94, true),
            (0.8, false),
            (1.2, false),
            (0.6, true),
            (2.0, true),
            (0.97, true),
            (0.94, false),
        ];
        assert_eq!(found, expected);
    }
}
