//! What statistics rest on, joined from ranges of blocks.

use crate::reports::usage;
use blockmill_tables::set_totals::{Completed, SetTotals};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// The state with these bytes. No bytes are the state of no blocks.
fn state(bytes: &[u8]) -> PyResult<SetTotals> {
    if bytes.is_empty() {
        return Ok(SetTotals::default());
    }
    SetTotals::from_bytes(bytes).ok_or_else(|| usage("a state has other bytes"))
}

fn joined(before: &SetTotals, next: &[u8]) -> PyResult<SetTotals> {
    let joined = before.joined(&state(next)?);
    joined.ok_or_else(|| usage("a state has larger numbers than a chain has"))
}

/// The state of the blocks of two ranges.
#[pyfunction]
pub(crate) fn join_states<'py>(py: Python<'py>, before: &[u8], next: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
    Ok(PyBytes::new(py, &joined(&state(before)?, next)?.to_bytes()))
}

/// The columns of completed rows: coins, measures of size, amounts, what nobody will spend, and
/// hashes in the order in which they are shown.
type Columns<'py> = (Vec<u64>, Vec<u64>, Vec<i64>, Vec<i64>, Vec<Option<Bound<'py, PyBytes>>>);

/// What rows say of the sets after their blocks: `before` is the state below them, `states` those
/// of each row.
#[pyfunction]
pub(crate) fn sets_after<'py>(
    py: Python<'py>,
    before: &[u8],
    states: Vec<Bound<'py, PyBytes>>,
) -> PyResult<Columns<'py>> {
    let before = state(before)?;
    let mut completed = Completed::default();
    for next in states {
        let after = joined(&before, next.as_bytes())?;
        let pushed = completed.push(&after);
        pushed.ok_or_else(|| usage("the coins that blocks spend are not those that the chain has made"))?;
    }
    let shown = |hash: Option<[u8; 32]>| {
        hash.map(|mut hash| {
            hash.reverse();
            PyBytes::new(py, &hash)
        })
    };
    Ok((
        completed.txouts,
        completed.bogosize,
        completed.total_amount,
        completed.total_unspendable_amount,
        completed.muhash.into_iter().map(shown).collect(),
    ))
}
