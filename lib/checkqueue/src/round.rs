//! One round of checks: memory that does not move, filled by a master and emptied by workers.
//!
//! # State
//!
//! A slot is used by one round after the other; `generation` counts them.
//!
//! | field | what | written by |
//! |---|---|---|
//! | `published` | generation; places that have checks | the master |
//! | `claimed` | generation; places that someone has taken | who claims; the master when a round begins |
//! | `lowest_failed` | index of the lowest failed check | who finds a failure; the master when a round begins |
//! | `checks` | the places, each for a check and its index | the master before it publishes, and when a round ends; a place, after it is published, by who claimed it |
//! | `shared` | what the checks read | the master when a round begins and ends |
//! | `failure` | the lowest failure itself | who finds one, in `failing`; the master when the round ends |
//! | `inside[w]` | the slot in which worker `w` is | that worker |
//!
//! `published`, `claimed` and `lowest_failed` each have a cache line of their own, and so has each `inside`. A check that passes
//! leads to one write that others see: its claim.
//!
//! # Protocol
//!
//! - *The master* constructs checks in the places behind `published`, and then moves it. Checks for which there is no place, or that are
//!   not worth one (see `worth`), it runs by itself. So the indexes in the places are in order, but may have gaps.
//! - *A worker* says that it is inside, claims places below `published`, runs the checks there one after the other and destroys
//!   them, and claims the next; it leaves when there are none.
//! - *A claim* takes one place, or, while very many are pending, up to [`CLAIM_MAX`]: two threads that claim in turn take the line of `claimed`
//!   from each other, which costs each about as much as a check of 0.1 us.
//! - *A failure* of index `i` keeps checks above `i` from being run; they are destroyed as soon as they are claimed. No check below `i` is
//!   left out, whoever claimed it: the lowest failure is always found.
//! - *The master ends the round* when all checks are claimed and no worker is inside. Then nobody touches the places, or what they
//!   share, and it frees both.
//!
//! # Orderings
//!
//! - `published`: Release by the master, Acquire in `claim`: who claims a check sees it whole, and what the round began with.
//! - `claimed`: exchanged with AcqRel, read with Acquire by the master: who sees the last claim sees that every claimer had
//!   said that it is inside, since all claims are one chain of exchanges.
//! - `inside`: Release by the worker in both directions, Acquire by the master: who sees that a worker is elsewhere sees all that it did
//!   to the checks.
//! - A worker leaves, then looks whether the master waits; the master says that it waits, then looks whether workers are inside: both
//!   with a SeqCst fence between.
//!
//! A claim from a former round cannot succeed, since the generation is compared with it; 2^32 rounds would have to pass in between.

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
const OUTSIDE: u32 = 0;

const fn count(word: u64) -> u32 {
    word as u32
}

const fn generation(word: u64) -> u32 {
    (word >> 32) as u32
}

const fn word(generation: u32, count: u32) -> u64 {
    ((generation as u64) << 32) | count as u64
}

/// Where each worker is.
pub(crate) type Inside = [CachePadded<AtomicU32>];

pub(crate) fn nobody_inside(workers: usize) -> Box<Inside> {
    (0..workers)
        .map(|_| CachePadded::new(AtomicU32::new(OUTSIDE)))
        .collect()
}

/// A check with its index, in its place.
pub(crate) struct Placed<C> {
    index: u32,
    check: C,
}

type Places<C> = Box<[Cell<MaybeUninit<Placed<C>>>]>;

/// Most checks that are claimed at once.
const CLAIM_MAX: u32 = if cfg!(blockmill_loom) { 2 } else { 8 };

/// Claims for each thread that are to be left: a claim takes no more than that part of what is pending.
const CLAIMS_LEFT: u32 = 8;

/// A place for one round after the other.
pub(crate) struct Slot<C: Check> {
    published: CachePadded<AtomicU64>,
    claimed: CachePadded<AtomicU64>,
    lowest_failed: CachePadded<AtomicU32>,
    checks: Cell<Places<C>>,
    shared: Cell<Option<C::Shared>>,
    failing: CriticalSection,
    failure: Cell<Option<Failure<C::Error>>>,
    master_waits: CachePadded<AtomicBool>,
    left: AutoResetEvent,
    /// Of so many pending checks, as a power of two, one claim takes one.
    claim_shift: u32,
}

#[expect(unsafe_code, reason = "the cells are guarded by the protocol above")]
// SAFETY: cells are touched by more than one thread only as the table says: a place by the master until it is published and then by the
// one that claimed it, `shared` and `checks` read by those inside and written when nobody is, `failure` under `failing`. Values
// that cross threads are Send, what several threads read at once (`shared`) is Sync.
unsafe impl<C: Check> Sync for Slot<C> {}
#[expect(unsafe_code, reason = "under loom its cells are not Send by themselves")]
// SAFETY: everything in it is Send.
unsafe impl<C: Check> Send for Slot<C> {}

impl<C: Check> Slot<C> {
    /// A slot for so many threads, the master included.
    pub(crate) fn new(threads: usize) -> Self {
        let threads = u32::try_from(threads).unwrap_or(u32::MAX);
        // Models have few checks: there half of what is pending, and no more than two, may be claimed at once.
        let claims = if cfg!(blockmill_loom) {
            2
        } else {
            u64::from(threads) * u64::from(CLAIMS_LEFT)
        };
        Self {
            published: CachePadded::new(AtomicU64::new(0)),
            claimed: CachePadded::new(AtomicU64::new(0)),
            lowest_failed: CachePadded::new(AtomicU32::new(NONE)),
            checks: Cell::new(Box::new([])),
            shared: Cell::new(None),
            failing: CriticalSection::new(),
            failure: Cell::new(None),
            master_waits: CachePadded::new(AtomicBool::new(false)),
            left: AutoResetEvent::new(),
            claim_shift: claims.next_power_of_two().trailing_zeros().min(u32::BITS - 1),
        }
    }
}

/// The duties of a master: of all that is called for one use of a slot, `begin` comes first and `end` last, and they and
/// `publish` are called by one thread at a time.
impl<C: Check> Slot<C> {
    /// Begins a round without places.
    pub(crate) fn begin(&self, shared: C::Shared) {
        let next = generation(self.published.load(Ordering::Relaxed)).wrapping_add(1);
        // From here to the end of the function no claim succeeds: the generations differ.
        self.claimed.store(word(next, 0), Ordering::Relaxed);
        self.lowest_failed.store(NONE, Ordering::Relaxed);
        #[expect(unsafe_code, reason = "the cells are guarded by the protocol")]
        // SAFETY: the last round has ended, so no worker is inside with a claim, and without one none touches the cells.
        unsafe {
            self.shared.with_mut(|place| *place = Some(shared));
        }
        // Pairs with the Acquire in `claim`.
        self.published.store(word(next, 0), Ordering::Release);
    }

    /// Makes places for so many checks. Not to be called after something was published in the round.
    #[cold]
    pub(crate) fn make_places(&self, capacity: u32) {
        debug_assert_eq!(count(self.published.load(Ordering::Relaxed)), 0);
        let places: Places<C> = (0..capacity).map(|_| Cell::new(MaybeUninit::uninit())).collect();
        #[expect(unsafe_code, reason = "the cells are guarded by the protocol")]
        // SAFETY: nothing is published in this round, so nobody has a claim in it, and without one none but the master touches the cells.
        unsafe {
            self.checks.with_mut(|checks| *checks = places);
        }
    }

    /// Constructs a check in the place behind all others, if there is one. It can be claimed when the place is published.
    #[inline]
    pub(crate) fn construct(&self, place: u32, index: u32, check: C) -> Result<(), C> {
        #[expect(unsafe_code, reason = "the cells are guarded by the protocol")]
        // SAFETY: the master alone changes `checks`, and it is here.
        let checks = unsafe { self.checks.with(|checks| &*checks) };
        match checks.get(place as usize) {
            None => Err(check),
            Some(place) => {
                place.with_mut(|place| {
                    #[expect(unsafe_code, reason = "the cells are guarded by the protocol")]
                    // SAFETY: the place is not published, so only the master touches it.
                    unsafe {
                        (*place).write(Placed { index, check });
                    }
                });
                Ok(())
            }
        }
    }

    /// Lets checks be claimed up to this place.
    #[inline]
    pub(crate) fn publish(&self, end: u32) {
        let generation = generation(self.published.load(Ordering::Relaxed));
        // Pairs with the Acquire in `claim`.
        self.published.store(word(generation, end), publishing());
    }

    /// Runs a check that has no place, and destroys it, by the master.
    #[inline]
    pub(crate) fn run_now(&self, index: u32, mut check: C) {
        self.judge_now(index, &mut check);
        self.drop_now(index, check);
    }

    /// The first half of [`run_now`](Self::run_now): all but the end of the check.
    #[inline]
    pub(crate) fn judge_now(&self, index: u32, check: &mut C) {
        if index < self.lowest_failed.load(Ordering::Relaxed) {
            self.with_shared(|shared| self.judge(index, check, shared));
        }
    }

    /// The second half: the end of the check.
    #[inline]
    pub(crate) fn drop_now(&self, index: u32, check: C) {
        if std::mem::needs_drop::<C>() {
            self.drop_contained(index, || drop(check));
        }
    }

    /// Keeps all checks that are not claimed yet from being run.
    pub(crate) fn abandon(&self) {
        self.lowest_failed.store(0, Ordering::Relaxed);
    }

    /// Whether all that was published has been done.
    pub(crate) fn is_done(&self, number: u32, inside: &Inside) -> bool {
        let published = self.published.load(Ordering::Relaxed);
        // Acquire: pairs with the exchanges in `claim`.
        let claimed = self.claimed.load(Ordering::Acquire);
        // Acquire: pairs with the Release of a worker that goes elsewhere.
        let elsewhere = |worker: &CachePadded<AtomicU32>| worker.load(Ordering::Acquire) != number + 1;
        // If nothing was published nobody has had a claim.
        count(claimed) == count(published) && (count(published) == 0 || inside.iter().all(elsewhere))
    }

    /// Waits until the last worker has left, when there is nothing more to claim.
    pub(crate) fn wait_until_done(&self, number: u32, inside: &Inside) {
        let mut backoff = Backoff::new();
        loop {
            if self.is_done(number, inside) {
                return;
            }
            if !backoff.snooze() {
                break;
            }
        }
        self.master_waits.store(true, Ordering::Relaxed);
        // Pairs with the fence in `serve`.
        fence(Ordering::SeqCst);
        while !self.is_done(number, inside) {
            self.left.wait();
        }
        self.master_waits.store(false, Ordering::Relaxed);
    }

    /// Ends the round when it is done: frees the places and what the checks share.
    pub(crate) fn end(&self) -> Option<Failure<C::Error>> {
        #[expect(unsafe_code, reason = "the cells are guarded by the protocol")]
        // SAFETY: all checks have been claimed and no worker is inside, which the caller has seen in `is_done`; so nobody else
        // touches the cells until the next round begins.
        unsafe {
            let places = self.checks.with_mut(|checks| std::mem::take(&mut *checks));
            let shared = self.shared.with_mut(|shared| (*shared).take());
            let failure = self.failure.with_mut(|failure| (*failure).take());
            drop(places);
            drop(shared);
            failure
        }
    }
}

/// The way of a worker; the master goes it too when it waits.
impl<C: Check> Slot<C> {
    /// Checks that can be claimed at this moment.
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

    /// Runs checks, at most so many, as the worker that `inside` belongs to. `number` is that of the slot.
    #[inline]
    pub(crate) fn serve(&self, number: u32, inside: &AtomicU32, checks_max: u32) {
        // Release: pairs with the Acquire in `is_done`, for the slot that was left before.
        inside.store(number + 1, Ordering::Release);
        self.run_claimed(checks_max);
        // Release: pairs with the Acquire in `is_done`.
        inside.store(OUTSIDE, leaving());
        // Pairs with the fence in `wait_until_done`.
        fence(Ordering::SeqCst);
        if self.master_waits.load(Ordering::Relaxed) {
            self.left.set();
        }
    }

    /// Claims and runs checks, at most so many; by who is inside, or by the master of the round. Returns how many it ran.
    #[inline]
    pub(crate) fn run_claimed(&self, checks_max: u32) -> u32 {
        let mut left = checks_max;
        while left > 0
            && let Some(places) = self.claim(left)
        {
            left -= places.end - places.start;
            for place in places {
                self.run(place);
            }
        }
        checks_max - left
    }

    /// Claims the next places, at most so many: a part of what is pending, so that none is left without work towards the end.
    #[inline]
    fn claim(&self, most: u32) -> Option<Range<u32>> {
        // Acquire: pairs with the Release in `publish`.
        let published = self.published.load(Ordering::Acquire);
        let mut claimed = self.claimed.load(Ordering::Relaxed);
        while generation(claimed) == generation(published) && count(claimed) < count(published) {
            let pending = count(published) - count(claimed);
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

    /// Runs the check in a claimed place, and destroys it there.
    #[inline]
    fn run(&self, place: u32) {
        #[expect(unsafe_code, reason = "the cells are guarded by the protocol")]
        // SAFETY: this thread has a claim and is inside or the master, so the round does not end and `checks` does not change.
        let checks = unsafe { self.checks.with(|checks| &*checks) };
        checks[place as usize].with_mut(|place| {
            #[expect(unsafe_code, reason = "the cells are guarded by the protocol")]
            // SAFETY: the check was constructed before its place was published, and this thread alone has claimed it.
            let Placed { index, check } = unsafe { (*place).assume_init_mut() };
            let index = *index;
            if index < self.lowest_failed.load(Ordering::Relaxed) {
                self.with_shared(|shared| self.judge(index, check, shared));
            }
            if !std::mem::needs_drop::<C>() {
                return;
            }
            self.drop_contained(index, || {
                #[expect(unsafe_code, reason = "checks are destroyed in their places")]
                // SAFETY: as above; nobody looks at the place again.
                unsafe {
                    (*place).assume_init_drop();
                }
            });
        });
    }

    #[inline]
    fn with_shared(&self, work: impl FnOnce(&C::Shared)) {
        self.shared.with(|shared| {
            #[expect(unsafe_code, reason = "the cells are guarded by the protocol")]
            // SAFETY: called by who has a claim and is inside, or by the master: the round does not end meanwhile.
            if let Some(shared) = unsafe { &*shared } {
                work(shared);
            }
        });
    }

    #[inline]
    fn judge(&self, index: u32, check: &mut C, shared: &C::Shared) {
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
        let other = self.failure.with_mut(|failure| {
            #[expect(unsafe_code, reason = "the cells are guarded by the protocol")]
            // SAFETY: under `failing`, and before the round ends, as this thread is inside or the master.
            let failure = unsafe { &mut *failure };
            let new = Failure { index, fault };
            if failure.as_ref().is_none_or(|other| index < other.index) {
                failure.replace(new)
            } else {
                Some(new)
            }
        });
        drop(failing);
        // A check's own error: its drop may panic, which changes nothing about the verdict.
        let _ = contain(|| drop(other));
    }
}

impl<C: Check> Drop for Slot<C> {
    fn drop(&mut self) {
        // A round whose master was forgotten: checks that nobody claimed are destroyed, and not run.
        self.abandon();
        self.run_claimed(u32::MAX);
    }
}

/// Ordering of the step that publishes.
#[inline]
fn publishing() -> Ordering {
    #[cfg(all(test, blockmill_loom))]
    if crate::tests::WEAKENED.get() == crate::tests::Weakened::Publish {
        return Ordering::Relaxed;
    }
    Ordering::Release
}

/// Ordering of the step that claims; see the head of the file for its AcqRel.
#[inline]
fn claiming() -> Ordering {
    #[cfg(all(test, blockmill_loom))]
    if crate::tests::WEAKENED.get() == crate::tests::Weakened::Claim {
        return Ordering::Relaxed;
    }
    Ordering::AcqRel
}

/// Ordering of the step by which a worker leaves.
#[inline]
fn leaving() -> Ordering {
    #[cfg(all(test, blockmill_loom))]
    if crate::tests::WEAKENED.get() == crate::tests::Weakened::Leave {
        return Ordering::Relaxed;
    }
    Ordering::Release
}
