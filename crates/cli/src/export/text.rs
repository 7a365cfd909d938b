//! CSV with a head, and lines of JSON.

use crate::export::coin_row::{COLUMNS, CoinRow};
use crate::failure::Failure;
use serde::Serialize;
use std::io::{self, Write};

/// The first line of a CSV file.
pub(crate) fn csv_head() -> String {
    COLUMNS.join(",") + "\n"
}

/// Rows as lines of CSV. No value has a comma, a quote or a line break. Without an address the last
/// field is empty.
pub(crate) fn csv(rows: &mut dyn Iterator<Item = CoinRow>) -> Result<Vec<u8>, Failure> {
    let mut lines = Vec::new();
    for row in rows {
        let CoinRow {
            txid,
            vout,
            height,
            coinbase,
            value,
            script,
            script_type,
            address,
        } = row;
        let address = address.unwrap_or_default();
        writeln!(
            lines,
            "{txid},{vout},{height},{coinbase},{value},{script},{script_type},{address}"
        )?;
    }
    Ok(lines)
}

/// Rows as lines of JSON.
pub(crate) fn jsonl<R: Serialize>(rows: &mut dyn Iterator<Item = R>) -> Result<Vec<u8>, Failure> {
    let mut lines = Vec::new();
    for row in rows {
        serde_json::to_writer(&mut lines, &row).map_err(io::Error::from)?;
        lines.push(b'\n');
    }
    Ok(lines)
}
