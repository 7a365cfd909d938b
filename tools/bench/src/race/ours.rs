//! The command `blockmill` as a contender.

use super::chain::Chain;
use super::runs::{Say, Watched};
use super::setup::Setup;
use super::verdict::Set;
use super::{BLOCKS, STAGES};
use crate::connect::STAGES as STAGE_NAMES;
use blockmill_harness::{Failure, Finished, Row, Run, at};
use serde_json::Value;
use std::cell::RefCell;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// `connect` and `audit` over the blocks of a race.
pub(super) struct Ours<'a, 'p> {
    pub(super) program: &'a Path,
    /// The folder that is read.
    pub(super) blocks: PathBuf,
    pub(super) setup: &'a Setup,
    pub(super) chain: &'a Chain,
    pub(super) work: &'a Path,
    pub(super) say: &'a Say<'p>,
    /// What the fastest run of `connect` reports.
    pub(super) connected: RefCell<Value>,
}

impl Ours<'_, '_> {
    fn data(&self) -> PathBuf {
        self.work.join("set")
    }

    /// Runs a call that prints JSON in its last line.
    fn call(&self, name: &str, words: &[&OsStr]) -> Result<(Finished, Value), Failure> {
        let errors = self.work.join("blockmill.log");
        let watched = Watched {
            name,
            errors: &errors,
            log: &errors,
            say: self.say,
        };
        let mut finished = watched.run(Command::new(self.program).args(words).arg("--json"))?;
        let report: Value = finished.json(finished.lines.len().saturating_sub(1))?;
        // Where the system says nothing of CPU time, the command does.
        let own = report["cpu_seconds"].as_f64().unwrap_or(0.0);
        finished.run.cpu_seconds = finished.run.cpu_seconds.max(own);
        Ok((finished, report))
    }

    fn figures(finished: &Finished, report: &Value) -> Run {
        let known = |mib: f64| Some(mib).filter(|&mib| mib > 0.0);
        let run = Run {
            count: report["inputs"].as_u64().unwrap_or(0),
            ..finished.run.clone()
        };
        run.with("anonymous_mib", known(finished.anonymous_mib))
            .with("written_mib", known(finished.written_mib))
    }

    /// Connects the blocks into a new data directory.
    pub(super) fn connect(&self) -> Result<Run, Failure> {
        let data = self.data();
        match std::fs::remove_dir_all(&data) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(at(&data)(error)),
            _ => {}
        }
        let (to, cache_mib) = (self.chain.height.to_string(), self.setup.cache_mib.to_string());
        let mut words = vec![OsStr::new("connect"), "--blocks".as_ref(), self.blocks.as_ref()];
        words.extend(["--data".as_ref(), data.as_os_str()]);
        let network = self.setup.network.name();
        words.extend(["--network", network, "--stop-at-height", &to, "--dbcache", &cache_mib].map(OsStr::new));
        let (finished, report) = self.call("connect", &words)?;
        if report["tip"] != self.chain.tip.as_str() {
            return Err(format!("ended at height {}, not at the last block", report["height"]).into());
        }
        let run = Self::figures(&finished, &report);
        let seconds = |report: &Value| report["seconds"].as_f64();
        let mut fastest = self.connected.borrow_mut();
        if seconds(&fastest).is_none_or(|known| seconds(&report) < Some(known)) {
            *fastest = report;
        }
        Ok(run)
    }

    /// Proves the set that `connect` has left.
    pub(super) fn audit(&self) -> Result<Run, Failure> {
        let data = self.data();
        if !data.is_dir() {
            return Err("there is no set: connect has failed".into());
        }
        let (finished, report) = self.call("audit", &["audit".as_ref(), "--data".as_ref(), data.as_ref()])?;
        let verdict = report["verdict"].as_str().unwrap_or("none");
        if verdict != "proved" || report["height"] != self.chain.height {
            return Err(format!("verdict {verdict} at height {}", report["height"]).into());
        }
        Ok(Self::figures(&finished, &report))
    }

    /// The set that `connect` has left, read by a process of its own.
    pub(super) fn set(&self) -> Result<Set, Failure> {
        let data = self.data();
        let words = [
            "stats".as_ref(),
            "--hash".as_ref(),
            "serialized".as_ref(),
            "--data".as_ref(),
            data.as_os_str(),
        ];
        Set::of(&self.call("stats", &words)?.1)
    }

    /// The chain and the stages, as the fastest run of `connect` reports them. Stages have the time
    /// in which threads worked. The CPU time of the run is shared out alike: threads that wait for
    /// a core or the disk work in that time, and take no CPU time.
    pub(super) fn rows(&self) -> Vec<Row> {
        let report = self.connected.borrow();
        if report.is_null() {
            return Vec::new();
        }
        let mut blocks = Row::new(BLOCKS).with("network", self.setup.network.name());
        for name in ["height", "blocks", "transactions", "inputs", "bytes"] {
            blocks.set(name, report[name].clone());
        }
        blocks.set("store_lookups", report["fetch"]["keys"].clone());
        blocks.set("store_changes", report["flush"]["changes"].clone());
        let busy = |stage: &str| report["stages"][stage]["busy_s"].as_f64().unwrap_or(0.0);
        let all: f64 = STAGE_NAMES.into_iter().map(busy).sum();
        let cpu = report["cpu_seconds"].as_f64().unwrap_or(0.0);
        let stages = STAGE_NAMES.iter().map(|&stage| {
            let row = Row::new(STAGES).with("stage", stage).with("busy_s", busy(stage));
            row.with("wait_s", report["stages"][stage]["wait_s"].clone())
                .with("cpu_s", cpu * busy(stage) / all)
        });
        stages.chain([blocks]).collect()
    }
}
