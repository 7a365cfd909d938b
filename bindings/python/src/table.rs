//! Rows as streams of Apache Arrow, through its interface of capsules: a consumer takes the batches
//! where they lie.

use crate::fault::Fault;
use crate::process::Process;
use crate::stream::{Missing, Pieces, Take, Work};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::ffi::FFI_ArrowSchema;
use arrow_schema::{ArrowError, SchemaRef};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

/// Where the rows of a table come from. Each stream of it goes over them once more.
pub(crate) trait Source: Send + Sync {
    fn schema(&self) -> SchemaRef;

    /// Gives all rows to `take`, in order, until the flag is set.
    fn run(&self, stop: &Arc<AtomicBool>, take: Take<'_, RecordBatch>) -> Result<(), Fault>;
}

/// What a stream has ended with, as Python would raise it.
type Raised = Arc<Mutex<Option<PyErr>>>;

/// The batches of a table, one after the other.
struct Reader {
    schema: SchemaRef,
    pieces: Pieces<RecordBatch>,
    raised: Raised,
}

impl Iterator for Reader {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let (raised, text) = match self.pieces.next(false)? {
            Ok(batch) => return Some(Ok(batch)),
            Err(Missing::Fault(fault)) => {
                let text = fault.to_string();
                (fault.into(), text)
            }
            Err(Missing::Signal(raised)) => {
                let text = raised.to_string();
                (raised, text)
            }
        };
        *self.raised.lock().unwrap_or_else(PoisonError::into_inner) = Some(raised);
        Some(Err(ArrowError::ExternalError(text.into())))
    }
}

impl RecordBatchReader for Reader {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

/// A table, whose rows are made when they are read.
#[pyclass(frozen, module = "blockmill._blockmill")]
pub(crate) struct Rows {
    source: Arc<dyn Source>,
    process: Process,
    raised: Raised,
    /// Blocks at the end of the chain that are left out, since they have no undo data yet.
    #[pyo3(get)]
    without_undo: u32,
}

impl Rows {
    /// The same rows, without the last blocks of a chain.
    pub(crate) fn without_blocks(self, without_undo: u32) -> Self {
        Self { without_undo, ..self }
    }

    pub(crate) fn new(source: impl Source + 'static) -> Self {
        Self {
            source: Arc::new(source),
            process: Process::this(),
            raised: Raised::default(),
            without_undo: 0,
        }
    }
}

#[pymethods]
impl Rows {
    /// Names of the columns.
    #[getter]
    fn columns(&self) -> Vec<String> {
        let schema = self.source.schema();
        schema.fields().iter().map(|field| field.name().clone()).collect()
    }

    /// The schema, as a capsule.
    fn schema<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(&*self.source.schema()).map_err(Fault::from)?;
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }

    /// A stream of all rows, as a capsule.
    fn stream<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        self.process.check()?;
        let source = Arc::clone(&self.source);
        let work: Work<RecordBatch> = Box::new(move |stop, take| source.run(stop, take));
        let reader = Reader {
            schema: self.source.schema(),
            pieces: Pieces::new(work),
            raised: Arc::clone(&self.raised),
        };
        PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(Box::new(reader)), c"arrow_array_stream")
    }

    /// Raises what the last stream has ended with. Other libraries raise errors of their own then.
    fn raise_last(&self) -> PyResult<()> {
        let raised = self.raised.lock().unwrap_or_else(PoisonError::into_inner).take();
        raised.map_or(Ok(()), Err)
    }
}
