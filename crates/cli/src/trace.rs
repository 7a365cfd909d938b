//! A timeline of all stages, in the trace event format of `chrome://tracing` and Perfetto.

use crate::failure::Failure;
use blockmill_blockfiles::NewFile;
use blockmill_engine::report::Span;
use std::collections::HashSet;
use std::io::{BufWriter, IntoInnerError, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// A trace in writing. `finish` reports the first failed write. Dropped before that, it leaves no
/// file.
pub(crate) struct Trace {
    path: PathBuf,
    out: BufWriter<NewFile>,
    origin: Instant,
    events: u64,
    /// Threads whose name is in the file.
    named: HashSet<u32>,
    failed: Option<std::io::Error>,
}

impl Trace {
    /// Makes a new file. An existing one is refused: a wrong name could overwrite a block file.
    pub(crate) fn create(path: &Path) -> Result<Self, Failure> {
        Ok(Self {
            path: path.to_owned(),
            out: BufWriter::new(NewFile::begin(path)?),
            origin: Instant::now(),
            events: 0,
            named: HashSet::new(),
            failed: None,
        })
    }

    /// Adds a span of work of the thread with this name.
    pub(crate) fn add(&mut self, thread: &str, span: &Span) {
        if self.named.insert(span.thread) {
            let name = serde_json::json!(thread);
            self.event(format_args!(
                "{{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":1,\"tid\":{},\"args\":{{\"name\":{name}}}}}",
                span.thread
            ));
        }
        // A span may have begun before the trace.
        let start = span.start.saturating_duration_since(self.origin).as_nanos() as f64 / 1e3;
        // The format counts in microseconds.
        let length = span.end.saturating_duration_since(span.start).as_nanos() as f64 / 1e3;
        self.event(format_args!(
            "{{\"name\":\"{}\",\"cat\":\"stage\",\"ph\":\"X\",\"ts\":{start:.3},\"dur\":{length:.3},\"pid\":1,\
             \"tid\":{},\"args\":{{\"height\":{}}}}}",
            span.stage.name(),
            span.thread,
            span.height
        ));
    }

    fn event(&mut self, event: std::fmt::Arguments<'_>) {
        let opening = if self.events == 0 { "[\n" } else { ",\n" };
        self.events += 1;
        if let Err(error) = write!(self.out, "{opening}{event}") {
            // The run goes on, and ends with this error.
            self.failed.get_or_insert(error);
        }
    }

    pub(crate) fn finish(mut self) -> Result<(), Failure> {
        let closing: &[u8] = if self.events == 0 { b"[]\n" } else { b"\n]\n" };
        let written = match self.failed.take() {
            Some(error) => Err(error),
            None => self.out.write_all(closing),
        };
        let written = written.and_then(|()| self.out.into_inner().map_err(IntoInnerError::into_error));
        written.map_err(Failure::file(&self.path))?.complete()?;
        Ok(())
    }
}
