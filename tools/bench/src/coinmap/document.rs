//! The first table's work: a million outpoints are inserted and the map is cleared, five times.

use super::coins::{Batch, Scripts};
use super::contenders::{Contender, Tally};
use super::memory::{resident_bytes, resident_peak_bytes};
use super::work::{Phase, expect};
use crate::error::BenchError;
use serde::{Deserialize, Serialize};

/// Number of rounds of inserting all outpoints.
pub(super) const ROUNDS: u64 = 5;

/// Outpoints that are made at a time.
const STEP: u64 = 10_000;

/// A row of the document: nanoseconds per insertion, and kilobytes of memory at the peak, for a
/// million entries.
pub(super) struct Published {
    pub(super) map: &'static str,
    pub(super) ns: f64,
    pub(super) resident_kb: f64,
}

/// The document's rows with a keyed hash. The last one is its reference.
pub(super) const PUBLISHED: [Published; 5] = [
    published("robin_hood::unordered_flat_map", 99.93, 311_392.0),
    published("robin_hood::unordered_node_map", 158.59, 126_124.0),
    published("std::unordered_map with a pool", 317.85, 135_556.0),
    published("tsl::sparse_map", 545.62, 112_332.0),
    published("std::unordered_map", 402.43, 149_460.0),
];

/// Entries of the document's maps.
pub(super) const PUBLISHED_ENTRIES: f64 = 1e6;

const fn published(map: &'static str, ns: f64, resident_kb: f64) -> Published {
    Published { map, ns, resident_kb }
}

/// The outcome of a run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Outcome {
    pub(super) insert: Phase,
    /// Peak of the process's memory, and its memory before the first insertion.
    pub(super) peak_bytes: Option<u64>,
    pub(super) before_bytes: Option<u64>,
}

/// Inserts and clears. Without a map, only makes the coins.
pub(super) fn run<C: Contender>(entries: u64, scripts: Scripts, with_map: bool) -> Result<Outcome, BenchError> {
    let mut batch = Batch::default();
    batch.fill(0..STEP.min(entries), scripts);
    let before_bytes = resident_bytes();
    let mut map = C::default();
    let mut insert = Phase::new("insert");
    for round in 0..ROUNDS {
        let mut wanted = Tally::default();
        let mut start = round * entries;
        let round_end = start + entries;
        while start < round_end {
            let end = (start + STEP).min(round_end);
            batch.fill(start..end, scripts);
            batch.coins().for_each(|(_, coin)| wanted.add(Some(coin.value)));
            if with_map {
                insert.time(end - start, || {
                    batch.coins().for_each(|(outpoint, coin)| map.insert(outpoint, coin));
                });
            }
            start = end;
        }
        if with_map {
            expect("insert and clear", map.all(), wanted)?;
            // The time includes clearing, as in the document.
            insert.time(0, || map.clear());
            expect("insert and clear", map.all(), Tally::default())?;
        }
    }
    Ok(Outcome {
        insert,
        peak_bytes: resident_peak_bytes(),
        before_bytes,
    })
}
