//! The command `blockmill-bench`: one of the benchmark tables.
//!
//! The table goes to standard output, progress and messages to standard error. Exit status: 0 done;
//! 1 the report is whole, and contenders of `race` have different results; 2 wrong usage; 3 an
//! error or a wrong result stopped the benchmark, or a contender of `race` has failed.

use blockmill_bench::{Failure, Options, Usage, Wrong};
use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Parser, ValueEnum};
use serde_json::json;
use std::io::Write;
use std::process::ExitCode;
use std::time::SystemTime;

/// The allocator of `blockmill`, so that the rows of its parts are those of the command.
#[cfg(any(target_os = "linux", target_os = "macos"))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Runs one of Blockmill's benchmarks beside its peers.
#[derive(Debug, Parser)]
#[command(name = "blockmill-bench", version, max_term_width = 80)]
struct Arguments {
    /// The benchmark
    #[arg(value_name = "NAME", value_parser = names())]
    name: String,
    #[command(flatten)]
    options: Options,
    /// How to write progress and messages
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    log: Format,
}

/// How lines on standard error are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For a person.
    Text,
    /// One object of JSON a line.
    Json,
}

/// The names of the benchmarks, with what each measures.
fn names() -> PossibleValuesParser {
    let names = blockmill_bench::names();
    PossibleValuesParser::new(names.map(|(name, about)| PossibleValue::new(name).help(about)))
}

/// Writes a line like those of `blockmill`. The command goes on without a reader.
fn log(format: Format, level: &str, event: &str, message: &str) {
    let time = humantime::format_rfc3339_millis(SystemTime::now()).to_string();
    let text = match format {
        Format::Text => format!("blockmill-bench: {message}\n"),
        Format::Json => {
            let line = json!({"time": time, "level": level, "event": event, "message": message});
            format!("{line}\n")
        }
    };
    // A reader that has gone is no reason to stop.
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let mut progress = |line: &str| log(arguments.log, "info", "bench", line);
    let mut out = std::io::stdout().lock();
    match blockmill_bench::run(&arguments.name, &arguments.options, &mut out, &mut progress) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            log(arguments.log, "error", "failed", &error.to_string());
            ExitCode::from(status(&error))
        }
    }
}

fn status(error: &Failure) -> u8 {
    match error.downcast_ref() {
        Some(Wrong::Differs(_)) => 1,
        _ if error.is::<Usage>() => 2,
        _ => 3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
        let parses = |line: &str| Arguments::try_parse_from(line.split(' ')).is_ok();
        assert!(parses(
            "blockmill-bench connect --quick --before /old/blockmill --log json"
        ));
        assert!(!parses("blockmill-bench connect --without fetch"));
        assert!(!parses("blockmill-bench conect"));
    }
}
