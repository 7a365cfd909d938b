//! Where a table is written: a file that gets its name when it is complete, or standard output.

use crate::arguments::{Force, is_standard};
use crate::build_info;
use crate::failure::Failure;
use crate::output::{self, Stdout};
use blockmill_blockfiles::NewFile;
use std::io::{self, Write};
use std::path::Path;

/// What a table is written to from its beginning to its end.
pub(crate) enum Target {
    File(NewFile),
    Stdout(Stdout),
}

impl Target {
    /// Opens the target of this name.
    pub(crate) fn open(path: &Path, force: Force) -> Result<Self, Failure> {
        if is_standard(path) {
            return Ok(Self::Stdout(output::stdout()));
        }
        Ok(Self::File(force.begin(path)?))
    }

    /// Writes whole lines, or whole messages of a stream.
    pub(crate) fn write_piece(&mut self, piece: &[u8]) -> Result<(), Failure> {
        self.write_all(piece).map_err(failed(self.path()))
    }

    /// The path of the file; none of standard output.
    pub(crate) fn path(&self) -> Option<&Path> {
        match self {
            Self::File(new) => Some(new.path()),
            Self::Stdout(_) => None,
        }
    }

    /// The length of the file so far, where there is one.
    pub(crate) fn length(&self) -> Result<Option<u64>, Failure> {
        match self {
            Self::File(new) => Ok(Some(new.length()?)),
            Self::Stdout(_) => Ok(None),
        }
    }

    /// Ends it. Returns the length of the file, where there is one.
    pub(crate) fn complete(self) -> Result<Option<u64>, Failure> {
        match self {
            Self::File(new) => Ok(Some(new.complete()?)),
            Self::Stdout(mut stdout) => {
                stdout.flush()?;
                Ok(None)
            }
        }
    }
}

/// The failure of a write to the target of this path.
pub(crate) fn failed(path: Option<&Path>) -> impl FnOnce(io::Error) -> Failure {
    move |error| match path {
        Some(path) => Failure::file(path)(error),
        None => Failure::Stream(error),
    }
}

impl Write for Target {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::File(new) => new.write(bytes),
            Self::Stdout(stdout) => stdout.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::File(new) => new.flush(),
            Self::Stdout(stdout) => stdout.flush(),
        }
    }
}

/// The format of a table: the one that is given, else the one that the ending of its name stands
/// for.
pub(crate) fn format_of<F: Copy>(out: &Path, given: Option<F>, endings: &[(&str, F)]) -> Result<F, Failure> {
    if let Some(format) = given {
        return Ok(format);
    }
    let ending = out
        .extension()
        .map(|ending| ending.to_string_lossy().to_ascii_lowercase());
    let found = endings.iter().find(|(known, _)| ending.as_deref() == Some(known));
    found.map(|(_, format)| *format).ok_or_else(|| {
        let known: Vec<String> = endings.iter().map(|(known, _)| format!(".{known}")).collect();
        let left_out = build_info::left_out().map_or_else(String::new, |left_out| format!(": {left_out}"));
        Failure::Usage(format!(
            "{}: --format is needed, or a name that ends with one of {}{left_out}",
            out.display(),
            known.join(", ")
        ))
    })
}
