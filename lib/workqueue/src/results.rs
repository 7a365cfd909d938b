//! What submission and collection return, but for [`Done`](crate::Done).

use blockmill_pool::Panic;
use std::fmt;

/// The number of a job. The jobs of a requester count from 0 in the order of submission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// A job that was not submitted: all slots of the requester hold jobs that await collection.
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
    /// The number of the job.
    pub ticket: Ticket,
    /// The panic of the handler.
    pub panic: Panic,
}

impl fmt::Display for Panicked {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "job {}: {}", self.ticket.0, self.panic)
    }
}

impl std::error::Error for Panicked {}
