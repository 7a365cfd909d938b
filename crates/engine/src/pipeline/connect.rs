//! The main loop: the blocks of a branch, one after the other.
//!
//! All threads load blocks ahead (`prefetch`). Blocks are resolved in windows (`window`). All
//! threads check scripts, while the next blocks are resolved.
//!
//! The active tip is fully verified. Above it are the blocks *in flight*: applied to the cache,
//! scripts still running. A block is committed when its checks have passed and all blocks below it
//! are committed. If a check fails, or if the run stops, the blocks in flight are disconnected with
//! their undo data, the highest one first. A flush freezes the cache when no block is in flight, so
//! it only ever writes what is fully validated.

use crate::pipeline::error::ConnectError;
use crate::pipeline::keep::{first_kept, keep_and_write_undo};
use crate::pipeline::load::{Content, PrefetchedBlock};
use crate::pipeline::prefetch::Prefetcher;
use crate::pipeline::state::{Pipeline, ROUNDS_IN_FLIGHT_MAX, Run};
use crate::pipeline::window::{Put, next_blocks, put_in_flight};
use crate::report::connect_report::Halt;
use crate::report::stages::Stage;
use crate::report::telemetry::{Branch, Committed};
use blockmill_blockfiles::Position;
use blockmill_chain::index::BlockId;
use blockmill_chain::report::events::{BlockChange, Event};
use blockmill_rules::spend::SCRIPT_FAILED;
use blockmill_rules::{Reject, ScriptVerifier, VerifyError};
use blockmill_validate::check_pool::CheckFailure;
use std::ops::ControlFlow::{self, Break, Continue};
use std::sync::Arc;
use std::time::Instant;

/// Checks that the master runs before it looks whether a block is ready for it.
const HELP_CHECKS: u32 = 8;

/// How a run over a branch has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum BranchEnd {
    /// All blocks are committed.
    Finished,
    /// The run is to stop here.
    Halted(Halt),
    /// A block cannot be connected: the best chain is another one now.
    Reselect,
}

/// Whether a run over a branch goes on.
type Step = ControlFlow<BranchEnd>;

/// Connects the blocks from the tip up to `target`. `start` is when the engine began to choose
/// branches.
pub(crate) fn connect<V: ScriptVerifier + 'static>(
    pipeline: &mut Pipeline<V>,
    run: &mut Run<'_>,
    target: BlockId,
    start: Instant,
) -> Result<BranchEnd, ConnectError> {
    let path = run.chain.path_to(target);
    run.reporter.telemetry.branch = Branch {
        start,
        best_height: run.chain.index().entry(target).height,
        bytes_remaining: path.iter().map(|&(_, bytes)| bytes).sum(),
    };
    let prefetcher = Prefetcher::new(&pipeline.loading, path, pipeline.prefetch_bounds());
    let mut branch = BranchRun {
        first_kept: first_kept(
            run.chain.index().entry(target).height,
            pipeline.settings.options.stop_at_height,
        ),
        pipeline,
        run,
        prefetcher,
    };
    let end = branch.connect();
    // Whatever happened: what is in flight is not verified.
    branch.pipeline.disconnect_in_flight()?;
    let counts = branch.pipeline.checks.signature_counts();
    branch.run.reporter.telemetry.totals.signatures = counts;
    end
}

/// A branch that is being connected.
struct BranchRun<'a, 'r, V: ScriptVerifier + 'static> {
    pipeline: &'a mut Pipeline<V>,
    run: &'a mut Run<'r>,
    prefetcher: Prefetcher<V>,
    /// The height from which blocks are retained.
    first_kept: u32,
}

impl<V: ScriptVerifier + 'static> BranchRun<'_, '_, V> {
    fn connect(&mut self) -> Result<BranchEnd, ConnectError> {
        // Without workers, this thread runs checks as it adds them, then loads the next block.
        let alone = self.pipeline.checks.workers() == 0;
        let mut idle = false;
        loop {
            if self.pipeline.in_flight.is_empty() && self.prefetcher.is_at_end() {
                return Ok(BranchEnd::Finished);
            }
            if let Some(halt) = self.pipeline.must_halt(self.run.chain) {
                return Ok(BranchEnd::Halted(halt));
            }
            self.pipeline.finish_flush_if_done(self.run)?;
            if self.pipeline.in_flight.is_first_done() {
                match self.commit_first()? {
                    Break(end) => return Ok(end),
                    Continue(()) => continue,
                }
            }
            // What gives up its slot in the check queue lets another block begin.
            self.pipeline.in_flight.end_rounds();
            let may_resolve = self.may_resolve();
            if may_resolve {
                // This thread checks scripts rather than wait for a block.
                let wait = self.pipeline.in_flight.is_empty() || alone || std::mem::take(&mut idle);
                match self.resolve_next(wait)? {
                    Some(Break(end)) => return Ok(end),
                    Some(Continue(())) => {
                        self.count_queues();
                        continue;
                    }
                    None => {}
                }
            }
            if self.pipeline.in_flight.help(HELP_CHECKS) || self.pipeline.in_flight.end_first_round() {
                continue;
            }
            // Only deferred checks remain. They wait for more signatures while blocks can come.
            if may_resolve {
                idle = !self.pipeline.verify_some(self.run.reporter.telemetry);
            } else if let Break(end) = self.commit_first()? {
                return Ok(end);
            }
        }
    }

    /// Whether another block may be in flight.
    fn may_resolve(&self) -> bool {
        let pipeline = &self.pipeline;
        let height = self.run.chain.height() as usize + 1 + pipeline.in_flight.len();
        let limit = pipeline.settings.options.stop_at_height;
        if self.prefetcher.is_at_end() || limit.is_some_and(|limit| height > limit as usize) {
            return false;
        }
        let room = pipeline.in_flight.len() < pipeline.settings.in_flight_max()
            && pipeline.in_flight.rounds() + pipeline.settings.windows.blocks_min <= ROUNDS_IN_FLIGHT_MAX
            && pipeline.in_flight_memory() < pipeline.plan.in_flight_bytes;
        // With nothing in flight the next block comes, however large.
        pipeline.in_flight.is_empty() || (room && !pipeline.flusher.is_due(&pipeline.cache))
    }

    /// Resolves the next blocks, if they are loaded and their coins are fetched, or if `wait` says
    /// to wait for that.
    fn resolve_next(&mut self, wait: bool) -> Result<Option<Step>, ConnectError> {
        let mut blocks = next_blocks(self.pipeline, self.run, &mut self.prefetcher, wait, HELP_CHECKS);
        // One that is not sound comes by itself.
        if let Some(unsound) = blocks.pop_if(|last| !last.is_sound()) {
            return self.end_at(unsound).map(Some);
        }
        let Some(first) = blocks.first() else {
            return Ok(None);
        };
        let id = first.request.id;
        match put_in_flight(self.pipeline, self.run, blocks)? {
            Put::InFlight => {}
            Put::OneByOne(blocks) => self.prefetcher.give_back(blocks),
            Put::Rejected(reject) => {
                let position = self.run.chain.index().entry(id).position();
                return self.reject_above_all(id, reject, position).map(Some);
            }
        }
        Ok(Some(Continue(())))
    }

    fn count_queues(&mut self) {
        let (requested, loaded, memory) = self.prefetcher.depths();
        let memory = memory + self.pipeline.in_flight_memory();
        let in_flight = self.pipeline.in_flight.len();
        self.run.reporter.telemetry.queues(requested, loaded, in_flight, memory);
    }

    /// Ends the run at a block that is not sound.
    fn end_at(&mut self, block: PrefetchedBlock) -> Result<Step, ConnectError> {
        let id = block.request.id;
        match block.content {
            Content::Sound(_) => unreachable!("a sound block is resolved"),
            Content::Rejected(reject, position) => self.reject_above_all(id, reject, position),
            Content::Unreadable(unreadable) => {
                if let Break(end) = self.commit_all()? {
                    return Ok(Break(end));
                }
                self.run.reporter.unreadable(unreadable);
                self.run.chain.forget_content(id);
                Ok(Break(BranchEnd::Reselect))
            }
        }
    }

    /// Reports a rejected block once all blocks in flight are committed. One of them may be rejected
    /// too, and then the report names that one.
    fn reject_above_all(
        &mut self,
        id: BlockId,
        reject: Reject,
        position: Option<Position>,
    ) -> Result<Step, ConnectError> {
        if let Break(end) = self.commit_all()? {
            return Ok(Break(end));
        }
        Ok(self.reject(id, reject, position))
    }

    /// Waits for the checks of all blocks in flight and commits them.
    fn commit_all(&mut self) -> Result<Step, ConnectError> {
        while !self.pipeline.in_flight.is_empty() {
            if let Some(halt) = self.pipeline.must_halt(self.run.chain) {
                return Ok(Break(BranchEnd::Halted(halt)));
            }
            if let Break(end) = self.commit_first()? {
                return Ok(Break(end));
            }
        }
        Ok(Continue(()))
    }

    /// Waits for the first block's checks and commits it, or disconnects it and all above it.
    fn commit_first(&mut self) -> Result<Step, ConnectError> {
        let Some(first) = self.pipeline.in_flight.first_mut() else {
            return Ok(Continue(()));
        };
        let (id, block) = (first.id, Arc::clone(&first.block));
        if let Some(result) = first.finish() {
            let telemetry = &mut *self.run.reporter.telemetry;
            telemetry.add_stage(Stage::Check, result.busy, result.wait);
            if let Some(CheckFailure { input, error }) = result.failure {
                // The verifier itself failed, which says nothing about the block.
                if error != VerifyError::Invalid {
                    return Err(ConnectError::Verifier {
                        hash: block.hash(),
                        detail: error.to_string(),
                    });
                }
                self.pipeline.disconnect_in_flight()?;
                let (transaction, input) = block.locate_input(input);
                let reject = SCRIPT_FAILED.in_transaction(transaction).at_input(input);
                let position = self.run.chain.index().entry(id).position();
                return Ok(self.reject(id, reject, position));
            }
        }
        self.commit()?;
        // A flush freezes the whole cache, so all of it must be verified.
        if self.pipeline.in_flight.is_empty() {
            self.pipeline.flush_if_due(self.run)?;
        }
        let Run { chain, reporter, .. } = &mut *self.run;
        let entry = chain.index().entry(id);
        let bytes = entry.block_length();
        reporter.progress(chain.height(), entry.time, bytes, &self.pipeline.cache_state());
        Ok(Continue(()))
    }

    /// Keeps the undo data of the first block in flight and moves the tip to it.
    fn commit(&mut self) -> Result<(), ConnectError> {
        let start = Instant::now();
        let (pipeline, run) = (&mut *self.pipeline, &mut *self.run);
        let Some(first) = pipeline.in_flight.first_mut() else {
            return Ok(());
        };
        // Before the tip moves: whatever is flushed can be disconnected.
        let undo = keep_and_write_undo(run, first, self.first_kept)?;
        run.chain.connect(first.id, undo);
        pipeline.flusher.note_tip_moved();
        let committed = Committed {
            height: run.chain.height(),
            transactions: first.block.transaction_count(),
            inputs: first.undo.coins().len(),
            bytes: first.block.bytes().len(),
            signatures: first.signatures,
        };
        run.reporter.observer.event(&Event::Connected(&BlockChange {
            height: committed.height,
            block: &first.block,
            undo: &first.undo,
        }));
        pipeline.in_flight.pop_first();
        let telemetry = &mut *run.reporter.telemetry;
        telemetry.committed(&committed, pipeline.checks.signature_counts(), &pipeline.cache_state());
        telemetry.stage_done(Stage::Commit, committed.height, start);
        Ok(())
    }

    /// Reports a rejected block. The best chain is another one now.
    fn reject(&mut self, id: BlockId, reject: Reject, position: Option<Position>) -> Step {
        let Run { chain, reporter, .. } = &mut *self.run;
        let kind = reject.kind;
        reporter.rejected(chain.rejected(id, reject, position));
        chain.reject(id, kind);
        Break(BranchEnd::Reselect)
    }
}
