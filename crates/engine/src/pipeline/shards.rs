//! The blocks of a window are resolved in shards, by all threads.
//!
//! Whether a coin is there at a position in the chain depends on the events of its outpoint alone.
//! So events are dealt out by outpoint. Each shard goes through its events of the window, in the
//! order of the chain, whatever the other shards do. Then each block is validated by itself, with
//! the coins that the shards have found.
//!
//! A shard creates the coins of the window first, in a table of its own. A spend looks there first,
//! and takes only a coin that was created before it, and not yet spent: then the coin never enters
//! the cache. What is left in the table enters it at the end.
//!
//! Shards, and the validation of blocks, say "valid" or nothing. Everything else is *odd*: a coin
//! that is missing, or created twice, or there already, a broken rule, an error of the store, a
//! panic. Then all shards take back what they have done, and each block becomes a window of its
//! own. If that is odd, too, [`judge()`] says what is wrong with the block, and changes nothing.
//!
//! A small window is resolved by one thread, in the shards that have events.

use crate::pipeline::outline::Outline;
use blockmill_block::{Block, BlockUndo, Magic};
use blockmill_coins::{CacheShards, CoinsCache, FlushEpoch, MustBeNew, StoreError};
use blockmill_pool::{ThreadPool, contain};
use blockmill_rules::Reject;
use blockmill_rules::connect::{BlockError, ConnectContext, Overwriting};
use blockmill_sync::{Backoff, ManualResetEvent};
use shard_outcome::ShardOutcome;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;
use validate::validate;

pub use disconnect::disconnect;
pub use judge::judge;

mod disconnect;
mod judge;
mod overlapped;
mod shard_outcome;
mod validate;

/// A block of a window.
pub struct WindowBlock<'w> {
    /// The block.
    pub block: &'w Block,
    /// Its events, under the key of the cache.
    pub outline: &'w Outline,
    /// Its position in the chain.
    pub context: ConnectContext<'w>,
    /// The flush epoch at which the store had none of its outputs, if that was seen.
    pub absent_at: Option<FlushEpoch>,
}

impl WindowBlock<'_> {
    /// What must hold for the coins that it creates.
    #[inline]
    fn must_be_new(&self) -> MustBeNew {
        match self.context.overwriting {
            Overwriting::Allowed => MustBeNew::No,
            Overwriting::Forbidden => MustBeNew::Yes(self.absent_at),
        }
    }
}

/// A block that keeps all rules but those of its scripts, which have not run.
#[derive(Debug)]
pub struct ValidBlock {
    /// The coins that it spends.
    pub undo: BlockUndo,
    /// Its undo data as a record.
    pub record: Vec<u8>,
}

/// What becomes of a window.
#[derive(Debug)]
#[must_use]
pub enum WindowOutcome {
    /// All its blocks keep all rules but those of their scripts.
    Valid(Vec<ValidBlock>),
    /// Something is odd with a window of several blocks. The cache has the coins that it had
    /// before.
    Odd,
    /// The one block of the window breaks this rule. The cache has the coins that it had before.
    Rejected(Reject),
    /// The store failed. The cache has the coins that it had before.
    Failed(StoreError),
    /// The window of one block is odd, twice, and [`judge()`] finds nothing wrong with it. The cache
    /// has the coins that it had before.
    Contradiction,
    /// The coins that it spends take more memory than they may. The cache has the coins that it had
    /// before.
    TooLarge,
}

/// How a window is dealt out.
#[derive(Debug, Clone, Copy)]
pub struct Dealing<'p> {
    /// The threads. Without them the caller's does everything.
    pub pool: Option<&'p ThreadPool>,
    /// Jobs that the shards are put into. A thread takes one at a time.
    pub jobs: usize,
    /// Memory in bytes that the coins which a window spends may take in the shards.
    pub spent_bytes_max: usize,
    /// The network's magic, for records.
    pub magic: Magic,
    /// What a test breaks.
    #[cfg(test)]
    pub(crate) fault: Option<Fault>,
}

/// A fault that a test plants, to show that it is found.
#[cfg(test)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A shard leaves a coin that it has spent in the cache.
    DropsSpend,
    /// The same, for the first input of the window alone.
    DropsOneSpend,
    /// A validation takes coins from the wrong shard.
    SwapsShards,
    /// A coin of the window is spent twice.
    SpendsTwice,
    /// A coin of the window is spent by the transaction that creates it, or before.
    SeesTooEarly,
    /// A coin of the window is spent by the transaction before the one that creates it.
    SeesNextTransaction,
    /// A spend is not taken back.
    ForgetsToTakeBack,
    /// The same, for the first spend of a shard alone.
    ForgetsOneToTakeBack,
    /// The first coin that a shard has created is not taken back.
    ForgetsCoinToTakeBack,
    /// Nobody looks whether a coin is there already.
    OverwritesUnasked,
    /// A validation takes the coins of two inputs for each other.
    MixesInputs,
    /// An absence counts in the epoch after the one in which it was seen.
    BelievesOldAbsence,
    /// A shard panics after a spend.
    PanicsWhileSpending,
    /// A shard panics after it has created a coin.
    PanicsWhileCreating,
    /// The validation of the last block panics.
    PanicsInValidation,
}

#[cfg(test)]
mod tests;

/// Spends and creates the coins of the blocks of a window, and validates the blocks by all rules
/// but their scripts. `done` gets the moments at which each job began and ended, with the number of
/// the job's block, or with none for the job of a shard.
pub fn resolve_window(
    window: &[WindowBlock<'_>],
    cache: &mut CoinsCache,
    dealing: Dealing<'_>,
    done: &(dyn Fn(Option<usize>, Instant, Instant) + Sync),
) -> WindowOutcome {
    let outcome = try_window(window, cache, dealing, done);
    let block = match (&outcome, window) {
        (WindowOutcome::Odd | WindowOutcome::Failed(_), [block]) => block,
        (WindowOutcome::Failed(_), _) => return WindowOutcome::Odd,
        _ => return outcome,
    };
    match judge(block, cache) {
        Err(BlockError::Reject(reject)) => WindowOutcome::Rejected(reject),
        Err(BlockError::Coins(error)) => WindowOutcome::Failed(error),
        // A read of the store may have failed once.
        Ok(()) => match try_window(window, cache, dealing, done) {
            WindowOutcome::Odd => WindowOutcome::Contradiction,
            other => other,
        },
    }
}

fn try_window(
    window: &[WindowBlock<'_>],
    cache: &mut CoinsCache,
    dealing: Dealing<'_>,
    done: &(dyn Fn(Option<usize>, Instant, Instant) + Sync),
) -> WindowOutcome {
    let numbers: Vec<usize> = Outline::shards_of(window.iter().map(|block| block.outline)).collect();
    let work = WindowWork {
        window,
        shards: cache.shards(),
        dealing,
        room: Room {
            bytes_max: dealing.spent_bytes_max,
            used: AtomicUsize::new(0),
        },
        outcomes: numbers.iter().map(|_| OnceLock::new()).collect(),
        valid: window.iter().map(|_| OnceLock::new()).collect(),
        shards_begun: AtomicUsize::new(0),
        shards_left: AtomicUsize::new(numbers.len()),
        numbers,
        shards_done: ManualResetEvent::new(),
        blocks_begun: AtomicUsize::new(0),
        done,
    };
    match dealing.pool {
        None => work.work(),
        Some(pool) => pool.scope(|scope| {
            // This thread works, too, so one helper fewer is wanted.
            for _ in 0..pool.workers().min(dealing.jobs.max(window.len()) - 1) {
                scope.spawn(|| work.work());
            }
            work.work();
        }),
    }
    let WindowWork {
        shards,
        room,
        outcomes,
        valid,
        ..
    } = work;
    let mut outcomes: Vec<ShardOutcome> = outcomes.into_iter().filter_map(OnceLock::into_inner).collect();
    let valid: Option<Vec<ValidBlock>> = valid.into_iter().map(OnceLock::into_inner).collect();
    // One block that is not valid is enough: a window is taken back whole.
    if valid.is_none() {
        for outcome in &mut outcomes {
            outcome.take_back(&shards, window);
        }
    }
    cache.end_shards(outcomes.iter().map(|outcome| &outcome.log));
    let failure = outcomes.into_iter().find_map(|outcome| outcome.failure);
    match valid {
        Some(valid) => WindowOutcome::Valid(valid),
        None if room.is_full() => WindowOutcome::TooLarge,
        None => failure.map_or(WindowOutcome::Odd, WindowOutcome::Failed),
    }
}

/// The work on a window, of which each thread that has time takes a share: shards, and when all
/// shards are done, blocks to validate.
struct WindowWork<'w> {
    window: &'w [WindowBlock<'w>],
    shards: CacheShards<'w>,
    dealing: Dealing<'w>,
    room: Room,
    /// The shards that have events.
    numbers: Vec<usize>,
    /// What has become of each of them, and of each block.
    outcomes: Vec<OnceLock<ShardOutcome>>,
    valid: Vec<OnceLock<ValidBlock>>,
    /// The number of the next job of shards, and of the next block.
    shards_begun: AtomicUsize,
    blocks_begun: AtomicUsize,
    shards_left: AtomicUsize,
    shards_done: ManualResetEvent,
    done: &'w (dyn Fn(Option<usize>, Instant, Instant) + Sync),
}

impl WindowWork<'_> {
    fn work(&self) {
        self.run_shards();
        // Shards that have begun end soon. A thread that did something else meanwhile would be
        // missed by the blocks.
        let mut backoff = Backoff::new();
        while self.shards_left.load(Ordering::Acquire) > 0 {
            if !backoff.snooze() {
                self.shards_done.wait();
            }
        }
        let outcomes: Vec<&ShardOutcome> = self.outcomes.iter().filter_map(OnceLock::get).collect();
        if !self.room.is_full() && outcomes.iter().all(|outcome| !outcome.is_odd) {
            self.validate_blocks(&outcomes);
        }
    }

    fn run_shards(&self) {
        let together = self.numbers.len().div_ceil(self.dealing.jobs.max(1)).max(1);
        loop {
            // Relaxed: the number alone counts, and what is read was there before the threads.
            let first = self.shards_begun.fetch_add(1, Ordering::Relaxed) * together;
            let job = first..(first + together).min(self.numbers.len());
            if job.is_empty() {
                return;
            }
            let start = Instant::now();
            for index in job.clone() {
                let mut outcome = ShardOutcome::new(self.numbers[index]);
                #[cfg(test)]
                {
                    outcome.fault = self.dealing.fault;
                }
                outcome.is_odd |= contain(|| outcome.run(&self.shards, self.window, &self.room)).is_err();
                let is_first = self.outcomes[index].set(outcome).is_ok();
                debug_assert!(is_first, "shard {} ran twice", self.numbers[index]);
            }
            let end = Instant::now();
            // AcqRel: who sees 0 sees all outcomes.
            if self.shards_left.fetch_sub(job.len(), Ordering::AcqRel) == job.len() {
                self.shards_done.set();
            }
            (self.done)(None, start, end);
        }
    }

    fn validate_blocks(&self, outcomes: &[&ShardOutcome]) {
        loop {
            // Relaxed: the number alone counts. The load of `shards_left` has made all outcomes
            // visible.
            let number = self.blocks_begun.fetch_add(1, Ordering::Relaxed);
            let Some(slot) = self.valid.get(number) else {
                return;
            };
            let start = Instant::now();
            let valid = contain(|| validate(number, self.window, outcomes, self.dealing.magic));
            if let Some(valid) = valid.unwrap_or(None) {
                let is_first = slot.set(valid).is_ok();
                debug_assert!(is_first, "block {number} was validated twice");
            }
            (self.done)(Some(number), start, Instant::now());
        }
    }
}

/// The memory that all shards together may use for the coins that they spend.
struct Room {
    bytes_max: usize,
    used: AtomicUsize,
}

impl Room {
    /// Takes some of it. Returns whether there was enough.
    fn take(&self, bytes: usize) -> bool {
        // Relaxed: the number bounds memory, and nothing is read because of it.
        self.used.fetch_add(bytes, Ordering::Relaxed) + bytes <= self.bytes_max
    }

    fn is_full(&self) -> bool {
        // Relaxed: shards add to it before they end, and `shards_left` orders that.
        self.used.load(Ordering::Relaxed) > self.bytes_max
    }
}
