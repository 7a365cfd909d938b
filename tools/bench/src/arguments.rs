//! The command line.

use crate::log::Format;
use clap::Parser;
use clap::builder::{PossibleValue, PossibleValuesParser};
use std::path::PathBuf;

/// Runs one of Blockmill's benchmarks beside its peers.
#[derive(Debug, Parser)]
#[command(name = "blockmill-bench", version, max_term_width = 80)]
pub(crate) struct Arguments {
    /// The benchmark
    #[arg(value_name = "NAME", value_parser = names())]
    pub(crate) name: String,
    /// Run a short form, well under a minute
    #[arg(long)]
    pub(crate) quick: bool,
    /// Say which targets are met
    #[arg(long)]
    pub(crate) targets: bool,
    /// Write the rows as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Write a page with tables and curves
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Write the first chart as SVG
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
    /// For connect: add rows of ours, each without a part of the pipeline
    #[arg(long, value_name = "PART", value_parser = PossibleValuesParser::new(blockmill_bench::WITHOUT))]
    pub(crate) without: Vec<String>,
    /// For connect: add rows of Bitcoin Core's daemon, which runs -reindex-chainstate on the files
    #[arg(long, value_name = "PATH")]
    pub(crate) bitcoind: Option<PathBuf>,
    /// For connect: add a chain of 6 million inputs and 23 million coins; its runs take minutes
    #[arg(long)]
    pub(crate) big: bool,
    /// How to write progress and messages
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub(crate) log: Format,
    /// The part of a benchmark that runs in this subprocess; the benchmark passes this option
    #[arg(long, hide = true)]
    pub(crate) part: Option<String>,
}

/// The names of the benchmarks, with what each measures.
fn names() -> PossibleValuesParser {
    let names = blockmill_bench::NAMES.iter();
    PossibleValuesParser::new(names.map(|(name, about)| PossibleValue::new(*name).help(*about)))
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
        assert!(parses("blockmill-bench connect --big"));
        assert!(!parses("blockmill-bench connect --without nothing"));
        assert!(!parses("blockmill-bench"));
        assert!(!parses("blockmill-bench conect"));
        let help = Arguments::command().render_long_help().to_string();
        for (name, _) in blockmill_bench::NAMES {
            assert!(help.contains(&format!("- {name}:")), "{name}: {help}");
        }
    }
}
