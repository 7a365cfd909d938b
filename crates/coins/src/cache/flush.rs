//! A flush: a thread that writes the frozen changes, and then promotes frozen coins to live
//! entries.

use super::{DIRTY, FRESH, STORED, USED};
use crate::flush_epoch::FlushClock;
use crate::store::{Before, Change, Changes, CoinStore, StoreError, Tip};
use blockmill_coinmap::{CoinMap, EntryFlags, EntryRef, HashKey, SHARDS, SortedEntries};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use thiserror::Error;

/// Bytes of an entry's word in the index, with the index's free memory.
const WORD_BYTES: usize = 11;

/// Why a flush failed.
#[derive(Debug, Error)]
pub enum FlushError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The work before the commit failed.
    #[error("{0}")]
    Before(Box<dyn std::error::Error + Send + Sync>),
    /// The store, or the work before the commit, panicked.
    #[error("the flush panicked: {0}")]
    Panicked(String),
    /// The system cannot start a thread.
    #[error("thread of the flush: {0}")]
    Thread(std::io::Error),
}

/// The work of a flush.
pub(super) struct FlushJob {
    pub(super) store: Arc<dyn CoinStore>,
    pub(super) frozen: Arc<CoinMap>,
    pub(super) live: Arc<CoinMap>,
    pub(super) clock: FlushClock,
    pub(super) tip: Tip,
    /// Number of dirty entries.
    pub(super) dirty: usize,
    /// Bytes that the live entries may have after promotion.
    pub(super) keep_bytes: usize,
    /// Whether the frozen map thaws: it becomes the live map again. Only if nothing changes above
    /// it meanwhile.
    pub(super) thaws: bool,
}

/// Outpoints that a flush has changed in the store. An earlier read of one of them is stale.
#[derive(Debug)]
pub(super) struct Changed {
    key: HashKey,
    /// Hashes of the outpoints, sorted. If two outpoints have one hash, both count as changed,
    /// which does no harm.
    hashes: Vec<u64>,
}

impl Changed {
    fn new(key: HashKey) -> Self {
        Self {
            key,
            hashes: Vec::new(),
        }
    }

    /// Adds the outpoint of a dirty entry.
    fn add(&mut self, entry: EntryRef<'_>) {
        // The store had nothing under a fresh coin's outpoint, so nobody can have read it.
        if !entry.flags().has(FRESH) {
            self.hashes.push(self.key.hash(&entry.outpoint()));
        }
    }

    /// To be called when all outpoints are added.
    fn sort(&mut self) {
        self.hashes.shrink_to_fit();
        self.hashes.sort_unstable();
    }

    /// Whether an outpoint with this hash is among them.
    pub(super) fn may_contain(&self, hash: u64) -> bool {
        self.hashes.binary_search(&hash).is_ok()
    }

    /// Memory in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.hashes.capacity() * size_of::<u64>()
    }
}

/// The result of a flush.
#[derive(Debug)]
pub(super) struct FlushDone {
    pub(super) changes: u64,
    pub(super) kept: u64,
    pub(super) time: Duration,
    pub(super) thaws: bool,
    pub(super) changed: Changed,
}

/// A running flush.
#[derive(Debug)]
pub(super) struct Flush {
    frozen: Arc<CoinMap>,
    /// Number of dirty entries when it began.
    dirty: usize,
    /// None after the join.
    thread: Option<JoinHandle<Result<FlushDone, FlushError>>>,
}

impl Flush {
    /// Starts the thread.
    pub(super) fn begin(
        job: FlushJob,
        before: impl FnOnce() -> Result<(), Box<dyn std::error::Error + Send + Sync>> + Send + 'static,
    ) -> Result<Self, FlushError> {
        let (frozen, dirty) = (Arc::clone(&job.frozen), job.dirty);
        let thread = std::thread::Builder::new()
            .name("flush".to_owned())
            .spawn(move || {
                let start = Instant::now();
                // Undo data must be durable before the store has a coin that it may have to take
                // back.
                before().map_err(FlushError::Before)?;
                let mut ranks = Ranks::default();
                let (changes, changed) = job.write(&mut ranks)?;
                let kept = if job.thaws {
                    job.keep_unspent()
                } else {
                    job.promote(&ranks)
                };
                Ok(FlushDone {
                    changes,
                    kept,
                    time: start.elapsed(),
                    thaws: job.thaws,
                    changed,
                })
            })
            .map_err(FlushError::Thread)?;
        Ok(Self {
            frozen,
            dirty,
            thread: Some(thread),
        })
    }

    /// The frozen entries. Promotion empties the map.
    pub(super) fn frozen(&self) -> &Arc<CoinMap> {
        &self.frozen
    }

    /// Memory in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.frozen.bytes() + SortedEntries::bytes_for(self.frozen.len().min(self.dirty))
    }

    /// Whether [`finish`](Self::finish) would not wait.
    pub(super) fn is_done(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Waits for the end.
    pub(super) fn finish(mut self) -> (Arc<CoinMap>, Result<FlushDone, FlushError>) {
        let outcome = match self.thread.take().map(JoinHandle::join) {
            Some(Ok(outcome)) => outcome,
            Some(Err(panic)) => {
                // A panic with a literal, or with a text that was formatted.
                let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
                let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
                Err(FlushError::Panicked(text.unwrap_or_else(|| "no message".to_owned())))
            }
            None => unreachable!("a flush is ended once"),
        };
        (Arc::clone(&self.frozen), outcome)
    }
}

impl Drop for Flush {
    /// No thread of a cache outlives the cache.
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            // Nobody is left to hear how the flush ended.
            let _ = thread.join();
        }
    }
}

/// The dirty entries of the frozen map.
struct DirtyEntries(SortedEntries);

impl Changes for DirtyEntries {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn parts(&self) -> usize {
        self.0.parts()
    }

    fn visit(&self, part: usize, each: &mut dyn FnMut(Change<'_>)) {
        self.0.visit(part, |entry| {
            let before = if entry.flags().has(FRESH) {
                Before::Nothing
            } else if entry.flags().has(STORED) {
                Before::Coin
            } else {
                Before::Unknown
            };
            // The script stays in the map's memory: no coin is copied.
            let outpoint = entry.outpoint();
            entry.with_coin(|coin| each(Change { outpoint, coin, before }));
        });
    }
}

impl FlushJob {
    /// Writes the changes. Returns their number, and what they have changed.
    fn write(&self, ranks: &mut Ranks) -> Result<(u64, Changed), StoreError> {
        let mut changed = Changed::new(*self.frozen.hash_key());
        // The one pass over all entries.
        let dirty = |entry: EntryRef<'_>| {
            ranks.add(entry);
            let is_dirty = entry.flags().has(DIRTY);
            if is_dirty {
                changed.add(entry);
            }
            is_dirty
        };
        let changes = DirtyEntries(SortedEntries::new(Arc::clone(&self.frozen), self.dirty, dirty));
        self.store.commit(&changes, &self.tip)?;
        // The new epoch begins before the first marker goes: see the rule of resurrection.
        self.clock.advance();
        // Nobody asks for it before the flush is finished.
        changed.sort();
        Ok((changes.len() as u64, changed))
    }

    /// Keeps the frozen coins as entries that the store has too, and drops the spent ones.
    fn keep_unspent(&self) -> u64 {
        self.frozen
            .retain_with_flags(|entry| (!entry.is_spent()).then_some(EntryFlags::NONE));
        self.frozen.len() as u64
    }

    /// Promotes frozen coins while there is budget, and drops the rest. Coins that were asked for
    /// come first, then the youngest.
    fn promote(&self, ranks: &Ranks) -> u64 {
        // The map has grown since the flush began: its new entries count, too.
        let (oldest, mut budget) = ranks.choose(self.keep_bytes.saturating_sub(self.live.bytes()));
        let mut kept = 0;
        for shard in 0..SHARDS {
            // A live entry is newer: its coin was spent, or created again.
            kept += self.live.adopt_shard(&self.frozen, shard, |entry| {
                let rank = Ranks::of(entry).filter(|&rank| rank >= oldest)?;
                // There may be room for a part of the last rank only.
                if rank == oldest {
                    let bytes = entry_bytes(entry);
                    if bytes > budget {
                        return None;
                    }
                    budget -= bytes;
                }
                // The store has the coin, and nobody has asked for it since.
                Some(EntryFlags::NONE)
            });
        }
        kept as u64
    }
}

/// Heights that share a rank, as a power of two.
const RANK_BITS: u32 = 5;

/// Heights above this one, shifted, share the last rank.
const RANK_HEIGHT_MAX: usize = 1 << 16;

/// The bytes of unspent entries by their rank: first by whether they were asked for, then by their
/// height.
#[derive(Debug, Default)]
struct Ranks {
    unused: Vec<usize>,
    used: Vec<usize>,
}

impl Ranks {
    /// The rank of an entry; none for a spent one.
    fn of(entry: EntryRef<'_>) -> Option<(bool, usize)> {
        (!entry.is_spent()).then(|| {
            let height = (entry.height() >> RANK_BITS) as usize;
            (entry.flags().has(USED), height.min(RANK_HEIGHT_MAX))
        })
    }

    fn add(&mut self, entry: EntryRef<'_>) {
        let Some((is_used, height)) = Self::of(entry) else {
            return;
        };
        let ranks = if is_used { &mut self.used } else { &mut self.unused };
        if ranks.len() <= height {
            ranks.resize(height + 1, 0);
        }
        ranks[height] += entry_bytes(entry);
    }

    /// The lowest rank that is promoted, and the bytes for entries of that rank, if all may take
    /// this much.
    fn choose(&self, mut budget: usize) -> ((bool, usize), usize) {
        for (is_used, ranks) in [(true, &self.used), (false, &self.unused)] {
            for (height, &bytes) in ranks.iter().enumerate().rev() {
                if bytes > budget {
                    // This rank has room for some of its entries only.
                    return ((is_used, height), budget);
                }
                budget -= bytes;
            }
        }
        // All have room.
        ((false, 0), budget)
    }
}

fn entry_bytes(entry: EntryRef<'_>) -> usize {
    entry.length().next_multiple_of(8) + WORD_BYTES
}
