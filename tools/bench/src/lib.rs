//! The benchmarks of `blockmill-bench`: Blockmill's parts beside their peers.
//!
//! A benchmark makes its own input, runs all contenders on it in turns, checks each result, and
//! returns a report of rows. `blockmill_harness` has the turns, the processes and the report. In
//! reading order:
//! - `connect`: block files to a validated UTXO set, ours beside Core's, or beside an earlier
//!   `blockmill`;
//! - `cache`: the same under limits of memory that the coins outgrow;
//! - `audit`: whole chains validated in any order, beside `connect` and Core's daemon;
//! - `signatures`: signature checks verified many at once, beside libsecp256k1, and hashes;
//! - `locks`: the semaphore and the critical section, beside other locks;
//! - `queues`: the check queue and the work queue, beside other queues and pools;
//! - `coinmap`: the coin map, beside hashbrown.
//!
//! ```no_run
//! let options = blockmill_bench::Options::default();
//! let mut progress = |line: &str| eprintln!("{line}");
//! blockmill_bench::run("connect", &options, &mut std::io::stdout(), &mut progress)?;
//! # Ok::<(), blockmill_bench::Failure>(())
//! ```

mod audit;
mod cache;
mod coinmap;
mod connect;
mod locks;
mod queues;
mod signatures;

pub use blockmill_harness::Failure;

use blockmill_harness::{Progress, Report, at, chart_file, page};
use serde::Serialize;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// A benchmark.
type Bench = fn(&Options, Progress<'_>) -> Result<Report, Failure>;

/// The benchmarks, each with what it measures.
const BENCHES: [(&str, &str, Bench); 8] = [
    (
        "connect",
        "block files to a validated set, beside Core's ChainstateManager",
        connect::report,
    ),
    (
        "semaphore",
        "the semaphore and the critical section, beside other locks",
        locks::report,
    ),
    ("checkqueue", "the check queue, beside other queues", queues::checks),
    ("workqueue", "the work queue, beside channels and a pool", queues::work),
    ("cache", "the coins cache under limits of memory", cache::report),
    ("coinmap", "the coin map, beside hashbrown", coinmap::report),
    (
        "signatures",
        "signatures in lanes, beside libsecp256k1",
        signatures::report,
    ),
    (
        "audit",
        "whole chains validated in any order, beside bitcoind",
        audit::report,
    ),
];

/// The names of the benchmarks, each with what it measures.
pub fn names() -> impl Iterator<Item = (&'static str, &'static str)> {
    BENCHES.into_iter().map(|(name, about, _)| (name, about))
}

/// How much a benchmark does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Size {
    /// Everything once and as little as possible: a test.
    Tiny,
    /// Well under a minute on 2 cores.
    Quick,
    /// The figures of the documents.
    #[default]
    Full,
}

impl Size {
    /// The value for this size.
    pub(crate) fn of<T>(self, tiny: T, quick: T, full: T) -> T {
        match self {
            Self::Tiny => tiny,
            Self::Quick => quick,
            Self::Full => full,
        }
    }
}

/// The options of a benchmark.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// How much is done.
    pub size: Size,
    /// Whether the table and the page say which claims are met; JSON always does.
    pub targets: bool,
    /// The file to which the report is written as JSON.
    pub json: Option<PathBuf>,
    /// The file to which the report is written as a page.
    pub html: Option<PathBuf>,
    /// The file to which the report's first chart is written as SVG.
    pub svg: Option<PathBuf>,
    /// The command line that asked for the benchmark, for the report.
    pub command: String,
    /// The `blockmill-bench` command, for runs in processes of their own.
    pub executable: Option<PathBuf>,
    /// The `blockmill` command, which `connect`, `cache` and `audit` run.
    pub blockmill: Option<PathBuf>,
    /// An earlier `blockmill` command, beside which `connect` runs the present one.
    pub before: Option<PathBuf>,
    /// Bitcoin Core's daemon, for further rows of `connect` and `audit`.
    pub bitcoind: Option<PathBuf>,
    /// Whether `connect` adds its big chain.
    pub big: bool,
    /// The part that this process runs, in place of a whole benchmark.
    pub part: Option<String>,
}

impl Options {
    /// The `blockmill` command.
    pub(crate) fn blockmill(&self) -> Result<&Path, Failure> {
        let there = self.blockmill.as_deref().filter(|path| path.is_file());
        there.ok_or_else(|| "this benchmark runs the blockmill command, which must be beside this one".into())
    }

    /// The command that runs a part of a benchmark.
    pub(crate) fn part(&self, name: &str, part: &impl Serialize) -> Result<Command, Failure> {
        let executable = self.executable.as_ref().ok_or("this benchmark runs its own command")?;
        let mut command = Command::new(executable);
        // JSON cannot carry a path that is not UTF-8.
        command.args([name, "--part", &serde_json::to_string(part)?]);
        Ok(command)
    }
}

/// Runs the benchmark `name`: prints its table to `out`, gives `progress` a line for each step, and
/// then writes the files of the options. All files are opened before the first run.
///
/// # Errors
/// If a result is not the expected one, or a run or a file fails.
pub fn run(name: &str, options: &Options, out: &mut dyn Write, progress: Progress<'_>) -> Result<(), Failure> {
    match (&options.part, name) {
        (Some(part), "coinmap") => return coinmap::run_part(part, out),
        (Some(part), _) => return connect::run_part(part, out),
        _ => {}
    }
    let bench = BENCHES.iter().find(|bench| bench.0 == name);
    let (_, _, report) = bench.ok_or_else(|| format!("there is no benchmark '{name}'"))?;
    for path in [&options.json, &options.html, &options.svg].into_iter().flatten() {
        open(path).map_err(at(path))?;
    }
    let report = report(options, progress)?;
    report.write_table(out, options.targets)?;
    out.flush()?;
    let write = |path: &Option<PathBuf>, text: &dyn Fn() -> String| match path {
        Some(path) => std::fs::write(path, text()).map_err(at(path)),
        None => Ok(()),
    };
    write(&options.json, &|| format!("{:#}\n", report.json()))?;
    write(&options.html, &|| page(&report, options.targets))?;
    let chart = report.axes.and_then(|axes| chart_file(axes, &report.rows));
    write(&options.svg, &|| chart.clone().unwrap_or_default())
}

/// Opens a file for writing later. Its content stays until then.
fn open(path: &Path) -> std::io::Result<File> {
    File::options().write(true).create(true).truncate(false).open(path)
}

/// A directory for the files of a run.
pub(crate) fn temporary_directory() -> Result<TempDir, Failure> {
    tempfile::tempdir().map_err(at(std::env::temp_dir()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_file_has_stays_until_there_is_a_report() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("report.json");
        std::fs::write(&path, "before").unwrap();
        drop(open(&path).unwrap());
        assert_eq!(std::fs::read(&path).unwrap(), b"before");
    }
}
