//! The requester's side: submitting and collecting. What happens between is in `work`.
//!
//! A requester knows of each of its slots what it holds; of jobs that were handed over it learns by a look at `done`:
//!
//! | a slot is | in the words of its lane | its bits of `fill` and `done` |
//! |---|---|---|
//! | free | none | equal |
//! | kept | `taken`, `kept` | equal |
//! | handed over | `taken` | unequal, or equal without being noticed |
//! | ready | `taken`, `ready` | equal |

mod work;

use crate::bell::{ANY, slot_of};
use crate::desk::Desk;
use crate::lane::SLOTS_MAX;
use crate::order::{Order, Place};
use crate::pace::{Pace, Size};
use crate::queue::{Handler, Office};
use crate::results::{Done, Full, Panicked, Ticket};
use blockmill_pool::Producer;
use std::fmt;
use std::sync::Arc;

/// The lane of those jobs that the requester keeps for itself; the others are for workers. Any may serve any of them.
const OWN: usize = 0;

/// Submits jobs and collects them. When it is dropped, so are its jobs, handled or not; it waits for those that are being handled.
///
/// While jobs are handed over and not collected it counts as one that attends the pool, so that workers stay awake for it; but not while
/// it sleeps. If it is forgotten its jobs are too, and it counts for ever as one that attends, so the pool keeps a worker fewer awake; nothing else breaks.
pub struct Requester<H: Handler> {
    // Before the office, which drops its list of desks one by one if nobody else has one.
    desk: Arc<Desk<H::Job>>,
    office: Arc<Office<H>>,
    lanes: Box<[OwnLane]>,
    order: Order,
    pace: Pace,
    /// The lane that is being filled, and how many more jobs are to be put there in a row.
    current: usize,
    row: u32,
    in_flight: usize,
    /// Whether a look for a job that is done found none since the last submission.
    asked_in_vain: bool,
    attendance: Option<Producer>,
}

/// What a requester knows of a lane; a bit for each slot.
#[derive(Debug, Clone, Copy)]
struct OwnLane {
    /// All slots.
    slots: u64,
    /// As in the lane.
    fill: u64,
    taken: u64,
    kept: u64,
    ready: u64,
    /// Those of `ready` whose jobs have panicked.
    panicked: u64,
    /// Where the search for a free slot begins.
    next: u32,
}

impl OwnLane {
    fn new(slots: usize, fill: u64) -> Self {
        Self {
            slots: u64::MAX >> (SLOTS_MAX - slots),
            fill,
            taken: 0,
            kept: 0,
            ready: 0,
            panicked: 0,
            next: 0,
        }
    }

    #[inline]
    fn free(&self) -> u64 {
        self.slots & !self.taken
    }

    /// Those whose jobs are not done, as far as is known.
    #[inline]
    fn undone(&self) -> u64 {
        self.taken & !self.ready
    }

    /// Those whose jobs are with others, as far as is known.
    #[inline]
    fn handed_over(&self) -> u64 {
        self.taken & !self.kept & !self.ready
    }
}

impl<H: Handler> Requester<H> {
    pub(crate) fn new(office: Arc<Office<H>>) -> Self {
        let desk = office.counter.desks.take();
        let own = |lane: &crate::lane::Lane<H::Job>| OwnLane::new(lane.slots(), lane.fill());
        Self {
            lanes: desk.lanes.iter().map(own).collect(),
            order: Order::new(desk.lanes.len()),
            pace: Pace::new(),
            current: 0,
            row: 0,
            in_flight: 0,
            asked_in_vain: false,
            attendance: None,
            office,
            desk,
        }
    }

    /// Jobs that were submitted and not collected.
    #[inline]
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Most jobs in flight.
    pub fn capacity(&self) -> usize {
        self.desk.lanes.iter().map(crate::lane::Lane::slots).sum()
    }

    /// Submits a job. It may be held back for a while, see [`Help`](crate::Help).
    ///
    /// # Errors
    /// [`Full`] with the job when [`capacity`](Self::capacity) jobs are in flight: collect one first.
    #[inline]
    pub fn submit(&mut self, job: H::Job) -> Result<Ticket, Full<H::Job>> {
        let Some(number) = self.lane_to_fill() else {
            return Err(Full(job));
        };
        let lane = &mut self.lanes[number];
        let slot = (lane.free().rotate_right(lane.next).trailing_zeros() + lane.next) % SLOTS_MAX as u32;
        lane.next = (slot + 1) % SLOTS_MAX as u32;
        lane.taken |= 1 << slot;
        lane.kept |= 1 << slot;
        #[expect(unsafe_code, reason = "the requester owns its free slots")]
        // SAFETY: this is the requester of the lane: it alone sits at the desk, and it is borrowed mutably. The slot was free, so its bits
        // are equal and it holds no job.
        unsafe {
            self.desk.lanes[number].put(slot, job);
        }
        self.row -= 1;
        self.in_flight += 1;
        self.asked_in_vain = false;
        let ticket = self.order.push(Place::new(number, slot));
        if self.size() == Size::Large {
            self.hand_over(number);
        }
        Ok(ticket)
    }

    /// Hands over all jobs that are held back, tiny ones too.
    pub fn flush(&mut self) {
        self.hand_over_all(0);
    }

    /// The job that was submitted first of those in flight; waits until it is done. None when no job is in flight.
    #[inline]
    pub fn collect_next(&mut self) -> Option<Result<Done<'_, H>, Panicked>> {
        let place = self.order.first()?;
        if !self.look_at(place) {
            self.wait(slot_of(place.lane(), place.slot()), place.lane(), |this| {
                this.look_at(place).then_some(place)
            });
        }
        Some(self.result(place))
    }

    /// The job that was submitted first of those in flight, if it is done.
    #[inline]
    pub fn try_collect_next(&mut self) -> Option<Result<Done<'_, H>, Panicked>> {
        let place = self.order.first()?;
        if self.look_at(place) {
            return Some(self.result(place));
        }
        self.asked_in_vain();
        None
    }

    /// A job that is done, whichever; waits until one is. None when no job is in flight.
    #[inline]
    pub fn collect_any(&mut self) -> Option<Result<Done<'_, H>, Panicked>> {
        let first = self.order.first()?.lane();
        let place = match self.look_for_any() {
            Some(place) => place,
            None => self.wait(ANY, first, Self::look_for_any),
        };
        Some(self.result(place))
    }

    /// A job that is done, whichever, if there is one.
    #[inline]
    pub fn try_collect_any(&mut self) -> Option<Result<Done<'_, H>, Panicked>> {
        match self.look_for_any() {
            Some(place) => Some(self.result(place)),
            None => {
                self.asked_in_vain();
                None
            }
        }
    }

    /// Submits all jobs, and collects what is in flight and those, in order of submission.
    pub fn process(
        &mut self,
        jobs: impl IntoIterator<Item = H::Job>,
        mut result: impl FnMut(Result<H::Job, Panicked>),
    ) {
        for mut job in jobs {
            while let Err(Full(back)) = self.submit(job) {
                job = back;
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

    pub(crate) fn ticket(&self, place: Place) -> Ticket {
        self.order.ticket(place)
    }

    /// The job of a place that is ready.
    #[inline]
    pub(crate) fn job(&self, place: Place) -> &H::Job {
        debug_assert!(self.is_ready(place));
        #[expect(unsafe_code, reason = "the requester owns its ready slots")]
        // SAFETY: this is the requester of the lane. A ready slot is its own and holds a job, and nobody changes that while the
        // requester is borrowed.
        unsafe {
            &*self.desk.lanes[place.lane()].job(place.slot())
        }
    }

    /// The job of a place that is ready.
    #[inline]
    pub(crate) fn job_mut(&mut self, place: Place) -> &mut H::Job {
        debug_assert!(self.is_ready(place));
        #[expect(unsafe_code, reason = "the requester owns its ready slots")]
        // SAFETY: as in `job`; and the requester is borrowed mutably, so there is no other reference.
        unsafe {
            &mut *self.desk.lanes[place.lane()].job(place.slot())
        }
    }

    /// Takes the job of a place that is ready; the slot is free then.
    #[inline]
    pub(crate) fn remove(&mut self, place: Place) -> H::Job {
        assert!(self.is_ready(place), "only a job that is done is collected");
        let lane = &mut self.lanes[place.lane()];
        lane.taken &= !place.bit();
        lane.ready &= !place.bit();
        self.order.remove(place);
        self.in_flight -= 1;
        if self.in_flight == 0 {
            self.attendance = None;
        }
        #[expect(unsafe_code, reason = "the requester owns its ready slots")]
        // SAFETY: this is the requester of the lane. The slot was ready, so it is its own and holds a job; it is free now.
        unsafe {
            self.desk.lanes[place.lane()].take(place.slot())
        }
    }

    #[inline]
    fn is_ready(&self, place: Place) -> bool {
        self.lanes[place.lane()].ready & place.bit() != 0
    }

    /// What has become of the job of a place that is ready.
    #[inline]
    fn result(&mut self, place: Place) -> Result<Done<'_, H>, Panicked> {
        if self.lanes[place.lane()].panicked & place.bit() == 0 {
            Ok(Done::new(self, place))
        } else {
            Err(self.panic(place))
        }
    }

    #[cold]
    fn panic(&mut self, place: Place) -> Panicked {
        let ticket = self.ticket(place);
        self.lanes[place.lane()].panicked &= !place.bit();
        let panic = self.desk.take_panic(place.lane(), place.slot());
        drop(self.remove(place));
        match panic {
            Some(panic) => Panicked { ticket, panic },
            None => unreachable!("who sets the bit of a panic has left it there before"),
        }
    }
}

impl<H: Handler> Drop for Requester<H> {
    fn drop(&mut self) {
        for number in 0..self.lanes.len() {
            self.take_back(number);
            while self.lanes[number].ready != 0 {
                let slot = self.lanes[number].ready.trailing_zeros();
                self.desk.lanes[number].clear_panic(slot);
                drop(self.remove(Place::new(number, slot)));
            }
        }
        self.desk.leave();
    }
}

impl<H: Handler> fmt::Debug for Requester<H> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Requester")
            .field("lanes", &self.lanes)
            .field("pace", &self.pace)
            .field("in_flight", &self.in_flight)
            .finish_non_exhaustive()
    }
}
