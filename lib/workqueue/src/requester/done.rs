//! A job that was handled and not collected.

use super::Requester;
use crate::handler::Handler;
use crate::order::SlotIndex;
use crate::results::Ticket;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

/// A handled job, in its slot. Dropping this drops the job and frees the slot.
///
/// Threads may share a `Done` only if they may share the job. [`Handler::Job`] is sent between
/// threads, which asks for less:
///
/// ```compile_fail
/// # use blockmill_workqueue::{Handler, Options, WorkQueue};
/// # use std::cell::Cell;
/// struct Keep;
/// impl Handler for Keep {
///     type Job = Cell<u64>;
///     fn handle(&self, _: &mut Cell<u64>) {}
/// }
/// let queue = WorkQueue::with_own_threads(Keep, &Options::default()).unwrap();
/// let mut requester = queue.requester();
/// requester.submit(Cell::new(0)).unwrap();
/// let done = requester.collect_next().unwrap().unwrap();
/// let done = &done;
/// std::thread::scope(|scope| {
///     scope.spawn(|| done.set(1));
/// });
/// ```
#[must_use = "the result is dropped with it"]
pub struct Done<'a, H: Handler> {
    requester: &'a mut Requester<H>,
    index: SlotIndex,
    taken: bool,
    /// A `Done` acts as a reference to the job, so threads may share it only if they may share the
    /// job.
    job: PhantomData<&'a mut H::Job>,
}

impl<'a, H: Handler> Done<'a, H> {
    /// A `Done` for a job that was handled and not collected.
    #[inline]
    pub(crate) fn new(requester: &'a mut Requester<H>, index: SlotIndex) -> Self {
        Self {
            requester,
            index,
            taken: false,
            job: PhantomData,
        }
    }

    /// The number of the job.
    pub fn ticket(&self) -> Ticket {
        self.requester.ticket(self.index)
    }

    /// Moves the job out of its slot.
    #[inline]
    pub fn take(mut self) -> H::Job {
        // So that the drop does not remove it again.
        self.taken = true;
        self.requester.remove(self.index)
    }
}

impl<H: Handler> Deref for Done<'_, H> {
    type Target = H::Job;

    #[inline]
    fn deref(&self) -> &H::Job {
        self.requester.job(self.index)
    }
}

impl<H: Handler> DerefMut for Done<'_, H> {
    #[inline]
    fn deref_mut(&mut self) -> &mut H::Job {
        self.requester.job_mut(self.index)
    }
}

impl<H: Handler> Drop for Done<'_, H> {
    /// If this never runs, the same job is collected again.
    #[inline]
    fn drop(&mut self) {
        if !self.taken {
            drop(self.requester.remove(self.index));
        }
    }
}

impl<H: Handler> fmt::Debug for Done<'_, H> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Done")
            .field("ticket", &self.ticket())
            .finish_non_exhaustive()
    }
}
