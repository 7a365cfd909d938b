//! Work on a thread of its own, whose pieces another thread takes one after the other.
//!
//! Few pieces wait to be taken, so a taker that takes its time bounds the memory. The work ends
//! when the taker is gone. While the taker waits it looks for signals, if it is the thread that
//! asked for the work: another thread may be one whose caller holds the interpreter's lock.

use crate::fault::Fault;
use crate::process::Process;
use pyo3::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread::{self, ThreadId};
use std::time::Duration;

/// Time between two looks for signals.
pub(crate) const STEP: Duration = Duration::from_millis(40);

/// Pieces that wait to be taken.
const WAITING: usize = 1;

/// Takes a piece; an error says that there is no taker any more.
pub(crate) type Take<'a, T> = &'a mut dyn FnMut(T) -> Result<(), Fault>;

/// Work that gives pieces to `take`, until it is done, or the flag is set.
pub(crate) type Work<T> = Box<dyn FnOnce(&Arc<AtomicBool>, Take<'_, T>) -> Result<(), Fault> + Send>;

enum State<T> {
    /// The thread begins when the first piece is wanted.
    New(Work<T>),
    Running(Receiver<Result<T, Fault>>),
    Ended,
}

/// The pieces of some work.
pub(crate) struct Pieces<T> {
    state: State<T>,
    stop: Arc<AtomicBool>,
    asked_by: ThreadId,
    process: Process,
}

/// Why there is no piece.
pub(crate) enum Missing {
    Fault(Fault),
    /// What Python raises: for a signal, or after a fork.
    Signal(PyErr),
}

impl<T: Send + 'static> Pieces<T> {
    pub(crate) fn new(work: Work<T>) -> Self {
        Self {
            state: State::New(work),
            stop: Arc::new(AtomicBool::new(false)),
            asked_by: thread::current().id(),
            process: Process::this(),
        }
    }

    fn start(&mut self, work: Work<T>) -> Result<(), Fault> {
        let (sender, receiver) = sync_channel(WAITING);
        let stop = Arc::clone(&self.stop);
        let run = move || {
            let mut take = |piece| sender.send(Ok(piece)).map_err(|_| Fault::Stopped);
            // A panic must not look like the end.
            let work = std::panic::AssertUnwindSafe(|| work(&stop, &mut take));
            let done = std::panic::catch_unwind(work);
            let done = done.unwrap_or_else(|_| Err(Fault::Inner("a thread panicked".to_owned())));
            if let Err(fault) = done {
                // Nobody hears it who has gone.
                let _ = sender.send(Err(fault));
            }
        };
        let started = thread::Builder::new().name("blockmill".to_owned()).spawn(run);
        started.map_err(|error| Fault::Inner(format!("cannot start a thread: {error}")))?;
        self.state = State::Running(receiver);
        Ok(())
    }

    /// The next piece; none at the end. `is_attached` says that this thread is known to hold the
    /// interpreter's lock.
    pub(crate) fn next(&mut self, is_attached: bool) -> Option<Result<T, Missing>> {
        if let Err(raised) = self.process.check() {
            return Some(Err(Missing::Signal(raised)));
        }
        if let State::New(_) = self.state
            && let State::New(work) = std::mem::replace(&mut self.state, State::Ended)
            && let Err(fault) = self.start(work)
        {
            return Some(Err(Missing::Fault(fault)));
        }
        let may_attach = is_attached || thread::current().id() == self.asked_by;
        loop {
            let State::Running(pieces) = &mut self.state else {
                return None;
            };
            let received = if may_attach {
                match receive(pieces) {
                    Ok(received) => received,
                    Err(raised) => {
                        self.end();
                        return Some(Err(Missing::Signal(raised)));
                    }
                }
            } else {
                pieces.recv_timeout(STEP)
            };
            match received {
                Ok(Ok(piece)) => return Some(Ok(piece)),
                Ok(Err(fault)) => {
                    self.end();
                    return Some(Err(Missing::Fault(fault)));
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    self.end();
                    return None;
                }
            }
        }
    }

    /// Ends the work.
    fn end(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.state = State::Ended;
    }
}

impl<T> Drop for Pieces<T> {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// What has come of the work.
type Received<T> = Result<Result<T, Fault>, RecvTimeoutError>;

/// Waits for a piece for a short while, without the interpreter's lock, after a look for signals.
fn receive<T: Send>(pieces: &mut Receiver<Result<T, Fault>>) -> PyResult<Received<T>> {
    let attached = Python::try_attach(|py| {
        py.check_signals()?;
        let pieces = &mut *pieces;
        Ok(py.detach(move || pieces.recv_timeout(STEP)))
    });
    // Python ends, and what is not whole must not look so.
    attached.unwrap_or_else(|| Ok(Ok(Err(Fault::Inner("the interpreter ends".to_owned())))))
}
