//! The main job: index headers, connect the best chain, resume where it stopped.
//!
//! The way of a block, one after the other: read, decode, resolve, check, commit; and now and then a flush.
//! Resolve writes the coins cache before the block's scripts have run; when they fail, it is taken back with the undo data,
//! so that a flush only ever writes what is fully validated.

use crate::body::Body;
use crate::chain_log::ChainLog;
use crate::checks::CheckPool;
use crate::data_dir::DataDir;
use crate::error::EngineError;
use crate::index::{BlockId, HeaderIndex};
use crate::report::{ConnectReport, Halt, Observer, Progress, Rejected, Span, Stage, Totals, Unreadable};
use crate::resolve::{self, ResolveContext, ResolveError};
use crate::sources::{FirstSeen, Indexed};
use crate::{Options, assume_valid};
use blockmill_block::files::{BlockFileWriter, BlockFiles, Position};
use blockmill_block::{Block, BlockHash, BlockUndo};
use blockmill_coins::{CoinsCache, FlushError, StoreError, Tip};
use blockmill_rules::block::BlockFacts;
use blockmill_rules::flags::block_script_flags;
use blockmill_rules::spend::{SCRIPT_FAILED, enforces_bip30};
use blockmill_rules::{Reject, RejectKind, ScriptFlags, ScriptVerifier, VerifyError};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// A data directory with everything that connects blocks to it.
pub struct Engine<V: ScriptVerifier + 'static> {
    pub(crate) directory: DataDir,
    pub(crate) options: Options,
    pub(crate) index: HeaderIndex,
    pub(crate) files: BlockFiles,
    /// What was found amiss among the submitted blocks when the engine was opened, until it is reported.
    pub(crate) own_blocks: Indexed,
    /// Writer of submitted blocks, once there was one.
    pub(crate) writer: Option<BlockFileWriter>,
    pub(crate) cache: CoinsCache,
    pub(crate) log: ChainLog,
    pub(crate) verifier: Arc<V>,
    pub(crate) pool: CheckPool<V>,
    /// The active chain by height.
    pub(crate) active: Vec<BlockId>,
    pub(crate) last_flush: Instant,
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
    /// What was done since the observer was last told.
    pub(crate) spans: Vec<Span>,
}

/// What became of a block.
enum Outcome {
    Connected,
    Rejected(Reject, Option<Position>),
    Unreadable(Unreadable),
}

impl<V: ScriptVerifier + 'static> Engine<V> {
    /// Indexes the blocks in `sources` (directories of `blk*.dat`, or single files), connects the best chain and flushes.
    /// Blocks that break a rule are left out with all that builds on them, and reported.
    ///
    /// # Errors
    /// Any [`EngineError`]. What was flushed before is kept.
    pub fn connect(&mut self, sources: &[PathBuf], observer: &mut dyn Observer) -> Result<ConnectReport, EngineError> {
        let start = Instant::now();
        let start_height = self.height();
        let mut indexed = self.index_sources(sources, FirstSeen::ByPlace, observer)?;
        indexed.merge(std::mem::take(&mut self.own_blocks));
        self.check_genesis(observer)?;
        self.last_flush = Instant::now();
        let halt = self.activate_best_chain(observer)?;
        self.flush()?;
        Ok(ConnectReport {
            network: self.index.params().network.name(),
            tip: self.tip_hash(),
            height: self.height(),
            start_height,
            totals: self.totals.clone(),
            seconds: start.elapsed().as_secs_f64(),
            cache: self.cache.counters(),
            cache_coins_max: self.cache_coins_max,
            cache_bytes_max: self.cache_bytes_max,
            rejected: self.rejected.clone(),
            unreadable: self.unreadable.clone(),
            damages: indexed.damages,
            leftovers: indexed.leftovers,
            first_leftover: indexed.first_leftover,
            halt,
        })
    }

    /// Makes the chain with the most work the active one, as far as it is valid.
    pub(crate) fn activate_best_chain(&mut self, observer: &mut dyn Observer) -> Result<Halt, EngineError> {
        let start = Instant::now();
        'choose: loop {
            let target = self.index.best_candidate();
            let fork = self.index.fork(self.tip(), target);
            if target == self.tip() || self.index.entry(target).work < self.index.entry(self.tip()).work {
                return Ok(Halt::Finished);
            }
            if let Some(halt) = self.must_halt() {
                return Ok(halt);
            }
            while self.tip() != fork {
                self.disconnect_tip()?;
            }
            let mut bytes_remaining = self.bytes_between(fork, target);
            while self.tip() != target {
                if let Some(halt) = self.must_halt() {
                    return Ok(halt);
                }
                let Some(next) = self.index.ancestor(target, self.height() + 1) else {
                    break;
                };
                let bytes_before = self.totals.bytes;
                match self.connect_block(next, observer)? {
                    Outcome::Connected => {}
                    Outcome::Rejected(reject, position) => {
                        self.reject(next, reject, position, observer);
                        continue 'choose;
                    }
                    Outcome::Unreadable(unreadable) => {
                        observer.message(&unreadable.to_string());
                        self.unreadable.push(unreadable);
                        self.index.forget_content(next);
                        continue 'choose;
                    }
                }
                bytes_remaining = bytes_remaining.saturating_sub(self.totals.bytes - bytes_before);
                self.flush_if_due()?;
                for span in self.spans.drain(..) {
                    observer.span(&span);
                }
                observer.progress(&self.progress(start, target, bytes_remaining));
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

    /// Connects a child of the tip.
    fn connect_block(&mut self, id: BlockId, observer: &mut dyn Observer) -> Result<Outcome, EngineError> {
        let (block, facts) = match self.load_body(id)? {
            Body::Sound(block, facts) => (Arc::new(*block), facts),
            Body::Rejected(reject, position) => return Ok(Outcome::Rejected(reject, position)),
            Body::Unreadable(unreadable) => return Ok(Outcome::Unreadable(unreadable)),
        };
        let position = self.index.entry(id).positions.first().copied();
        let flags = block_script_flags(self.index.params(), self.index.entry(id).height, &block.hash());
        let undo = match self.resolve(id, &block, &facts, flags) {
            Ok(undo) => Arc::new(undo),
            Err(ResolveError::Reject(reject)) => return Ok(Outcome::Rejected(reject, position)),
            Err(ResolveError::Store(error)) => return Err(error.into()),
            Err(ResolveError::Broken(error)) => {
                self.broken = true;
                return Err(error.into());
            }
        };
        let checked = match self.check_scripts(id, &block, &undo, flags, observer) {
            Ok(None) => self.commit(id, &block, &undo).map(|()| None),
            other => other,
        };
        if !matches!(checked, Ok(None)) {
            self.take_back(&block, &undo)?;
        }
        Ok(match checked? {
            None => Outcome::Connected,
            Some(reject) => Outcome::Rejected(reject, position),
        })
    }

    /// Takes a block out of the cache again. If that fails, nothing can be flushed any more.
    pub(crate) fn take_back(&mut self, block: &Block, undo: &BlockUndo) -> Result<bool, EngineError> {
        let taken_back = resolve::take_back(block, undo, block.transaction_count(), &mut self.cache);
        self.broken |= taken_back.is_err();
        Ok(taken_back?)
    }

    /// Spends and creates the block's coins in the cache.
    fn resolve(
        &mut self,
        id: BlockId,
        block: &Block,
        facts: &BlockFacts,
        flags: ScriptFlags,
    ) -> Result<BlockUndo, ResolveError> {
        let start = Instant::now();
        let fetched_before = self.cache.store_time();
        let params = self.index.params();
        let height = self.index.entry(id).height;
        let bip34_block = self.active.get(params.heights.height_in_coinbase as usize);
        let bip34_hash = bip34_block.map(|&id| self.index.entry(id).hash);
        let median_time_past = |height: u32| match self.active.get(height as usize) {
            Some(&id) => self.index.entry(id).median_time_past,
            None => 0,
        };
        let context = ResolveContext {
            params,
            height,
            flags,
            enforce_bip30: enforces_bip30(params, height, &block.hash(), bip34_hash.as_ref()),
            parent_median_time_past: median_time_past(height - 1),
            median_time_past: &median_time_past,
            legacy_sigops: &facts.legacy_sigops,
        };
        let outcome = resolve::apply(block, &context, &mut self.cache);
        let fetching = self.cache.store_time() - fetched_before;
        self.stage_done(Stage::Resolve, height, start + fetching);
        self.totals.stages.add(Stage::Fetch, fetching, Duration::ZERO);
        outcome
    }

    /// Runs the block's scripts, unless its chain is assumed valid. Returns a refusal if one fails.
    fn check_scripts(
        &mut self,
        id: BlockId,
        block: &Arc<Block>,
        undo: &Arc<BlockUndo>,
        flags: ScriptFlags,
        observer: &mut dyn Observer,
    ) -> Result<Option<Reject>, EngineError> {
        let note = assume_valid::reason_to_check(&self.index, id, self.options.assume_valid.as_ref());
        if self.options.assume_valid.is_some() && self.script_note != Some(note.unwrap_or("")) {
            self.script_note = Some(note.unwrap_or(""));
            let height = self.index.entry(id).height;
            observer.message(&match note {
                Some(reason) => format!("scripts are checked from height {height} on: {reason}"),
                None => format!("scripts are not checked from height {height} on: the chain is assumed valid"),
            });
        }
        if note.is_none() {
            self.totals.scripts_skipped += 1;
            return Ok(None);
        }
        let start = Instant::now();
        let result = self.pool.run(block, undo, flags);
        self.span(Stage::Check, self.index.entry(id).height, start);
        self.totals.stages.add(Stage::Check, result.busy, result.wait);
        match result.failure {
            None => Ok(None),
            Some(failure) if failure.error == VerifyError::Invalid => {
                let (transaction, input) = block.locate_input(failure.input);
                Ok(Some(SCRIPT_FAILED.in_transaction(transaction).at_input(input)))
            }
            Some(failure) => Err(EngineError::Verifier {
                hash: block.hash(),
                detail: failure.error.to_string(),
            }),
        }
    }

    /// Keeps the undo data and moves the tip.
    fn commit(&mut self, id: BlockId, block: &Block, undo: &BlockUndo) -> Result<(), EngineError> {
        let start = Instant::now();
        let position = self.log.append(block.header(), undo)?;
        self.index.set_undo(id, position);
        self.active.push(id);
        self.changed = true;
        self.totals.blocks += 1;
        self.totals.transactions += block.transaction_count() as u64;
        self.totals.inputs += undo.coins().len() as u64;
        self.totals.bytes += block.bytes().len() as u64;
        self.cache_coins_max = self.cache_coins_max.max(self.cache.len() as u64);
        self.cache_bytes_max = self.cache_bytes_max.max(self.cache.bytes() as u64);
        self.stage_done(Stage::Commit, self.height(), start);
        Ok(())
    }

    /// Begins a flush in the background if it is time for one. Waits for it only if the cache is full, or if every block is to be flushed.
    pub(crate) fn flush_if_due(&mut self) -> Result<(), EngineError> {
        let start = Instant::now();
        if self.cache.is_flush_done() {
            self.finish_flush()?;
        }
        let due = self.cache.wants_flush() || self.last_flush.elapsed() >= self.options.flush_interval;
        if self.options.flush_interval.is_zero() {
            return self.flush();
        }
        if due && !self.cache.is_flushing() {
            self.begin_flush()?;
        }
        if self.cache.is_flushing() && self.cache.is_full() {
            self.finish_flush()?;
            self.totals.flush_waits += 1;
        }
        self.totals.flush_pause_max = self.totals.flush_pause_max.max(start.elapsed());
        Ok(())
    }

    /// Freezes everything up to the tip and lets it be written.
    fn begin_flush(&mut self) -> Result<(), EngineError> {
        self.prepare_flush()?;
        if self.changed || self.cache.wants_flush() {
            let sync = self.log.sync_job();
            let tip = self.stored_tip();
            self.cache.begin_flush(&tip, move || sync().map_err(Into::into))?;
            self.changed = false;
        }
        Ok(())
    }

    /// Does what comes before a flush, on this thread.
    fn prepare_flush(&mut self) -> Result<(), EngineError> {
        if self.broken {
            let detail = "an earlier error has left the coins cache unusable; nothing after the last flush is kept";
            return Err(StoreError::Backend(detail.to_owned()).into());
        }
        if let Some(writer) = &mut self.writer {
            writer.sync()?;
        }
        self.last_flush = Instant::now();
        Ok(())
    }

    /// Waits for the flush that goes on, if there is one.
    fn finish_flush(&mut self) -> Result<(), EngineError> {
        self.wait_for_flush(CoinsCache::finish_flush)
    }

    fn wait_for_flush(
        &mut self,
        wait: impl FnOnce(&mut CoinsCache) -> Result<(), FlushError>,
    ) -> Result<(), EngineError> {
        let start = Instant::now();
        let before = self.cache.flush_counters();
        let outcome = wait(&mut self.cache);
        self.changed |= outcome.is_err();
        let after = self.cache.flush_counters();
        self.totals.flushes += after.flushes - before.flushes;
        self.totals.flush_changes += after.changes - before.changes;
        self.span(Stage::Flush, self.height(), start);
        self.totals
            .stages
            .add(Stage::Flush, after.time - before.time, start.elapsed());
        Ok(outcome?)
    }

    /// Writes everything up to the tip to the data directory, durably. The coins stay in the cache while there is room.
    ///
    /// # Errors
    /// Any [`EngineError`]; what was flushed before is kept.
    pub fn flush(&mut self) -> Result<(), EngineError> {
        self.finish_flush()?;
        self.prepare_flush()?;
        if self.changed {
            let sync = self.log.sync_job();
            let tip = self.stored_tip();
            self.changed = false;
            self.wait_for_flush(|cache| cache.flush(&tip, move || sync().map_err(Into::into)))?;
        }
        Ok(())
    }

    /// Counts the time since `start` for a stage.
    pub(crate) fn stage_done(&mut self, stage: Stage, height: u32, start: Instant) {
        self.totals.stages.add(stage, start.elapsed(), Duration::ZERO);
        self.span(stage, height, start);
    }

    fn span(&mut self, stage: Stage, height: u32, start: Instant) {
        if self.options.trace {
            let end = Instant::now();
            self.spans.push(Span {
                stage,
                height,
                start,
                end,
            });
        }
    }

    fn reject(&mut self, id: BlockId, reject: Reject, position: Option<Position>, observer: &mut dyn Observer) {
        let entry = self.index.entry(id);
        let rejected = self.rejected_block(entry.hash, entry.height, reject, position);
        observer.message(&rejected.to_string());
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
            path: position.map_or_else(PathBuf::new, |position| self.files.path(position.file).to_owned()),
            offset: position.map_or(0, |position| position.offset),
        }
    }

    /// Bytes of the blocks above `fork` up to `target`.
    fn bytes_between(&self, fork: BlockId, target: BlockId) -> u64 {
        let mut bytes = 0;
        let mut next = Some(target);
        while let Some(id) = next.filter(|&id| id != fork) {
            let entry = self.index.entry(id);
            bytes += entry.positions.first().map_or(0, |position| u64::from(position.length));
            next = entry.parent;
        }
        bytes
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
    pub(crate) fn tip(&self) -> BlockId {
        self.active.last().copied().unwrap_or(self.index.genesis())
    }

    /// Hash of the tip.
    pub fn tip_hash(&self) -> BlockHash {
        self.index.entry(self.tip()).hash
    }

    /// Height of the tip.
    pub fn height(&self) -> u32 {
        self.index.entry(self.tip()).height
    }

    /// The tip in the form of the store.
    pub fn stored_tip(&self) -> Tip {
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
