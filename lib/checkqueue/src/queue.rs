//! The queue: rounds in slots, which a pool serves oldest first.
//!
//! Slots are numbered in a circle. So a round that outlives 63 rounds begun after it loses its
//! rank, and may pass for a younger round.

use crate::check::{Check, Failure};
use crate::round::{RoundSlot, WorkerSlots, all_idle};
use blockmill_pool::{Panic, Producer, ThreadPool, ThreadPoolOptions, WorkSource, WorkSourceHandle};
use blockmill_sync::CachePadded;
use blockmill_sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::fmt;
use std::io;
use std::sync::Arc;
use thiserror::Error;

/// Most rounds that can be open at once.
pub const ROUNDS_MAX: usize = 64;

/// Checks that a worker runs before it looks for older rounds and for work sources of higher
/// priority.
const UNIT_CHECKS: u32 = 16;

/// [`ROUNDS_MAX`] rounds are open already. Returns what the new round was to share.
#[derive(Error)]
#[error("{ROUNDS_MAX} rounds are open already")]
pub struct TooManyRounds<S>(pub S);

impl<S> fmt::Debug for TooManyRounds<S> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("TooManyRounds").finish_non_exhaustive()
    }
}

/// A queue of checks. The [crate](crate) page shows its use.
pub struct CheckQueue<C: Check> {
    inner: Arc<Inner<C>>,
    handle: Arc<WorkSourceHandle>,
    /// Dropped after the handle.
    _own_pool: Option<ThreadPool>,
}

/// What the masters and the workers share.
struct Inner<C: Check> {
    slots: Box<[RoundSlot<C>]>,
    worker_slots: Box<WorkerSlots>,
    /// One bit for each slot, set while the slot has a round.
    open: CachePadded<AtomicU64>,
    /// The slot after that of the youngest round. New rounds take slots upwards, so from here on
    /// slots are in the order of age.
    next: CachePadded<AtomicU32>,
}

impl<C: Check> CheckQueue<C> {
    /// A queue that the workers of `pool` serve. They serve sources with a lower `priority` first.
    pub fn new(pool: &ThreadPool, priority: u32) -> Self {
        let inner = Arc::new(Inner {
            slots: (0..ROUNDS_MAX).map(|_| RoundSlot::new(pool.workers() + 1)).collect(),
            worker_slots: all_idle(pool.workers()),
            open: CachePadded::new(AtomicU64::new(0)),
            next: CachePadded::new(AtomicU32::new(0)),
        });
        let handle = pool.register(priority, Arc::<Inner<C>>::clone(&inner));
        Self {
            inner,
            handle: Arc::new(handle),
            _own_pool: None,
        }
    }

    /// A queue with worker threads of its own. With 0 workers, masters run checks as they add them.
    ///
    /// # Errors
    /// The error of the operating system if a thread cannot be started.
    pub fn with_own_threads(workers: usize) -> io::Result<Self> {
        let pool = ThreadPool::new(&ThreadPoolOptions {
            name: "check".to_owned(),
            ..ThreadPoolOptions::workers(workers)
        })?;
        let mut queue = Self::new(&pool, 0);
        queue._own_pool = Some(pool);
        Ok(queue)
    }

    /// Begins a round with memory for `capacity` checks, which all read `shared`. The master runs
    /// checks beyond the capacity when it adds them. If the queue has no workers, the master runs
    /// all checks so.
    ///
    /// # Errors
    /// [`TooManyRounds`] with `shared` when [`ROUNDS_MAX`] rounds are open.
    pub fn begin(&self, capacity: usize, shared: C::Shared) -> Result<Round<C>, TooManyRounds<C::Shared>> {
        let Some(slot) = self.inner.take_slot() else {
            return Err(TooManyRounds(shared));
        };
        self.inner.slots[slot as usize].begin(shared);
        // Without workers there are no entries, and the master runs each check as it comes.
        let capacity = if self.workers() > 0 { capacity } else { 0 };
        Ok(Round {
            _producer: self.handle.register_producer(),
            added: 0,
            enqueued: 0,
            published: 0,
            capacity: u32::try_from(capacity).unwrap_or(u32::MAX),
            closed: ClosedRound {
                inner: Arc::clone(&self.inner),
                handle: Arc::clone(&self.handle),
                number: slot,
                ended: false,
            },
        })
    }

    /// Number of open rounds at this moment; for diagnosis.
    pub fn open_rounds(&self) -> usize {
        self.inner.open.load(Ordering::Relaxed).count_ones() as usize
    }

    /// Number of workers that serve the queue.
    pub fn workers(&self) -> usize {
        self.handle.workers()
    }
}

impl<C: Check> fmt::Debug for CheckQueue<C> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("CheckQueue")
            .field("open_rounds", &self.open_rounds())
            .field("workers", &self.workers())
            .finish_non_exhaustive()
    }
}

impl<C: Check> Inner<C> {
    /// Takes a slot for a new round.
    fn take_slot(&self) -> Option<u32> {
        // Acquire: pairs with the Release in `release_slot`.
        let mut open = self.open.load(Ordering::Acquire);
        loop {
            let next = self.next.load(Ordering::Relaxed);
            // Bit 0 is the slot after the youngest round. So the first free bit keeps the order of
            // age.
            let free = (!open).rotate_right(next);
            if free == 0 {
                return None;
            }
            let slot = (free.trailing_zeros() + next) % ROUNDS_MAX as u32;
            match self
                .open
                .compare_exchange(open, open | 1 << slot, Ordering::Acquire, Ordering::Acquire)
            {
                Ok(_) => {
                    // Two masters may do this in either order. Then a round loses its rank, and
                    // nothing else.
                    self.next.store((slot + 1) % ROUNDS_MAX as u32, Ordering::Relaxed);
                    return Some(slot);
                }
                Err(found) => open = found,
            }
        }
    }

    fn release_slot(&self, slot: u32) {
        self.open.fetch_and(!(1 << slot), Ordering::Release);
    }

    /// The slot of the oldest round with checks to claim, and the number of these checks.
    #[inline]
    fn oldest_pending(&self) -> Option<(u32, u32)> {
        let open = self.open.load(Ordering::Acquire);
        if open == 0 {
            return None;
        }
        let next = self.next.load(Ordering::Relaxed);
        // The circle begins with the oldest slot.
        let mut by_age = open.rotate_right(next);
        while by_age != 0 {
            let slot = (by_age.trailing_zeros() + next) % ROUNDS_MAX as u32;
            let pending = self.slots[slot as usize].pending();
            if pending > 0 {
                return Some((slot, pending));
            }
            by_age &= by_age - 1;
        }
        None
    }
}

impl<C: Check> WorkSource for Inner<C> {
    #[inline]
    fn pending(&self) -> usize {
        self.oldest_pending().map_or(0, |(_, pending)| pending as usize)
    }

    #[inline]
    fn serve(&self, worker: usize) {
        // Looked up again: `pending` may have been asked long ago.
        if let Some((slot, _)) = self.oldest_pending() {
            self.slots[slot as usize].serve(slot, &self.worker_slots[worker], UNIT_CHECKS);
        }
    }

    fn panicked(&self, panic: Panic) {
        // Each check's panic is contained, so this is a bug of this crate. The round must not seem
        // to pass.
        eprintln!("check queue: {panic}");
        std::process::abort();
    }
}

/// An open round, to which the master adds checks.
///
/// Among rounds with checks to run, workers serve the round that began first. A round loses that
/// rank once 64 rounds began after it.
///
/// Dropping a round abandons it: checks that have not run are destroyed, and the drop waits for
/// those that are running. Leaking a round leaks its slot and leaves it counted as a producer of
/// the pool: one worker fewer stays awake. Its checks still run or are destroyed in the end.
pub struct Round<C: Check> {
    _producer: Producer,
    /// Number of checks added.
    added: u32,
    /// Number of checks written to entries.
    enqueued: u32,
    /// Number of entries that workers know of.
    published: u32,
    /// Number of entries to allocate; 0 once that is done.
    capacity: u32,
    closed: ClosedRound<C>,
}

impl<C: Check> Round<C> {
    /// Adds checks, in the order of their indexes. Workers begin at once: while the iterator goes
    /// on, they know of at least half of its checks.
    ///
    /// Checks beyond the capacity run before this returns. So a check must not wait for what the
    /// caller does later.
    ///
    /// # Panics
    /// If the round has 2^32 checks. If the iterator panics, the checks before the panic are part
    /// of the round.
    #[inline]
    pub fn add(&mut self, checks: impl IntoIterator<Item = C>) {
        let mut adding = Adding(self);
        for check in checks {
            adding.add(check);
        }
    }

    /// Number of checks added so far.
    pub fn len(&self) -> usize {
        self.added as usize
    }

    /// Whether no check was added so far.
    pub fn is_empty(&self) -> bool {
        self.added == 0
    }

    /// Ends the addition of checks. The verdict comes later, from [`ClosedRound::wait`].
    pub fn close(self) -> ClosedRound<C> {
        self.closed
    }

    /// Runs checks until none is left, waits for those that other threads run, and returns the
    /// verdict.
    ///
    /// # Errors
    /// The [`Failure`] with the lowest index.
    pub fn complete(self) -> Result<(), Failure<C::Error>> {
        self.close().wait()
    }
}

/// Publishes all constructed checks, also when the iterator panics.
struct Adding<'a, C: Check>(&'a mut Round<C>);

impl<C: Check> Adding<'_, C> {
    #[inline]
    fn add(&mut self, check: C) {
        let round = &mut *self.0;
        let index = round.added;
        round.added = index.checked_add(1).expect("a round has fewer than 2^32 checks");
        match round.closed.slot().construct(round.enqueued, index, check) {
            Ok(()) => {
                round.enqueued += 1;
                // Workers then know of at least half of the checks, however slow the iterator is.
                if round.enqueued.is_power_of_two() {
                    self.publish();
                }
            }
            Err(check) => self.allocate_or_run(index, check),
        }
    }

    /// Allocates the entries, unless that is done. The master runs a check without an entry itself.
    #[cold]
    fn allocate_or_run(&mut self, index: u32, mut check: C) {
        let round = &mut *self.0;
        // Only once: entries that are in use cannot move.
        let capacity = std::mem::take(&mut round.capacity);
        if capacity > 0 {
            round.closed.slot().allocate(capacity);
            match round.closed.slot().construct(round.enqueued, index, check) {
                Ok(()) => return round.enqueued += 1,
                Err(back) => check = back,
            }
        }
        // Workers must not wait for this check.
        self.publish();
        self.0.closed.slot().run_and_drop(index, check);
    }

    #[inline]
    fn publish(&mut self) {
        let round = &mut *self.0;
        if round.enqueued > round.published {
            round.published = round.enqueued;
            round.closed.slot().publish(round.enqueued);
            round.closed.handle.notify();
        }
    }
}

impl<C: Check> Drop for Adding<'_, C> {
    #[inline]
    fn drop(&mut self) {
        self.publish();
    }
}

impl<C: Check> fmt::Debug for Round<C> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Round")
            .field("added", &self.added)
            .finish_non_exhaustive()
    }
}

/// A round to which no more checks are added. Dropping it abandons the round, as for [`Round`].
pub struct ClosedRound<C: Check> {
    inner: Arc<Inner<C>>,
    handle: Arc<WorkSourceHandle>,
    /// The number of the round's slot.
    number: u32,
    ended: bool,
}

impl<C: Check> ClosedRound<C> {
    fn slot(&self) -> &RoundSlot<C> {
        &self.inner.slots[self.number as usize]
    }

    /// Whether [`wait`](Self::wait) would return without running a check and without waiting.
    pub fn is_done(&self) -> bool {
        self.slot().is_done(self.number, &self.inner.worker_slots)
    }

    /// Runs at most `checks_max` checks, and returns how many ran or were destroyed.
    pub fn help_some(&self, checks_max: u32) -> u32 {
        self.slot().run_claimed(checks_max)
    }

    /// Runs checks until none is left. Other threads may still run some.
    pub fn help(&self) {
        self.slot().run_claimed(u32::MAX);
    }

    /// Runs checks until none is left, waits for those that other threads run, and returns the
    /// verdict. By then all checks of the round are destroyed, its memory is freed, and what it
    /// shared is dropped.
    ///
    /// # Errors
    /// The [`Failure`] with the lowest index.
    pub fn wait(mut self) -> Result<(), Failure<C::Error>> {
        let producer = self.handle.register_producer();
        let failure = self.end();
        drop(producer);
        failure.map_or(Ok(()), Err)
    }

    /// Runs the rest of the round, waits for other threads, and ends the round.
    fn end(&mut self) -> Option<Failure<C::Error>> {
        // All entries must be claimed first, or the round would not be done.
        self.help();
        self.slot().wait_until_done(self.number, &self.inner.worker_slots);
        let failure = self.slot().end();
        self.ended = true;
        self.inner.release_slot(self.number);
        failure
    }
}

impl<C: Check> Drop for ClosedRound<C> {
    fn drop(&mut self) {
        if !self.ended {
            // Checks that nobody has claimed are then destroyed without a run.
            self.slot().abandon();
            self.end();
        }
    }
}

impl<C: Check> fmt::Debug for ClosedRound<C> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ClosedRound")
            .field("is_done", &self.is_done())
            .finish_non_exhaustive()
    }
}
