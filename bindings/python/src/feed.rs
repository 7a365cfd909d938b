//! What happens to a chain, as events for a consumer with a cursor.

use crate::fault::Fault;
use crate::process::Process;
use crate::stream::{Missing, Pieces, STEP, Take, Work};
use crate::table::{Rows, Source};
use arrow_array::RecordBatch;
use arrow_schema::{Schema, SchemaRef};
use blockmill_block::Network;
use blockmill_blockfiles::{Watch, Woken};
use blockmill_datadir::{Cursor, Feed, FeedBlocks};
use blockmill_tables::column::fields_and_values;
use blockmill_tables::event::{Event, event_columns};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, TryLockError};

/// The events of a directory from a cursor on.
#[derive(Clone)]
struct Asked {
    path: PathBuf,
    cursor: Cursor,
    network: Network,
    threads: usize,
    /// Whether it waits for more blocks at the end.
    is_followed: bool,
}

/// Says something in Python's log. The thread that takes the pieces may hold the interpreter's
/// lock while it waits for this one, which therefore does not wait for the lock.
fn warn(text: String) {
    let say = move || {
        // Nobody hears it where the interpreter ends, or has a log that raises.
        let _ = Python::try_attach(|py| {
            let log = py.import("logging")?.call_method1("getLogger", ("blockmill",))?;
            log.call_method1("warning", ("%s", text)).map(drop)
        });
    };
    // Without a thread it is not said, and the feed goes on.
    let _ = std::thread::Builder::new().name("blockmill log".to_owned()).spawn(say);
}

impl Asked {
    /// Gives all events to `convert`, those of some blocks at a time, and what comes of them to
    /// `take`. What follows waits for what cannot be read for a while, as the command does. `feed`
    /// was opened before; without it this opens one.
    fn run<T: Send>(
        &self,
        mut feed: Option<Feed>,
        stop: &Arc<AtomicBool>,
        convert: &(dyn Fn(Vec<Event>) -> Result<T, Fault> + Sync),
        take: Take<'_, T>,
    ) -> Result<(), Fault> {
        // Each reason is said once.
        let mut said = None;
        let mut watch = Watch::of_file(&Feed::file_to_watch(&self.path));
        let mut woken = Woken::Told;
        loop {
            match self.tell(&mut feed, stop, convert, take) {
                Ok(false) => {}
                Ok(true) => {
                    watch.note_change(woken);
                    said = None;
                }
                Err(Fault::Passing(why)) if self.is_followed => {
                    if said.as_ref() != Some(&why) {
                        warn(format!("{why}; it is tried again"));
                        said = Some(why);
                    }
                }
                Err(fault) => return Err(fault),
            }
            if !self.is_followed {
                return Ok(());
            }
            woken = watch.wait(stop);
            if woken == Woken::Stopped {
                return Err(Fault::Stopped);
            }
        }
    }

    /// Tells what has come since. Returns whether there was anything.
    fn tell<T: Send>(
        &self,
        feed: &mut Option<Feed>,
        stop: &Arc<AtomicBool>,
        convert: &(dyn Fn(Vec<Event>) -> Result<T, Fault> + Sync),
        take: Take<'_, T>,
    ) -> Result<bool, Fault> {
        let feed = match feed {
            Some(feed) => feed,
            None => feed.insert(Feed::open(&self.path, self.cursor)?),
        };
        // Something may have come before the watch began.
        if !feed.poll()? {
            return Ok(false);
        }
        let of_blocks = |blocks: FeedBlocks<'_>| {
            let events = blocks.map(|block| match stop.load(Ordering::Relaxed) {
                true => Err(Fault::Stopped),
                false => Ok(Event::of_block(&block?, self.network)),
            });
            convert(events.collect::<Result<_, _>>()?)
        };
        let tip = feed.run_batches(self.threads, &of_blocks, take)?;
        take(convert(vec![Event::of_tip(&tip)])?)?;
        Ok(true)
    }
}

fn schema() -> Result<SchemaRef, Fault> {
    let (fields, _) = fields_and_values(event_columns(&[])?);
    Ok(Arc::new(Schema::new(fields)))
}

/// The events as rows.
struct EventRows {
    asked: Asked,
    schema: SchemaRef,
}

impl Source for EventRows {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn run(&self, stop: &Arc<AtomicBool>, take: Take<'_, RecordBatch>) -> Result<(), Fault> {
        let convert = |events: Vec<Event>| {
            let (_, values) = fields_and_values(event_columns(&events)?);
            Ok(RecordBatch::try_new(Arc::clone(&self.schema), values)?)
        };
        self.asked.run(None, stop, &convert, take)
    }
}

/// Events, one after the other.
#[pyclass(frozen, module = "blockmill._blockmill")]
pub(crate) struct Events {
    asked: Asked,
    process: Process,
    lines: Mutex<Lines>,
}

/// Lines of JSON.
struct Lines {
    pieces: Pieces<Vec<Vec<u8>>>,
    /// Those of the last piece, the next one at the end.
    rest: Vec<Vec<u8>>,
}

impl Events {
    pub(crate) fn open(
        path: &Path,
        cursor: &str,
        network: Network,
        threads: usize,
        is_followed: bool,
    ) -> Result<Self, Fault> {
        let cursor: Cursor = cursor.parse().map_err(|why| Fault::Usage(format!("cursor: {why}")))?;
        let asked = Asked {
            path: path.to_owned(),
            cursor,
            network,
            threads,
            is_followed,
        };
        // A cursor that is unknown is said at once.
        let feed = Feed::open(path, cursor)?;
        let of_lines = asked.clone();
        let work: Work<Vec<Vec<u8>>> = Box::new(move |stop, take| {
            let convert = |events: Vec<Event>| {
                let lines = events.iter().map(|event| event.line());
                let mut lines: Vec<_> = lines.collect::<Result<_, _>>().map_err(inner)?;
                lines.reverse();
                Ok(lines)
            };
            of_lines.run(Some(feed), stop, &convert, take)
        });
        let lines = Lines {
            pieces: Pieces::new(work),
            rest: Vec::new(),
        };
        Ok(Self {
            asked,
            process: Process::this(),
            lines: Mutex::new(lines),
        })
    }
}

fn inner(error: impl ToString) -> Fault {
    Fault::Inner(error.to_string())
}

#[pymethods]
impl Events {
    /// The next event as a line of JSON; none at the end.
    fn next<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        self.process.check()?;
        loop {
            // Another thread may wait for an event, which takes as long as it takes.
            let mut lines = match self.lines.try_lock() {
                Ok(lines) => lines,
                Err(TryLockError::Poisoned(lines)) => lines.into_inner(),
                Err(TryLockError::WouldBlock) => {
                    py.detach(|| std::thread::sleep(STEP / 4));
                    py.check_signals()?;
                    continue;
                }
            };
            let lines = &mut *lines;
            loop {
                if let Some(line) = lines.rest.pop() {
                    return Ok(Some(PyBytes::new(py, &line)));
                }
                match lines.pieces.next(true) {
                    None => return Ok(None),
                    Some(Ok(more)) => lines.rest = more,
                    Some(Err(Missing::Fault(fault))) => return Err(fault.into()),
                    Some(Err(Missing::Signal(raised))) => return Err(raised),
                }
            }
        }
    }

    /// All events as a table: from the first one on, whatever was taken.
    fn rows(&self) -> PyResult<Rows> {
        self.process.check()?;
        Ok(Rows::new(EventRows {
            asked: self.asked.clone(),
            schema: schema()?,
        }))
    }
}
