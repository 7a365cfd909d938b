//! The queue.

use crate::dispatcher::Shared;
use crate::handler::Handler;
use crate::options::Options;
use crate::requester::Requester;
use blockmill_pool::{ThreadPool, ThreadPoolOptions};
use std::fmt;
use std::io;
use std::sync::Arc;

/// A queue of jobs for the workers of a pool. A requester keeps its queue alive.
pub struct WorkQueue<H: Handler> {
    shared: Arc<Shared<H>>,
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
