//! The queue, and its place in a pool.

use crate::desk::{Desk, Desks};
use crate::options::{Help, Options, Sizes};
use crate::requester::Requester;
use blockmill_pool::{Panic, ThreadPool, ThreadPoolOptions, WorkSource, WorkSourceHandle};
use blockmill_sync::CachePadded;
use blockmill_sync::atomic::{AtomicU32, Ordering};
use std::fmt;
use std::io;
use std::sync::Arc;

/// What is done to the jobs of a queue. All threads share it.
pub trait Handler: Send + Sync {
    /// A job: what is asked for, and what becomes of it.
    type Job: Send;

    /// Handles a job in its place. When this panics the job is given up, and collecting it gives an error.
    fn handle(&self, job: &mut Self::Job);
}

/// A queue of jobs for the workers of a pool. The requesters made from it keep it in being.
pub struct WorkQueue<H: Handler> {
    office: Arc<Office<H>>,
}

/// What the queue and its requesters hold.
pub(crate) struct Office<H: Handler> {
    pub(crate) counter: Arc<Counter<H>>,
    pub(crate) help: Help,
    // The work source leaves its pool before a private pool ends.
    pub(crate) handle: WorkSourceHandle,
    private_crew: Option<ThreadPool>,
}

/// The work source: what workers see.
pub(crate) struct Counter<H: Handler> {
    pub(crate) handler: H,
    pub(crate) desks: Desks<H::Job>,
    /// Where each worker goes next; each is written by its worker alone.
    turns: Box<[CachePadded<Turn>]>,
}

#[derive(Debug, Default)]
struct Turn {
    desk: AtomicU32,
    lane: AtomicU32,
}

impl<H: Handler + 'static> WorkQueue<H> {
    /// A queue served by a pool, before the work sources of a higher number. Its sizes follow from the machine and the job.
    pub fn new(pool: &ThreadPool, priority: u32, handler: H) -> Self {
        Self::with_options(pool, priority, handler, &Options::default())
    }

    /// A queue served by a pool, whose workers count, not those of the options.
    pub fn with_options(pool: &ThreadPool, priority: u32, handler: H, options: &Options) -> Self {
        Self {
            office: Arc::new(Office::at(pool, priority, handler, options)),
        }
    }

    /// A queue with a pool of its own.
    ///
    /// # Errors
    /// That of the system when a thread cannot be started.
    pub fn alone(handler: H, options: &Options) -> io::Result<Self> {
        let defaults = ThreadPoolOptions::default();
        let pool = ThreadPool::new(&ThreadPoolOptions {
            workers: options.workers.unwrap_or(defaults.workers),
            name: "workqueue".to_owned(),
            ..defaults
        })?;
        let mut office = Office::at(&pool, 0, handler, options);
        office.private_crew = Some(pool);
        Ok(Self {
            office: Arc::new(office),
        })
    }

    /// Somebody who submits jobs. It has slots of its own, which are found again when it is dropped.
    pub fn requester(&self) -> Requester<H> {
        Requester::new(Arc::clone(&self.office))
    }
}

impl<H: Handler> WorkQueue<H> {
    /// The handler.
    pub fn handler(&self) -> &H {
        &self.office.counter.handler
    }

    /// Workers that serve the queue.
    pub fn workers(&self) -> usize {
        self.office.handle.workers()
    }
}

impl<H: Handler> fmt::Debug for WorkQueue<H> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("WorkQueue")
            .field("workers", &self.workers())
            .field("desks", &self.office.counter.desks.iter().count())
            .finish_non_exhaustive()
    }
}

impl<H: Handler + 'static> Office<H> {
    fn at(pool: &ThreadPool, priority: u32, handler: H, options: &Options) -> Self {
        let workers = pool.workers();
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let counter = Arc::new(Counter {
            handler,
            desks: Desks::new(Sizes::new(options, workers, cores, size_of::<H::Job>())),
            turns: (0..workers).map(|_| CachePadded::default()).collect(),
        });
        let help = if workers == 0 && options.help == Help::Never {
            Help::WhileWaiting
        } else {
            options.help
        };
        Self {
            handle: pool.register(priority, Arc::<Counter<H>>::clone(&counter)),
            counter,
            help,
            private_crew: None,
        }
    }
}

impl<H: Handler> WorkSource for Counter<H> {
    #[inline]
    fn pending(&self) -> usize {
        self.desks.iter().map(|desk| desk.lanes_to_serve()).sum()
    }

    /// Some jobs of one lane. Lanes and desks have their turns, so none is forgotten for another.
    #[inline]
    fn serve(&self, worker: usize) {
        let turn = &self.turns[worker];
        let first_desk = turn.desk.load(Ordering::Relaxed) as usize;
        let first_lane = turn.lane.load(Ordering::Relaxed) as usize;
        let mut desks = 0;
        for (number, desk) in self.desks.iter().enumerate() {
            desks = number + 1;
            if number >= first_desk && self.serve_at(desk, number, first_lane, turn) {
                return;
            }
        }
        for (number, desk) in self.desks.iter().enumerate().take(first_desk.min(desks)) {
            if self.serve_at(desk, number, first_lane, turn) {
                return;
            }
        }
    }

    /// Handlers' panics stay with their jobs.
    fn panicked(&self, panic: Panic) {
        panic.resume();
    }
}

impl<H: Handler> Counter<H> {
    #[inline]
    fn serve_at(&self, desk: &Desk<H::Job>, number: usize, first_lane: usize, turn: &Turn) -> bool {
        let lanes = desk.lanes.len();
        let Some(lane) = desk.serve(&self.handler, first_lane % lanes) else {
            return false;
        };
        turn.desk.store(number as u32 + 1, Ordering::Relaxed);
        turn.lane.store((lane as u32 + 1) % lanes as u32, Ordering::Relaxed);
        true
    }
}
