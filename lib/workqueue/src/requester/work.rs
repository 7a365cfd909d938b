//! What a requester does with jobs between submission and collection: it hands jobs over, looks for
//! finished jobs, and waits.
//!
//! Jobs go to the rings in turn, since only one thread at a time serves a ring.

use super::Requester;
use crate::handler::Handler;
use crate::notifier::CLAIM;
use crate::options::Help;
use crate::order::SlotIndex;
use blockmill_sync::Backoff;
use std::sync::Arc;

impl<H: Handler> Requester<H> {
    /// The ring for the next job; None when all rings are full.
    #[inline]
    pub(super) fn ring_to_fill(&mut self) -> Option<usize> {
        let after = self.current + 1;
        let mut in_turn = (after..self.rings.len()).chain(0..after);
        self.current = in_turn.find(|&ring| self.rings[ring].free() != 0)?;
        Some(self.current)
    }

    /// Hands over the job in a slot.
    #[inline]
    pub(super) fn hand_over(&mut self, index: SlotIndex) {
        let ring = &mut self.rings[index.ring()];
        ring.fill ^= index.bit();
        // Once for a run of jobs. `open` stays set: a server that finds nothing loses little.
        if self.producer.is_none() {
            self.queue.set_open(true);
            self.producer = Some(self.shared.handle.register_producer());
        }
        #[expect(unsafe_code, reason = "the requester owns the slot that it filled")]
        // SAFETY: this is the requester of the ring. `fill` is as in the ring but for the bit of a
        // slot that the requester owns and that holds a job.
        unsafe {
            self.queue.rings[index.ring()].hand_over(ring.fill);
        }
        self.shared.handle.notify();
    }

    // Looking and waiting.

    /// Learns which jobs of a ring are finished.
    #[inline]
    fn refresh(&mut self, number: usize) {
        let ring = &mut self.rings[number];
        let shared = &self.queue.rings[number];
        let back = ring.undone() & !(ring.fill ^ shared.done());
        ring.ready |= back;
        ring.panicked |= shared.panicked() & back;
    }

    /// Does a unit of work where there are no workers. A caller that only tries never waits, and
    /// its jobs must finish all the same.
    pub(super) fn help_if_alone(&mut self) {
        if !self.shared.handle.is_served() {
            self.help(0);
        }
    }

    /// Whether the job of a slot is finished.
    #[inline]
    pub(super) fn look_at(&mut self, index: SlotIndex) -> bool {
        if !self.is_ready(index) {
            self.refresh(index.ring());
        }
        self.is_ready(index)
    }

    /// A slot with a finished job.
    #[inline]
    pub(super) fn look_for_any(&mut self) -> Option<SlotIndex> {
        let ring = (0..self.rings.len()).find(|&ring| self.rings[ring].ready != 0);
        let ring = match ring {
            Some(ring) => ring,
            None => self.look_for_more()?,
        };
        Some(SlotIndex::new(ring, self.rings[ring].ready.trailing_zeros()))
    }

    /// A ring with a finished job that the requester did not know of.
    fn look_for_more(&mut self) -> Option<usize> {
        // The oldest job is the likeliest one to be finished.
        let first = self.order.first()?.ring();
        let rings = self.rings.len();
        (first..rings).chain(0..first).find(|&ring| {
            if self.rings[ring].undone() != 0 {
                self.refresh(ring);
            }
            self.rings[ring].ready != 0
        })
    }

    /// Waits until `look` finds a slot. Meanwhile the requester handles jobs of its own, those of
    /// ring `first` first.
    #[cold]
    pub(super) fn wait(
        &mut self,
        target: u64,
        first: usize,
        mut look: impl FnMut(&mut Self) -> Option<SlotIndex>,
    ) -> SlotIndex {
        let mut backoff = Backoff::new();
        loop {
            // Work was done here, so time has passed: the job may be finished.
            if self.help(first) {
                backoff = Backoff::new();
            } else if !backoff.snooze() {
                self.sleep(target, &mut look);
                backoff = Backoff::new();
            }
            if let Some(index) = look(self) {
                return index;
            }
        }
    }

    /// Does a unit of work that has no server. Returns whether there was one.
    fn help(&mut self, first: usize) -> bool {
        if self.shared.help == Help::Never {
            return false;
        }
        let Some(ring) = self.queue.serve(&self.shared.dispatcher.handler, first) else {
            return false;
        };
        if self.queue.rings[ring].has_work() {
            // Workers may have passed the ring while this thread served it.
            self.shared.handle.notify();
        }
        true
    }

    /// Sleeps until `target` may have happened. The sleep needs no core.
    fn sleep(&mut self, target: u64, look: &mut impl FnMut(&mut Self) -> Option<SlotIndex>) {
        let queue = Arc::clone(&self.queue);
        let helps = self.shared.help != Help::Never;
        // A sleeping requester leaves its core to a worker.
        let was_producer = self.producer.take().is_some();
        if !helps {
            // There may be work for the worker that gets the core.
            self.shared.handle.notify();
        }
        queue
            .notifier
            .sleep(target, || look(self).is_some() || (helps && queue.rings_to_serve() > 0));
        if was_producer {
            self.producer = Some(self.shared.handle.register_producer());
        }
    }

    /// Takes all jobs of a ring back, handled or not.
    pub(super) fn reclaim(&mut self, number: usize) {
        let ring = &self.queue.rings[number];
        let mut backoff = Backoff::new();
        let mut claim = loop {
            if let Some(claim) = ring.try_claim() {
                break claim;
            }
            if !backoff.snooze() {
                self.queue.notifier.sleep(CLAIM, || !ring.is_served());
            }
        };
        // The claim has made visible what other servers did to the jobs.
        claim.return_all();
        drop(claim);
        let own = &mut self.rings[number];
        debug_assert_eq!(ring.done(), own.fill, "the server gave all its slots back");
        own.ready = own.taken;
    }
}
