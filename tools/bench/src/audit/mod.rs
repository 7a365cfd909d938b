//! `blockmill-bench audit`: whole chains validated in any order, beside `connect` and Bitcoin
//! Core's daemon, and what that says of the main network.
//!
//! Each run is a process of its own, over the same block files. One more run of ours, in this
//! process, says what the time goes into. In reading order: `site`, a chain in files; `shares`,
//! that run; `projection`, the main network.

mod projection;
mod shares;
mod site;

use crate::BenchOptions;
use crate::clock::Spread;
use crate::error::BenchError;
use crate::report::{Column, Report, Target};
use crate::signatures::lanes_are_fast;
use blockmill_chaingen::{ChainSpec, Profile};
use projection::projection;
use serde::Serialize;
use shares::Shares;
use site::{Outcome, Site};

const SEED: u64 = 9;

/// Memory of an audit in MiB at most, whatever the chain.
const MEMORY_MAX_MIB: f64 = 300.0;

/// Share of the time that each thread works at least.
const BUSY_MIN: f64 = 0.97;

const COLUMNS: &[Column] = &[
    Column::text("what", "what"),
    Column::text("signatures", "signatures"),
    Column::number("threads", "threads", 0),
    Column::number("seconds", "seconds", 2),
    Column::number("seconds_min", "least", 2),
    Column::number("seconds_max", "most", 2),
    Column::number("cpu_seconds", "CPU s", 2),
    Column::number("inputs_per_second", "inputs/s", 0),
    Column::number("ratio", "over audit", 1),
    Column::number("memory_mib", "MiB", 0),
];

/// A printed row: runs of one contender with one number of threads.
#[derive(Debug, Clone, Serialize)]
struct Row {
    chain: &'static str,
    what: &'static str,
    signatures: &'static str,
    threads: usize,
    /// Of the median run; the least and the most.
    seconds: f64,
    seconds_min: f64,
    seconds_max: f64,
    cpu_seconds: f64,
    inputs_per_second: f64,
    /// Seconds over those of `audit` with as many threads.
    ratio: Option<f64>,
    /// Peak of anonymous memory.
    memory_mib: f64,
}

/// A chain, and how its signatures are verified.
struct Chain {
    name: &'static str,
    spec: ChainSpec,
    signatures: &'static str,
    /// Sums take at most this share of the CPU time.
    sums_max: f64,
}

fn chains(quick: bool) -> Vec<Chain> {
    let (utxo, mixed) = match quick {
        true => ((120, 60_000, 100_000), (130, 8_000)),
        false => ((600, 3_000_000, 8_000_000), (600, 200_000)),
    };
    let lanes = if lanes_are_fast() { "lanes" } else { "kernel" };
    vec![
        Chain {
            name: "utxo",
            spec: ChainSpec {
                inputs: utxo.1,
                coins: utxo.2,
                ..ChainSpec::new(Profile::Utxo, utxo.0, SEED)
            },
            signatures: "kernel",
            sums_max: 0.08,
        },
        Chain {
            name: "mixed",
            spec: ChainSpec {
                inputs: mixed.1,
                ..ChainSpec::new(Profile::Mixed, mixed.0, SEED)
            },
            signatures: lanes,
            sums_max: 0.01,
        },
    ]
}

/// Runs the benchmark.
///
/// # Errors
/// Any [`BenchError`] but those about names and output.
pub(crate) fn report(options: &BenchOptions, progress: &mut dyn FnMut(&str)) -> Result<Report, BenchError> {
    let Some(executable) = options.blockmill.as_deref().filter(|path| path.is_file()) else {
        return Err(BenchError::Process {
            run: "audit".to_owned(),
            detail: "this benchmark runs the blockmill command, which must be in the folder of this one".to_owned(),
        });
    };
    let mut report = Report::new(
        "audit",
        "whole chains validated in any order, and their sets proved",
        &options.command,
    );
    let cores = report.machine.cores;
    let mut threads = vec![1, cores];
    threads.dedup();
    let runs = if options.quick { 1 } else { 3 };
    let (mut rows, mut all_shares) = (Vec::new(), Vec::new());
    for chain in chains(options.quick) {
        let site = Site::make(executable, &chain.spec, options.bitcoind.as_deref())?;
        let summary = &site.summary;
        progress(&format!(
            "{}: {} inputs, {} coins",
            chain.name, summary.inputs, summary.coins
        ));
        report.notes.push(format!(
            "{}: {} blocks, seed {SEED}, {} bytes, {} inputs, {} outputs, {} coins at the end",
            chain.name, summary.height, summary.bytes, summary.inputs, summary.outputs, summary.coins
        ));
        let first = rows.len();
        for &threads in &threads {
            rows.extend(run_all(&site, &chain, threads, runs, progress)?);
        }
        report.targets.extend(targets(&rows[first..], &chain, cores));
        let shares = Shares::measure(&site, chain.signatures, cores)?;
        report.notes.push(format!("{}: {shares}", chain.name));
        report.targets.extend(share_targets(&shares, &chain));
        all_shares.push(shares);
    }
    if let [utxo, mixed] = &all_shares[..] {
        report.notes.extend(projection(utxo, mixed, cores));
    }
    report.notes.push(
        "bitcoind: -reindex-chainstate of the same files, from start to end of its process; connect: into a new data \
         directory; over audit: seconds as a multiple of audit's"
            .to_owned(),
    );
    report.group = Some("chain");
    report.columns = COLUMNS.to_vec();
    report.rows = rows.iter().map(|row| serde_json::json!(row)).collect();
    Ok(report)
}

/// Runs all contenders in turns.
fn run_all(
    site: &Site<'_>,
    chain: &Chain,
    threads: usize,
    runs: usize,
    progress: &mut dyn FnMut(&str),
) -> Result<Vec<Row>, BenchError> {
    let mut contenders: Vec<(&str, Vec<Outcome>)> = vec![("audit", Vec::new()), ("connect", Vec::new())];
    if site.has_daemon() {
        contenders.push(("bitcoind", Vec::new()));
    }
    for _ in 0..runs {
        for (what, outcomes) in &mut contenders {
            let outcome = match *what {
                "audit" => site.audit(threads, chain.signatures)?,
                "connect" => site.connect(threads, chain.signatures)?,
                _ => site.reindex(threads)?,
            };
            progress(&format!(
                "{} {what}, {threads} threads: {:.2} s",
                chain.name, outcome.seconds
            ));
            outcomes.push(outcome);
        }
    }
    let seconds = |outcomes: &[Outcome]| Spread::of(outcomes.iter().map(|outcome| outcome.seconds));
    let ours = seconds(&contenders[0].1).median;
    let row = |(what, outcomes): (&'static str, Vec<Outcome>)| {
        let spread = seconds(&outcomes);
        Row {
            chain: chain.name,
            what,
            signatures: if what == "bitcoind" { "kernel" } else { chain.signatures },
            threads,
            seconds: spread.median,
            seconds_min: spread.min,
            seconds_max: spread.max,
            cpu_seconds: Spread::of(outcomes.iter().map(|outcome| outcome.cpu_seconds)).median,
            inputs_per_second: site.summary.inputs as f64 / spread.median,
            ratio: (what != "audit").then_some(spread.median / ours),
            memory_mib: outcomes.iter().map(|outcome| outcome.memory_mib).fold(0.0, f64::max),
        }
    };
    Ok(contenders.into_iter().map(row).collect())
}

fn targets(rows: &[Row], chain: &Chain, cores: usize) -> Vec<Target> {
    let mut targets = Vec::new();
    let of = |what, threads| rows.iter().find(|row| (row.what, row.threads) == (what, threads));
    for row in rows.iter().filter(|row| row.what == "audit") {
        let name = format!("MiB of audit, {}, {} threads", chain.name, row.threads);
        targets.push(Target::at_most(&name, row.memory_mib, MEMORY_MAX_MIB));
    }
    if let Some(ratio) = of("bitcoind", cores)
        .and_then(|row| row.ratio)
        .filter(|_| chain.name == "utxo")
    {
        let name = format!("seconds of bitcoind over audit, utxo, {cores} threads");
        targets.push(Target::at_least(&name, ratio, 10.0));
    }
    if let (Some(one), Some(all)) = (of("audit", 1), of("audit", cores)) {
        let name = format!("audit, {}: {cores} threads over one", chain.name);
        targets.push(Target::at_least(
            &name,
            one.seconds / all.seconds,
            cores as f64 * 15.0 / 16.0,
        ));
    }
    targets
}

fn share_targets(shares: &Shares, chain: &Chain) -> Vec<Target> {
    let name = chain.name;
    let mut targets = vec![
        Target::at_most(
            &format!("share of sums in the CPU time, {name}"),
            shares.sums,
            chain.sums_max,
        ),
        Target::at_least(
            &format!("share of the time that each thread works, {name}"),
            shares.busy,
            BUSY_MIN,
        ),
    ];
    if name == "mixed" {
        let what = "share of script checks in the CPU time, mixed";
        targets.push(Target::at_least(what, shares.scripts, 0.97));
    }
    targets
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn row(what: &'static str, threads: usize, seconds: f64, ratio: Option<f64>) -> Row {
        Row {
            chain: "utxo",
            what,
            signatures: "kernel",
            threads,
            seconds,
            seconds_min: seconds,
            seconds_max: seconds,
            cpu_seconds: seconds,
            inputs_per_second: 1.0 / seconds,
            ratio,
            memory_mib: 50.0,
        }
    }

    #[test]
    fn figures_meet_what_is_wanted() {
        let mut rows = vec![
            row("audit", 1, 8.0, None),
            row("audit", 4, 2.0, None),
            row("bitcoind", 4, 21.0, Some(10.5)),
        ];
        let chain = &chains(true)[0];
        let met = |rows: &[Row]| -> Vec<bool> { targets(rows, chain, 4).iter().map(|target| target.met).collect() };
        assert_eq!(met(&rows), [true; 4]);
        rows[1].seconds = 2.2;
        rows[2].ratio = Some(9.9);
        rows[0].memory_mib = 301.0;
        assert_eq!(met(&rows), [false, true, false, false]);
    }

    #[test]
    fn every_column_is_in_the_rows() {
        let row = serde_json::json!(row("connect", 1, 8.0, Some(2.0)));
        assert!(COLUMNS.iter().all(|column| !row[column.key].is_null()));
    }

    #[test]
    fn it_needs_the_command() {
        let options = BenchOptions {
            blockmill: Some(PathBuf::from("/nowhere")),
            ..BenchOptions::default()
        };
        let error = report(&options, &mut |_| ()).unwrap_err();
        assert!(error.to_string().contains("blockmill command"), "{error}");
    }
}
