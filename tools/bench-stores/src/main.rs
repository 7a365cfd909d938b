//! Compares coin stores under the trait `CoinStore`: ours and its peers. All do the same work, and
//! each phase is a process of its own. Spreads, tables, JSON and processes are those of
//! `blockmill_harness`.
//!
//! In reading order:
//! - [`arguments`]: how much is done, and the phases;
//! - [`generator`]: the coins, by number;
//! - [`stores`]: the contestants;
//! - [`meter`]: time, and what went to the disk and came from it;
//! - [`phase`]: what is measured, each in a process of its own;
//! - [`compare`]: starts the phases of each store, and makes the rows.

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

mod arguments;
mod compare;
mod generator;
mod meter;
mod phase;
mod stores;

use arguments::Arguments;
use blockmill_harness::Failure;
use clap::Parser;
use std::io::Write;
use std::process::ExitCode;

fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut out = std::io::stdout();
    if let Some(phase) = arguments.phase {
        return Ok(blockmill_harness::print(&mut out, &phase::run(phase, arguments)?)?);
    }
    let report = compare::run(arguments)?;
    report.write_table(&mut out, true)?;
    if let Some(path) = &arguments.json {
        std::fs::write(path, format!("{:#}\n", report.json()))?;
    }
    Ok(())
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            writeln!(std::io::stderr(), "error: {error}").unwrap_or(());
            ExitCode::FAILURE
        }
    }
}
