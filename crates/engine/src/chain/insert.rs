//! Headers are inserted into the index, in whatever order they come.

use crate::chain::index::{HeaderIndex, HeaderRefusal};
use blockmill_block::{BlockHash, Header};
use blockmill_blockfiles::{Position, Record};
use blockmill_rules::Reject;
use std::collections::{HashMap, VecDeque};
use std::time::{SystemTime, UNIX_EPOCH};

/// Records of headers whose blocks are nowhere.
pub(crate) fn without_place(headers: &[Header]) -> Vec<Record> {
    let nowhere = Position {
        file: 0,
        length: 0,
        offset: 0,
    };
    let record = |header: &Header| Record {
        position: nowhere,
        hash: header.hash(),
        header: *header,
    };
    headers.iter().map(record).collect()
}

/// Inserts the headers of records into an index, each as soon as its parent is there. Returns the
/// numbers of the records whose parents are nowhere, by parent.
pub(crate) fn insert_headers<'r>(
    index: &mut HeaderIndex,
    records: &'r [Record],
    mut refuse: impl FnMut(&'r Record, Reject),
) -> HashMap<BlockHash, Vec<usize>> {
    let now = clock();
    let unknown = records.iter().filter(|record| index.find(&record.hash).is_none());
    index.reserve(unknown.count());
    let mut waiting: HashMap<BlockHash, Vec<usize>> = HashMap::new();
    for number in 0..records.len() {
        let mut ready = VecDeque::from([number]);
        while let Some(number) = ready.pop_front() {
            let record = &records[number];
            match index.accept_header(&record.header, record.hash, now) {
                Ok(_) => ready.extend(waiting.remove(&record.hash).unwrap_or_default()),
                Err(HeaderRefusal::MissingParent) => {
                    waiting.entry(record.header.prev_block_hash).or_default().push(number);
                }
                Err(HeaderRefusal::Invalid(reject)) => refuse(record, reject),
            }
        }
    }
    waiting
}

/// Seconds since 1970.
pub(crate) fn clock() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |elapsed| i64::try_from(elapsed.as_secs()).unwrap_or(i64::MAX))
}
