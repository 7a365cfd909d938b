//! Arguments that several commands have.

use super::values::{
    AssumeValid, HexBytes, network, parse_assume_valid, parse_hex, parse_mebibytes, parse_seconds, parse_threads,
    signatures,
};
use crate::failure::Failure;
#[cfg(feature = "http")]
use crate::http::Server;
use crate::listener::{Command, Listener};
use crate::verifier::Verifier;
use blockmill_block::Network;
use blockmill_blockfiles::{FileError, NewFile};
use blockmill_chain::Signatures;
use blockmill_datadir::{ChainId, Earlier, Status};
use blockmill_engine::{Engine, EngineBuilder};
use blockmill_rules::Params;
use clap::Args;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The name of standard input and standard output on the command line.
const STANDARD: &str = "-";

/// Whether a name stands for standard input or standard output.
pub(crate) fn is_standard(path: &Path) -> bool {
    path == Path::new(STANDARD)
}

/// The path of standard input instead of its name on the command line.
pub(crate) fn or_standard_input(path: &Path) -> &Path {
    match is_standard(path) {
        true => Path::new("/dev/stdin"),
        false => path,
    }
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
    /// How far the directory is, before it is opened. None where it cannot be read, and no chain is
    /// named.
    pub(crate) fn status(&self) -> Option<Status> {
        let chain_id = || chain_of(self.network, self.signet_challenge.as_ref()).ok()?;
        let found = Status::of(&self.data).ok();
        found.or_else(|| Some(Status::of_new(chain_id()?)))
    }

    /// An engine on the directory, for the chain that the arguments name.
    pub(crate) fn engine(&self) -> Result<EngineBuilder<Verifier>, Failure> {
        let builder = Engine::builder(&self.data);
        Ok(match chain_of(self.network, self.signet_challenge.as_ref())? {
            Some(chain_id) => builder.chain_id(chain_id),
            None => builder,
        })
    }
}

/// The chain that two arguments name, if they name one. A challenge implies a signet.
pub(crate) fn chain_of(network: Option<Network>, challenge: Option<&HexBytes>) -> Result<Option<ChainId>, Failure> {
    // Only signets have challenges.
    let Some(network) = network.or(challenge.map(|_| Network::Signet)) else {
        return Ok(None);
    };
    if challenge.is_some() && network != Network::Signet {
        let text = format!("--signet-challenge is for signet, not for {network}");
        return Err(Failure::Usage(text));
    }
    let signet_challenge = challenge.map(|challenge| challenge.0.clone());
    Ok(Some(ChainId {
        network,
        signet_challenge,
    }))
}

/// The rules of the chain that two arguments name.
pub(crate) fn params_of(network: Option<Network>, challenge: Option<&HexBytes>) -> Result<Params, Failure> {
    match chain_of(network, challenge)? {
        Some(chain_id) => Ok(chain_id.params()),
        None => Err(Failure::Usage("--network is needed".to_owned())),
    }
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

/// How blocks are connected from files.
#[derive(Debug, Args)]
pub(crate) struct FromFilesArguments {
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
    /// How signatures are verified: many at once in lanes, or one by one
    #[arg(long, value_name = "HOW", default_value = "auto", value_parser = signatures())]
    pub(crate) signatures: Signatures,
    /// Wait while another process has the data directory
    #[arg(long)]
    pub(crate) wait: bool,
    #[command(flatten)]
    pub(crate) page: PageArguments,
}

/// Where the page is served.
#[derive(Debug, Args)]
pub(crate) struct PageArguments {
    /// Serve a page with all figures at this address, and /metrics for Prometheus; a bare port is
    /// on 127.0.0.1
    #[cfg(feature = "http")]
    #[arg(long, value_name = "ADDR", value_parser = super::values::parse_address)]
    http: Option<std::net::SocketAddr>,
}

impl PageArguments {
    /// Whether figures are served.
    pub(crate) fn is_served(&self) -> bool {
        #[cfg(feature = "http")]
        return self.http.is_some();
        #[cfg(not(feature = "http"))]
        return false;
    }

    /// Does the work of a command, and serves its figures meanwhile if that is asked for.
    #[cfg_attr(not(feature = "http"), expect(unused_variables, reason = "only the page shows it"))]
    pub(crate) fn during(
        &self,
        command: &Command<'_>,
        work: impl FnOnce(Option<Arc<dyn Listener>>) -> Result<u8, Failure>,
    ) -> Result<u8, Failure> {
        #[cfg(feature = "http")]
        if let Some(address) = self.http {
            let server = Server::start(address, command)?;
            return work(Some(server.listener()));
        }
        work(None)
    }
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

/// A set that is read.
#[derive(Debug, Args)]
pub(crate) struct SetArguments {
    /// Data directory
    #[arg(long, value_name = "DIR", env = "BLOCKMILL_DATA")]
    pub(crate) data: PathBuf,
    #[command(flatten)]
    pub(crate) at: AtArgument,
}

/// What becomes of a file that is there already.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Force {
    /// Replace the file if it is there, once the new one is complete
    #[arg(long = "force")]
    is_forced: bool,
}

impl Force {
    pub(crate) fn is_given(self) -> bool {
        self.is_forced
    }

    /// Begins a file.
    pub(crate) fn begin(self, path: &Path) -> Result<NewFile, FileError> {
        match self.is_forced {
            true => NewFile::replacing(path),
            false => NewFile::begin(path),
        }
    }
}
