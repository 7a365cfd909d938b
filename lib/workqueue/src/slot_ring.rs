//! A ring of slots: one requester hands jobs to a server through the slots, and gets them back.
//!
//! # State
//!
//! Bit `s` of two words says who owns slot `s`:
//!
//! | `fill` and `done` | owner | content |
//! |---|---|---|
//! | equal | requester | nothing, a job not handed over, or a handled job |
//! | unequal | server | a job to handle |
//!
//! | field | meaning | written by |
//! |---|---|---|
//! | `fill` | flipped when a job is handed over | the requester alone |
//! | `serving` | whether the ring has a server | the server, when it comes and leaves |
//! | `done` | flipped when a job was handled | the server: the thread that set `serving` |
//! | `next` | slot at which the search for work begins | the server |
//! | `panicked` | slots whose job panicked | set by the server, cleared by the requester |
//! | a slot | | its owner |
//!
//! `panicked` is the one word that both sides write, and both write it seldom. `fill`, the server's
//! words, and the slots lie on separate cache lines.
//!
//! # Protocol
//!
//! - *The requester* writes jobs to slots of its own ([`put`](SlotRing::put)), as many as it likes.
//!   Then it flips their bits of `fill` by one store ([`hand_over`](SlotRing::hand_over)). A load
//!   of `done` tells which slots came back.
//! - *A server* claims the ring ([`try_claim`](SlotRing::try_claim)), loads `fill` once, and
//!   handles the jobs of its slots one by one. After each job it flips the slot's bit of `done`.
//!   Any thread may be the server, a worker or the requester, but only one at a time.
//!
//! # Why that is sound
//!
//! - The store to `fill` is a Release, and the server's load of `fill` an Acquire. So a server that
//!   finds a bit unequal sees the job in the slot, and all that the requester did to the slot
//!   before.
//! - The store to `done` is a Release, and the requester's load of `done` an Acquire. So a
//!   requester that finds a bit equal sees the handled job. The bit stays equal until the requester
//!   flips `fill`, so from then on the requester owns the slot.
//! - `fill` and `done` have one writer at a time, so a plain load and store flips a bit. Servers
//!   follow one another through `serving`: setting it is an Acquire, which pairs with the Release
//!   store of the previous server.
//! - A bit of `fill` flips between any two flips of the same bit of `done`. So neither word can run
//!   ahead by two flips and look equal again.
//!
//! Not guaranteed: a server may not see a job that is handed over while it serves, so the requester
//! must notify the pool afterwards. The order among slots is not guaranteed either. `next` makes
//! the server go round the slots in the order in which the requester fills them.

use crate::cell::UnsafeCell;
use blockmill_pool::Panic;
use blockmill_sync::CachePadded;
use blockmill_sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::mem::MaybeUninit;

/// Most slots of a ring: one bit each in the words.
pub(crate) const SLOTS_MAX: usize = 64;

/// Bytes of a cache line, which no two rings share.
const LINE_BYTES: usize = align_of::<CachePadded<u8>>();

/// The slots through which one requester's jobs go to servers and come back.
#[derive(Debug)]
pub(crate) struct SlotRing<J> {
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
    panicked: AtomicU64,
}

/// Slots on separate cache lines, with padding before and after them.
#[derive(Debug)]
struct Slots<J> {
    cells: Box<[UnsafeCell<MaybeUninit<J>>]>,
    first: usize,
    count: usize,
}

#[expect(unsafe_code, reason = "the slots are shared through cells")]
// SAFETY: a slot is touched by its owner alone. The bits of `fill` and `done` say who that is (see
// the head of this file), and ownership passes with Release and Acquire. So jobs move between
// threads, but threads never share a job through a ring: Send is enough. (`Done`, which shows a
// job, is shared only if the job may be.)
unsafe impl<J: Send> Sync for SlotRing<J> {}
#[expect(unsafe_code, reason = "the slots are shared through cells")]
// SAFETY: as for Sync; a ring that moves takes its jobs along, which are Send.
unsafe impl<J: Send> Send for SlotRing<J> {}

impl<J> Slots<J> {
    fn new(count: usize) -> Self {
        // Loom tracks every cell, so its models have no padding.
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

impl<J> SlotRing<J> {
    /// A ring of empty slots, all owned by the requester.
    ///
    /// # Panics
    /// If `slots` is not between 1 and [`SLOTS_MAX`].
    pub(crate) fn new(slots: usize) -> Self {
        assert!((1..=SLOTS_MAX).contains(&slots), "a ring has 1 to {SLOTS_MAX} slots");
        Self {
            fill: CachePadded::new(AtomicU64::new(0)),
            served: CachePadded::new(Served {
                serving: AtomicBool::new(false),
                done: AtomicU64::new(0),
                next: AtomicU32::new(0),
                panicked: AtomicU64::new(0),
            }),
            slots: Slots::new(slots),
        }
    }

    /// Number of slots.
    pub(crate) fn slots(&self) -> usize {
        self.slots.count
    }

    // What the requester does.

    /// Puts a job into a slot.
    ///
    /// # Safety
    /// - The caller is the requester of the ring.
    /// - The caller owns the slot, and the slot holds no job.
    #[expect(unsafe_code, reason = "the caller promises that it owns the slot")]
    #[inline]
    pub(crate) unsafe fn put(&self, slot: u32, job: J) {
        self.slots.cell(slot).with_mut(|cell| {
            // SAFETY: the caller owns the slot, so no other thread follows this pointer now.
            unsafe { (*cell).write(job) };
        });
    }

    /// A pointer to the job of a slot.
    ///
    /// # Safety
    /// - The caller is the requester of the ring.
    /// - The caller owns the slot, and the slot holds a job.
    /// - The caller follows the pointer only until the slot is handed over or emptied.
    /// - The caller uses no other pointer to the same job at the same time.
    #[expect(unsafe_code, reason = "the caller promises that it owns the slot")]
    #[inline]
    pub(crate) unsafe fn job(&self, slot: u32) -> *mut J {
        self.slots.cell(slot).with_mut(|cell| cell.cast())
    }

    /// Moves the job out of a slot.
    ///
    /// # Safety
    /// - The caller is the requester of the ring.
    /// - The caller owns the slot, and the slot holds a job. From now on the slot holds none.
    #[expect(unsafe_code, reason = "the caller promises that it owns the slot")]
    #[inline]
    pub(crate) unsafe fn take(&self, slot: u32) -> J {
        self.slots.cell(slot).with_mut(|cell| {
            // SAFETY: the caller owns the slot, and the slot holds a job, which is read once: the
            // slot holds none afterwards.
            unsafe { (*cell).assume_init_read() }
        })
    }

    /// Hands slots over: `fill` becomes a word that differs from the last one in their bits. The
    /// caller must notify the pool afterwards.
    ///
    /// # Safety
    /// - The caller is the requester of the ring.
    /// - The caller owns the slots, and each holds a job.
    #[expect(unsafe_code, reason = "the caller promises that it owns the slots")]
    #[inline]
    pub(crate) unsafe fn hand_over(&self, fill: u64) {
        #[cfg(all(test, blockmill_loom))]
        if crate::tests::WEAKENED.get() == crate::tests::Weakened::Fill {
            return self.fill.store(fill, Ordering::Relaxed);
        }
        // Release: pairs with the Acquire in `Claim::work`.
        self.fill.store(fill, Ordering::Release);
    }

    /// The word `fill`, as the last requester left it.
    pub(crate) fn fill(&self) -> u64 {
        self.fill.load(Ordering::Relaxed)
    }

    /// The word `done`. The requester owns the slots whose bits equal those of `fill`, and sees all
    /// that servers did in them.
    #[inline]
    pub(crate) fn done(&self) -> u64 {
        // Acquire: pairs with the Release in `Claim::finish`.
        self.served.done.load(Ordering::Acquire)
    }

    /// Slots with handled jobs that panicked.
    #[inline]
    pub(crate) fn panicked(&self) -> u64 {
        // The bit was set before `done` was flipped.
        self.served.panicked.load(Ordering::Relaxed)
    }

    /// Clears the mark of a panic that the requester has taken note of.
    #[cold]
    pub(crate) fn clear_panic(&self, slot: u32) {
        self.served.panicked.fetch_and(!(1 << slot), Ordering::Relaxed);
    }

    // What servers do.

    /// Whether there is work; a hint.
    #[inline]
    pub(crate) fn has_work(&self) -> bool {
        self.fill.load(Ordering::Relaxed) != self.served.done.load(Ordering::Relaxed)
    }

    /// Whether there is work and no server; a hint.
    #[inline]
    pub(crate) fn can_be_served(&self) -> bool {
        self.has_work() && !self.served.serving.load(Ordering::Relaxed)
    }

    /// Whether the ring has a server; a hint.
    pub(crate) fn is_served(&self) -> bool {
        self.served.serving.load(Ordering::Relaxed)
    }

    /// Makes this thread the server of the ring, unless there is one already.
    #[inline]
    pub(crate) fn try_claim(&self) -> Option<Claim<'_, J>> {
        if self.served.serving.load(Ordering::Relaxed) {
            return None;
        }
        // Acquire: pairs with the Release by which the previous server left.
        let exchange = self
            .served
            .serving
            .compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed);
        exchange.is_ok().then(|| Claim {
            done: self.served.done.load(Ordering::Relaxed),
            ring: self,
        })
    }
}

/// The right to serve a ring. A leaked claim leaves the ring without a server for ever.
#[derive(Debug)]
pub(crate) struct Claim<'a, J> {
    ring: &'a SlotRing<J>,
    /// A copy of the ring's `done`.
    done: u64,
}

impl<J> Claim<'_, J> {
    /// The slots that the server owns.
    #[inline]
    fn work(&self) -> u64 {
        // Acquire: pairs with the Release in `SlotRing::hand_over`.
        self.ring.fill.load(Ordering::Acquire) ^ self.done
    }

    /// Handles jobs of the slots that are filled now, one at least, and calls `finished` after
    /// each. Goes on while `may_go_on`. Returns their slots.
    #[inline]
    pub(crate) fn serve(
        &mut self,
        may_go_on: impl Fn() -> bool,
        handle: impl Fn(&mut J) -> Result<(), Panic>,
        finished: impl Fn(u32),
        panicked: impl Fn(u32, Panic),
    ) -> u64 {
        // One look at `fill` for the whole unit. Jobs that come meanwhile are for the next one.
        let mut work = self.work();
        let mut handled = 0;
        let mut next = self.ring.served.next.load(Ordering::Relaxed);
        while work != 0 && (handled == 0 || may_go_on()) {
            // The first slot with work from `next` on, going round.
            let slot = (work.rotate_right(next).trailing_zeros() + next) % SLOTS_MAX as u32;
            let outcome = self.ring.slots.cell(slot).with_mut(|cell| {
                #[expect(unsafe_code, reason = "the server owns the slot")]
                // SAFETY: the bits of the slot are unequal and this is the ring's only server, so
                // no other thread owns the slot; it holds a job, since only slots with jobs are
                // handed over.
                let job = unsafe { (*cell).assume_init_mut() };
                handle(job)
            });
            if let Err(panic) = outcome {
                // Before `done` is flipped: the requester takes the panic as soon as it sees the
                // bit.
                panicked(slot, panic);
                self.ring.served.panicked.fetch_or(1 << slot, Ordering::Relaxed);
            }
            self.finish(slot);
            finished(slot);
            work &= !(1 << slot);
            handled |= 1 << slot;
            next = (slot + 1) % SLOTS_MAX as u32;
        }
        self.ring.served.next.store(next, Ordering::Relaxed);
        handled
    }

    /// Gives a slot back.
    #[inline]
    fn finish(&mut self, slot: u32) {
        self.done ^= 1 << slot;
        #[cfg(all(test, blockmill_loom))]
        if crate::tests::WEAKENED.get() == crate::tests::Weakened::Done {
            return self.ring.served.done.store(self.done, Ordering::Relaxed);
        }
        // Release: pairs with the Acquire in `SlotRing::done`.
        self.ring.served.done.store(self.done, Ordering::Release);
    }

    /// Gives all slots back, jobs unhandled.
    pub(crate) fn return_all(&mut self) {
        self.done ^= self.work();
        // Release: pairs with the Acquire in `SlotRing::done`.
        self.ring.served.done.store(self.done, Ordering::Release);
    }
}

impl<J> Drop for Claim<'_, J> {
    #[inline]
    fn drop(&mut self) {
        #[cfg(all(test, blockmill_loom))]
        if crate::tests::WEAKENED.get() == crate::tests::Weakened::Serving {
            return self.ring.served.serving.store(false, Ordering::Relaxed);
        }
        // Release: pairs with the Acquire in `SlotRing::try_claim`.
        self.ring.served.serving.store(false, Ordering::Release);
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
            let after = start(0) + size_of_val(&*slots.cells) - (start(slots.first) + count * size_of::<J>());
            // The padding must reach past the line in which the allocation begins, and past the one
            // in which it ends.
            assert!(start(slots.first) % LINE_BYTES < size_of::<J>() || from >= LINE_BYTES);
            assert!(after >= LINE_BYTES, "{after}");
        }
        check::<u8>(1);
        check::<[u64; 3]>(4);
        check::<[u64; 2]>(64);
        check::<[u8; 300]>(7);
    }

    #[test]
    fn work_is_found_round_and_round() {
        let ring = SlotRing::<u32>::new(5);
        let mut fill = 0;
        let mut order = Vec::new();
        for round in 0..4 {
            let serve = |jobs_max| {
                let served = std::cell::RefCell::new(Vec::new());
                let may_go_on = || served.borrow().len() < jobs_max;
                let mut claim = ring.try_claim().unwrap();
                assert!(ring.try_claim().is_none());
                claim.serve(may_go_on, |_| Ok(()), |slot| served.borrow_mut().push(slot), |_, _| ());
                served.into_inner()
            };
            let free = !(fill ^ ring.done()) & 0b11111;
            for slot in (0..5).filter(|slot| free >> slot & 1 == 1) {
                #[expect(unsafe_code, reason = "this is the requester")]
                // SAFETY: the slot is free: it was never filled or was served, and numbers need no
                // dropping.
                unsafe {
                    ring.put(slot, round);
                }
                fill ^= 1 << slot;
            }
            #[expect(unsafe_code, reason = "this is the requester")]
            // SAFETY: the requester owned the slots, and each holds a job.
            unsafe {
                ring.hand_over(fill);
            }
            order.extend(serve(3));
        }
        assert_eq!(order, [0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1]);
    }
}
