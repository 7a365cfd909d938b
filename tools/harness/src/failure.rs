//! What ends a benchmark, and the check of a result.

use std::error::Error;
use std::fmt::{self, Debug, Display};
use std::io;
use std::path::PathBuf;

/// What ends a benchmark.
pub type Failure = Box<dyn Error + Send + Sync>;

/// What is wrong with the result of a report that is whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wrong {
    /// Contenders that should have the same result have different ones.
    Differs(String),
    /// A contender has no result.
    Failed(String),
}

impl Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Differs(words) | Self::Failed(words)) = self;
        f.write_str(words)
    }
}

impl Error for Wrong {}

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
