//! A chain in files, and the command `blockmill` over it.

use super::bitcoind::Daemon;
use crate::options::temporary_directory;
use blockmill_chaingen::{ChainSpec, Summary, write_chain};
use blockmill_harness::{Failure, Finished, Run, finish, same};
use serde_json::Value;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// Values of `--signatures`: all by libsecp256k1, or many at once. Earlier commands, which
/// `--before` runs, know the first by this name alone.
pub(crate) const ONE_BY_ONE: &str = "one-by-one";
pub(crate) const IN_LANES: &str = "lanes";

/// The stages of the pipeline.
pub(crate) const STAGES: [&str; 7] = ["read", "decode", "fetch", "resolve", "check", "commit", "flush"];

/// Block files, and the daemon that has indexed them.
pub(crate) struct Site {
    directory: TempDir,
    pub(crate) summary: Summary,
    pub(crate) daemon: Option<Daemon>,
}

/// How `blockmill` connects.
#[derive(Debug, Clone)]
pub(crate) struct Connect<'a> {
    pub(crate) program: PathBuf,
    pub(crate) threads: usize,
    pub(crate) cache_mib: u32,
    pub(crate) signatures: &'a str,
    /// The block up to which scripts are assumed to be valid.
    pub(crate) assumed: Option<&'a str>,
}

/// Runs a command that prints JSON in its last line.
pub(crate) fn call(program: &Path, words: &[&OsStr]) -> Result<(Finished, Value), Failure> {
    let name = words.first().map_or("", |word| word.to_str().unwrap_or(""));
    // Progress goes to standard error, which nobody reads here.
    let mut finished = finish(Command::new(program).args(words).stderr(Stdio::null()), name)?;
    let report: Value = finished.json(finished.lines.len().saturating_sub(1))?;
    // The command's own figure ends a little earlier, and is finer than the system's hundredths.
    let own = report["cpu_seconds"].as_f64().unwrap_or(0.0);
    finished.run.cpu_seconds = finished.run.cpu_seconds.max(own);
    Ok((finished, report))
}

impl Connect<'_> {
    /// Connects the blocks into a data directory.
    pub(crate) fn run(&self, blocks: &Path, data: &Path) -> Result<(Finished, Value), Failure> {
        let (threads, cache_mib) = (self.threads.to_string(), self.cache_mib.to_string());
        let mut words: Vec<&OsStr> = vec!["connect".as_ref(), "--blocks".as_ref(), blocks.as_ref()];
        words.extend(["--data".as_ref(), data.as_os_str()]);
        words.extend(
            [
                "--json",
                "--network",
                "regtest",
                "--par",
                &threads,
                "--dbcache",
                &cache_mib,
            ]
            .map(OsStr::new),
        );
        words.extend(["--signatures", self.signatures].map(OsStr::new));
        words.extend(
            self.assumed
                .iter()
                .flat_map(|hash| ["--assume-valid", hash])
                .map(OsStr::new),
        );
        call(&self.program, &words)
    }

    /// Tip and hash of the set in a data directory.
    pub(crate) fn stored(&self, data: &Path) -> Result<[Value; 2], Failure> {
        let words: [&OsStr; 4] = ["stats".as_ref(), "--json".as_ref(), "--data".as_ref(), data.as_ref()];
        let (_, mut stats) = call(&self.program, &words)?;
        Ok([stats["bestblock"].take(), stats["hash_serialized_3"].take()])
    }
}

/// The figures of a report of `connect`.
pub(super) fn figures(finished: &Finished, report: &Value) -> Run {
    let number = |path: &str| report.pointer(path).and_then(Value::as_f64);
    let busy = |stage: &str| number(&format!("/stages/{stage}/busy_s")).unwrap_or(0.0);
    let all: f64 = STAGES.into_iter().map(busy).sum();
    let inputs = number("/inputs").unwrap_or(0.0);
    let mut run = Run {
        count: inputs as u64,
        ..finished.run.clone()
    };
    for stage in STAGES {
        run = run.with(&format!("{stage}_percent"), 100.0 * busy(stage) / all);
    }
    let hits = number("/cache/hits").zip(number("/cache/misses"));
    run.with("resolve_us_per_input", busy("resolve") * 1e6 / inputs)
        .with("windows_rolled_back", number("/windows_rolled_back"))
        .with("hit_rate", hits.map(|(hits, misses)| hits / (hits + misses).max(1.0)))
        .with("flushes", number("/flushes"))
        .with("waits", number("/flush/waits"))
        .with(
            "pause_max_ms",
            number("/flush/pause_max_s").map(|seconds| seconds * 1e3),
        )
        .with("written_mib", finished.written_mib)
        .with("anonymous_mib", finished.anonymous_mib)
}

impl Site {
    /// Makes a chain. The daemon, if there is one, indexes it.
    pub(crate) fn make(spec: &ChainSpec, bitcoind: Option<&Path>) -> Result<Self, Failure> {
        let directory = temporary_directory()?;
        let blocks = directory.path().join("blocks");
        let summary = write_chain(&blocks, spec, &mut |_| ())?;
        let daemon = bitcoind
            .map(|program| Daemon::prepare(program, &blocks, &summary))
            .transpose()?;
        Ok(Self {
            directory,
            summary,
            daemon,
        })
    }

    /// The folder with the block files.
    pub(crate) fn blocks(&self) -> PathBuf {
        self.directory.path().join("blocks")
    }

    /// A file or folder beside the block files.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Connects the chain once into a fresh directory, and checks the result.
    pub(crate) fn connect(&self, how: &Connect<'_>) -> Result<Run, Failure> {
        let data = temporary_directory()?;
        let (finished, report) = how.run(&self.blocks(), data.path())?;
        self.check("connect", &report["tip"], how, data.path())?;
        Ok(figures(&finished, &report))
    }

    /// Checks the tip that a run reports, and the set that it has left.
    pub(crate) fn check(&self, run: &str, tip: &Value, how: &Connect<'_>, data: &Path) -> Result<(), Failure> {
        let Summary {
            tip: wanted,
            hash_serialized_3,
            ..
        } = &self.summary;
        same(run, "tip", tip, wanted.as_str())?;
        // Read back by a process of its own: what is on disk counts, not what the run believes.
        let [tip, hash] = how.stored(data)?;
        same(run, "stored tip", &tip, wanted.as_str())?;
        same(run, "hash_serialized_3", &hash, hash_serialized_3.as_str())
    }

    /// Rebuilds the daemon's chainstate, and checks the tip.
    pub(crate) fn reindex(&self, threads: usize, cache_mib: u32, assumed: Option<&str>) -> Result<Run, Failure> {
        let daemon = self.daemon.as_ref().ok_or("there is no daemon")?;
        let (run, tip) = daemon.connect(threads, cache_mib, assumed)?;
        same("bitcoind", "tip", &tip, &self.summary.tip)?;
        Ok(Run {
            count: self.summary.inputs,
            ..run
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn figures_of_a_report() {
        let stages = json!({"read": {"busy_s": 0.25}, "resolve": {"busy_s": 0.75}});
        let report = json!({"inputs": 1000, "stages": stages, "windows_rolled_back": 2});
        let finished = Finished {
            anonymous_mib: 5.0,
            ..Finished::default()
        };
        let run = figures(&finished, &report);
        assert_eq!(
            (run.count, run.figures["read_percent"], run.figures["flush_percent"]),
            (1000, 25.0, 0.0)
        );
        assert_eq!(
            (run.figures["resolve_us_per_input"], run.figures["windows_rolled_back"]),
            (750.0, 2.0)
        );
    }
}
