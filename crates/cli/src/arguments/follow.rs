//! The arguments of the commands beside a node.

use super::shared::FromFilesArguments;
use super::values::{Endpoint, parse_endpoint, parse_threads};
use blockmill_datadir::Cursor;
use blockmill_datadir::feed::request::FeedFormat;
use clap::builder::PossibleValue;
use clap::{Args, ValueEnum};
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

/// How the events of a feed are written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FormatArgument(pub(crate) FeedFormat);

impl ValueEnum for FormatArgument {
    fn value_variants<'a>() -> &'a [Self] {
        &[Self(FeedFormat::Jsonl), Self(FeedFormat::Arrow)]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let help = match self.0 {
            FeedFormat::Jsonl => "A line of JSON for each event",
            FeedFormat::Arrow => "A stream of Apache Arrow (IPC)",
        };
        Some(PossibleValue::new(self.0.name()).help(help))
    }
}

#[derive(Debug, Args)]
pub(crate) struct FeedArguments {
    /// Data directory
    #[arg(long, value_name = "DIR", env = "BLOCKMILL_DATA")]
    pub(crate) data: PathBuf,
    /// The block that was handled last, by its height or its hash
    #[arg(long, value_name = "HEIGHT|HASH", default_value = "0")]
    pub(crate) from: Cursor,
    /// Go on with each block that follow connects
    #[arg(long)]
    pub(crate) follow: bool,
    /// Serve consumers at a socket, each from its own block on
    #[arg(long, value_name = "unix:PATH|IP:PORT", value_parser = parse_endpoint, conflicts_with_all = ["from", "follow"])]
    pub(crate) listen: Option<Endpoint>,
    /// How events are written; with --listen, to consumers that name no format
    #[arg(long, value_name = "FORMAT", value_enum, default_value = "jsonl")]
    pub(crate) format: FormatArgument,
    /// Threads [default: all cores]
    #[arg(long, value_name = "N", value_parser = parse_threads)]
    pub(crate) par: Option<usize>,
}
