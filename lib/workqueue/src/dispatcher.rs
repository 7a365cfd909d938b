//! What a queue and its requesters share, and the queue as a work source of a pool.

use crate::handler::Handler;
use crate::options::{Help, Options, Sizes};
use crate::requester_queue::{RequesterQueue, RequesterQueues};
use blockmill_pool::{Panic, ThreadPool, WorkSource, WorkSourceHandle};
use blockmill_sync::CachePadded;
use blockmill_sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;

/// What the queue and its requesters share.
pub(crate) struct Shared<H: Handler> {
    pub(crate) dispatcher: Arc<Dispatcher<H>>,
    pub(crate) help: Help,
    // Dropped before `own_pool`: the work source leaves its pool before that pool ends.
    pub(crate) handle: WorkSourceHandle,
    pub(crate) own_pool: Option<ThreadPool>,
}

/// The work source: what workers see.
pub(crate) struct Dispatcher<H: Handler> {
    pub(crate) handler: H,
    pub(crate) queues: RequesterQueues<H::Job>,
    /// Where each worker continues. Each cursor is written by its worker alone.
    cursors: Box<[CachePadded<Cursor>]>,
}

#[derive(Debug, Default)]
struct Cursor {
    queue: AtomicU32,
    ring: AtomicU32,
}

impl<H: Handler + 'static> Shared<H> {
    pub(crate) fn new(pool: &ThreadPool, priority: u32, handler: H, options: &Options) -> Self {
        let workers = pool.workers();
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let dispatcher = Arc::new(Dispatcher {
            handler,
            queues: RequesterQueues::new(Sizes::new(options, workers, cores, size_of::<H::Job>())),
            cursors: (0..workers).map(|_| CachePadded::default()).collect(),
        });
        // Otherwise nobody would ever handle a job.
        let help = if workers == 0 && options.help == Help::Never {
            Help::WhileWaiting
        } else {
            options.help
        };
        Self {
            handle: pool.register(priority, Arc::<Dispatcher<H>>::clone(&dispatcher)),
            dispatcher,
            help,
            own_pool: None,
        }
    }
}

impl<H: Handler> WorkSource for Dispatcher<H> {
    #[inline]
    fn pending(&self) -> usize {
        self.queues.iter().map(|queue| queue.rings_to_serve()).sum()
    }

    /// Does some jobs of one ring. Cursors move over rings and requester queues in turn, so that
    /// none starves.
    #[inline]
    fn serve(&self, worker: usize) {
        let cursor = &self.cursors[worker];
        let first_queue = cursor.queue.load(Ordering::Relaxed) as usize;
        let first_ring = cursor.ring.load(Ordering::Relaxed) as usize;
        // The list may grow meanwhile. So its length is what this walk has seen.
        let mut queues = 0;
        for (number, queue) in self.queues.iter().enumerate() {
            queues = number + 1;
            if number >= first_queue && self.serve_queue(queue, number, first_ring, cursor) {
                return;
            }
        }
        for (number, queue) in self.queues.iter().enumerate().take(first_queue.min(queues)) {
            if self.serve_queue(queue, number, first_ring, cursor) {
                return;
            }
        }
    }

    /// Never called for a panic of a handler, which stays with its job.
    fn panicked(&self, panic: Panic) {
        panic.resume();
    }
}

impl<H: Handler> Dispatcher<H> {
    #[inline]
    fn serve_queue(&self, queue: &RequesterQueue<H::Job>, number: usize, first_ring: usize, cursor: &Cursor) -> bool {
        let rings = queue.rings.len();
        let Some(ring) = queue.serve(&self.handler, first_ring % rings) else {
            return false;
        };
        // The next unit begins with the next requester, and with the next ring: neither keeps a
        // worker for itself.
        cursor.queue.store(number as u32 + 1, Ordering::Relaxed);
        cursor.ring.store((ring as u32 + 1) % rings as u32, Ordering::Relaxed);
        true
    }
}
