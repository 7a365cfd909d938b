//! The coins of some outpoints.

use crate::format::location::Location;
use crate::format::records::PageReader;
use crate::index::state::LogState;
use crate::index::table::{IndexKey, LINES_OF_SEARCH, TOGETHER};
use blockmill_block::{Coin, OutPoint};
use blockmill_coins::StoreError;

/// The coins of some outpoints, in the same order.
pub(crate) fn get_many(
    state: &LogState,
    outpoints: &[OutPoint],
    coins: &mut Vec<Option<Coin>>,
) -> Result<(), StoreError> {
    let keys: Vec<IndexKey> = outpoints
        .iter()
        .map(|outpoint| IndexKey::of(state.key.hash(outpoint)))
        .collect();
    let mut candidates: Vec<(Location, u32)> = Vec::with_capacity(outpoints.len());
    let table = loop {
        // The table before the index: see `Segments`.
        let table = state.segments.load();
        candidates.clear();
        // The searches of a few outpoints overlap.
        for (numbers, together) in (0u32..).step_by(TOGETHER).zip(keys.chunks(TOGETHER)) {
            for key in together {
                state.index.read(key.group)[key.shard].prefetch(key.tag, LINES_OF_SEARCH);
            }
            for (number, key) in (numbers..).zip(together) {
                let group = state.index.read(key.group);
                let found = group[key.shard].candidates(key.tag);
                candidates.extend(found.map(|location| (location, number)));
            }
        }
        // A segment may have come or gone in between, and its slot have a new owner.
        if state.segments.is_current(&table) {
            break table;
        }
    };
    // In the order of the disk: records of one page need one read.
    candidates.sort_unstable();
    let first = coins.len();
    // What is not found stays none.
    coins.resize(first + outpoints.len(), None);
    let mut reader = PageReader::new(&table);
    for (location, number) in candidates {
        let outpoint = &outpoints[number as usize];
        if let Some(coin) = reader.coin(location, outpoint)? {
            coins[first + number as usize] = Some(coin);
        }
    }
    Ok(())
}
