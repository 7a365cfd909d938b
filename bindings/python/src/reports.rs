//! Reports and errors, as Python sees them.

use blockmill_audit::{AuditError, Finding, Part, Report};
use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

macro_rules! errors {
    ($($name:ident: $base:ty, $doc:literal;)+) => {
        $(create_exception!(blockmill, $name, $base, $doc);)+

        /// Adds the types of all errors to the module.
        pub(crate) fn add_errors(module: &Bound<'_, PyModule>) -> PyResult<()> {
            $(module.add(stringify!($name), module.py().get_type::<$name>())?;)+
            Ok(())
        }
    };
}

errors! {
    BlockmillError: PyException, "What all errors of this package are.";
    UsageError: BlockmillError, "An argument cannot be used.";
    FileError: BlockmillError, "A file, a snapshot or a data directory cannot be read or written.";
    KeyFileError: BlockmillError, "A key file cannot be read or written, is none, or others can read it.";
    IncompleteError: BlockmillError, "Block files do not hold a whole chain.";
    CursorError: BlockmillError, "A feed cannot go on from a cursor: begin anew.";
    DecodeError: BlockmillError, "Bytes are no block, no transaction or no undo data.";
    PartError: BlockmillError, "Bytes are no part of this run, or parts do not join.";
}

pub(crate) fn usage(why: impl Into<String>) -> PyErr {
    UsageError::new_err(why.into())
}

/// Why there is no report.
pub(crate) struct AuditFault(pub(crate) AuditError);

impl From<AuditFault> for PyErr {
    fn from(AuditFault(why): AuditFault) -> Self {
        let text = why.to_string();
        match why {
            AuditError::Key(_) => KeyFileError::new_err(text),
            AuditError::Heights { .. } | AuditError::NotOwn { .. } => UsageError::new_err(text),
            AuditError::File(_) | AuditError::Snapshot { .. } | AuditError::Open(_) | AuditError::Store(_) => {
                FileError::new_err(text)
            }
            _ => BlockmillError::new_err(text),
        }
    }
}

/// Findings as dictionaries.
pub(crate) fn findings<'py>(py: Python<'py>, findings: &[Finding]) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    for finding in findings {
        let dict = PyDict::new(py);
        dict.set_item("kind", finding.kind.name())?;
        dict.set_item("height", finding.height)?;
        dict.set_item("hash", finding.hash.map(|hash| hash.to_string()))?;
        dict.set_item("reason", &finding.reason)?;
        list.append(dict)?;
    }
    Ok(list)
}

/// A report as a dictionary.
pub(crate) fn report<'py>(py: Python<'py>, report: &Report) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("verdict", report.verdict.name())?;
    dict.set_item("network", report.network.name())?;
    dict.set_item("height", report.height)?;
    dict.set_item("hash", report.hash.to_string())?;
    dict.set_item("blocks", report.blocks)?;
    dict.set_item("transactions", report.transactions)?;
    dict.set_item("inputs", report.inputs)?;
    dict.set_item("coins", report.coins)?;
    dict.set_item("findings", findings(py, &report.findings)?)?;
    dict.set_item("why", report.why_not_whole())?;
    Ok(dict)
}

/// A part as a dictionary.
pub(crate) fn part<'py>(py: Python<'py>, part: &Part) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("first", part.heights().start())?;
    dict.set_item("last", part.heights().end())?;
    dict.set_item("transactions", part.transactions())?;
    dict.set_item("inputs", part.inputs())?;
    dict.set_item("findings", findings(py, part.findings())?)?;
    Ok(dict)
}
