//! Which workers are awake, and how threads wake the others.
//!
//! # State
//!
//! | where | what | written by |
//! |---|---|---|
//! | `counts`, low half | workers awake | a parking worker; a waking thread |
//! | `counts`, high half | searching workers | the same; a worker that finds or lacks work |
//! | `top` | link to the top of the stack, and a tag | pushing and popping threads |
//! | `slot.next` | link to the worker below in the stack | its worker, before pushing |
//! | `slot.state` | see below | its worker; the popping thread writes `OFF_STACK` |
//!
//! - The stack holds the parked workers.
//! - A searching worker is awake, runs no work, and looks for some.
//! - A waking thread changes `counts` for the worker that it wakes.
//! - A link is the index of a worker + 1, or 0 for none. Each push and pop changes the tag, against
//!   ABA.
//! - The state of a slot is `OFF_STACK`, `PARKED` (on the stack) or `STALE` (on the stack, though
//!   its worker is awake).
//!
//! # Protocol
//!
//! - *A thread that makes work* publishes the work, then calls [`Sleep::notify`]. `notify` wakes no
//!   worker if one is searching already, or if as many are awake as there are cores for them.
//!   Otherwise it wakes the worker that parked last: its cache is warm.
//! - *A worker that finds work* stops searching before it runs the work. If it was the last
//!   searcher and there is more work, it notifies. So work that came during its search finds
//!   another worker.
//! - *A worker that finds no work* pushes itself, leaves `counts`, and searches once more before it
//!   sleeps. If it finds work then, it stays on the stack as `STALE`. A thread that pops a stale
//!   slot goes on to the next.
//! - *A waking thread* first counts the worker as awake and searching, then pops. So several
//!   notifications at once wake only as many workers as are wanted. `wake_all` takes the whole
//!   stack first.
//!
//! # Why no wake is lost
//!
//! `notify` has a `fence(SeqCst)` between the publication and its load of `counts`. A parking
//! worker has one between leaving `counts` and its last search. So either `notify` sees that the
//! worker has left, or the worker sees the work. If `notify` relies on another worker that is
//! awake, the same holds for that worker when it parks.
//!
//! # Not guaranteed
//!
//! - That a certain worker wakes, or that all wake when there is work for all.
//! - An order among units of work.

use blockmill_sync::CachePadded;
use blockmill_sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use blockmill_sync::wait::WaitWord;

/// A pool has fewer workers than this. Their number must fit the halves of `counts` and `top`.
pub(crate) const WORKERS_MAX: usize = 1 << 16;

const ONE_AWAKE: u64 = 1;
const ONE_SEARCHING: u64 = 1 << 32;

const OFF_STACK: u32 = 0;
const PARKED: u32 = 1;
const STALE: u32 = 2;

/// The link that points to no worker.
const NO_LINK: u32 = 0;

const fn awake(counts: u64) -> u32 {
    counts as u32
}

const fn searching(counts: u64) -> u32 {
    (counts >> 32) as u32
}

/// The slot that one worker parks in.
#[derive(Debug)]
struct Slot {
    state: WaitWord,
    next: AtomicU32,
}

/// Whether other workers search when a worker has found work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum Found {
    /// Other workers are still searching.
    OthersSearch,
    /// No worker searches any more. If there is more work, the caller must
    /// [`notify`](Sleep::notify).
    LastSearcher,
}

/// Why [`Sleep::park`] returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum Unparked {
    /// The last search found work, so the worker did not sleep.
    FoundWork,
    /// A thread woke the worker.
    Woken,
}

/// The workers of a pool, awake and parked. At first all workers are awake and search for work.
#[derive(Debug)]
pub(crate) struct Sleep {
    counts: CachePadded<AtomicU64>,
    top: CachePadded<AtomicU64>,
    slots: Box<[CachePadded<Slot>]>,
}

impl Sleep {
    pub(crate) fn new(workers: usize) -> Self {
        assert!(workers < WORKERS_MAX, "too many workers");
        let slot = || {
            CachePadded::new(Slot {
                state: WaitWord::new(OFF_STACK),
                next: AtomicU32::new(NO_LINK),
            })
        };
        Self {
            counts: CachePadded::new(AtomicU64::new(workers as u64 * (ONE_AWAKE + ONE_SEARCHING))),
            top: CachePadded::new(AtomicU64::new(NO_LINK.into())),
            slots: (0..workers).map(|_| slot()).collect(),
        }
    }

    /// Number of workers, awake or parked.
    pub(crate) fn workers(&self) -> usize {
        self.slots.len()
    }

    /// Number of workers that are awake at this moment. For diagnosis and policy.
    pub(crate) fn awake(&self) -> u32 {
        awake(self.counts.load(Ordering::Relaxed))
    }

    /// Records that a searching worker has found work.
    #[inline]
    pub(crate) fn found_work(&self) -> Found {
        let before = self.counts.fetch_sub(ONE_SEARCHING, Ordering::Relaxed);
        // Pairs with the fence in `notify`, which may have relied on this worker to search further.
        store_then_load_fence();
        if searching(before) == 1 {
            Found::LastSearcher
        } else {
            Found::OthersSearch
        }
    }

    /// Records that a worker that ran work searches for more.
    #[inline]
    pub(crate) fn search(&self) {
        self.counts.fetch_add(ONE_SEARCHING, Ordering::Relaxed);
    }

    /// Wakes a worker for work that the caller has published. Wakes none if a worker is searching
    /// or `awake_max` workers are awake.
    #[inline]
    pub(crate) fn notify(&self, awake_max: impl FnOnce() -> u32) {
        // Pairs with the fences in `park` and `found_work`.
        store_then_load_fence();
        let counts = self.counts.load(Ordering::Relaxed);
        if searching(counts) == 0 && (awake(counts) as usize) < self.slots.len() && awake(counts) < awake_max() {
            self.wake_one(counts);
        }
    }

    /// Wakes the worker that parked last, unless a worker is searching by now.
    #[cold]
    fn wake_one(&self, mut counts: u64) {
        while searching(counts) == 0 && (awake(counts) as usize) < self.slots.len() {
            let next = counts + ONE_AWAKE + ONE_SEARCHING;
            match self
                .counts
                .compare_exchange(counts, next, Ordering::AcqRel, Ordering::Relaxed)
            {
                Ok(_) => return self.wake_counted(),
                Err(found) => counts = found,
            }
        }
    }

    /// Wakes a worker that the caller has already counted as awake and searching.
    fn wake_counted(&self) {
        loop {
            while let Some(worker) = self.pop() {
                let slot = &self.slots[worker];
                // AcqRel: pairs with the exchanges of the state in `park`.
                if slot.state.atomic().swap(OFF_STACK, Ordering::AcqRel) == PARKED {
                    slot.state.address().wake_one();
                    return;
                }
            }
            // All workers on the stack were awake already, and search once more before they park.
            // But another notification may have relied on the worker that this thread counted, and
            // a worker may have parked since. AcqRel: that worker changed `counts` before this
            // step, so this thread sees its push.
            self.counts.fetch_sub(ONE_AWAKE + ONE_SEARCHING, Ordering::AcqRel);
            if self.top.load(Ordering::Acquire) as u32 == NO_LINK {
                return;
            }
            self.counts.fetch_add(ONE_AWAKE + ONE_SEARCHING, Ordering::AcqRel);
        }
    }

    /// Wakes all parked workers. `wake_all` takes the whole stack first, so a worker that wakes and
    /// parks again at once does not count twice.
    pub(crate) fn wake_all(&self) {
        fence(Ordering::SeqCst);
        let mut next = self.pop_all();
        while let Some(worker) = next {
            let slot = &self.slots[worker];
            // A worker of the stack does not push itself again before its state is `OFF_STACK`. So
            // `next` is still the link of the stack.
            next = linked(slot.next.load(Ordering::Relaxed));
            self.counts.fetch_add(ONE_AWAKE + ONE_SEARCHING, Ordering::AcqRel);
            // AcqRel: pairs with the exchanges of the state in `park`.
            if slot.state.atomic().swap(OFF_STACK, Ordering::AcqRel) == PARKED {
                slot.state.address().wake_one();
            } else {
                // The worker was awake already. Its count goes to a worker that has parked since,
                // or is subtracted again.
                self.wake_counted();
            }
        }
    }

    /// Parks a searching worker until a thread wakes it, unless `has_work` returns true. The worker
    /// counts as searching again on return.
    #[cold]
    pub(crate) fn park(&self, worker: usize, has_work: impl Fn() -> bool) -> Unparked {
        let state = &self.slots[worker].state;
        if state.atomic().swap(PARKED, Ordering::AcqRel) == OFF_STACK {
            self.push(worker);
        }
        // AcqRel: pairs with the change of `counts` in `wake_counted`, which then sees the push.
        self.counts.fetch_sub(ONE_AWAKE + ONE_SEARCHING, Ordering::AcqRel);
        // Pairs with the fence in `notify`.
        store_then_load_fence();
        if has_work() {
            let stays_awake = state
                .atomic()
                .compare_exchange(PARKED, STALE, Ordering::AcqRel, Ordering::Acquire);
            if stays_awake.is_ok() {
                self.counts.fetch_add(ONE_AWAKE + ONE_SEARCHING, Ordering::AcqRel);
            }
            // Otherwise a thread has just woken this worker, and counted it.
            return Unparked::FoundWork;
        }
        // Acquire: pairs with the swap in `wake_counted`.
        while state.atomic().load(Ordering::Acquire) == PARKED {
            let _ = state.wait(PARKED, None);
        }
        Unparked::Woken
    }

    fn push(&self, worker: usize) {
        let slot = &self.slots[worker];
        let mut top = self.top.load(Ordering::Relaxed);
        loop {
            slot.next.store(top as u32, Ordering::Relaxed);
            let next = (next_tag(top) << 32) | (worker as u64 + 1);
            // Release: pairs with the Acquire in `pop`, which reads `slot.next`.
            match self
                .top
                .compare_exchange(top, next, Ordering::Release, Ordering::Relaxed)
            {
                Ok(_) => return,
                Err(found) => top = found,
            }
        }
    }

    /// Takes all workers off the stack. Returns the top one.
    fn pop_all(&self) -> Option<usize> {
        let mut top = self.top.load(Ordering::Acquire);
        loop {
            let worker = linked(top as u32)?;
            let next = (next_tag(top) << 32) | u64::from(NO_LINK);
            // Acquire: pairs with the Release in `push` of every worker on the stack.
            match self
                .top
                .compare_exchange(top, next, Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => return Some(worker),
                Err(found) => top = found,
            }
        }
    }

    fn pop(&self) -> Option<usize> {
        let mut top = self.top.load(Ordering::Acquire);
        loop {
            let worker = linked(top as u32)?;
            let below = self.slots[worker].next.load(Ordering::Relaxed);
            // `below` may belong to a later push. Then the tag has changed too, and the exchange
            // fails.
            let next = (next_tag(top) << 32) | u64::from(below);
            match self
                .top
                .compare_exchange(top, next, Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => return Some(worker),
                Err(found) => top = found,
            }
        }
    }
}

/// Orders a store of this thread before its load of what another thread stores.
#[inline]
fn store_then_load_fence() {
    #[cfg(all(test, blockmill_loom))]
    if crate::tests::WEAKENED.get() {
        return fence(Ordering::AcqRel);
    }
    fence(Ordering::SeqCst);
}

/// The worker that a link points to.
fn linked(link: u32) -> Option<usize> {
    link.checked_sub(1).map(|worker| worker as usize)
}

/// The tag for the next state of the stack.
const fn next_tag(top: u64) -> u64 {
    ((top >> 32) + 1) & u32::MAX as u64
}
