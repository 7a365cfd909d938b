//! How much a benchmark does, and with which commands.

use blockmill_harness::{Failure, at};
use clap::Args;
use serde::Serialize;
use std::path::PathBuf;
use std::process::Command;
use tempfile::TempDir;

/// The options of a benchmark.
#[derive(Debug, Clone, Default, Args)]
pub struct Options {
    /// Run a short form, well under a minute
    #[arg(long)]
    pub quick: bool,
    /// Run everything once, as a test does
    #[arg(long, hide = true)]
    pub tiny: bool,
    /// Say which targets are met
    #[arg(long)]
    pub targets: bool,
    /// Write the rows as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write a page with tables and curves
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Write the first chart as SVG
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// For connect: run an earlier blockmill command in turns with this one, and no other peer
    #[arg(long, value_name = "PATH")]
    pub before: Option<PathBuf>,
    /// For connect and audit: add rows of Bitcoin Core's daemon over the same files
    #[arg(long, value_name = "PATH")]
    pub bitcoind: Option<PathBuf>,
    /// For connect: add a chain of 6 million inputs and 23 million coins; its runs take minutes
    #[arg(long)]
    pub big: bool,
    /// The part of a benchmark that runs in this process; the benchmark passes this option
    #[arg(long, hide = true)]
    pub part: Option<String>,
}

impl Options {
    /// The value for this size: of a test, of a short form, of the figures in the documents.
    pub(crate) fn size<T>(&self, tiny: T, quick: T, full: T) -> T {
        match (self.tiny, self.quick) {
            (true, _) => tiny,
            (_, true) => quick,
            _ => full,
        }
    }

    /// The command `blockmill` in the folder of this one.
    pub(crate) fn blockmill(&self) -> Result<PathBuf, Failure> {
        let own = std::env::current_exe()?;
        let beside = own.with_file_name(format!("blockmill{}", std::env::consts::EXE_SUFFIX));
        if beside.is_file() {
            return Ok(beside);
        }
        Err("this benchmark runs the blockmill command, which must be beside this one".into())
    }

    /// The command that runs a part of a benchmark.
    pub(crate) fn part(&self, name: &str, part: &impl Serialize) -> Result<Command, Failure> {
        let mut command = Command::new(std::env::current_exe()?);
        // JSON cannot carry a path that is not UTF-8.
        command.args([name, "--part", &serde_json::to_string(part)?]);
        Ok(command)
    }

    /// The command line, for the report.
    pub(crate) fn command(&self) -> String {
        let words: Vec<_> = std::env::args_os().collect();
        words.join(" ".as_ref()).to_string_lossy().into_owned()
    }
}

/// A directory for the files of a run.
pub(crate) fn temporary_directory() -> Result<TempDir, Failure> {
    tempfile::tempdir().map_err(at(std::env::temp_dir()))
}
