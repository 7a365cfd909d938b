//! The figures as a table with a column for each store, and as JSON.

use crate::Work;
use serde_json::{Map, Value, json};
use std::fmt::Write;

const MEGABYTE: f64 = 1e6;

/// The middle of some figures, and their ends.
fn spread(values: impl Iterator<Item = f64>) -> Option<(f64, f64, f64)> {
    let mut values: Vec<f64> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    Some((*values.get(values.len() / 2)?, *values.first()?, *values.last()?))
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

fn spread_of(value: &Value, path: &str, field: &str) -> String {
    let rows = value.pointer(path).and_then(Value::as_array);
    let values = rows.into_iter().flatten().filter_map(|row| number(row, field));
    spread(values).map_or_else(
        || "-".to_owned(),
        |(median, min, max)| format!("{median:.2} ({min:.2} to {max:.2})"),
    )
}

/// Microseconds of wall time for each read, and of CPU time.
fn read(value: &Value, phase: &str, row: usize) -> String {
    let part = |name: &str| scaled(value, &format!("/{phase}/rows/{row}/{name}"), 1.0, 1);
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

const ROWS: [(&str, Cell); 26] = [
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
    ("flush, warm: seconds, median (min to max)", |of| {
        spread_of(of, "/flush/commits", "/seconds")
    }),
    ("flush, warm: CPU seconds a flush, background included", |of| {
        scaled(of, "/flush/cpu_seconds_per_commit", 1.0, 2)
    }),
    ("flushes until at rest: seconds (CPU)", |of| {
        seconds_and_cpu(of, "/flush/with_settling")
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
    ("read, warm, 2 threads: us (CPU us)", |of| read(of, "read", 1)),
    ("read, warm, 8 threads: us (CPU us)", |of| read(of, "read", 2)),
    ("absent, warm, 1 thread: us (CPU us)", |of| read(of, "read", 3)),
    ("read, cold, 1 thread: us (CPU us)", |of| read(of, "read-cold1", 0)),
    ("read, cold, 2 threads: us (CPU us)", |of| read(of, "read-cold2", 0)),
    ("read, cold, 8 threads: us (CPU us)", |of| read(of, "read-cold8", 0)),
    ("read, cold, 1 thread: bytes from disk a read", |of| {
        scaled(of, "/read-cold1/rows/0/disk_bytes_per_read", 1.0, 0)
    }),
    ("absent, cold, 1 thread: us (CPU us)", |of| read(of, "absent-cold", 0)),
    ("all coins in order: seconds (CPU)", |of| {
        seconds_and_cpu(of, "/scan/scan")
    }),
    ("open after a clean end: seconds", |of| {
        scaled(of, "/read/open_seconds", 1.0, 3)
    }),
    ("open after a kill: seconds", |of| {
        spread_of(of, "/reopen", "/open/seconds")
    }),
];

/// The table in Markdown.
pub(crate) fn table(work: &Work, results: &[(String, Value)]) -> String {
    let mut text = format!(
        "{} coins, flushes of {} changes, {} MiB of cache; every coin read is compared\n\n| |",
        work.coins, work.changes, work.cache_mib
    );
    let names: Vec<&str> = results.iter().map(|result| result.0.as_str()).collect();
    let rule = "---|".repeat(names.len() + 1);
    writeln!(text, " {} |\n|{rule}", names.join(" | ")).expect("a string takes all");
    for (name, cell) in ROWS {
        let cells: Vec<String> = results.iter().map(|result| cell(&result.1)).collect();
        writeln!(text, "| {name} | {} |", cells.join(" | ")).expect("a string takes all");
    }
    text
}

/// Everything measured.
pub(crate) fn json(work: &Work, results: &[(String, Value)]) -> Value {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    json!({
        "bench": "stores",
        "machine": {"cores": cores},
        "work": {
            "coins": work.coins, "changes": work.changes, "rounds": work.rounds, "reads": work.reads,
            "cold_reads": work.cold_reads, "kills": work.kills, "cache_mib": work.cache_mib,
        },
        "stores": results.iter().cloned().collect::<Map<_, _>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_and_the_ends() {
        assert_eq!(spread([3.0, 1.0, 2.0].into_iter()), Some((2.0, 1.0, 3.0)));
        assert_eq!(spread(std::iter::empty()), None);
    }

    #[test]
    fn missing_figures_are_shown_as_such() {
        let figures = json!({"load": {"write_ratio": 1.234}, "flush": {"commits": [{"seconds": 2.0}]}});
        assert_eq!(ROWS[2].1(&figures), "1.23");
        assert_eq!(ROWS[5].1(&figures), "2.00 (2.00 to 2.00)");
        assert_eq!(ROWS[0].1(&figures), "- (-)");
    }
}
