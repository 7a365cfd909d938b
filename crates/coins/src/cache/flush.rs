//! A flush: a thread that writes frozen changes, and then lets coins move up.

use super::{DIRTY, FRESH, USED};
use crate::flush_epoch::FlushClock;
use crate::store::{CoinStore, StoreError, Tip};
use blockmill_block::OutPoint;
use blockmill_coinmap::{CoinMap, CoinRef, EntryFlags, EntryRef, HashKey, Ordered, SHARDS, Update};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use thiserror::Error;

/// Bytes of an entry's word in the index, with the room that is kept free.
const WORD_BYTES: usize = 11;

/// Why a flush failed.
#[derive(Debug, Error)]
pub enum FlushError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// What had to be done before failed.
    #[error("{0}")]
    Before(Box<dyn std::error::Error + Send + Sync>),
    /// The store, or what had to be done before, panicked.
    #[error("the flush panicked: {0}")]
    Panicked(String),
    /// The system starts no thread.
    #[error("thread of the flush: {0}")]
    Thread(std::io::Error),
}

/// What a flush is to do.
pub(super) struct Job {
    pub(super) store: Arc<dyn CoinStore>,
    pub(super) frozen: Arc<CoinMap>,
    pub(super) above: Arc<CoinMap>,
    pub(super) clock: FlushClock,
    pub(super) tip: Tip,
    /// Bytes up to which coins may move up.
    pub(super) keep_bytes: usize,
    /// Whether the frozen entries are to become the cache's again: only if nothing is done above meanwhile.
    pub(super) in_place: bool,
}

/// The outpoints of which the store knew something else before a flush. Who has read one of them before must not believe it.
#[derive(Debug)]
pub(super) struct Changed {
    key: HashKey,
    /// In order. That two outpoints have one hash does no harm: then both pass for changed.
    hashes: Vec<u64>,
}

impl Changed {
    fn of(frozen: &CoinMap) -> Self {
        let key = *frozen.hash_key();
        let mut hashes = Vec::new();
        frozen.for_each(|entry| {
            // Of what is fresh the store had nothing, so nobody has read it.
            if entry.flags().has(DIRTY) && !entry.flags().has(FRESH) {
                hashes.push(key.hash(&entry.outpoint()));
            }
        });
        hashes.shrink_to_fit();
        hashes.sort_unstable();
        Self { key, hashes }
    }

    pub(super) fn may_have(&self, outpoint: &OutPoint) -> bool {
        self.hashes.binary_search(&self.key.hash(outpoint)).is_ok()
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> usize {
        self.hashes.capacity() * size_of::<u64>()
    }
}

/// What a flush has done.
#[derive(Debug)]
pub(super) struct Done {
    pub(super) changes: u64,
    pub(super) kept: u64,
    pub(super) time: Duration,
    pub(super) in_place: bool,
    pub(super) changed: Changed,
}

/// A flush that goes on.
#[derive(Debug)]
pub(super) struct Flush {
    frozen: Arc<CoinMap>,
    /// None once it was joined.
    thread: Option<JoinHandle<Result<Done, FlushError>>>,
}

impl Flush {
    /// Starts the thread of a flush.
    pub(super) fn begin(
        job: Job,
        before: impl FnOnce() -> Result<(), Box<dyn std::error::Error + Send + Sync>> + Send + 'static,
    ) -> Result<Self, FlushError> {
        let frozen = Arc::clone(&job.frozen);
        let thread = std::thread::Builder::new()
            .name("flush".to_owned())
            .spawn(move || {
                let start = Instant::now();
                before().map_err(FlushError::Before)?;
                let changes = job.write()?;
                let changed = Changed::of(&job.frozen);
                let kept = if job.in_place { job.settle() } else { job.thaw() };
                Ok(Done {
                    changes,
                    kept,
                    time: start.elapsed(),
                    in_place: job.in_place,
                    changed,
                })
            })
            .map_err(FlushError::Thread)?;
        Ok(Self {
            frozen,
            thread: Some(thread),
        })
    }

    /// The frozen entries; fewer and fewer while they thaw.
    pub(super) fn frozen(&self) -> &Arc<CoinMap> {
        &self.frozen
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> usize {
        self.frozen.bytes() + Ordered::bytes_for(self.frozen.len())
    }

    /// Whether it can be ended without waiting.
    pub(super) fn is_done(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Waits for its end.
    pub(super) fn end(mut self) -> (Arc<CoinMap>, Result<Done, FlushError>) {
        let outcome = match self.thread.take().map(JoinHandle::join) {
            Some(Ok(outcome)) => outcome,
            Some(Err(panic)) => {
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
    /// Nothing of a cache outlives it.
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Job {
    /// Writes the changes.
    fn write(&self) -> Result<u64, StoreError> {
        let mut changes = Ordered::new(Arc::clone(&self.frozen), |entry| entry.flags().has(DIRTY));
        let count = changes.len() as u64;
        self.store.commit(&mut changes, &self.tip)?;
        // The new epoch begins before the first marker goes: see the rule of resurrection.
        self.clock.advance();
        Ok(count)
    }

    /// Makes the frozen entries what the store has.
    fn settle(&self) -> u64 {
        self.frozen
            .retain_with_flags(|entry| (!entry.is_spent()).then_some(EntryFlags::NONE));
        self.frozen.len() as u64
    }

    /// Lets coins move up, those that were asked for and the youngest, as far as there is room, and drops the rest.
    fn thaw(&self) -> u64 {
        let (oldest, mut room) = self.choose();
        let mut kept = 0;
        for shard in 0..SHARDS {
            self.frozen.drain_shard(shard, |entry| {
                let Some(rank) = rank(entry).filter(|&rank| rank >= oldest) else {
                    return;
                };
                if rank == oldest {
                    let bytes = entry_bytes(entry);
                    if bytes > room {
                        return;
                    }
                    room -= bytes;
                }
                let coin = entry.coin();
                let put = Update::Put(EntryFlags::NONE, coin.as_ref().map(CoinRef::from));
                kept += self.above.update(&entry.outpoint(), |there| match there {
                    None => (put, 1),
                    // Younger news: a coin that was spent or made anew above.
                    Some(_) => (Update::Keep, 0),
                });
            });
        }
        kept
    }

    /// The lowest rank that stays, and the bytes that there are for entries of just that rank.
    fn choose(&self) -> (u64, usize) {
        let mut bytes_by_rank: BTreeMap<u64, usize> = BTreeMap::new();
        self.frozen.for_each(|entry| {
            if let Some(rank) = rank(entry) {
                *bytes_by_rank.entry(rank).or_default() += entry_bytes(entry);
            }
        });
        let mut room = self.keep_bytes.saturating_sub(self.above.bytes());
        for (&rank, &bytes) in bytes_by_rank.iter().rev() {
            if bytes > room {
                return (rank, room);
            }
            room -= bytes;
        }
        (0, room)
    }
}

/// How much an entry is worth keeping: its height, more if somebody asked for it; nothing for a spent one.
fn rank(entry: EntryRef<'_>) -> Option<u64> {
    let used = u64::from(entry.flags().has(USED));
    (!entry.is_spent()).then(|| used << 32 | u64::from(entry.height()))
}

fn entry_bytes(entry: EntryRef<'_>) -> usize {
    entry.length().next_multiple_of(8) + WORD_BYTES
}
