//! What the engine did, in figures.

use crate::report::stages::Stages;
use blockmill_coins::CacheCounters;
use blockmill_fetch::Statistics;
use blockmill_rules::SignatureCounts;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// What was read ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FetchTotals {
    /// What the fetcher has done.
    pub reads: Statistics,
    /// Coins that the cache took of it.
    pub taken: u64,
}

/// How many there were in a queue, each time that it was looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Depth {
    looks: u64,
    sum: u64,
    max: u64,
}

impl Depth {
    pub(crate) fn add(&mut self, depth: usize) {
        self.looks += 1;
        self.sum += depth as u64;
        self.max = self.max.max(depth as u64);
    }

    /// Takes off what was there `before`. The maximum stays.
    pub(super) fn subtract(&mut self, before: &Self) {
        self.looks -= before.looks;
        self.sum -= before.sum;
    }

    pub(super) fn raise(&mut self, other: u64) {
        self.max = self.max.max(other);
    }

    pub(super) fn clear_max(&mut self) {
        self.max = 0;
    }

    /// How many there were on average; 0 if nobody has looked.
    pub fn mean(&self) -> f64 {
        self.sum as f64 / self.looks.max(1) as f64
    }

    /// The most that there were.
    pub fn max(&self) -> u64 {
        self.max
    }
}

/// Blocks on their way, looked at whenever one has been resolved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QueueTotals {
    /// Blocks that were asked for and are not resolved.
    pub ahead: Depth,
    /// Those of them that are loaded.
    pub loaded: Depth,
    /// Blocks that are resolved and not committed.
    pub in_flight: Depth,
    /// Memory in bytes of all of them at the most, about.
    pub memory_max: usize,
}

/// The totals of an engine at its last [`Event::Progress`], for other threads. Clones share them.
///
/// [`Event::Progress`]: blockmill_chain::Event::Progress
#[derive(Debug, Clone, Default)]
pub struct LiveTotals(Arc<Mutex<Totals>>);

impl LiveTotals {
    /// The totals.
    pub fn get(&self) -> Totals {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set(&self, totals: &Totals) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = *totals;
    }
}

/// What the engine did, in all calls since it was opened. The table of figures must have each of
/// them.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Totals {
    /// Blocks connected.
    pub blocks: u64,
    /// Their transactions.
    pub transactions: u64,
    /// Their inputs, coinbases not counted.
    pub inputs: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Blocks disconnected.
    pub disconnected: u64,
    /// Blocks connected without running their scripts.
    pub scripts_skipped: u64,
    /// Windows of blocks that were rolled back, since something in them was not certain to be
    /// valid. Their blocks were then resolved one at a time.
    pub windows_rolled_back: u64,
    /// Look-ups in the coins cache.
    pub cache: CacheCounters,
    /// Coins read ahead.
    pub fetch: FetchTotals,
    /// Blocks on their way.
    pub queues: QueueTotals,
    /// Flushes.
    pub flushes: u64,
    /// Coins that flushes have written or removed.
    pub flush_changes: u64,
    /// How often connecting had to wait for one, as the cache was full.
    pub flush_waits: u64,
    /// How often a block waited a little for a flush to catch up, so that the cache need not be
    /// full before its end.
    pub flush_pauses: u64,
    /// Longest time that a flush has taken of the connecting thread, waiting included; the last
    /// one, which is waited for, is left out.
    pub flush_pause_max: Duration,
    /// Times of the stages.
    pub stages: Stages,
    /// How signatures were verified, counted by the verifier.
    pub signatures: SignatureCounts,
}
