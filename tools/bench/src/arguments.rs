//! The command line.

use crate::log::Format;
use clap::Parser;
use clap::builder::PossibleValuesParser;
use std::path::PathBuf;

/// Runs one of Blockmill's benchmarks, ours beside its peers.
#[derive(Debug, Parser)]
#[command(name = "blockmill-bench", version)]
pub(crate) struct Arguments {
    /// Name of the benchmark
    pub(crate) name: String,
    /// Take well under a minute
    #[arg(long)]
    pub(crate) quick: bool,
    /// Write the rows as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Write a page with tables and curves
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Write the first picture of the page
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
    /// With connect: more rows of ours, each without a part of the pipeline
    #[arg(long, value_name = "PART", value_parser = PossibleValuesParser::new(blockmill_bench::WITHOUT))]
    pub(crate) without: Vec<String>,
    /// With connect: Bitcoin Core's daemon, which connects the same files with -reindex-chainstate
    #[arg(long, value_name = "PATH")]
    pub(crate) bitcoind: Option<PathBuf>,
    /// How to write progress and messages
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub(crate) log: Format,
    /// The part that a benchmark runs in a process of its own, which it starts by itself
    #[arg(long, hide = true)]
    pub(crate) part: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
        let parses = |line: &str| Arguments::try_parse_from(line.split(' ')).is_ok();
        assert!(parses("blockmill-bench connect --quick --without fetch --log json"));
        assert!(!parses("blockmill-bench connect --without nothing"));
        assert!(!parses("blockmill-bench"));
    }
}
