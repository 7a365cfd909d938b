//! One run, in a process of its own or in this one, and its outcome.

use super::bitcoind::Daemon;
use super::contender::{Contender, Stored, connect_observed, left_out, options, stored_by_ours};
use super::figures::Figures;
use super::plan::{PlannedSeries, Table};
use super::temporary_directory;
use super::utilisation::{Traced, Utilisation};
use crate::clock::Elapsed;
use crate::error::BenchError;
use crate::kernel;
use crate::process_stats::watch;
use blockmill_block::BlockHash;
use blockmill_chaingen::Summary;
use blockmill_engine::Options;
use blockmill_engine::report::FiguresObserver;
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A run to do, as the subprocess gets it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Part {
    /// Name of the contender.
    contender: String,
    blocks: PathBuf,
    threads: usize,
    /// Memory for coins.
    cache_mib: u32,
    /// The block up to which scripts are assumed to be valid.
    assumed: Option<String>,
    /// Whether our engine records a trace.
    traced: bool,
}

/// The outcome of a run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Run {
    pub(crate) elapsed: Elapsed,
    /// Peak of the subprocess's anonymous memory while the clock ran. None in this process.
    pub(crate) anonymous_bytes: Option<u64>,
    /// From a run of ours with a trace.
    pub(crate) traced: Option<Traced>,
    /// From a run of ours.
    pub(crate) figures: Option<Figures>,
    pub(crate) tip: String,
}

/// The subprocess's first line, printed when the clock has stopped.
#[derive(Debug, Serialize, Deserialize)]
struct Timed {
    seconds: f64,
    cpu_seconds: f64,
    traced: Option<Traced>,
    figures: Option<Figures>,
}

/// The subprocess's second line.
#[derive(Debug, Serialize, Deserialize)]
struct Left {
    tip: String,
    hash_serialized_3: Option<String>,
}

impl Part {
    /// A run of a series of `table` over the chain in `blocks`.
    pub(super) fn new(table: &Table, series: PlannedSeries, blocks: &Path, expected: &Summary) -> Self {
        Self {
            contender: series.contender.name().to_owned(),
            blocks: blocks.to_owned(),
            threads: series.threads,
            cache_mib: table.cache_mib,
            assumed: series.contender.assumes().then(|| expected.tip.clone()),
            traced: false,
        }
    }

    pub(super) fn traced(self) -> Self {
        Self { traced: true, ..self }
    }

    fn contender(&self) -> Result<Contender, BenchError> {
        Contender::named(&self.contender).ok_or_else(|| self.failed("there is no such contender".to_owned()))
    }

    fn failed(&self, detail: String) -> BenchError {
        BenchError::Process {
            run: format!("{} with {} threads", self.contender, self.threads),
            detail,
        }
    }

    /// Connects in this process. `timed` is called as soon as the clock has stopped.
    fn run(&self, timed: &mut dyn FnMut(Timed) -> Result<(), BenchError>) -> Result<Left, BenchError> {
        let data = temporary_directory()?;
        let contender = self.contender()?;
        let (line, stored) = if contender.is_ours() {
            (self.connect_ours(contender, data.path())?, None)
        } else {
            let (tip, elapsed) = kernel::connect(&self.blocks, data.path(), self.threads)?;
            let stored = Stored {
                tip,
                hash_serialized_3: None,
            };
            (Timed::of(elapsed), Some(stored))
        };
        timed(line)?;
        let stored = match stored {
            Some(stored) => stored,
            None => stored_by_ours(data.path())?,
        };
        Ok(Left {
            tip: stored.tip,
            hash_serialized_3: stored.hash_serialized_3,
        })
    }

    fn connect_ours(&self, contender: Contender, data: &Path) -> Result<Timed, BenchError> {
        let assume_valid = match &self.assumed {
            Some(hash) => Some(hash.parse::<BlockHash>().map_err(|_| self.failed(hash.clone()))?),
            None => None,
        };
        let options = Options {
            assume_valid,
            signatures: contender.signatures(),
            trace: self.traced,
            ..options(self.threads, self.cache_mib)
        };
        let mut utilisation = Utilisation::default();
        let spans: &mut dyn FiguresObserver = if self.traced { &mut utilisation } else { &mut () };
        let (elapsed, report) = connect_observed(&self.blocks, data, options, left_out(contender), spans)?;
        Ok(Timed {
            traced: utilisation.traced(self.threads),
            figures: Some(Figures::of(&report)),
            ..Timed::of(elapsed)
        })
    }
}

impl Timed {
    /// A time without figures.
    fn of(elapsed: Elapsed) -> Self {
        Self {
            seconds: elapsed.seconds,
            cpu_seconds: elapsed.cpu_seconds,
            traced: None,
            figures: None,
        }
    }
}

/// Does the run that `part` describes in JSON, in this process. Prints one line when the clock has
/// stopped, and one at the end.
///
/// # Errors
/// Any [`BenchError`] but those about names.
pub(crate) fn run_part(part: &str, out: &mut dyn Write) -> Result<(), BenchError> {
    let part: Part = serde_json::from_str(part).map_err(|error| BenchError::Process {
        run: part.to_owned(),
        detail: error.to_string(),
    })?;
    let mut print = |value: serde_json::Value| {
        writeln!(out, "{value}")
            .and_then(|()| out.flush())
            .map_err(BenchError::Output)
    };
    let left = part.run(&mut |timed| print(serde_json::json!(timed)))?;
    print(serde_json::json!(left))
}

/// Runs the parts of one chain.
pub(super) struct Runner<'a> {
    /// This command, for runs in processes of their own.
    pub(super) executable: Option<&'a Path>,
    pub(super) daemon: Option<&'a Daemon>,
    pub(super) expected: &'a Summary,
}

impl Runner<'_> {
    /// Connects the chain once, and checks the result.
    pub(super) fn run(&self, part: &Part) -> Result<Run, BenchError> {
        let contender = part.contender()?;
        let (timed, left, anonymous_bytes) = match (contender, self.executable) {
            (Contender::Bitcoind | Contender::BitcoindAssuming, _) => {
                let daemon = self
                    .daemon
                    .ok_or_else(|| part.failed("there is no bitcoind".to_owned()))?;
                let run = daemon.connect(part.threads, part.cache_mib, part.assumed.as_deref())?;
                self.check(part, &run.tip, None)?;
                return Ok(run);
            }
            (_, Some(executable)) => in_own_process(executable, part)?,
            (_, None) => {
                let mut kept = None;
                let left = part.run(&mut |timed| {
                    kept = Some(timed);
                    Ok(())
                })?;
                let timed = kept.ok_or_else(|| part.failed("the run was not timed".to_owned()))?;
                (timed, left, None)
            }
        };
        self.check(part, &left.tip, left.hash_serialized_3.as_deref())?;
        Ok(Run {
            elapsed: Elapsed {
                seconds: timed.seconds,
                cpu_seconds: timed.cpu_seconds,
            },
            anonymous_bytes,
            traced: timed.traced,
            figures: timed.figures,
            tip: left.tip,
        })
    }

    fn check(&self, part: &Part, tip: &str, hash_serialized_3: Option<&str>) -> Result<(), BenchError> {
        let mismatch = |what: &'static str, found: &str, wanted: &str| BenchError::Mismatch {
            run: format!("{} with {} threads", part.contender, part.threads),
            what,
            found: found.to_owned(),
            wanted: wanted.to_owned(),
        };
        if tip != self.expected.tip {
            return Err(mismatch("tip", tip, &self.expected.tip));
        }
        match hash_serialized_3 {
            Some(hash) if hash != self.expected.hash_serialized_3 => {
                Err(mismatch("hash_serialized_3", hash, &self.expected.hash_serialized_3))
            }
            _ => Ok(()),
        }
    }
}

/// Runs a part in a process of its own: another call of this command. The third value is the peak
/// of its anonymous memory in bytes.
fn in_own_process(executable: &Path, part: &Part) -> Result<(Timed, Left, Option<u64>), BenchError> {
    // JSON cannot carry a path that is not UTF-8.
    let handed = serde_json::to_string(part).map_err(|error| part.failed(error.to_string()))?;
    let mut child = Command::new(executable)
        .args(["connect", "--part"])
        .arg(handed)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .map_err(BenchError::file(executable))?;
    let (text, stats) = watch(&mut child);
    let status = child.wait().map_err(BenchError::file(executable))?;
    if !status.success() {
        return Err(part.failed(status.to_string()));
    }
    let mut lines = text.lines();
    let mut next = || lines.next().unwrap_or("");
    let unread = |error: serde_json::Error| part.failed(error.to_string());
    let timed: Timed = serde_json::from_str(next()).map_err(unread)?;
    let left: Left = serde_json::from_str(next()).map_err(unread)?;
    Ok((timed, left, Some(stats.anonymous_bytes)))
}
