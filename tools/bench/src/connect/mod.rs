//! `blockmill-bench connect`: block files to a validated UTXO set on disk, ours beside the kernel's
//! ChainstateManager.
//!
//! Both read the same generated files, check every script, flush everything and close. The runs
//! take turns, each in a process of its own and in a fresh directory. The result of each is read
//! back from that directory after the clock has stopped. Bitcoin Core's daemon, if given, adds rows
//! of its own, and a chain whose scripts are assumed to be valid.
//!
//! One more table has the price of a block that breaks a rule.
//!
//! In reading order: `plan`, what is run; `contender`, the contenders; `subprocess`, a run in a
//! process of its own; `bitcoind`, the daemon; `figures`, what the engine reports; `utilisation`,
//! the work of each thread; `rows`, the printed rows; `targets`, the claims; `hostile`, the block
//! that breaks a rule.

mod bitcoind;
mod contender;
mod figures;
mod hostile;
mod plan;
mod rows;
mod subprocess;
mod targets;
mod utilisation;

#[cfg(test)]
mod tests;

pub(crate) use bitcoind::Daemon;
pub(crate) use contender::{CACHE_MIB, PARTS, connect_ours};
pub(crate) use subprocess::run_part;

use crate::BenchOptions;
use crate::error::BenchError;
use crate::report::Report;
use blockmill_chaingen::{Summary, write_chain};
use contender::Contender;
use plan::{Plan, PlannedChain, PlannedSeries, Table};
use rows::{CHARTS, COLUMNS, Row, rows};
use std::path::Path;
use std::time::Instant;
use subprocess::{Part, Run, Runner};
use targets::targets;
use tempfile::TempDir;
use utilisation::Traced;

/// What the columns and rows are.
const NOTES: [&str; 9] = [
    "seconds: of the median run; ratio: the kernel's seconds over ours with as many threads: the median, the least and the most of \
     runs side by side",
    "on regtest the kernel scans its whole block index after every block, which costs time with many small blocks",
    "at work: share of the time between the first and the last block, of the least busy thread, in one more run; looking for work does \
     not count",
    "bound: CPU seconds of ours with one thread, where each stage runs alone, divided by the cores in use, as a share of the seconds",
    "read to flush: share of each stage in the time that threads worked in all of them, percent; with more threads than cores that time \
     has waits for a core in it",
    "us/input: microseconds that threads worked in resolving, for each input; replays: windows of blocks that were resolved again, block \
     by block",
    "price of a hostile block: the last block of a window spends a coin twice; ms more: than without that block, side by side; \
     blocks again: of that window, with one thread",
    "signatures kernel: by libsecp256k1; signatures lanes: many at once, on chains with signatures",
    "bitcoind: -reindex-chainstate with -checkblockindex=0, from start to end of its process; -assumevalid=0 but where scripts are \
     assumed; ratios of the big chain are to bitcoind if it is given",
];

/// The runs of one contender with one number of threads.
pub(super) struct Series {
    planned: PlannedSeries,
    runs: Vec<Run>,
    /// From one more run of ours, with a trace.
    traced: Option<Traced>,
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
    report.notes = NOTES.map(str::to_owned).to_vec();
    let mut rows = Vec::new();
    for chain in &plan.chains {
        let (summary, more) = run_chain(&plan, chain, progress)?;
        report.notes.push(format!(
            "{}: {} blocks, seed {}, {} transactions, {} inputs, {} outputs, {} coins at the end, tip {}",
            chain.name(),
            summary.height,
            summary.seed,
            summary.transactions,
            summary.inputs,
            summary.outputs,
            summary.coins,
            summary.tip
        ));
        rows.extend(more);
    }
    let hostile = hostile::measure(&plan.hostile, progress)?;
    report.group = Some("chain");
    report.columns = COLUMNS.to_vec();
    report.targets = targets(&rows);
    report.rows = rows.iter().map(|row| serde_json::json!(row)).collect();
    report.rows.extend(hostile.iter().map(|row| serde_json::json!(row)));
    report.charts = CHARTS.to_vec();
    Ok(report)
}

/// Makes a chain in a temporary directory, and measures the contenders of its tables.
fn run_chain(
    plan: &Plan,
    chain: &PlannedChain,
    progress: &mut dyn FnMut(&str),
) -> Result<(Summary, Vec<Row>), BenchError> {
    let name = chain.name();
    let directory = temporary_directory()?;
    let blocks = directory.path().join("blocks");
    let start = Instant::now();
    let summary = write_chain(&blocks, &chain.spec, &mut |_| ())?;
    progress(&format!(
        "{name}: made a chain of {} blocks and {} inputs: {:.1} s",
        summary.height,
        summary.inputs,
        start.elapsed().as_secs_f64()
    ));
    let daemon = match &plan.bitcoind {
        Some(executable) => {
            progress(&format!("{name}: bitcoind indexes the blocks"));
            Some(Daemon::prepare(executable, &blocks, &summary)?)
        }
        None => None,
    };
    let runner = Runner {
        executable: plan.executable.as_deref(),
        daemon: daemon.as_ref(),
        expected: &summary,
    };
    let mut all = Vec::new();
    for table in &chain.tables {
        let series = measure(table, &blocks, &runner, progress)?;
        all.extend(rows(table, &series, &summary, plan.cores));
    }
    Ok((summary, all))
}

pub(crate) fn temporary_directory() -> Result<TempDir, BenchError> {
    tempfile::tempdir().map_err(BenchError::file(std::env::temp_dir()))
}

/// Runs all contenders of a table in turns on the files in `blocks`. Each run must end as the
/// runner expects.
fn measure(
    table: &Table,
    blocks: &Path,
    runner: &Runner<'_>,
    progress: &mut dyn FnMut(&str),
) -> Result<Vec<Series>, BenchError> {
    let series = table.series.iter().map(|&planned| Series {
        planned,
        runs: Vec::new(),
        traced: None,
        tip: String::new(),
    });
    let mut series: Vec<Series> = series.collect();
    let most_runs = table.series.iter().map(|planned| planned.runs).max().unwrap_or(0);
    for run in 1..=most_runs {
        for Series { planned, runs, tip, .. } in &mut series {
            if planned.runs < run {
                continue;
            }
            let outcome = runner.run(&Part::new(table, *planned, blocks, runner.expected))?;
            progress(&format!(
                "{}, run {run} of {}: {}: {:.3} s",
                table.name,
                planned.runs,
                planned.contender.words(planned.threads),
                outcome.elapsed.seconds
            ));
            tip.clone_from(&outcome.tip);
            runs.push(outcome);
        }
    }
    let is_traced =
        |planned: PlannedSeries| table.traced && matches!(planned.contender, Contender::Blockmill | Contender::Lanes);
    for series in series.iter_mut().filter(|series| is_traced(series.planned)) {
        let part = Part::new(table, series.planned, blocks, runner.expected);
        series.traced = runner.run(&part.traced())?.traced;
    }
    Ok(series)
}
