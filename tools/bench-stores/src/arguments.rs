//! How much is done, and the phases.

use crate::generator::Generator;
use crate::stores::Kind;
use clap::{Args, Parser, ValueEnum};
use std::path::PathBuf;

/// Compares coin stores.
#[derive(Debug, Clone, Parser)]
#[command(name = "bench-stores")]
pub(crate) struct Arguments {
    /// Stores that take part.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "log,redb,lmdb,fjall")]
    pub(crate) stores: Vec<Kind>,
    /// Where the stores are made; each in a directory of its own, which is removed afterwards.
    #[arg(long)]
    pub(crate) dir: PathBuf,
    /// Writes the figures as JSON, too.
    #[arg(long)]
    pub(crate) json: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) work: Work,
    /// Runs one phase and prints its runs: what this program starts by itself.
    #[arg(long, hide = true)]
    pub(crate) phase: Option<Phase>,
}

/// How much is done.
#[derive(Debug, Clone, Args)]
pub(crate) struct Work {
    /// Coins loaded.
    #[arg(long, default_value_t = 10_000_000)]
    pub(crate) coins: u64,
    /// Changes in a flush, half of them removals; coins in a commit of the load.
    #[arg(long, default_value_t = 1_000_000)]
    pub(crate) changes: u64,
    /// Flushes measured with warm files. They also age the stores for the reads.
    #[arg(long, default_value_t = 50)]
    pub(crate) rounds: u64,
    /// Random reads with warm files, for each number of threads.
    #[arg(long, default_value_t = 400_000)]
    pub(crate) reads: u64,
    /// Random reads with cold files.
    #[arg(long, default_value_t = 20_000)]
    pub(crate) cold_reads: u64,
    /// Kills in the middle of a commit.
    #[arg(long, default_value_t = 3)]
    pub(crate) kills: u64,
    /// Reads all coins after each kill.
    #[arg(long)]
    pub(crate) scan_after_kills: bool,
    /// Memory for each store's own cache, in MiB.
    #[arg(long, default_value_t = 64)]
    pub(crate) cache_mib: usize,
}

impl Work {
    pub(crate) fn generator(&self) -> Generator {
        Generator::new(self.coins, self.changes)
    }
}

/// A part of the comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Phase {
    /// Coins in the order of their keys.
    Load,
    /// Rounds of changes with warm files. They age the store for what follows.
    Flush,
    /// One round of changes with cold files.
    FlushCold,
    /// Reads of coins that are there, by 1 and 2 threads, then of coins that are not, with warm
    /// files.
    Read,
    /// Reads with cold files.
    ReadCold,
    /// Reads of absent coins with cold files.
    AbsentCold,
    /// A round of changes, which is cut short from outside.
    Commit,
    /// Opening what a kill left.
    Reopen,
    /// Opening without what only saves time.
    Rebuild,
    /// All coins in the order of their keys.
    Scan,
}
