//! What a requester does about its jobs between their submission and their collection: it hands them over or handles them, looks for
//! those that are done, and waits.
//!
//! | jobs are | lanes are filled | handed over |
//! |---|---|---|
//! | tiny | one after the other | when flushed; else the requester handles all of a lane as soon as it looks for one of them |
//! | small | those of workers first, where little is left to do; else its own, while little is kept there | at the end of a row, and when the requester looks for a job that is done; those of its own lane when flushed, else it handles them when it waits |
//! | small or tiny, and it does not help | all in turn, a row each | at the end of a row, and when the requester looks for a job that is done |
//! | large | all in turn | at once |

use super::{OWN, Requester};
use crate::bell::CLAIM;
use crate::lane::SLOTS_MAX;
use crate::options::Help;
use crate::order::Place;
use crate::pace::{Size, mean_ns};
use crate::queue::Handler;
use blockmill_pool::contain;
use blockmill_sync::Backoff;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

impl<H: Handler> Requester<H> {
    /// How jobs are to be treated.
    #[inline]
    pub(super) fn size(&self) -> Size {
        match (self.office.help, self.pace.size()) {
            (Help::WhileWaiting, _) | (_, Size::Large) => Size::Large,
            (Help::SmallJobsToo, size) => size,
            (Help::Never, _) => Size::Rows,
        }
    }

    /// The lane for the next job; None when all are full.
    #[inline]
    pub(super) fn lane_to_fill(&mut self) -> Option<usize> {
        if self.row > 0 && self.lanes[self.current].free() != 0 {
            return Some(self.current);
        }
        self.next_lane()
    }

    /// The lane for the next row of jobs.
    fn next_lane(&mut self) -> Option<usize> {
        let unit = self.pace.unit_jobs();
        let (lane, row) = match self.size() {
            Size::Tiny => (self.lane_with_room(0..self.lanes.len())?, u32::MAX),
            Size::Rows | Size::Large => {
                self.hand_over(self.current);
                let next = self.current + 1..self.lanes.len();
                let lane = self
                    .lane_with_room(next)
                    .or_else(|| self.lane_with_room(0..self.current + 1));
                (lane?, unit)
            }
            Size::Small => {
                if self.current != OWN {
                    self.hand_over(self.current);
                }
                self.next_lane_for_small_jobs()?
            }
        };
        self.current = lane;
        self.row = row;
        Some(lane)
    }

    /// Those of workers that have little to do come first, then the requester's own while little is kept there, then any.
    fn next_lane_for_small_jobs(&mut self) -> Option<(usize, u32)> {
        let slots = self.lanes[OWN].slots.count_ones();
        let unit = self.pace.unit_jobs();
        let row = unit.min(slots / 2).max(1);
        let workers = OWN + 1..self.lanes.len();
        let hungry = workers
            .clone()
            .find(|&lane| self.lanes[lane].undone().count_ones() <= row / 2 && self.lanes[lane].free() != 0);
        if let Some(lane) = hungry {
            return Some((lane, row));
        }
        let own = &self.lanes[OWN];
        let kept = own.kept.count_ones();
        if own.free() != 0 && (kept < unit || workers.is_empty()) {
            return Some((OWN, 1));
        }
        let least = workers
            .filter(|&lane| self.lanes[lane].free() != 0)
            .min_by_key(|&lane| self.lanes[lane].undone().count_ones());
        match least {
            Some(lane) => Some((lane, row)),
            None => self.lane_with_room(OWN..OWN + 1).map(|lane| (lane, 1)),
        }
    }

    #[inline]
    fn lane_with_room(&self, mut lanes: Range<usize>) -> Option<usize> {
        lanes.find(|&lane| self.lanes[lane].free() != 0)
    }

    /// Hands over what is kept in the lanes from this one on.
    #[inline]
    pub(super) fn hand_over_all(&mut self, from: usize) {
        for lane in from..self.lanes.len() {
            self.hand_over(lane);
        }
    }

    /// Hands over what is kept in a lane.
    #[inline]
    pub(super) fn hand_over(&mut self, number: usize) {
        let lane = &mut self.lanes[number];
        if lane.kept == 0 {
            return;
        }
        lane.fill ^= lane.kept;
        lane.kept = 0;
        if self.attendance.is_none() {
            self.desk.set_open(true);
            self.attendance = Some(self.office.handle.register_producer());
        }
        #[expect(unsafe_code, reason = "the requester owns the slots that it kept")]
        // SAFETY: this is the requester of the lane. `fill` is as in the lane but for the bits of kept slots, which were its own and hold jobs.
        unsafe {
            self.desk.lanes[number].hand_over(lane.fill);
        }
        self.office.handle.notify();
    }

    /// Handles what is kept in a lane, from a slot on and round, for a turn. Returns whether there was anything.
    #[inline]
    fn handle_kept(&mut self, number: usize, from: u32) -> bool {
        let lane = &mut self.lanes[number];
        let jobs = lane.kept.count_ones().min(self.pace.turn_jobs());
        if jobs == 0 {
            return false;
        }
        let start = self.pace.is_to_be_timed(jobs).then(Instant::now);
        let mut next = from;
        for _ in 0..jobs {
            let slot = (lane.kept.rotate_right(next).trailing_zeros() + next) % SLOTS_MAX as u32;
            #[expect(unsafe_code, reason = "the requester owns the slots that it kept")]
            // SAFETY: this is the requester of the lane. There are at least so many kept slots; they are its own and hold jobs, and
            // there is no other reference to this one.
            let job = unsafe { &mut *self.desk.lanes[number].job(slot) };
            if let Err(panic) = contain(|| self.office.counter.handler.handle(job)) {
                self.desk.put_panic(number, slot, panic);
                lane.panicked |= 1 << slot;
            }
            lane.kept &= !(1 << slot);
            lane.ready |= 1 << slot;
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
            self.desk.set_unit_jobs_max(self.pace.unit_jobs());
            // The next job begins a row of the new length.
            self.row = 0;
        }
    }

    // Looking and waiting.

    /// Learns which jobs of a lane are done.
    #[inline]
    fn refresh(&mut self, number: usize) {
        let lane = &mut self.lanes[number];
        let shared = &self.desk.lanes[number];
        let back = lane.handed_over() & !(lane.fill ^ shared.done());
        if back == 0 {
            return;
        }
        lane.ready |= back;
        lane.panicked |= shared.panicked() & back;
        let job_ns = shared.job_ns();
        if job_ns > 0 {
            self.note_job_ns(job_ns);
        }
    }

    /// Hands over what workers are to do.
    #[inline]
    fn settle(&mut self) {
        match self.size() {
            Size::Tiny => {}
            Size::Small => self.hand_over_all(OWN + 1),
            Size::Rows | Size::Large => self.hand_over_all(OWN),
        }
    }

    /// Who asks twice without submitting between does not wait, and must find the jobs done some day: so they are handed over, and where there are
    /// no workers a unit of work is done here.
    pub(super) fn asked_in_vain(&mut self) {
        if self.asked_in_vain {
            self.flush();
            if !self.office.handle.is_served() {
                self.help(OWN);
            }
        }
        self.asked_in_vain = true;
    }

    /// Whether the job of a place is done. If it is kept, it is handled.
    #[inline]
    pub(super) fn look_at(&mut self, place: Place) -> bool {
        if self.is_ready(place) {
            return true;
        }
        let number = place.lane();
        self.settle();
        if self.lanes[number].kept & place.bit() != 0 {
            return self.handle_kept(number, place.slot());
        }
        self.refresh(number);
        self.is_ready(place)
    }

    /// A place whose job is done. Tiny jobs that are kept are handled.
    #[inline]
    pub(super) fn look_for_any(&mut self) -> Option<Place> {
        let lane = (0..self.lanes.len()).find(|&lane| self.lanes[lane].ready != 0);
        let lane = match lane {
            Some(lane) => lane,
            None => self.look_for_more()?,
        };
        Some(Place::new(lane, self.lanes[lane].ready.trailing_zeros()))
    }

    /// A lane in which a job is done that was not known to be.
    fn look_for_more(&mut self) -> Option<usize> {
        if self.in_flight == 0 {
            return None;
        }
        self.settle();
        let tiny = self.size() == Size::Tiny;
        let first = self.order.first().map_or(0, Place::lane);
        let lanes = self.lanes.len();
        for lane in (first..lanes).chain(0..first) {
            if tiny {
                self.handle_kept(lane, 0);
            }
            if self.lanes[lane].handed_over() != 0 {
                self.refresh(lane);
            }
            if self.lanes[lane].ready != 0 {
                return Some(lane);
            }
        }
        None
    }

    /// Waits until `look` finds something, handling jobs of its own meanwhile, those of lane `first` first.
    #[cold]
    pub(super) fn wait(
        &mut self,
        target: u64,
        first: usize,
        mut look: impl FnMut(&mut Self) -> Option<Place>,
    ) -> Place {
        let mut backoff = Backoff::new();
        loop {
            if self.handle_kept(OWN, self.lanes[OWN].next) || self.help(first) {
                backoff = Backoff::new();
            } else if !backoff.snooze() {
                self.sleep(target, &mut look);
                backoff = Backoff::new();
            }
            if let Some(place) = look(self) {
                return place;
            }
        }
    }

    /// Does a unit of work that was handed over and that nobody does yet. Returns whether there was one.
    fn help(&mut self, first: usize) -> bool {
        if self.office.help == Help::Never {
            return false;
        }
        let Some(lane) = self.desk.serve(&self.office.counter.handler, first) else {
            return false;
        };
        if self.desk.lanes[lane].has_work() {
            // Workers may have passed by while it was served here.
            self.office.handle.notify();
        }
        true
    }

    /// Sleeps until `target` may have come. It needs no core meanwhile.
    fn sleep(&mut self, target: u64, look: &mut impl FnMut(&mut Self) -> Option<Place>) {
        let desk = Arc::clone(&self.desk);
        let helps = self.office.help != Help::Never;
        let attended = self.attendance.take().is_some();
        if !helps {
            // There may be work for the worker that gets the core.
            self.office.handle.notify();
        }
        desk.bell
            .sleep(target, || look(self).is_some() || (helps && desk.lanes_to_serve() > 0));
        if attended {
            self.attendance = Some(self.office.handle.register_producer());
        }
    }

    /// Takes back what is handed over in a lane and not handled.
    pub(super) fn take_back(&mut self, number: usize) {
        let lane = &self.desk.lanes[number];
        let mut backoff = Backoff::new();
        let mut claim = loop {
            if let Some(claim) = lane.try_claim() {
                break claim;
            }
            if !backoff.snooze() {
                self.desk.bell.sleep(CLAIM, || !lane.is_served());
            }
        };
        // Claiming it has made visible what other servers did to the jobs.
        claim.give_up_all();
        drop(claim);
        let own = &mut self.lanes[number];
        debug_assert_eq!(lane.done(), own.fill, "the server's slots were all given up");
        own.ready = own.taken;
        own.kept = 0;
    }
}
