//! The requester's side: submission and collection. `work` has what happens in between,
//! `done` a job that is finished.
//!
//! A requester knows what each of its slots holds. A look at `done` tells which jobs are finished:
//!
//! | a slot is | bits set in its [`RingState`] | its bits of `fill` and `done` |
//! |---|---|---|
//! | free | none | equal |
//! | handed over | `taken` | unequal, or equal and not noticed yet |
//! | ready | `taken`, `ready` | equal |

mod done;
mod work;

pub use done::Done;

use crate::dispatcher::Shared;
use crate::handler::Handler;
use crate::notifier::{ANY, slot_target};
use crate::order::{Order, SlotIndex};
use crate::requester_queue::RequesterQueue;
use crate::results::{Full, Panicked, Ticket};
use crate::slot_ring::{SLOTS_MAX, SlotRing};
use blockmill_pool::Producer;
use std::fmt;
use std::sync::Arc;

/// Submits jobs and collects their results, in slots of its own.
///
/// Dropping a requester drops its jobs, handled or not. The drop waits for jobs that a thread is
/// handling.
///
/// While jobs are handed over and not collected, the requester counts as a producer of the pool, so
/// that workers stay awake for the jobs. A sleeping requester does not count. Leaking a requester
/// leaks its jobs and leaves it counted as a producer: one worker fewer stays awake. The leak is
/// otherwise harmless.
pub struct Requester<H: Handler> {
    // Dropped before `shared`, whose list of requester queues drops node by node when nothing else
    // holds a node.
    queue: Arc<RequesterQueue<H::Job>>,
    shared: Arc<Shared<H>>,
    rings: Box<[RingState]>,
    order: Order,
    /// The ring of the last job.
    current: usize,
    in_flight: usize,
    producer: Option<Producer>,
}

/// What a requester knows of a ring: one bit for each slot in each word.
#[derive(Debug, Clone, Copy)]
struct RingState {
    /// All slots of the ring.
    slots: u64,
    /// A copy of the ring's `fill`.
    fill: u64,
    taken: u64,
    ready: u64,
    /// Those slots of `ready` whose jobs panicked.
    panicked: u64,
    /// The slot at which the search for a free slot begins.
    next: u32,
}

impl RingState {
    fn new(slots: usize, fill: u64) -> Self {
        Self {
            slots: u64::MAX >> (SLOTS_MAX - slots),
            fill,
            taken: 0,
            ready: 0,
            panicked: 0,
            next: 0,
        }
    }

    #[inline]
    fn free(&self) -> u64 {
        self.slots & !self.taken
    }

    /// Slots with jobs that are not finished, as far as the requester knows.
    #[inline]
    fn undone(&self) -> u64 {
        self.taken & !self.ready
    }
}

impl<H: Handler> Requester<H> {
    pub(crate) fn new(shared: Arc<Shared<H>>) -> Self {
        let queue = shared.dispatcher.queues.acquire();
        let own = |ring: &SlotRing<H::Job>| RingState::new(ring.slots(), ring.fill());
        Self {
            rings: queue.rings.iter().map(own).collect(),
            order: Order::new(queue.rings.len()),
            current: 0,
            in_flight: 0,
            producer: None,
            shared,
            queue,
        }
    }

    /// Number of jobs submitted and not collected.
    #[inline]
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Most jobs in flight.
    pub fn capacity(&self) -> usize {
        self.queue.rings.iter().map(SlotRing::slots).sum()
    }

    /// Submits a job. Workers may begin it at once.
    ///
    /// # Errors
    /// [`Full`] with the job when [`capacity`](Self::capacity) jobs are in flight. Collect a result
    /// first.
    #[inline]
    pub fn submit(&mut self, job: H::Job) -> Result<Ticket, Full<H::Job>> {
        let Some(number) = self.ring_to_fill() else {
            return Err(Full(job));
        };
        let ring = &mut self.rings[number];
        let slot = (ring.free().rotate_right(ring.next).trailing_zeros() + ring.next) % SLOTS_MAX as u32;
        ring.next = (slot + 1) % SLOTS_MAX as u32;
        ring.taken |= 1 << slot;
        #[expect(unsafe_code, reason = "the requester owns its free slots")]
        // SAFETY: this is the requester of the ring: it alone occupies the requester queue, and it
        // is borrowed mutably. The slot was free, so its bits are equal and it holds no job.
        unsafe {
            self.queue.rings[number].put(slot, job);
        }
        self.in_flight += 1;
        self.hand_over(SlotIndex::new(number, slot));
        Ok(self.order.push(SlotIndex::new(number, slot)))
    }

    /// Waits for the oldest job in flight and returns its result. None when no job is in flight.
    #[inline]
    pub fn collect_next(&mut self) -> Option<Result<Done<'_, H>, Panicked>> {
        let index = self.order.first()?;
        if !self.look_at(index) {
            self.wait(slot_target(index.ring(), index.slot()), index.ring(), |this| {
                this.look_at(index).then_some(index)
            });
        }
        Some(self.result(index))
    }

    /// The result of the oldest job in flight, if that job is finished.
    #[inline]
    pub fn try_collect_next(&mut self) -> Option<Result<Done<'_, H>, Panicked>> {
        let index = self.order.first()?;
        if self.look_at(index) {
            return Some(self.result(index));
        }
        self.help_if_alone();
        None
    }

    /// Waits for any job and returns its result. None when no job is in flight.
    #[inline]
    pub fn collect_any(&mut self) -> Option<Result<Done<'_, H>, Panicked>> {
        let first = self.order.first()?.ring();
        // The common case: workers are ahead, and nothing has to be waited for.
        let index = match self.look_for_any() {
            Some(index) => index,
            None => self.wait(ANY, first, Self::look_for_any),
        };
        Some(self.result(index))
    }

    /// The result of any finished job, if there is one.
    #[inline]
    pub fn try_collect_any(&mut self) -> Option<Result<Done<'_, H>, Panicked>> {
        match self.look_for_any() {
            Some(index) => Some(self.result(index)),
            None => {
                self.help_if_alone();
                None
            }
        }
    }

    /// Submits all jobs, and passes the results to `result` in the order of submission, those of
    /// jobs already in flight first.
    pub fn process(
        &mut self,
        jobs: impl IntoIterator<Item = H::Job>,
        mut result: impl FnMut(Result<H::Job, Panicked>),
    ) {
        for mut job in jobs {
            while let Err(Full(back)) = self.submit(job) {
                job = back;
                // Waits for one, then takes what else is finished: the next submissions then find
                // room at once.
                if let Some(done) = self.collect_next() {
                    result(done.map(Done::take));
                }
                while let Some(done) = self.try_collect_next() {
                    result(done.map(Done::take));
                }
            }
        }
        while let Some(done) = self.collect_next() {
            result(done.map(Done::take));
        }
    }

    // What `Done` does.

    pub(crate) fn ticket(&self, index: SlotIndex) -> Ticket {
        self.order.ticket(index)
    }

    /// The job in a ready slot.
    #[inline]
    pub(crate) fn job(&self, index: SlotIndex) -> &H::Job {
        debug_assert!(self.is_ready(index));
        #[expect(unsafe_code, reason = "the requester owns its ready slots")]
        // SAFETY: this is the requester of the ring. A ready slot belongs to the requester and
        // holds a job, and no thread changes that while the requester is borrowed.
        unsafe {
            &*self.queue.rings[index.ring()].job(index.slot())
        }
    }

    /// The job in a ready slot.
    #[inline]
    pub(crate) fn job_mut(&mut self, index: SlotIndex) -> &mut H::Job {
        debug_assert!(self.is_ready(index));
        #[expect(unsafe_code, reason = "the requester owns its ready slots")]
        // SAFETY: as in `job`; and the requester is borrowed mutably, so there is no other
        // reference.
        unsafe {
            &mut *self.queue.rings[index.ring()].job(index.slot())
        }
    }

    /// Takes the job out of a ready slot. The slot is free afterwards.
    #[inline]
    pub(crate) fn remove(&mut self, index: SlotIndex) -> H::Job {
        // Also in release builds: the memory safety of `take` rests on it.
        assert!(self.is_ready(index), "the job of this slot is not finished");
        let ring = &mut self.rings[index.ring()];
        ring.taken &= !index.bit();
        ring.ready &= !index.bit();
        self.order.remove(index);
        self.in_flight -= 1;
        // Nothing is under way, so the workers may park.
        if self.in_flight == 0 {
            self.producer = None;
        }
        #[expect(unsafe_code, reason = "the requester owns its ready slots")]
        // SAFETY: this is the requester of the ring. The slot was ready, so it belongs to the
        // requester and holds a job; the slot is free now.
        unsafe {
            self.queue.rings[index.ring()].take(index.slot())
        }
    }

    #[inline]
    fn is_ready(&self, index: SlotIndex) -> bool {
        self.rings[index.ring()].ready & index.bit() != 0
    }

    /// The result of the job in a ready slot.
    #[inline]
    fn result(&mut self, index: SlotIndex) -> Result<Done<'_, H>, Panicked> {
        if self.rings[index.ring()].panicked & index.bit() == 0 {
            Ok(Done::new(self, index))
        } else {
            Err(self.panic(index))
        }
    }

    #[cold]
    fn panic(&mut self, index: SlotIndex) -> Panicked {
        let ticket = self.ticket(index);
        self.rings[index.ring()].panicked &= !index.bit();
        let panic = self.queue.take_panic(index.ring(), index.slot());
        drop(self.remove(index));
        match panic {
            Some(panic) => Panicked { ticket, panic },
            None => unreachable!("a panic is stored before its bit is set"),
        }
    }
}

impl<H: Handler> Drop for Requester<H> {
    fn drop(&mut self) {
        // Ring by ring: a job that is being handled holds up only its own ring.
        for number in 0..self.rings.len() {
            self.reclaim(number);
            while self.rings[number].ready != 0 {
                let slot = self.rings[number].ready.trailing_zeros();
                self.queue.rings[number].clear_panic(slot);
                drop(self.remove(SlotIndex::new(number, slot)));
            }
        }
        self.queue.release();
    }
}

impl<H: Handler> fmt::Debug for Requester<H> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Requester")
            .field("rings", &self.rings)
            .field("in_flight", &self.in_flight)
            .finish_non_exhaustive()
    }
}
