//! The command `blockmill-bench`: one of the benchmark tables.
//!
//! The table goes to standard output, progress and messages to standard error. Exit status: 0 done;
//! 2 wrong usage; 3 an error or a wrong result stopped the benchmark.

mod arguments;
mod log;

use arguments::Arguments;
use blockmill_bench::{BenchError, BenchOptions, WITHOUT};
use clap::Parser;
use log::Level;
use std::path::PathBuf;
use std::process::ExitCode;

/// The allocator of `blockmill`, so that the rows of the engine are those of the command.
#[cfg(any(target_os = "linux", target_os = "macos"))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// The command line as text.
fn command_line() -> String {
    let words: Vec<_> = std::env::args_os().collect();
    words.join(" ".as_ref()).to_string_lossy().into_owned()
}

/// The command `blockmill` in the folder of this one.
fn blockmill() -> Option<PathBuf> {
    let own = std::env::current_exe().ok()?;
    Some(own.with_file_name(format!("blockmill{}", std::env::consts::EXE_SUFFIX)))
}

fn options(arguments: &Arguments) -> BenchOptions {
    let left_out = |part: &&str| arguments.without.iter().any(|name| name == part);
    BenchOptions {
        quick: arguments.quick,
        targets: arguments.targets,
        json: arguments.json.clone(),
        html: arguments.html.clone(),
        svg: arguments.svg.clone(),
        command: command_line(),
        executable: std::env::current_exe().ok(),
        blockmill: blockmill(),
        without: WITHOUT.into_iter().filter(left_out).collect(),
        bitcoind: arguments.bitcoind.clone(),
        big: arguments.big,
        part: arguments.part.clone(),
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let mut progress = |line: &str| log::write(arguments.log, Level::Info, "bench", line);
    let mut out = std::io::stdout().lock();
    match blockmill_bench::run(&arguments.name, &options(&arguments), &mut out, &mut progress) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            log::write(arguments.log, Level::Error, "failed", &error.to_string());
            ExitCode::from(match error {
                BenchError::UnknownName { .. } => 2,
                _ => 3,
            })
        }
    }
}
