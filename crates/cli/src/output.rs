//! Results as tables and as JSON.

use crate::plain::{self, one_line};
use crate::terminal::{stdout_columns, wrapped};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;
use std::borrow::Cow;
use std::fmt::Display;
use std::io::{self, ErrorKind, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::sleep;
use std::time::Duration;

/// CPU time of this process so far, in seconds.
pub(crate) fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// An amount in satoshi as one in BTC.
pub(crate) fn bitcoins(satoshi: impl Into<i128>) -> String {
    let satoshi = satoshi.into();
    let sign = if satoshi < 0 { "-" } else { "" };
    // The least number has no counterpart above zero.
    let satoshi = satoshi.unsigned_abs();
    format!("{sign}{}.{:08}", satoshi / 100_000_000, satoshi % 100_000_000)
}

/// An amount in satoshi as a number of BTC. A double holds every amount up to the money supply
/// exactly, and prints all digits.
pub(crate) fn amount(satoshi: impl Into<i128>) -> f64 {
    satoshi.into() as f64 / 1e8
}

/// A number of bytes with its unit.
pub(crate) fn bytes(bytes: u64) -> String {
    match bytes {
        0..10_000 => format!("{bytes} bytes"),
        10_000..10_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        10_000_000..10_000_000_000 => format!("{:.1} MB", bytes as f64 / 1e6),
        _ => format!("{:.1} GB", bytes as f64 / 1e9),
    }
}

/// A path as text. JSON holds only UTF-8, so other bytes of a name are replaced.
pub(crate) fn path_text(path: &Path) -> Cow<'_, str> {
    path.to_string_lossy()
}

/// Standard output. A write notes that its reader has gone away, whatever becomes of the error.
pub(crate) struct Stdout(io::Stdout);

/// Whether the reader of standard output has gone away.
static READER_IS_GONE: AtomicBool = AtomicBool::new(false);

pub(crate) fn stdout() -> Stdout {
    Stdout(io::stdout())
}

pub(crate) fn is_reader_gone() -> bool {
    READER_IS_GONE.load(Ordering::Relaxed)
}

/// Looks whether the reader of standard output has gone away, while there is nothing to write.
pub(crate) fn look_for_reader() -> bool {
    let stdout = io::stdout();
    let mut polled = [PollFd::new(&stdout, PollFlags::empty())];
    // Nothing is waited for, so this fails only where nobody can tell.
    let _ = poll(&mut polled, Some(&Timespec::default()));
    let is_gone = polled[0].revents().intersects(PollFlags::ERR | PollFlags::NVAL);
    READER_IS_GONE.fetch_or(is_gone, Ordering::Relaxed);
    !is_gone
}

/// Threads that are in the midst of a write to standard output, and writes that are done.
static WRITING: AtomicUsize = AtomicUsize::new(0);
static WRITTEN: AtomicUsize = AtomicUsize::new(0);

/// Returns once a write to standard output has waited for its reader for so long.
pub(crate) fn wait_for_blocked_write(patience: Duration) {
    loop {
        let written = WRITTEN.load(Ordering::Relaxed);
        let is_writing = WRITING.load(Ordering::Relaxed) > 0;
        sleep(patience);
        let is_same = WRITTEN.load(Ordering::Relaxed) == written;
        if is_writing && is_same && WRITING.load(Ordering::Relaxed) > 0 {
            return;
        }
    }
}

fn counted_write<T>(write: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    WRITING.fetch_add(1, Ordering::Relaxed);
    let written = write();
    WRITTEN.fetch_add(1, Ordering::Relaxed);
    WRITING.fetch_sub(1, Ordering::Relaxed);
    noted(written)
}

fn noted<T>(written: io::Result<T>) -> io::Result<T> {
    if written
        .as_ref()
        .is_err_and(|error| error.kind() == ErrorKind::BrokenPipe)
    {
        READER_IS_GONE.store(true, Ordering::Relaxed);
    }
    written
}

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        counted_write(|| self.0.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        counted_write(|| self.0.flush())
    }
}

/// Writes a value as one line of JSON.
pub(crate) fn json_line(out: &mut dyn Write, value: &impl Serialize) -> io::Result<()> {
    write_json(out, &serde_json::to_string(value)?)
}

fn write_json(out: &mut dyn Write, text: &str) -> io::Result<()> {
    out.write_all(plain::json(text).as_bytes())?;
    out.write_all(b"\n")?;
    out.flush()
}

/// What a command has found out: rows of a table for a person, and fields of an object of JSON.
#[derive(Default)]
pub(crate) struct Facts {
    rows: Vec<(&'static str, String)>,
    /// Values are JSON already: a `Value` has no room for amounts of more than 64 bits.
    fields: Vec<(&'static str, String)>,
}

impl Facts {
    /// A row and a field with the same value.
    pub(crate) fn both(&mut self, name: &'static str, value: impl Serialize + Display) -> &mut Self {
        self.field(name, &value).row(name, value)
    }

    /// The same where there is a value.
    pub(crate) fn both_if(&mut self, name: &'static str, value: Option<impl Serialize + Display>) -> &mut Self {
        match value {
            Some(value) => self.both(name, value),
            None => self,
        }
    }

    /// A row and a field with a value that is another text for a person.
    pub(crate) fn both_as(&mut self, name: &'static str, value: impl Serialize, text: impl Display) -> &mut Self {
        self.field(name, value).row(name, text)
    }

    pub(crate) fn row(&mut self, name: &'static str, text: impl Display) -> &mut Self {
        self.rows.push((name, text.to_string()));
        self
    }

    pub(crate) fn field(&mut self, name: &'static str, value: impl Serialize) -> &mut Self {
        // Only maps with keys that are no texts have no JSON.
        let value = serde_json::to_string(&value).unwrap_or_else(|_| "null".to_owned());
        self.fields.push((name, value));
        self
    }

    pub(crate) fn field_if(&mut self, name: &'static str, value: Option<impl Serialize>) -> &mut Self {
        match value {
            Some(value) => self.field(name, value),
            None => self,
        }
    }

    /// Writes the object, or else the table, to standard output.
    pub(crate) fn print(&self, as_json: bool) -> io::Result<()> {
        let mut out = stdout();
        if !as_json {
            table(&mut out, &self.rows)?;
            return out.flush();
        }
        let fields = self.fields.iter().map(|(name, value)| format!("\"{name}\":{value}"));
        write_json(&mut out, &format!("{{{}}}", fields.collect::<Vec<_>>().join(",")))
    }
}

/// Rows of two columns on standard output. On a terminal, values are broken into its columns.
fn table(out: &mut dyn Write, rows: &[(&str, String)]) -> io::Result<()> {
    let width = rows.iter().map(|row| row.0.len()).max().unwrap_or(0);
    let columns = stdout_columns();
    for (name, value) in rows {
        let value = one_line(value);
        let value = match columns {
            // A hash is not cut: it has a line of its own.
            Some(columns) if value.len() > columns.saturating_sub(width + 2) && !value.contains(' ') => {
                format!("\n  {value}")
            }
            columns => wrapped(&value, columns, width + 2, width + 2),
        };
        writeln!(out, "{name:width$}  {value}")?;
    }
    Ok(())
}

/// A number with a comma between each three digits.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (position, digit) in digits.chars().enumerate() {
        // Groups count from the end.
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number and the name of what it counts.
pub(crate) fn counted(count: u64, name: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {name}{plural}", grouped(count))
}

/// Bytes in MiB.
pub(crate) fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// Seconds as a person reads them.
pub(crate) fn duration_text(seconds: f64) -> String {
    let seconds = seconds.round() as u64;
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes @ ..10, seconds) => format!("{minutes} min {seconds:02} s"),
        (0, minutes, _) => format!("{minutes} min"),
        (hours @ ..10, minutes, _) => format!("{hours} h {minutes:02} min"),
        (hours, ..) => format!("{hours} h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped() {
        for (number, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (12_345_678, "12,345,678")] {
            assert_eq!(grouped(number), text);
        }
    }

    #[test]
    fn bytes_have_a_unit() {
        for (number, text) in [
            (9_999, "9999 bytes"),
            (10_000, "10.0 kB"),
            (12_345_678, "12.3 MB"),
            (98_765_432_100, "98.8 GB"),
        ] {
            assert_eq!(bytes(number), text);
        }
    }
}
