//! The figures as a table with a column for each store, and as JSON.

use crate::Work;
use crate::spread::Spread;
use crate::targets::targets;
use serde_json::{Map, Value, json};
use std::fmt::Write;

const MEGABYTE: f64 = 1e6;

/// What was run, and its figures.
#[derive(Debug)]
pub(crate) struct Comparison {
    pub(crate) work: Work,
    /// The bound of memory that was asked for.
    pub(crate) memory_mib: Option<u64>,
    /// How memory was bounded, in words.
    pub(crate) memory: String,
    /// The figures of each store with its name.
    pub(crate) stores: Vec<(String, Value)>,
}

fn number(value: &Value, path: &str) -> Option<f64> {
    value.pointer(path)?.as_f64()
}

fn scaled(value: &Value, path: &str, unit: f64, decimals: usize) -> String {
    number(value, path).map_or_else(|| "-".to_owned(), |number| format!("{:.decimals$}", number / unit))
}

fn seconds_and_cpu(value: &Value, path: &str) -> String {
    let part = |name: &str, decimals| scaled(value, &format!("{path}/{name}"), 1.0, decimals);
    format!("{} ({})", part("seconds", 1), part("cpu_seconds", 1))
}

/// The middle and the ends of opens after kills.
fn kills(value: &Value) -> String {
    let rows = value.pointer("/reopen").and_then(Value::as_array);
    let seconds = rows
        .into_iter()
        .flatten()
        .filter_map(|row| number(row, "/open/seconds"));
    Spread::new(seconds).map_or_else(
        || "-".to_owned(),
        |spread| format!("{:.2} ({:.2} to {:.2})", spread.median, spread.min, spread.max),
    )
}

fn mean_and_deviation(value: &Value, path: &str) -> String {
    let part = |name: &str| scaled(value, &format!("{path}/{name}"), 1.0, 2);
    format!("{} ± {}", part("mean"), part("deviation"))
}

fn median_and_ends(value: &Value, path: &str) -> String {
    let part = |name: &str| scaled(value, &format!("{path}/{name}"), 1.0, 2);
    format!("{} ({} to {})", part("median"), part("min"), part("max"))
}

/// Microseconds of wall time for each read, and of CPU time.
fn read(value: &Value, phase: &str, row: usize) -> String {
    let part = |name: &str| scaled(value, &format!("/{phase}/rows/{row}/{name}"), 1.0, 2);
    format!(
        "{} ({})",
        part("microseconds_per_read"),
        part("cpu_microseconds_per_read")
    )
}

fn megabytes(value: &Value, path: &str) -> String {
    scaled(value, path, MEGABYTE, 0)
}

/// What a row shows of a store's figures.
type Cell = fn(&Value) -> String;

const ROWS: [(&str, Cell); 36] = [
    ("load: seconds (CPU)", |of| seconds_and_cpu(of, "/load/commits")),
    ("load until at rest and closed: seconds (CPU)", |of| {
        seconds_and_cpu(of, "/load/with_settling")
    }),
    ("load: bytes written per byte", |of| {
        scaled(of, "/load/write_ratio", 1.0, 2)
    }),
    ("load: anonymous memory, MB", |of| {
        megabytes(of, "/load/anonymous_bytes")
    }),
    ("size after the load, MB", |of| megabytes(of, "/load/disk_bytes")),
    ("flush, warm: seconds, mean ± deviation", |of| {
        mean_and_deviation(of, "/flush/seconds")
    }),
    ("flush, warm: seconds, median (min to max)", |of| {
        median_and_ends(of, "/flush/seconds")
    }),
    (
        "flush, warm: CPU seconds, mean ± deviation, background included",
        |of| mean_and_deviation(of, "/flush/cpu_seconds"),
    ),
    ("flush, warm: CPU seconds, median (min to max)", |of| {
        median_and_ends(of, "/flush/cpu_seconds")
    }),
    ("after the last flush until at rest and closed: seconds", |of| {
        scaled(of, "/flush/settle_seconds", 1.0, 1)
    }),
    ("flush, warm: bytes written per byte of change", |of| {
        scaled(of, "/flush/write_ratio", 1.0, 1)
    }),
    ("flush, warm: anonymous memory, MB", |of| {
        megabytes(of, "/flush/anonymous_bytes")
    }),
    ("flush, warm: pages of mapped files, MB", |of| {
        megabytes(of, "/flush/file_bytes")
    }),
    ("size after the flushes, MB", |of| megabytes(of, "/flush/disk_bytes")),
    ("flush, cold files: seconds (CPU)", |of| {
        seconds_and_cpu(of, "/flush-cold/commits/0")
    }),
    ("flush, cold files: MB read", |of| {
        megabytes(of, "/flush-cold/commits/0/read_bytes")
    }),
    ("read, warm, 1 thread: us (CPU us)", |of| read(of, "read", 0)),
    ("read, warm, 1 thread: us, median (min to max) of tenths", |of| {
        median_and_ends(of, "/read/rows/0/slices")
    }),
    ("read, warm, 2 threads: us (CPU us)", |of| read(of, "read", 1)),
    ("read, warm, 8 threads: us (CPU us)", |of| read(of, "read", 2)),
    ("absent, warm, 1 thread: us (CPU us)", |of| read(of, "read", 3)),
    ("anonymous memory after an open, MB", |of| {
        megabytes(of, "/read/open_anonymous_bytes")
    }),
    ("memory after an open as the store says it, MB", |of| {
        megabytes(of, "/read/open_said_bytes")
    }),
    ("anonymous memory after the reads, MB", |of| {
        megabytes(of, "/read/anonymous_bytes")
    }),
    ("read, cold, 1 thread: us (CPU us)", |of| read(of, "read-cold1", 0)),
    ("read, cold, 1 thread: us, median (min to max) of tenths", |of| {
        median_and_ends(of, "/read-cold1/rows/0/slices")
    }),
    ("read, cold, 2 threads: us (CPU us)", |of| read(of, "read-cold2", 0)),
    ("read, cold, 8 threads: us (CPU us)", |of| read(of, "read-cold8", 0)),
    ("read, cold, 1 thread: bytes from disk a read", |of| {
        scaled(of, "/read-cold1/rows/0/disk_bytes_per_read", 1.0, 0)
    }),
    ("read, cold, 1 thread: calls and faults a read", |of| {
        scaled(of, "/read-cold1/rows/0/fetches_per_read", 1.0, 2)
    }),
    ("absent, cold, 1 thread: us (CPU us)", |of| read(of, "absent-cold", 0)),
    ("absent, cold, 1 thread: calls and faults a read", |of| {
        scaled(of, "/absent-cold/rows/0/fetches_per_read", 1.0, 4)
    }),
    ("all coins in order: seconds (CPU)", |of| {
        seconds_and_cpu(of, "/scan/scan")
    }),
    ("open after a clean end: seconds", |of| {
        scaled(of, "/read/open_seconds", 1.0, 3)
    }),
    ("open after a kill: seconds, median (min to max)", kills),
    ("open without a checkpoint: seconds (CPU)", |of| {
        seconds_and_cpu(of, "/rebuild/open")
    }),
];

/// The table in Markdown, then the targets.
pub(crate) fn table(comparison: &Comparison) -> String {
    let Comparison {
        work, memory, stores, ..
    } = comparison;
    let mut text = format!(
        "{} coins, {} flushes of {} changes, {} MiB for a store's own cache; {memory}; every coin read is compared\n\n| |",
        work.coins, work.rounds, work.changes, work.cache_mib
    );
    let names: Vec<&str> = stores.iter().map(|store| store.0.as_str()).collect();
    let rule = "---|".repeat(names.len() + 1);
    writeln!(text, " {} |\n|{rule}", names.join(" | ")).expect("a string takes all");
    for (name, cell) in ROWS {
        let cells: Vec<String> = stores.iter().map(|store| cell(&store.1)).collect();
        writeln!(text, "| {name} | {} |", cells.join(" | ")).expect("a string takes all");
    }
    let targets = targets(work, stores);
    if !targets.is_empty() {
        text.push('\n');
    }
    for target in targets {
        writeln!(text, "- {}", target.text()).expect("a string takes all");
    }
    text
}

/// Everything measured.
pub(crate) fn json(comparison: &Comparison) -> Value {
    let Comparison { work, stores, .. } = comparison;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let targets: Vec<Value> = targets(work, stores).iter().map(|target| target.json()).collect();
    json!({
        "bench": "stores",
        "machine": {"cores": cores},
        "work": {
            "coins": work.coins, "changes": work.changes, "rounds": work.rounds, "reads": work.reads,
            "cold_reads": work.cold_reads, "kills": work.kills, "cache_mib": work.cache_mib,
        },
        "memory": {"mib": comparison.memory_mib, "how": comparison.memory},
        "stores": stores.iter().cloned().collect::<Map<_, _>>(),
        "targets": targets,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(row: &str, figures: &Value) -> String {
        let found = ROWS.iter().find(|(name, _)| *name == row);
        found.unwrap().1(figures)
    }

    #[test]
    fn missing_figures_are_shown_as_such() {
        let figures = json!({
            "load": {"write_ratio": 1.234},
            "flush": {"seconds": {"median": 2.0, "min": 1.0, "max": 4.0}},
            "reopen": [{"open": {"seconds": 3.0}}],
        });
        assert_eq!(cell("load: bytes written per byte", &figures), "1.23");
        assert_eq!(
            cell("flush, warm: seconds, median (min to max)", &figures),
            "2.00 (1.00 to 4.00)"
        );
        assert_eq!(
            cell("open after a kill: seconds, median (min to max)", &figures),
            "3.00 (3.00 to 3.00)"
        );
        assert_eq!(cell("load: seconds (CPU)", &figures), "- (-)");
    }
}
