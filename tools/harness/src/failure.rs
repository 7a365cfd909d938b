//! What ends a benchmark, and the check of a result.

use std::error::Error;
use std::fmt::Debug;
use std::io;
use std::path::PathBuf;

/// What ends a benchmark.
pub type Failure = Box<dyn Error + Send + Sync>;

/// Adds the path of a file to an error of the operating system.
pub fn at(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Failure {
    let path = path.into();
    move |error| format!("{}: {error}", path.display()).into()
}

/// Checks a part of a run's result.
///
/// # Errors
/// If what was found is not what was wanted; the error names both.
pub fn same<T: PartialEq<U> + Debug, U: Debug>(run: &str, what: &str, found: T, wanted: U) -> Result<(), Failure> {
    if found == wanted {
        return Ok(());
    }
    Err(format!("{run}: {what} is {found:?}, expected {wanted:?}").into())
}
