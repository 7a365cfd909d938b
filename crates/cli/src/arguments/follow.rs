//! The arguments of the commands beside a node.

use super::shared::{DataArguments, EngineArguments};
use super::values::{
    AssumeValid, Endpoint, SignaturesArgument, cursor_of, parse_address, parse_assume_valid, parse_endpoint,
};
use blockmill_datadir::Cursor;
use clap::Args;
use std::net::SocketAddr;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(crate) struct FollowArguments {
    /// The block files of the node: its directory, or its directory of blk*.dat files
    #[arg(long, value_name = "PATH", required = true, num_args = 1..)]
    pub(crate) blocks: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) data: DataArguments,
    #[command(flatten)]
    pub(crate) engine: EngineArguments,
    /// Skip the scripts of this block and of those below it, under Core's conditions; 0 checks all
    #[arg(long, value_name = "HASH", default_value = "0", value_parser = parse_assume_valid)]
    pub(crate) assume_valid: AssumeValid,
    /// How signatures are verified, as for connect
    #[arg(long, value_name = "HOW", default_value = "auto")]
    pub(crate) signatures: SignaturesArgument,
    /// Run this command of the shell for each block that comes to the chain or leaves it, with the
    /// event of feed on standard input
    #[arg(long, value_name = "CMD")]
    pub(crate) exec: Option<String>,
    /// Wait while another process has the data directory
    #[arg(long)]
    pub(crate) wait: bool,
    /// Serve figures for Prometheus at this address; a bare port is on 127.0.0.1
    #[arg(long, value_name = "ADDR", value_parser = parse_address)]
    pub(crate) metrics: Option<SocketAddr>,
    /// Write the lines as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct FeedArguments {
    /// Data directory
    #[arg(long, value_name = "DIR", env = "BLOCKMILL_DATA")]
    pub(crate) data: PathBuf,
    /// The block that was handled last, by its height or its hash
    #[arg(long, value_name = "HEIGHT|HASH", default_value = "0", value_parser = cursor_of)]
    pub(crate) from: Cursor,
    /// Go on with each block that follow connects
    #[arg(long)]
    pub(crate) follow: bool,
    /// Serve consumers at a socket, each from its own block on
    #[arg(long, value_name = "unix:PATH|IP:PORT", value_parser = parse_endpoint, conflicts_with_all = ["from", "follow"])]
    pub(crate) listen: Option<Endpoint>,
    /// Threads [default: all cores]
    #[arg(long, value_name = "N", value_parser = super::values::parse_threads)]
    pub(crate) par: Option<usize>,
}
