//! `blockmill-bench writers`: the table of concurrent writers. Threads append real undo records to
//! the undo log. The same log runs under three locks: our critical section, the standard library's
//! mutex, and the semaphore over a kernel object.
//!
//! A write sequence encodes the undo data of a block with its checksum, outside of the lock, and
//! appends the record. A second table appends records that were encoded before the run, so that the
//! lock has a larger share of the time. After each run the whole log is read back and compared.
//!
//! In reading order: `input`, the records; `runner`, a run and its check; `lock`, the semaphore as
//! a lock of the log; `prealloc`, the file of the log.

mod input;
mod lock;
mod prealloc;
mod runner;

use crate::BenchOptions;
use crate::clock::Spread;
use crate::error::BenchError;
use crate::report::{Chart, Column, Report, Target};
use blockmill_chaingen::{ChainSpec, Profile};
use blockmill_coins::undo_log::{SectionLock, StandardLock};
use input::Input;
use lock::{KernelObjectLock, SPINS};
use prealloc::Preallocated;
use runner::{Load, Outcome, Work, run};
use serde::Serialize;
use std::time::{Duration, Instant};

const SEED: u64 = 1;

/// A run ends early at this length of the log: every byte goes to the disk and is read back.
const LOG_BYTES_MAX: u64 = 512 << 20;

/// The names of the two tables.
const SEQUENCES: &str = "complete write sequences";
const RECORDS: &str = "records encoded before";

const OURS: &str = "blockmill";
const STD: &str = "std Mutex";
const KERNEL_OBJECT: &str = "kernel object";

/// With `MANY_WRITERS` ours must be at least as fast as with `FEWER_WRITERS`, and as the kernel
/// object.
const MANY_WRITERS: usize = 10;
const FEWER_WRITERS: usize = 4;

/// Share of the speed of the standard library's mutex that ours must reach with any number of
/// writers.
const OURS_OVER_STD: f64 = 0.9;

/// A run under one of the locks.
type Runner = fn(&mut Preallocated, &Input, Load, &str) -> Result<Outcome, BenchError>;

const TABLES: [(&str, Work); 2] = [(SEQUENCES, Work::Sequence), (RECORDS, Work::Record)];

const LOCKS: [(&str, Runner); 3] = [
    (OURS, run::<SectionLock>),
    (STD, run::<StandardLock>),
    (KERNEL_OBJECT, run::<KernelObjectLock>),
];

const COLUMNS: &[Column] = &[
    Column::text("lock", "lock"),
    Column::number("writers", "writers", 0),
    Column::number("runs", "runs", 0),
    Column::number("sequences_per_second", "sequences/s", 0),
    Column::number("sequences_per_second_min", "min", 0),
    Column::number("sequences_per_second_max", "max", 0),
    Column::number("megabytes_per_second", "MB/s", 1),
    Column::number("ours_over_this", "ours/this", 2),
    Column::number("unluckiest_share", "unluckiest", 2),
    Column::number("luckiest_share", "luckiest", 2),
    Column::number("cpu_seconds", "CPU s", 3),
    Column::number("cpu_us_per_sequence", "CPU us each", 2),
    Column::number("sync_ms", "sync ms", 1),
];

const CHARTS: &[Chart] = &[chart(SEQUENCES), chart(RECORDS)];

const fn chart(table: &'static str) -> Chart {
    Chart {
        title: table,
        within: Some(("table", table)),
        series: "lock",
        x: "writers",
        x_label: "writers",
        y: "sequences_per_second",
        y_label: "sequences per second, all writers (median run)",
    }
}

/// The input and the size of the benchmark.
#[derive(Debug, Clone)]
struct Plan {
    spec: ChainSpec,
    /// Numbers of writers.
    writers: Vec<usize>,
    /// Runs of each lock with each number of writers and each kind of work.
    runs: usize,
    time: Duration,
    /// Length of the log at which a run ends early.
    log_bytes_max: u64,
}

/// The runs under one lock with one number of writers.
struct Series {
    table: &'static str,
    work: Work,
    lock: &'static str,
    runner: Runner,
    writers: usize,
    outcomes: Vec<Outcome>,
}

/// A printed row. Figures are medians over the runs, unless noted.
#[derive(Debug, Clone, Serialize)]
struct Row {
    table: &'static str,
    lock: &'static str,
    writers: usize,
    runs: usize,
    record_bytes_mean: f64,
    sequences_per_second: f64,
    sequences_per_second_min: f64,
    sequences_per_second_max: f64,
    megabytes_per_second: f64,
    /// Our sequences per second over this lock's, with as many writers.
    ours_over_this: Option<f64>,
    unluckiest_share: f64,
    luckiest_share: f64,
    cpu_seconds: f64,
    cpu_us_per_sequence: f64,
    sync_ms: f64,
}

/// Runs the benchmark.
///
/// # Errors
/// Any [`BenchError`] but those about names and output.
pub(crate) fn report(options: &BenchOptions, progress: &mut dyn FnMut(&str)) -> Result<Report, BenchError> {
    let plan = Plan::new(options.quick);
    let mut report = Report::new(
        "writers",
        "concurrent writers that append undo records to one log, under several locks",
        &options.command,
    );
    let rows = run_plan(&plan, progress)?;
    report.notes = vec![
        format!(
            "records: undo data of the blocks of a mixed chain, seed {SEED}, {:.0} bytes on average; each writer goes round through them",
            rows.first().map_or(0.0, |row| row.record_bytes_mean)
        ),
        format!("{SEQUENCES}: encode the undo data with its checksum, and append it; {RECORDS}: only append"),
        format!("only the lock around the log's buffer differs; {KERNEL_OBJECT}: {SPINS} spins, then an eventfd"),
        format!(
            "a run: {} ms, or less if the log reaches {} MiB, in a preallocated file whose pages are cached; its sync is timed apart",
            plan.time.as_millis(),
            plan.log_bytes_max >> 20
        ),
        "after each run every record is read back and compared".to_owned(),
        "CPU seconds: of the whole process, up to the last writer's end; min and max: over the runs, else medians"
            .to_owned(),
        "unluckiest, luckiest: sequences of that writer over the mean of all".to_owned(),
    ];
    report.group = Some("table");
    report.columns = COLUMNS.to_vec();
    report.targets = targets(&rows);
    report.rows = rows.iter().map(|row| serde_json::json!(row)).collect();
    report.charts = CHARTS.to_vec();
    Ok(report)
}

impl Plan {
    fn new(quick: bool) -> Self {
        let (writers, runs, time_ms) = if quick {
            (vec![1, 2, 4, 10, 32], 3, 100)
        } else {
            (vec![1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 32], 5, 300)
        };
        Self {
            spec: ChainSpec {
                inputs: 4_000,
                ..ChainSpec::new(Profile::Mixed, 250, SEED)
            },
            writers,
            runs,
            time: Duration::from_millis(time_ms),
            log_bytes_max: LOG_BYTES_MAX,
        }
    }
}

/// Makes the records, and measures.
fn run_plan(plan: &Plan, progress: &mut dyn FnMut(&str)) -> Result<Vec<Row>, BenchError> {
    let start = Instant::now();
    let input = Input::make(&plan.spec)?;
    progress(&format!(
        "made {} records of {:.0} bytes on average: {:.1} s",
        input.records.len(),
        input.record_bytes_mean(),
        start.elapsed().as_secs_f64()
    ));
    let mut file = Preallocated::make(plan.log_bytes_max)?;
    let mut all = Vec::new();
    for &writers in &plan.writers {
        let mut series = series(writers);
        for run in 1..=plan.runs {
            // Back and forth, so that the neighbours of a run change.
            series.reverse();
            for series in &mut series {
                series.run(&mut file, &input, plan.time)?;
            }
            progress(&format!("{}: run {run} of {}", words(writers), plan.runs));
        }
        all.extend(series);
    }
    // Each table in one piece, by writers, ours first.
    all.sort_by_key(Series::sort_key);
    Ok(all.iter().map(|series| row(series, &all, &input)).collect())
}

fn words(writers: usize) -> String {
    let plural = if writers == 1 { "" } else { "s" };
    format!("{writers} writer{plural}")
}

/// All contenders with `writers` writers.
fn series(writers: usize) -> Vec<Series> {
    let mut all = Vec::new();
    for (table, work) in TABLES {
        for (lock, runner) in LOCKS {
            all.push(Series {
                table,
                work,
                lock,
                runner,
                writers,
                outcomes: Vec::new(),
            });
        }
    }
    all
}

impl Series {
    /// Sort key of the row.
    fn sort_key(&self) -> (Option<usize>, usize, Option<usize>) {
        let table = TABLES.iter().position(|(table, _)| *table == self.table);
        let lock = LOCKS.iter().position(|(lock, _)| *lock == self.lock);
        (table, self.writers, lock)
    }

    fn run(&mut self, file: &mut Preallocated, input: &Input, time: Duration) -> Result<(), BenchError> {
        let load = Load {
            work: self.work,
            writers: self.writers,
            time,
        };
        let name = format!("{}, {}, {}", self.table, self.lock, words(self.writers));
        self.outcomes.push((self.runner)(file, input, load, &name)?);
        Ok(())
    }

    /// The spread of a figure over the runs.
    fn spread(&self, figure: impl Fn(&Outcome) -> f64) -> Spread {
        Spread::of(self.outcomes.iter().map(figure))
    }
}

fn row(series: &Series, all: &[Series], input: &Input) -> Row {
    let speed = series.spread(Outcome::sequences_per_second);
    let ours = all
        .iter()
        .find(|other| (other.table, other.writers, other.lock) == (series.table, series.writers, OURS))
        .filter(|_| series.lock != OURS);
    Row {
        table: series.table,
        lock: series.lock,
        writers: series.writers,
        runs: series.outcomes.len(),
        record_bytes_mean: input.record_bytes_mean(),
        sequences_per_second: speed.median,
        sequences_per_second_min: speed.min,
        sequences_per_second_max: speed.max,
        megabytes_per_second: series.spread(Outcome::bytes_per_second).median / 1e6,
        ours_over_this: ours.map(|ours| ours.spread(Outcome::sequences_per_second).median / speed.median),
        unluckiest_share: series.spread(|outcome| outcome.shares().0).median,
        luckiest_share: series.spread(|outcome| outcome.shares().1).median,
        cpu_seconds: series.spread(|outcome| outcome.elapsed.cpu_seconds).median,
        cpu_us_per_sequence: series.spread(Outcome::cpu_seconds_per_sequence).median * 1e6,
        sync_ms: series.spread(|outcome| outcome.sync_seconds).median * 1e3,
    }
}

/// The claims for which there are rows.
fn targets(rows: &[Row]) -> Vec<Target> {
    let mut targets = Vec::new();
    for (table, _) in TABLES {
        let find = |lock: &str, writers: usize| {
            rows.iter()
                .find(|row| (row.table, row.lock, row.writers) == (table, lock, writers))
        };
        let speed = |writers: usize| find(OURS, writers).map(|row| row.sequences_per_second);
        let growth = speed(MANY_WRITERS)
            .zip(speed(FEWER_WRITERS))
            .map(|(many, fewer)| many / fewer);
        let over_std = rows
            .iter()
            .filter(|row| row.table == table && row.lock == STD)
            .filter_map(|row| row.ours_over_this)
            .min_by(f64::total_cmp);
        let over_kernel_object = find(KERNEL_OBJECT, MANY_WRITERS).and_then(|row| row.ours_over_this);
        let claims = [
            (
                format!("{table}: ours, {MANY_WRITERS} writers over {FEWER_WRITERS} writers"),
                growth,
                1.0,
            ),
            (format!("{table}: ours over {STD}, worst row"), over_std, OURS_OVER_STD),
            (
                format!("{table}: ours over {KERNEL_OBJECT}, {MANY_WRITERS} writers"),
                over_kernel_object,
                1.0,
            ),
        ];
        for (name, value, wanted) in claims {
            targets.extend(value.map(|value| Target::at_least(&name, value, wanted)));
        }
    }
    targets
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tiny() -> Plan {
        Plan {
            spec: ChainSpec {
                inputs: 60,
                ..ChainSpec::new(Profile::Mixed, 110, 7)
            },
            writers: vec![1, 4, 10],
            runs: 2,
            time: Duration::from_millis(5),
            log_bytes_max: 4 << 20,
        }
    }

    #[test]
    fn every_lock_has_a_row_in_both_tables() {
        let mut lines = Vec::new();
        let rows = run_plan(&tiny(), &mut |line| lines.push(line.to_owned())).unwrap();
        assert_eq!(lines.len(), 1 + 3 * 2);
        assert_eq!(lines[6], "10 writers: run 2 of 2");
        let mut expected = Vec::new();
        for table in [SEQUENCES, RECORDS] {
            for writers in [1, 4, 10] {
                expected.extend([OURS, STD, KERNEL_OBJECT].map(|lock| (table, writers, lock)));
            }
        }
        let found: Vec<_> = rows.iter().map(|row| (row.table, row.writers, row.lock)).collect();
        assert_eq!(found, expected);
        for trio in rows.chunks(3) {
            for row in trio {
                assert_eq!(row.runs, 2);
                assert!(row.sequences_per_second_min > 0.0 && row.cpu_us_per_sequence > 0.0);
                assert!(row.sequences_per_second_min <= row.sequences_per_second);
                assert!(row.sequences_per_second <= row.sequences_per_second_max);
                assert!(row.unluckiest_share <= 1.0 && row.luckiest_share >= 1.0);
                let ratio = trio[0].sequences_per_second / row.sequences_per_second;
                assert_eq!(row.ours_over_this, (row.lock != OURS).then_some(ratio));
            }
        }
        let names: Vec<_> = targets(&rows).into_iter().map(|target| target.name).collect();
        assert_eq!(names.len(), 6);
        assert_eq!(names[0], "complete write sequences: ours, 10 writers over 4 writers");
        assert_eq!(names[4], "records encoded before: ours over std Mutex, worst row");

        let row = serde_json::json!(rows[0]);
        let keys = COLUMNS.iter().map(|column| column.key);
        let axes = CHARTS.iter().flat_map(|chart| [chart.series, chart.x, chart.y]);
        for key in keys.chain(axes).chain(["table"]) {
            assert!(row.get(key).is_some(), "{key}");
        }
        for chart in CHARTS {
            let (key, value) = chart.within.unwrap();
            assert!(rows.iter().any(|row| serde_json::json!(row)[key] == value));
        }
    }

    fn figures(lock: &'static str, writers: usize, speed: f64, ours_over_this: Option<f64>) -> Row {
        Row {
            table: RECORDS,
            lock,
            writers,
            runs: 1,
            record_bytes_mean: 1.0,
            sequences_per_second: speed,
            sequences_per_second_min: speed,
            sequences_per_second_max: speed,
            megabytes_per_second: 1.0,
            ours_over_this,
            unluckiest_share: 1.0,
            luckiest_share: 1.0,
            cpu_seconds: 1.0,
            cpu_us_per_sequence: 1.0,
            sync_ms: 1.0,
        }
    }

    #[test]
    fn targets_follow_from_the_rows() {
        let rows = [
            figures(OURS, 4, 1_000.0, None),
            figures(STD, 4, 1_000.0, Some(1.0)),
            figures(OURS, 10, 999.9, None),
            figures(STD, 10, 1_111.0, Some(0.9)),
            figures(KERNEL_OBJECT, 10, 300.0, Some(3.333)),
        ];
        let found: Vec<_> = targets(&rows).iter().map(Target::words).collect();
        let expected = [
            "records encoded before: ours, 10 writers over 4 writers: 0.9999 (wanted 1): NOT MET",
            "records encoded before: ours over std Mutex, worst row: 0.9 (wanted 0.9): met",
            "records encoded before: ours over kernel object, 10 writers: 3.333 (wanted 1): met",
        ];
        assert_eq!(found, expected);
        assert!(targets(&rows[..1]).is_empty());
    }
}
