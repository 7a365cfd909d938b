//! One round of checks: memory that does not move, filled by a master and emptied by workers.
//!
//! # State
//!
//! A slot serves one round after the other; `generation` counts these rounds. An entry is memory
//! for one check. Entries have positions; checks have indexes, in the order of addition.
//!
//! | field | meaning | written by |
//! |---|---|---|
//! | `published` | generation; number of entries with checks | the master |
//! | `claimed` | generation; number of claimed entries | claimers; the master at the start |
//! | `lowest_failed` | lowest index that failed | finders of a failure; the master at the start |
//! | `entries` | checks with their indexes | the master until publication, and at the end |
//! | | one entry, once published | the thread that claimed the entry |
//! | `shared` | what the checks read | the master at the start and the end |
//! | `failure` | the lowest failure | finders, under `failing`; the master at the end |
//! | `worker_slots[w]` | the slot in which worker `w` is, or idle | that worker |
//!
//! `published`, `claimed`, `lowest_failed` and each of `worker_slots` have a cache line of their
//! own. A check that passes causes one write that others see: its claim.
//!
//! # Protocol
//!
//! - *The master* constructs checks in the entries from `published` on, and then moves `published`.
//!   The master itself runs checks without an entry. They come after all that have one.
//! - *A worker* enters the slot: it writes the slot's number to its worker slot. It claims entries
//!   below `published`, runs their checks one by one, destroys them, and claims the next. When no
//!   entry is left, the worker leaves: it becomes idle.
//! - *A claim* takes one entry, or up to [`CLAIM_MAX`] while very many are pending. Two threads
//!   that claim in turn take the line of `claimed` from each other. That costs each about as much
//!   as a check of 0.1 us.
//! - *A failure* of index `i` stops checks above `i` from running; they are destroyed as soon as
//!   they are claimed. Every check below `i` runs, whoever claimed it. So the lowest failure is
//!   always found.
//! - *The master ends the round* when all checks are claimed and no worker is in the slot. Then no
//!   other thread touches the entries or what the checks share, and the master frees both.
//!
//! # Orderings
//!
//! - `published`: Release by the master, Acquire in `claim`. A thread that claims a check sees the
//!   whole check, and what the round began with.
//! - `claimed`: exchanged with AcqRel, loaded with Acquire by the master. All claims are one chain
//!   of exchanges. So a master that sees the last claim sees that every claimer had entered the
//!   slot.
//! - `worker_slots`: Release by the worker on entering and leaving, Acquire by the master. A master
//!   that sees a worker elsewhere sees all that the worker did to the checks.
//! - A worker leaves, then reads whether the master waits. The master notes that it waits, then
//!   reads whether workers are in the slot. Both have a SeqCst fence between the two steps.
//!
//! A claim of a former round cannot succeed, since its generation differs. The generation repeats
//! only after 2^32 rounds.

use crate::cell::Cell;
use crate::check::{Check, Failure, Fault};
use blockmill_pool::contain;
use blockmill_sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
use blockmill_sync::{AutoResetEvent, Backoff, CachePadded, CriticalSection};
use std::mem::MaybeUninit;
use std::ops::Range;

/// No check has failed.
const NONE: u32 = u32::MAX;

/// The worker is in no slot.
const IDLE: u32 = 0;

const fn count(word: u64) -> u32 {
    word as u32
}

const fn generation(word: u64) -> u32 {
    (word >> 32) as u32
}

const fn word(generation: u32, count: u32) -> u64 {
    ((generation as u64) << 32) | count as u64
}

/// The slot in which each worker is: its number plus 1, or [`IDLE`].
pub(crate) type WorkerSlots = [CachePadded<AtomicU32>];

pub(crate) fn all_idle(workers: usize) -> Box<WorkerSlots> {
    (0..workers).map(|_| CachePadded::new(AtomicU32::new(IDLE))).collect()
}

/// A check with its index.
pub(crate) struct Entry<C> {
    index: u32,
    check: C,
}

type Entries<C> = Box<[Cell<MaybeUninit<Entry<C>>>]>;

/// Most checks of one claim.
const CLAIM_MAX: u32 = if cfg!(blockmill_loom) { 2 } else { 8 };

/// Claims to leave for each thread: one claim takes at most that part of the pending checks.
const CLAIMS_LEFT: u32 = 8;

/// The state of one round after the other.
pub(crate) struct RoundSlot<C: Check> {
    published: CachePadded<AtomicU64>,
    claimed: CachePadded<AtomicU64>,
    lowest_failed: CachePadded<AtomicU32>,
    entries: Cell<Entries<C>>,
    shared: Cell<Option<C::Shared>>,
    failing: CriticalSection,
    failure: Cell<Option<Failure<C::Error>>>,
    master_waits: CachePadded<AtomicBool>,
    left: AutoResetEvent,
    /// A claim takes one of every `1 << claim_shift` pending checks.
    claim_shift: u32,
}

#[expect(unsafe_code, reason = "the cells are guarded by the protocol above")]
// SAFETY: cells are touched by more than one thread only as the table says. An entry is touched by
// the master until it is published, and then by the thread that claimed it. `shared` and `entries`
// are read by threads in the slot, and written when none is there. `failure` is touched under
// `failing`. Values that cross threads are Send, what several threads read at once (`shared`) is
// Sync.
unsafe impl<C: Check> Sync for RoundSlot<C> {}
#[expect(unsafe_code, reason = "under loom its cells are not Send by themselves")]
// SAFETY: everything in it is Send.
unsafe impl<C: Check> Send for RoundSlot<C> {}

impl<C: Check> RoundSlot<C> {
    /// A slot for `threads` threads, the master included.
    pub(crate) fn new(threads: usize) -> Self {
        let threads = u32::try_from(threads).unwrap_or(u32::MAX);
        // Models have few checks: there a claim takes up to half of the pending checks, and at most
        // two.
        let claims = if cfg!(blockmill_loom) {
            2
        } else {
            u64::from(threads) * u64::from(CLAIMS_LEFT)
        };
        Self {
            published: CachePadded::new(AtomicU64::new(0)),
            claimed: CachePadded::new(AtomicU64::new(0)),
            lowest_failed: CachePadded::new(AtomicU32::new(NONE)),
            entries: Cell::new(Box::new([])),
            shared: Cell::new(None),
            failing: CriticalSection::new(),
            failure: Cell::new(None),
            master_waits: CachePadded::new(AtomicBool::new(false)),
            left: AutoResetEvent::new(),
            claim_shift: claims.next_power_of_two().trailing_zeros().min(u32::BITS - 1),
        }
    }
}

/// The master's side. In each use of a slot `begin` is called first and `end` last. One thread at a
/// time calls these two and `publish`.
impl<C: Check> RoundSlot<C> {
    /// Begins a round without entries.
    pub(crate) fn begin(&self, shared: C::Shared) {
        let next = generation(self.published.load(Ordering::Relaxed)).wrapping_add(1);
        // From here to the end of the function no claim succeeds: the generations differ.
        self.claimed.store(word(next, 0), Ordering::Relaxed);
        self.lowest_failed.store(NONE, Ordering::Relaxed);
        #[expect(unsafe_code, reason = "the cells are guarded by the protocol")]
        // SAFETY: the last round has ended, so no worker is in the slot with a claim, and without a
        // claim no worker touches the cells.
        unsafe {
            self.shared.with_mut(|content| *content = Some(shared));
        }
        // Pairs with the Acquire in `claim`.
        self.published.store(word(next, 0), Ordering::Release);
    }

    /// Allocates `capacity` entries. Must not be called once the round has published checks.
    #[cold]
    pub(crate) fn allocate(&self, capacity: u32) {
        debug_assert_eq!(count(self.published.load(Ordering::Relaxed)), 0);
        let entries: Entries<C> = (0..capacity).map(|_| Cell::new(MaybeUninit::uninit())).collect();
        #[expect(unsafe_code, reason = "the cells are guarded by the protocol")]
        // SAFETY: nothing is published in this round, so no thread has a claim in it, and without a
        // claim none but the master touches the cells.
        unsafe {
            self.entries.with_mut(|cell| *cell = entries);
        }
    }

    /// Constructs a check in the entry at `position`, if there is one. The check can be claimed
    /// once the entry is published.
    #[inline]
    pub(crate) fn construct(&self, position: u32, index: u32, check: C) -> Result<(), C> {
        #[expect(unsafe_code, reason = "the cells are guarded by the protocol")]
        // SAFETY: the master alone changes `entries`, and this is the master.
        let entries = unsafe { self.entries.with(|entries| &*entries) };
        match entries.get(position as usize) {
            None => Err(check),
            Some(entry) => {
                entry.with_mut(|entry| {
                    #[expect(unsafe_code, reason = "the cells are guarded by the protocol")]
                    // SAFETY: the entry is not published, so only the master touches it.
                    unsafe {
                        (*entry).write(Entry { index, check });
                    }
                });
                Ok(())
            }
        }
    }

    /// Lets threads claim the checks at positions below `end`.
    #[inline]
    pub(crate) fn publish(&self, end: u32) {
        let generation = generation(self.published.load(Ordering::Relaxed));
        // Pairs with the Acquire in `claim`.
        self.published.store(word(generation, end), publishing());
    }

    /// Runs a check without an entry on the master, and destroys it.
    #[inline]
    pub(crate) fn run_and_drop(&self, index: u32, mut check: C) {
        if index < self.lowest_failed.load(Ordering::Relaxed) {
            self.with_shared(|shared| self.run_check(index, &mut check, shared));
        }
        if std::mem::needs_drop::<C>() {
            self.drop_contained(index, || drop(check));
        }
    }

    /// Keeps all unclaimed checks from running.
    pub(crate) fn abandon(&self) {
        self.lowest_failed.store(0, Ordering::Relaxed);
    }

    /// Whether all published checks have run.
    pub(crate) fn is_done(&self, number: u32, worker_slots: &WorkerSlots) -> bool {
        let published = self.published.load(Ordering::Relaxed);
        // Acquire: pairs with the exchanges in `claim`.
        let claimed = self.claimed.load(Ordering::Acquire);
        // Acquire: pairs with the Release of a worker that goes elsewhere.
        let elsewhere = |worker: &CachePadded<AtomicU32>| worker.load(Ordering::Acquire) != number + 1;
        // If nothing was published, no thread has had a claim.
        count(claimed) == count(published) && (count(published) == 0 || worker_slots.iter().all(elsewhere))
    }

    /// Waits until the last worker has left. All checks must be claimed.
    pub(crate) fn wait_until_done(&self, number: u32, worker_slots: &WorkerSlots) {
        let mut backoff = Backoff::new();
        loop {
            if self.is_done(number, worker_slots) {
                return;
            }
            // Most rounds end within these microseconds, without a switch of threads.
            if !backoff.snooze() {
                break;
            }
        }
        self.master_waits.store(true, Ordering::Relaxed);
        // Pairs with the fence in `serve`.
        fence(Ordering::SeqCst);
        while !self.is_done(number, worker_slots) {
            self.left.wait();
        }
        self.master_waits.store(false, Ordering::Relaxed);
    }

    /// Ends the round once it is done: frees the entries and what the checks share.
    pub(crate) fn end(&self) -> Option<Failure<C::Error>> {
        #[expect(unsafe_code, reason = "the cells are guarded by the protocol")]
        // SAFETY: all checks have been claimed and no worker is in the slot, which the caller has
        // seen in `is_done`; so no other thread touches the cells until the next round begins.
        unsafe {
            let entries = self.entries.with_mut(|entries| std::mem::take(&mut *entries));
            let shared = self.shared.with_mut(|shared| (*shared).take());
            let failure = self.failure.with_mut(|failure| (*failure).take());
            drop(entries);
            drop(shared);
            failure
        }
    }
}

/// The worker's side. A master that waits works here too.
impl<C: Check> RoundSlot<C> {
    /// Number of checks that can be claimed at this moment.
    #[inline]
    pub(crate) fn pending(&self) -> u32 {
        let published = self.published.load(Ordering::Acquire);
        let claimed = self.claimed.load(Ordering::Relaxed);
        if generation(published) == generation(claimed) {
            count(published).saturating_sub(count(claimed))
        } else {
            0
        }
    }

    /// Runs at most `checks_max` checks, as the worker with this `worker_slot`. `number` is that of
    /// the slot.
    #[inline]
    pub(crate) fn serve(&self, number: u32, worker_slot: &AtomicU32, checks_max: u32) {
        // Release: pairs with the Acquire in `is_done`, for the slot that the worker left before.
        worker_slot.store(number + 1, Ordering::Release);
        self.run_claimed(checks_max);
        // Release: pairs with the Acquire in `is_done`.
        worker_slot.store(IDLE, leaving());
        // Pairs with the fence in `wait_until_done`.
        fence(Ordering::SeqCst);
        if self.master_waits.load(Ordering::Relaxed) {
            self.left.set();
        }
    }

    /// Claims and runs at most `checks_max` checks, for a worker in the slot or for the master.
    /// Returns how many were claimed.
    #[inline]
    pub(crate) fn run_claimed(&self, checks_max: u32) -> u32 {
        let mut left = checks_max;
        while left > 0 {
            let Some(positions) = self.claim(left) else {
                break;
            };
            left -= positions.end - positions.start;
            for position in positions {
                self.run_at(position);
            }
        }
        checks_max - left
    }

    /// Claims the next entries, at most `most`, and only a part of those pending: towards the end
    /// each thread still finds work.
    #[inline]
    fn claim(&self, most: u32) -> Option<Range<u32>> {
        // Acquire: pairs with the Release in `publish`.
        let published = self.published.load(Ordering::Acquire);
        let mut claimed = self.claimed.load(Ordering::Relaxed);
        while generation(claimed) == generation(published) && count(claimed) < count(published) {
            let pending = count(published) - count(claimed);
            // A shift, since a division here would take longer than an empty check.
            let taken = (pending >> self.claim_shift).clamp(1, CLAIM_MAX.min(most));
            match self
                .claimed
                .compare_exchange_weak(claimed, claimed + u64::from(taken), claiming(), Ordering::Relaxed)
            {
                Ok(_) => return Some(count(claimed)..count(claimed) + taken),
                Err(found) => claimed = found,
            }
        }
        None
    }

    /// Runs the check in a claimed entry, and destroys it there.
    #[inline]
    fn run_at(&self, position: u32) {
        #[expect(unsafe_code, reason = "the cells are guarded by the protocol")]
        // SAFETY: this thread has a claim and is in the slot or the master, so the round does not
        // end and `entries` does not change.
        let entries = unsafe { self.entries.with(|entries| &*entries) };
        entries[position as usize].with_mut(|entry| {
            #[expect(unsafe_code, reason = "the cells are guarded by the protocol")]
            // SAFETY: the check was constructed before its entry was published, and this thread
            // alone has claimed it.
            let Entry { index, check } = unsafe { (*entry).assume_init_mut() };
            let index = *index;
            // Relaxed: an old value only means that a check runs whose result no longer counts.
            if index < self.lowest_failed.load(Ordering::Relaxed) {
                self.with_shared(|shared| self.run_check(index, check, shared));
            }
            if !std::mem::needs_drop::<C>() {
                return;
            }
            self.drop_contained(index, || {
                #[expect(unsafe_code, reason = "checks are destroyed in their entries")]
                // SAFETY: as above; no thread looks at the entry again.
                unsafe {
                    (*entry).assume_init_drop();
                }
            });
        });
    }

    #[inline]
    fn with_shared(&self, work: impl FnOnce(&C::Shared)) {
        self.shared.with(|shared| {
            #[expect(unsafe_code, reason = "the cells are guarded by the protocol")]
            // SAFETY: called by a thread that has a claim and is in the slot, or by the master: the
            // round does not end meanwhile.
            if let Some(shared) = unsafe { &*shared } {
                work(shared);
            }
        });
    }

    #[inline]
    fn run_check(&self, index: u32, check: &mut C, shared: &C::Shared) {
        let fault = match contain(|| check.run(shared)) {
            Ok(Ok(())) => return,
            Ok(Err(error)) => Fault::Failed(error),
            Err(panic) => Fault::Panicked(panic),
        };
        self.fail(index, fault);
    }

    #[inline]
    fn drop_contained(&self, index: u32, drop: impl FnOnce()) {
        if let Err(panic) = contain(drop) {
            self.fail(index, Fault::Panicked(panic));
        }
    }

    #[cold]
    fn fail(&self, index: u32, fault: Fault<C::Error>) {
        self.lowest_failed.fetch_min(index, Ordering::Relaxed);
        let index = index as usize;
        let failing = self.failing.enter();
        // The replaced failure is dropped below, outside the section.
        let other = self.failure.with_mut(|failure| {
            #[expect(unsafe_code, reason = "the cells are guarded by the protocol")]
            // SAFETY: under `failing`, and before the round ends, as this thread is in the slot or
            // the master.
            let failure = unsafe { &mut *failure };
            let new = Failure { index, fault };
            if failure.as_ref().is_none_or(|other| index < other.index) {
                failure.replace(new)
            } else {
                Some(new)
            }
        });
        drop(failing);
        // The error is the check's own: its drop may panic, and the verdict stays the same.
        let _ = contain(|| drop(other));
    }
}

impl<C: Check> Drop for RoundSlot<C> {
    fn drop(&mut self) {
        // The round of a leaked master: unclaimed checks are destroyed without a run.
        self.abandon();
        self.run_claimed(u32::MAX);
    }
}

/// The ordering of the step that publishes.
#[inline]
fn publishing() -> Ordering {
    #[cfg(all(test, blockmill_loom))]
    if crate::tests::WEAKENED.get() == crate::tests::Weakened::Publish {
        return Ordering::Relaxed;
    }
    Ordering::Release
}

/// The ordering of the step that claims. The head of the file has the reason for AcqRel.
#[inline]
fn claiming() -> Ordering {
    #[cfg(all(test, blockmill_loom))]
    if crate::tests::WEAKENED.get() == crate::tests::Weakened::Claim {
        return Ordering::Relaxed;
    }
    Ordering::AcqRel
}

/// The ordering of the step by which a worker leaves.
#[inline]
fn leaving() -> Ordering {
    #[cfg(all(test, blockmill_loom))]
    if crate::tests::WEAKENED.get() == crate::tests::Weakened::Leave {
        return Ordering::Relaxed;
    }
    Ordering::Release
}
