//! The printed rows, and the claims.

use super::blocks::INPUTS_MIN;
use super::kinds::ScriptKind;
use super::sides::lanes_are_fast;
use crate::clock::{Elapsed, Spread};
use crate::report::{Chart, Column, Target};
use blockmill_rules::SignatureCounts;
use serde::Serialize;

/// The tables.
pub(super) const LANES: &str = "lanes alone, by size of batches, beside libsecp256k1";
pub(super) const BLOCKS: &str = "whole script checks by block, beside the kernel's interface";
pub(super) const KINDS: &str = "whole script checks by script kind, beside the kernel's interface";
pub(super) const HOSTILE: &str = "hostile inputs, put off and settled, beside ordinary runs";

/// Name of the row of all blocks together.
pub(super) const ALL: &str = "all";

/// Segregated witness is active on mainnet from this height on.
const SEGWIT_HEIGHT: u32 = 481_824;

pub(super) const COLUMNS: &[Column] = &[
    Column::text("name", "what"),
    Column::number("batch", "batch", 0),
    Column::number("runs", "runs", 0),
    Column::number("count", "inputs", 0),
    Column::number("us_median", "us each", 2),
    Column::number("us_min", "min", 2),
    Column::number("us_max", "max", 2),
    Column::number("cpu_us_median", "CPU us", 2),
    Column::number("peer_us_median", "peer us", 2),
    Column::number("peer_us_min", "min", 2),
    Column::number("peer_us_max", "max", 2),
    Column::number("peer_cpu_us_median", "CPU us", 2),
    Column::number("ratio", "ratio", 2),
    Column::number("ratio_min", "min", 2),
    Column::number("ratio_max", "max", 2),
    Column::number("over_ordinary", "over ordinary", 2),
    Column::number("over_ordinary_min", "min", 2),
    Column::number("over_ordinary_max", "max", 2),
    Column::number("in_lanes", "in lanes", 0),
    Column::number("in_kernel", "ordinary", 0),
    Column::number("again", "again", 0),
    Column::number("cannot_tell", "cannot tell", 0),
];

pub(super) const CHART: Chart = Chart {
    title: "Lanes alone",
    within: Some(("table", LANES)),
    series: "name",
    x: "batch",
    x_label: "checks in a batch",
    y: "ratio",
    y_label: "libsecp256k1's time over that of the lanes",
};

/// A printed row. Figures that a table lacks are null.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct Row {
    pub(super) table: &'static str,
    pub(super) name: String,
    pub(super) batch: Option<usize>,
    /// Height of a real block.
    pub(super) height: Option<u32>,
    runs: usize,
    /// Checks or inputs of a run.
    pub(super) count: u64,
    us_median: f64,
    us_min: f64,
    us_max: f64,
    cpu_us_median: f64,
    peer_us_median: f64,
    peer_us_min: f64,
    peer_us_max: f64,
    peer_cpu_us_median: f64,
    /// The peer's CPU time over ours.
    pub(super) ratio: Option<f64>,
    ratio_min: Option<f64>,
    ratio_max: Option<f64>,
    /// Our CPU time over that of ordinary runs.
    over_ordinary: Option<f64>,
    over_ordinary_min: Option<f64>,
    over_ordinary_max: Option<f64>,
    /// Signature checks per run that were verified in lanes.
    in_lanes: Option<u64>,
    /// Signature checks per run that libsecp256k1 verified in ordinary runs.
    in_kernel: Option<u64>,
    /// Scripts per run that ran a second time.
    again: Option<u64>,
    /// Checks that lanes left open: per run, or of all runs in the table of the lanes alone.
    pub(super) cannot_tell: Option<u64>,
    /// CPU time of each run, in us.
    #[serde(skip)]
    cpu_us: Vec<f64>,
}

/// Microseconds for each of `count` checks in several runs: the spread of wall times, and all CPU
/// times.
fn each(runs: &[Elapsed], count: u64) -> (Spread, Vec<f64>) {
    let us = |seconds: f64| seconds * 1e6 / count as f64;
    let wall = Spread::of(runs.iter().map(|run| us(run.seconds)));
    (wall, runs.iter().map(|run| us(run.cpu_seconds)).collect())
}

/// Adds counts to others.
pub(super) fn add(sum: &mut SignatureCounts, more: &SignatureCounts) {
    sum.lanes += more.lanes;
    sum.kernel += more.kernel;
    sum.again += more.again;
    sum.cannot_tell += more.cannot_tell;
    sum.rechecked += more.rechecked;
}

impl Row {
    /// A row of our runs over `count` checks or inputs.
    pub(super) fn timed(table: &'static str, name: &str, count: u64, runs: &[Elapsed]) -> Self {
        let (wall, cpu_us) = each(runs, count);
        Self {
            table,
            name: name.to_owned(),
            runs: runs.len(),
            count,
            us_median: wall.median,
            us_min: wall.min,
            us_max: wall.max,
            cpu_us_median: Spread::of(cpu_us.iter().copied()).median,
            cpu_us,
            ..Self::default()
        }
    }

    /// Adds the peer's runs, each done beside one of ours.
    fn with_peer(mut self, count: u64, runs: &[Elapsed]) -> (Self, Vec<f64>) {
        let (wall, cpu_us) = each(runs, count);
        self.peer_us_median = wall.median;
        self.peer_us_min = wall.min;
        self.peer_us_max = wall.max;
        self.peer_cpu_us_median = Spread::of(cpu_us.iter().copied()).median;
        (self, cpu_us)
    }

    /// Adds the runs of a peer, with the ratio that ours should raise.
    pub(super) fn beside(self, count: u64, runs: &[Elapsed]) -> Self {
        let (mut row, peer) = self.with_peer(count, runs);
        let ratio = Spread::of(row.cpu_us.iter().zip(&peer).map(|(ours, peer)| peer / ours));
        row.ratio = Some(ratio.median);
        row.ratio_min = Some(ratio.min);
        row.ratio_max = Some(ratio.max);
        row
    }

    /// The row without a ratio.
    pub(super) fn without_ratio(self) -> Self {
        Self {
            ratio: None,
            ratio_min: None,
            ratio_max: None,
            ..self
        }
    }

    /// Adds ordinary runs. Ours should take hardly longer.
    pub(super) fn over(self, count: u64, runs: &[Elapsed]) -> Self {
        let (mut row, ordinary) = self.with_peer(count, runs);
        let over = Spread::of(row.cpu_us.iter().zip(&ordinary).map(|(ours, ordinary)| ours / ordinary));
        row.over_ordinary = Some(over.median);
        row.over_ordinary_min = Some(over.min);
        row.over_ordinary_max = Some(over.max);
        row
    }

    /// Adds the signature counts over all runs.
    pub(super) fn counted(self, counts: &SignatureCounts) -> Self {
        let a_run = |count: u64| Some(count / self.runs as u64);
        Self {
            in_lanes: a_run(counts.lanes),
            in_kernel: a_run(counts.kernel),
            again: a_run(counts.again),
            cannot_tell: a_run(counts.cannot_tell),
            ..self
        }
    }
}

/// The claims, computed from the rows.
pub(super) fn targets(rows: &[Row]) -> Vec<Target> {
    let mut targets = Vec::new();
    let of = |table: &'static str| rows.iter().filter(move |row| row.table == table);
    if lanes_are_fast() {
        for row in of(LANES).filter(|row| row.batch == Some(256)) {
            let name = format!(
                "{}, batches of 256: libsecp256k1's time over that of the lanes",
                row.name
            );
            let wanted = if row.name == "tweak" { 5.0 } else { 7.5 };
            targets.extend(row.ratio.map(|ratio| Target::at_least(&name, ratio, wanted)));
        }
    }
    let unknown: u64 = of(LANES).filter_map(|row| row.cannot_tell).sum();
    let name = "random checks that the lanes could not tell";
    targets.push(Target::at_most(name, unknown as f64, 0.0));
    if let Some(ratio) = of(BLOCKS).find(|row| row.name == ALL).and_then(|row| row.ratio) {
        let name = format!("blocks of {INPUTS_MIN} inputs and more: the kernel interface's time over ours");
        targets.push(Target::at_least(&name, ratio, 5.0));
    }
    for row in of(BLOCKS).filter(|row| row.height.is_some_and(|height| height < SEGWIT_HEIGHT)) {
        let name = format!("old block {}: the kernel interface's time over ours", row.name);
        targets.extend(row.ratio.map(|ratio| Target::at_least(&name, ratio, 3.5)));
    }
    for row in of(KINDS).filter(|row| row.name == ScriptKind::P2trScript.name()) {
        let name = format!("{}: the kernel interface's time over ours", row.name);
        targets.extend(row.ratio.map(|ratio| Target::at_least(&name, ratio, 4.0)));
    }
    for row in of(HOSTILE) {
        let name = format!("hostile, {}: over ordinary runs", row.name);
        targets.extend(row.over_ordinary.map(|over| Target::at_most(&name, over, 1.3)));
    }
    targets
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(seconds: [f64; 3]) -> Vec<Elapsed> {
        let elapsed = |seconds| Elapsed {
            seconds,
            cpu_seconds: seconds,
        };
        seconds.map(elapsed).to_vec()
    }

    #[test]
    fn pairs_of_runs_are_compared() {
        let ours = runs([1.0, 2.0, 4.0]);
        let row = Row::timed(LANES, "ecdsa", 1_000_000, &ours).beside(500_000, &runs([2.0, 2.0, 3.0]));
        assert_eq!((row.us_median, row.us_min, row.us_max), (2.0, 1.0, 4.0));
        assert_eq!((row.peer_us_median, row.peer_cpu_us_median), (4.0, 4.0));
        assert_eq!(
            (row.ratio, row.ratio_min, row.ratio_max),
            (Some(2.0), Some(1.5), Some(4.0))
        );
        assert_eq!(row.over_ordinary, None);
        let row = Row::timed(HOSTILE, "worst", 1, &ours).over(1, &runs([1.0, 1.0, 1.0]));
        assert_eq!((row.over_ordinary, row.ratio), (Some(2.0), None));
        let counts = SignatureCounts {
            lanes: 9,
            again: 3,
            ..SignatureCounts::default()
        };
        let row = row.counted(&counts);
        assert_eq!((row.in_lanes, row.again, row.cannot_tell), (Some(3), Some(1), Some(0)));
        let target = &targets(&[row])[1];
        assert!(!target.met && target.value == 2.0, "{target:?}");
    }
}
