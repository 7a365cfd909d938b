//! A table that is written from its first row to its last.

use crate::failure::Failure;
use crate::log;
use crate::output;
use serde_json::Value;
use std::io::Write;
use std::path::{Path, PathBuf};

/// What waits for its turn.
pub(crate) trait Memory {
    /// That it takes, in bytes, about.
    fn memory(&self) -> usize;
}

impl Memory for Vec<u8> {
    fn memory(&self) -> usize {
        self.len()
    }
}

/// A table that is there.
pub(crate) struct Written {
    /// The word for a row.
    pub(crate) row: &'static str,
    pub(crate) rows: u64,
    pub(crate) out: PathBuf,
    /// Length of the file, where there is one, or of all files.
    pub(crate) bytes: Option<u64>,
    /// The rows of a table that goes on that were not there before.
    pub(crate) added: Option<u64>,
    /// The files of a table in a folder.
    pub(crate) files: Option<WrittenFiles>,
}

impl Written {
    /// A table that is whole in one file, or was written to standard output.
    pub(crate) fn whole(row: &'static str, rows: u64, out: PathBuf, bytes: Option<u64>) -> Self {
        Self {
            row,
            rows,
            out,
            bytes,
            added: None,
            files: None,
        }
    }
}

/// The files of a table in a folder.
pub(crate) struct WrittenFiles {
    pub(crate) all: u64,
    /// Those that were not there before.
    pub(crate) made: u64,
}

/// Says what was written: on standard output, unless the table went there.
pub(crate) fn say_written(what: &str, fields: Value, bytes: Option<u64>, out: &Path) -> Result<(), Failure> {
    match bytes {
        Some(bytes) => {
            let mut stdout = output::stdout();
            writeln!(stdout, "{what}, {} to {}", output::bytes(bytes), out.display())?;
        }
        None => log::info("exported", what, fields),
    }
    Ok(())
}
