//! `blockmill-bench cache`: a chain of many coins, connected under different limits of memory.
//!
//! Each run is a process of its own, `blockmill connect --json`. While the process runs, the
//! benchmark samples its anonymous memory, its mapped file pages and the bytes that it writes. The
//! resulting set must have the generator's hash.

use crate::BenchOptions;
use crate::connect::temporary_directory;
use crate::error::BenchError;
use crate::process_stats::{ProcessStats, watch};
use crate::report::{Chart, Column, Report, Target};
use blockmill_chaingen::{ChainSpec, Profile, Summary, write_chain};
use blockmill_coins::StatsBuilder;
use blockmill_coins::stats::Hashes;
use blockmill_engine::Engine;
use blockmill_kernel::KernelVerifier;
use serde::Serialize;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};

const SEED: u64 = 6;

/// Anonymous memory for anything but coins, in MiB: the verifier's tables, the header index, blocks
/// ahead and in flight, stacks, and free memory that the allocator keeps.
const CONSTANT_MIB: f64 = 48.0;

const COLUMNS: &[Column] = &[
    Column::number("dbcache_mib", "dbcache MiB", 0),
    Column::number("seconds", "seconds", 2),
    Column::number("cpu_seconds", "CPU s", 2),
    Column::number("hit_rate", "hit rate", 4),
    Column::number("flushes", "flushes", 0),
    Column::number("changes_written", "changes", 0),
    Column::number("written_mib", "written MiB", 1),
    Column::number("anonymous_mib", "anonymous MiB", 1),
    Column::number("file_pages_mib", "file pages MiB", 1),
    Column::number("cache_mib", "coins MiB", 1),
    Column::number("stall_max_ms", "longest stall ms", 1),
    Column::number("waits", "waits", 0),
];

const CHART: Chart = Chart {
    title: "Peak of anonymous memory",
    within: None,
    series: "chain",
    x: "dbcache_mib",
    x_label: "--dbcache in MiB",
    y: "anonymous_mib",
    y_label: "MiB",
};

/// A printed row.
#[derive(Debug, Clone, Serialize)]
struct Row {
    chain: String,
    dbcache_mib: u64,
    inputs: u64,
    seconds: f64,
    cpu_seconds: f64,
    hits: u64,
    misses: u64,
    hit_rate: f64,
    flushes: u64,
    changes_written: u64,
    /// MiB that the process wrote, undo data and headers included.
    written_mib: f64,
    /// Peak of the process's anonymous memory.
    anonymous_mib: f64,
    file_pages_mib: f64,
    /// Peak of the memory that the cache reports.
    cache_mib: f64,
    /// Longest pause of the connecting thread caused by a flush. The final flush is not counted.
    stall_max_ms: f64,
    /// Number of pauses because the cache was full.
    waits: u64,
}

/// Runs the benchmark.
///
/// # Errors
/// Any [`BenchError`] but those about names and output.
pub(crate) fn report(options: &BenchOptions, progress: &mut dyn FnMut(&str)) -> Result<Report, BenchError> {
    let Some(executable) = options.blockmill.as_deref().filter(|path| path.is_file()) else {
        return Err(BenchError::Process {
            run: "cache".to_owned(),
            detail: "this benchmark runs the blockmill command, which must be in the folder of this one".to_owned(),
        });
    };
    let mut report = Report::new(
        "cache",
        "a chain of many coins connected under different limits of memory",
        &options.command,
    );
    let (spec, limits) = plan(options.quick);
    let directory = temporary_directory()?;
    let blocks = directory.path().join("blocks");
    let summary = write_chain(&blocks, &spec, &mut |_| ())?;
    progress(&format!(
        "made a chain of {} coins and {} inputs",
        summary.coins, summary.inputs
    ));
    let mut rows = Vec::new();
    for &limit in limits {
        let row = run(executable, &blocks, limit, &summary)?;
        progress(&format!("--dbcache {limit}: {:.2} s", row.seconds));
        rows.push(row);
    }
    report.notes = vec![
        format!(
            "chain {}: {} blocks, seed {}, {} inputs, {} coins at the end",
            summary.profile, summary.height, summary.seed, summary.inputs, summary.coins
        ),
        format!("target: anonymous memory of at most 110% of --dbcache, plus {CONSTANT_MIB} MiB for everything else"),
        "a stall is a pause of the connecting thread caused by a flush; a wait is a stall because the cache was full"
            .to_owned(),
    ];
    report.columns = COLUMNS.to_vec();
    report.targets = rows.iter().flat_map(targets).collect();
    report.rows = rows.iter().map(|row| serde_json::json!(row)).collect();
    report.charts = vec![CHART];
    Ok(report)
}

fn plan(quick: bool) -> (ChainSpec, &'static [u64]) {
    let (blocks, inputs, coins, limits): (_, _, _, &[u64]) = if quick {
        (120, 60_000, 100_000, &[2, 8, 64])
    } else {
        (400, 3_000_000, 2_000_000, &[16, 64, 256, 1000])
    };
    let spec = ChainSpec {
        inputs,
        coins,
        ..ChainSpec::new(Profile::Utxo, blocks, SEED)
    };
    (spec, limits)
}

fn targets(row: &Row) -> Vec<Target> {
    let limit = row.dbcache_mib;
    vec![
        Target::at_most(
            &format!("anonymous MiB at --dbcache {limit}"),
            row.anonymous_mib,
            limit as f64 * 1.1 + CONSTANT_MIB,
        ),
        Target::at_most(
            &format!("longest stall in ms at --dbcache {limit}"),
            row.stall_max_ms,
            50.0,
        ),
    ]
}

/// Connects the chain once with one limit.
fn run(executable: &Path, blocks: &Path, dbcache_mib: u64, expected: &Summary) -> Result<Row, BenchError> {
    let name = format!("--dbcache {dbcache_mib}");
    let data = temporary_directory()?;
    let mut child = Command::new(executable)
        .args([
            "connect",
            "--network",
            "regtest",
            "--json",
            "--dbcache",
            &dbcache_mib.to_string(),
        ])
        .arg("--blocks")
        .arg(blocks)
        .arg("--data")
        .arg(data.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(BenchError::file(executable))?;
    let (text, stats) = watch(&mut child);
    let status = child.wait().map_err(BenchError::file(executable))?;
    let report: Value =
        serde_json::from_str(text.lines().last().unwrap_or("")).map_err(|error| BenchError::Process {
            run: name.clone(),
            detail: format!("{status}: {error}"),
        })?;
    check(&name, data.path(), &report, expected)?;
    Ok(row(dbcache_mib, &report, stats, expected))
}

/// Checks that the run has ended at the generator's set.
fn check(run: &str, data: &Path, report: &Value, expected: &Summary) -> Result<(), BenchError> {
    let mismatch = |what, found: &str, wanted: &str| BenchError::Mismatch {
        run: run.to_owned(),
        what,
        found: found.to_owned(),
        wanted: wanted.to_owned(),
    };
    if report["tip"] != expected.tip {
        return Err(mismatch("tip", &report["tip"].to_string(), &expected.tip));
    }
    let engine = Engine::builder(data).open(KernelVerifier)?;
    let stats = StatsBuilder::new(Hashes::Serialized)
        .add_all(engine.coins().coins()?)?
        .finish(&engine.tip());
    let hash = stats.hash_serialized_3.to_string();
    if hash != expected.hash_serialized_3 {
        return Err(mismatch("hash_serialized_3", &hash, &expected.hash_serialized_3));
    }
    Ok(())
}

fn row(dbcache_mib: u64, report: &Value, stats: ProcessStats, expected: &Summary) -> Row {
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let count = |value: &Value| value.as_u64().unwrap_or(0);
    let seconds = |value: &Value| value.as_f64().unwrap_or(f64::NAN);
    let (hits, misses) = (count(&report["cache"]["hits"]), count(&report["cache"]["misses"]));
    Row {
        chain: expected.profile.clone(),
        dbcache_mib,
        inputs: expected.inputs,
        seconds: seconds(&report["seconds"]),
        cpu_seconds: seconds(&report["cpu_seconds"]),
        hits,
        misses,
        hit_rate: hits as f64 / (hits + misses).max(1) as f64,
        flushes: count(&report["flushes"]),
        changes_written: count(&report["flush"]["changes"]),
        written_mib: mib(stats.written_bytes),
        anonymous_mib: mib(stats.anonymous_bytes),
        file_pages_mib: mib(stats.file_bytes),
        cache_mib: mib(count(&report["cache"]["bytes"])),
        stall_max_ms: seconds(&report["flush"]["pause_max_s"]) * 1e3,
        waits: count(&report["flush"]["waits"]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_fails_is_an_error() {
        let summary = write_summary();
        let error = run(Path::new("/bin/false"), Path::new("/nowhere"), 16, &summary).unwrap_err();
        assert!(
            matches!(&error, BenchError::Process { run, .. } if run == "--dbcache 16"),
            "{error}"
        );
        let without = report(&BenchOptions::default(), &mut |_| ()).unwrap_err();
        assert!(without.to_string().contains("blockmill command"), "{without}");
    }

    #[test]
    fn every_column_and_axis_is_in_the_rows() {
        let report = serde_json::json!({
            "seconds": 2.0,
            "cpu_seconds": 3.0,
            "cache": {"hits": 3, "misses": 1, "bytes": 1 << 20},
            "flushes": 4,
            "flush": {"changes": 5, "waits": 6, "pause_max_s": 0.25},
        });
        let stats = ProcessStats {
            anonymous_bytes: 60 << 20,
            file_bytes: 5 << 20,
            written_bytes: 7 << 20,
            cpu_seconds: 0.0,
        };
        let summary = write_summary();
        let row = row(16, &report, stats, &summary);
        let met: Vec<bool> = targets(&row).iter().map(|target| target.met).collect();
        assert_eq!(met, [true, false]);
        let row = serde_json::json!(row);
        let keys = COLUMNS.iter().map(|column| column.key);
        for key in keys.chain([CHART.series, CHART.x, CHART.y]) {
            assert!(row[key].is_string() || row[key].is_number(), "{key}");
        }
        assert_eq!((&row["hit_rate"], &row["stall_max_ms"]), (&0.75.into(), &250.0.into()));
    }

    fn write_summary() -> Summary {
        let directory = tempfile::tempdir().unwrap();
        write_chain(directory.path(), &ChainSpec::new(Profile::Utxo, 1, 1), &mut |_| ()).unwrap()
    }
}
