//! Checks and their failures.

use blockmill_pool::Panic;
use thiserror::Error;

/// A check, which any thread may run.
pub trait Check: Send + 'static {
    /// The data that all checks of a round read. It lives until the last of these checks is
    /// destroyed.
    type Shared: Send + Sync + 'static;

    /// The reason why a check fails.
    type Error: Send + 'static;

    /// Runs the check. A check of a round runs at most once. A panic counts as a failure of the
    /// check.
    ///
    /// # Errors
    /// The reason why the check fails.
    fn run(&mut self, shared: &Self::Shared) -> Result<(), Self::Error>;
}

/// The way in which a check failed.
#[derive(Debug)]
pub enum Fault<E> {
    /// The check returned an error.
    Failed(E),
    /// The check panicked, or its drop did.
    Panicked(Panic),
}

/// The failed check with the lowest index.
#[derive(Debug, Error)]
#[error("check {index} failed")]
pub struct Failure<E> {
    /// The number of the check in the order of addition, from 0.
    pub index: usize,
    /// The way in which the check failed.
    pub fault: Fault<E>,
}
