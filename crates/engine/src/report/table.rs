//! The table of figures. Each figure of [`Totals`], but the times of stages, stands here once, with
//! its names and its meaning. The differences between two moments derive from it, and so do JSON,
//! metrics and most of the table of `--verbose`.

use crate::report::totals::{Depth, Totals};
use std::time::Duration;

/// A figure of a run.
pub struct Figure {
    /// Its path in JSON: names with points between them.
    pub key: &'static str,
    /// Its name among the metrics, without the program's. It ends in `_total` if the figure only
    /// grows, and only then.
    pub metric: &'static str,
    /// What it is.
    pub help: &'static str,
    cell: for<'t> fn(&'t mut Totals) -> FigureCell<'t>,
}

/// Where a figure is, and how it goes on.
enum FigureCell<'t> {
    /// It grows.
    Count(&'t mut u64),
    /// It grows.
    Time(&'t mut Duration),
    /// The most so far.
    Max(&'t mut usize),
    /// The longest so far.
    Longest(&'t mut Duration),
    /// A mean, and the most so far.
    Depth(&'t mut Depth),
}

/// What a figure is at a moment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value {
    /// A number that only grows.
    Count(u64),
    /// Seconds that only grow.
    Seconds(f64),
    /// The most of something.
    Max(u64),
    /// The longest time in seconds.
    Longest(f64),
    /// How many were in a queue.
    Depth(Depth),
}

/// Makes a row of the table.
macro_rules! figure {
    ($key:literal, $metric:literal, $help:literal, $kind:ident, $($field:ident).+) => {
        Figure {
            key: $key,
            metric: $metric,
            help: $help,
            cell: |totals| FigureCell::$kind(&mut totals.$($field).+),
        }
    };
}

/// All figures but the times of stages, in the order of reports.
#[rustfmt::skip]
pub static FIGURES: [Figure; 31] = [
    figure!("blocks", "blocks_total", "blocks connected", Count, blocks),
    figure!("transactions", "transactions_total", "transactions connected", Count, transactions),
    figure!("inputs", "inputs_total", "inputs connected", Count, inputs),
    figure!("bytes", "bytes_total", "bytes of blocks connected", Count, bytes),
    figure!("disconnected", "disconnected_total", "blocks disconnected", Count, disconnected),
    figure!("scripts_skipped", "scripts_skipped_total", "blocks whose scripts were assumed to be valid", Count, scripts_skipped),
    figure!("windows_rolled_back", "windows_rolled_back_total", "windows of blocks that were rolled back, and resolved block by block", Count, windows_rolled_back),
    figure!("cache.hits", "cache_hits_total", "look-ups that the coins cache answered", Count, cache.hits),
    figure!("cache.misses", "cache_misses_total", "look-ups that went to the store", Count, cache.misses),
    figure!("fetch.keys", "fetched_total", "coins that were looked up in the store ahead of their use", Count, fetch.reads.keys),
    figure!("fetch.found", "fetched_found_total", "coins that the store had of those", Count, fetch.reads.found),
    figure!("fetch.taken", "fetched_taken_total", "coins read ahead that entered the cache", Count, fetch.taken),
    figure!("fetch.batches", "fetch_batches_total", "batches of look-ups in the store", Count, fetch.reads.batches),
    figure!("fetch.batches_by_readers", "fetch_batches_by_readers_total", "batches that threads of their own have read", Count, fetch.reads.by_readers),
    figure!("fetch.batches_failed", "fetch_batches_failed_total", "batches that failed", Count, fetch.reads.failed),
    figure!("fetch.seconds", "fetch_seconds_total", "seconds that batches took, over all threads", Time, fetch.reads.time),
    figure!("fetch.in_flight_max", "fetch_batches_in_flight_max", "most batches in flight at once", Max, fetch.reads.in_flight_max),
    figure!("flushes", "flushes_total", "flushes", Count, flushes),
    figure!("flush.changes", "flush_changes_total", "coins written or removed by flushes", Count, flush_changes),
    figure!("flush.waits", "flush_waits_total", "waits for a flush because the cache was full", Count, flush_waits),
    figure!("flush.pauses", "flush_pauses_total", "short waits that let a flush catch up", Count, flush_pauses),
    figure!("flush.pause_max_s", "flush_pause_max_seconds", "longest time in seconds that a flush took of the connecting thread", Longest, flush_pause_max),
    figure!("signatures.lanes", "signatures_lanes_total", "signatures verified in lanes", Count, signatures.lanes),
    figure!("signatures.kernel", "signatures_kernel_total", "signatures verified by libsecp256k1", Count, signatures.libsecp256k1),
    figure!("signatures.again", "scripts_again_total", "scripts run a second time, with known verdicts of their signatures", Count, signatures.again),
    figure!("signatures.cannot_tell", "signatures_cannot_tell_total", "signatures that lanes could not verify and libsecp256k1 did", Count, signatures.cannot_tell),
    figure!("signatures.rechecked", "signatures_rechecked_total", "signatures valid in lanes and rechecked by libsecp256k1", Count, signatures.rechecked),
    figure!("queues.ahead", "blocks_ahead", "blocks requested and not yet resolved, on average", Depth, queues.ahead),
    figure!("queues.loaded", "blocks_loaded", "blocks loaded and not yet resolved, on average", Depth, queues.loaded),
    figure!("queues.in_flight", "blocks_in_flight", "blocks resolved and not yet accepted, on average", Depth, queues.in_flight),
    figure!("queues.memory_max", "blocks_bytes_max", "largest memory of blocks ahead and in flight, in bytes", Max, queues.memory_max),
];

impl Figure {
    /// What it is in these totals.
    pub fn value(&self, totals: &Totals) -> Value {
        // A copy, since `cell` lends its figure for writing.
        let mut totals = *totals;
        match (self.cell)(&mut totals) {
            FigureCell::Count(count) => Value::Count(*count),
            FigureCell::Time(time) => Value::Seconds(time.as_secs_f64()),
            FigureCell::Max(most) => Value::Max(*most as u64),
            FigureCell::Longest(time) => Value::Longest(time.as_secs_f64()),
            FigureCell::Depth(depth) => Value::Depth(*depth),
        }
    }
}

impl Totals {
    /// The difference from `before`. Maxima are those since [`take_maxima`](Self::take_maxima)
    /// returned `before`.
    pub(crate) fn since(&self, before: &Self) -> Self {
        let (mut difference, mut before) = (*self, *before);
        for figure in &FIGURES {
            match ((figure.cell)(&mut difference), (figure.cell)(&mut before)) {
                (FigureCell::Count(count), FigureCell::Count(before)) => *count -= *before,
                (FigureCell::Time(time), FigureCell::Time(before)) => *time = time.saturating_sub(*before),
                (FigureCell::Depth(depth), FigureCell::Depth(before)) => depth.subtract(before),
                // A figure is of one kind, and a maximum has no difference.
                _ => {}
            }
        }
        difference.stages = self.stages.since(&before.stages);
        difference
    }

    /// Begins all maxima anew; those so far are left in what is returned.
    pub(crate) fn take_maxima(&mut self) -> Self {
        let before = *self;
        for figure in &FIGURES {
            match (figure.cell)(self) {
                FigureCell::Max(most) => *most = 0,
                FigureCell::Longest(time) => *time = Duration::ZERO,
                FigureCell::Depth(depth) => depth.clear_max(),
                FigureCell::Count(_) | FigureCell::Time(_) => {}
            }
        }
        before
    }

    /// Makes all maxima those of both.
    pub(crate) fn raise_maxima(&mut self, other: &Self) {
        let mut other = *other;
        for figure in &FIGURES {
            match ((figure.cell)(self), (figure.cell)(&mut other)) {
                (FigureCell::Max(most), FigureCell::Max(other)) => *most = (*most).max(*other),
                (FigureCell::Longest(time), FigureCell::Longest(other)) => *time = (*time).max(*other),
                (FigureCell::Depth(depth), FigureCell::Depth(other)) => depth.raise(other.max()),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Totals in which each figure has a value of its own, from `start` on.
    fn filled(start: u64) -> Totals {
        let mut totals = Totals::default();
        for (number, figure) in (start..).zip(&FIGURES) {
            match (figure.cell)(&mut totals) {
                FigureCell::Count(count) => *count = number,
                FigureCell::Max(most) => *most = number as usize,
                FigureCell::Time(time) | FigureCell::Longest(time) => *time = Duration::from_secs(number),
                FigureCell::Depth(depth) => depth.add(number as usize),
            }
        }
        totals
    }

    #[test]
    fn each_figure_has_names_and_a_cell_of_its_own() {
        let keys: BTreeSet<_> = FIGURES.iter().map(|figure| figure.key).collect();
        let metrics: BTreeSet<_> = FIGURES.iter().map(|figure| figure.metric).collect();
        assert_eq!((keys.len(), metrics.len()), (FIGURES.len(), FIGURES.len()));
        let totals = filled(1);
        for (number, figure) in (1..).zip(&FIGURES) {
            let value = match figure.value(&totals) {
                Value::Count(count) | Value::Max(count) => count as f64,
                Value::Seconds(seconds) | Value::Longest(seconds) => seconds,
                Value::Depth(depth) => depth.mean(),
            };
            assert!((value - f64::from(number)).abs() < 1e-9, "{}", figure.key);
            let grows = matches!(figure.value(&totals), Value::Count(_) | Value::Seconds(_));
            assert_eq!(grows, figure.metric.ends_with("_total"), "{}", figure.metric);
        }
    }

    #[test]
    fn differences_and_maxima() {
        let before = filled(60);
        let mut totals = filled(100).since(&before);
        for figure in &FIGURES {
            match figure.value(&totals) {
                Value::Count(count) => assert_eq!(count, 40, "{}", figure.key),
                Value::Seconds(seconds) => assert!((seconds - 40.0).abs() < 1e-9, "{}", figure.key),
                Value::Max(most) => assert!(most >= 100, "{}", figure.key),
                Value::Longest(seconds) => assert!(seconds >= 100.0, "{}", figure.key),
                Value::Depth(depth) => assert!(depth.max() >= 100, "{}", figure.key),
            }
        }
        totals.take_maxima();
        totals.raise_maxima(&before);
        for figure in &FIGURES {
            match figure.value(&totals) {
                Value::Max(most) => assert!((60..100).contains(&most), "{}", figure.key),
                Value::Longest(seconds) => assert!((60.0..100.0).contains(&seconds), "{}", figure.key),
                Value::Depth(depth) => assert!((60..100).contains(&depth.max()), "{}", figure.key),
                Value::Count(_) | Value::Seconds(_) => {}
            }
        }
    }
}
