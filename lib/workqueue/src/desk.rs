//! A desk: what one requester shares with those who serve it.
//!
//! # State
//!
//! | where | what | written by |
//! |---|---|---|
//! | `lanes` | jobs, see there | |
//! | `open` | whether jobs were handed over since the requester came | the requester |
//! | `unit_jobs_max` | most jobs of a unit of work | the requester |
//! | `bell` | see there | |
//! | `panics` | panics of jobs that are not collected | servers and the requester, under a lock; seldom |
//! | `taken` | whether a requester sits at the desk | who takes it, and the same when it leaves |
//!
//! A worker finds the desks of a queue in a list that only grows, so it takes no lock; a desk that was left goes to the next requester.
//!
//! # How work is done
//!
//! A unit of work is some jobs of one lane: as many as take about 10 us, at least one. After it the worker looks for more urgent
//! work, and rings for a requester that sleeps. For one that sleeps for a certain job it rings after that job already, if it notices.
//!
//! A requester that helps looks for lanes that nobody serves before it sleeps. So a server that leaves a lane in which there is work left
//! wakes it, whatever it sleeps for: workers may have other things to do.

use crate::bell::{ANY, Bell, CLAIM, is_among, slot_of};
use crate::lane::Lane;
use crate::options::Sizes;
use crate::pace::mean_ns;
use crate::queue::Handler;
use blockmill_pool::{Panic, contain};
use blockmill_sync::atomic::{AtomicBool, AtomicU32, Ordering};
use blockmill_sync::{CachePadded, Mutex};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

/// What one requester shares with those who serve it.
#[derive(Debug)]
pub(crate) struct Desk<J> {
    pub(crate) lanes: Box<[Lane<J>]>,
    requester_helps: bool,
    settings: CachePadded<Settings>,
    pub(crate) bell: Bell,
    panics: Mutex<Vec<(u64, Panic)>>,
    /// Whether a requester sits at the desk.
    taken: AtomicBool,
    next: OnceLock<Arc<Self>>,
}

/// What is written seldom, and by the requester.
#[derive(Debug)]
struct Settings {
    open: AtomicBool,
    unit_jobs_max: AtomicU32,
}

impl<J> Desk<J> {
    fn new(sizes: Sizes) -> Self {
        Self {
            requester_helps: sizes.requester_helps,
            lanes: (0..sizes.lanes).map(|_| Lane::new(sizes.slots_per_lane)).collect(),
            settings: CachePadded::new(Settings {
                open: AtomicBool::new(false),
                unit_jobs_max: AtomicU32::new(1),
            }),
            bell: Bell::new(),
            panics: Mutex::new(Vec::new()),
            taken: AtomicBool::new(true),
            next: OnceLock::new(),
        }
    }

    // What the requester does.

    /// Says whether there are jobs at the desk.
    #[inline]
    pub(crate) fn set_open(&self, open: bool) {
        self.settings.open.store(open, Ordering::Relaxed);
    }

    pub(crate) fn set_unit_jobs_max(&self, jobs: u32) {
        self.settings.unit_jobs_max.store(jobs, Ordering::Relaxed);
    }

    /// The panic of a slot's job.
    #[cold]
    pub(crate) fn take_panic(&self, lane: usize, slot: u32) -> Option<Panic> {
        let mut panics = self.panics.lock();
        let place = panics.iter().position(|(place, _)| *place == slot_of(lane, slot))?;
        self.lanes[lane].clear_panic(slot);
        Some(panics.swap_remove(place).1)
    }

    /// Keeps the panic of a slot's job until it is collected.
    #[cold]
    pub(crate) fn put_panic(&self, lane: usize, slot: u32, panic: Panic) {
        self.panics.lock().push((slot_of(lane, slot), panic));
    }

    /// Gets up from the desk. All lanes are empty, and nobody serves them.
    pub(crate) fn leave(&self) {
        self.panics.lock().clear();
        self.set_open(false);
        // Release: pairs with the Acquire in `Desks::take`.
        self.taken.store(false, Ordering::Release);
    }

    // What servers do.

    /// Lanes with work that nobody does yet; a hint.
    #[inline]
    pub(crate) fn lanes_to_serve(&self) -> usize {
        if !self.settings.open.load(Ordering::Relaxed) {
            return 0;
        }
        self.lanes.iter().filter(|lane| lane.can_be_served()).count()
    }

    /// Does a unit of work: some jobs of the first lane, from `start` on and round, in which there are any that nobody handles. Returns the lane.
    #[inline]
    pub(crate) fn serve<H: Handler<Job = J>>(&self, handler: &H, start: usize) -> Option<usize> {
        if !self.settings.open.load(Ordering::Relaxed) {
            return None;
        }
        let (behind, before) = (start..self.lanes.len(), 0..start);
        behind.chain(before).find(|&lane| self.serve_lane(handler, lane))
    }

    /// Handles some jobs of a lane. Returns whether there were any.
    #[inline]
    fn serve_lane<H: Handler<Job = J>>(&self, handler: &H, number: usize) -> bool {
        let lane = &self.lanes[number];
        if !lane.can_be_served() {
            return false;
        }
        let Some(mut claim) = lane.try_claim() else {
            return false;
        };
        let start = Instant::now();
        let handled = claim.serve(
            self.settings.unit_jobs_max.load(Ordering::Relaxed),
            |job| contain(|| handler.handle(job)),
            |slot| self.bell.tinkle(slot_of(number, slot)),
            |slot, panic| self.put_panic(number, slot, panic),
        );
        if handled != 0 {
            claim.note_job_ns(mean_ns(start.elapsed(), handled.count_ones()));
        }
        drop(claim);
        self.bell.ring(|target| match target {
            ANY => handled != 0,
            CLAIM => true,
            _ => is_among(target, number, handled),
        } || (self.requester_helps && lane.has_work()));
        handled != 0
    }
}

/// The desks of a queue: a list that only grows, so that it can be walked without a lock. A desk that was left is taken again.
#[derive(Debug)]
pub(crate) struct Desks<J> {
    first: OnceLock<Arc<Desk<J>>>,
    sizes: Sizes,
}

impl<J> Desks<J> {
    pub(crate) fn new(sizes: Sizes) -> Self {
        Self {
            first: OnceLock::new(),
            sizes,
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Desk<J>>> {
        std::iter::successors(self.first.get(), |desk| desk.next.get())
    }

    /// A desk for one requester, until it leaves.
    pub(crate) fn take(&self) -> Arc<Desk<J>> {
        // Acquire: pairs with the Release in `Desk::leave`.
        if let Some(desk) = self.iter().find(|desk| !desk.taken.swap(true, Ordering::Acquire)) {
            return Arc::clone(desk);
        }
        let desk = Arc::new(Desk::new(self.sizes));
        let mut place = &self.first;
        while place.set(Arc::clone(&desk)).is_err() {
            if let Some(taken) = place.get() {
                place = &taken.next;
            }
        }
        desk
    }
}

impl<J> Drop for Desks<J> {
    /// One after the other: the list may be long.
    fn drop(&mut self) {
        let mut next = self.first.take();
        while let Some(desk) = next {
            next = Arc::into_inner(desk).and_then(|mut desk| desk.next.take());
        }
    }
}
