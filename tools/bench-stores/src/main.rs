//! Compares coin stores under the trait `CoinStore`: ours and its peers. All do the same work, and
//! each phase is a process of its own. Spreads, tables, JSON and processes are those of
//! `blockmill_harness`.
//!
//! In reading order:
//! - [`generator`]: the coins, by number;
//! - [`stores`]: the contestants;
//! - [`meter`]: time, and what went to the disk and came from it;
//! - [`phase`]: what is measured, each in a process of its own;
//! - [`compare`]: starts the phases of each store, and makes the rows.

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

mod compare;
mod generator;
mod meter;
mod phase;
mod stores;

use blockmill_harness::Failure;
use clap::{Args, Parser};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Compares coin stores.
#[derive(Debug, Clone, Parser)]
#[command(name = "bench-stores")]
struct Arguments {
    /// Stores that take part.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "log,redb,lmdb,fjall")]
    stores: Vec<stores::Kind>,
    /// Where the stores are made; each in a directory of its own, which is removed afterwards.
    #[arg(long)]
    dir: PathBuf,
    /// Writes the figures as JSON, too.
    #[arg(long)]
    json: Option<PathBuf>,
    #[command(flatten)]
    work: Work,
    /// Runs one phase and prints its runs: what this program starts by itself.
    #[arg(long, hide = true)]
    phase: Option<phase::Phase>,
}

/// How much is done.
#[derive(Debug, Clone, Args)]
struct Work {
    /// Coins loaded.
    #[arg(long, default_value_t = 10_000_000)]
    coins: u64,
    /// Changes in a flush, half of them removals; coins in a commit of the load.
    #[arg(long, default_value_t = 1_000_000)]
    changes: u64,
    /// Flushes measured with warm files. They also age the stores for the reads.
    #[arg(long, default_value_t = 50)]
    rounds: u64,
    /// Random reads with warm files, for each number of threads.
    #[arg(long, default_value_t = 400_000)]
    reads: u64,
    /// Random reads with cold files.
    #[arg(long, default_value_t = 20_000)]
    cold_reads: u64,
    /// Kills in the middle of a commit.
    #[arg(long, default_value_t = 3)]
    kills: u64,
    /// Reads all coins after each kill.
    #[arg(long)]
    scan_after_kills: bool,
    /// Memory for each store's own cache, in MiB.
    #[arg(long, default_value_t = 64)]
    cache_mib: usize,
}

impl Work {
    fn generator(&self) -> generator::Generator {
        generator::Generator::new(self.coins, self.changes)
    }
}

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
