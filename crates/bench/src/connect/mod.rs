//! `bench connect`: block files to a validated UTXO set on disk, ours beside the kernel's ChainstateManager.
//!
//! Both read the same generated files, check every script, and end with everything flushed and closed. The runs take turns, each
//! in a fresh directory, and the result of each is read back from that directory after the clock has stopped.

mod at_work;
mod contender;

pub(crate) use contender::{PARTS, connect_ours};

use crate::BenchOptions;
use crate::clock::{Elapsed, Spread};
use crate::error::BenchError;
use crate::kernel;
use crate::report::{Chart, Column, Report, Target};
use blockmill_chaingen::{Profile, Recipe, Summary, write_chain};
use contender::{Contender, at_work};
use serde::Serialize;
use std::path::Path;
use std::time::Instant;
use tempfile::TempDir;

const SEED: u64 = 1;

const COLUMNS: &[Column] = &[
    Column::text("engine", "engine"),
    Column::number("threads", "threads", 0),
    Column::number("runs", "runs", 0),
    Column::number("blocks", "blocks", 0),
    Column::number("inputs", "inputs", 0),
    Column::number("bytes", "bytes", 0),
    Column::number("seconds_median", "seconds", 3),
    Column::number("seconds_min", "min", 3),
    Column::number("seconds_max", "max", 3),
    Column::number("cpu_seconds_median", "CPU s", 3),
    Column::number("blocks_per_second", "blocks/s", 1),
    Column::number("inputs_per_second", "inputs/s", 0),
    Column::number("ratio", "ratio", 2),
    Column::number("ratio_min", "min", 2),
    Column::number("ratio_max", "max", 2),
    Column::number("at_work_percent", "at work %", 1),
];

const MIXED: &str = "mixed";
const MIXED_SMALL: &str = "mixed, small blocks";
const UTXO: &str = "utxo";
const UTXO_SMALL: &str = "utxo, small blocks";

const CHARTS: &[Chart] = &[chart(MIXED), chart(MIXED_SMALL), chart(UTXO), chart(UTXO_SMALL)];

const fn chart(chain: &'static str) -> Chart {
    Chart {
        title: chain,
        within: Some(("chain", chain)),
        series: "engine",
        x: "threads",
        x_label: "threads that validate, the master included",
        y: "inputs_per_second",
        y_label: "inputs per second (median run)",
    }
}

/// Which chains to connect, how, and how often.
#[derive(Debug, Clone)]
struct Plan {
    chains: Vec<(&'static str, Recipe)>,
    /// Numbers of threads, the smallest first.
    threads: Vec<usize>,
    /// What is left out in further rows, with as many threads as there are cores.
    without: Vec<&'static str>,
    /// Runs of each engine with each number of threads.
    runs: usize,
}

/// What one contender did with one number of threads.
struct Series {
    contender: Contender,
    threads: usize,
    elapsed: Vec<Elapsed>,
    /// Of one more run of ours, which is traced.
    at_work: Option<f64>,
    /// Where the last run ended.
    tip: String,
}

/// A printed row. Ratio: the kernel's median time over ours, with the same number of threads.
#[derive(Debug, Clone, Serialize)]
struct Row {
    chain: &'static str,
    engine: &'static str,
    threads: usize,
    runs: usize,
    /// Blocks connected, genesis not counted.
    blocks: u32,
    /// Their inputs, coinbases not counted.
    inputs: u64,
    /// Bytes of the blocks, genesis included.
    bytes: u64,
    seconds_median: f64,
    seconds_min: f64,
    seconds_max: f64,
    cpu_seconds_median: f64,
    blocks_per_second: f64,
    inputs_per_second: f64,
    ratio: Option<f64>,
    ratio_min: Option<f64>,
    ratio_max: Option<f64>,
    /// Of a traced run, between the first block and the last: the time that the thread which worked least was at work.
    at_work_percent: Option<f64>,
    tip: String,
}

/// Runs the benchmark.
///
/// # Errors
/// Any [`BenchError`] but those about names and output.
pub(crate) fn report(options: &BenchOptions, progress: &mut dyn FnMut(&str)) -> Result<Report, BenchError> {
    let mut report = Report::new(
        "connect",
        "block files to a validated UTXO set on disk, every script checked",
        &options.command,
    );
    let plan = Plan::new(options, report.machine.cores);
    report.notes = vec![
        "seconds are of the median run; ratio is the kernel's seconds over ours with as many threads: the median, the least and the most of \
         runs side by side"
            .to_owned(),
        "on regtest the kernel looks through its whole block index after every block: with many small blocks part of its time is that"
            .to_owned(),
        "at work: in one more run, between the first block and the last, of the thread that worked least; looking for work is none"
            .to_owned(),
    ];
    let mut rows = Vec::new();
    for (name, recipe) in &plan.chains {
        let (summary, more) = run_chain(&plan, name, recipe, progress)?;
        report.notes.push(format!(
            "{name}: {} blocks, seed {}, {} transactions, {} inputs, {} coins at the end, tip {}",
            summary.height, summary.seed, summary.transactions, summary.inputs, summary.coins, summary.tip
        ));
        rows.extend(more);
    }
    report.group = Some("chain");
    report.columns = COLUMNS.to_vec();
    report.targets = targets(&rows);
    report.rows = rows.iter().map(|row| serde_json::json!(row)).collect();
    report.charts = CHARTS.to_vec();
    Ok(report)
}

impl Plan {
    fn new(options: &BenchOptions, cores: usize) -> Self {
        let quick = options.quick;
        let recipe = |profile, blocks, inputs, coins| Recipe {
            inputs,
            coins,
            ..Recipe::new(profile, blocks, SEED)
        };
        let chains = if quick {
            vec![
                (MIXED, recipe(Profile::Mixed, 130, 6_000, 0)),
                (UTXO, recipe(Profile::Utxo, 130, 60_000, 40_000)),
            ]
        } else {
            vec![
                (MIXED, recipe(Profile::Mixed, 300, 100_000, 0)),
                (MIXED_SMALL, recipe(Profile::Mixed, 2_000, 20_000, 0)),
                (UTXO, recipe(Profile::Utxo, 400, 3_000_000, 2_000_000)),
                (UTXO_SMALL, recipe(Profile::Utxo, 2_000, 20_000, 10_000)),
            ]
        };
        Self {
            chains,
            threads: threads(cores),
            without: options.without.clone(),
            runs: if quick { 3 } else { 5 },
        }
    }
}

/// 1, 2, and further powers of two up to the cores.
fn threads(cores: usize) -> Vec<usize> {
    let mut threads = vec![1, 2];
    while let Some(next) = threads.last().map(|last| last * 2)
        && next <= cores
    {
        threads.push(next);
    }
    threads
}

/// Makes a chain in a temporary directory, and measures.
fn run_chain(
    plan: &Plan,
    name: &'static str,
    recipe: &Recipe,
    progress: &mut dyn FnMut(&str),
) -> Result<(Summary, Vec<Row>), BenchError> {
    let directory = temporary_directory()?;
    let blocks = directory.path().join("blocks");
    let start = Instant::now();
    let summary = write_chain(&blocks, recipe, &mut |_| ())?;
    progress(&format!(
        "{name}: made a chain of {} blocks and {} inputs: {:.1} s",
        summary.height,
        summary.inputs,
        start.elapsed().as_secs_f64()
    ));
    let rows = measure(plan, name, &blocks, &summary, progress)?;
    Ok((summary, rows))
}

pub(crate) fn temporary_directory() -> Result<TempDir, BenchError> {
    tempfile::tempdir().map_err(BenchError::file(std::env::temp_dir()))
}

/// Runs everything in turns on the files in `blocks`; each run must come to the result in `expected`.
fn measure(
    plan: &Plan,
    chain: &'static str,
    blocks: &Path,
    expected: &Summary,
    progress: &mut dyn FnMut(&str),
) -> Result<Vec<Row>, BenchError> {
    let mut series = Vec::new();
    let mut add = |contender, threads| {
        series.push(Series {
            contender,
            threads,
            elapsed: Vec::new(),
            at_work: None,
            tip: String::new(),
        });
    };
    for &threads in &plan.threads {
        add(Contender::Blockmill, threads);
        if threads <= kernel::THREADS_MAX {
            add(Contender::Bitcoinkernel, threads);
        }
    }
    let most = plan.threads.last().copied().unwrap_or(1);
    plan.without.iter().for_each(|part| add(Contender::Without(part), most));
    for run in 1..=plan.runs {
        for series in &mut series {
            let (tip, elapsed) = series.contender.connect(blocks, series.threads, expected)?;
            progress(&format!(
                "{chain}, run {run} of {}: {}: {:.3} s",
                plan.runs,
                series.contender.words(series.threads),
                elapsed.seconds
            ));
            series.elapsed.push(elapsed);
            series.tip = tip;
        }
    }
    for series in series
        .iter_mut()
        .filter(|series| series.contender == Contender::Blockmill)
    {
        series.at_work = at_work(blocks, series.threads)?;
    }
    Ok(rows(chain, &series, expected))
}

fn rows(chain: &'static str, series: &[Series], expected: &Summary) -> Vec<Row> {
    let row = |series_here: &Series| {
        let seconds = |elapsed: &Elapsed| elapsed.seconds;
        let spread = Spread::of(series_here.elapsed.iter().map(seconds));
        let peer = series.iter().find(|other| {
            other.contender == Contender::Bitcoinkernel
                && other.threads == series_here.threads
                && series_here.contender != Contender::Bitcoinkernel
        });
        let ratio = peer.map(|peer| {
            let pairs = series_here.elapsed.iter().zip(&peer.elapsed);
            Spread::of(pairs.map(|(ours, peer)| peer.seconds / ours.seconds))
        });
        Row {
            chain,
            engine: series_here.contender.name(),
            threads: series_here.threads,
            runs: series_here.elapsed.len(),
            blocks: expected.height,
            inputs: expected.inputs,
            bytes: expected.bytes,
            seconds_median: spread.median,
            seconds_min: spread.min,
            seconds_max: spread.max,
            cpu_seconds_median: Spread::of(series_here.elapsed.iter().map(|elapsed| elapsed.cpu_seconds)).median,
            blocks_per_second: f64::from(expected.height) / spread.median,
            inputs_per_second: expected.inputs as f64 / spread.median,
            ratio: ratio.map(|ratio| ratio.median),
            ratio_min: ratio.map(|ratio| ratio.min),
            ratio_max: ratio.map(|ratio| ratio.max),
            at_work_percent: series_here.at_work.map(|part| part * 100.0),
            tip: series_here.tip.clone(),
        }
    };
    series.iter().map(row).collect()
}

/// The claims, computed from the rows.
fn targets(rows: &[Row]) -> Vec<Target> {
    let ratio = |chain: &str, threads: usize| {
        let row = rows
            .iter()
            .find(|row| (row.chain, row.engine, row.threads) == (chain, Contender::Blockmill.name(), threads));
        row.and_then(|row| row.ratio)
    };
    let mut targets = vec![Target::holds(
        "same tip as bitcoinkernel on every chain",
        same_tip(rows),
    )];
    for (chain, threads, wanted) in [(MIXED, 2, 1.2), (UTXO, 1, 2.0), (UTXO, 2, 4.0)] {
        if let Some(ratio) = ratio(chain, threads) {
            let name = format!("{chain}, {threads} threads: the kernel's seconds over ours");
            targets.push(Target::at_least(&name, ratio, wanted));
        }
    }
    let mixed = rows
        .iter()
        .find(|row| (row.chain, row.engine, row.threads) == (MIXED, Contender::Blockmill.name(), 2));
    if let Some(percent) = mixed.and_then(|row| row.at_work_percent) {
        targets.push(Target::at_least(
            "mixed, 2 threads: each at work, percent",
            percent,
            97.0,
        ));
    }
    for (small, big) in [(MIXED_SMALL, MIXED), (UTXO_SMALL, UTXO)] {
        if let (Some(small_ratio), Some(big_ratio)) = (ratio(small, 2), ratio(big, 2)) {
            let name = format!("{small}, 2 threads: as far ahead as with big blocks");
            targets.push(Target::at_least(&name, small_ratio / big_ratio, 1.0));
        }
    }
    targets
}

/// Whether both engines have rows, and all rows of a chain end at one tip.
fn same_tip(rows: &[Row]) -> bool {
    let has = |contender: Contender| rows.iter().any(|row| row.engine == contender.name());
    has(Contender::Blockmill)
        && has(Contender::Bitcoinkernel)
        && rows
            .windows(2)
            .all(|pair| pair[0].chain != pair[1].chain || pair[0].tip == pair[1].tip)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tiny() -> Plan {
        Plan {
            chains: vec![(
                MIXED,
                Recipe {
                    inputs: 60,
                    ..Recipe::new(Profile::Mixed, 110, 7)
                },
            )],
            threads: vec![1, 2],
            without: PARTS.to_vec(),
            runs: 2,
        }
    }

    #[test]
    fn both_engines_end_at_the_generated_tip() {
        let mut lines = Vec::new();
        let plan = tiny();
        let (name, recipe) = &plan.chains[0];
        let (summary, rows) = run_chain(&plan, name, recipe, &mut |line| lines.push(line.to_owned())).unwrap();
        assert!(same_tip(&rows));
        assert_eq!((summary.height, rows.len()), (110, 4 + PARTS.len()));
        assert_eq!(lines.len(), 1 + 2 * (4 + PARTS.len()));
        assert!(
            lines[2].starts_with("mixed, run 1 of 2: bitcoinkernel with 1 thread: "),
            "{}",
            lines[2]
        );
        for (row, threads) in rows.iter().zip([1, 1, 2, 2]) {
            assert_eq!((row.threads, row.runs, row.blocks), (threads, 2, 110));
            assert_eq!((row.inputs, row.bytes), (summary.inputs, summary.bytes));
            assert!(row.seconds_min <= row.seconds_median && row.seconds_median <= row.seconds_max);
            assert!(row.seconds_min > 0.0 && row.cpu_seconds_median > 0.0);
            assert_eq!(row.ratio.is_some(), row.engine == "blockmill");
            assert_eq!(row.at_work_percent.is_some(), row.engine == "blockmill");
            assert!(row.ratio_min <= row.ratio && row.ratio <= row.ratio_max);
        }
        for (row, part) in rows[4..].iter().zip(PARTS) {
            assert_eq!((row.threads, row.engine), (2, &*format!("blockmill without {part}")));
            assert!(row.ratio.is_some());
        }
        let targets = targets(&rows);
        assert_eq!(targets.len(), 3);
        assert!(targets[0].met && targets[1].value == rows[2].ratio.unwrap());
    }

    #[test]
    fn every_column_and_axis_is_in_the_rows() {
        let series = [Series {
            contender: Contender::Blockmill,
            threads: 1,
            elapsed: vec![Elapsed {
                seconds: 2.0,
                cpu_seconds: 1.0,
            }],
            at_work: None,
            tip: "00".to_owned(),
        }];
        let rows = rows(MIXED, &series, &summary_without_chain());
        assert!(rows[0].ratio.is_none() && !same_tip(&rows));
        let row = serde_json::json!(rows[0]);
        let keys = COLUMNS.iter().map(|column| column.key);
        for key in keys.chain(CHARTS.iter().flat_map(|chart| [chart.series, chart.x, chart.y])) {
            assert!(row.get(key).is_some(), "{key}");
        }
        assert_eq!(row["inputs_per_second"], 10.0);
    }

    fn summary_without_chain() -> Summary {
        Summary {
            profile: "mixed".to_owned(),
            seed: 1,
            network: "regtest".to_owned(),
            height: 10,
            tip: "00".to_owned(),
            blocks: 11,
            transactions: 11,
            inputs: 20,
            outputs: 30,
            bytes: 1_000,
            coins: 10,
            total_amount: 1,
            hash_serialized_3: "00".to_owned(),
            files: Vec::new(),
        }
    }

    #[test]
    fn a_result_that_is_not_the_expected_one_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let blocks = directory.path().join("blocks");
        let recipe = Recipe::new(Profile::Utxo, 3, 1);
        let summary = write_chain(&blocks, &recipe, &mut |_| ()).unwrap();
        let check = |contender: Contender, expected: &Summary, wrong: &str| {
            let error = contender.connect(&blocks, 1, expected).unwrap_err();
            assert!(
                matches!(&error, BenchError::Mismatch { what, .. } if *what == wrong),
                "{error}"
            );
            assert!(error.to_string().starts_with(contender.name()), "{error}");
        };
        let other_tip = Summary {
            tip: "11".repeat(32),
            ..summary.clone()
        };
        check(Contender::Blockmill, &other_tip, "tip");
        check(Contender::Bitcoinkernel, &other_tip, "tip");
        let other_coins = Summary {
            hash_serialized_3: "22".repeat(32),
            ..summary
        };
        check(Contender::Blockmill, &other_coins, "hash_serialized_3");
    }

    #[test]
    fn threads_follow_the_cores() {
        assert_eq!(threads(1), [1, 2]);
        assert_eq!(threads(3), [1, 2]);
        assert_eq!(threads(4), [1, 2, 4]);
        assert_eq!(threads(16), [1, 2, 4, 8, 16]);
        assert_eq!(threads(24), [1, 2, 4, 8, 16]);
    }
}
