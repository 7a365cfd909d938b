//! Arguments that several functions have.

use crate::reports::usage;
use blockmill_tables::batch::Ids;
use pyo3::prelude::*;
use std::thread::available_parallelism;

/// The number of threads: all cores, if none is given.
pub(crate) fn threads(threads: Option<usize>) -> PyResult<usize> {
    match threads {
        Some(0) => Err(usage("threads: at least 1 is needed")),
        Some(threads) => Ok(threads),
        None => Ok(available_parallelism().map_or(1, usize::from)),
    }
}

/// The form of ids.
pub(crate) fn ids(binary: bool) -> Ids {
    if binary { Ids::Binary } else { Ids::Hex }
}
