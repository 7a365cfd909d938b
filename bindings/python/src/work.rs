//! Audits, and what they say on their way.

use crate::arguments::{signatures, threads, verifier};
use crate::chain::{Chain, params};
use crate::key::Key;
use crate::reports::{self, AuditFault, PartError, findings, usage};
use blockmill_audit::{AuditError, AuditedSet, Auditor, ChainOfSet, NamedPart, Part, Sources, merge};
use blockmill_block::Header;
use blockmill_chain::{Event, Level, Observer, Progress, Signatures};
use blockmill_datadir::UtxoSet;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyTuple};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// Time between two looks for signals, and between two calls of what hears of the progress.
const INTERVAL: Duration = Duration::from_millis(50);

/// What work has to say.
enum Word {
    Indexed { share: f64, headers: usize },
    Blocks(Progress),
    Coins { coins: u64, share: f64 },
    Event { is_warning: bool, text: String },
}

/// Sends what an observer hears.
struct Speaker {
    sender: Sender<Word>,
    last: Option<Instant>,
}

impl Speaker {
    /// Sends a word of progress, if the last one was long enough ago.
    fn say(&mut self, word: impl FnOnce() -> Word) {
        if self.last.is_none_or(|last| last.elapsed() >= INTERVAL) {
            self.last = Some(Instant::now());
            // Nobody listens any more when the caller was interrupted.
            let _ = self.sender.send(word());
        }
    }
}

impl Observer for Speaker {
    fn event(&mut self, event: &Event<'_>) {
        match *event {
            Event::Indexing(indexing) => {
                let of_file = indexing.offset as f64 / indexing.bytes.max(1) as f64;
                // Files count from 1.
                let share = (indexing.file as f64 - 1.0 + of_file) / indexing.files.max(1) as f64;
                let headers = indexing.headers;
                self.say(|| Word::Indexed { share, headers });
            }
            Event::Progress(progress) => {
                if progress.bytes_remaining == 0 {
                    // The last word is said, however short the work was.
                    self.last = None;
                }
                self.say(|| Word::Blocks(*progress));
            }
            Event::Coins { coins, share } => self.say(|| Word::Coins { coins, share }),
            _ => {
                if let Some(level) = event.level() {
                    let is_warning = level > Level::Info;
                    let text = event.to_string();
                    let _ = self.sender.send(Word::Event { is_warning, text });
                }
            }
        }
    }
}

/// Calls `hear` with a word: with what it is about, and a dictionary.
fn call(py: Python<'_>, hear: &Bound<'_, PyAny>, word: &Word) -> PyResult<()> {
    let dict = PyDict::new(py);
    let about = match word {
        Word::Indexed { share, headers } => {
            dict.set_item("share", share)?;
            dict.set_item("headers", headers)?;
            "headers"
        }
        Word::Blocks(progress) => {
            let elapsed = progress.elapsed.as_secs_f64();
            let remaining = progress.bytes_remaining as f64 * elapsed / progress.bytes.max(1) as f64;
            dict.set_item("share", progress.share)?;
            dict.set_item("height", progress.height)?;
            dict.set_item("blocks", progress.blocks)?;
            dict.set_item("transactions", progress.transactions)?;
            dict.set_item("inputs", progress.inputs)?;
            dict.set_item("seconds", elapsed)?;
            dict.set_item("seconds_left", Some(remaining).filter(|_| progress.bytes > 0))?;
            "blocks"
        }
        Word::Coins { coins, share } => {
            dict.set_item("share", share)?;
            dict.set_item("coins", coins)?;
            "coins"
        }
        Word::Event { is_warning, text } => {
            dict.set_item("is_warning", is_warning)?;
            dict.set_item("text", text)?;
            "event"
        }
    };
    hear.call1((about, dict))?;
    Ok(())
}

/// Calls `hear` with all words until the speaker is gone. What goes wrong, a signal too, stops the
/// work.
fn listen(py: Python<'_>, words: &mut Receiver<Word>, hear: &Bound<'_, PyAny>) -> PyResult<()> {
    loop {
        // Python handles signals on this thread, which would else wait until the work is done.
        py.check_signals()?;
        let words = &mut *words;
        match py.detach(move || words.recv_timeout(INTERVAL)) {
            Ok(word) => call(py, hear, &word)?,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
    }
}

/// Does work on a thread of its own, without the interpreter's lock.
pub(crate) fn run<T: Send, E: Send + Into<PyErr>>(
    py: Python<'_>,
    hear: &Bound<'_, PyAny>,
    work: impl FnOnce(&AtomicBool, &mut dyn Observer) -> Result<T, E> + Send,
) -> PyResult<T> {
    let stop = AtomicBool::new(false);
    let (sender, mut words) = channel();
    let mut heard = Ok(());
    let done = std::thread::scope(|scope| {
        let stop = &stop;
        let worker = scope.spawn(move || work(stop, &mut Speaker { sender, last: None }));
        heard = listen(py, &mut words, hear);
        if heard.is_err() {
            stop.store(true, Ordering::Relaxed);
        }
        // After a stop nobody hears the rest.
        drop(words);
        py.detach(|| worker.join())
    });
    heard?;
    match done {
        Ok(done) => done.map_err(E::into),
        Err(_) => Err(PyRuntimeError::new_err("a thread panicked")),
    }
}

/// As [`run`], of an audit.
fn run_audit<T: Send>(
    py: Python<'_>,
    hear: &Bound<'_, PyAny>,
    work: impl FnOnce(&AtomicBool, &mut dyn Observer) -> Result<T, AuditError> + Send,
) -> PyResult<T> {
    run(py, hear, |stop, observer| work(stop, observer).map_err(AuditFault))
}

fn headers(bytes: Option<&[u8]>) -> PyResult<Vec<Header>> {
    let (headers, rest) = bytes.unwrap_or_default().as_chunks();
    if !rest.is_empty() {
        let length = Header::LENGTH;
        return Err(usage(format!("headers: no headers of {length} bytes each")));
    }
    Ok(headers.iter().map(Header::from_bytes).collect())
}

#[pyfunction]
#[pyo3(signature = (blocks, network, challenge, snapshot, resume, threads_wanted, signatures_wanted, hear))]
#[expect(clippy::too_many_arguments, reason = "the Python code around it has names for them")]
pub(crate) fn audit_files<'py>(
    py: Python<'py>,
    blocks: Vec<PathBuf>,
    network: &str,
    challenge: Option<Vec<u8>>,
    snapshot: PathBuf,
    resume: Option<PathBuf>,
    threads_wanted: Option<usize>,
    signatures_wanted: &str,
    hear: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyDict>> {
    let params = params(network, challenge.as_deref())?;
    let (threads, signatures) = (threads(threads_wanted)?, signatures(signatures_wanted)?);
    let report = run_audit(py, hear, |stop, observer| {
        let verifier = verifier(signatures);
        let sources = Sources {
            blocks: &blocks,
            headers: &[],
            params: &params,
        };
        let auditor = Auditor::new(&verifier, threads, signatures, stop);
        auditor.files(&sources, &snapshot, resume.as_deref(), observer)
    })?;
    reports::report(py, &report)
}

#[pyfunction]
#[pyo3(signature = (data, blocks, resume, threads_wanted, signatures_wanted, hear))]
pub(crate) fn audit_data<'py>(
    py: Python<'py>,
    data: PathBuf,
    blocks: Vec<PathBuf>,
    resume: Option<PathBuf>,
    threads_wanted: Option<usize>,
    signatures_wanted: &str,
    hear: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyDict>> {
    let (threads, signatures) = (threads(threads_wanted)?, signatures(signatures_wanted)?);
    let report = run_audit(py, hear, |stop, observer| {
        let verifier = verifier(signatures);
        let auditor = Auditor::new(&verifier, threads, signatures, stop);
        auditor.data(&data, &blocks, resume.as_deref(), observer)
    })?;
    reports::report(py, &report)
}

/// A chain; or a report, if the snapshot's block is not in it.
#[pyfunction]
#[pyo3(signature = (blocks, network, challenge, headers_of_others, snapshot, hear))]
pub(crate) fn index_chain<'py>(
    py: Python<'py>,
    blocks: Vec<PathBuf>,
    network: String,
    challenge: Option<Vec<u8>>,
    headers_of_others: Option<&[u8]>,
    snapshot: Option<PathBuf>,
    hear: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let params = params(&network, challenge.as_deref())?;
    let headers = headers(headers_of_others)?;
    let found = run_audit(py, hear, |stop, observer| {
        // Headers have no scripts: it is never asked.
        let verifier = verifier(Signatures::OneByOne);
        let sources = Sources {
            blocks: &blocks,
            headers: &headers,
            params: &params,
        };
        let auditor = Auditor::new(&verifier, 1, Signatures::OneByOne, stop);
        match snapshot {
            Some(snapshot) => auditor.chain_of(&sources, &snapshot, observer),
            None => Ok(ChainOfSet::Found(Box::new(auditor.chain(&sources, observer)?))),
        }
    })?;
    match found {
        ChainOfSet::Found(blocks) => Ok(Bound::new(py, Chain::new(*blocks, network, challenge))?.into_any()),
        ChainOfSet::NotThere(report) => Ok(reports::report(py, &report)?.into_any()),
    }
}

/// The bytes of a part, none if blocks cannot be read; what cannot be read; CPU seconds.
#[pyfunction]
#[pyo3(signature = (chain, key, first, last, threads_wanted, signatures_wanted, hear))]
#[expect(clippy::too_many_arguments, reason = "the Python code around it has names for them")]
pub(crate) fn audit_part<'py>(
    py: Python<'py>,
    chain: &Chain,
    key: &Key,
    first: u32,
    last: u32,
    threads_wanted: Option<usize>,
    signatures_wanted: &str,
    hear: &Bound<'py, PyAny>,
) -> PyResult<(Option<Bound<'py, PyBytes>>, Bound<'py, PyList>, f64)> {
    let (threads, signatures) = (threads(threads_wanted)?, signatures(signatures_wanted)?);
    let (blocks, key) = (&*chain.blocks, &key.0);
    let report = run_audit(py, hear, |stop, observer| {
        let verifier = verifier(signatures);
        let auditor = Auditor::new(&verifier, threads, signatures, stop);
        auditor.part(blocks, key, first..=last, observer)
    })?;
    let bytes = report.part.map(|part| PyBytes::new(py, &part.encode(key)));
    let cpu: Duration = report.times.cpu.iter().sum();
    Ok((bytes, findings(py, &report.unreadable)?, cpu.as_secs_f64()))
}

fn decode(key: &Key, bytes: &[u8]) -> PyResult<Part> {
    Part::decode(bytes, &key.0).map_err(|why| PartError::new_err(why.to_string()))
}

/// What is in a part.
#[pyfunction]
pub(crate) fn read_part<'py>(py: Python<'py>, key: &Key, bytes: &[u8]) -> PyResult<Bound<'py, PyDict>> {
    reports::part(py, &decode(key, bytes)?)
}

/// One part of neighbours, in the order of their heights.
#[pyfunction]
pub(crate) fn join_parts<'py>(
    py: Python<'py>,
    key: &Key,
    parts: &Bound<'py, PyTuple>,
) -> PyResult<Bound<'py, PyBytes>> {
    let mut decoded = Vec::new();
    for bytes in parts {
        decoded.push(decode(key, bytes.extract()?)?);
    }
    let joined = Part::join(decoded).map_err(|why| PartError::new_err(why.to_string()))?;
    Ok(PyBytes::new(py, &joined.encode(&key.0)))
}

/// Joins parts with a set.
#[pyfunction]
#[pyo3(signature = (key, parts, snapshot, data, threads_wanted, hear))]
pub(crate) fn merge_parts<'py>(
    py: Python<'py>,
    key: &Key,
    parts: Vec<NamedPart>,
    snapshot: Option<PathBuf>,
    data: Option<PathBuf>,
    threads_wanted: Option<usize>,
    hear: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyDict>> {
    let threads = threads(threads_wanted)?;
    let key = &key.0;
    let report = run_audit(py, hear, |stop, observer| {
        let set = data.map(|data| UtxoSet::open(&data, threads)).transpose()?;
        let set = match (&set, &snapshot) {
            (Some(set), _) => AuditedSet::Data(set),
            (None, Some(snapshot)) => AuditedSet::Snapshot(snapshot),
            // The Python code has refused this already.
            (None, None) => return Err(AuditError::Stopped),
        };
        merge(key, &parts, set, threads, stop, observer)
    })?;
    reports::report(py, &report)
}
