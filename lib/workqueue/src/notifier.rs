//! Waking a requester that sleeps.
//!
//! # State
//!
//! | field | meaning | written by |
//! |---|---|---|
//! | `waiting` | the target that the requester sleeps for, or [`AWAKE`] | the requester |
//! | | back to [`AWAKE`] | the server that wakes the requester |
//! | `woken` | an event: the requester was woken | set by that server, reset by the requester |
//!
//! A target is [`ANY`] finished job, the end of a [`CLAIM`], or the job of one slot.
//!
//! # Why no wake is lost
//!
//! A requester writes `waiting`, then runs a `fence(SeqCst)`, then looks at its rings for the last
//! time. A server flips `done` or releases a ring, then runs a `fence(SeqCst)`, then reads
//! `waiting`. So either the requester sees what the server did, or the server sees that the
//! requester waits. Servers write to these lines only to wake a requester.
//!
//! Not guaranteed: a reason for each wake. A server may see the requester wait for one target, and
//! wake the requester when the requester already waits for another. Then the requester looks again.

use blockmill_sync::atomic::{AtomicU64, Ordering, fence};
use blockmill_sync::{AutoResetEvent, CachePadded};

/// The requester does not sleep.
const AWAKE: u64 = 0;

/// The requester sleeps until any job is done.
pub(crate) const ANY: u64 = 1;

/// The requester sleeps until a server releases a ring.
pub(crate) const CLAIM: u64 = 2;

/// The target of slot 0 of ring 0. The targets of all other slots follow.
const SLOT_BASE: u64 = 3;

/// The requester sleeps until the job of this slot is done.
#[inline]
pub(crate) fn slot_target(ring: usize, slot: u32) -> u64 {
    SLOT_BASE + ((ring as u64) << 6 | u64::from(slot))
}

/// Whether `target` is the job of one of these slots of a ring.
#[inline]
pub(crate) fn is_among(target: u64, ring: usize, slots: u64) -> bool {
    let of_ring = target.wrapping_sub(slot_target(ring, 0));
    // A target below the ring wraps around to a large number.
    of_ring < 64 && slots >> of_ring & 1 == 1
}

/// The state by which one requester sleeps and servers wake the requester.
#[derive(Debug)]
pub(crate) struct Notifier {
    waiting: CachePadded<AtomicU64>,
    woken: CachePadded<AutoResetEvent>,
}

impl Notifier {
    pub(crate) fn new() -> Self {
        Self {
            waiting: CachePadded::new(AtomicU64::new(AWAKE)),
            woken: CachePadded::new(AutoResetEvent::new()),
        }
    }

    /// Sleeps until `target` may have happened, unless `is_ready` returns true. The sleep may end
    /// without a reason.
    #[cold]
    pub(crate) fn sleep(&self, target: u64, is_ready: impl FnOnce() -> bool) {
        self.waiting.store(target, Ordering::Relaxed);
        // Pairs with the fence in `notify`.
        store_then_load_fence();
        if !is_ready() {
            self.woken.wait();
        }
        // If a server has done that already, its event is set, and ends the next sleep at once.
        // Then the requester looks again.
        self.waiting.store(AWAKE, Ordering::Relaxed);
    }

    /// Wakes the requester if the requester sleeps for a target that `is_ready` confirms.
    #[inline]
    pub(crate) fn notify(&self, is_ready: impl FnOnce(u64) -> bool) {
        // Pairs with the fence in `sleep`.
        store_then_load_fence();
        let target = self.waiting.load(Ordering::Relaxed);
        if target != AWAKE && is_ready(target) {
            self.wake_from(target);
        }
    }

    /// Like [`notify`](Self::notify), but cheaper, and may overlook a sleeping requester. A call of
    /// `notify` must follow.
    #[inline]
    pub(crate) fn try_notify(&self, target: u64) {
        if self.waiting.load(Ordering::Relaxed) == target {
            self.wake_from(target);
        }
    }

    /// Of several servers that arrive here, one wakes the requester.
    #[cold]
    fn wake_from(&self, target: u64) {
        let exchange = self
            .waiting
            .compare_exchange(target, AWAKE, Ordering::Relaxed, Ordering::Relaxed);
        if exchange.is_ok() {
            self.woken.set();
        }
    }
}

/// Orders a store of this thread before a load of what another thread stored.
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
        for (target, ring, slots, among) in [
            (slot_target(2, 5), 2, 1 << 5, true),
            (slot_target(2, 5), 2, !(1 << 5), false),
            (slot_target(2, 5), 1, u64::MAX, false),
            (slot_target(2, 5), 3, u64::MAX, false),
            (slot_target(0, 63), 0, 1 << 63, true),
            (ANY, 0, u64::MAX, false),
            (CLAIM, 0, u64::MAX, false),
        ] {
            assert_eq!(is_among(target, ring, slots), among, "{target} {ring}");
        }
    }
}
