//! `bench connect`: block files to a validated UTXO set on disk, ours beside the kernel's ChainstateManager.
//!
//! Both read the same generated files, check every script, and end with everything flushed and closed. The runs take turns, each
//! in a fresh directory, and the result of each is read back from that directory after the clock has stopped.

use crate::BenchOptions;
use crate::clock::{Elapsed, Spread, Stopwatch};
use crate::error::BenchError;
use crate::kernel;
use crate::report::{Chart, Column, Report, Target};
use blockmill_block::Network;
use blockmill_chaingen::{Profile, Recipe, Summary, write_chain};
use blockmill_coins::StatsBuilder;
use blockmill_coins::stats::Hashes;
use blockmill_engine::{Engine, Marks, Options, Quiet};
use blockmill_script::KernelVerifier;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::Instant;
use tempfile::TempDir;

/// Memory for coins in bytes; the kernel's default, which its library does not let anyone change.
const CACHE_BYTES: usize = 450 << 20;

const SEED: u64 = 1;

const COLUMNS: &[Column] = &[
    Column::text("chain", "chain"),
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
];

const CHART: Chart = Chart {
    title: "Inputs connected per second, all scripts checked",
    within: None,
    series: "engine",
    x: "threads",
    x_label: "threads that validate, the master included",
    y: "inputs_per_second",
    y_label: "inputs per second (median run)",
};

/// Which chain to connect, how, and how often.
#[derive(Debug, Clone)]
struct Plan {
    recipe: Recipe,
    /// Numbers of threads, the smallest first.
    threads: Vec<usize>,
    /// Runs of each engine with each number of threads.
    runs: usize,
}

/// Who connects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Contender {
    Blockmill,
    Bitcoinkernel,
}

/// What one contender did with one number of threads.
struct Series {
    contender: Contender,
    threads: usize,
    elapsed: Vec<Elapsed>,
    /// Where the last run ended.
    tip: String,
}

/// A printed row. Ratio: the kernel's median time over ours, with the same number of threads.
#[derive(Debug, Clone, Serialize)]
struct Row {
    chain: String,
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
    let plan = Plan::new(options.quick, report.machine.cores);
    let (summary, rows) = run_plan(&plan, progress)?;
    report.notes = vec![
        format!(
            "chain {}: {} blocks, seed {}, {} transactions, {} coins at the end, tip {}",
            summary.profile, summary.height, summary.seed, summary.transactions, summary.coins, summary.tip
        ),
        "seconds are of the median run; ratio is the kernel's seconds over ours with as many threads".to_owned(),
    ];
    report.columns = COLUMNS.to_vec();
    report.targets = vec![Target::holds("same tip as bitcoinkernel", same_tip(&rows))];
    report.rows = rows.iter().map(|row| serde_json::json!(row)).collect();
    report.charts = vec![CHART];
    Ok(report)
}

impl Plan {
    fn new(quick: bool, cores: usize) -> Self {
        let (blocks, inputs, runs) = if quick { (130, 6_000, 3) } else { (300, 100_000, 3) };
        Self {
            recipe: Recipe {
                inputs,
                ..Recipe::new(Profile::Mixed, blocks, SEED)
            },
            threads: threads(cores),
            runs,
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

/// Makes the chain in a temporary directory, and measures.
fn run_plan(plan: &Plan, progress: &mut dyn FnMut(&str)) -> Result<(Summary, Vec<Row>), BenchError> {
    let directory = temporary_directory()?;
    let blocks = directory.path().join("blocks");
    let recipe = &plan.recipe;
    let start = Instant::now();
    let summary = write_chain(&blocks, recipe, &mut |_| ())?;
    progress(&format!(
        "made a {} chain of {} blocks and {} inputs: {:.1} s",
        summary.profile,
        summary.height,
        summary.inputs,
        start.elapsed().as_secs_f64()
    ));
    let rows = measure(plan, &blocks, &summary, progress)?;
    Ok((summary, rows))
}

pub(crate) fn temporary_directory() -> Result<TempDir, BenchError> {
    tempfile::tempdir().map_err(BenchError::file(std::env::temp_dir()))
}

/// Runs everything in turns on the files in `blocks`; each run must come to the result in `expected`.
fn measure(
    plan: &Plan,
    blocks: &Path,
    expected: &Summary,
    progress: &mut dyn FnMut(&str),
) -> Result<Vec<Row>, BenchError> {
    let mut series = Vec::new();
    for &threads in &plan.threads {
        for contender in [Contender::Blockmill, Contender::Bitcoinkernel] {
            if contender == Contender::Blockmill || threads <= kernel::THREADS_MAX {
                series.push(Series {
                    contender,
                    threads,
                    elapsed: Vec::new(),
                    tip: String::new(),
                });
            }
        }
    }
    for run in 1..=plan.runs {
        for series in &mut series {
            let (tip, elapsed) = series.contender.connect(blocks, series.threads, expected)?;
            progress(&format!(
                "run {run} of {}: {}: {:.3} s",
                plan.runs,
                series.contender.words(series.threads),
                elapsed.seconds
            ));
            series.elapsed.push(elapsed);
            series.tip = tip;
        }
    }
    Ok(rows(&series, expected))
}

impl Contender {
    fn name(self) -> &'static str {
        match self {
            Self::Blockmill => "blockmill",
            Self::Bitcoinkernel => "bitcoinkernel",
        }
    }

    fn words(self, threads: usize) -> String {
        let plural = if threads == 1 { "" } else { "s" };
        format!("{} with {threads} thread{plural}", self.name())
    }

    /// Connects the chain once into a fresh directory, checks the result, and returns the tip.
    fn connect(self, blocks: &Path, threads: usize, expected: &Summary) -> Result<(String, Elapsed), BenchError> {
        let check = |what: &'static str, found: &str, wanted: &str| {
            if found == wanted {
                return Ok(());
            }
            Err(BenchError::Mismatch {
                run: self.words(threads),
                what,
                found: found.to_owned(),
                wanted: wanted.to_owned(),
            })
        };
        let data = temporary_directory()?;
        let (stored, elapsed) = match self {
            Self::Blockmill => connect_ours(blocks, data.path(), threads)?,
            Self::Bitcoinkernel => connect_kernel(blocks, data.path(), threads)?,
        };
        check("tip", &stored.tip, &expected.tip)?;
        if let Some(hash) = &stored.hash_serialized_3 {
            check("hash_serialized_3", hash, &expected.hash_serialized_3)?;
        }
        Ok((stored.tip, elapsed))
    }
}

/// What a data directory holds after a run.
pub(crate) struct Stored {
    tip: String,
    /// None where there is no way to ask for it.
    hash_serialized_3: Option<String>,
}

/// Connects the blocks with our engine. Timed is all of it: opening, reading, connecting, flushing, closing.
pub(crate) fn connect_ours(blocks: &Path, data: &Path, threads: usize) -> Result<(Stored, Elapsed), BenchError> {
    let marks = Marks {
        network: Network::Regtest,
        signet_challenge: None,
    };
    let options = Options {
        threads,
        cache_bytes_max: CACHE_BYTES,
        ..Options::default()
    };
    let sources: [PathBuf; 1] = [blocks.to_owned()];
    let clock = Stopwatch::start();
    let mut engine = Engine::open(data, Some(&marks), KernelVerifier, options.clone())?;
    engine.connect(&sources, &mut Quiet)?;
    drop(engine);
    let elapsed = clock.elapsed();
    let engine = Engine::open(data, None, KernelVerifier, options)?;
    let stats = StatsBuilder::new(Hashes::Serialized)
        .add_all(engine.coins().coins()?)?
        .finish(&engine.stored_tip());
    let stored = Stored {
        tip: stats.best_block.to_string(),
        hash_serialized_3: Some(stats.hash_serialized_3.to_string()),
    };
    Ok((stored, elapsed))
}

fn connect_kernel(blocks: &Path, data: &Path, threads: usize) -> Result<(Stored, Elapsed), BenchError> {
    let (tip, elapsed) = kernel::connect(blocks, data, threads)?;
    let stored = Stored {
        tip,
        hash_serialized_3: None,
    };
    Ok((stored, elapsed))
}

fn rows(series: &[Series], expected: &Summary) -> Vec<Row> {
    let seconds = |series: &Series| Spread::of(series.elapsed.iter().map(|elapsed| elapsed.seconds));
    let kernel_median = |threads: usize| {
        let peer = |other: &&Series| other.contender == Contender::Bitcoinkernel && other.threads == threads;
        series.iter().find(peer).map(|peer| seconds(peer).median)
    };
    let row = |series: &Series| {
        let spread = seconds(series);
        Row {
            chain: expected.profile.clone(),
            engine: series.contender.name(),
            threads: series.threads,
            runs: series.elapsed.len(),
            blocks: expected.height,
            inputs: expected.inputs,
            bytes: expected.bytes,
            seconds_median: spread.median,
            seconds_min: spread.min,
            seconds_max: spread.max,
            cpu_seconds_median: Spread::of(series.elapsed.iter().map(|elapsed| elapsed.cpu_seconds)).median,
            blocks_per_second: f64::from(expected.height) / spread.median,
            inputs_per_second: expected.inputs as f64 / spread.median,
            ratio: match series.contender {
                Contender::Blockmill => kernel_median(series.threads).map(|kernel| kernel / spread.median),
                Contender::Bitcoinkernel => None,
            },
            tip: series.tip.clone(),
        }
    };
    series.iter().map(row).collect()
}

/// Whether both engines have rows, and all rows end at one tip.
fn same_tip(rows: &[Row]) -> bool {
    let has = |contender: Contender| rows.iter().any(|row| row.engine == contender.name());
    has(Contender::Blockmill) && has(Contender::Bitcoinkernel) && rows.windows(2).all(|pair| pair[0].tip == pair[1].tip)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tiny() -> Plan {
        Plan {
            recipe: Recipe {
                inputs: 60,
                ..Recipe::new(Profile::Mixed, 110, 7)
            },
            threads: vec![1, 2],
            runs: 2,
        }
    }

    #[test]
    fn both_engines_end_at_the_generated_tip() {
        let mut lines = Vec::new();
        let (summary, rows) = run_plan(&tiny(), &mut |line| lines.push(line.to_owned())).unwrap();
        assert!(same_tip(&rows));
        assert_eq!((summary.height, rows.len()), (110, 4));
        assert_eq!(lines.len(), 1 + 2 * 4);
        assert!(
            lines[2].starts_with("run 1 of 2: bitcoinkernel with 1 thread: "),
            "{}",
            lines[2]
        );
        for (row, threads) in rows.iter().zip([1, 1, 2, 2]) {
            assert_eq!((row.threads, row.runs, row.blocks), (threads, 2, 110));
            assert_eq!((row.inputs, row.bytes), (summary.inputs, summary.bytes));
            assert!(row.seconds_min <= row.seconds_median && row.seconds_median <= row.seconds_max);
            assert!(row.seconds_min > 0.0 && row.cpu_seconds_median > 0.0);
            assert_eq!(row.ratio.is_some(), row.engine == "blockmill");
        }
        let ratio = rows[1].seconds_median / rows[0].seconds_median;
        assert_eq!(rows[0].ratio, Some(ratio));
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
            tip: "00".to_owned(),
        }];
        let rows = rows(&series, &summary_without_chain());
        assert!(rows[0].ratio.is_none() && !same_tip(&rows));
        let row = serde_json::json!(rows[0]);
        let keys = COLUMNS.iter().map(|column| column.key);
        for key in keys.chain([CHART.series, CHART.x, CHART.y]) {
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
