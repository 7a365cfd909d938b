//! The tables of `blockmill-bench`: ours beside the peers that are linked anyway.
//!
//! A benchmark makes its own input, runs everything on it in turns, checks each result, and returns
//! a report of rows; the rest is the same for all of them. In reading order:
//! - `report`: rows, columns, targets and charts, as a text table and as JSON;
//! - `connect`: block files to a validated UTXO set, ours and the kernel's;
//! - `kernel`: the kernel's ChainstateManager as a peer;
//! - `locks`: the semaphore and the critical section, and the locks of others;
//! - `workqueue`: the work queue, its shape before, and channels and pools of others;
//! - `writers`: the undo log with concurrent writers, under several locks;
//! - `checks`: the check queue, and the queues of others;
//! - `cache`: the coins cache under different limits of memory;
//! - `coinmap`: the coin map, and the maps of others;
//! - `fetch`: a chain over slow stores, with and without fetching;
//! - `signatures`: signature checks verified many at a time, beside libsecp256k1 and the kernel's
//!   interface;
//! - `clock`: wall and CPU time, and the spread of several runs;
//! - `machine`: what the benchmark ran on;
//! - `watched`: what the system says of a process while it runs;
//! - `html`, `svg`: a report as one page, with its charts;
//! - `error`: what can go wrong.
//!
//! ```no_run
//! let options = blockmill_bench::BenchOptions {
//!     quick: true,
//!     ..Default::default()
//! };
//! blockmill_bench::run("connect", &options, &mut std::io::stdout(), &mut |line| eprintln!("{line}"))?;
//! # Ok::<(), blockmill_bench::BenchError>(())
//! ```

mod report;

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
mod watched;

mod html;
mod svg;

mod error;

pub use error::BenchError;

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

/// The benchmarks.
pub const NAMES: &[&str] = &[
    "connect",
    "semaphore",
    "writers",
    "checkqueue",
    "workqueue",
    "cache",
    "coinmap",
    "fetch",
    "signatures",
];

/// What `connect` can leave out.
pub const WITHOUT: [&str; 4] = connect::PARTS;

/// How to run a benchmark, and where its result goes besides the table.
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
    /// The command line that asked for the benchmark, for the report.
    pub command: String,
    /// The `blockmill-bench` command, for benchmarks whose runs are processes of their own.
    pub executable: Option<PathBuf>,
    /// The `blockmill` command, whose processes `cache` watches.
    pub blockmill: Option<PathBuf>,
    /// Bitcoin Core's daemon, for further rows of `connect`.
    pub bitcoind: Option<PathBuf>,
    /// The part that this process was started for. Each run of `coinmap` and `connect` is a process
    /// of its own, called as `blockmill-bench NAME --part PART`. The outcome is printed instead of
    /// a table.
    pub part: Option<String>,
}

/// Runs the benchmark `name`: prints its table to `out`, says a line per run to `progress`, and
/// writes the files asked for. The table is printed before the files are written; one that cannot
/// be made ends it before the first run.
///
/// # Errors
/// [`BenchError::UnknownName`]; [`BenchError::Mismatch`] when a run's result is not the expected one; anything else that
/// keeps a run from its end.
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
    if !NAMES.contains(&name) {
        return Err(BenchError::UnknownName { name: name.to_owned() });
    }
    // Open until the end, so that a name that cannot be written fails before the runs, and not
    // after them.
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
        _ => return Err(BenchError::UnknownName { name: name.to_owned() }),
    };
    report.write_table(out).map_err(BenchError::Output)?;
    out.flush().map_err(BenchError::Output)?;
    if let Some(path) = &options.json {
        write_file(path, &format!("{:#}\n", report.json()))?;
    }
    if let Some(path) = &options.html {
        write_file(path, &html::page(&report))?;
    }
    if let (Some(path), Some(chart)) = (&options.svg, report.charts.first()) {
        write_file(path, &svg::file(chart, &report.rows))?;
    }
    Ok(())
}

/// Opens a file that is to be written later. What it has stays until then.
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
