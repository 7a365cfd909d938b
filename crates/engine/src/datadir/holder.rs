//! Who has a data directory, in words.

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

/// Who keeps a data directory from being opened.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Holder {
    /// A writer keeps out another writer.
    Writer(Writer),
    /// A writer of redb keeps out readers.
    WriterOfRedb(Writer),
    /// Readers of redb keep out a writer.
    Readers,
}

impl fmt::Display for Holder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Writer(writer) => write!(formatter, "in use by {writer}"),
            Self::WriterOfRedb(writer) => {
                write!(
                    formatter,
                    "in use by {writer}, and redb is not read while it is written"
                )
            }
            Self::Readers => formatter.write_str("another process reads it, and redb is not written while it is read"),
        }
    }
}
