//! Who connects a chain, and how a run of each goes.

use super::at_work::Timeline;
use super::temporary_directory;
use crate::clock::{Elapsed, Stopwatch};
use crate::error::BenchError;
use crate::kernel;
use blockmill_block::Network;
use blockmill_chaingen::Summary;
use blockmill_coins::StatsBuilder;
use blockmill_coins::stats::Hashes;
use blockmill_engine::open::Without;
use blockmill_engine::{Engine, Marks, Options, Quiet};
use blockmill_script::KernelVerifier;
use std::path::{Path, PathBuf};

/// Memory for coins in bytes; the kernel's default, which its library does not let anyone change.
const CACHE_BYTES: usize = 450 << 20;

/// Parts of the pipeline that can be left out, by name.
pub(crate) const PARTS: [&str; 4] = ["fetch", "overlap", "decode", "background-flush"];

/// Who connects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Contender {
    Blockmill,
    /// Ours, with one of [`PARTS`] left out.
    Without(&'static str),
    Bitcoinkernel,
}

fn without(part: &str) -> Without {
    Without {
        fetch: part == PARTS[0],
        overlap: part == PARTS[1],
        decode: part == PARTS[2],
        background_flush: part == PARTS[3],
    }
}

impl Contender {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Blockmill => "blockmill",
            Self::Without("fetch") => "blockmill without fetch",
            Self::Without("overlap") => "blockmill without overlap",
            Self::Without("decode") => "blockmill without decode",
            Self::Without(_) => "blockmill without background-flush",
            Self::Bitcoinkernel => "bitcoinkernel",
        }
    }

    pub(super) fn words(self, threads: usize) -> String {
        let plural = if threads == 1 { "" } else { "s" };
        format!("{} with {threads} thread{plural}", self.name())
    }

    /// Connects the chain once into a fresh directory, checks the result, and returns the tip.
    pub(super) fn connect(
        self,
        blocks: &Path,
        threads: usize,
        expected: &Summary,
    ) -> Result<(String, Elapsed), BenchError> {
        let check = |what: &'static str, found: &str, wanted: &str| {
            if found == wanted {
                return Ok(());
            }
            Err(BenchError::Mismatch {
                run: self.words(threads),
                what,
                found: found.to_owned(),
                wanted: wanted.to_owned(),
            })
        };
        let data = temporary_directory()?;
        let (stored, elapsed) = match self {
            Self::Blockmill => connect_ours(blocks, data.path(), threads, Without::default())?,
            Self::Without(part) => connect_ours(blocks, data.path(), threads, without(part))?,
            Self::Bitcoinkernel => connect_kernel(blocks, data.path(), threads)?,
        };
        check("tip", &stored.tip, &expected.tip)?;
        if let Some(hash) = &stored.hash_serialized_3 {
            check("hash_serialized_3", hash, &expected.hash_serialized_3)?;
        }
        Ok((stored.tip, elapsed))
    }
}

/// What a data directory holds after a run.
pub(crate) struct Stored {
    tip: String,
    /// None where there is no way to ask for it.
    hash_serialized_3: Option<String>,
}

/// Connects the blocks with our engine. Timed is all of it: opening, reading, connecting, flushing, closing.
pub(crate) fn connect_ours(
    blocks: &Path,
    data: &Path,
    threads: usize,
    without: Without,
) -> Result<(Stored, Elapsed), BenchError> {
    let options = options(threads, without);
    let sources: [PathBuf; 1] = [blocks.to_owned()];
    let clock = Stopwatch::start();
    let mut engine = Engine::open(data, Some(&regtest()), KernelVerifier, options.clone())?;
    engine.connect(&sources, &mut Quiet)?;
    drop(engine);
    let elapsed = clock.elapsed();
    let engine = Engine::open(data, None, KernelVerifier, options)?;
    let stats = StatsBuilder::new(Hashes::Serialized)
        .add_all(engine.coins().coins()?)?
        .finish(&engine.stored_tip());
    let stored = Stored {
        tip: stats.best_block.to_string(),
        hash_serialized_3: Some(stats.hash_serialized_3.to_string()),
    };
    Ok((stored, elapsed))
}

/// Connects the blocks with our engine and notes who does what; returns the part of the time for which the thread that worked least was at
/// work.
pub(super) fn at_work(blocks: &Path, threads: usize) -> Result<Option<f64>, BenchError> {
    let data = temporary_directory()?;
    let options = Options {
        trace: true,
        ..options(threads, Without::default())
    };
    let mut timeline = Timeline::default();
    let mut engine = Engine::open(data.path(), Some(&regtest()), KernelVerifier, options)?;
    engine.connect(&[blocks.to_owned()], &mut timeline)?;
    Ok(timeline.least_at_work(threads))
}

fn regtest() -> Marks {
    Marks {
        network: Network::Regtest,
        signet_challenge: None,
    }
}

fn options(threads: usize, without: Without) -> Options {
    Options {
        threads,
        cache_bytes_max: CACHE_BYTES,
        without,
        ..Options::default()
    }
}

fn connect_kernel(blocks: &Path, data: &Path, threads: usize) -> Result<(Stored, Elapsed), BenchError> {
    let (tip, elapsed) = kernel::connect(blocks, data, threads)?;
    let stored = Stored {
        tip,
        hash_serialized_3: None,
    };
    Ok((stored, elapsed))
}
