//! The main job: index headers, connect the best chain, resume where it stopped.
//!
//! The way of a block, one after the other: read, decode, resolve, check, commit; and now and then a flush.
//! Resolve writes the coins cache before the block's scripts have run; when they fail, it is taken back with the undo data,
//! so that a flush only ever writes what is fully validated.

use crate::body::Body;
use crate::chain_log::ChainLog;
use crate::checks::CheckPool;
use crate::data_dir::{DataDir, file_error};
use crate::error::EngineError;
use crate::index::{BlockId, HeaderIndex, HeaderRefusal};
use crate::report::{ConnectReport, Halt, Leftover, Observer, Progress, Rejected, Totals, Unreadable};
use crate::resolve::{self, ResolveContext, ResolveError};
use crate::{Options, assume_valid};
use blockmill_block::files::{BlockFileWriter, BlockFiles, Damage, Position, Record};
use blockmill_block::{Block, BlockHash, BlockUndo};
use blockmill_coins::{CoinsCache, Tip};
use blockmill_rules::block::BlockFacts;
use blockmill_rules::flags::block_script_flags;
use blockmill_rules::spend::{SCRIPT_FAILED, enforces_bip30};
use blockmill_rules::{Reject, RejectKind, ScriptFlags, ScriptVerifier, VerifyError};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// A data directory with everything that connects blocks to it.
pub struct Engine<V: ScriptVerifier> {
    pub(crate) directory: DataDir,
    pub(crate) options: Options,
    pub(crate) index: HeaderIndex,
    pub(crate) files: BlockFiles,
    /// Writer of submitted blocks, once there was one.
    pub(crate) writer: Option<BlockFileWriter>,
    pub(crate) cache: CoinsCache,
    pub(crate) cache_limit: usize,
    pub(crate) log: ChainLog,
    pub(crate) verifier: Arc<V>,
    pub(crate) pool: CheckPool<V>,
    /// The active chain by height.
    pub(crate) active: Vec<BlockId>,
    pub(crate) last_flush: Instant,
    /// Whether the tip has moved since the last flush.
    pub(crate) changed: bool,
    pub(crate) totals: Totals,
    pub(crate) cache_coins_max: u64,
    pub(crate) cache_bytes_max: u64,
    pub(crate) rejected: Vec<Rejected>,
    pub(crate) unreadable: Vec<Unreadable>,
    /// What was last said about running scripts.
    pub(crate) script_note: Option<&'static str>,
}

/// What became of a block.
enum Outcome {
    Connected,
    Rejected(Reject, Option<Position>),
    Unreadable(Unreadable),
}

/// What the search of block files found besides blocks of the tree.
#[derive(Default)]
pub(crate) struct Indexed {
    damages: Vec<Damage>,
    leftovers: u64,
    first_leftover: Option<Leftover>,
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
        let indexed = self.index_sources(sources, observer)?;
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
            while self.tip() != fork {
                self.disconnect_tip()?;
            }
            let mut bytes_remaining = self.bytes_between(fork, target);
            while self.tip() != target {
                if self.options.stop.load(Ordering::Relaxed) {
                    return Ok(Halt::Stopped);
                }
                if self
                    .options
                    .stop_at_height
                    .is_some_and(|height| self.height() >= height)
                {
                    return Ok(Halt::HeightReached);
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
                        observer.message(&format!(
                            "{}: offset {}: block {} (height {}): {}",
                            unreadable.path.display(),
                            unreadable.offset,
                            unreadable.hash,
                            unreadable.height,
                            unreadable.detail
                        ));
                        self.unreadable.push(unreadable);
                        self.index.forget_content(next);
                        continue 'choose;
                    }
                }
                bytes_remaining = bytes_remaining.saturating_sub(self.totals.bytes - bytes_before);
                self.flush_if_due()?;
                observer.progress(&self.progress(start, target, bytes_remaining));
            }
        }
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
        };
        if let Some(reject) = self.check_scripts(id, &block, &undo, flags, observer)? {
            resolve::take_back(&block, &undo, block.transaction_count(), &mut self.cache)?;
            return Ok(Outcome::Rejected(reject, position));
        }
        self.commit(id, &block, &undo)?;
        Ok(Outcome::Connected)
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
        let fetching = (self.cache.store_time() - fetched_before).as_secs_f64();
        self.totals.stages.fetch.busy_seconds += fetching;
        self.totals.stages.resolve.busy_seconds += start.elapsed().as_secs_f64() - fetching;
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
        let result = self.pool.run(block, undo, flags);
        self.totals.stages.check.busy_seconds += result.busy_seconds;
        self.totals.stages.check.wait_seconds += result.wait_seconds;
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
        self.totals.stages.commit.add_busy(start);
        Ok(())
    }

    pub(crate) fn flush_if_due(&mut self) -> Result<(), EngineError> {
        if self.cache.bytes() > self.cache_limit || self.last_flush.elapsed() >= self.options.flush_interval {
            self.flush()?;
        }
        Ok(())
    }

    /// Writes everything up to the tip to the data directory, durably. The coins stay in the cache while there is room.
    ///
    /// # Errors
    /// Any [`EngineError`]; what was flushed before is kept.
    pub fn flush(&mut self) -> Result<(), EngineError> {
        let start = Instant::now();
        if self.changed {
            if let Some(writer) = &mut self.writer {
                writer.sync()?;
            }
            self.log.sync()?;
            let tip = self.stored_tip();
            let keep = self.cache.bytes() <= self.cache_limit;
            self.cache.flush(&tip, keep)?;
            self.changed = false;
            self.totals.flushes += 1;
        }
        self.last_flush = Instant::now();
        self.totals.stages.flush.add_busy(start);
        Ok(())
    }

    fn reject(&mut self, id: BlockId, reject: Reject, position: Option<Position>, observer: &mut dyn Observer) {
        let entry = self.index.entry(id);
        let rejected = self.rejected_block(entry.hash, entry.height, reject, position);
        observer.message(&format!(
            "{}: offset {}: block {} (height {}) is rejected: {}",
            rejected.path.display(),
            rejected.offset,
            rejected.hash,
            rejected.height,
            rejected.reject
        ));
        if rejected.reject.kind == RejectKind::Mutated {
            self.index.forget_content(id);
        } else {
            self.index.mark_failed(id);
        }
        self.rejected.push(rejected);
    }

    fn rejected_block(&self, hash: BlockHash, height: u32, reject: Reject, position: Option<Position>) -> Rejected {
        Rejected {
            hash,
            height,
            reject,
            path: position.map_or_else(PathBuf::new, |position| self.files.path(position.file).to_owned()),
            offset: position.map_or(0, |position| position.offset),
        }
    }

    /// Finds the blocks in `sources` and takes their headers into the index, in whatever order they come.
    pub(crate) fn index_sources(
        &mut self,
        sources: &[PathBuf],
        observer: &mut dyn Observer,
    ) -> Result<Indexed, EngineError> {
        let first = self.files.len() as u32;
        for source in sources {
            self.files.add(source)?;
        }
        let last = self.files.len() as u32;
        let magic = self.index.params().magic();
        let mut indexed = Indexed::default();
        let mut records = Vec::new();
        for file in first..last {
            let scan = self.files.scan(file, magic)?;
            records.extend(scan.records);
            for damage in &scan.damages {
                observer.message(&damage.to_string());
            }
            indexed.damages.extend(scan.damages);
            observer.indexed((file - first + 1) as usize, (last - first) as usize, records.len());
        }
        self.index_records(&records, &mut indexed, observer);
        Ok(indexed)
    }

    /// Takes records into the index: each as soon as its parent is there, ties by the order of the records.
    fn index_records(&mut self, records: &[Record], indexed: &mut Indexed, observer: &mut dyn Observer) {
        let now = clock();
        let mut waiting: HashMap<BlockHash, Vec<usize>> = HashMap::new();
        for number in 0..records.len() {
            let mut ready = vec![number];
            while let Some(number) = ready.pop() {
                let record = &records[number];
                match self.index.accept_header(&record.header, record.hash, now) {
                    Ok(_) => ready.extend(waiting.remove(&record.hash).unwrap_or_default()),
                    Err(HeaderRefusal::MissingParent) => {
                        waiting.entry(record.header.prev_block_hash).or_default().push(number);
                    }
                    Err(HeaderRefusal::Invalid(reject)) => self.refuse_header(record, reject, observer),
                }
            }
        }
        for record in records {
            if let Some(id) = self.index.find(&record.hash) {
                self.index.add_position(id, record.position);
            }
        }
        indexed.leftovers = waiting.values().map(|numbers| numbers.len() as u64).sum();
        if let Some(&number) = waiting.values().flatten().min() {
            let record = &records[number];
            indexed.first_leftover = Some(Leftover {
                hash: record.hash,
                parent: record.header.prev_block_hash,
                path: self.files.path(record.position.file).to_owned(),
                offset: record.position.offset,
            });
        }
    }

    fn refuse_header(&mut self, record: &Record, reject: Reject, observer: &mut dyn Observer) {
        let parent = self.index.find(&record.header.prev_block_hash);
        let height = parent.map_or(0, |parent| self.index.entry(parent).height + 1);
        let rejected = self.rejected_block(record.hash, height, reject, Some(record.position));
        observer.message(&format!(
            "{}: offset {}: header of block {} is rejected: {}",
            rejected.path.display(),
            rejected.offset,
            rejected.hash,
            rejected.reject
        ));
        self.rejected.push(rejected);
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

    /// Opens the writer of submitted blocks, behind the last whole record.
    pub(crate) fn writer(&mut self) -> Result<&mut BlockFileWriter, EngineError> {
        if self.writer.is_none() {
            let directory = self.directory.file("blocks");
            std::fs::create_dir_all(&directory).map_err(file_error(&directory))?;
            let writer = BlockFileWriter::resume(&directory, self.index.params().magic(), &self.files)?;
            self.writer = Some(writer);
        }
        match &mut self.writer {
            Some(writer) => Ok(writer),
            None => unreachable!("the writer was opened above"),
        }
    }
}

/// Seconds since 1970.
pub(crate) fn clock() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |elapsed| i64::try_from(elapsed.as_secs()).unwrap_or(i64::MAX))
}
