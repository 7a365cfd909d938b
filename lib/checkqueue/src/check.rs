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

/// A closure is a check that shares nothing with others, but for what it has captured.
///
/// ```
/// use blockmill_checkqueue::CheckQueue;
///
/// let queue = CheckQueue::with_own_threads(2)?;
/// let mut round = queue.begin(100, ()).unwrap();
/// round.add((0..100).map(|number| move || if number < 70 { Ok(()) } else { Err(number) }));
/// assert_eq!(round.complete().unwrap_err().index, 70);
/// # Ok::<(), std::io::Error>(())
/// ```
impl<F, E> Check for F
where
    F: FnMut() -> Result<(), E> + Send + 'static,
    E: Send + 'static,
{
    type Shared = ();
    type Error = E;

    #[inline]
    fn run(&mut self, (): &()) -> Result<(), E> {
        self()
    }
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
