//! The benchmarks of `blockmill-bench`: Blockmill's parts beside their peers.
//!
//! A benchmark makes its own input, runs all contenders on it in turns, checks each result, and
//! returns a report of rows. `race` alone takes its input from the user. `blockmill_harness` has
//! the turns, the processes and the report. In reading order:
//! - `options`: how much is done, and with which commands;
//! - `connect`: block files to a validated UTXO set, ours beside Core's, or beside an earlier
//!   `blockmill`; also with less memory than the coins take;
//! - `audit`: whole chains validated in any order, beside `connect` and Core's daemon;
//! - `tables`: the flat tables of `export`, beside the indexes of Core's daemon;
//! - `race`: `connect`, `audit` and the daemon over somebody's own block files;
//! - `node`: the daemon in a data directory of ours;
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
mod coinmap;
mod connect;
mod locks;
mod node;
mod options;
mod queues;
mod race;
mod signatures;
mod tables;

pub use blockmill_harness::{Failure, Wrong};
pub use options::{Options, Usage};

use blockmill_harness::{Progress, Report, at, chart_file, page};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

/// A benchmark.
type Bench = fn(&Options, Progress<'_>) -> Result<Report, Failure>;

/// The benchmarks, each with what it measures.
const BENCHES: [(&str, &str, Bench); 9] = [
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
    (
        tables::NAME,
        "flat tables of blocks, beside bitcoind's indexes where it is given",
        tables::report,
    ),
    (
        race::NAME,
        "your own block files: connect, audit, and bitcoind where it is given",
        race::report,
    ),
];

/// The names of the benchmarks, each with what it measures.
pub fn names() -> impl Iterator<Item = (&'static str, &'static str)> {
    BENCHES.into_iter().map(|(name, about, _)| (name, about))
}

/// Runs the benchmark `name`: prints its table to `out`, gives `progress` a line for each step, and
/// then writes the files of the options. All files are opened before the first run.
///
/// # Errors
/// [`Usage`] if options are missing; [`Wrong`] if the report is whole and says that something is
/// wrong; else if a result is not the expected one, or a run or a file fails.
pub fn run(name: &str, options: &Options, out: &mut dyn Write, progress: Progress<'_>) -> Result<(), Failure> {
    // The benchmark has started this process for one of its runs.
    match (&options.part, name) {
        (Some(part), "coinmap") => return coinmap::run_part(part, out),
        (Some(part), _) => return connect::run_part(part, out),
        _ => {}
    }
    let bench = BENCHES.iter().find(|bench| bench.0 == name);
    let (_, _, report) = bench.ok_or_else(|| format!("there is no benchmark '{name}'"))?;
    let named = (name == race::NAME).then(|| race::with_files(options)).transpose()?;
    let options = named.as_ref().unwrap_or(options);
    // Opened before the runs, so that a path that cannot be written fails at once.
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
    write(&options.svg, &|| chart.clone().unwrap_or_default())?;
    match report.wrong {
        Some(wrong) => Err(wrong.into()),
        None => Ok(()),
    }
}

/// Opens a file for writing later. Its content stays until then.
fn open(path: &Path) -> std::io::Result<File> {
    File::options().write(true).create(true).truncate(false).open(path)
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
