//! The queue, and the queue as a work source of a pool.

use crate::options::{Help, Options, Sizes};
use crate::requester::Requester;
use crate::requester_queue::{RequesterQueue, RequesterQueues};
use blockmill_pool::{Panic, ThreadPool, ThreadPoolOptions, WorkSource, WorkSourceHandle};
use blockmill_sync::CachePadded;
use blockmill_sync::atomic::{AtomicU32, Ordering};
use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::sync::Arc;

/// The work to do on the jobs of a queue. All threads share one handler.
pub trait Handler: Send + Sync {
    /// A job: the request at first, the result after [`handle`](Handler::handle).
    type Job: Send;

    /// Handles a job in its slot, on any thread. A panic gives the job up: the job is dropped, and
    /// collecting it returns [`Panicked`](crate::Panicked).
    fn handle(&self, job: &mut Self::Job);
}

/// A handler from a closure.
///
/// ```
/// use blockmill_workqueue::{Options, WorkQueue, handler};
///
/// let squares = handler(|number: &mut u64| *number *= *number);
/// let queue = WorkQueue::with_own_threads(squares, &Options::default())?;
/// let mut sum = 0;
/// queue.requester().process(1..=3, |square| sum += square.unwrap());
/// assert_eq!(sum, 14);
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn handler<J: Send, F: Fn(&mut J) + Send + Sync>(handle: F) -> FnHandler<J, F> {
    FnHandler {
        handle,
        job: PhantomData,
    }
}

/// The handler that [`handler`] returns.
pub struct FnHandler<J, F> {
    handle: F,
    // A function of jobs, not an owner: it is Sync whatever the job is.
    job: PhantomData<fn(J)>,
}

impl<J: Send, F: Fn(&mut J) + Send + Sync> Handler for FnHandler<J, F> {
    type Job = J;

    #[inline]
    fn handle(&self, job: &mut J) {
        (self.handle)(job);
    }
}

/// A queue of jobs for the workers of a pool. A requester keeps its queue alive.
pub struct WorkQueue<H: Handler> {
    shared: Arc<Shared<H>>,
}

/// What the queue and its requesters share.
pub(crate) struct Shared<H: Handler> {
    pub(crate) dispatcher: Arc<Dispatcher<H>>,
    pub(crate) help: Help,
    // Dropped before `own_pool`: the work source leaves its pool before that pool ends.
    pub(crate) handle: WorkSourceHandle,
    own_pool: Option<ThreadPool>,
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

impl<H: Handler + 'static> WorkQueue<H> {
    /// A queue that the workers of `pool` serve. They serve sources with a lower `priority` first.
    /// All sizes follow from the machine and the job.
    pub fn new(pool: &ThreadPool, priority: u32, handler: H) -> Self {
        Self::with_options(pool, priority, handler, &Options::default())
    }

    /// Like [`new`](Self::new), with options. The number of workers is that of the pool;
    /// [`Options::workers`] is ignored.
    pub fn with_options(pool: &ThreadPool, priority: u32, handler: H, options: &Options) -> Self {
        Self {
            shared: Arc::new(Shared::new(pool, priority, handler, options)),
        }
    }

    /// A queue with worker threads of its own.
    ///
    /// # Errors
    /// The error of the operating system if a thread cannot be started.
    pub fn with_own_threads(handler: H, options: &Options) -> io::Result<Self> {
        let defaults = ThreadPoolOptions::default();
        let pool = ThreadPool::new(&ThreadPoolOptions {
            workers: options.workers.unwrap_or(defaults.workers),
            name: "workqueue".to_owned(),
            ..defaults
        })?;
        let mut shared = Shared::new(&pool, 0, handler, options);
        shared.own_pool = Some(pool);
        Ok(Self {
            shared: Arc::new(shared),
        })
    }

    /// A new requester, which submits jobs. The requester has slots of its own. A later requester
    /// reuses the slots of one that was dropped.
    pub fn requester(&self) -> Requester<H> {
        Requester::new(Arc::clone(&self.shared))
    }
}

impl<H: Handler> WorkQueue<H> {
    /// The handler.
    pub fn handler(&self) -> &H {
        &self.shared.dispatcher.handler
    }

    /// Number of workers that serve the queue.
    pub fn workers(&self) -> usize {
        self.shared.handle.workers()
    }
}

impl<H: Handler> fmt::Debug for WorkQueue<H> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("WorkQueue")
            .field("workers", &self.workers())
            .field("requester_queues", &self.shared.dispatcher.queues.iter().count())
            .finish_non_exhaustive()
    }
}

impl<H: Handler + 'static> Shared<H> {
    fn new(pool: &ThreadPool, priority: u32, handler: H, options: &Options) -> Self {
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
