//! What is collected.

use crate::order::Place;
use crate::queue::Handler;
use crate::requester::Requester;
use blockmill_pool::Panic;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

/// The number of a job: those of a requester count from 0 in the order of submission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// A job that was not taken: all slots of the requester hold jobs that are not collected.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Full<J>(pub J);

impl<J> fmt::Debug for Full<J> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Full(..)")
    }
}

impl<J> fmt::Display for Full<J> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("all slots hold jobs that are not collected")
    }
}

impl<J> std::error::Error for Full<J> {}

/// A job whose handler panicked. The job itself has been dropped.
#[derive(Debug)]
pub struct Panicked {
    /// Which job.
    pub ticket: Ticket,
    /// What the handler panicked with.
    pub panic: Panic,
}

impl fmt::Display for Panicked {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "job {}: {}", self.ticket.0, self.panic)
    }
}

impl std::error::Error for Panicked {}

/// A job that has been handled, in its slot. When this is dropped, so is the job, and the slot is free again.
#[must_use = "the result is dropped with it"]
///
/// It is shared between threads only if the job may be; [`Handler::Job`] is sent between threads, which is less:
///
/// ```compile_fail
/// # use blockmill_workqueue::{Handler, Options, WorkQueue};
/// # use std::cell::Cell;
/// struct Keep;
/// impl Handler for Keep {
///     type Job = Cell<u64>;
///     fn handle(&self, _: &mut Cell<u64>) {}
/// }
/// let queue = WorkQueue::alone(Keep, &Options::default()).unwrap();
/// let mut requester = queue.requester();
/// requester.submit(Cell::new(0)).unwrap();
/// let done = requester.collect_next().unwrap().unwrap();
/// let done = &done;
/// std::thread::scope(|scope| {
///     scope.spawn(|| done.set(1));
/// });
/// ```
pub struct Done<'a, H: Handler> {
    requester: &'a mut Requester<H>,
    place: Place,
    taken: bool,
    /// It is a reference to the job: what the job may not do between threads, it may not.
    job: PhantomData<&'a mut H::Job>,
}

impl<'a, H: Handler> Done<'a, H> {
    /// The place must be that of a job that was handled, and is not collected.
    #[inline]
    pub(crate) fn new(requester: &'a mut Requester<H>, place: Place) -> Self {
        Self {
            requester,
            place,
            taken: false,
            job: PhantomData,
        }
    }

    /// Which job this is.
    pub fn ticket(&self) -> Ticket {
        self.requester.ticket(self.place)
    }

    /// Moves the job out of its slot.
    #[inline]
    pub fn take(mut self) -> H::Job {
        self.taken = true;
        self.requester.remove(self.place)
    }
}

impl<H: Handler> Deref for Done<'_, H> {
    type Target = H::Job;

    #[inline]
    fn deref(&self) -> &H::Job {
        self.requester.job(self.place)
    }
}

impl<H: Handler> DerefMut for Done<'_, H> {
    #[inline]
    fn deref_mut(&mut self) -> &mut H::Job {
        self.requester.job_mut(self.place)
    }
}

impl<H: Handler> Drop for Done<'_, H> {
    /// If this does not happen, the job is collected once more.
    #[inline]
    fn drop(&mut self) {
        if !self.taken {
            drop(self.requester.remove(self.place));
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
