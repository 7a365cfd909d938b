//! The arguments of `blockmill export`.

use super::shared::{AtArgument, Force, chain_of};
use super::values::{HexBytes, network, parse_hex, table};
use crate::failure::Failure;
use blockmill_block::Network;
use blockmill_datadir::ChainId;
#[cfg(feature = "descriptors")]
use blockmill_descriptors::IndexRange;
use blockmill_tables::batch::Ids;
use blockmill_tables::product::ProductKind;
use clap::{Args, Subcommand, ValueEnum, value_parser};
use std::path::PathBuf;

/// Outputs that `export hints` gathers at a time: 256 MiB.
const HINT_OUTPUTS: &str = "33554432";

#[derive(Debug, Subcommand)]
pub(crate) enum ExportCommand {
    /// Write a row for each coin
    Coins(ExportCoinsArguments),
    /// Write a row for each transaction of some blocks, with the coins that it spends
    Blocks(ExportBlocksArguments),
    /// Write a row for each transaction of some blocks
    Transactions(ExportTablesArguments),
    /// Write a row for each input of some blocks, with the coin that it spends
    Inputs(ExportTablesArguments),
    /// Write a row for each output of some blocks
    Outputs(ExportTablesArguments),
    /// Write for each outpoint that some blocks spend which input spends it
    Spenders(ExportTablesArguments),
    /// Write for each transaction of some blocks where it lies in the block files
    Positions(ExportTablesArguments),
    /// Write the basic filter (BIP 158) of each of some blocks, and its header
    #[cfg(feature = "descriptors")]
    Filters(ExportTablesArguments),
    /// Write the hints of SwiftSync: which outputs of each block are unspent at the tip; in the
    /// form of a draft (BIP 456, version 0), which may change
    Hints(ExportHintsArguments),
    /// Write figures of each of some blocks, and of the set of coins after it: those of Core's
    /// gettxoutsetinfo with an index, and of getblockstats
    Statistics(ExportTablesArguments),
}

/// The format of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TableFormat {
    /// Apache Parquet, compressed
    #[cfg(feature = "tables")]
    Parquet,
    /// A stream of Apache Arrow (IPC)
    #[cfg(feature = "tables")]
    Arrow,
    /// Comma-separated values, with a head
    Csv,
    /// A line of JSON for each row
    Jsonl,
    /// A SQLite database with one table, and an index
    #[cfg(feature = "tables")]
    Sqlite,
}

/// How flat tables are written.
#[derive(Debug, Args)]
pub(crate) struct FormArguments {
    /// Format of the tables [default: what the ending of the file's name says]
    #[arg(long, value_name = "FORMAT")]
    pub(crate) format: Option<TableFormat>,
    /// Write ids of transactions and blocks as the 32 bytes of their hex, in the same order; for
    /// parquet, arrow and sqlite
    #[arg(long)]
    binary: bool,
}

impl FormArguments {
    pub(crate) fn ids(&self) -> Ids {
        match self.binary {
            true => Ids::Binary,
            false => Ids::Hex,
        }
    }
}

/// Whose coins are exported.
#[cfg(feature = "descriptors")]
#[derive(Debug, Args)]
pub(crate) struct WantedArguments {
    /// Only coins of these addresses, output descriptors, and scripts as raw:HEX
    #[arg(long = "where", value_name = "ADDRESS|DESCRIPTOR|raw:HEX")]
    pub(crate) texts: Vec<String>,
    /// Indices of descriptors with a wildcard, END or BEGIN-END
    #[arg(long, value_name = "RANGE", default_value = "1000")]
    pub(crate) range: IndexRange,
}

#[derive(Debug, Args)]
pub(crate) struct ExportCoinsArguments {
    /// Data directory
    #[arg(
        long,
        value_name = "DIR",
        env = "BLOCKMILL_DATA",
        required_unless_present = "snapshot"
    )]
    pub(crate) data: Option<PathBuf>,
    /// A file of Bitcoin Core's dumptxoutset or of snapshot dump, instead of a data directory;
    /// - is standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) snapshot: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) at: AtArgument,
    #[command(flatten)]
    pub(crate) form: FormArguments,
    #[cfg(feature = "descriptors")]
    #[command(flatten)]
    pub(crate) wanted: WantedArguments,
    /// The file to write, or - for standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) out: PathBuf,
    #[command(flatten)]
    pub(crate) force: Force,
}

// No words of its own: they would become those of the command.
#[derive(Debug, Clone, Args)]
pub(crate) struct ChainArguments {
    /// Network: bitcoin, testnet3, testnet4, signet or regtest; needed only without a data
    /// directory
    #[arg(long, value_name = "NAME", env = "BLOCKMILL_NETWORK", value_parser = network())]
    network: Option<Network>,
    /// Challenge of a custom signet, in hex; implies --network signet
    #[arg(long, value_name = "HEX", value_parser = parse_hex)]
    signet_challenge: Option<HexBytes>,
}

impl ChainArguments {
    /// The chain that they name, if they name one.
    pub(crate) fn id(&self) -> Result<Option<ChainId>, Failure> {
        chain_of(self.network, self.signet_challenge.as_ref())
    }
}

#[derive(Debug, Args)]
pub(crate) struct ExportHintsArguments {
    /// Data directory: its set, and the blocks that it was made from
    #[arg(long, value_name = "DIR", env = "BLOCKMILL_DATA", required_unless_present = "blocks")]
    pub(crate) data: Option<PathBuf>,
    /// Directories of blk*.dat files, or single block files, in which the blocks are looked for,
    /// too; with rev*.dat files beside them, they need no data directory
    #[arg(long, value_name = "PATH", num_args = 1..)]
    pub(crate) blocks: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) chain: ChainArguments,
    /// Which outputs are unspent after the block of this height [default: the tip]
    #[arg(long, value_name = "HEIGHT")]
    pub(crate) at: Option<u32>,
    /// Outputs that are gathered at a time, about; for tests
    #[arg(long, value_name = "N", hide = true, default_value = HINT_OUTPUTS)]
    pub(crate) outputs_at_once: u64,
    /// The file to write, or - for standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) out: PathBuf,
    #[command(flatten)]
    pub(crate) force: Force,
}

impl ExportHintsArguments {
    /// The pass over block files that they ask for, where there is no data directory.
    pub(crate) fn pass(&self) -> PassArguments {
        PassArguments {
            blocks: self.blocks.clone(),
            data: None,
            chain: self.chain.clone(),
            from: None,
            to: self.at,
            out: self.out.clone(),
            force: self.force,
        }
    }
}

/// The format of a table whose rows hold lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum NestedFormat {
    /// Apache Parquet, compressed
    #[cfg(feature = "tables")]
    Parquet,
    /// A line of JSON for each row
    Jsonl,
}

/// The blocks of a pass, and where its tables go.
#[derive(Debug, Args)]
pub(crate) struct PassArguments {
    /// Directories of blk*.dat files, or single block files; with rev*.dat files beside them, they
    /// need no data directory
    #[arg(long, value_name = "PATH", num_args = 1.., required_unless_present = "data")]
    pub(crate) blocks: Vec<PathBuf>,
    /// Data directory: its chain and its undo data, and the block files that it was made from
    #[arg(long, value_name = "DIR", env = "BLOCKMILL_DATA")]
    pub(crate) data: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) chain: ChainArguments,
    /// Height of the first block [default: 0; with --append that of the table]
    #[arg(long, value_name = "HEIGHT")]
    pub(crate) from: Option<u32>,
    /// Height of the last block [default: the tip]
    #[arg(long, value_name = "HEIGHT")]
    pub(crate) to: Option<u32>,
    /// The file to write, or - for standard output; with --and and --partition a folder
    #[arg(long, value_name = "FILE")]
    pub(crate) out: PathBuf,
    #[command(flatten)]
    pub(crate) force: Force,
}

#[derive(Debug, Args)]
pub(crate) struct ExportBlocksArguments {
    #[command(flatten)]
    pub(crate) pass: PassArguments,
    /// Format of the table [default: what the ending of the file's name says]
    #[arg(long, value_name = "FORMAT")]
    pub(crate) format: Option<NestedFormat>,
}

#[derive(Debug, Args)]
pub(crate) struct ExportTablesArguments {
    #[command(flatten)]
    pub(crate) pass: PassArguments,
    /// Further tables of the same pass; each goes to a file of its name in the folder --out, or
    /// with --partition to a folder there, or with --append to the same SQLite database
    #[arg(long, value_name = "TABLE", value_delimiter = ',', value_parser = table())]
    pub(crate) and: Vec<ProductKind>,
    /// Write a file for each range of heights to the folder --out, and a manifest, _blockmill.json;
    /// --force removes the table that is there first
    #[arg(long, value_name = "BLOCKS", value_parser = value_parser!(u32).range(1..))]
    pub(crate) partition: Option<u32>,
    /// Go on with what an earlier call with --append has left: with --partition keep the files that
    /// are full and still on the chain, and make the others; without it remove the rows of one
    /// SQLite database that are no longer on the chain, and add the new ones
    #[arg(long, conflicts_with = "is_forced")]
    pub(crate) append: bool,
    #[command(flatten)]
    pub(crate) form: FormArguments,
}
