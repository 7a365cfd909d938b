//! What a requester does with jobs between submission and collection: it hands jobs over or handles
//! them, looks for finished jobs, and waits.
//!
//! | jobs | rings are filled |
//! |---|---|
//! | tiny | one after the other |
//! | small | a worker's ring with little work left; else the own ring while little is kept there |
//! | small or tiny, no help | all in turn, one batch each |
//! | large | all in turn |
//!
//! | jobs | handed over |
//! |---|---|
//! | tiny | on flush; else the requester handles a ring's jobs on looking for one of them |
//! | small | at the end of a batch, and when the requester looks for a finished job |
//! | small, in the own ring | on flush; else the requester handles the jobs when it waits |
//! | small or tiny, no help | as small jobs |
//! | large | at once |

use super::{OWN, Requester};
use crate::notifier::CLAIM;
use crate::options::Help;
use crate::order::SlotIndex;
use crate::pace::{Size, mean_ns};
use crate::queue::Handler;
use crate::slot_ring::SLOTS_MAX;
use blockmill_pool::contain;
use blockmill_sync::Backoff;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

impl<H: Handler> Requester<H> {
    /// The class of the jobs, which decides how to treat them.
    #[inline]
    pub(super) fn size(&self) -> Size {
        match (self.shared.help, self.pace.size()) {
            (Help::WhileWaiting, _) | (_, Size::Large) => Size::Large,
            (Help::SmallJobsToo, size) => size,
            (Help::Never, _) => Size::Batched,
        }
    }

    /// The ring for the next job; None when all rings are full.
    #[inline]
    pub(super) fn ring_to_fill(&mut self) -> Option<usize> {
        if self.batch_left > 0 && self.rings[self.current].free() != 0 {
            return Some(self.current);
        }
        self.next_ring()
    }

    /// The ring for the next batch of jobs.
    fn next_ring(&mut self) -> Option<usize> {
        let unit = self.pace.unit_jobs();
        let (ring, batch) = match self.size() {
            Size::Tiny => (self.ring_with_free_slot(0..self.rings.len())?, u32::MAX),
            Size::Batched | Size::Large => {
                self.hand_over(self.current);
                let next = self.current + 1..self.rings.len();
                let ring = self
                    .ring_with_free_slot(next)
                    .or_else(|| self.ring_with_free_slot(0..self.current + 1));
                (ring?, unit)
            }
            Size::Small => {
                if self.current != OWN {
                    self.hand_over(self.current);
                }
                self.next_ring_for_small_jobs()?
            }
        };
        self.current = ring;
        self.batch_left = batch;
        Some(ring)
    }

    /// The ring and the length of the next batch: first a worker's ring with little work left, then
    /// the requester's own ring while little is kept there, then any.
    fn next_ring_for_small_jobs(&mut self) -> Option<(usize, u32)> {
        let slots = self.rings[OWN].slots.count_ones();
        let unit = self.pace.unit_jobs();
        let batch = unit.min(slots / 2).max(1);
        let workers = OWN + 1..self.rings.len();
        let hungry = workers
            .clone()
            .find(|&ring| self.rings[ring].undone().count_ones() <= batch / 2 && self.rings[ring].free() != 0);
        if let Some(ring) = hungry {
            return Some((ring, batch));
        }
        let own = &self.rings[OWN];
        let kept = own.kept.count_ones();
        if own.free() != 0 && (kept < unit || workers.is_empty()) {
            return Some((OWN, 1));
        }
        let least = workers
            .filter(|&ring| self.rings[ring].free() != 0)
            .min_by_key(|&ring| self.rings[ring].undone().count_ones());
        match least {
            Some(ring) => Some((ring, batch)),
            None => self.ring_with_free_slot(OWN..OWN + 1).map(|ring| (ring, 1)),
        }
    }

    #[inline]
    fn ring_with_free_slot(&self, mut rings: Range<usize>) -> Option<usize> {
        rings.find(|&ring| self.rings[ring].free() != 0)
    }

    /// Hands over the jobs that are kept in the rings from index `from` on.
    #[inline]
    pub(super) fn hand_over_all(&mut self, from: usize) {
        for ring in from..self.rings.len() {
            self.hand_over(ring);
        }
    }

    /// Hands over the jobs that are kept in a ring.
    #[inline]
    pub(super) fn hand_over(&mut self, number: usize) {
        let ring = &mut self.rings[number];
        if ring.kept == 0 {
            return;
        }
        ring.fill ^= ring.kept;
        ring.kept = 0;
        if self.producer.is_none() {
            self.queue.set_open(true);
            self.producer = Some(self.shared.handle.register_producer());
        }
        #[expect(unsafe_code, reason = "the requester owns the slots that it kept")]
        // SAFETY: this is the requester of the ring. `fill` is as in the ring but for the bits of
        // kept slots, which the requester owned and which hold jobs.
        unsafe {
            self.queue.rings[number].hand_over(ring.fill);
        }
        self.shared.handle.notify();
    }

    /// Handles jobs that are kept in a ring for a turn, from slot `from`, wrapping. Returns
    /// whether there were any.
    #[inline]
    fn handle_kept(&mut self, number: usize, from: u32) -> bool {
        let ring = &mut self.rings[number];
        let jobs = ring.kept.count_ones().min(self.pace.turn_jobs());
        if jobs == 0 {
            return false;
        }
        let start = self.pace.is_to_be_timed(jobs).then(Instant::now);
        let mut next = from;
        for _ in 0..jobs {
            let slot = (ring.kept.rotate_right(next).trailing_zeros() + next) % SLOTS_MAX as u32;
            #[expect(unsafe_code, reason = "the requester owns the slots that it kept")]
            // SAFETY: this is the requester of the ring. At least `jobs` slots are kept; the
            // requester owns them, they hold jobs, and there is no other reference to this one.
            let job = unsafe { &mut *self.queue.rings[number].job(slot) };
            if let Err(panic) = contain(|| self.shared.dispatcher.handler.handle(job)) {
                self.queue.put_panic(number, slot, panic);
                ring.panicked |= 1 << slot;
            }
            ring.kept &= !(1 << slot);
            ring.ready |= 1 << slot;
            next = (slot + 1) % SLOTS_MAX as u32;
        }
        if let Some(start) = start {
            self.note_job_ns(mean_ns(start.elapsed(), jobs));
        }
        true
    }

    #[inline]
    fn note_job_ns(&mut self, job_ns: u32) {
        if self.pace.note(job_ns) {
            self.queue.set_unit_jobs_max(self.pace.unit_jobs());
            // The next job begins a batch of the new length.
            self.batch_left = 0;
        }
    }

    // Looking and waiting.

    /// Learns which jobs of a ring are finished.
    #[inline]
    fn refresh(&mut self, number: usize) {
        let ring = &mut self.rings[number];
        let shared = &self.queue.rings[number];
        let back = ring.handed_over() & !(ring.fill ^ shared.done());
        if back == 0 {
            return;
        }
        ring.ready |= back;
        ring.panicked |= shared.panicked() & back;
        let job_ns = shared.job_ns();
        if job_ns > 0 {
            self.note_job_ns(job_ns);
        }
    }

    /// Hands over the jobs that are meant for workers.
    #[inline]
    fn hand_over_to_workers(&mut self) {
        match self.size() {
            Size::Tiny => {}
            Size::Small => self.hand_over_all(OWN + 1),
            Size::Batched | Size::Large => self.hand_over_all(OWN),
        }
    }

    /// Notes that a `try_` call found nothing.
    ///
    /// A caller that only tries never waits, and its jobs must finish all the same. So the second
    /// empty try without a submission in between hands all jobs over. Where there are no
    /// workers, that try does a unit of work here.
    pub(super) fn note_empty_try(&mut self) {
        if self.last_try_was_empty {
            self.flush();
            if !self.shared.handle.is_served() {
                self.help(OWN);
            }
        }
        self.last_try_was_empty = true;
    }

    /// Whether the job of a slot is finished. A kept job is handled here.
    #[inline]
    pub(super) fn look_at(&mut self, index: SlotIndex) -> bool {
        if self.is_ready(index) {
            return true;
        }
        let number = index.ring();
        self.hand_over_to_workers();
        if self.rings[number].kept & index.bit() != 0 {
            return self.handle_kept(number, index.slot());
        }
        self.refresh(number);
        self.is_ready(index)
    }

    /// A slot with a finished job. Tiny jobs that are kept are handled here.
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
        if self.in_flight == 0 {
            return None;
        }
        self.hand_over_to_workers();
        let tiny = self.size() == Size::Tiny;
        let first = self.order.first().map_or(0, SlotIndex::ring);
        let rings = self.rings.len();
        for ring in (first..rings).chain(0..first) {
            if tiny {
                self.handle_kept(ring, 0);
            }
            if self.rings[ring].handed_over() != 0 {
                self.refresh(ring);
            }
            if self.rings[ring].ready != 0 {
                return Some(ring);
            }
        }
        None
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
            if self.handle_kept(OWN, self.rings[OWN].next) || self.help(first) {
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

    /// Does a unit of work that was handed over and has no server. Returns whether there was one.
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
        own.kept = 0;
    }
}
