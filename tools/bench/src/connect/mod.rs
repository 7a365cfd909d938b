//! `blockmill-bench connect`: block files to a validated UTXO set on disk, ours beside the kernel's
//! ChainstateManager.
//!
//! Both read the same generated files, check every script, flush everything and close. The runs
//! take turns, each in a process of its own and in a fresh directory. The result of each is read
//! back from that directory after the clock has stopped. Bitcoin Core's daemon, if given, adds rows
//! of its own, and a chain whose scripts are assumed to be valid.
//!
//! In reading order: `contender`, the contenders; `subprocess`, a run in a process of its own;
//! `bitcoind`, the daemon; `utilisation`, the work of each thread; `rows`, the printed rows.

mod bitcoind;
mod contender;
mod rows;
mod subprocess;
mod utilisation;

pub(crate) use bitcoind::Daemon;
pub(crate) use contender::{PARTS, connect_ours};
pub(crate) use subprocess::run_part;

use crate::BenchOptions;
use crate::error::BenchError;
use crate::kernel;
use crate::report::Report;
use crate::signatures::lanes_are_fast;
use blockmill_chaingen::{ChainSpec, Profile, Summary, write_chain};
use contender::Contender;
use rows::{CHARTS, COLUMNS, Row, rows, targets};
use std::path::{Path, PathBuf};
use std::time::Instant;
use subprocess::{Part, Run, Runner};
use tempfile::TempDir;

const SEED: u64 = 1;

const MIXED: &str = "mixed";
const MIXED_SMALL: &str = "mixed, small blocks";
const UTXO: &str = "utxo";
const UTXO_SMALL: &str = "utxo, small blocks";
const UTXO_ASSUMED: &str = "utxo, assumed valid";

/// Empty blocks that bury the others under more than two weeks of work. Scripts of blocks with less
/// work above them are not assumed to be valid.
const BURYING_BLOCKS: u32 = 2_100;

/// The chains, the contenders, and the number of runs.
#[derive(Debug, Clone)]
struct Plan {
    chains: Vec<(&'static str, ChainSpec)>,
    /// Numbers of threads, the smallest first.
    threads: Vec<usize>,
    /// Parts that further rows leave out, with one thread for each core.
    without: Vec<&'static str>,
    /// Runs of each engine with each number of threads.
    runs: usize,
    bitcoind: Option<PathBuf>,
    /// Whether chains with signatures have rows with signatures in lanes.
    lanes: bool,
    /// This command, for runs in processes of their own. Without it ours and the kernel run in this
    /// process.
    executable: Option<PathBuf>,
    cores: usize,
}

/// The runs of one contender with one number of threads.
pub(super) struct Series {
    contender: Contender,
    threads: usize,
    runs: Vec<Run>,
    /// From one more run of ours, with a trace.
    utilisation: Option<f64>,
    /// Tip of the last run.
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
        "seconds: of the median run; ratio: the kernel's seconds over ours with as many threads: the median, the least and the most of \
         runs side by side"
            .to_owned(),
        "on regtest the kernel scans its whole block index after every block, which costs time with many small blocks"
            .to_owned(),
        "at work: share of the time between the first and the last block, of the least busy thread, in one more run; looking for work does not count"
            .to_owned(),
        "bound: CPU seconds of ours with one thread, where each stage runs alone, divided by the cores in use, as a share of the seconds".to_owned(),
        "signatures kernel: by libsecp256k1; signatures lanes: many at once, on chains with signatures".to_owned(),
        "bitcoind: -reindex-chainstate with -checkblockindex=0, from start to end of its process; -assumevalid=0 but where scripts are \
         assumed"
            .to_owned(),
    ];
    let mut rows = Vec::new();
    for (name, spec) in &plan.chains {
        let (summary, more) = run_chain(&plan, name, spec, progress)?;
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
        let spec = |profile, blocks, inputs, coins| ChainSpec {
            inputs,
            coins,
            ..ChainSpec::new(profile, blocks, SEED)
        };
        let mut chains = if quick {
            vec![
                (MIXED, spec(Profile::Mixed, 130, 6_000, 0)),
                (UTXO, spec(Profile::Utxo, 130, 60_000, 40_000)),
            ]
        } else {
            vec![
                (MIXED, spec(Profile::Mixed, 300, 100_000, 0)),
                (MIXED_SMALL, spec(Profile::Mixed, 2_000, 20_000, 0)),
                (UTXO, spec(Profile::Utxo, 400, 3_000_000, 2_000_000)),
                (UTXO_SMALL, spec(Profile::Utxo, 2_000, 20_000, 10_000)),
            ]
        };
        if options.bitcoind.is_some() {
            let (blocks, inputs, coins) = if quick {
                (130, 60_000, 40_000)
            } else {
                (400, 3_000_000, 2_000_000)
            };
            let buried = spec(Profile::Utxo, blocks + BURYING_BLOCKS, inputs, coins);
            chains.push((
                UTXO_ASSUMED,
                ChainSpec {
                    empty_blocks: BURYING_BLOCKS,
                    ..buried
                },
            ));
        }
        Self {
            chains,
            threads: if quick { vec![1, 2] } else { threads(cores) },
            without: options.without.clone(),
            runs: if quick { 3 } else { 5 },
            bitcoind: options.bitcoind.clone(),
            lanes: lanes_are_fast(),
            executable: options.executable.clone(),
            cores,
        }
    }
}

/// 1, 2, 4, 8, and further powers of two up to the cores.
fn threads(cores: usize) -> Vec<usize> {
    let mut threads = vec![1, 2, 4, 8];
    while let Some(next) = threads.last().map(|last| last * 2)
        && next <= cores
    {
        threads.push(next);
    }
    threads
}

/// Makes a chain in a temporary directory, and measures its contenders.
fn run_chain(
    plan: &Plan,
    name: &'static str,
    spec: &ChainSpec,
    progress: &mut dyn FnMut(&str),
) -> Result<(Summary, Vec<Row>), BenchError> {
    let directory = temporary_directory()?;
    let blocks = directory.path().join("blocks");
    let start = Instant::now();
    let summary = write_chain(&blocks, spec, &mut |_| ())?;
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

/// Runs all contenders in turns on the files in `blocks`. Each run must end at `expected`.
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
            runs: Vec::new(),
            utilisation: None,
            tip: String::new(),
        });
    };
    let assumed = chain == UTXO_ASSUMED;
    for &threads in &plan.threads {
        if assumed {
            add(Contender::BlockmillAssuming, threads);
        } else {
            add(Contender::Blockmill, threads);
            if plan.lanes && [MIXED, MIXED_SMALL].contains(&chain) {
                add(Contender::Lanes, threads);
            }
            if threads <= kernel::THREADS_MAX {
                add(Contender::Bitcoinkernel, threads);
            }
        }
        match plan.bitcoind {
            Some(_) if assumed => add(Contender::BitcoindAssuming, threads),
            Some(_) => add(Contender::Bitcoind, threads),
            None => {}
        }
    }
    let most = plan.threads.last().copied().unwrap_or(1).min(plan.cores.max(2));
    if !assumed {
        plan.without.iter().for_each(|part| add(Contender::Without(part), most));
    }
    let daemon = match &plan.bitcoind {
        Some(executable) => {
            progress(&format!("{chain}: bitcoind indexes the blocks"));
            Some(Daemon::prepare(executable, blocks, expected)?)
        }
        None => None,
    };
    let runner = Runner {
        executable: plan.executable.as_deref(),
        daemon: daemon.as_ref(),
        expected,
    };
    for run in 1..=plan.runs {
        for series in &mut series {
            let part = Part::new(series.contender, blocks, series.threads, expected);
            let outcome = runner.run(&part)?;
            progress(&format!(
                "{chain}, run {run} of {}: {}: {:.3} s",
                plan.runs,
                series.contender.words(series.threads),
                outcome.elapsed.seconds
            ));
            series.tip.clone_from(&outcome.tip);
            series.runs.push(outcome);
        }
    }
    for series in series
        .iter_mut()
        .filter(|series| matches!(series.contender, Contender::Blockmill | Contender::Lanes))
    {
        let part = Part::new(series.contender, blocks, series.threads, expected);
        series.utilisation = runner.run(&part.traced())?.utilisation;
    }
    Ok(rows(chain, &series, expected, plan.cores))
}

#[cfg(test)]
mod tests {
    use super::rows::same_tip;
    use super::*;
    use crate::clock::Elapsed;

    fn tiny() -> Plan {
        Plan {
            chains: vec![(
                MIXED,
                ChainSpec {
                    inputs: 60,
                    ..ChainSpec::new(Profile::Mixed, 110, 7)
                },
            )],
            threads: vec![1, 2],
            without: PARTS.to_vec(),
            runs: 2,
            bitcoind: None,
            lanes: true,
            executable: None,
            cores: 2,
        }
    }

    #[test]
    fn both_engines_end_at_the_generated_tip() {
        let mut lines = Vec::new();
        let plan = tiny();
        let (name, spec) = &plan.chains[0];
        let (summary, rows) = run_chain(&plan, name, spec, &mut |line| lines.push(line.to_owned())).unwrap();
        assert!(same_tip(&rows));
        assert_eq!((summary.height, rows.len()), (110, 6 + PARTS.len()));
        assert_eq!(lines.len(), 1 + 2 * (6 + PARTS.len()));
        assert!(
            lines[3].starts_with("mixed, run 1 of 2: bitcoinkernel with 1 thread: "),
            "{}",
            lines[3]
        );
        for (row, threads) in rows.iter().zip([1, 1, 1, 2, 2, 2]) {
            assert_eq!((row.threads, row.runs, row.blocks), (threads, 2, 110));
            assert_eq!((row.inputs, row.bytes), (summary.inputs, summary.bytes));
            assert!(row.seconds_min <= row.seconds_median && row.seconds_median <= row.seconds_max);
            assert!(row.seconds_min > 0.0 && row.cpu_seconds_median > 0.0);
            let ours = row.engine.starts_with("blockmill");
            assert_eq!((row.ratio.is_some(), row.at_work_percent.is_some()), (ours, ours));
            assert!(row.ratio_min <= row.ratio && row.ratio <= row.ratio_max);
        }
        for (row, part) in rows[6..].iter().zip(PARTS) {
            assert_eq!((row.threads, row.engine), (2, &*format!("blockmill without {part}")));
            assert!(row.ratio.is_some());
        }
        for row in &rows[..6] {
            assert_eq!(row.bound_percent.is_some(), row.engine.starts_with("blockmill"));
        }
        assert_eq!(rows[3].bound_seconds, Some(rows[0].cpu_seconds_median / 2.0));
        assert_eq!(rows[4].engine, Contender::Lanes.name());
        let targets = targets(&rows);
        assert_eq!(targets.len(), 6);
        assert!(targets[0].met && targets[1].value == rows[3].ratio.unwrap());
        assert_eq!(targets[2].value, rows[1].ratio.unwrap());
        assert_eq!(targets[3].value, rows[4].ratio.unwrap());
    }

    #[test]
    fn every_column_and_axis_is_in_the_rows() {
        let series = [Series {
            contender: Contender::Blockmill,
            threads: 1,
            runs: vec![Run {
                elapsed: Elapsed {
                    seconds: 2.0,
                    cpu_seconds: 1.0,
                },
                anonymous_bytes: Some(3 << 20),
                utilisation: None,
                tip: "00".to_owned(),
            }],
            utilisation: None,
            tip: "00".to_owned(),
        }];
        let rows = rows(MIXED, &series, &summary_without_chain(), 2);
        assert!(rows[0].ratio.is_none() && !same_tip(&rows));
        assert_eq!((rows[0].anonymous_mib, rows[0].bound_percent), (Some(3.0), Some(50.0)));
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
        let spec = ChainSpec::new(Profile::Utxo, 3, 1);
        let summary = write_chain(&blocks, &spec, &mut |_| ()).unwrap();
        let check = |contender: Contender, expected: &Summary, wrong: &str| {
            let runner = Runner {
                executable: None,
                daemon: None,
                expected,
            };
            let error = runner.run(&Part::new(contender, &blocks, 1, expected)).unwrap_err();
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
        assert_eq!(threads(1), [1, 2, 4, 8]);
        assert_eq!(threads(8), [1, 2, 4, 8]);
        assert_eq!(threads(16), [1, 2, 4, 8, 16]);
        assert_eq!(threads(24), [1, 2, 4, 8, 16]);
    }
}
