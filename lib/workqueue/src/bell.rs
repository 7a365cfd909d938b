//! How a requester that sleeps is woken.
//!
//! # State
//!
//! | where | what | written by |
//! |---|---|---|
//! | `waiting` | what the requester sleeps for: `NOBODY` sleeps, [`ANY`] job, the end of a [`CLAIM`], or the job of a slot | the requester; `NOBODY` also by who wakes it |
//! | `woken` | that it was woken | who wakes it; taken by the requester |
//!
//! # Why no wake is lost
//!
//! A requester writes `waiting`, and has a `fence(SeqCst)` before its last look at its lanes. A server flips `done`, or leaves a lane, and has one
//! before its look at `waiting`. So either the requester sees what the server did, or the server sees that it waits. Servers write to
//! these lines only to wake a requester.
//!
//! Not guaranteed: that there is a reason for a wake. A server may have found the requester waiting, and come to wake it when it waits for
//! something else: then it looks again.

use blockmill_sync::atomic::{AtomicU64, Ordering, fence};
use blockmill_sync::{AutoResetEvent, CachePadded};

const NOBODY: u64 = 0;

/// The requester sleeps until any job is done.
pub(crate) const ANY: u64 = 1;

/// The requester sleeps until a lane is left.
pub(crate) const CLAIM: u64 = 2;

/// Where the numbers of slots begin.
const SLOTS: u64 = 3;

/// The requester sleeps until the job of this slot is done.
#[inline]
pub(crate) fn slot_of(lane: usize, slot: u32) -> u64 {
    SLOTS + ((lane as u64) << 6 | u64::from(slot))
}

/// Whether a target is the job of one of these slots of a lane.
#[inline]
pub(crate) fn is_among(target: u64, lane: usize, slots: u64) -> bool {
    let of_lane = target.wrapping_sub(slot_of(lane, 0));
    of_lane < 64 && slots >> of_lane & 1 == 1
}

/// What one requester sleeps on, and servers wake it by.
#[derive(Debug)]
pub(crate) struct Bell {
    waiting: CachePadded<AtomicU64>,
    woken: CachePadded<AutoResetEvent>,
}

impl Bell {
    pub(crate) fn new() -> Self {
        Self {
            waiting: CachePadded::new(AtomicU64::new(NOBODY)),
            woken: CachePadded::new(AutoResetEvent::new()),
        }
    }

    /// Sleeps until `target` may have come, unless it `has_come`. May end for no reason.
    #[cold]
    pub(crate) fn sleep(&self, target: u64, has_come: impl FnOnce() -> bool) {
        self.waiting.store(target, Ordering::Relaxed);
        // Pairs with the one in `ring`.
        store_then_load_fence();
        if !has_come() {
            self.woken.wait();
        }
        self.waiting.store(NOBODY, Ordering::Relaxed);
    }

    /// Wakes the requester if it sleeps for something that has come.
    #[inline]
    pub(crate) fn ring(&self, has_come: impl FnOnce(u64) -> bool) {
        // Pairs with the one in `sleep`.
        store_then_load_fence();
        let target = self.waiting.load(Ordering::Relaxed);
        if target != NOBODY && has_come(target) {
            self.wake_from(target);
        }
    }

    /// As [`ring`](Self::ring), but may overlook that it sleeps, and costs less: to be followed by one that does not.
    #[inline]
    pub(crate) fn tinkle(&self, target: u64) {
        if self.waiting.load(Ordering::Relaxed) == target {
            self.wake_from(target);
        }
    }

    /// One of several that come to wake it does.
    #[cold]
    fn wake_from(&self, target: u64) {
        let exchange = self
            .waiting
            .compare_exchange(target, NOBODY, Ordering::Relaxed, Ordering::Relaxed);
        if exchange.is_ok() {
            self.woken.set();
        }
    }
}

/// Between a store of this thread and a load of another's.
#[inline]
fn store_then_load_fence() {
    #[cfg(all(test, blockmill_loom))]
    if crate::tests::WEAKENED.get() == crate::tests::Weakened::Fence {
        return fence(Ordering::AcqRel);
    }
    fence(Ordering::SeqCst);
}

#[cfg(all(test, not(blockmill_loom)))]
mod tests {
    use super::*;

    #[test]
    fn targets_are_found_among_slots() {
        for (target, lane, slots, among) in [
            (slot_of(2, 5), 2, 1 << 5, true),
            (slot_of(2, 5), 2, !(1 << 5), false),
            (slot_of(2, 5), 1, u64::MAX, false),
            (slot_of(2, 5), 3, u64::MAX, false),
            (slot_of(0, 63), 0, 1 << 63, true),
            (ANY, 0, u64::MAX, false),
            (CLAIM, 0, u64::MAX, false),
        ] {
            assert_eq!(is_among(target, lane, slots), among, "{target} {lane}");
        }
    }
}
