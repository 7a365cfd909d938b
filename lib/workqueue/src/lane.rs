//! A lane: slots through which one requester hands jobs to whoever serves the lane, and gets them back.
//!
//! # State
//!
//! Bit `s` of two words says whose slot `s` is:
//!
//! | `fill` and `done` | the slot is | and holds |
//! |---|---|---|
//! | equal | the requester's | nothing, a job that was not handed over, or one that was handled |
//! | unequal | the server's | a job to handle |
//!
//! | where | what | written by |
//! |---|---|---|
//! | `fill` | flipped when a job is handed over | the requester alone |
//! | `serving` | whether somebody serves the lane | who comes to serve it, and the same when it leaves |
//! | `done` | flipped when a job has been handled | the server: who has set `serving` |
//! | `next` | the slot at which the search for work begins | the server |
//! | `job_ns` | how long a job took in the last unit | the server |
//! | `panicked` | slots whose job has panicked | set by the server, cleared by the requester: the one word that both write, seldom |
//! | a slot | | whose it is |
//!
//! `fill`, the server's words, and the slots lie on cache lines of their own.
//!
//! # Protocol
//!
//! - *The requester* writes a job to a slot of its own ([`put`](Lane::put)), as many as it likes, and then flips their bits of `fill` by
//!   one store ([`hand_over`](Lane::hand_over)). It looks at `done` to learn which slots are its own again.
//! - *A server* claims the lane ([`try_claim`](Lane::try_claim)), takes one look at `fill`, and handles the jobs of its slots one after
//!   the other, flipping the bit of `done` after each. Anyone may be the server, a worker or the requester, but one at a time.
//!
//! # Why that is sound
//!
//! - The store to `fill` is a Release, the server's look at it an Acquire: a server that finds a bit unequal sees the job that was put. So
//!   it also sees all that the requester did to the slot before.
//! - The store to `done` is a Release, the requester's look at it an Acquire: a requester that finds a bit equal sees what became of the
//!   job. The bit stays equal until it flips `fill` itself, so from then on the slot is its own.
//! - `fill` and `done` have one writer at a time, so a plain load and store flips a bit. Servers follow one another through `serving`:
//!   setting it is an Acquire, and pairs with the Release store by which the one before left.
//! - Between two flips of a bit of `done` lies one of `fill`, so neither word can run ahead by two and look equal again.
//!
//! Not guaranteed: that a server sees a job which is handed over while it serves (who hands over must tell the pool afterwards), nor any
//! order among the slots. `next` makes the order that of the slots, round and round, in which the requester also fills them.

use crate::cell::UnsafeCell;
use blockmill_pool::Panic;
use blockmill_sync::CachePadded;
use blockmill_sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::mem::MaybeUninit;

/// Most slots of a lane: they must fit the words.
pub(crate) const SLOTS_MAX: usize = 64;

/// Bytes that no two lanes share.
const LINE_BYTES: usize = align_of::<CachePadded<u8>>();

/// The slots from which one requester's jobs go to servers and come back.
#[derive(Debug)]
pub(crate) struct Lane<J> {
    fill: CachePadded<AtomicU64>,
    served: CachePadded<Served>,
    slots: Slots<J>,
}

/// What servers write.
#[derive(Debug)]
struct Served {
    serving: AtomicBool,
    done: AtomicU64,
    next: AtomicU32,
    job_ns: AtomicU32,
    panicked: AtomicU64,
}

/// Slots on cache lines of their own: there is room before and behind them.
#[derive(Debug)]
struct Slots<J> {
    cells: Box<[UnsafeCell<MaybeUninit<J>>]>,
    first: usize,
    count: usize,
}

#[expect(unsafe_code, reason = "the slots are shared through cells")]
// SAFETY: a slot is touched by its owner alone, as the bits of `fill` and `done` say (see the head of this file), and ownership passes
// with Release and Acquire. So jobs move between threads, but are never shared through a lane: Send is enough. (`Done`, which shows a job, is
// shared only if the job may be.)
unsafe impl<J: Send> Sync for Lane<J> {}
#[expect(unsafe_code, reason = "the slots are shared through cells")]
// SAFETY: as for Sync; a lane that moves takes its jobs along, which are Send.
unsafe impl<J: Send> Send for Lane<J> {}

impl<J> Slots<J> {
    fn new(count: usize) -> Self {
        // Loom follows every cell, so there it is spared those at the ends.
        let spare = if cfg!(blockmill_loom) || size_of::<J>() == 0 {
            0
        } else {
            LINE_BYTES.div_ceil(size_of::<J>())
        };
        let cells: Box<[_]> = (0..count + 2 * spare)
            .map(|_| UnsafeCell::new(MaybeUninit::uninit()))
            .collect();
        let to_boundary = cells.as_ptr().addr().wrapping_neg() % LINE_BYTES;
        let first = if spare > 0 {
            to_boundary.div_ceil(size_of::<J>())
        } else {
            0
        };
        Self { cells, first, count }
    }

    #[inline]
    fn cell(&self, slot: u32) -> &UnsafeCell<MaybeUninit<J>> {
        debug_assert!((slot as usize) < self.count);
        &self.cells[self.first + slot as usize]
    }
}

impl<J> Lane<J> {
    /// A lane of so many empty slots, all the requester's.
    pub(crate) fn new(slots: usize) -> Self {
        assert!((1..=SLOTS_MAX).contains(&slots), "a lane has 1 to {SLOTS_MAX} slots");
        Self {
            fill: CachePadded::new(AtomicU64::new(0)),
            served: CachePadded::new(Served {
                serving: AtomicBool::new(false),
                done: AtomicU64::new(0),
                next: AtomicU32::new(0),
                job_ns: AtomicU32::new(0),
                panicked: AtomicU64::new(0),
            }),
            slots: Slots::new(slots),
        }
    }

    /// Slots of the lane.
    pub(crate) fn slots(&self) -> usize {
        self.slots.count
    }

    // What the requester does.

    /// Puts a job into a slot.
    ///
    /// # Safety
    /// - The caller is the requester of the lane.
    /// - The slot is its own, and holds no job.
    #[expect(unsafe_code, reason = "the caller promises that the slot is its own")]
    #[inline]
    pub(crate) unsafe fn put(&self, slot: u32, job: J) {
        self.slots.cell(slot).with_mut(|cell| {
            // SAFETY: the slot is the caller's, so nobody else follows this pointer now.
            unsafe { (*cell).write(job) };
        });
    }

    /// Reaches the job of a slot.
    ///
    /// # Safety
    /// - The caller is the requester of the lane.
    /// - The slot is its own, and holds a job.
    /// - The pointer is followed only until the slot is handed over or emptied, and not while another that was got so is in use.
    #[expect(unsafe_code, reason = "the caller promises that the slot is its own")]
    #[inline]
    pub(crate) unsafe fn job(&self, slot: u32) -> *mut J {
        self.slots.cell(slot).with_mut(|cell| cell.cast())
    }

    /// Moves the job out of a slot.
    ///
    /// # Safety
    /// - The caller is the requester of the lane.
    /// - The slot is its own, and holds a job; from now on it holds none.
    #[expect(unsafe_code, reason = "the caller promises that the slot is its own")]
    #[inline]
    pub(crate) unsafe fn take(&self, slot: u32) -> J {
        self.slots.cell(slot).with_mut(|cell| {
            // SAFETY: the slot is the caller's and holds a job, which is read once: it holds none afterwards.
            unsafe { (*cell).assume_init_read() }
        })
    }

    /// Hands slots over: `fill` becomes a word that differs from the last one in their bits. The pool must be told afterwards.
    ///
    /// # Safety
    /// - The caller is the requester of the lane.
    /// - The slots are its own, and hold jobs.
    #[expect(unsafe_code, reason = "the caller promises that the slots are its own")]
    #[inline]
    pub(crate) unsafe fn hand_over(&self, fill: u64) {
        #[cfg(all(test, blockmill_loom))]
        if crate::tests::WEAKENED.get() == crate::tests::Weakened::Fill {
            return self.fill.store(fill, Ordering::Relaxed);
        }
        // Release: pairs with the Acquire in `Claim::work`.
        self.fill.store(fill, Ordering::Release);
    }

    /// The word `fill`, as it was left by the last requester.
    pub(crate) fn fill(&self) -> u64 {
        self.fill.load(Ordering::Relaxed)
    }

    /// The word `done`. Slots whose bits equal those of `fill` are the requester's, with all that was done in them.
    #[inline]
    pub(crate) fn done(&self) -> u64 {
        // Acquire: pairs with the Release in `Claim::finish`.
        self.served.done.load(Ordering::Acquire)
    }

    /// Slots of handled jobs that have panicked.
    #[inline]
    pub(crate) fn panicked(&self) -> u64 {
        // It was set before `done` was flipped.
        self.served.panicked.load(Ordering::Relaxed)
    }

    /// The requester has noticed the panic of a slot's job.
    #[cold]
    pub(crate) fn clear_panic(&self, slot: u32) {
        self.served.panicked.fetch_and(!(1 << slot), Ordering::Relaxed);
    }

    /// How long a job took in the last unit, in nanoseconds; 0 if none was timed.
    #[inline]
    pub(crate) fn job_ns(&self) -> u32 {
        self.served.job_ns.load(Ordering::Relaxed)
    }

    // What servers do.

    /// Whether there is work; a hint.
    #[inline]
    pub(crate) fn has_work(&self) -> bool {
        self.fill.load(Ordering::Relaxed) != self.served.done.load(Ordering::Relaxed)
    }

    /// Whether there is work that nobody does yet; a hint.
    #[inline]
    pub(crate) fn can_be_served(&self) -> bool {
        self.has_work() && !self.served.serving.load(Ordering::Relaxed)
    }

    /// Whether somebody serves the lane; a hint.
    pub(crate) fn is_served(&self) -> bool {
        self.served.serving.load(Ordering::Relaxed)
    }

    /// Begins to serve the lane, unless somebody else does.
    #[inline]
    pub(crate) fn try_claim(&self) -> Option<Claim<'_, J>> {
        if self.served.serving.load(Ordering::Relaxed) {
            return None;
        }
        // Acquire: pairs with the Release by which the server before left.
        let exchange = self
            .served
            .serving
            .compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed);
        exchange.is_ok().then(|| Claim {
            done: self.served.done.load(Ordering::Relaxed),
            lane: self,
        })
    }
}

/// That somebody serves a lane. If it is forgotten, the lane is served no more.
#[derive(Debug)]
pub(crate) struct Claim<'a, J> {
    lane: &'a Lane<J>,
    /// As in the lane.
    done: u64,
}

impl<J> Claim<'_, J> {
    /// The slots that are the server's.
    #[inline]
    fn work(&self) -> u64 {
        // Acquire: pairs with the Release in `Lane::hand_over`.
        self.lane.fill.load(Ordering::Acquire) ^ self.done
    }

    /// Handles jobs of the slots that are filled now, but no more than so many; calls `finished` after each. Returns their slots.
    #[inline]
    pub(crate) fn serve(
        &mut self,
        jobs_max: u32,
        handle: impl Fn(&mut J) -> Result<(), Panic>,
        finished: impl Fn(u32),
        panicked: impl Fn(u32, Panic),
    ) -> u64 {
        let mut work = self.work();
        let (mut handled, mut jobs) = (0, 0);
        let mut next = self.lane.served.next.load(Ordering::Relaxed);
        while work != 0 && jobs < jobs_max {
            // The first at or behind `next`, round and round.
            let slot = (work.rotate_right(next).trailing_zeros() + next) % SLOTS_MAX as u32;
            let outcome = self.lane.slots.cell(slot).with_mut(|cell| {
                #[expect(unsafe_code, reason = "the slot is the server's")]
                // SAFETY: the bits of the slot are unequal and this is the lane's only server, so it is nobody else's; it holds a job,
                // since only slots with jobs are handed over.
                let job = unsafe { (*cell).assume_init_mut() };
                handle(job)
            });
            if let Err(panic) = outcome {
                panicked(slot, panic);
                self.lane.served.panicked.fetch_or(1 << slot, Ordering::Relaxed);
            }
            self.finish(slot);
            finished(slot);
            work &= !(1 << slot);
            handled |= 1 << slot;
            next = (slot + 1) % SLOTS_MAX as u32;
            jobs += 1;
        }
        self.lane.served.next.store(next, Ordering::Relaxed);
        handled
    }

    /// Gives a slot back.
    #[inline]
    fn finish(&mut self, slot: u32) {
        self.done ^= 1 << slot;
        #[cfg(all(test, blockmill_loom))]
        if crate::tests::WEAKENED.get() == crate::tests::Weakened::Done {
            return self.lane.served.done.store(self.done, Ordering::Relaxed);
        }
        // Release: pairs with the Acquire in `Lane::done`.
        self.lane.served.done.store(self.done, Ordering::Release);
    }

    /// Gives all slots back without handling their jobs.
    pub(crate) fn give_up_all(&mut self) {
        self.done ^= self.work();
        // Release: pairs with the Acquire in `Lane::done`.
        self.lane.served.done.store(self.done, Ordering::Release);
    }

    /// Notes how long a job took.
    #[inline]
    pub(crate) fn note_job_ns(&self, job_ns: u32) {
        self.lane.served.job_ns.store(job_ns, Ordering::Relaxed);
    }
}

impl<J> Drop for Claim<'_, J> {
    #[inline]
    fn drop(&mut self) {
        #[cfg(all(test, blockmill_loom))]
        if crate::tests::WEAKENED.get() == crate::tests::Weakened::Serving {
            return self.lane.served.serving.store(false, Ordering::Relaxed);
        }
        // Release: pairs with the Acquire in `Lane::try_claim`.
        self.lane.served.serving.store(false, Ordering::Release);
    }
}

#[cfg(all(test, not(blockmill_loom)))]
mod tests {
    use super::*;

    #[test]
    fn slots_share_no_line_with_others() {
        fn check<J>(count: usize) {
            let slots = Slots::<J>::new(count);
            let start = |slot: usize| (&raw const slots.cells[slot]).addr();
            let from = start(slots.first) - start(0);
            let behind = start(0) + size_of_val(&*slots.cells) - (start(slots.first) + count * size_of::<J>());
            // Not less than what is needed to leave the line in which the allocation begins, and the one in which it ends.
            assert!(start(slots.first) % LINE_BYTES < size_of::<J>() || from >= LINE_BYTES);
            assert!(behind >= LINE_BYTES, "{behind}");
        }
        check::<u8>(1);
        check::<[u64; 3]>(4);
        check::<[u64; 2]>(64);
        check::<[u8; 300]>(7);
    }

    #[test]
    fn work_is_found_round_and_round() {
        let lane = Lane::<u32>::new(5);
        let mut fill = 0;
        let mut order = Vec::new();
        for round in 0..4 {
            let serve = |jobs_max| {
                let served = std::cell::RefCell::new(Vec::new());
                let mut claim = lane.try_claim().unwrap();
                assert!(lane.try_claim().is_none());
                claim.serve(jobs_max, |_| Ok(()), |slot| served.borrow_mut().push(slot), |_, _| ());
                served.into_inner()
            };
            let free = !(fill ^ lane.done()) & 0b11111;
            for slot in (0..5).filter(|slot| free >> slot & 1 == 1) {
                #[expect(unsafe_code, reason = "this is the requester")]
                // SAFETY: the slot is free: it was never filled or was served, and numbers need no dropping.
                unsafe {
                    lane.put(slot, round);
                }
                fill ^= 1 << slot;
            }
            #[expect(unsafe_code, reason = "this is the requester")]
            // SAFETY: the slots were the requester's, and hold jobs.
            unsafe {
                lane.hand_over(fill);
            }
            order.extend(serve(3));
        }
        assert_eq!(order, [0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1]);
    }
}
