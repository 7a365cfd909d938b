//! Checks, and how they fail.

use blockmill_pool::Panic;
use thiserror::Error;

/// Something to be checked on any thread.
pub trait Check: Send + 'static {
    /// What all checks of a round read. It lives until the last of them is destroyed.
    type Shared: Send + Sync + 'static;

    /// Why a check fails.
    type Error: Send + 'static;

    /// Checks.
    ///
    /// # Errors
    /// Why the check fails.
    fn run(&mut self, shared: &Self::Shared) -> Result<(), Self::Error>;
}

/// How a check failed.
#[derive(Debug)]
pub enum Fault<E> {
    /// It said so.
    Failed(E),
    /// It panicked.
    Panicked(Panic),
}

/// The failed check of the lowest index.
#[derive(Debug, Error)]
#[error("check {index} failed")]
pub struct Failure<E> {
    /// Its place in the order in which checks were added, from 0.
    pub index: usize,
    /// How it failed.
    pub fault: Fault<E>,
}
