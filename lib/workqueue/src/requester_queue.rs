//! A requester queue: what one requester shares with the servers of its rings.
//!
//! # State
//!
//! | field | meaning | written by |
//! |---|---|---|
//! | `rings` | jobs, see [`SlotRing`] | |
//! | `open` | whether this requester has handed jobs over | the requester |
//! | `notifier` | see [`Notifier`] | |
//! | `panics` | panics of jobs that are not collected | servers and the requester, locked; seldom |
//! | `occupied` | whether a requester uses this queue | the requester that comes or goes |
//!
//! A worker finds all requester queues of a work queue in a list that only grows, so the worker
//! takes no lock. The next requester reuses a queue that was released.
//!
//! # Units of work
//!
//! A unit of work is some jobs of one ring: those that begin within [`UNIT`], at least one. After a
//! unit the worker looks for more urgent work, and wakes the requester if it sleeps. If the
//! requester sleeps for one job, the worker tries to wake it right after that job.
//!
//! A requester that helps looks for rings without a server before it sleeps. So a server that
//! leaves work in a ring wakes the requester, whatever its target: workers may have other things to
//! do.

use crate::handler::Handler;
use crate::notifier::{ANY, CLAIM, Notifier, is_among, slot_target};
use crate::options::Sizes;
use crate::slot_ring::SlotRing;
use blockmill_pool::{Panic, contain};
use blockmill_sync::atomic::{AtomicBool, Ordering};
use blockmill_sync::{CachePadded, Mutex};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// After this time a server begins no more jobs of its unit.
const UNIT: Duration = Duration::from_micros(10);

/// What one requester shares with the servers of its rings.
#[derive(Debug)]
pub(crate) struct RequesterQueue<J> {
    pub(crate) rings: Box<[SlotRing<J>]>,
    requester_helps: bool,
    /// Whether servers may find jobs here.
    open: CachePadded<AtomicBool>,
    pub(crate) notifier: Notifier,
    panics: Mutex<Vec<(u64, Panic)>>,
    /// Whether a requester uses this queue.
    occupied: AtomicBool,
    next: OnceLock<Arc<Self>>,
}

impl<J> RequesterQueue<J> {
    fn new(sizes: Sizes) -> Self {
        Self {
            requester_helps: sizes.requester_helps,
            rings: (0..sizes.rings).map(|_| SlotRing::new(sizes.slots_per_ring)).collect(),
            open: CachePadded::new(AtomicBool::new(false)),
            notifier: Notifier::new(),
            panics: Mutex::new(Vec::new()),
            occupied: AtomicBool::new(true),
            next: OnceLock::new(),
        }
    }

    // What the requester does.

    /// Sets whether servers may find jobs here.
    #[inline]
    pub(crate) fn set_open(&self, open: bool) {
        self.open.store(open, Ordering::Relaxed);
    }

    /// Takes the panic of a slot's job.
    #[cold]
    pub(crate) fn take_panic(&self, ring: usize, slot: u32) -> Option<Panic> {
        let mut panics = self.panics.lock();
        let position = panics
            .iter()
            .position(|(target, _)| *target == slot_target(ring, slot))?;
        self.rings[ring].clear_panic(slot);
        Some(panics.swap_remove(position).1)
    }

    /// Keeps the panic of a slot's job until the job is collected.
    #[cold]
    pub(crate) fn put_panic(&self, ring: usize, slot: u32, panic: Panic) {
        self.panics.lock().push((slot_target(ring, slot), panic));
    }

    /// Gives the queue up. All rings must be empty and without a server.
    pub(crate) fn release(&self) {
        self.panics.lock().clear();
        self.set_open(false);
        // Release: pairs with the Acquire in `RequesterQueues::acquire`.
        self.occupied.store(false, Ordering::Release);
    }

    // What servers do.

    /// Number of rings with work and without a server; a hint.
    #[inline]
    pub(crate) fn rings_to_serve(&self) -> usize {
        if !self.open.load(Ordering::Relaxed) {
            return 0;
        }
        self.rings.iter().filter(|ring| ring.can_be_served()).count()
    }

    /// Does a unit of work: some jobs of one ring. The search begins at ring `start`, goes round,
    /// and skips rings that have a server. Returns the ring, if one had work.
    #[inline]
    pub(crate) fn serve<H: Handler<Job = J>>(&self, handler: &H, start: usize) -> Option<usize> {
        if !self.open.load(Ordering::Relaxed) {
            return None;
        }
        let (from_start, rest) = (start..self.rings.len(), 0..start);
        from_start.chain(rest).find(|&ring| self.serve_ring(handler, ring))
    }

    /// Handles some jobs of a ring. Returns whether there were any.
    #[inline]
    fn serve_ring<H: Handler<Job = J>>(&self, handler: &H, number: usize) -> bool {
        let ring = &self.rings[number];
        if !ring.can_be_served() {
            return false;
        }
        let Some(mut claim) = ring.try_claim() else {
            return false;
        };
        // Read once a unit and once after each job: about 25 ns each.
        let start = Instant::now();
        let handled = claim.serve(
            || start.elapsed() < UNIT,
            |job| contain(|| handler.handle(job)),
            |slot| self.notifier.try_notify(slot_target(number, slot)),
            |slot, panic| self.put_panic(number, slot, panic),
        );
        drop(claim);
        self.notifier.notify(|target| match target {
            ANY => handled != 0,
            CLAIM => true,
            _ => is_among(target, number, handled),
        } || (self.requester_helps && ring.has_work()));
        handled != 0
    }
}

/// The requester queues of a work queue: a list that only grows, so threads walk it without a lock.
/// Released queues are reused.
#[derive(Debug)]
pub(crate) struct RequesterQueues<J> {
    first: OnceLock<Arc<RequesterQueue<J>>>,
    sizes: Sizes,
}

impl<J> RequesterQueues<J> {
    pub(crate) fn new(sizes: Sizes) -> Self {
        Self {
            first: OnceLock::new(),
            sizes,
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<RequesterQueue<J>>> {
        std::iter::successors(self.first.get(), |queue| queue.next.get())
    }

    /// A requester queue for one requester, until `release`.
    pub(crate) fn acquire(&self) -> Arc<RequesterQueue<J>> {
        // Acquire: pairs with the Release in `RequesterQueue::release`.
        if let Some(queue) = self.iter().find(|queue| !queue.occupied.swap(true, Ordering::Acquire)) {
            return Arc::clone(queue);
        }
        let queue = Arc::new(RequesterQueue::new(self.sizes));
        let mut link = &self.first;
        // Another requester came first. The queue goes to the end of the list.
        while link.set(Arc::clone(&queue)).is_err() {
            if let Some(found) = link.get() {
                link = &found.next;
            }
        }
        queue
    }
}

impl<J> Drop for RequesterQueues<J> {
    /// Drops the nodes in a loop, not by recursion: the list may be long.
    fn drop(&mut self) {
        let mut next = self.first.take();
        while let Some(queue) = next {
            next = Arc::into_inner(queue).and_then(|mut queue| queue.next.take());
        }
    }
}
