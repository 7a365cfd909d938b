//! The process that has opened something. Its threads are not there in a process that was forked
//! from it.

use crate::reports::usage;
use pyo3::prelude::*;

/// A process.
pub(crate) struct Process(u32);

impl Process {
    /// The process that calls this.
    pub(crate) fn this() -> Self {
        Self(std::process::id())
    }

    /// Refuses what was forked from it.
    pub(crate) fn check(&self) -> PyResult<()> {
        match self.0 == std::process::id() {
            true => Ok(()),
            false => Err(usage(
                "this was opened in another process, of which this one is a fork: open it anew, or have \
                 multiprocessing start its processes by spawn or forkserver",
            )),
        }
    }
}
