//! How much a benchmark does, and with which commands.

use blockmill_block::Network;
use blockmill_harness::{Failure, at};
use clap::Args;
use serde::Serialize;
use std::error::Error;
use std::fmt::{self, Display};
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
    /// For connect, audit, tables and race: add rows of Bitcoin Core's daemon over the same blocks
    #[arg(long, value_name = "PATH")]
    pub bitcoind: Option<PathBuf>,
    /// For connect: add a chain of 6 million inputs and 23 million coins; its runs take minutes
    #[arg(long)]
    pub big: bool,
    /// For race: the folder with the block files of a node; nothing is written there
    #[arg(long, value_name = "DIR")]
    pub blocks: Option<PathBuf>,
    /// For race: the network of the blocks [default: bitcoin]
    #[arg(long, value_name = "NAME")]
    pub network: Option<Network>,
    /// For race: the last height [default: that of the best chain in the files]
    #[arg(long, value_name = "HEIGHT")]
    pub to: Option<u32>,
    /// For race: the folder for the results, and meanwhile for all that is made on the way
    /// [default: blockmill-race]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// For race: memory for coins in MiB, of each contender [default: 450]
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u32).range(1..))]
    pub dbcache: Option<u32>,
    /// For race: runs of each contender, in turns [default: 1]
    #[arg(long, value_name = "N", value_parser = runs)]
    pub runs: Option<usize>,
    /// The part of a benchmark that runs in this process; the benchmark passes this option
    #[arg(long, hide = true)]
    pub part: Option<String>,
}

/// A number of runs.
fn runs(text: &str) -> Result<usize, String> {
    let runs = text.parse().ok().filter(|&runs| runs > 0);
    runs.ok_or_else(|| "a number above 0 is expected".to_owned())
}

/// Options that no benchmark can run with.
#[derive(Debug)]
pub struct Usage(pub(crate) String);

impl Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for Usage {}

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
