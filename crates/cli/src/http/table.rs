//! Figures beside those of the engine's own table. Each stands here once, with its name in JSON,
//! its name among the metrics and its meaning.

use crate::http::snapshot::Snapshot;
use serde_json::Value;

/// A number at a moment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Number {
    Whole(u64),
    Real(f64),
}

impl Number {
    pub(super) fn json(self) -> Value {
        match self {
            Self::Whole(number) => number.into(),
            Self::Real(number) => number.into(),
        }
    }

    /// As Prometheus has all numbers.
    pub(super) fn real(self) -> f64 {
        match self {
            Self::Whole(number) => number as f64,
            Self::Real(number) => number,
        }
    }
}

/// A figure.
pub(super) struct Row {
    /// Its path in JSON: names with points between them.
    pub(super) key: &'static str,
    /// Its name among the metrics. It only grows if this ends in `_total`, and only then.
    pub(super) metric: &'static str,
    /// What it is.
    pub(super) help: &'static str,
    /// None where the command has no such figure, or not yet.
    pub(super) value: fn(&Snapshot) -> Option<Number>,
}

/// Makes a row of a whole number, or of one that may have a fraction.
macro_rules! row {
    ($kind:ident($type:ty), $key:literal, $metric:literal, $help:literal, $value:expr) => {
        Row {
            key: $key,
            metric: $metric,
            help: $help,
            value: |snapshot| {
                let value: fn(&Snapshot) -> Option<$type> = $value;
                value(snapshot).map(Number::$kind)
            },
        }
    };
}

/// A rate over the whole run.
fn mean(snapshot: &Snapshot, count: fn(&blockmill_chain::Progress) -> u64) -> Option<f64> {
    let progress = snapshot.figures.progress.as_ref()?;
    Some(count(progress) as f64 / progress.elapsed.as_secs_f64().max(1e-9))
}

/// All of them, in the order of the metrics.
#[rustfmt::skip]
pub(super) static ROWS: [Row; 27] = [
    row!(Real(f64), "cpu_seconds", "process_cpu_seconds_total", "CPU time in seconds", |all| Some(all.cpu_seconds)),
    row!(Whole(u64), "process.resident_bytes", "process_resident_memory_bytes", "memory in bytes", |all| Some(all.process.as_ref()?.resident_bytes)),
    row!(Whole(u64), "process.virtual_bytes", "process_virtual_memory_bytes", "address space in bytes", |all| Some(all.process.as_ref()?.virtual_bytes)),
    row!(Whole(u64), "process.open_files", "process_open_fds", "open files", |all| Some(all.process.as_ref()?.open_files)),
    row!(Whole(u64), "process.threads", "process_threads", "threads", |all| Some(all.process.as_ref()?.threads)),
    row!(Real(f64), "process.start_time", "process_start_time_seconds", "time of the start, in seconds since 1970", |all| Some(all.process.as_ref()?.start_time)),
    row!(Whole(u64), "height", "blockmill_height", "height of the tip", |all| all.figures.progress.as_ref().map(|progress| progress.height).or(all.figures.start_height).map(u64::from)),
    row!(Whole(u64), "best_height", "blockmill_best_height", "height of the best known chain", |all| Some(all.figures.progress.as_ref()?.best_height.into())),
    row!(Whole(u64), "tip_time", "blockmill_tip_time_seconds", "time in the header of the tip, in seconds since 1970", |all| Some(all.figures.progress.as_ref()?.tip_time.into())),
    row!(Real(f64), "share", "blockmill_share", "share of the work at hand that is done, from 0 to 1; of the best chain's bytes, while blocks are connected", |all| all.share),
    row!(Real(f64), "remaining_seconds", "blockmill_remaining_seconds", "seconds that the work at hand takes from now on, as estimated", |all| all.remaining_seconds),
    row!(Whole(u64), "bytes_remaining", "blockmill_bytes_remaining", "bytes of blocks still to be connected", |all| Some(all.figures.progress.as_ref()?.bytes_remaining)),
    row!(Whole(u64), "cache_coins", "blockmill_cache_coins", "entries in the coins cache", |all| all.figures.totals.and(all.figures.progress.as_ref()).map(|progress| progress.cache_coins)),
    row!(Whole(u64), "cache_bytes", "blockmill_cache_bytes", "memory of the coins cache in bytes", |all| all.figures.totals.and(all.figures.progress.as_ref()).map(|progress| progress.cache_bytes)),
    row!(Whole(u64), "cache_bytes_max", "blockmill_cache_bytes_max", "memory that the coins cache may take, in bytes", |all| all.figures.cache_bytes_max),
    row!(Real(f64), "seconds", "blockmill_elapsed_seconds", "seconds since connecting began", |all| Some(all.figures.progress.as_ref()?.elapsed.as_secs_f64())),
    row!(Real(f64), "mean_blocks_per_second", "blockmill_blocks_per_second", "blocks connected per second, over the whole run", |all| mean(all, |progress| progress.blocks)),
    row!(Real(f64), "mean_inputs_per_second", "blockmill_inputs_per_second", "inputs connected per second, over the whole run", |all| mean(all, |progress| progress.inputs)),
    row!(Real(f64), "blocks_per_second", "blockmill_recent_blocks_per_second", "blocks connected per second, over the last ten seconds", |all| all.figures.progress.map(|_| all.latest.blocks_per_second)),
    row!(Real(f64), "inputs_per_second", "blockmill_recent_inputs_per_second", "inputs connected per second, over the last ten seconds", |all| all.figures.progress.map(|_| all.latest.inputs_per_second)),
    row!(Whole(u64), "flushed_height", "blockmill_flushed_height", "height up to which all is on disk", |all| all.figures.flushed.map(|tip| tip.height.into())),
    row!(Whole(u64), "reorganisations_total", "blockmill_reorganisations_total", "reorganisations since the start", |all| Some(all.figures.reorganisations_total)),
    row!(Whole(u64), "warnings_total", "blockmill_warnings_total", "warnings on standard error since the start", |all| Some(all.warnings_total)),
    row!(Whole(u64), "store_bytes", "blockmill_store_bytes", "size of the coin store in bytes", |all| all.sizes.store),
    row!(Whole(u64), "directory_bytes", "blockmill_directory_bytes", "size of the data directory in bytes, the store included", |all| all.sizes.directory),
    row!(Whole(u64), "disk_free_bytes", "blockmill_disk_free_bytes", "bytes that are free on the file system of the data directory", |all| all.sizes.free),
    row!(Whole(u64), "disk_bytes", "blockmill_disk_bytes", "bytes of the file system of the data directory", |all| all.sizes.disk),
];

#[cfg(test)]
mod tests {
    use super::*;
    use blockmill_engine::report::FIGURES;
    use std::collections::BTreeSet;

    #[test]
    fn each_figure_has_names_of_its_own() {
        let own = ROWS.iter().map(|row| (row.key, row.metric.to_owned()));
        let engine = FIGURES
            .iter()
            .map(|figure| (figure.key, format!("blockmill_{}", figure.metric)));
        let (keys, metrics): (BTreeSet<_>, BTreeSet<_>) = own.chain(engine).unzip();
        assert_eq!(keys.len(), ROWS.len() + FIGURES.len());
        assert_eq!(metrics.len(), ROWS.len() + FIGURES.len());
    }
}
