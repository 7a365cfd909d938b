//! Compares coin stores under the trait `CoinStore`: ours and its peers. All do the same work, and
//! each phase is a process of its own.
//!
//! In reading order:
//! - [`generator`]: the coins, by number;
//! - [`list`]: coins and changes close together in memory;
//! - [`stores`]: the contestants;
//! - [`process`]: what the system says about time, memory and files;
//! - [`bound`]: the memory that all of it may use;
//! - [`phase`]: what is measured, each in a process of its own;
//! - [`compare`]: starts the phases of each store, one after the other;
//! - [`spread`]: mean, middle and ends of several figures;
//! - [`targets`]: what the coin log has to reach;
//! - [`report`]: the table and the JSON.

mod bound;
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

mod compare;
mod generator;
mod list;
mod phase;
mod process;
mod report;
mod spread;
mod stores;
mod targets;

use clap::{Args, Parser};
use std::error::Error;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// What ends a run.
type Failure = Box<dyn Error + Send + Sync>;

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
    /// Memory that each phase may use, page cache included, in MiB: by a cgroup v2, or else by a
    /// process that locks the rest of the machine's memory. Without it memory is not bounded.
    #[arg(long)]
    memory_mib: Option<u64>,
    /// Runs one phase and prints its figures: what this program starts by itself.
    #[arg(long, hide = true)]
    phase: Option<phase::Phase>,
    /// The control group that the phase enters.
    #[arg(long, hide = true)]
    group: Option<PathBuf>,
    /// Takes memory and locks it until the input ends.
    #[arg(long, hide = true)]
    balloon: Option<u64>,
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
    /// Random reads with cold files, for each number of threads.
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
    if let Some(bytes) = arguments.balloon {
        return bound::hold(bytes);
    }
    if let Some(group) = &arguments.group {
        bound::enter(group)?;
    }
    if let Some(phase) = arguments.phase {
        let figures = phase::run(phase, arguments)?;
        writeln!(out, "{figures}")?;
        return Ok(());
    }
    let comparison = compare::run(arguments)?;
    write!(out, "{}", report::table(&comparison))?;
    if let Some(path) = &arguments.json {
        std::fs::write(path, format!("{:#}\n", report::json(&comparison)))?;
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
