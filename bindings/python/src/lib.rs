//! What the Python package `blockmill` is made of: its Python code wraps this module, and documents
//! it.
//!
//! Work is done on threads of its own, without the interpreter's lock. Meanwhile the calling thread
//! looks for signals, and calls back what the work has to say.

mod arguments;
mod blocks;
mod chain;
mod coins;
mod fault;
mod feed;
mod key;
mod opened;
mod process;
mod reports;
mod set;
mod states;
mod stream;
mod table;
mod validate;
mod work;

use pyo3::prelude::*;

/// Native parts of the package `blockmill`.
#[pymodule]
fn _blockmill(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    reports::add_errors(module)?;
    module.add_class::<key::Key>()?;
    module.add_class::<chain::Chain>()?;
    module.add_class::<set::Set>()?;
    module.add_class::<table::Rows>()?;
    module.add_class::<feed::Events>()?;
    module.add_function(wrap_pyfunction!(set::open_set, module)?)?;
    module.add_function(wrap_pyfunction!(states::join_states, module)?)?;
    module.add_function(wrap_pyfunction!(states::sets_after, module)?)?;
    module.add_function(wrap_pyfunction!(work::audit_files, module)?)?;
    module.add_function(wrap_pyfunction!(work::audit_data, module)?)?;
    module.add_function(wrap_pyfunction!(work::audit_part, module)?)?;
    module.add_function(wrap_pyfunction!(work::index_chain, module)?)?;
    module.add_function(wrap_pyfunction!(work::join_parts, module)?)?;
    module.add_function(wrap_pyfunction!(work::read_part, module)?)?;
    module.add_function(wrap_pyfunction!(work::merge_parts, module)?)?;
    module.add_function(wrap_pyfunction!(validate::validate_block, module)?)?;
    module.add_function(wrap_pyfunction!(validate::verify_transaction, module)?)?;
    module.add_function(wrap_pyfunction!(validate::verify_signatures, module)?)?;
    Ok(())
}
