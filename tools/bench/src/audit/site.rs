//! A chain in files as Bitcoin Core has them, and the commands that are run over it.

use crate::connect::{CACHE_MIB, Daemon, temporary_directory};
use crate::error::BenchError;
use crate::process_stats::watch;
use blockmill_chaingen::{ChainSpec, Summary, write_chain};
use serde_json::Value;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;
use tempfile::TempDir;

/// Time and memory of a process.
pub(super) struct Outcome {
    pub(super) seconds: f64,
    pub(super) cpu_seconds: f64,
    pub(super) memory_mib: f64,
}

/// Block files with undo files, and a snapshot.
pub(super) struct Site<'a> {
    executable: &'a Path,
    home: TempDir,
    pub(super) summary: Summary,
    daemon: Option<Daemon>,
}

impl<'a> Site<'a> {
    /// Makes a chain. Its undo data is that of `connect`, or of the daemon.
    pub(super) fn make(executable: &'a Path, spec: &ChainSpec, bitcoind: Option<&Path>) -> Result<Self, BenchError> {
        let home = temporary_directory()?;
        let generated = home.path().join("generated");
        let summary = write_chain(&generated, spec, &mut |_| ())?;
        let mut site = Self {
            executable,
            home,
            summary,
            daemon: None,
        };
        let data = site.path("data");
        let connect = ["connect", "--json", "--network", "regtest", "--blocks"];
        site.run(&connect, &[&generated, Path::new("--data"), &data])?;
        let dump = ["snapshot", "dump", "--json", "--data"];
        site.run(&dump, &[&data, &site.snapshot()])?;
        if let Some(bitcoind) = bitcoind {
            site.daemon = Some(Daemon::prepare(bitcoind, &generated, &site.summary)?);
        } else {
            site.write_core_folder(&generated, &data)?;
        }
        Ok(site)
    }

    /// One block file with all blocks, and the undo data as its undo file: they have Core's form.
    fn write_core_folder(&self, generated: &Path, data: &Path) -> Result<(), BenchError> {
        let folder = self.path("core");
        std::fs::create_dir(&folder).map_err(BenchError::file(&folder))?;
        let path = folder.join("blk00000.dat");
        let mut blocks = File::create(&path).map_err(BenchError::file(&path))?;
        for name in &self.summary.files {
            let path = generated.join(name);
            let copied = File::open(&path).and_then(|mut file| std::io::copy(&mut file, &mut blocks));
            copied.map_err(BenchError::file(&path))?;
        }
        let undo = data.join("undo.dat");
        std::fs::copy(&undo, folder.join("rev00000.dat")).map_err(BenchError::file(&undo))?;
        Ok(())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// The folder with the block files.
    pub(super) fn blocks(&self) -> PathBuf {
        self.daemon.as_ref().map_or_else(|| self.path("core"), Daemon::blocks)
    }

    pub(super) fn snapshot(&self) -> PathBuf {
        self.path("set")
    }

    pub(super) fn has_daemon(&self) -> bool {
        self.daemon.is_some()
    }

    pub(super) fn audit(&self, threads: usize, signatures: &str) -> Result<Outcome, BenchError> {
        let arguments = ["audit", "--json", "--network", "regtest", "--signatures", signatures];
        let (blocks, snapshot) = (self.blocks(), self.snapshot());
        let paths = [Path::new("--blocks"), &blocks, Path::new("--snapshot"), &snapshot];
        let (outcome, report) = self.run_on(threads, &arguments, &paths)?;
        self.check("verdict", &report["verdict"], "proved")?;
        self.check("inputs", &report["inputs"], self.summary.inputs)?;
        self.check("coins", &report["coins"], self.summary.coins)?;
        Ok(outcome)
    }

    pub(super) fn connect(&self, threads: usize, signatures: &str) -> Result<Outcome, BenchError> {
        let data = temporary_directory()?;
        let arguments = ["connect", "--json", "--network", "regtest", "--signatures", signatures];
        let blocks = self.blocks();
        let paths = [Path::new("--blocks"), &blocks, Path::new("--data"), data.path()];
        let (outcome, report) = self.run_on(threads, &arguments, &paths)?;
        self.check("tip", &report["tip"], self.summary.tip.as_str())?;
        Ok(outcome)
    }

    /// Rebuilds the daemon's chainstate.
    pub(super) fn reindex(&self, threads: usize) -> Result<Outcome, BenchError> {
        let daemon = self.daemon.as_ref().ok_or_else(|| BenchError::Process {
            run: "bitcoind".to_owned(),
            detail: "there is no daemon".to_owned(),
        })?;
        let run = daemon.connect(threads, CACHE_MIB, None)?;
        self.check("tip", &run.tip.into(), self.summary.tip.as_str())?;
        Ok(Outcome {
            seconds: run.elapsed.seconds,
            cpu_seconds: run.elapsed.cpu_seconds,
            memory_mib: run.anonymous_bytes.unwrap_or(0) as f64 / f64::from(1 << 20),
        })
    }

    fn run_on(&self, threads: usize, arguments: &[&str], paths: &[&Path]) -> Result<(Outcome, Value), BenchError> {
        let par = threads.to_string();
        let arguments: Vec<&str> = arguments.iter().copied().chain(["--par", &par]).collect();
        self.run(&arguments, paths)
    }

    fn check(&self, what: &'static str, found: &Value, wanted: impl Into<Value>) -> Result<(), BenchError> {
        let wanted = wanted.into();
        if *found == wanted {
            return Ok(());
        }
        Err(BenchError::Mismatch {
            run: self.summary.profile.clone(),
            what,
            found: found.to_string(),
            wanted: wanted.to_string(),
        })
    }

    /// Runs the command, which prints JSON.
    fn run(&self, arguments: &[&str], paths: &[&Path]) -> Result<(Outcome, Value), BenchError> {
        let start = Instant::now();
        let mut child = Command::new(self.executable)
            .args(arguments)
            .args(paths)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(BenchError::file(self.executable))?;
        let (text, stats) = watch(&mut child);
        let status = child.wait().map_err(BenchError::file(self.executable))?;
        let seconds = start.elapsed().as_secs_f64();
        let report = serde_json::from_str(text.lines().last().unwrap_or("")).map_err(|error| BenchError::Process {
            run: arguments.join(" "),
            detail: format!("{status}: {error}"),
        })?;
        let outcome = Outcome {
            seconds,
            cpu_seconds: stats.cpu_seconds,
            memory_mib: stats.anonymous_bytes as f64 / f64::from(1 << 20),
        };
        Ok((outcome, report))
    }
}
