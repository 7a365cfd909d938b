//! The arguments of `blockmill audit`.

use super::shared::{Force, PageArguments};
use super::values::{HexBytes, network, parse_hex, parse_threads, signatures};
use blockmill_block::Network;
use blockmill_chain::Signatures;
use clap::{Args, Subcommand};
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct AuditArguments {
    #[command(subcommand)]
    pub(crate) command: Option<AuditCommand>,
    /// Directories of Bitcoin Core's blk*.dat files, with the rev*.dat files beside them
    #[arg(long, value_name = "PATH", num_args = 1.., required_unless_present = "data")]
    pub(crate) blocks: Vec<PathBuf>,
    /// Network of the blocks
    #[arg(
        long,
        value_name = "NAME",
        env = "BLOCKMILL_NETWORK",
        value_parser = network(),
        required_unless_present = "data"
    )]
    pub(crate) network: Option<Network>,
    /// Challenge of a custom signet, in hex
    #[arg(long, value_name = "HEX", value_parser = parse_hex)]
    pub(crate) signet_challenge: Option<HexBytes>,
    /// The set that is to be proved, as Core's dumptxoutset writes it
    #[arg(long, value_name = "FILE", required_unless_present = "data")]
    pub(crate) snapshot: Option<PathBuf>,
    /// Prove the set of this data directory, with its own undo data where it has some; --blocks
    /// names further block files
    #[arg(long, value_name = "DIR", conflicts_with = "snapshot")]
    pub(crate) data: Option<PathBuf>,
    /// Keep what is done in this directory, and go on with what is there
    #[arg(long, value_name = "DIR")]
    pub(crate) resume: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) work: AuditWork,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// How blocks are verified.
#[derive(Debug, Args)]
pub(crate) struct AuditWork {
    /// Threads that validate [default: all cores]
    #[arg(long, value_name = "N", value_parser = parse_threads)]
    pub(crate) par: Option<usize>,
    /// How signatures are verified, as for connect
    #[arg(long, value_name = "HOW", default_value = "auto", value_parser = signatures())]
    pub(crate) signatures: Signatures,
    #[command(flatten)]
    pub(crate) page: PageArguments,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AuditCommand {
    /// Draw the key of a run, and write it to a new file that only you can read
    Key(AuditKeyArguments),
    /// Audit the blocks of some heights, and write what they came to
    Part(AuditPartArguments),
    /// Join the parts of a run, and prove a snapshot or the set of a data directory
    Merge(AuditMergeArguments),
}

#[derive(Debug, Args)]
pub(crate) struct AuditKeyArguments {
    /// The new file
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct AuditPartArguments {
    /// Directories of Bitcoin Core's blk*.dat files, with the rev*.dat files beside them: the
    /// blocks of these heights at least
    #[arg(long, value_name = "PATH", required = true, num_args = 1..)]
    pub(crate) blocks: Vec<PathBuf>,
    /// Headers of blocks whose files are not here: a file, or the address of a node's REST
    /// interface
    #[arg(long, value_name = "FILE|URL")]
    pub(crate) headers: Option<String>,
    /// Network of the blocks
    #[arg(long, value_name = "NAME", env = "BLOCKMILL_NETWORK", value_parser = network())]
    pub(crate) network: Network,
    /// Challenge of a custom signet, in hex
    #[arg(long, value_name = "HEX", value_parser = parse_hex)]
    pub(crate) signet_challenge: Option<HexBytes>,
    /// The key of the run
    #[arg(long, value_name = "FILE")]
    pub(crate) key: PathBuf,
    /// The first height; the first block of the chain has height 0
    #[arg(long, value_name = "H")]
    pub(crate) from: u32,
    /// The last height
    #[arg(long, value_name = "H")]
    pub(crate) to: u32,
    /// The new file for the part
    #[arg(long, value_name = "PART")]
    pub(crate) out: PathBuf,
    #[command(flatten)]
    pub(crate) force: Force,
    #[command(flatten)]
    pub(crate) work: AuditWork,
}

#[derive(Debug, Args)]
pub(crate) struct AuditMergeArguments {
    /// The key of the run
    #[arg(long, value_name = "FILE")]
    pub(crate) key: PathBuf,
    /// The set that is to be proved, as Core's dumptxoutset writes it
    #[arg(long, value_name = "FILE", required_unless_present = "data")]
    pub(crate) snapshot: Option<PathBuf>,
    /// Prove the set of this data directory
    #[arg(long, value_name = "DIR", conflicts_with = "snapshot")]
    pub(crate) data: Option<PathBuf>,
    /// Threads that read the set [default: all cores]
    #[arg(long, value_name = "N", value_parser = parse_threads)]
    pub(crate) par: Option<usize>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// The parts of the run, in any order
    #[arg(value_name = "PART", required = true)]
    pub(crate) parts: Vec<PathBuf>,
}
