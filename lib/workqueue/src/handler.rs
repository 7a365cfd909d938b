//! The handler of a queue's jobs.

use std::marker::PhantomData;

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
