//! The benchmarks of `blockmill-bench`: Blockmill's parts beside their peers.
//!
//! A benchmark makes its own input, runs all contenders on it in turns, checks each result, and
//! returns a report of rows. All benchmarks share the rest. In reading order:
//! - `report`: rows, columns, targets and charts, as a text table and as JSON;
//! - `connect`: block files to a validated UTXO set, ours and the kernel's;
//! - `kernel`: the kernel's ChainstateManager as a peer;
//! - `locks`: the semaphore and the critical section, beside other locks;
//! - `workqueue`: the work queue, beside its first version, channels and a pool;
//! - `writers`: the undo log with concurrent writers, under several locks;
//! - `checks`: the check queue, beside other queues;
//! - `cache`: the coins cache under different limits of memory;
//! - `coinmap`: the coin map, beside other maps;
//! - `fetch`: a chain over slow stores, with and without fetching;
//! - `signatures`: signature checks verified many at once, beside libsecp256k1 and the kernel's
//!   interface;
//! - `audit`: whole chains validated in any order, beside `connect` and Core's daemon;
//! - `clock`: wall and CPU time, and the spread of several runs;
//! - `machine`: the machine of a run;
//! - `process_stats`: memory and CPU time of a running subprocess;
//! - `html`, `svg`: a report as one page, with its charts;
//! - `error`: the errors of a benchmark.
//!
//! ```no_run
//! let options = blockmill_bench::BenchOptions {
//!     quick: true,
//!     ..Default::default()
//! };
//! let mut progress = |line: &str| eprintln!("{line}");
//! blockmill_bench::run("connect", &options, &mut std::io::stdout(), &mut progress)?;
//! # Ok::<(), blockmill_bench::BenchError>(())
//! ```

mod report;

mod audit;
mod cache;
mod checks;
mod coinmap;
mod connect;
mod fetch;
mod kernel;
mod locks;
mod signatures;
mod workqueue;
mod writers;

mod clock;
mod machine;
mod process_stats;

mod html;
mod svg;

mod error;

pub use error::BenchError;

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

/// The benchmarks, each with what it measures.
pub const NAMES: &[(&str, &str)] = &[
    (
        "connect",
        "block files to a validated set, beside Core's ChainstateManager",
    ),
    (
        "semaphore",
        "the semaphore and the critical section, beside other locks",
    ),
    ("writers", "the undo log with many writers"),
    ("checkqueue", "the check queue, beside other queues"),
    ("workqueue", "the work queue, beside channels and a pool"),
    ("cache", "the coins cache under limits of memory"),
    ("coinmap", "the coin map, beside hashbrown"),
    ("fetch", "coins read ahead from slow stores"),
    ("signatures", "signatures in lanes, beside libsecp256k1"),
    ("audit", "whole chains validated in any order, beside bitcoind"),
];

/// Parts of the engine that `connect` can leave out.
pub const WITHOUT: [&str; 5] = connect::PARTS;

/// The options of a benchmark.
#[derive(Debug, Clone, Default)]
pub struct BenchOptions {
    /// Smaller inputs and fewer runs: well under a minute on 2 cores.
    pub quick: bool,
    /// The file to which the report is written as JSON.
    pub json: Option<PathBuf>,
    /// The file to which the report is written as a page.
    pub html: Option<PathBuf>,
    /// The file to which the report's first chart is written as SVG.
    pub svg: Option<PathBuf>,
    /// Parts of the engine that `connect` leaves out in further rows; see [`WITHOUT`].
    pub without: Vec<&'static str>,
    /// Whether the table and the page say which targets are met; JSON always does.
    pub targets: bool,
    /// The command line that asked for the benchmark, for the report.
    pub command: String,
    /// The `blockmill-bench` command, for benchmarks whose runs are processes of their own.
    pub executable: Option<PathBuf>,
    /// The `blockmill` command, whose processes `cache` and `audit` watch.
    pub blockmill: Option<PathBuf>,
    /// Bitcoin Core's daemon, for further rows of `connect` and `audit`.
    pub bitcoind: Option<PathBuf>,
    /// Whether `connect` adds its big chain.
    pub big: bool,
    /// The part that this subprocess runs. Each run of `coinmap` and `connect` is a subprocess,
    /// called as `blockmill-bench NAME --part PART`. It prints the outcome in place of a table.
    pub part: Option<String>,
}

/// Runs the benchmark `name`: prints its table to `out`, gives `progress` a line for each run, and
/// then writes the files of the options. All files are opened before the first run.
///
/// # Errors
/// [`BenchError::UnknownName`]; [`BenchError::Mismatch`] if a result is not the expected one; any
/// other error that stops a run.
pub fn run(
    name: &str,
    options: &BenchOptions,
    out: &mut dyn Write,
    progress: &mut dyn FnMut(&str),
) -> Result<(), BenchError> {
    match (&options.part, name) {
        (Some(part), "coinmap") => {
            let outcome = coinmap::run_part(part)?;
            return writeln!(out, "{outcome}").map_err(BenchError::Output);
        }
        (Some(part), "connect") => return connect::run_part(part, out),
        _ => {}
    }
    if NAMES.iter().all(|(known, _)| *known != name) {
        return Err(BenchError::UnknownName { name: name.to_owned() });
    }
    // Opened now, so that a path that cannot be written fails before the runs.
    let files = [&options.json, &options.html, &options.svg].into_iter().flatten();
    let _files = files.map(|path| open_file(path)).collect::<Result<Vec<_>, _>>()?;
    let report = match name {
        "connect" => connect::report(options, progress)?,
        "semaphore" => locks::report(options, progress)?,
        "workqueue" => workqueue::report(options, progress)?,
        "writers" => writers::report(options, progress)?,
        "checkqueue" => checks::report(options, progress)?,
        "cache" => cache::report(options, progress)?,
        "coinmap" => coinmap::report(options, progress)?,
        "fetch" => fetch::report(options, progress)?,
        "signatures" => signatures::report(options, progress)?,
        "audit" => audit::report(options, progress)?,
        _ => return Err(BenchError::UnknownName { name: name.to_owned() }),
    };
    report.write_table(out, options.targets).map_err(BenchError::Output)?;
    out.flush().map_err(BenchError::Output)?;
    if let Some(path) = &options.json {
        write_file(path, &format!("{:#}\n", report.json()))?;
    }
    if let Some(path) = &options.html {
        write_file(path, &html::page(&report, options.targets))?;
    }
    if let (Some(path), Some(chart)) = (&options.svg, report.charts().next()) {
        write_file(path, &svg::file(chart, &report.rows))?;
    }
    Ok(())
}

/// Opens a file for writing later. Its content stays until then.
fn open_file(path: &Path) -> Result<File, BenchError> {
    let mut options = File::options();
    options.write(true).create(true).truncate(false);
    options.open(path).map_err(BenchError::file(path))
}

fn write_file(path: &Path, text: &str) -> Result<(), BenchError> {
    std::fs::write(path, text).map_err(BenchError::file(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_name_lists_the_names() {
        let mut out = Vec::new();
        let error = run("conect", &BenchOptions::default(), &mut out, &mut |_| ()).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("'conect'") && text.contains("connect"), "{text}");
        assert!(out.is_empty());
    }

    #[test]
    fn a_file_that_cannot_be_written_is_named_before_the_runs() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("missing").join("report");
        let (json, html) = (Some(path.clone()), Some(path.clone()));
        for (json, html) in [(json, None), (None, html)] {
            let options = BenchOptions {
                quick: true,
                json,
                html,
                ..BenchOptions::default()
            };
            let (mut out, mut lines) = (Vec::new(), 0);
            let error = run("semaphore", &options, &mut out, &mut |_| lines += 1).unwrap_err();
            assert!(error.to_string().starts_with(path.to_str().unwrap()), "{error}");
            assert!(out.is_empty() && lines == 0);
        }
    }

    #[test]
    fn what_a_file_has_stays_until_there_is_a_report() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("report.json");
        std::fs::write(&path, "before").unwrap();
        drop(open_file(&path).unwrap());
        assert_eq!(std::fs::read(&path).unwrap(), b"before");
        write_file(&path, "new").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
    }
}
