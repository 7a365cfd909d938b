//! The main job: index headers, connect the best chain, resume where it stopped.
//!
//! The way of a block: it is read and decoded ahead by all threads (`ahead`), resolved by this one,
//! in order, and its scripts are checked by all, while this thread resolves the next. There are
//! two tips. The active tip is fully verified. Above it are the blocks *in flight*: applied to the
//! cache, scripts still running. A block is committed when its checks have passed and all before
//! it are committed. If one fails, or if the run stops, the blocks in flight are taken back with
//! their undo data, the last one first.
//!
//! A flush freezes the cache when no block is in flight, so it only ever writes what is fully
//! validated.

use crate::Options;
use crate::chain::assume_valid;
use crate::chain::import::{FirstSeen, Indexed};
use crate::chain::index::{BlockId, HeaderIndex};
use crate::datadir::DataDir;
use crate::datadir::chain_log::ChainLog;
use crate::error::EngineError;
use crate::pipeline::checks::CheckPool;
use crate::pipeline::flush::FlushPace;
use crate::pipeline::in_flight::InFlight;
use crate::pipeline::load::{BlockLoader, Body};
use crate::pipeline::prefetch::{self, Bounds, Loading, PrefetchedBlock, Prefetcher};
use crate::pipeline::resolve::{self, ResolveContext, ResolveError};
use crate::pipeline::signatures::{SignatureRanges, SignatureWay};
use crate::report::events::Event;
use crate::report::trace::Trace;
use crate::report::{ConnectReport, Halt, Observer, Progress, Rejected, Stage, Totals, Unreadable};
use blockmill_block::coin::Coin;
use blockmill_block::{Block, BlockHash, BlockUndo, OutPoint};
use blockmill_blockfiles::{BlockFileWriter, Position, Record};
use blockmill_coins::{CoinsCache, FlushEpoch, Tip};
use blockmill_fetch::Fetcher;
use blockmill_pool::ThreadPool;
use blockmill_rules::block::BlockFacts;
use blockmill_rules::flags::block_script_flags;
use blockmill_rules::spend::{SCRIPT_FAILED, enforces_bip30};
use blockmill_rules::{Reject, RejectKind, ScriptFlags, ScriptVerifier, VerifyError};
use blockmill_workqueue::WorkQueue;
use std::collections::{HashMap, VecDeque};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Most blocks in flight.
const IN_FLIGHT_MAX: usize = 256;

/// Most of them that have checks in the check queue.
const ROUNDS_IN_FLIGHT_MAX: usize = blockmill_checkqueue::ROUNDS_MAX / 2;

/// Blocks that are loaded ahead take at most this fraction of the memory for coins, and those in
/// flight as much.
const BLOCKS_SHARE: usize = 16;

/// The least that this may come to in bytes, and the most.
const BLOCKS_BYTES: RangeInclusive<usize> = 12 << 20..=48 << 20;

/// Checks that the master runs before it looks whether a block is ready for it.
const HELP_CHECKS: u32 = 8;

/// A data directory with everything that connects blocks to it.
pub struct Engine<V: ScriptVerifier + 'static> {
    pub(crate) directory: DataDir,
    pub(crate) options: Options,
    pub(crate) index: HeaderIndex,
    pub(crate) loader: Arc<BlockLoader<V>>,
    pub(crate) loading: WorkQueue<Loading<V>>,
    /// What was found amiss among the submitted blocks when the engine was opened, until it is
    /// reported.
    pub(crate) own_blocks: Indexed,
    /// Blocks kept in the data directory whose parents are not known, by parent: a parent of which
    /// only a wrong body had come.
    pub(crate) orphans: HashMap<BlockHash, Vec<Record>>,
    /// Writer of submitted blocks, once there was one.
    pub(crate) writer: Option<BlockFileWriter>,
    pub(crate) cache: CoinsCache,
    pub(crate) log: ChainLog,
    pub(crate) pool: CheckPool<V>,
    pub(crate) fetcher: Fetcher,
    /// The active chain by height.
    pub(crate) active: Vec<BlockId>,
    /// Resolved blocks above the tip, in order.
    pub(crate) in_flight: VecDeque<InFlight<V>>,
    pub(crate) last_flush: Instant,
    pub(crate) flush_pace: FlushPace,
    /// Whether the tip has moved since the last flush.
    pub(crate) changed: bool,
    /// Whether an error has left the cache in between two blocks.
    pub(crate) broken: bool,
    pub(crate) totals: Totals,
    pub(crate) cache_coins_max: u64,
    pub(crate) cache_bytes_max: u64,
    pub(crate) rejected: Vec<Rejected>,
    pub(crate) unreadable: Vec<Unreadable>,
    /// What was last said about running scripts.
    pub(crate) script_note: Option<&'static str>,
    /// Whether it was last said that signatures are verified in lanes.
    pub(crate) signature_note: bool,
    /// How the signatures of blocks connected since the engine was opened were verified.
    pub(crate) signature_ranges: SignatureRanges,
    /// What was found wrong with the undo data, and not told yet.
    pub(crate) undo_problem: Option<String>,
    pub(crate) trace: Trace,
    /// The threads beside the caller's. They end when all that they serve is gone.
    pub(crate) _thread_pool: ThreadPool,
}

/// A branch that is being connected.
struct BranchRun<'a> {
    target: BlockId,
    start: Instant,
    bytes_remaining: u64,
    observer: &'a mut dyn Observer,
}

/// What became of the blocks in flight.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Checked {
    Passed,
    /// One was rejected, and none is in flight any more.
    Rejected,
}

impl<V: ScriptVerifier + 'static> Engine<V> {
    /// Indexes the blocks in `sources` (directories of `blk*.dat`, or single files), connects the
    /// best chain and flushes. Blocks that break a rule are left out with all that builds on them,
    /// and reported.
    ///
    /// # Errors
    /// Any [`EngineError`]. What was flushed before is kept.
    pub fn connect(&mut self, sources: &[PathBuf], observer: &mut dyn Observer) -> Result<ConnectReport, EngineError> {
        let start = Instant::now();
        let start_height = self.height();
        let totals_before = self.totals.take_maxima();
        let cache_before = self.cache.counters();
        (self.cache_coins_max, self.cache_bytes_max) = (0, 0);
        self.signature_ranges = SignatureRanges::default();
        self.tell_undo_problem(observer);
        let mut indexed = self.index_sources(sources, FirstSeen::ByPlace, observer)?;
        let mut own = std::mem::take(&mut self.own_blocks);
        own.leftovers = self.adopt_known_orphans(observer);
        own.first_leftover = own.first_leftover.filter(|_| own.leftovers > 0);
        indexed.merge(own);
        self.check_genesis(observer);
        self.last_flush = Instant::now();
        let halt = match indexed.stopped {
            true => Halt::Stopped,
            false => self.activate_best_chain(observer)?,
        };
        self.flush()?;
        self.tell_flushes(observer);
        self.trace.drain(|thread, span| observer.span(thread, span));
        let totals = self.totals.since(&totals_before);
        self.totals.raise_maxima(&totals_before);
        Ok(ConnectReport {
            network: self.index.params().network.name(),
            tip: self.tip_hash(),
            height: self.height(),
            start_height,
            totals,
            seconds: start.elapsed().as_secs_f64(),
            signatures: self.signature_ranges.clone(),
            cache: self.cache.counters().since(&cache_before),
            cache_coins_max: self.cache_coins_max,
            cache_bytes_max: self.cache_bytes_max,
            rejected: std::mem::take(&mut self.rejected),
            unreadable: std::mem::take(&mut self.unreadable),
            damages: indexed.damages,
            leftovers: indexed.leftovers,
            left_out: indexed.left_out,
            first_leftover: indexed.first_leftover,
            halt,
        })
    }

    /// Makes the chain with the most work the active one, as far as it is valid.
    pub(crate) fn activate_best_chain(&mut self, observer: &mut dyn Observer) -> Result<Halt, EngineError> {
        let start = Instant::now();
        loop {
            let target = self.index.best_candidate();
            let fork = self.index.fork(self.tip_id(), target);
            if target == self.tip_id() || self.index.entry(target).work < self.index.entry(self.tip_id()).work {
                return Ok(Halt::Finished);
            }
            if let Some(halt) = self.must_halt() {
                return Ok(halt);
            }
            while self.tip_id() != fork {
                self.disconnect_tip(observer)?;
            }
            let path = self.path_to(target);
            let mut run = BranchRun {
                target,
                start,
                bytes_remaining: path.iter().map(|block| block.1).sum(),
                observer,
            };
            // Without workers a block that is loaded early only goes cold; but reads of its coins
            // may be under way meanwhile.
            let one_by_one = self.options.without.decode || (self.pool.workers() == 0 && !self.should_fetch());
            let bounds = Bounds {
                blocks: if one_by_one { 1 } else { prefetch::BLOCKS_MAX },
                memory: self.blocks_memory(),
            };
            let mut ahead = Prefetcher::new(&self.loading, path, bounds);
            let followed = self.connect_branch(&mut ahead, &mut run);
            // Whatever happened: what is in flight is not verified.
            self.disconnect_in_flight()?;
            self.totals.signatures = self.pool.signature_counts();
            if let Some(halt) = followed? {
                return Ok(halt);
            }
        }
    }

    /// The blocks from the tip up to one above it, with their sizes; the next one last.
    fn path_to(&self, target: BlockId) -> Vec<(BlockId, u64)> {
        let mut path = Vec::new();
        let mut next = Some(target);
        while let Some(id) = next.filter(|&id| id != self.tip_id()) {
            let entry = self.index.entry(id);
            path.push((id, entry.block_length()));
            next = entry.parent;
        }
        path
    }

    /// Connects the blocks of a branch one after the other, until its end, or a reason to halt, or
    /// a block that is not what it should be: then none of them is left for this branch, and the
    /// best chain is to be chosen again.
    fn connect_branch(
        &mut self,
        ahead: &mut Prefetcher<V>,
        run: &mut BranchRun<'_>,
    ) -> Result<Option<Halt>, EngineError> {
        // Alone this thread runs checks when it adds them, and has nothing better to do than to
        // load the next block.
        let alone = self.pool.workers() == 0;
        let mut idle = false;
        loop {
            if self.in_flight.is_empty() && ahead.is_at_end() {
                return Ok(None);
            }
            if let Some(halt) = self.must_halt() {
                return Ok(Some(halt));
            }
            if self.cache.is_flush_done() {
                self.finish_flush()?;
            }
            if self.in_flight.front_mut().is_some_and(InFlight::is_done) {
                if self.commit_first(run)? == Checked::Rejected {
                    return Ok(None);
                }
                continue;
            }
            self.end_rounds();
            let may_resolve = self.may_resolve(ahead);
            if may_resolve {
                ahead.request_more(|id| self.load_request(id));
                // Rather than wait for a block this thread checks scripts.
                let wait = self.in_flight.is_empty() || alone || std::mem::take(&mut idle);
                let window = self.prefetch_limits();
                if let Some(coming) = ahead.next(wait, window, |task, loaded| self.begin_fetches(task, loaded)) {
                    let PrefetchedBlock { task, loaded, fetches } = coming;
                    self.record_load_times(&loaded.stages);
                    self.let_flush_catch_up();
                    let absent_at = self.finish_fetches(task.height, fetches.unwrap_or_default());
                    if !self.resolve_next(task.id, loaded.body, absent_at, run)? {
                        return Ok(None);
                    }
                    self.count_queues(ahead);
                    continue;
                }
            }
            if self.help_with_checks() || self.in_flight.front_mut().is_some_and(InFlight::end_round) {
                continue;
            }
            // What is left was put off. As long as blocks can come, it waits for more signatures to
            // be settled with.
            if may_resolve {
                idle = !self.settle_some();
            } else if self.commit_first(run)? == Checked::Rejected {
                return Ok(None);
            }
        }
    }

    fn must_halt(&self) -> Option<Halt> {
        if self.options.stop.load(Ordering::Relaxed) {
            return Some(Halt::Stopped);
        }
        let limit = self.options.stop_at_height?;
        (self.height() >= limit).then_some(Halt::HeightReached)
    }

    /// Whether another block may be in flight.
    fn may_resolve(&self, ahead: &Prefetcher<V>) -> bool {
        let height = self.active.len() + self.in_flight.len();
        if ahead.is_at_end() || self.options.stop_at_height.is_some_and(|limit| height > limit as usize) {
            return false;
        }
        let rounds = self.in_flight.iter().filter(|block| block.is_in_round()).count();
        let room = self.in_flight.len() < IN_FLIGHT_MAX && rounds < ROUNDS_IN_FLIGHT_MAX;
        let room = room && self.in_flight_memory() < self.blocks_memory();
        let room = room && !self.options.without.overlap;
        self.in_flight.is_empty() || (room && !self.flush_is_due())
    }

    /// Memory in bytes that the blocks ahead may take, and those in flight as well; one more block
    /// begins below that.
    fn blocks_memory(&self) -> usize {
        (self.cache.limit() / BLOCKS_SHARE).clamp(*BLOCKS_BYTES.start(), *BLOCKS_BYTES.end())
    }

    /// Memory in bytes of the blocks in flight, and of their signature checks that are put off,
    /// about.
    fn in_flight_memory(&self) -> usize {
        let blocks: usize = self.in_flight.iter().map(|block| block.memory).sum();
        blocks + self.pool.deferred_memory()
    }

    /// Looks how many blocks are where.
    fn count_queues(&mut self, ahead: &Prefetcher<V>) {
        let (asked, loaded, memory) = ahead.depths();
        let memory = memory + self.in_flight_memory();
        let queues = &mut self.totals.queues;
        queues.ahead.add(asked);
        queues.loaded.add(loaded);
        queues.in_flight.add(self.in_flight.len());
        queues.memory_max = queues.memory_max.max(memory);
    }

    /// Takes the next block of the branch in: resolves it and lets its checks begin. Returns false
    /// if it cannot be connected.
    fn resolve_next(
        &mut self,
        id: BlockId,
        body: Body,
        absent_at: Option<FlushEpoch>,
        run: &mut BranchRun<'_>,
    ) -> Result<bool, EngineError> {
        let (reject, position) = match body {
            Body::Sound(block, facts) => {
                let position = self.index.entry(id).position();
                let flags = block_script_flags(self.index.params(), self.index.entry(id).height, &block.hash());
                match self.resolve(id, &block, &facts, flags, absent_at) {
                    Ok((undo, replaced)) => {
                        self.begin_checks(id, block, undo, replaced, flags, run.observer);
                        return Ok(true);
                    }
                    Err(ResolveError::Reject(reject)) => (reject, position),
                    Err(ResolveError::Store(error)) => return Err(error.into()),
                    Err(ResolveError::Broken(error)) => {
                        self.broken = true;
                        return Err(error.into());
                    }
                }
            }
            Body::Rejected(reject, position) => (reject, position),
            Body::Unreadable(unreadable) => {
                if self.commit_all(run)? {
                    run.observer.event(&Event::Unreadable(&unreadable));
                    self.unreadable.push(unreadable);
                    self.index.forget_content(id);
                }
                return Ok(false);
            }
        };
        // One of the blocks before it may be rejected too, and then that is the one to be named.
        if self.commit_all(run)? {
            self.reject(id, reject, position, run.observer);
        }
        Ok(false)
    }

    /// Runs some checks of the oldest block that has any left. Returns false if none has.
    pub(crate) fn help_with_checks(&self) -> bool {
        self.in_flight.iter().any(|block| block.help(HELP_CHECKS) > 0)
    }

    /// Settles a part of the signature checks that are put off. Returns false if there are too few
    /// to fill the lanes.
    pub(crate) fn settle_some(&mut self) -> bool {
        let settled = self.pool.settle_some();
        if let Some(busy) = settled {
            self.totals.stages.add(Stage::Check, busy, Duration::ZERO);
        }
        settled.is_some()
    }

    /// Lets blocks whose checks have all been run give up their places in the check queue, the
    /// oldest ones first.
    fn end_rounds(&mut self) {
        let _ = self.in_flight.iter_mut().all(InFlight::end_round_if_done);
    }

    /// Waits for the checks of all blocks in flight and commits them. Returns false if one was
    /// rejected, or if it is time to halt.
    fn commit_all(&mut self, run: &mut BranchRun<'_>) -> Result<bool, EngineError> {
        while !self.in_flight.is_empty() {
            if self.must_halt().is_some() || self.commit_first(run)? == Checked::Rejected {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Waits for the checks of the first block in flight, and commits it; if one has failed it and
    /// all above it are taken back.
    fn commit_first(&mut self, run: &mut BranchRun<'_>) -> Result<Checked, EngineError> {
        let Some(first) = self.in_flight.front_mut() else {
            return Ok(Checked::Passed);
        };
        let (id, block) = (first.id, Arc::clone(&first.block));
        if let Some(result) = first.finish() {
            self.totals.stages.add(Stage::Check, result.busy, result.wait);
            if let Some(failure) = result.failure {
                if failure.error != VerifyError::Invalid {
                    return Err(EngineError::Verifier {
                        hash: block.hash(),
                        detail: failure.error.to_string(),
                    });
                }
                self.disconnect_in_flight()?;
                let (transaction, input) = block.locate_input(failure.input);
                let reject = SCRIPT_FAILED.in_transaction(transaction).at_input(input);
                let position = self.index.entry(id).position();
                self.reject(id, reject, position, run.observer);
                return Ok(Checked::Rejected);
            }
        }
        self.commit()?;
        if self.in_flight.is_empty() {
            self.flush_if_due()?;
        }
        run.bytes_remaining = run.bytes_remaining.saturating_sub(self.index.entry(id).block_length());
        self.tell_flushes(run.observer);
        self.trace.drain(|thread, span| run.observer.span(thread, span));
        run.observer
            .progress(&self.progress(run.start, run.target, run.bytes_remaining));
        run.observer.totals(&self.totals, &self.cache.counters());
        Ok(Checked::Passed)
    }

    /// Takes all blocks in flight out of the cache again, the last one first. Checks that have not
    /// begun are not run.
    fn disconnect_in_flight(&mut self) -> Result<(), EngineError> {
        if self.in_flight.is_empty() {
            return Ok(());
        }
        while let Some(block) = self.in_flight.pop_back() {
            let InFlight {
                block,
                undo,
                replaced,
                checks,
                ..
            } = block;
            drop(checks);
            self.disconnect(&block, &undo)?;
            resolve::put_back(&replaced, &mut self.cache);
        }
        self.pool.settle_abandoned();
        Ok(())
    }

    /// Takes a block out of the cache again. If that fails, nothing can be flushed any more.
    pub(crate) fn disconnect(&mut self, block: &Block, undo: &BlockUndo) -> Result<bool, EngineError> {
        let taken_back = resolve::disconnect(block, undo, block.transaction_count(), &mut self.cache);
        self.broken |= taken_back.is_err();
        Ok(taken_back?)
    }

    /// Spends and creates the block's coins in the cache. Returns the coins that it spends, and
    /// those that it replaces.
    fn resolve(
        &mut self,
        id: BlockId,
        block: &Block,
        facts: &BlockFacts,
        flags: ScriptFlags,
        absent_at: Option<FlushEpoch>,
    ) -> Result<(BlockUndo, Vec<(OutPoint, Coin)>), ResolveError> {
        let start = Instant::now();
        let fetched_before = self.cache.store_time();
        let params = self.index.params();
        let height = self.index.entry(id).height;
        let replaced = if params.bip30_exceptions.contains(&(height, block.hash())) {
            resolve::replaced_coins(block, &mut self.cache)?
        } else {
            Vec::new()
        };
        // The chain of the block: the active one, and the blocks in flight.
        let (active, in_flight) = (&self.active, &self.in_flight);
        let ancestor = |height: usize| match height.checked_sub(active.len()) {
            None => active.get(height).copied(),
            Some(above) => in_flight.get(above).map(|block| block.id),
        };
        let median_time_past =
            |height: u32| ancestor(height as usize).map_or(0, |id| self.index.entry(id).median_time_past);
        let context = ResolveContext {
            params,
            height,
            flags,
            enforce_bip30: self.enforces_bip30(id),
            absent_at,
            parent_median_time_past: median_time_past(height - 1),
            median_time_past: &median_time_past,
            legacy_sigops: &facts.legacy_sigops,
        };
        let outcome = resolve::apply(block, &context, &mut self.cache);
        if outcome.is_err() {
            resolve::put_back(&replaced, &mut self.cache);
        }
        let fetching = self.cache.store_time() - fetched_before;
        self.stage_done(Stage::Resolve, height, start + fetching);
        self.totals.stages.add(Stage::Fetch, fetching, Duration::ZERO);
        Ok((outcome?, replaced))
    }

    /// Whether a block may not make coins that are there already.
    pub(crate) fn enforces_bip30(&self, id: BlockId) -> bool {
        let (params, entry) = (self.index.params(), self.index.entry(id));
        // As Core asks, of the parent: the block at that height itself is looked at once more.
        let parent = entry.parent.unwrap_or(id);
        let bip34_block = self.index.ancestor(parent, params.heights.height_in_coinbase);
        let bip34_hash = bip34_block.map(|id| self.index.entry(id).hash);
        enforces_bip30(params, entry.height, &entry.hash, bip34_hash.as_ref())
    }

    /// Lets the block's scripts be run, unless its chain is assumed valid.
    fn begin_checks(
        &mut self,
        id: BlockId,
        block: Arc<Block>,
        undo: BlockUndo,
        replaced: Vec<(OutPoint, Coin)>,
        flags: ScriptFlags,
        observer: &mut dyn Observer,
    ) {
        let height = self.index.entry(id).height;
        let note = assume_valid::reason_to_check(&self.index, id, self.options.assume_valid.as_ref());
        if self.options.assume_valid.is_some() && self.script_note != Some(note.unwrap_or("")) {
            self.script_note = Some(note.unwrap_or(""));
            observer.event(&match note {
                Some(reason) => Event::ScriptsChecked { height, reason },
                None => Event::ScriptsSkipped { height },
            });
        }
        let undo = Arc::new(undo);
        let signatures =
            note.map(|_| SignatureWay::of(&self.index, id, self.options.signatures, self.pool.can_defer()));
        if let Some(way) = signatures.filter(|way| way.lanes != self.signature_note) {
            self.signature_note = way.lanes;
            observer.event(&Event::Signatures { height, way });
        }
        let checks = signatures.map(|way| self.pool.begin(&block, &undo, flags, height, way.lanes));
        self.in_flight.push_back(InFlight {
            id,
            memory: InFlight::<V>::memory_of(&block, &undo),
            block,
            undo,
            replaced,
            signatures,
            checks,
        });
    }

    /// Keeps the undo data of the first block in flight and moves the tip to it.
    fn commit(&mut self) -> Result<(), EngineError> {
        let start = Instant::now();
        let Some(first) = self.in_flight.front() else {
            return Ok(());
        };
        let position = self.log.append(first.block.header(), &first.undo)?;
        self.index.set_undo(first.id, position);
        self.active.push(first.id);
        self.changed = true;
        self.totals.blocks += 1;
        self.totals.transactions += first.block.transaction_count() as u64;
        self.totals.inputs += first.undo.coins().len() as u64;
        self.totals.bytes += first.block.bytes().len() as u64;
        self.totals.scripts_skipped += u64::from(first.signatures.is_none());
        self.totals.signatures = self.pool.signature_counts();
        if let Some(way) = first.signatures {
            self.signature_ranges.add(self.active.len() as u32 - 1, way);
        }
        self.in_flight.pop_front();
        self.cache_coins_max = self.cache_coins_max.max(self.cache.len() as u64);
        self.cache_bytes_max = self.cache_bytes_max.max(self.cache.bytes() as u64);
        self.stage_done(Stage::Commit, self.height(), start);
        Ok(())
    }

    /// Counts the time since `start` for a stage of this thread.
    pub(crate) fn stage_done(&mut self, stage: Stage, height: u32, start: Instant) {
        let end = Instant::now();
        self.totals
            .stages
            .add(stage, end.saturating_duration_since(start), Duration::ZERO);
        self.trace.add(stage, height, start, end);
    }

    fn reject(&mut self, id: BlockId, reject: Reject, position: Option<Position>, observer: &mut dyn Observer) {
        let entry = self.index.entry(id);
        let rejected = self.rejected_block(entry.hash, entry.height, reject, position);
        observer.event(&Event::Rejected(&rejected));
        if rejected.reject.kind == RejectKind::Mutated {
            self.index.forget_content(id);
        } else {
            self.index.mark_failed(id);
        }
        self.rejected.push(rejected);
    }

    pub(crate) fn rejected_block(
        &self,
        hash: BlockHash,
        height: u32,
        reject: Reject,
        position: Option<Position>,
    ) -> Rejected {
        Rejected {
            hash,
            height,
            reject,
            path: position.map_or_else(PathBuf::new, |position| {
                self.loader.files().path(position.file).to_owned()
            }),
            offset: position.map_or(0, |position| position.offset),
            of_best_chain: true,
        }
    }

    fn progress(&self, start: Instant, target: BlockId, bytes_remaining: u64) -> Progress {
        Progress {
            height: self.height(),
            best_height: self.index.entry(target).height,
            blocks: self.totals.blocks,
            transactions: self.totals.transactions,
            inputs: self.totals.inputs,
            bytes: self.totals.bytes,
            bytes_remaining,
            cache_coins: self.cache.len() as u64,
            cache_bytes: self.cache.bytes() as u64,
            elapsed: start.elapsed(),
        }
    }

    /// The tip of the active chain.
    pub(crate) fn tip_id(&self) -> BlockId {
        self.active.last().copied().unwrap_or(self.index.genesis())
    }

    /// Hash of the tip.
    pub fn tip_hash(&self) -> BlockHash {
        self.index.entry(self.tip_id()).hash
    }

    /// Height of the tip.
    pub fn height(&self) -> u32 {
        self.index.entry(self.tip_id()).height
    }

    /// The tip in the form of the store.
    pub fn tip(&self) -> Tip {
        Tip {
            hash: self.tip_hash(),
            height: self.height(),
        }
    }

    /// What was done since the engine was opened.
    pub fn totals(&self) -> &Totals {
        &self.totals
    }

    /// The coins at the tip.
    pub fn coins(&self) -> &CoinsCache {
        &self.cache
    }

    /// The data directory.
    pub fn directory(&self) -> &DataDir {
        &self.directory
    }
}
