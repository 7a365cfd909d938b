//! The printed rows, and the claims.

use super::contender::Contender;
use super::{MIXED, MIXED_SMALL, Series, UTXO, UTXO_ASSUMED, UTXO_SMALL};
use crate::clock::Spread;
use crate::report::{Chart, Column, Target};
use blockmill_chaingen::Summary;
use serde::Serialize;

pub(super) const COLUMNS: &[Column] = &[
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
    Column::number("bound_percent", "bound %", 1),
    Column::number("anonymous_mib", "anonymous MiB", 1),
];

pub(super) const CHARTS: &[Chart] = &[
    // The first one is README.md's picture.
    Chart {
        title: "seconds to connect 300 blocks, every script checked",
        y: "seconds_median",
        y_label: "seconds (median run)",
        ..chart(MIXED)
    },
    chart(MIXED),
    chart(MIXED_SMALL),
    chart(UTXO),
    chart(UTXO_SMALL),
    chart(UTXO_ASSUMED),
];

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

/// The least ratio with signatures in lanes that the target asks for.
const LANES_WANTED: f64 = 4.0;

/// A printed row. The ratio is the kernel's median time over ours with the same number of threads.
/// Where scripts are assumed to be valid, it is bitcoind's time over ours.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Row {
    pub(super) chain: &'static str,
    pub(super) engine: &'static str,
    pub(super) threads: usize,
    pub(super) runs: usize,
    /// Blocks connected, genesis not counted.
    pub(super) blocks: u32,
    /// Inputs of these blocks, coinbases not counted.
    pub(super) inputs: u64,
    /// Bytes of the blocks, genesis included.
    pub(super) bytes: u64,
    pub(super) seconds_median: f64,
    pub(super) seconds_min: f64,
    pub(super) seconds_max: f64,
    pub(super) cpu_seconds_median: f64,
    pub(super) blocks_per_second: f64,
    pub(super) inputs_per_second: f64,
    pub(super) ratio: Option<f64>,
    pub(super) ratio_min: Option<f64>,
    pub(super) ratio_max: Option<f64>,
    /// From a run with a trace: the smallest share of the time between the first and the last block
    /// in which a thread was at work.
    pub(super) at_work_percent: Option<f64>,
    /// Peak of the process's anonymous memory over all runs.
    pub(super) anonymous_mib: Option<f64>,
    /// CPU seconds of ours with one thread, where each stage runs alone, divided by the number of
    /// cores that the row's threads can use.
    pub(super) bound_seconds: Option<f64>,
    /// The bound as a share of the median run's seconds.
    pub(super) bound_percent: Option<f64>,
    pub(super) tip: String,
}

/// The rows of a chain, on a machine with `cores` cores.
pub(super) fn rows(chain: &'static str, series: &[Series], expected: &Summary, cores: usize) -> Vec<Row> {
    let cpu_seconds = |series: &Series| Spread::of(series.runs.iter().map(|run| run.elapsed.cpu_seconds)).median;
    let alone = |contender: &Contender| {
        let series = series
            .iter()
            .find(|other| other.contender == *contender && other.threads == 1);
        series.map(cpu_seconds)
    };
    let row = |series_here: &Series| {
        let spread = Spread::of(series_here.runs.iter().map(|run| run.elapsed.seconds));
        let peer = series_here.contender.peer().and_then(|peer| {
            series
                .iter()
                .find(|other| other.contender == peer && other.threads == series_here.threads)
        });
        let ratio = peer.map(|peer| {
            let pairs = series_here.runs.iter().zip(&peer.runs);
            Spread::of(pairs.map(|(ours, peer)| peer.elapsed.seconds / ours.elapsed.seconds))
        });
        let bound = alone(&series_here.contender)
            .filter(|_| series_here.contender.is_ours())
            .map(|cpu_seconds| cpu_seconds / series_here.threads.min(cores) as f64);
        let memory = series_here.runs.iter().filter_map(|run| run.anonymous_bytes).max();
        Row {
            chain,
            engine: series_here.contender.name(),
            threads: series_here.threads,
            runs: series_here.runs.len(),
            blocks: expected.height,
            inputs: expected.inputs,
            bytes: expected.bytes,
            seconds_median: spread.median,
            seconds_min: spread.min,
            seconds_max: spread.max,
            cpu_seconds_median: cpu_seconds(series_here),
            blocks_per_second: f64::from(expected.height) / spread.median,
            inputs_per_second: expected.inputs as f64 / spread.median,
            ratio: ratio.map(|ratio| ratio.median),
            ratio_min: ratio.map(|ratio| ratio.min),
            ratio_max: ratio.map(|ratio| ratio.max),
            at_work_percent: series_here.utilisation.map(|part| part * 100.0),
            anonymous_mib: memory.map(|bytes| bytes as f64 / f64::from(1 << 20)),
            bound_seconds: bound,
            bound_percent: bound.map(|bound| 100.0 * bound / spread.median),
            tip: series_here.tip.clone(),
        }
    };
    series.iter().map(row).collect()
}

/// The claims, computed from the rows.
pub(super) fn targets(rows: &[Row]) -> Vec<Target> {
    let ratio_of = |contender: Contender, chain: &str, threads: usize| {
        let row = rows
            .iter()
            .find(|row| (row.chain, row.engine, row.threads) == (chain, contender.name(), threads));
        row.and_then(|row| row.ratio)
    };
    let ratio = |chain: &str, threads: usize| ratio_of(Contender::Blockmill, chain, threads);
    let mut targets = vec![Target::holds(
        "same tip as bitcoinkernel on every chain",
        same_tip(rows),
    )];
    let claims = [
        (Contender::Blockmill, MIXED, 2, 1.2),
        (Contender::Lanes, MIXED, 1, LANES_WANTED),
        (Contender::Lanes, MIXED, 2, LANES_WANTED),
        (Contender::Blockmill, UTXO, 1, 2.0),
        (Contender::Blockmill, UTXO, 2, 4.0),
    ];
    for (contender, chain, threads, wanted) in claims {
        if let Some(ratio) = ratio_of(contender, chain, threads) {
            let lanes = if contender == Contender::Lanes {
                ", signatures lanes"
            } else {
                ""
            };
            let name = format!("{chain}, {threads} threads{lanes}: the kernel's seconds over ours");
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
    if let Some(percent) = mixed.and_then(|row| row.bound_percent) {
        let name = "mixed, 2 threads: CPU seconds of all stages alone, divided by the cores, in percent of the seconds";
        targets.push(Target::at_least(name, percent, 95.0));
    }
    let assumed = rows
        .iter()
        .filter(|row| row.chain == UTXO_ASSUMED && row.engine == Contender::BlockmillAssuming.name());
    for row in assumed {
        if let Some(ratio) = row.ratio {
            let name = format!("{UTXO_ASSUMED}, {} threads: bitcoind's seconds over ours", row.threads);
            targets.push(Target::at_least(&name, ratio, 8.0));
        }
    }
    for (small, big) in [(MIXED_SMALL, MIXED), (UTXO_SMALL, UTXO)] {
        if let (Some(small_ratio), Some(big_ratio)) = (ratio(small, 2), ratio(big, 2)) {
            let name = format!("{small}, 2 threads: as far ahead as with big blocks");
            targets.push(Target::at_least(&name, small_ratio / big_ratio, 1.0));
        }
    }
    targets
}

/// Whether ours and the kernel have rows, and all rows of a chain have the same tip.
pub(super) fn same_tip(rows: &[Row]) -> bool {
    let has = |contender: &Contender| rows.iter().any(|row| row.engine == contender.name());
    has(&Contender::Blockmill)
        && has(&Contender::Bitcoinkernel)
        && rows
            .windows(2)
            .all(|pair| pair[0].chain != pair[1].chain || pair[0].tip == pair[1].tip)
}
