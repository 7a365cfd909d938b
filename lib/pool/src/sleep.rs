//! Which workers are awake, and how those that are not are woken.
//!
//! # State
//!
//! | where | what | written by |
//! |---|---|---|
//! | `counts`, low half | workers that are awake | a worker that parks; who wakes one, for it |
//! | `counts`, high half | those of them that look for work | the same, and a worker that finds work or runs out of it |
//! | `top` | the stack of parked workers: number of the uppermost + 1, and a tag against reuse | who pushes or pops |
//! | `place.below` | number of the worker below in the stack + 1 | its worker, before it pushes |
//! | `place.word` | `OUT` of the stack, `PARKED` in it, or `AWAKE` although in it | its worker; `OUT` by who popped it |
//! | `place.home` | on which cores its worker may run | see `cores` |
//!
//! # Protocol
//!
//! - *Who makes work* publishes it, then calls [`Sleep::notify`]: nobody is woken if a worker looks for work already, or if as many
//!   are awake as there are cores for them. Else the one that parked last is woken: its cache is warm.
//! - *A worker that finds work* stops looking before it does it. If it was the last that looked and there is more work, it notifies:
//!   so work that came while it looked finds another worker.
//! - *A worker that finds none* pushes itself, leaves `counts`, and looks once more before it sleeps. If there is work after all, it stays
//!   in the stack as `AWAKE`, and who pops it goes on to the next.
//! - *Who wakes* first counts the worker as awake and looking, then pops. So of several notifications at once only as many wake
//!   as are wanted. Who wakes all takes the whole stack first. One that has work to tell of keeps the worker off its own core for the first moment.
//!
//! # Why no wake is lost
//!
//! `notify` has a `fence(SeqCst)` between the publication and its look at `counts`; a parking worker has one between leaving
//! `counts` and its last look for work. So either `notify` sees that the worker has left, or the worker sees the work. If `notify`
//! relies on another worker that is awake, the same holds for that one when it parks.
//!
//! Not guaranteed: that a certain worker is woken, or that all are when there is work for all; and any order among works.

use crate::cores::Home;
use blockmill_sync::CachePadded;
use blockmill_sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use blockmill_sync::wait::WaitWord;

/// Most workers of a pool: their numbers must fit the halves of `counts` and `top`.
pub(crate) const WORKERS_MAX: usize = 1 << 16;

const AWAKE_ONE: u64 = 1;
const LOOKING_ONE: u64 = 1 << 32;

const OUT: u32 = 0;
const PARKED: u32 = 1;
const AWAKE: u32 = 2;

const EMPTY: u32 = 0;

const fn awake(counts: u64) -> u32 {
    counts as u32
}

const fn looking(counts: u64) -> u32 {
    (counts >> 32) as u32
}

/// What only one worker parks on.
#[derive(Debug)]
struct Place {
    word: WaitWord,
    below: AtomicU32,
    home: Home,
}

impl Place {
    fn keep_off_this_core(&self) {
        self.home.keep_off_this_core();
    }
}

/// Whether a worker that found work should call others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum Found {
    /// Others look for work still.
    OthersLook,
    /// Nobody looks any more: if there is more work, [`Sleep::notify`].
    NobodyLooks,
}

/// How a stay of a worker ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum Parked {
    /// There was work at the last look.
    NotAtAll,
    /// It was woken.
    Woken,
}

/// The workers of a pool, awake and parked. At first all are awake and look for work.
#[derive(Debug)]
pub(crate) struct Sleep {
    counts: CachePadded<AtomicU64>,
    top: CachePadded<AtomicU64>,
    places: Box<[CachePadded<Place>]>,
}

impl Sleep {
    pub(crate) fn new(workers: usize) -> Self {
        assert!(workers < WORKERS_MAX, "too many workers");
        let place = || {
            CachePadded::new(Place {
                word: WaitWord::new(OUT),
                below: AtomicU32::new(EMPTY),
                home: Home::default(),
            })
        };
        Self {
            counts: CachePadded::new(AtomicU64::new(workers as u64 * (AWAKE_ONE + LOOKING_ONE))),
            top: CachePadded::new(AtomicU64::new(EMPTY.into())),
            places: (0..workers).map(|_| place()).collect(),
        }
    }

    /// All workers.
    pub(crate) fn workers(&self) -> usize {
        self.places.len()
    }

    /// Workers that are awake at this moment; for diagnosis and policy.
    pub(crate) fn awake(&self) -> u32 {
        awake(self.counts.load(Ordering::Relaxed))
    }

    /// A worker that looked has found work.
    #[inline]
    pub(crate) fn found_work(&self) -> Found {
        let before = self.counts.fetch_sub(LOOKING_ONE, Ordering::Relaxed);
        // Pairs with the one in `notify`, which may have relied on this worker to look further.
        store_then_load_fence();
        if looking(before) == 1 {
            Found::NobodyLooks
        } else {
            Found::OthersLook
        }
    }

    /// A worker that did work looks for more.
    #[inline]
    pub(crate) fn look(&self) {
        self.counts.fetch_add(LOOKING_ONE, Ordering::Relaxed);
    }

    /// Tells that work was published. Wakes a worker unless one looks for work, or `awake_max` are awake.
    #[inline]
    pub(crate) fn notify(&self, awake_max: impl FnOnce() -> u32) {
        // Pairs with the fences in `park` and `found_work`.
        store_then_load_fence();
        let counts = self.counts.load(Ordering::Relaxed);
        if looking(counts) == 0 && (awake(counts) as usize) < self.places.len() && awake(counts) < awake_max() {
            self.wake_one(counts);
        }
    }

    /// Wakes the worker that parked last, unless somebody looks by now.
    #[cold]
    fn wake_one(&self, mut counts: u64) {
        while looking(counts) == 0 && (awake(counts) as usize) < self.places.len() {
            let next = counts + AWAKE_ONE + LOOKING_ONE;
            match self
                .counts
                .compare_exchange(counts, next, Ordering::AcqRel, Ordering::Relaxed)
            {
                Ok(_) => return self.wake_counted(Place::keep_off_this_core),
                Err(found) => counts = found,
            }
        }
    }

    /// Wakes a worker that is counted as awake and looking already; `prepare` is called for it before.
    fn wake_counted(&self, prepare: impl Fn(&Place)) {
        loop {
            while let Some(worker) = self.pop() {
                let place = &self.places[worker];
                prepare(place);
                let word = &place.word;
                // AcqRel: pairs with the same in `park`.
                if word.atomic().swap(OUT, Ordering::AcqRel) == PARKED {
                    word.address().wake_one();
                    return;
                }
            }
            // All that were in the stack are awake by themselves, and look once more before they park. But another notification may have
            // relied on the worker that was counted here, and one may have parked since. AcqRel: such a worker changed the
            // counts before this, so its push is seen.
            self.counts.fetch_sub(AWAKE_ONE + LOOKING_ONE, Ordering::AcqRel);
            if self.top.load(Ordering::Acquire) as u32 == EMPTY {
                return;
            }
            self.counts.fetch_add(AWAKE_ONE + LOOKING_ONE, Ordering::AcqRel);
        }
    }

    /// Wakes all workers that are parked. One that is woken and parks again at once is not taken for another: the whole stack is taken
    /// first.
    pub(crate) fn wake_all(&self) {
        fence(Ordering::SeqCst);
        let mut next = self.pop_all();
        while let Some(worker) = next {
            let place = &self.places[worker];
            // Who was in the stack does not push itself before its word is `OUT`, so `below` is still that of the stack.
            next = number(place.below.load(Ordering::Relaxed));
            self.counts.fetch_add(AWAKE_ONE + LOOKING_ONE, Ordering::AcqRel);
            // AcqRel: pairs with the same in `park`.
            if place.word.atomic().swap(OUT, Ordering::AcqRel) == PARKED {
                place.word.address().wake_one();
            } else {
                // It is awake by itself. Its count goes to one that has parked since, or is taken back.
                self.wake_counted(|_| {});
            }
        }
    }

    /// Where a worker may run.
    #[cfg(not(blockmill_loom))]
    pub(crate) fn home(&self, worker: usize) -> &Home {
        &self.places[worker].home
    }

    /// Parks a worker that looks for work, unless `has_work`; returns when it has been woken, and looks for work again.
    #[cold]
    pub(crate) fn park(&self, worker: usize, has_work: impl Fn() -> bool) -> Parked {
        let parked = self.park_here(worker, has_work);
        self.places[worker].home.take_back();
        parked
    }

    fn park_here(&self, worker: usize, has_work: impl Fn() -> bool) -> Parked {
        let word = &self.places[worker].word;
        if word.atomic().swap(PARKED, Ordering::AcqRel) == OUT {
            self.push(worker);
        }
        // AcqRel: pairs with the one in `wake_counted`, which then sees the push.
        self.counts.fetch_sub(AWAKE_ONE + LOOKING_ONE, Ordering::AcqRel);
        // Pairs with the one in `notify`.
        store_then_load_fence();
        if has_work() {
            let back = word
                .atomic()
                .compare_exchange(PARKED, AWAKE, Ordering::AcqRel, Ordering::Acquire);
            if back.is_ok() {
                self.counts.fetch_add(AWAKE_ONE + LOOKING_ONE, Ordering::AcqRel);
            }
            // Else it has been woken, and counted, just now.
            return Parked::NotAtAll;
        }
        // Acquire: pairs with the swap in `wake_counted`.
        while word.atomic().load(Ordering::Acquire) == PARKED {
            let _ = word.wait(PARKED, None);
        }
        Parked::Woken
    }

    fn push(&self, worker: usize) {
        let place = &self.places[worker];
        let mut top = self.top.load(Ordering::Relaxed);
        loop {
            place.below.store(top as u32, Ordering::Relaxed);
            let next = (tag(top) << 32) | (worker as u64 + 1);
            // Release: pairs with the Acquire in `pop`, which reads `below`.
            match self
                .top
                .compare_exchange(top, next, Ordering::Release, Ordering::Relaxed)
            {
                Ok(_) => return,
                Err(found) => top = found,
            }
        }
    }

    /// Takes all workers out of the stack. Returns the uppermost.
    fn pop_all(&self) -> Option<usize> {
        let mut top = self.top.load(Ordering::Acquire);
        loop {
            let worker = number(top as u32)?;
            let next = (tag(top) << 32) | u64::from(EMPTY);
            // Acquire: pairs with the Release in `push`, of all that are in the stack.
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
            let worker = number(top as u32)?;
            let below = self.places[worker].below.load(Ordering::Relaxed);
            // `below` may be another's by now; then the tag has changed too.
            let next = (tag(top) << 32) | u64::from(below);
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

/// Between a store of this thread and a load of another's.
#[inline]
fn store_then_load_fence() {
    #[cfg(all(test, blockmill_loom))]
    if crate::tests::WEAKENED.get() {
        return fence(Ordering::AcqRel);
    }
    fence(Ordering::SeqCst);
}

/// The worker that is meant by a number + 1.
fn number(plus_one: u32) -> Option<usize> {
    plus_one.checked_sub(1).map(|worker| worker as usize)
}

/// The tag of the next state of the stack.
const fn tag(top: u64) -> u64 {
    ((top >> 32) + 1) & u32::MAX as u64
}
