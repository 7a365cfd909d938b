//! The arguments of the commands beside a node.

use super::shared::FromFilesArguments;
use super::values::{Endpoint, cursor_of, parse_endpoint, parse_threads};
use blockmill_datadir::Cursor;
use clap::Args;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(crate) struct FollowArguments {
    #[command(flatten)]
    pub(crate) from_files: FromFilesArguments,
    /// Run this command of the shell for each block that comes to the chain or leaves it, with the
    /// event of feed on standard input
    #[arg(long, value_name = "CMD")]
    pub(crate) exec: Option<String>,
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
    #[arg(long, value_name = "N", value_parser = parse_threads)]
    pub(crate) par: Option<usize>,
}
