//! The printed rows.

use super::plan::{MIXED, MIXED_SMALL, Table, UTXO, UTXO_ASSUMED, UTXO_BIG, UTXO_BIG_CACHED, UTXO_SMALL};
use super::subprocess::Run;
use super::{Contender, Series};
use crate::clock::Spread;
use crate::report::{Chart, Column};
use blockmill_chaingen::Summary;
use blockmill_engine::report::Stage;
use serde::Serialize;
use serde_json::{Map, Value};

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
    Column::number("read_percent", "read", 1),
    Column::number("decode_percent", "decode", 1),
    Column::number("fetch_percent", "fetch", 1),
    Column::number("resolve_percent", "resolve", 1),
    Column::number("check_percent", "check", 1),
    Column::number("commit_percent", "commit", 1),
    Column::number("flush_percent", "flush", 1),
    Column::number("resolve_us_per_input", "us/input", 3),
    Column::number("serial_replays", "replays", 0),
    Column::number("milliseconds_more_median", "ms more", 1),
    Column::number("milliseconds_more_min", "min", 1),
    Column::number("milliseconds_more_max", "max", 1),
    Column::number("resolve_milliseconds_more", "resolve ms more", 1),
    Column::number("blocks_again", "blocks again", 0),
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
    chart(UTXO_BIG),
    chart(UTXO_BIG_CACHED),
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

/// A printed row. The ratio is the kernel's time over ours with the same number of threads, the
/// median of runs side by side. Where scripts are assumed to be valid, and for the big chain if
/// there is a daemon, it is bitcoind's time over ours.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Row {
    pub(super) chain: &'static str,
    pub(super) engine: &'static str,
    pub(super) threads: usize,
    /// Memory for coins.
    pub(super) cache_mib: u32,
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
    /// Of ours, for each stage by name: `read_busy_seconds` and so on, seconds that threads worked
    /// in it, added up, the median of the runs; and `read_percent` and so on, its share in those
    /// of all stages.
    #[serde(flatten)]
    pub(super) stages: Map<String, Value>,
    /// Of ours: seconds that threads worked in resolving, over the inputs.
    pub(super) resolve_us_per_input: Option<f64>,
    /// From a run with a trace: time in which at least one thread resolved blocks.
    pub(super) resolve_seconds: Option<f64>,
    /// Of ours: windows of blocks that were resolved once more, the most of a run.
    pub(super) serial_replays: Option<u64>,
    pub(super) tip: String,
}

/// The rows of a table, on a machine with `cores` cores.
pub(super) fn rows(table: &Table, series: &[Series], expected: &Summary, cores: usize) -> Vec<Row> {
    let row = |series_here: &Series| row(table, series_here, series, expected, cores);
    series.iter().map(row).collect()
}

fn row(table: &Table, series: &Series, all: &[Series], expected: &Summary, cores: usize) -> Row {
    let (contender, threads, runs) = (series.planned.contender, series.planned.threads, &series.runs);
    let find = |contender: Contender, threads: usize| {
        let mut all = all.iter();
        all.find(|other| (other.planned.contender, other.planned.threads) == (contender, threads))
    };
    let cpu_seconds = |runs: &[Run]| Spread::of(runs.iter().map(|run| run.elapsed.cpu_seconds)).median;
    let spread = Spread::of(runs.iter().map(|run| run.elapsed.seconds));
    let ratio = table.peer(contender).and_then(|peer| find(peer, threads)).map(|peer| {
        // A peer with fewer runs is compared with more than one of ours.
        let pairs = runs.iter().zip(peer.runs.iter().cycle());
        Spread::of(pairs.map(|(ours, peer)| peer.elapsed.seconds / ours.elapsed.seconds))
    });
    let alone = find(contender, 1).filter(|_| contender.is_ours());
    let bound = alone.map(|alone| cpu_seconds(&alone.runs) / threads.min(cores) as f64);
    let memory = runs.iter().filter_map(|run| run.anonymous_bytes).max();
    let resolve_busy = busy_seconds(runs, Stage::Resolve);
    Row {
        chain: table.name,
        engine: contender.name(),
        threads,
        cache_mib: table.cache_mib,
        runs: runs.len(),
        blocks: expected.height,
        inputs: expected.inputs,
        bytes: expected.bytes,
        seconds_median: spread.median,
        seconds_min: spread.min,
        seconds_max: spread.max,
        cpu_seconds_median: cpu_seconds(runs),
        blocks_per_second: f64::from(expected.height) / spread.median,
        inputs_per_second: expected.inputs as f64 / spread.median,
        ratio: ratio.map(|ratio| ratio.median),
        ratio_min: ratio.map(|ratio| ratio.min),
        ratio_max: ratio.map(|ratio| ratio.max),
        at_work_percent: series.traced.map(|traced| traced.at_work * 100.0),
        anonymous_mib: memory.map(|bytes| bytes as f64 / f64::from(1 << 20)),
        bound_seconds: bound,
        bound_percent: bound.map(|bound| 100.0 * bound / spread.median),
        stages: stages(runs),
        resolve_us_per_input: resolve_busy.map(|seconds| seconds * 1e6 / expected.inputs as f64),
        resolve_seconds: series.traced.map(|traced| traced.resolve_seconds),
        serial_replays: runs.iter().filter_map(|run| Some(run.figures?.serial_replays)).max(),
        tip: series.tip.clone(),
    }
}

/// Seconds that threads worked in a stage, added up: the median of runs of ours. None for peers.
fn busy_seconds(runs: &[Run], stage: Stage) -> Option<f64> {
    let seconds: Option<Vec<f64>> = runs
        .iter()
        .map(|run| Some(run.figures.as_ref()?.busy_seconds(stage)))
        .collect();
    seconds.map(|seconds| Spread::of(seconds).median)
}

/// The columns of all stages; those of peers have no values.
fn stages(runs: &[Run]) -> Map<String, Value> {
    let seconds = Stage::ALL.map(|stage| busy_seconds(runs, stage));
    let all: f64 = seconds.iter().flatten().sum();
    let mut columns = Map::new();
    for (stage, seconds) in Stage::ALL.into_iter().zip(seconds) {
        let percent = seconds.map(|seconds| 100.0 * seconds / all);
        columns.insert(format!("{}_busy_seconds", stage.name()), seconds.into());
        columns.insert(format!("{}_percent", stage.name()), percent.into());
    }
    columns
}
