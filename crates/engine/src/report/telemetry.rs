//! Where the engine gathers what it reports: totals, findings, spans, and what the observer was
//! last told.

use crate::report::stages::Stage;
use crate::report::totals::{FetchTotals, LiveTotals, Totals};
use crate::report::trace::Trace;
use blockmill_chain::index::HeaderIndex;
use blockmill_chain::report::events::Observer;
use blockmill_chain::report::events::{BlockChange, Event, Flushed, Progress};
use blockmill_chain::report::findings::{ImportFindings, Rejected, Unreadable};
use blockmill_chain::report::signatures::{SignatureRanges, SignatureWay};
use blockmill_coins::{CacheCounters, FlushCounters};
use blockmill_fetch::Statistics;
use blockmill_rules::SignatureCounts;
use std::time::{Duration, Instant};

/// Everything that is counted or noted.
#[derive(Debug, Default)]
pub(crate) struct Telemetry {
    pub(crate) totals: Totals,
    /// The totals for other threads.
    pub(crate) live: LiveTotals,
    pub(crate) trace: Trace,
    pub(crate) branch: Branch,
    cache_coins_max: u64,
    cache_bytes_max: u64,
    rejected: Vec<Rejected>,
    unreadable: Vec<Unreadable>,
    /// How many of them are of the directory's own blocks, at the beginning.
    own: FindingsMark,
    /// Flushes that have ended and that no observer has heard of.
    flushed: Vec<Flushed>,
    /// What the observer last heard about running scripts.
    scripts: Option<Option<&'static str>>,
    /// Bytes of the active chain's blocks.
    pub(crate) chain_bytes: u64,
    /// Whether the observer last heard that signatures are verified in lanes.
    lanes: bool,
    /// How the signatures of blocks connected in this run were verified.
    signatures: SignatureRanges,
}

/// The branch that is being connected.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Branch {
    /// When the engine began to choose a branch.
    pub(crate) start: Instant,
    /// Height of its last block.
    pub(crate) best_height: u32,
    /// Bytes of its blocks that are not connected.
    pub(crate) bytes_remaining: u64,
}

/// Share of something that is done; all of nothing.
fn share(done: u64, remaining: u64) -> f64 {
    match done + remaining {
        0 => 1.0,
        all => done as f64 / all as f64,
    }
}

impl Default for Branch {
    fn default() -> Self {
        Self {
            start: Instant::now(),
            best_height: 0,
            bytes_remaining: 0,
        }
    }
}

/// A block that was committed, in figures.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Committed {
    pub(crate) height: u32,
    pub(crate) transactions: usize,
    /// The coinbase's input is not counted.
    pub(crate) inputs: usize,
    pub(crate) bytes: usize,
    /// None if its scripts were not run.
    pub(crate) signatures: Option<SignatureWay>,
}

/// The cache at one moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CacheState {
    pub(crate) coins: u64,
    pub(crate) bytes: u64,
    pub(crate) counters: CacheCounters,
}

/// What one run came to.
pub(crate) struct RunFigures {
    pub(crate) totals: Totals,
    pub(crate) signatures: SignatureRanges,
    pub(crate) cache_coins_max: u64,
    pub(crate) cache_bytes_max: u64,
    pub(crate) rejected: Vec<Rejected>,
    pub(crate) unreadable: Vec<Unreadable>,
}

impl Telemetry {
    pub(crate) fn new(trace: Trace) -> Self {
        Self {
            trace,
            ..Self::default()
        }
    }

    /// Begins a run. The totals so far are for [`end_run`](Self::end_run).
    pub(crate) fn begin_run(&mut self, cache: CacheCounters) -> Totals {
        self.totals.cache = cache;
        (self.cache_coins_max, self.cache_bytes_max) = (0, 0);
        self.signatures = SignatureRanges::default();
        self.totals.take_maxima()
    }

    /// Ends the run that began when the totals were `before`, and hands out its findings.
    pub(crate) fn end_run(&mut self, before: &Totals, cache: CacheCounters) -> RunFigures {
        self.totals.cache = cache;
        let totals = self.totals.since(before);
        // The run has begun all maxima anew. The totals keep the larger ones.
        self.totals.raise_maxima(before);
        self.own = FindingsMark::default();
        RunFigures {
            totals,
            signatures: self.signatures.clone(),
            cache_coins_max: self.cache_coins_max,
            cache_bytes_max: self.cache_bytes_max,
            rejected: std::mem::take(&mut self.rejected),
            unreadable: std::mem::take(&mut self.unreadable),
        }
    }

    /// Notes that no branch above this height is known. Times count from the last one.
    pub(crate) fn end_branch(&mut self, height: u32) {
        self.branch.best_height = height;
        self.branch.bytes_remaining = 0;
    }

    /// Adds the time that a stage took, and the time that this thread waited for it.
    pub(crate) fn add_stage(&mut self, stage: Stage, busy: Duration, wait: Duration) {
        self.totals.stages.add(stage, busy, wait);
    }

    /// Adds the time since `start` to a stage of this thread.
    pub(crate) fn stage_done(&mut self, stage: Stage, height: u32, start: Instant) {
        let end = Instant::now();
        self.add_stage(stage, end.saturating_duration_since(start), Duration::ZERO);
        self.trace.add(stage, height, start, end);
    }

    /// Notes that coins fetched for a block have come: how long this thread waited from `start` on,
    /// what all reads so far came to, and how many coins the cache has taken.
    pub(crate) fn fetched(&mut self, height: u32, start: Instant, waited: Duration, reads: Statistics, taken: u64) {
        let fetch = &mut self.totals.fetch;
        // `reads` counts all reads so far, those for later blocks included.
        let busy = reads.time - fetch.reads.time;
        *fetch = FetchTotals {
            reads,
            taken: fetch.taken + taken,
        };
        self.totals.stages.add(Stage::Fetch, busy, waited);
        self.trace.add(Stage::Fetch, height, start + waited, Instant::now());
    }

    /// Notes how many blocks are where, and the memory of all of them in bytes.
    pub(crate) fn queues(&mut self, ahead: usize, loaded: usize, in_flight: usize, memory: usize) {
        let queues = &mut self.totals.queues;
        queues.ahead.add(ahead);
        queues.loaded.add(loaded);
        queues.in_flight.add(in_flight);
        queues.memory_max = queues.memory_max.max(memory);
    }

    /// Notes that a block was committed.
    pub(crate) fn committed(&mut self, block: &Committed, counts: SignatureCounts, cache: &CacheState) {
        self.totals.blocks += 1;
        self.totals.transactions += block.transactions as u64;
        self.totals.inputs += block.inputs as u64;
        self.totals.bytes += block.bytes as u64;
        self.totals.scripts_skipped += u64::from(block.signatures.is_none());
        self.totals.signatures = counts;
        if let Some(way) = block.signatures {
            self.signatures.add(block.height, way);
        }
        self.cache_coins_max = self.cache_coins_max.max(cache.coins);
        self.cache_bytes_max = self.cache_bytes_max.max(cache.bytes);
    }

    /// Notes that a flush has ended, or a wait for one. `flushed` is what it wrote, if it
    /// succeeded; `done` is the difference in the cache's counters.
    pub(crate) fn flush_ended(&mut self, done: &FlushCounters, flushed: Option<Flushed>, waited: Duration) {
        self.flushed.extend(flushed);
        self.totals.flushes += done.flushes;
        self.totals.flush_changes += done.changes;
        self.totals.stages.add(Stage::Flush, done.time, waited);
    }

    /// Notes that a block waited a little for a flush.
    pub(crate) fn flush_paused(&mut self, waited: Duration) {
        self.totals.flush_pauses += 1;
        self.flush_held_up(waited);
        self.totals.stages.add(Stage::Flush, Duration::ZERO, waited);
    }

    /// Notes how long a flush has held up the connecting thread.
    pub(crate) fn flush_held_up(&mut self, time: Duration) {
        self.totals.flush_pause_max = self.totals.flush_pause_max.max(time);
    }

    /// Reports the flushes that have ended and were not reported.
    pub(crate) fn report_flushes(&mut self, observer: &mut dyn Observer) {
        for flushed in self.flushed.drain(..) {
            observer.event(&Event::Flushed(&flushed));
        }
    }

    /// As [`take_findings`](Self::take_findings), for the directory's own blocks, before all
    /// others.
    pub(crate) fn take_own_findings(&mut self, findings: &mut ImportFindings) {
        if !findings.rejected.is_empty() || !findings.unreadable.is_empty() {
            self.take_findings(findings);
            self.own = self.mark();
        }
    }

    /// Forgets the findings that another import of the same files makes again: all but those of the
    /// directory's own blocks, and blocks that have failed.
    pub(crate) fn begin_again(&mut self, index: &HeaderIndex) {
        let own = self.own.rejected.min(self.rejected.len());
        let mut others = self.rejected.split_off(own);
        others.retain(|rejected| index.find(&rejected.hash).is_some_and(|id| index.entry(id).failed));
        self.rejected.append(&mut others);
        self.unreadable.truncate(self.own.unreadable);
    }

    /// Takes the blocks over that an import found wrong. The observer has heard of them.
    pub(crate) fn take_findings(&mut self, findings: &mut ImportFindings) {
        self.rejected.append(&mut findings.rejected);
        self.unreadable.append(&mut findings.unreadable);
    }

    /// The present number of findings.
    pub(crate) fn mark(&self) -> FindingsMark {
        FindingsMark {
            rejected: self.rejected.len(),
            unreadable: self.unreadable.len(),
        }
    }

    fn progress(&self, height: u32, tip_time: u32, cache: &CacheState) -> Progress {
        Progress {
            share: share(self.chain_bytes, self.branch.bytes_remaining),
            height,
            tip_time,
            best_height: self.branch.best_height,
            blocks: self.totals.blocks,
            transactions: self.totals.transactions,
            inputs: self.totals.inputs,
            bytes: self.totals.bytes,
            bytes_remaining: self.branch.bytes_remaining,
            cache_coins: cache.coins,
            cache_bytes: cache.bytes,
            elapsed: self.branch.start.elapsed(),
        }
    }
}

/// How many findings there are at one moment.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct FindingsMark {
    rejected: usize,
    unreadable: usize,
}

/// The telemetry, and who hears of it.
pub(crate) struct Reporter<'a> {
    pub(crate) telemetry: &'a mut Telemetry,
    pub(crate) observer: &'a mut dyn Observer,
}

impl Reporter<'_> {
    /// Reports a rejected block.
    pub(crate) fn rejected(&mut self, rejected: Rejected) {
        self.observer.event(&Event::Rejected(&rejected));
        self.telemetry.rejected.push(rejected);
    }

    /// Reports a block whose content cannot be used.
    pub(crate) fn unreadable(&mut self, unreadable: Unreadable) {
        self.observer.event(&Event::Unreadable(&unreadable));
        self.telemetry.unreadable.push(unreadable);
    }

    /// The blocks rejected since a mark.
    pub(crate) fn rejected_since(&self, mark: FindingsMark) -> &[Rejected] {
        &self.telemetry.rejected[mark.rejected..]
    }

    /// Drops the findings since a mark: the caller's answer has them, and no later report does.
    pub(crate) fn forget_since(&mut self, mark: FindingsMark) {
        self.telemetry.rejected.truncate(mark.rejected);
        self.telemetry.unreadable.truncate(mark.unreadable);
    }

    /// Reports why scripts run from this height on, or that they do not, if that has changed.
    pub(crate) fn scripts(&mut self, height: u32, reason: Option<&'static str>) {
        if self.telemetry.scripts.replace(reason) != Some(reason) {
            self.observer.event(&match reason {
                Some(reason) => Event::ScriptsChecked { height, reason },
                None => Event::ScriptsSkipped { height },
            });
        }
    }

    /// Reports how signatures are verified from this height on, if that has changed.
    pub(crate) fn signatures(&mut self, height: u32, way: SignatureWay) {
        if std::mem::replace(&mut self.telemetry.lanes, way.lanes) != way.lanes {
            self.observer.event(&Event::Signatures { height, way });
        }
    }

    /// Reports that a block was disconnected.
    pub(crate) fn disconnected(&mut self, change: &BlockChange<'_>) {
        self.telemetry.signatures.cut(change.height);
        self.telemetry.totals.disconnected += 1;
        self.observer.event(&Event::Disconnected(change));
    }

    /// Reports how far the branch is, after a block of `bytes` bytes was committed.
    pub(crate) fn progress(&mut self, height: u32, tip_time: u32, bytes: u64, cache: &CacheState) {
        let branch = &mut self.telemetry.branch;
        branch.bytes_remaining = branch.bytes_remaining.saturating_sub(bytes);
        self.telemetry.chain_bytes += bytes;
        self.telemetry.totals.cache = cache.counters;
        self.telemetry.live.set(&self.telemetry.totals);
        self.telemetry.report_flushes(self.observer);
        let progress = self.telemetry.progress(height, tip_time, cache);
        self.observer.event(&Event::Progress(&progress));
    }
}
