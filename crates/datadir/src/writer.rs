//! Who writes to a data directory, in words.

use std::fmt;

/// The process that writes to a data directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Writer {
    /// Its number, and its program with the subcommand; none if it has not noted them.
    pub noted: Option<(u32, String)>,
}

impl fmt::Display for Writer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.noted {
            Some((process, command)) => write!(formatter, "process {process} ({command})"),
            None => formatter.write_str("another process"),
        }
    }
}
