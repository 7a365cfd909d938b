//! The plan of the runs, the rows and the targets.

use super::baseline_v0::{Policy, baseline_v0};
use super::job::Load;
use super::ours::{REQUESTERS, one_requester, several_requesters};
use super::peers::{crossbeam, flume, rayon};
use super::runner::{Outcome, Run};
use crate::BenchOptions;
use crate::clock::Spread;
use crate::error::BenchError;
use crate::report::{Chart, Column, Report, Target};
use blockmill_workqueue::Help;
use serde::Serialize;
use std::io;
use std::sync::Arc;
use std::time::Duration;

const OURS: &str = "blockmill";
const WORKERS_ONLY: &str = "blockmill, workers only";
const SEVERAL: &str = "blockmill, 4 requesters";
const ROUND_ROBIN: &str = "round robin";

/// Our contenders. The peers are compared with the first of them.
const ALL_OURS: [&str; 3] = [OURS, WORKERS_ONLY, SEVERAL];

/// Share of its peak that ours must keep with more workers.
const OF_PEAK: f64 = 0.9;

/// The target over round robin holds from this number of workers and cores on.
const MANY_WORKERS: usize = 24;
const MANY_CORES: usize = 8;
const OVER_ROUND_ROBIN: f64 = 2.0;

/// The tables, with the time of a job in microseconds.
const TABLES: [(&str, u64); 3] = [("jobs of 0 us", 0), ("jobs of 1 us", 1), ("jobs of 10 us", 10)];

type Runner = fn(&Arc<Load>, &Run<'_>) -> io::Result<Outcome>;

const CONTENDERS: [(&str, Runner); 8] = [
    (OURS, |load, run| one_requester(load, run, Help::default())),
    (WORKERS_ONLY, |load, run| one_requester(load, run, Help::Never)),
    (SEVERAL, several_requesters),
    ("batching", |_, run| Ok(baseline_v0(run, Policy::Batching))),
    (ROUND_ROBIN, |_, run| Ok(baseline_v0(run, Policy::RoundRobin))),
    ("crossbeam-channel", |_, run| Ok(crossbeam(run))),
    ("flume", |_, run| Ok(flume(run))),
    ("rayon", |_, run| rayon(run)),
];

const COLUMNS: &[Column] = &[
    Column::text("queue", "queue"),
    Column::number("workers", "workers", 0),
    Column::number("runs", "runs", 0),
    Column::number("jobs_per_second", "jobs/s", 0),
    Column::number("jobs_per_second_min", "min", 0),
    Column::number("jobs_per_second_max", "max", 0),
    Column::number("ours_over_this", "ours/this", 2),
    Column::number("cpu_seconds", "CPU s", 3),
    Column::number("cpu_us_per_job", "CPU us each", 3),
];

const CHARTS: &[Chart] = &[chart(TABLES[0].0), chart(TABLES[1].0), chart(TABLES[2].0)];

const fn chart(table: &'static str) -> Chart {
    Chart {
        title: table,
        within: Some(("table", table)),
        series: "queue",
        x: "workers",
        x_label: "worker threads",
        y: "jobs_per_second",
        y_label: "jobs per second (median run)",
    }
}

/// The size of the benchmark.
#[derive(Debug, Clone)]
struct Plan {
    workers: Vec<usize>,
    tables: usize,
    /// Runs of each contender with each number of workers: `-c`.
    runs: usize,
    time: Duration,
}

impl Plan {
    fn new(quick: bool) -> Self {
        let (workers, tables, runs) = if quick {
            (vec![1, 2, 8, 64], 2, 5)
        } else {
            (vec![1, 2, 3, 4, 6, 8, 12, 16, 20, 24, 32, 48, 64], 3, 20)
        };
        Self {
            workers,
            tables,
            runs,
            time: Duration::from_millis(40),
        }
    }
}

/// The runs of one contender with one number of workers.
struct Series {
    table: &'static str,
    queue: &'static str,
    runner: Runner,
    workers: usize,
    outcomes: Vec<Outcome>,
}

/// A printed row. Figures are medians over the runs, unless noted.
#[derive(Debug, Clone, Serialize)]
struct Row {
    table: &'static str,
    queue: &'static str,
    workers: usize,
    runs: usize,
    jobs_per_second: f64,
    jobs_per_second_min: f64,
    jobs_per_second_max: f64,
    /// Our jobs per second over this queue's, with as many workers.
    ours_over_this: Option<f64>,
    cpu_seconds: f64,
    cpu_us_per_job: f64,
}

/// Runs the benchmark.
///
/// # Errors
/// [`BenchError::Mismatch`] if a result is wrong, [`BenchError::Threads`] if threads cannot be
/// started.
pub(crate) fn report(options: &BenchOptions, progress: &mut dyn FnMut(&str)) -> Result<Report, BenchError> {
    let plan = Plan::new(options.quick);
    let mut report = Report::new(
        "workqueue",
        "a requester that hands jobs to worker threads and collects their results",
        &options.command,
    );
    let rows = run_plan(&plan, progress)?;
    report.notes = vec![
        format!(
            "-r 4: slots for each worker; -m 2: MiB that jobs read a word of; -c {}: runs of {} ms each, in turns; -t: workers, the requester is a thread more",
            plan.runs,
            plan.time.as_millis()
        ),
        "the requester submits while slots are free, waits for a job, collects all finished ones, and checks each result".to_owned(),
        format!("{OURS}: the requester helps while it waits, and keeps tiny jobs and some of the small ones"),
        format!("{WORKERS_ONLY}: the requester hands over all jobs, small ones in rows, and sleeps while it waits"),
        format!("{SEVERAL}: {REQUESTERS} threads of requesters, which share the slots in flight"),
        "batching, round robin: state shared by all workers, one worker's slots filled first, or one job for each in turn".to_owned(),
        "rayon: as many jobs as there are slots spawned at a time, the requester being one of the pool's threads".to_owned(),
    ];
    report.group = Some("table");
    report.columns = COLUMNS.to_vec();
    report.targets = targets(&rows, report.machine.cores);
    report.rows = rows.iter().map(|row| serde_json::json!(row)).collect();
    report.charts = CHARTS[..plan.tables].to_vec();
    Ok(report)
}

fn run_plan(plan: &Plan, progress: &mut dyn FnMut(&str)) -> Result<Vec<Row>, BenchError> {
    let mut rows = Vec::new();
    for &(table, job_us) in &TABLES[..plan.tables] {
        let load = Arc::new(Load::new(Duration::from_micros(job_us)));
        for &workers in &plan.workers {
            let mut all: Vec<Series> = CONTENDERS
                .iter()
                .map(|&(queue, runner)| Series {
                    table,
                    queue,
                    runner,
                    workers,
                    outcomes: Vec::new(),
                })
                .collect();
            for _ in 0..plan.runs {
                // Back and forth, so that the neighbours of a run change.
                all.reverse();
                for series in &mut all {
                    series.run(&load, plan.time)?;
                }
            }
            all.sort_by_key(|series| CONTENDERS.iter().position(|(queue, _)| *queue == series.queue));
            rows.extend(all.iter().map(|series| row(series, &all)));
            progress(&format!("{table}, {workers} workers: {} runs", plan.runs));
        }
    }
    Ok(rows)
}

impl Series {
    fn run(&mut self, load: &Arc<Load>, time: Duration) -> Result<(), BenchError> {
        let run = Run {
            load,
            workers: self.workers,
            time,
        };
        let outcome = (self.runner)(load, &run).map_err(BenchError::Threads)?;
        if let Some(job) = outcome.wrong {
            return Err(BenchError::Mismatch {
                run: format!("{}, {}, {} workers", self.table, self.queue, self.workers),
                what: "result of a job",
                found: job.result.to_string(),
                wanted: load.result(job.request).to_string(),
            });
        }
        self.outcomes.push(outcome);
        Ok(())
    }

    fn spread(&self, figure: impl Fn(&Outcome) -> f64) -> Spread {
        Spread::of(self.outcomes.iter().map(figure))
    }
}

fn row(series: &Series, all: &[Series]) -> Row {
    let speed = series.spread(Outcome::jobs_per_second);
    let ours = all
        .iter()
        .find(|other| other.queue == OURS)
        .filter(|_| series.queue != OURS);
    Row {
        table: series.table,
        queue: series.queue,
        workers: series.workers,
        runs: series.outcomes.len(),
        jobs_per_second: speed.median,
        jobs_per_second_min: speed.min,
        jobs_per_second_max: speed.max,
        ours_over_this: ours.map(|ours| ours.spread(Outcome::jobs_per_second).median / speed.median),
        cpu_seconds: series.spread(|outcome| outcome.elapsed.cpu_seconds).median,
        cpu_us_per_job: series
            .spread(|outcome| outcome.elapsed.cpu_seconds / outcome.jobs as f64 * 1e6)
            .median,
    }
}

/// The claims for which there are rows.
fn targets(rows: &[Row], cores: usize) -> Vec<Target> {
    let mut targets = Vec::new();
    let smallest = |figures: &mut dyn Iterator<Item = f64>| figures.min_by(f64::total_cmp);
    for (table, _) in TABLES {
        let of = |queue: &'static str| rows.iter().filter(move |row| row.table == table && row.queue == queue);
        let peak = of(OURS).max_by(|a, b| a.jobs_per_second.total_cmp(&b.jobs_per_second));
        let beyond = of(OURS).filter(|row| peak.is_some_and(|peak| row.workers >= peak.workers));
        let speed = peak.map_or(0.0, |row| row.jobs_per_second);
        if let Some(least) = smallest(&mut beyond.map(|row| row.jobs_per_second)) {
            let name = format!("{table}: ours over its peak, worst number of workers from there on");
            targets.push(Target::at_least(&name, least / speed, OF_PEAK));
        }
        let others = rows
            .iter()
            .filter(|row| row.table == table && !ALL_OURS.contains(&row.queue));
        if let Some(least) = smallest(&mut others.filter_map(|row| row.ours_over_this)) {
            let name = format!("{table}: ours over any other, worst number of workers");
            targets.push(Target::at_least(&name, least, 1.0));
        }
        if cores < MANY_CORES {
            continue;
        }
        let round_robin = of(ROUND_ROBIN).filter(|row| row.workers >= MANY_WORKERS);
        if let Some(least) = smallest(&mut round_robin.filter_map(|row| row.ours_over_this)) {
            let name = format!("{table}: ours over {ROUND_ROBIN}, {MANY_WORKERS} and more workers");
            targets.push(Target::at_least(&name, least, OVER_ROUND_ROBIN));
        }
        let several = of(SEVERAL).map(|row| row.jobs_per_second).fold(0.0, f64::max);
        if speed > 0.0 {
            let name = format!("{table}: {REQUESTERS} requesters over one, peaks");
            targets.push(Target::at_least(&name, several / speed, 1.0));
        }
    }
    targets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everyone_has_a_row_at_every_number_of_workers() {
        let plan = Plan {
            workers: vec![1, 3, 20],
            tables: 2,
            runs: 2,
            time: Duration::from_millis(2),
        };
        let mut lines = Vec::new();
        let rows = run_plan(&plan, &mut |line| lines.push(line.to_owned())).unwrap();
        assert_eq!(lines.len(), 2 * 3);
        assert_eq!(lines[5], "jobs of 1 us, 20 workers: 2 runs");
        let mut expected = Vec::new();
        for (table, _) in &TABLES[..2] {
            for workers in [1, 3, 20] {
                expected.extend(CONTENDERS.map(|(queue, _)| (*table, workers, queue)));
            }
        }
        let found: Vec<_> = rows.iter().map(|row| (row.table, row.workers, row.queue)).collect();
        assert_eq!(found, expected);
        for row in &rows {
            assert_eq!(row.runs, 2);
            assert!(row.jobs_per_second_min > 0.0 && row.jobs_per_second_min <= row.jobs_per_second);
            assert!(row.jobs_per_second <= row.jobs_per_second_max && row.cpu_us_per_job > 0.0);
            assert_eq!(row.ours_over_this.is_none(), row.queue == OURS);
        }
        assert_eq!(targets(&rows, 2).len(), 4);
        let row = serde_json::json!(rows[0]);
        let keys = COLUMNS.iter().map(|column| column.key);
        let axes = CHARTS.iter().flat_map(|chart| [chart.series, chart.x, chart.y]);
        for key in keys.chain(axes).chain(["table"]) {
            assert!(row.get(key).is_some(), "{key}");
        }
    }

    fn figures(queue: &'static str, workers: usize, speed: f64, ours_over_this: Option<f64>) -> Row {
        Row {
            table: TABLES[1].0,
            queue,
            workers,
            runs: 1,
            jobs_per_second: speed,
            jobs_per_second_min: speed,
            jobs_per_second_max: speed,
            ours_over_this,
            cpu_seconds: 1.0,
            cpu_us_per_job: 1.0,
        }
    }

    #[test]
    fn targets_follow_from_the_rows() {
        let rows = [
            figures(OURS, 1, 700.0, None),
            figures("rayon", 1, 700.0, Some(1.0)),
            figures(OURS, 8, 1_000.0, None),
            figures(OURS, 24, 900.0, None),
            figures(ROUND_ROBIN, 24, 500.0, Some(1.8)),
            figures(WORKERS_ONLY, 24, 1_800.0, Some(0.5)),
            figures(SEVERAL, 24, 2_000.0, Some(0.45)),
        ];
        let words = |cores| targets(&rows, cores).iter().map(Target::words).collect::<Vec<_>>();
        let few = [
            "jobs of 1 us: ours over its peak, worst number of workers from there on: 0.9 (wanted 0.9): met",
            "jobs of 1 us: ours over any other, worst number of workers: 1 (wanted 1): met",
        ];
        assert_eq!(words(2), few);
        let many = [
            few[0],
            few[1],
            "jobs of 1 us: ours over round robin, 24 and more workers: 1.8 (wanted 2): NOT MET",
            "jobs of 1 us: 4 requesters over one, peaks: 2 (wanted 1): met",
        ];
        assert_eq!(words(8), many);
    }
}
