//! The command line.

pub(crate) mod audit;

use self::audit::AuditArguments;
#[cfg(feature = "descriptors")]
use crate::descriptors::IndexRange;
use crate::failure::Failure;
use crate::log::Format;
use crate::verifier::Verifier;
use blockmill_block::{BlockHash, Network, OutPoint, hex};
use blockmill_blockfiles::{FileError, NewFile};
use blockmill_chain::Signatures;
#[cfg(feature = "generate")]
use blockmill_chaingen::Profile;
use blockmill_coins::stats::Hashes;
use blockmill_datadir::{ChainId, Earlier, Reach};
use blockmill_engine::{Engine, EngineBuilder};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use std::net::{SocketAddr, ToSocketAddrs};
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
    Status(StatusArguments),
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
    Doctor(DoctorArguments),
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

/// Where validation happens.
#[derive(Debug, Args)]
pub(crate) struct DataArguments {
    /// Data directory
    #[arg(long, value_name = "DIR", env = "BLOCKMILL_DATA")]
    pub(crate) data: PathBuf,
    /// Network; needed only to make a data directory
    #[arg(long, value_name = "NAME", env = "BLOCKMILL_NETWORK", value_parser = network())]
    pub(crate) network: Option<Network>,
    /// Challenge of a custom signet, in hex; implies --network signet
    #[arg(long, value_name = "HEX", value_parser = parse_hex)]
    pub(crate) signet_challenge: Option<HexBytes>,
}

impl DataArguments {
    /// An engine on the directory, for the chain that the arguments name.
    pub(crate) fn engine(&self) -> Result<EngineBuilder<Verifier>, Failure> {
        let builder = Engine::builder(&self.data);
        Ok(match self.chain_id()? {
            Some(chain_id) => builder.chain_id(chain_id),
            None => builder,
        })
    }

    fn chain_id(&self) -> Result<Option<ChainId>, Failure> {
        chain_of(self.network, self.signet_challenge.as_ref())
    }
}

/// The chain that two arguments name, if they name one. A challenge implies a signet.
pub(crate) fn chain_of(network: Option<Network>, challenge: Option<&HexBytes>) -> Result<Option<ChainId>, Failure> {
    let Some(network) = network.or(challenge.map(|_| Network::Signet)) else {
        return Ok(None);
    };
    Ok(Some(ChainId {
        network,
        signet_challenge: challenge_of(network, challenge)?,
    }))
}

/// The bytes of a challenge; an error unless the network is a signet.
pub(crate) fn challenge_of(network: Network, challenge: Option<&HexBytes>) -> Result<Option<Vec<u8>>, Failure> {
    if challenge.is_some() && network != Network::Signet {
        let text = format!("--signet-challenge is for signet, not for {network}");
        return Err(Failure::Usage(text));
    }
    Ok(challenge.map(|challenge| challenge.0.clone()))
}

/// How validation works.
#[derive(Debug, Args)]
pub(crate) struct EngineArguments {
    /// Threads that validate [default: all cores]
    #[arg(long, value_name = "N", value_parser = parse_threads)]
    pub(crate) par: Option<usize>,
    /// Memory for the coins cache: in MiB, or with a unit as 4GiB or 900M
    #[arg(long, value_name = "SIZE", env = "BLOCKMILL_DBCACHE", default_value = "450", value_parser = parse_mebibytes)]
    pub(crate) dbcache: u32,
    /// Seconds of work between flushes to the data directory
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0, value_parser = parse_seconds)]
    pub(crate) flush_seconds: f64,
}

#[derive(Debug, Args)]
pub(crate) struct ConnectArguments {
    /// Directories of blk*.dat files, or single block files
    #[arg(long, value_name = "PATH", required = true, num_args = 1..)]
    pub(crate) blocks: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) data: DataArguments,
    #[command(flatten)]
    pub(crate) engine: EngineArguments,
    /// Skip the scripts of this block and of those below it, under Core's conditions; 0 checks all
    #[arg(long, value_name = "HASH", default_value = "0", value_parser = parse_assume_valid)]
    pub(crate) assume_valid: AssumeValid,
    /// How signatures are verified: many at once in the lanes of vector registers, or one by one
    #[arg(long, value_name = "HOW", default_value = "auto")]
    pub(crate) signatures: SignaturesArgument,
    /// Connect no block above this height
    #[arg(long, value_name = "N")]
    pub(crate) stop_at_height: Option<u32>,
    /// Serve figures for Prometheus at this address; a bare port is on 127.0.0.1
    #[arg(long, value_name = "ADDR", value_parser = parse_address)]
    pub(crate) metrics: Option<SocketAddr>,
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
    #[arg(long, value_name = "HOW", default_value = "one-by-one")]
    pub(crate) signatures: SignaturesArgument,
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
    /// Height of the block
    #[arg(long, value_name = "N", requires = "block")]
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
    #[arg(long, value_name = "HOW")]
    pub(crate) signatures: Option<SignaturesArgument>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// The set at an earlier height.
#[derive(Debug, Args)]
pub(crate) struct AtArgument {
    /// The set as it was after the block of this height; block files are needed from there on
    #[arg(long = "at", value_name = "HEIGHT")]
    pub(crate) height: Option<u32>,
    /// With --at: a directory of blk*.dat files, or a single block file, that has blocks above the
    /// height, beside those that connect has read; may be given several times
    #[arg(long = "blocks", value_name = "PATH", requires = "height")]
    sources: Vec<PathBuf>,
}

impl AtArgument {
    /// The height that is asked for, if one is, and where blocks may lie.
    pub(crate) fn earlier(&self) -> Option<Earlier<'_>> {
        let sources = &self.sources;
        self.height.map(|height| Earlier { height, sources })
    }
}

/// Whether an older set will do.
#[derive(Debug, Args)]
pub(crate) struct OlderArgument {
    /// Where the end of the store is damaged or lost, take the older set that it still has
    #[arg(long)]
    allow_older: bool,
}

impl OlderArgument {
    /// Which set is taken.
    pub(crate) fn reach(&self) -> Reach {
        match self.allow_older {
            true => Reach::Older,
            false => Reach::Synced,
        }
    }
}

/// A set that is read.
#[derive(Debug, Args)]
pub(crate) struct SetArguments {
    /// Data directory
    #[arg(long, value_name = "DIR", env = "BLOCKMILL_DATA")]
    pub(crate) data: PathBuf,
    #[command(flatten)]
    pub(crate) at: AtArgument,
    #[command(flatten)]
    pub(crate) older: OlderArgument,
}

#[derive(Debug, Args)]
pub(crate) struct StatusArguments {
    /// Data directory
    #[arg(long, value_name = "DIR", env = "BLOCKMILL_DATA")]
    pub(crate) data: PathBuf,
    #[command(flatten)]
    pub(crate) older: OlderArgument,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// The hashes of a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum HashesArgument {
    /// No hash: the figures alone
    None,
    /// hash_serialized_3
    Serialized,
    /// MuHash
    Muhash,
    /// Both
    Both,
}

impl From<HashesArgument> for Hashes {
    fn from(argument: HashesArgument) -> Self {
        match argument {
            HashesArgument::None => Self::Neither,
            HashesArgument::Serialized => Self::Serialized,
            HashesArgument::Muhash => Self::MuHash,
            HashesArgument::Both => Self::Both,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct StatsArguments {
    #[command(flatten)]
    pub(crate) set: SetArguments,
    /// Hashes of the set to compute
    #[arg(long, value_name = "HASHES", default_value = "both")]
    pub(crate) hash: HashesArgument,
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
    /// Print JSON, with the keys of Bitcoin Core's scantxoutset
    #[arg(long)]
    pub(crate) json: bool,
    /// Addresses, output descriptors, and scripts as raw:HEX
    #[arg(value_name = "ADDRESS|DESCRIPTOR|raw:HEX", required = true)]
    pub(crate) targets: Vec<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ExportCommand {
    /// Write a row for each coin
    Coins(ExportCoinsArguments),
    /// Write a row for each transaction of some blocks, with the coins that it spends
    Blocks(ExportBlocksArguments),
}

/// What becomes of a file that is there already.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Force {
    /// Replace the file if it is there, once the new one is complete
    #[arg(long = "force")]
    is_forced: bool,
}

impl Force {
    /// Begins a file.
    pub(crate) fn begin(self, path: &Path) -> Result<NewFile, FileError> {
        match self.is_forced {
            true => NewFile::replacing(path),
            false => NewFile::begin(path),
        }
    }
}

/// The format of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TableFormat {
    /// Apache Parquet, compressed
    #[cfg(feature = "tables")]
    Parquet,
    /// Comma-separated values, with a head
    Csv,
    /// A line of JSON for each row
    Jsonl,
    /// A SQLite database with a table coins, and an index of its scripts
    #[cfg(feature = "tables")]
    Sqlite,
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
    pub(crate) older: OlderArgument,
    /// Format of the table [default: what the ending of the file's name says]
    #[arg(long, value_name = "FORMAT")]
    pub(crate) format: Option<TableFormat>,
    #[cfg(feature = "descriptors")]
    #[command(flatten)]
    pub(crate) wanted: WantedArguments,
    /// The file to write, or - for standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) out: PathBuf,
    #[command(flatten)]
    pub(crate) force: Force,
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

#[derive(Debug, Args)]
pub(crate) struct ExportBlocksArguments {
    /// Directories of blk*.dat files, or single block files; with rev*.dat files beside them, they
    /// need no data directory
    #[arg(long, value_name = "PATH", num_args = 1.., required_unless_present = "data")]
    pub(crate) blocks: Vec<PathBuf>,
    /// Data directory: its chain and its undo data, and the block files that it was made from
    #[arg(long, value_name = "DIR", env = "BLOCKMILL_DATA")]
    pub(crate) data: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) older: OlderArgument,
    /// Network: bitcoin, testnet3, testnet4, signet or regtest; needed only without a data
    /// directory
    #[arg(long, value_name = "NAME", env = "BLOCKMILL_NETWORK", value_parser = network())]
    pub(crate) network: Option<Network>,
    /// Challenge of a custom signet, in hex; implies --network signet
    #[arg(long, value_name = "HEX", value_parser = parse_hex)]
    pub(crate) signet_challenge: Option<HexBytes>,
    /// Height of the first block
    #[arg(long, value_name = "HEIGHT", default_value_t = 0)]
    pub(crate) from: u32,
    /// Height of the last block [default: the tip]
    #[arg(long, value_name = "HEIGHT")]
    pub(crate) to: Option<u32>,
    /// Format of the table [default: what the ending of the file's name says]
    #[arg(long, value_name = "FORMAT")]
    pub(crate) format: Option<NestedFormat>,
    /// The file to write, or - for standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) out: PathBuf,
    #[command(flatten)]
    pub(crate) force: Force,
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

#[derive(Debug, Args)]
pub(crate) struct DoctorArguments {
    /// Data directory
    #[arg(long, value_name = "DIR", env = "BLOCKMILL_DATA")]
    pub(crate) data: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

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
    #[arg(long, value_name = "N")]
    pub(crate) inputs: Option<u64>,
    /// Target number of coins at the tip
    #[arg(long, value_name = "N", default_value_t = 0)]
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
/// Bytes given in hex. Clap would read a plain `Vec` as an option that may be repeated.
#[derive(Debug, Clone)]
pub(crate) struct HexBytes(pub(crate) Vec<u8>);

/// How signatures are verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SignaturesArgument {
    /// In lanes for blocks with over two weeks of work above them, else one by one
    Auto,
    /// By libsecp256k1 alone
    #[value(alias = "kernel")]
    OneByOne,
    /// In lanes for all blocks
    Lanes,
}

impl From<SignaturesArgument> for Signatures {
    fn from(argument: SignaturesArgument) -> Self {
        match argument {
            SignaturesArgument::Auto => Self::Auto,
            SignaturesArgument::OneByOne => Self::OneByOne,
            SignaturesArgument::Lanes => Self::Lanes,
        }
    }
}

/// A block hash, or 0 for none.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AssumeValid(pub(crate) Option<BlockHash>);

/// The names of networks, and those that Bitcoin Core has for them.
fn network() -> impl TypedValueParser<Value = Network> {
    let names = Network::ALL.map(|network| {
        let value = PossibleValue::new(network.name());
        match network {
            Network::Bitcoin => value.aliases(["main", "mainnet"]),
            Network::Testnet3 => value.aliases(["test", "testnet"]),
            _ => value,
        }
    });
    PossibleValuesParser::new(names).try_map(|name| name.parse::<Network>())
}

fn parse_hex(text: &str) -> Result<HexBytes, String> {
    hex::decode(text).map(HexBytes).map_err(|error| error.to_string())
}

fn parse_threads(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(threads @ 1..=1024) => Ok(threads),
        _ => Err("expected a number of threads from 1 to 1024".to_owned()),
    }
}

/// A number of MiB, or of what a unit names: K, M, G or T, with iB after it or not.
fn parse_mebibytes(text: &str) -> Result<u32, String> {
    let digits = text.trim_end_matches(|character: char| !character.is_ascii_digit());
    let unit = text[digits.len()..].to_ascii_lowercase();
    let shift = match unit.strip_suffix("ib").or(unit.strip_suffix('b')).unwrap_or(&unit) {
        "" if unit.is_empty() => Some(20),
        "k" => Some(10),
        "m" => Some(20),
        "g" => Some(30),
        "t" => Some(40),
        _ => None,
    };
    let bytes = shift.and_then(|shift| digits.parse::<u64>().ok()?.checked_mul(1 << shift));
    match bytes.map(|bytes| u32::try_from(bytes >> 20)) {
        Some(Ok(mebibytes)) if mebibytes > 0 => Ok(mebibytes),
        _ => Err("expected at least 1 MiB, as in 450, 900M or 4GiB".to_owned()),
    }
}

fn parse_seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.0..=60.0).contains(&seconds) => Ok(seconds),
        _ => Err("expected a number of seconds from 0 to 60".to_owned()),
    }
}

fn parse_address(text: &str) -> Result<SocketAddr, String> {
    match text.parse::<u16>() {
        Ok(port) => Ok(SocketAddr::from(([127, 0, 0, 1], port))),
        Err(_) => match text.to_socket_addrs().map(|mut found| found.next()) {
            Ok(Some(address)) => Ok(address),
            _ => Err("expected an address such as localhost:9332, or a port".to_owned()),
        },
    }
}

fn parse_assume_valid(text: &str) -> Result<AssumeValid, String> {
    if text == "0" {
        return Ok(AssumeValid(None));
    }
    let hash = text.parse().map_err(|error| format!("{error}"))?;
    Ok(AssumeValid(Some(hash)))
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
    fn values_are_judged() {
        assert!(parses(
            "blockmill connect --blocks a b --data d --network regtest --par 3"
        ));
        assert!(parses("blockmill connect --blocks a --data d --metrics 9332"));
        assert!(parses("blockmill connect --blocks a --data d --metrics localhost:9332"));
        assert!(parses("blockmill connect --blocks a --data d --metrics [::1]:9332"));
        assert!(!parses("blockmill connect --blocks a --data d --metrics localhost"));
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
    fn sizes_have_units() {
        for (text, mebibytes) in [
            ("1", 1),
            ("450", 450),
            ("900M", 900),
            ("900MiB", 900),
            ("4g", 4_096),
            ("4GB", 4_096),
            ("2048k", 2),
            ("1T", 1 << 20),
        ] {
            assert_eq!(parse_mebibytes(text), Ok(mebibytes), "{text}");
        }
        for text in [
            "",
            "0",
            "M",
            "-1",
            "1.5G",
            "1023k",
            "5X",
            "5iB",
            "b",
            "4 G",
            "99999999T",
            "5\u{e9}",
        ] {
            assert!(parse_mebibytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn how_signatures_are_verified() {
        let parsed = |line: &str| match Arguments::try_parse_from(line.split_whitespace()).unwrap().command {
            Command::Connect(connect) => Some(connect.signatures),
            Command::Submit(submit) => Some(submit.signatures),
            Command::Verify(verify) => verify.signatures,
            _ => None,
        };
        let connect = "blockmill connect --blocks a --data d";
        let submit = "blockmill submit --data d";
        let verify = "blockmill verify --blocks a --network regtest";
        let defaults = [Some(SignaturesArgument::Auto), Some(SignaturesArgument::OneByOne), None];
        for (line, default) in [connect, submit, verify].into_iter().zip(defaults) {
            assert_eq!(parsed(line), default);
            for (word, argument) in [
                ("auto", SignaturesArgument::Auto),
                ("one-by-one", SignaturesArgument::OneByOne),
                ("kernel", SignaturesArgument::OneByOne),
                ("lanes", SignaturesArgument::Lanes),
            ] {
                assert_eq!(parsed(&format!("{line} --signatures {word}")), Some(argument));
            }
        }
    }
}
