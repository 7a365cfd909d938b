//! The command line.
//!
//! - [`shared`]: arguments that several commands have;
//! - [`values`]: what they are read as;
//! - [`audit`], [`export`], [`follow`], `mirror`: the arguments of single commands.

pub(crate) mod audit;
pub(crate) mod export;
pub(crate) mod follow;
#[cfg(feature = "postgres")]
pub(crate) mod mirror;
mod shared;
mod values;

use self::audit::AuditArguments;
use self::export::ExportCommand;
use self::follow::{FeedArguments, FollowArguments};
#[cfg(feature = "postgres")]
use self::mirror::MirrorArguments;
pub(crate) use self::shared::{
    DataArguments, EngineArguments, Force, FromFilesArguments, SetArguments, is_standard, or_standard_input, params_of,
};
pub(crate) use self::values::{Endpoint, HexBytes};
use self::values::{hashes, network, parse_hex, parse_mebibytes, parse_threads, signatures};
use crate::log::Format;
use blockmill_block::{BlockHash, Network, OutPoint};
use blockmill_chain::Signatures;
#[cfg(feature = "generate")]
use blockmill_chaingen::Profile;
use blockmill_coins::stats::Hashes;
#[cfg(feature = "descriptors")]
use blockmill_descriptors::IndexRange;
use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;
use std::path::{Path, PathBuf};

/// The options of all commands stand together, after those of each.
const GLOBAL: &str = "Options of all commands";
const AFTER_OWN: usize = 900;

/// Turns Bitcoin block files into a fully validated UTXO set.
#[derive(Debug, Parser)]
#[command(name = "blockmill", version, max_term_width = 80)]
pub(crate) struct Arguments {
    /// How to write progress and messages
    #[arg(
        long,
        global = true,
        value_name = "FORMAT",
        default_value = "text",
        help_heading = GLOBAL,
        display_order = AFTER_OWN
    )]
    pub(crate) log: Format,
    /// Write no progress, and only those messages that are warnings or errors
    #[arg(long, short, global = true, help_heading = GLOBAL, display_order = AFTER_OWN)]
    pub(crate) quiet: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Make a small signed chain, connect it, and print a report
    #[cfg(feature = "generate")]
    Demo(DemoArguments),
    /// Connect the blocks of block files: index headers, validate everything new, resume after a
    /// stop
    Connect(ConnectArguments),
    /// Connect what a node has, and then each block that it writes, until a signal
    Follow(FollowArguments),
    /// Write each block that came to the chain or left it, with the coins that it spends, from the
    /// block on that was handled last
    Feed(FeedArguments),
    /// Keep the UTXO set and blocks in tables of a PostgreSQL database
    #[cfg(feature = "postgres")]
    Mirror(MirrorArguments),
    /// Read blocks in hex, one a line, from standard input; write one verdict in JSON for each
    Submit(SubmitArguments),
    /// Verify one block against the coins that it spends
    Verify(VerifyArguments),
    /// Prove that a UTXO set is that of a fully valid chain, from block files and undo files, in
    /// any order
    Audit(AuditArguments),
    /// Print figures and hashes of the UTXO set
    Stats(StatsArguments),
    /// Print how far a data directory is, at once
    Status(LookArguments),
    /// Print single coins of the UTXO set
    Coin(CoinArguments),
    /// Print the coins of addresses, descriptors and scripts, and their sum
    #[cfg(feature = "descriptors")]
    Balance(BalanceArguments),
    /// Write the UTXO set or blocks as a table for other programs
    #[command(subcommand)]
    Export(ExportCommand),
    /// Write the UTXO set to a file, or load it from one
    #[command(subcommand)]
    Snapshot(SnapshotCommand),
    /// Check a data directory, and say what is damaged
    Doctor(LookArguments),
    /// Write a deterministic signed regtest chain as block files
    #[cfg(feature = "generate")]
    Generate(GenerateArguments),
    /// Print completions for a shell
    Completions(CompletionsArguments),
    /// Print the manual page; read it with `blockmill man | man -l -`
    Man,
}

#[derive(Debug, Args)]
pub(crate) struct CompletionsArguments {
    /// The shell
    #[arg(value_name = "SHELL")]
    pub(crate) shell: Shell,
}

#[derive(Debug, Args)]
pub(crate) struct ConnectArguments {
    #[command(flatten)]
    pub(crate) from_files: FromFilesArguments,
    /// Connect no block above this height
    #[arg(long, value_name = "N")]
    pub(crate) stop_at_height: Option<u32>,
    /// Write a timeline for chrome://tracing or Perfetto to a new file
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
    /// End with a table of what was done, stage by stage
    #[arg(long, short)]
    pub(crate) verbose: bool,
    /// End with a line of JSON
    #[arg(long, conflicts_with = "verbose")]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct SubmitArguments {
    #[command(flatten)]
    pub(crate) data: DataArguments,
    #[command(flatten)]
    pub(crate) engine: EngineArguments,
    /// How signatures are verified, as for connect
    #[arg(long, value_name = "HOW", default_value = "one-by-one", value_parser = signatures())]
    pub(crate) signatures: Signatures,
    /// Add the number of coins and the hash of the UTXO set to every answer
    #[arg(long)]
    pub(crate) utxo: bool,
}

#[derive(Debug, Args)]
pub(crate) struct VerifyArguments {
    /// The block, in the format of the network protocol or in hex; - is standard input
    #[arg(long, value_name = "FILE", required_unless_present = "blocks", requires = "undo")]
    pub(crate) block: Option<PathBuf>,
    /// The coins that the block spends, in Core's undo format or in hex; - is standard input
    #[arg(long, value_name = "FILE", requires = "height")]
    pub(crate) undo: Option<PathBuf>,
    /// Height of the block, 1 and above
    #[arg(long, value_name = "N", requires = "block", value_parser = clap::value_parser!(u32).range(1..1 << 31))]
    pub(crate) height: Option<u32>,
    /// Verify the blocks of Bitcoin Core's blk*.dat files, with the rev*.dat files beside them
    #[arg(long, value_name = "PATH", num_args = 1.., conflicts_with_all = ["block", "undo", "height"])]
    pub(crate) blocks: Vec<PathBuf>,
    /// Verify only this block of the files
    #[arg(long, value_name = "HASH", requires = "blocks")]
    pub(crate) hash: Option<BlockHash>,
    /// Network of the block
    #[arg(long, value_name = "NAME", value_parser = network())]
    pub(crate) network: Network,
    /// Challenge of a custom signet, in hex
    #[arg(long, value_name = "HEX", value_parser = parse_hex)]
    pub(crate) signet_challenge: Option<HexBytes>,
    /// Threads that validate [default: all cores]
    #[arg(long, value_name = "N", value_parser = parse_threads)]
    pub(crate) par: Option<usize>,
    /// How signatures are verified, as for connect [default: one-by-one for one block, auto with
    /// --blocks]
    #[arg(long, value_name = "HOW", value_parser = signatures())]
    pub(crate) signatures: Option<Signatures>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct LookArguments {
    /// Data directory
    #[arg(long, value_name = "DIR", env = "BLOCKMILL_DATA")]
    pub(crate) data: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct StatsArguments {
    #[command(flatten)]
    pub(crate) set: SetArguments,
    /// Hashes of the set to compute
    #[arg(long, value_name = "HASHES", default_value = "both", value_parser = hashes())]
    pub(crate) hash: Hashes,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CoinArguments {
    #[command(flatten)]
    pub(crate) set: SetArguments,
    /// Print a line of JSON for each outpoint: its coin, or null
    #[arg(long)]
    pub(crate) json: bool,
    /// Outpoints, as TXID:VOUT [default: one a line from standard input]
    #[arg(value_name = "OUTPOINT")]
    pub(crate) outpoints: Vec<OutPoint>,
}

#[cfg(feature = "descriptors")]
#[derive(Debug, Args)]
pub(crate) struct BalanceArguments {
    #[command(flatten)]
    pub(crate) set: SetArguments,
    /// Indices of descriptors with a wildcard, END or BEGIN-END
    #[arg(long, value_name = "RANGE", default_value = "1000")]
    pub(crate) range: IndexRange,
    /// Print a row for each text that is asked for, with the number of its coins and their sum in
    /// satoshi, instead of the coins
    #[arg(long)]
    pub(crate) table: bool,
    /// Print JSON, with the keys of Bitcoin Core's scantxoutset; with --table, balances instead of
    /// unspents
    #[arg(long)]
    pub(crate) json: bool,
    /// More of them, one a line; empty lines, and those that begin with #, are passed over; - is
    /// standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) from_file: Option<PathBuf>,
    /// Addresses, output descriptors, and scripts as raw:HEX
    #[arg(value_name = "ADDRESS|DESCRIPTOR|raw:HEX", required_unless_present = "from_file")]
    pub(crate) targets: Vec<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SnapshotCommand {
    /// Write the UTXO set in the format of Bitcoin Core's dumptxoutset
    Dump(DumpArguments),
    /// Load the UTXO set from a file of Bitcoin Core's dumptxoutset; connect then goes on above it
    Load(LoadArguments),
}

#[derive(Debug, Args)]
pub(crate) struct DumpArguments {
    #[command(flatten)]
    pub(crate) set: SetArguments,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// The file to write, or - for standard output
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) force: Force,
}

#[derive(Debug, Args)]
pub(crate) struct LoadArguments {
    #[command(flatten)]
    pub(crate) data: DataArguments,
    /// Block files or directories with the headers up to the base block of the snapshot
    #[arg(long, value_name = "PATH", num_args = 1.., required_unless_present = "headers")]
    blocks: Vec<PathBuf>,
    /// These headers from elsewhere, for a pruned node: its REST interface, such as
    /// http://127.0.0.1:8332 (it runs with -rest=1), or a file of headers, 80 bytes each
    #[arg(long, value_name = "URL|FILE")]
    pub(crate) headers: Option<String>,
    /// hash_serialized_3 that the coins must have [default: the hash that Bitcoin Core has built in
    /// for the base block]
    #[arg(long, value_name = "HASH")]
    pub(crate) hash: Option<BlockHash>,
    /// Memory for the coins cache: in MiB, or with a unit as 4GiB or 900M
    #[arg(long, value_name = "SIZE", env = "BLOCKMILL_DBCACHE", default_value = "450", value_parser = parse_mebibytes)]
    pub(crate) dbcache: u32,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// The snapshot, or - for standard input; it may follow the blocks directly
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
}

impl LoadArguments {
    /// The sources of the blocks, and the snapshot. Clap may put the snapshot after the blocks;
    /// then the last path is the snapshot.
    pub(crate) fn paths(&self) -> Option<(&[PathBuf], &Path)> {
        match &self.file {
            Some(file) => Some((&self.blocks, file)),
            None => match self.blocks.split_last() {
                Some((file, blocks)) if !blocks.is_empty() || self.headers.is_some() => Some((blocks, file)),
                _ => None,
            },
        }
    }
}

/// The most inputs and coins that a chain is generated with: ten times the main network's. Sums of
/// weights stay below 64 bits.
#[cfg(feature = "generate")]
const GENERATED_MAX: u64 = 30_000_000_000;

#[cfg(feature = "generate")]
#[derive(Debug, Args)]
pub(crate) struct GenerateArguments {
    /// Directory for the block files
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
    /// Blocks above the genesis block
    #[arg(long, value_name = "N")]
    pub(crate) blocks: u32,
    /// Blocks at the end of the chain with only a coinbase; --blocks counts them too
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) empty_blocks: u32,
    /// Content of the blocks: mixed (signed, all script kinds) or utxo (cheap scripts, many coins)
    #[arg(long, value_name = "NAME")]
    pub(crate) profile: Profile,
    /// Seed; the same seed and options give the same files
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,
    /// Target number of inputs in the chain [default: 340 a block for mixed, 1000 for utxo]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=GENERATED_MAX))]
    pub(crate) inputs: Option<u64>,
    /// Target number of coins at the tip
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=GENERATED_MAX))]
    pub(crate) coins: u64,
    /// Largest weight of a block
    #[arg(long, value_name = "WEIGHT", default_value_t = 4_000_000)]
    pub(crate) block_weight: u32,
}

#[cfg(feature = "generate")]
#[derive(Debug, Args)]
pub(crate) struct DemoArguments {
    /// Keep the chain and the data in this directory
    #[arg(long, value_name = "DIR")]
    pub(crate) keep: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn parses(line: &str) -> bool {
        Arguments::try_parse_from(line.split_whitespace()).is_ok()
    }

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn values_are_checked() {
        assert!(parses(
            "blockmill connect --blocks a b --data d --network regtest --par 3"
        ));
        #[cfg(feature = "http")]
        {
            assert!(parses("blockmill connect --blocks a --data d --http 9332"));
            assert!(parses("blockmill follow --blocks a --data d --http localhost:9332"));
            assert!(parses("blockmill audit --data d --http [::1]:9332"));
            assert!(!parses("blockmill connect --blocks a --data d --http localhost"));
        }
        assert!(!parses("blockmill connect --data d"));
        assert!(!parses("blockmill connect --blocks a --data d --par 0"));
        assert!(!parses("blockmill connect --blocks a --data d --dbcache 0"));
        assert!(parses("blockmill connect --blocks a --data d --network mainnet"));
        assert!(!parses("blockmill connect --blocks a --data d --network bitcoins"));
        assert!(!parses("blockmill connect --blocks a --data d --store log"));
        assert!(!parses("blockmill connect --blocks a --data d --assume-valid 12"));
        assert!(!parses("blockmill generate --out o --blocks 5 --profile huge"));
        assert!(!parses("blockmill connect --blocks a --data d --signet-challenge 5"));
        assert!(parses("blockmill connect --blocks a --data d --log json"));
        assert!(parses("blockmill --log json snapshot dump --data d f"));
        assert!(!parses("blockmill connect --blocks a --data d --log xml"));
        assert!(!parses("blockmill connect --blocks a --data d --signatures all"));
        assert!(!parses(
            "blockmill generate --out o --blocks 5 --profile mixed --signatures lanes"
        ));
    }

    #[test]
    fn how_signatures_are_verified() {
        let parsed = |line: &str| match Arguments::try_parse_from(line.split_whitespace()).unwrap().command {
            Command::Connect(connect) => Some(connect.from_files.signatures),
            Command::Submit(submit) => Some(submit.signatures),
            Command::Verify(verify) => verify.signatures,
            _ => None,
        };
        let connect = "blockmill connect --blocks a --data d";
        let submit = "blockmill submit --data d";
        let verify = "blockmill verify --blocks a --network regtest";
        let defaults = [Some(Signatures::Auto), Some(Signatures::OneByOne), None];
        for (line, default) in [connect, submit, verify].into_iter().zip(defaults) {
            assert_eq!(parsed(line), default);
            for (word, argument) in [
                ("auto", Signatures::Auto),
                ("one-by-one", Signatures::OneByOne),
                ("lanes", Signatures::Lanes),
            ] {
                assert_eq!(parsed(&format!("{line} --signatures {word}")), Some(argument));
            }
        }
    }
}
