//! Lines of JSON.

use crate::failure::Failure;
use serde::Serialize;
use std::io;

/// Rows as lines of JSON.
pub(crate) fn jsonl<R: Serialize>(rows: &mut dyn Iterator<Item = R>) -> Result<Vec<u8>, Failure> {
    let mut lines = Vec::new();
    for row in rows {
        serde_json::to_writer(&mut lines, &row).map_err(io::Error::from)?;
        lines.push(b'\n');
    }
    Ok(lines)
}
