//! The command `blockmill-bench`: one of the benchmark tables.
//!
//! The table goes to standard output, progress and messages to standard error. Exit status: 0 done;
//! 2 wrong usage; 3 an error or a wrong result stopped the benchmark.

use blockmill_bench::{Options, Size};
use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Parser, ValueEnum};
use serde_json::json;
use std::io::Write;
use std::path::PathBuf;
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
    /// Run a short form, well under a minute
    #[arg(long)]
    quick: bool,
    /// Run everything once, as a test does
    #[arg(long, hide = true)]
    tiny: bool,
    /// Say which targets are met
    #[arg(long)]
    targets: bool,
    /// Write the rows as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write a page with tables and curves
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write the first chart as SVG
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// For connect: run an earlier blockmill command in turns with this one, and no other peer
    #[arg(long, value_name = "PATH")]
    before: Option<PathBuf>,
    /// For connect and audit: add rows of Bitcoin Core's daemon over the same files
    #[arg(long, value_name = "PATH")]
    bitcoind: Option<PathBuf>,
    /// For connect: add a chain of 6 million inputs and 23 million coins; its runs take minutes
    #[arg(long)]
    big: bool,
    /// How to write progress and messages
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    log: Format,
    /// The part of a benchmark that runs in this process; the benchmark passes this option
    #[arg(long, hide = true)]
    part: Option<String>,
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
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}

fn options(arguments: &Arguments) -> Options {
    let words: Vec<_> = std::env::args_os().collect();
    let executable = std::env::current_exe().ok();
    let beside = |own: &PathBuf| own.with_file_name(format!("blockmill{}", std::env::consts::EXE_SUFFIX));
    Options {
        size: match (arguments.tiny, arguments.quick) {
            (true, _) => Size::Tiny,
            (_, true) => Size::Quick,
            _ => Size::Full,
        },
        targets: arguments.targets,
        json: arguments.json.clone(),
        html: arguments.html.clone(),
        svg: arguments.svg.clone(),
        command: words.join(" ".as_ref()).to_string_lossy().into_owned(),
        blockmill: executable.as_ref().map(beside),
        executable,
        before: arguments.before.clone(),
        bitcoind: arguments.bitcoind.clone(),
        big: arguments.big,
        part: arguments.part.clone(),
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let mut progress = |line: &str| log(arguments.log, "info", "bench", line);
    let mut out = std::io::stdout().lock();
    match blockmill_bench::run(&arguments.name, &options(&arguments), &mut out, &mut progress) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            log(arguments.log, "error", "failed", &error.to_string());
            ExitCode::from(3)
        }
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
