//! The queue: rounds in slots, served oldest first by a pool. A round that outlives 63 that were begun after it loses its rank: slots are numbered in
//! a circle, so it may pass for a younger one.

use crate::check::{Check, Failure};
use crate::round::{Inside, Slot, nobody_inside};
use crate::worth::{Group, LastWorth, Next, Worth};
use blockmill_pool::{Panic, Producer, ThreadPool, ThreadPoolOptions, WorkSource, WorkSourceHandle};
use blockmill_sync::CachePadded;
use blockmill_sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::fmt;
use std::io;
use std::sync::Arc;
use thiserror::Error;

/// Most rounds that can be open at once.
pub const ROUNDS_MAX: usize = 64;

/// Checks that a worker runs before it looks for older rounds and work sources of higher priority.
const CHECKS_IN_A_ROW: u32 = 16;

/// There are [`ROUNDS_MAX`] open rounds; what the round was to share comes back.
#[derive(Error)]
#[error("{ROUNDS_MAX} rounds are open already")]
pub struct TooManyRounds<S>(pub S);

impl<S> fmt::Debug for TooManyRounds<S> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("TooManyRounds").finish_non_exhaustive()
    }
}

/// A queue of checks. See the [crate](crate) for how it is used.
pub struct CheckQueue<C: Check> {
    inner: Arc<Inner<C>>,
    handle: Arc<WorkSourceHandle>,
    /// Dropped after the handle.
    _own_pool: Option<ThreadPool>,
}

/// What the masters and the workers share.
struct Inner<C: Check> {
    slots: Box<[Slot<C>]>,
    inside: Box<Inside>,
    /// A bit for each slot with a round.
    open: CachePadded<AtomicU64>,
    /// The slot behind that of the youngest round. Slots are taken in this direction, so from here on the rounds come by age.
    next: CachePadded<AtomicU32>,
    /// What masters have found out about the checks.
    worth: CachePadded<LastWorth>,
}

impl<C: Check> CheckQueue<C> {
    /// A queue that is served by a pool.
    pub fn new(pool: &ThreadPool, priority: u32) -> Self {
        let inner = Arc::new(Inner {
            slots: (0..ROUNDS_MAX).map(|_| Slot::new(pool.workers() + 1)).collect(),
            inside: nobody_inside(pool.workers()),
            open: CachePadded::new(AtomicU64::new(0)),
            next: CachePadded::new(AtomicU32::new(0)),
            worth: CachePadded::new(LastWorth::default()),
        });
        let handle = pool.register(priority, Arc::<Inner<C>>::clone(&inner));
        Self {
            inner,
            handle: Arc::new(handle),
            _own_pool: None,
        }
    }

    /// A queue with so many workers of its own; with none, masters run checks when they add them.
    ///
    /// # Errors
    /// That of the system when a thread cannot be started.
    pub fn alone(workers: usize) -> io::Result<Self> {
        let pool = ThreadPool::new(&ThreadPoolOptions {
            name: "check".to_owned(),
            ..ThreadPoolOptions::workers(workers)
        })?;
        let mut queue = Self::new(&pool, 0);
        queue._own_pool = Some(pool);
        Ok(queue)
    }

    /// Begins a round with places for `capacity` checks, which all read `shared`. Checks beyond that are run by who adds them; so
    /// are all, if the queue has no workers.
    ///
    /// # Errors
    /// [`TooManyRounds`].
    pub fn begin(&self, capacity: usize, shared: C::Shared) -> Result<Round<C>, TooManyRounds<C::Shared>> {
        let Some(slot) = self.inner.take_slot() else {
            return Err(TooManyRounds(shared));
        };
        self.inner.slots[slot as usize].begin(shared);
        let worth = if self.workers() > 0 {
            self.inner.worth.get()
        } else {
            Worth::without_workers()
        };
        Ok(Round {
            _attendance: self.handle.register_producer(),
            added: 0,
            places: 0,
            published: 0,
            capacity: u32::try_from(capacity).unwrap_or(u32::MAX),
            worth,
            group: Group::default(),
            closed: ClosedRound {
                inner: Arc::clone(&self.inner),
                handle: Arc::clone(&self.handle),
                number: slot,
                ended: false,
            },
        })
    }

    /// Rounds that are open at this moment; for diagnosis.
    pub fn open_rounds(&self) -> usize {
        self.inner.open.load(Ordering::Relaxed).count_ones() as usize
    }

    /// Workers that serve the queue.
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
        // Acquire: pairs with the Release in `give_slot_back`.
        let mut open = self.open.load(Ordering::Acquire);
        loop {
            let next = self.next.load(Ordering::Relaxed);
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
                    self.next.store((slot + 1) % ROUNDS_MAX as u32, Ordering::Relaxed);
                    return Some(slot);
                }
                Err(found) => open = found,
            }
        }
    }

    fn give_slot_back(&self, slot: u32) {
        self.open.fetch_and(!(1 << slot), Ordering::Release);
    }

    /// The slot of the oldest round that has checks to claim, and how many.
    #[inline]
    fn oldest_pending(&self) -> Option<(u32, u32)> {
        let open = self.open.load(Ordering::Acquire);
        if open == 0 {
            return None;
        }
        let next = self.next.load(Ordering::Relaxed);
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
        if let Some((slot, _)) = self.oldest_pending() {
            self.slots[slot as usize].serve(slot, &self.inside[worker], CHECKS_IN_A_ROW);
        }
    }

    fn panicked(&self, panic: Panic) {
        // Checks are contained one by one, so this is a bug of this crate; it must not pass for a good round.
        eprintln!("check queue: {panic}");
        std::process::abort();
    }
}

/// A round that is open: checks can be added.
///
/// Of several rounds with checks to run the one that was begun first is served first, if fewer than 64 were begun since.
///
/// Dropping it abandons it: checks that have not been run are destroyed, and what runs is waited for. If it is forgotten, its
/// checks are run or destroyed in the end, its slot is not used again, and it counts for ever as one that attends the pool, which then keeps a worker
/// fewer awake.
pub struct Round<C: Check> {
    _attendance: Producer,
    /// Checks added.
    added: u32,
    /// Those of them that are in places.
    places: u32,
    /// Those of them that workers know of.
    published: u32,
    /// Places that are still to be made.
    capacity: u32,
    worth: Worth,
    /// The checks that are being measured.
    group: Group,
    closed: ClosedRound<C>,
}

impl<C: Check> Round<C> {
    /// Adds checks; workers begin with them at once: while the iterator goes on they know of half of its checks at least. The order in which checks are
    /// added is that of their indexes.
    ///
    /// Some are run before this returns: those for which there is no place, those that are so cheap that handing them over takes
    /// longer, and now and then one to find that out. So a check must not wait for what the caller does later.
    #[inline]
    pub fn add(&mut self, checks: impl IntoIterator<Item = C>) {
        let mut adding = Adding(self);
        for check in checks {
            adding.add(check);
        }
    }

    /// Checks added so far.
    pub fn len(&self) -> usize {
        self.added as usize
    }

    /// Whether no check was added so far.
    pub fn is_empty(&self) -> bool {
        self.added == 0
    }

    /// Says that no more checks come. The verdict is asked for later.
    pub fn close(self) -> ClosedRound<C> {
        if self.closed.handle.workers() > 0 {
            self.closed.inner.worth.set(self.worth);
        }
        self.closed
    }

    /// Runs checks until there are none left, waits for those that others run, and gives the verdict.
    ///
    /// # Errors
    /// The [`Failure`] of the lowest index.
    pub fn complete(self) -> Result<(), Failure<C::Error>> {
        self.close().wait()
    }
}

/// Publishes what was constructed, also when the iterator panics.
struct Adding<'a, C: Check>(&'a mut Round<C>);

impl<C: Check> Adding<'_, C> {
    #[inline]
    fn add(&mut self, mut check: C) {
        let round = &mut *self.0;
        let index = round.added;
        round.added = index.checked_add(1).expect("a round has less than 2^32 checks");
        match round.worth.next() {
            Next::Share => match round.closed.slot().construct(round.places, index, check) {
                Ok(()) => {
                    round.places += 1;
                    // So that workers know of half of the checks at least, however slow the iterator is.
                    if round.places.is_power_of_two() {
                        self.publish();
                    }
                }
                Err(check) => self.without_place(index, check),
            },
            Next::Keep => {
                // It is run where it lies: a copy of what was written just before has to wait for that.
                round.closed.slot().judge_now(index, &mut check);
                round.closed.slot().drop_now(index, check);
            }
            Next::Measure => self.measure(index, check),
        }
    }

    /// Makes the places, if that has not been done. Without a place the master runs a check itself.
    #[cold]
    fn without_place(&mut self, index: u32, mut check: C) {
        let round = &mut *self.0;
        let capacity = std::mem::take(&mut round.capacity);
        if capacity > 0 {
            round.closed.slot().make_places(capacity);
            match round.closed.slot().construct(round.places, index, check) {
                Ok(()) => return round.places += 1,
                Err(back) => check = back,
            }
        }
        round.closed.slot().run_now(index, check);
    }

    /// Runs a check of a group that is measured.
    #[cold]
    fn measure(&mut self, index: u32, check: C) {
        // Workers are not to wait for it.
        self.publish();
        let round = &mut *self.0;
        round.group.resume();
        round.closed.slot().run_now(index, check);
        if round.group.ran_one() {
            round.worth.measured(&std::mem::take(&mut round.group));
        }
    }

    #[inline]
    fn publish(&mut self) {
        let round = &mut *self.0;
        if round.places > round.published {
            round.published = round.places;
            round.closed.slot().publish(round.places);
            round.closed.handle.notify();
        }
    }
}

impl<C: Check> Drop for Adding<'_, C> {
    #[inline]
    fn drop(&mut self) {
        self.publish();
        self.0.group.pause();
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

/// A round to which no more checks are added. Dropping it abandons it, as for [`Round`].
pub struct ClosedRound<C: Check> {
    inner: Arc<Inner<C>>,
    handle: Arc<WorkSourceHandle>,
    /// Its slot.
    number: u32,
    ended: bool,
}

impl<C: Check> ClosedRound<C> {
    fn slot(&self) -> &Slot<C> {
        &self.inner.slots[self.number as usize]
    }

    /// Whether [`wait`](Self::wait) would neither run a check nor wait.
    pub fn is_done(&self) -> bool {
        self.slot().is_done(self.number, &self.inner.inside)
    }

    /// Runs checks, at most so many, and returns how many there were.
    pub fn help_some(&self, checks_max: u32) -> u32 {
        self.slot().run_claimed(checks_max)
    }

    /// Runs checks until there are none left; others may still run some.
    pub fn help(&self) {
        self.slot().run_claimed(u32::MAX);
    }

    /// Runs checks until there are none left, waits for those that others run, and gives the verdict. All checks of the round are
    /// destroyed then, its memory is freed, and what it shared is dropped.
    ///
    /// # Errors
    /// The [`Failure`] of the lowest index.
    pub fn wait(mut self) -> Result<(), Failure<C::Error>> {
        let attendance = self.handle.register_producer();
        let failure = self.end();
        drop(attendance);
        failure.map_or(Ok(()), Err)
    }

    /// Runs what is left of the round, waits for the rest, and ends it.
    fn end(&mut self) -> Option<Failure<C::Error>> {
        self.help();
        self.slot().wait_until_done(self.number, &self.inner.inside);
        let failure = self.slot().end();
        self.ended = true;
        self.inner.give_slot_back(self.number);
        failure
    }
}

impl<C: Check> Drop for ClosedRound<C> {
    fn drop(&mut self) {
        if !self.ended {
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
