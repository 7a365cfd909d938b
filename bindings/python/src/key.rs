//! The key of a run.

use crate::reports::{AuditFault, usage};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::path::PathBuf;

/// The secret of a run.
#[pyclass(frozen, module = "blockmill._blockmill")]
pub(crate) struct Key(pub(crate) blockmill_audit::Key);

#[pymethods]
impl Key {
    #[staticmethod]
    fn draw() -> PyResult<Self> {
        let key = blockmill_audit::Key::draw().map_err(|why| AuditFault(why.into()))?;
        Ok(Self(key))
    }

    #[staticmethod]
    fn read(path: PathBuf) -> PyResult<Self> {
        let key = blockmill_audit::Key::read(&path).map_err(|why| AuditFault(why.into()))?;
        Ok(Self(key))
    }

    #[staticmethod]
    fn _of_secret(secret: &[u8]) -> PyResult<Self> {
        let key = blockmill_audit::Key::from_secret(secret);
        Ok(Self(key.ok_or_else(|| usage("these bytes are no key"))?))
    }

    fn write(&self, path: PathBuf) -> PyResult<()> {
        Ok(self.0.write(&path).map_err(|why| AuditFault(why.into()))?)
    }

    #[getter]
    fn run(&self) -> String {
        self.0.run().to_string()
    }

    /// Pickles have the secret: they are how it comes to other processes.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyBytes>,))> {
        let make = py.get_type::<Self>().getattr("_of_secret")?;
        Ok((make, (PyBytes::new(py, self.0.secret()),)))
    }

    fn __repr__(&self) -> String {
        format!("Key(run='{}')", self.0.run())
    }
}
