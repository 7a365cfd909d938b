//! A table that is written from its first row to its last.

use crate::export::target::Target;
use crate::failure::Failure;
use crate::log;
use crate::output;
use crate::progress::EngineMeter;
use serde_json::Value;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Turns rows into a piece of a table.
pub(crate) type Convert<'a, R, T> = &'a (dyn Fn(&mut dyn Iterator<Item = R>) -> Result<T, Failure> + Sync);

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

/// Where the rows of a table come from.
pub(crate) trait Rows {
    type Row;

    /// Converts all rows, many at a time, on several threads, and gives the pieces to `take`, in
    /// order. Returns the number of rows.
    fn run<T: Send + Memory>(
        &self,
        meter: &mut EngineMeter,
        convert: Convert<'_, Self::Row, T>,
        take: &mut dyn FnMut(T) -> Result<(), Failure>,
    ) -> Result<u64, Failure>;
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

/// The files of a table in a folder.
pub(crate) struct WrittenFiles {
    pub(crate) all: u64,
    /// Those that were not there before.
    pub(crate) made: u64,
}

/// Writes lines. Returns the number of rows, and the length of the file, where there is one.
pub(crate) fn write_lines<S: Rows>(
    rows: &S,
    mut target: Target,
    meter: &mut EngineMeter,
    convert: Convert<'_, S::Row, Vec<u8>>,
) -> Result<(u64, Option<u64>), Failure> {
    let rows = rows.run(meter, convert, &mut |lines| target.write_piece(&lines))?;
    Ok((rows, target.complete()?))
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
