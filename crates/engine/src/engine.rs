//! An engine on a data directory. It has four states, each of which only its own part changes:
//! `Pipeline` (the modules of `pipeline`), `ChainState` (of `blockmill-chain`), `DataState` (of
//! `blockmill-datadir`) and `Telemetry` (`report::telemetry`). Here the engine chooses the branch
//! to connect; `pipeline::connect` connects it.
//!

mod durable;
mod follow;
mod load_snapshot;
mod open;
mod submit;

pub use durable::DurableObserver;
pub use follow::Follower;
pub use load_snapshot::LoadSnapshotError;
pub use open::EngineBuilder;
pub use submit::{Submission, Verdict};

use crate::pipeline::connect::{self, BranchEnd};
use crate::pipeline::disconnect::disconnect_tip;
use crate::pipeline::error::ConnectError;
use crate::pipeline::keep::{keep_last, remove_old};
use crate::pipeline::load::Content;
use crate::pipeline::state::{Pipeline, Run};
use crate::report::connect_report::{ConnectReport, Halt};
use crate::report::telemetry::{Reporter, Telemetry};
use crate::report::totals::{LiveTotals, Totals};
use crate::report::trace::Spans;
use blockmill_block::{BlockHash, Coin, OutPoint};
use blockmill_chain::import::Which;
use blockmill_chain::report::events::Observer;
use blockmill_chain::report::findings::{ImportEnd, ImportFindings};
use blockmill_chain::state::ChainState;
use blockmill_coins::{CoinsCache, StoreError, Tip};
use blockmill_datadir::state::DataState;
use blockmill_datadir::{DataDir, OpenError};
use blockmill_rules::ScriptVerifier;
use std::path::PathBuf;
use std::time::Instant;

/// A data directory with everything that connects blocks to it.
pub struct Engine<V: ScriptVerifier + 'static> {
    /// Dropped first: the store is closed before the directory is unlocked.
    pipeline: Pipeline<V>,
    chain: ChainState,
    data: DataState,
    telemetry: Telemetry,
}

impl<V: ScriptVerifier + 'static> Engine<V> {
    /// Imports the blocks in `sources` (directories of `blk*.dat`, or single files), connects the
    /// best chain and flushes. Blocks that break a rule are left out with all that builds on them,
    /// and reported.
    ///
    /// # Errors
    /// Any [`ConnectError`]. What was flushed before is kept.
    pub fn connect(&mut self, sources: &[PathBuf], observer: &mut dyn Observer) -> Result<ConnectReport, ConnectError> {
        self.connect_some(sources, Which::All, observer)
    }

    /// As [`connect`](Self::connect), for files that were given before: those are searched that
    /// have changed or are new. Blocks that were rejected stay so.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub fn update(&mut self, sources: &[PathBuf], observer: &mut dyn Observer) -> Result<ConnectReport, ConnectError> {
        self.connect_some(sources, Which::Changed, observer)
    }

    /// Imports and connects, and retains the last blocks.
    fn connect_some(
        &mut self,
        sources: &[PathBuf],
        which: Which,
        observer: &mut dyn Observer,
    ) -> Result<ConnectReport, ConnectError> {
        let start = Instant::now();
        let (start_height, start_tip) = (self.height(), self.chain.tip_id());
        let cache = self.coins().counters();
        let totals_before = self.telemetry.begin_run(cache);
        self.data.report_problems(start_height, observer);
        let (pipeline, mut run) = self.parts(observer);
        if which == Which::All {
            run.chain.forget_failures();
        }
        let mut own = ImportFindings::default();
        let (mut findings, mut halt) = import_and_connect(pipeline, &mut run, sources, which, &mut own)?;
        // A block that is shorter than its record was read: others may lie there.
        while halt == Halt::Finished && run.chain.find_hidden(start_tip, pipeline.stop())? {
            run.reporter.telemetry.begin_again(run.chain.index());
            (findings, halt) = import_and_connect(pipeline, &mut run, sources, Which::All, &mut own)?;
        }
        findings.merge(own);
        if halt == Halt::Finished {
            keep_last(pipeline, &mut run)?;
        }
        pipeline.flush(&mut run)?;
        remove_old(&mut run)?;
        if halt == Halt::Finished {
            // Also where nothing was connected: figures are complete from the first run on.
            let tip_time = run.chain.index().entry(run.chain.tip_id()).time;
            run.reporter
                .progress(run.chain.height(), tip_time, 0, &pipeline.cache_state());
        }
        run.reporter.telemetry.report_flushes(run.reporter.observer);
        let cache = self.coins().counters();
        let figures = self.telemetry.end_run(&totals_before, cache);
        Ok(ConnectReport {
            network: self.chain.index().params().network.name(),
            tip: self.tip_hash(),
            height: self.height(),
            start_height,
            totals: figures.totals,
            seconds: start.elapsed().as_secs_f64(),
            signatures: figures.signatures,
            cache_coins_max: figures.cache_coins_max,
            cache_bytes_max: figures.cache_bytes_max,
            store_memory: self.coins().store().memory() as u64,
            rejected: figures.rejected,
            unreadable: figures.unreadable,
            damages: findings.damages,
            missing_files: findings.missing_files,
            leftovers: findings.leftovers,
            left_out: findings.left_out,
            first_leftover: findings.first_leftover,
            halt,
        })
    }

    /// The pipeline, and what it works on.
    fn parts<'a>(&'a mut self, observer: &'a mut dyn Observer) -> (&'a mut Pipeline<V>, Run<'a>) {
        let reporter = Reporter {
            telemetry: &mut self.telemetry,
            observer,
        };
        let run = Run {
            chain: &mut self.chain,
            data: &mut self.data,
            reporter,
        };
        (&mut self.pipeline, run)
    }

    /// Writes everything up to the tip to the data directory, durably. The coins stay in the cache
    /// while there is room.
    ///
    /// # Errors
    /// Any [`ConnectError`]; what was flushed before is kept.
    pub fn flush(&mut self) -> Result<(), ConnectError> {
        let mut nobody = ();
        let (pipeline, mut run) = self.parts(&mut nobody);
        pipeline.flush(&mut run)
    }

    /// Reports the flushes that have ended and were not reported. [`connect`](Self::connect) and
    /// [`submit`](Self::submit) do so by themselves.
    pub fn report_flushes(&mut self, observer: &mut dyn Observer) {
        self.telemetry.report_flushes(observer);
    }

    /// The totals, for other threads.
    pub fn live_totals(&self) -> LiveTotals {
        self.telemetry.live.clone()
    }

    /// The spans of all threads, if [`Options::trace`](crate::Options::trace) is set. Spans stay in
    /// memory until they are drained.
    pub fn spans(&self) -> Spans {
        Spans(self.telemetry.trace.clone())
    }

    /// Hash of the tip.
    pub fn tip_hash(&self) -> BlockHash {
        self.tip().hash
    }

    /// Height of the tip.
    pub fn height(&self) -> u32 {
        self.chain.height()
    }

    /// The tip of the active chain.
    pub fn tip(&self) -> Tip {
        self.chain.tip()
    }

    /// What was done since the engine was opened.
    pub fn totals(&self) -> &Totals {
        &self.telemetry.totals
    }

    /// The coins at the tip.
    pub fn coins(&self) -> &CoinsCache {
        &self.pipeline.cache
    }

    /// The coin of an outpoint at the tip; none if it is spent, or never was.
    ///
    /// # Errors
    /// Any [`StoreError`].
    pub fn coin(&self, outpoint: &OutPoint) -> Result<Option<Coin>, StoreError> {
        self.coins().peek(outpoint)
    }

    /// Closes the engine. If it has made the folder of the data directory, and no block has come,
    /// the folder is removed. Returns whether that was so.
    ///
    /// # Errors
    /// [`OpenError`] where a file cannot be removed.
    pub fn close_unused(self) -> Result<bool, OpenError> {
        match self.chain.is_without_blocks() {
            true => self.close_unloaded(),
            false => Ok(false),
        }
    }

    /// The data directory.
    pub fn directory(&self) -> &DataDir {
        self.data.directory()
    }
}

/// Imports the blocks in `sources`, and connects the best chain. Findings among the
/// directory's own blocks are added to `own`.
fn import_and_connect<V: ScriptVerifier + 'static>(
    pipeline: &mut Pipeline<V>,
    run: &mut Run<'_>,
    sources: &[PathBuf],
    which: Which,
    own: &mut ImportFindings,
) -> Result<(ImportFindings, Halt), ConnectError> {
    let stop = pipeline.stop();
    let mut findings = run.chain.import(sources, which, stop, run.reporter.observer)?;
    // Damage of these is said once.
    let damages = std::mem::take(&mut own.damages);
    *own = run.chain.take_own_findings();
    own.damages.extend(damages);
    run.reporter.telemetry.take_own_findings(own);
    run.reporter.telemetry.take_findings(&mut findings);
    check_genesis(pipeline, run);
    run.reporter.telemetry.chain_bytes = run.chain.active_bytes();
    // The interval counts from here: an import, however long, changes no coins.
    pipeline.flusher.restart_interval();
    let is_stopped = [findings.end, own.end].contains(&ImportEnd::Stopped);
    let halt = if is_stopped {
        Halt::Stopped
    } else {
        activate_best_chain(pipeline, run)?
    };
    Ok((findings, halt))
}

/// Makes the chain with the most work the active one, as far as it is valid.
fn activate_best_chain<V: ScriptVerifier + 'static>(
    pipeline: &mut Pipeline<V>,
    run: &mut Run<'_>,
) -> Result<Halt, ConnectError> {
    let start = Instant::now();
    run.reporter.telemetry.end_branch(run.chain.height());
    loop {
        let (tip, target) = (run.chain.tip_id(), run.chain.best_candidate());
        let index = run.chain.index();
        if target == tip || index.entry(target).work < index.entry(tip).work {
            return Ok(Halt::Finished);
        }
        if let Some(halt) = pipeline.must_halt_below(run.chain, target) {
            return Ok(halt);
        }
        let fork = index.fork(tip, target);
        while run.chain.tip_id() != fork {
            disconnect_tip(pipeline, run)?;
        }
        match connect::connect(pipeline, run, target, start)? {
            BranchEnd::Halted(halt) => return Ok(halt),
            // The loop ends once no candidate has more work than the tip.
            BranchEnd::Finished | BranchEnd::Reselect => {}
        }
    }
}

/// Validates the genesis block where it lies in the files. It is never connected, so nothing else
/// would validate it.
fn check_genesis<V: ScriptVerifier + 'static>(pipeline: &Pipeline<V>, run: &mut Run<'_>) {
    let genesis = run.chain.index().genesis();
    if !run.chain.index().entry(genesis).has_content() {
        return;
    }
    match pipeline.load_now(run.chain, genesis, run.reporter.telemetry) {
        Content::Sound(..) => {}
        Content::Rejected(reject, position) => run.reporter.rejected(run.chain.rejected(genesis, reject, position)),
        Content::Unreadable(unreadable) => run.reporter.unreadable(unreadable),
    }
}

#[cfg(all(test, not(blockmill_without_kernel)))]
mod tests;
