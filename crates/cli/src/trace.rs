//! A timeline of what was done when, in the trace event format that `chrome://tracing` and Perfetto read.

use crate::failure::Failure;
use blockmill_engine::report::Span;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// A trace that is being written. A write that fails is reported at the end.
pub(crate) struct Trace {
    path: PathBuf,
    out: BufWriter<File>,
    origin: Instant,
    events: u64,
    failed: Option<std::io::Error>,
}

impl Trace {
    pub(crate) fn create(path: &Path) -> Result<Self, Failure> {
        let file = File::create(path).map_err(Failure::file(path))?;
        Ok(Self {
            path: path.to_owned(),
            out: BufWriter::new(file),
            origin: Instant::now(),
            events: 0,
            failed: None,
        })
    }

    pub(crate) fn add(&mut self, span: &Span) {
        let start = span.start.saturating_duration_since(self.origin).as_nanos() as f64 / 1e3;
        let length = span.end.saturating_duration_since(span.start).as_nanos() as f64 / 1e3;
        let opening = if self.events == 0 { "[\n" } else { ",\n" };
        self.events += 1;
        let written = write!(
            self.out,
            "{opening}{{\"name\":\"{}\",\"cat\":\"stage\",\"ph\":\"X\",\"ts\":{start:.3},\"dur\":{length:.3},\"pid\":1,\
             \"tid\":1,\"args\":{{\"height\":{}}}}}",
            span.stage.name(),
            span.height
        );
        if let Err(error) = written {
            self.failed.get_or_insert(error);
        }
    }

    pub(crate) fn finish(mut self) -> Result<(), Failure> {
        let closing: &[u8] = if self.events == 0 { b"[]\n" } else { b"\n]\n" };
        let written = match self.failed {
            Some(error) => Err(error),
            None => self.out.write_all(closing).and_then(|()| self.out.flush()),
        };
        written.map_err(Failure::file(self.path))
    }
}
