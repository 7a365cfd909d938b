//! The contenders that connect a chain, and the calls of our engine.

use crate::clock::{Elapsed, Stopwatch};
use crate::error::BenchError;
use blockmill_block::Network;
use blockmill_chain::Signatures;
use blockmill_coins::StatsBuilder;
use blockmill_coins::stats::Hashes;
use blockmill_engine::engine::internals::{Internals, Without};
use blockmill_engine::report::FiguresObserver;
use blockmill_engine::{ConnectReport, Engine, Options};
use blockmill_script::CoreVerifier;
use std::path::{Path, PathBuf};

/// Memory for coins in MiB where nothing else is said, the same for all contenders. This is the
/// kernel's default, and its library offers no other.
pub(crate) const CACHE_MIB: u32 = 450;

/// Parts of the pipeline that can be left out, by name.
pub(crate) const PARTS: [&str; 5] = ["fetch", "overlap", "decode", "background-flush", "shards"];

/// A contender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Contender {
    /// Ours, with signatures verified by libsecp256k1. Only [`Lanes`](Self::Lanes) uses lanes.
    Blockmill,
    /// Ours, with signatures verified in lanes.
    Lanes,
    /// Ours, with one of [`PARTS`] left out.
    Without(&'static str),
    /// Ours, with the scripts of the chain's tip assumed to be valid.
    BlockmillAssuming,
    Bitcoinkernel,
    /// Bitcoin Core's daemon, with every script checked.
    Bitcoind,
    /// Bitcoin Core's daemon, with the scripts of the chain's tip assumed to be valid.
    BitcoindAssuming,
}

fn without(part: &str) -> Without {
    Without {
        fetch: part == PARTS[0],
        overlap: part == PARTS[1],
        decode: part == PARTS[2],
        background_flush: part == PARTS[3],
        shards: part == PARTS[4],
    }
}

impl Contender {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Blockmill => "blockmill, signatures kernel",
            Self::Lanes => "blockmill, signatures lanes",
            Self::Without("fetch") => "blockmill without fetch",
            Self::Without("overlap") => "blockmill without overlap",
            Self::Without("decode") => "blockmill without decode",
            Self::Without("shards") => "blockmill without shards",
            Self::Without(_) => "blockmill without background-flush",
            Self::BlockmillAssuming => "blockmill, assumed valid",
            Self::Bitcoinkernel => "bitcoinkernel",
            Self::Bitcoind => "bitcoind",
            Self::BitcoindAssuming => "bitcoind, assumed valid",
        }
    }

    pub(super) fn words(self, threads: usize) -> String {
        let plural = if threads == 1 { "" } else { "s" };
        format!("{} with {threads} thread{plural}", self.name())
    }

    /// Whether the contender is ours.
    pub(super) fn is_ours(self) -> bool {
        !matches!(self, Self::Bitcoinkernel | Self::Bitcoind | Self::BitcoindAssuming)
    }

    /// The way of verifying signatures, for ours.
    pub(super) fn signatures(self) -> Signatures {
        match self {
            Self::Lanes => Signatures::Lanes,
            _ => Signatures::Kernel,
        }
    }

    /// Whether scripts are assumed to be valid.
    pub(super) fn assumes(self) -> bool {
        matches!(self, Self::BlockmillAssuming | Self::BitcoindAssuming)
    }

    /// The peer for a contender of ours.
    pub(super) fn peer(self) -> Option<Self> {
        match self {
            Self::Blockmill | Self::Lanes | Self::Without(_) => Some(Self::Bitcoinkernel),
            Self::BlockmillAssuming => Some(Self::BitcoindAssuming),
            Self::Bitcoinkernel | Self::Bitcoind | Self::BitcoindAssuming => None,
        }
    }

    /// The contender of this name.
    pub(super) fn named(name: &str) -> Option<Self> {
        let fixed = [
            Self::Blockmill,
            Self::Lanes,
            Self::BlockmillAssuming,
            Self::Bitcoinkernel,
            Self::Bitcoind,
            Self::BitcoindAssuming,
        ];
        let mut all = fixed.into_iter().chain(PARTS.map(Self::Without));
        all.find(|contender| contender.name() == name)
    }
}

/// The parts of the pipeline that a contender leaves out.
pub(super) fn left_out(contender: Contender) -> Without {
    match contender {
        Contender::Without(part) => without(part),
        _ => Without::default(),
    }
}

/// The content of a data directory after a run.
pub(super) struct Stored {
    pub(super) tip: String,
    /// None if the contender offers no way to compute it.
    pub(super) hash_serialized_3: Option<String>,
}

/// Connects the blocks with our engine. The time includes opening, reading, connecting, flushing
/// and closing.
pub(crate) fn connect_ours(
    blocks: &Path,
    data: &Path,
    threads: usize,
    without: Without,
) -> Result<Elapsed, BenchError> {
    let options = options(threads, CACHE_MIB);
    connect_observed(blocks, data, options, without, &mut ()).map(|(elapsed, _)| elapsed)
}

/// Connects the blocks with our engine; `figures` hears of the run. Returns the engine's report,
/// too.
pub(super) fn connect_observed(
    blocks: &Path,
    data: &Path,
    options: Options,
    without: Without,
    figures: &mut dyn FiguresObserver,
) -> Result<(Elapsed, ConnectReport), BenchError> {
    let sources: [PathBuf; 1] = [blocks.to_owned()];
    let clock = Stopwatch::start();
    let verifier = CoreVerifier::new(match options.signatures {
        Signatures::Lanes => blockmill_script::Signatures::Lanes,
        _ => blockmill_script::Signatures::Kernel,
    });
    let internals = Internals {
        without,
        ..Internals::default()
    };
    let builder = Engine::builder(data).network(Network::Regtest).options(options);
    let mut engine = builder.internals(internals).open(verifier)?;
    let report = engine.connect_with_figures(&sources, &mut (), figures)?;
    drop(engine);
    Ok((clock.elapsed(), report))
}

/// Reads a data directory of our engine after a run.
pub(super) fn stored_by_ours(data: &Path) -> Result<Stored, BenchError> {
    let engine = Engine::builder(data)
        .options(options(1, CACHE_MIB))
        .open(CoreVerifier::automatic())?;
    let stats = StatsBuilder::new(Hashes::Serialized)
        .add_all(engine.coins().coins()?)?
        .finish(&engine.tip());
    Ok(Stored {
        tip: stats.best_block.to_string(),
        hash_serialized_3: Some(stats.hash_serialized_3.to_string()),
    })
}

/// Options for `threads` threads, with signatures verified by libsecp256k1.
pub(super) fn options(threads: usize, cache_mib: u32) -> Options {
    Options {
        threads,
        cache_bytes_max: (cache_mib as usize) << 20,
        signatures: Signatures::Kernel,
        ..Options::default()
    }
}
