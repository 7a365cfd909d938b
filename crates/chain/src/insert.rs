//! Headers are inserted into the index: each as soon as its parent is there, as Core does when it
//! searches block files.

use crate::index::{BlockId, HeaderIndex, HeaderRefusal};
use blockmill_block::{BlockHash, Header};
use blockmill_blockfiles::{Position, Record};
use blockmill_rules::target::block_work;
use blockmill_rules::{Reject, Work};
use std::collections::{HashMap, VecDeque};
use std::time::{SystemTime, UNIX_EPOCH};

/// What a chain with a refused header would have been compared by.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Claim {
    work: Work,
    /// The number that its last block would have had.
    sequence: u64,
}

impl Claim {
    /// Whether it would have been before a chain with this work, whose last block has this number.
    pub(crate) fn is_before(&self, (work, sequence): (Work, u64)) -> bool {
        self.work > work || (self.work == work && self.sequence <= sequence)
    }
}

/// A header that breaks a rule.
pub(crate) struct Refusal<'r> {
    pub(crate) record: &'r Record,
    pub(crate) reject: Reject,
    /// That of the best chain through the header.
    pub(crate) claim: Claim,
}

/// What was found when records were inserted.
#[derive(Default)]
pub(crate) struct Inserted<'r> {
    pub(crate) refusals: Vec<Refusal<'r>>,
    /// Number of records that build on refused headers.
    pub(crate) left_out: u64,
    /// For a refused header, and for each above one: which refusal that is, and the work up to
    /// here.
    refused: HashMap<BlockHash, (usize, Work)>,
    /// The numbers of the records whose parents are nowhere, by parent.
    waiting: HashMap<BlockHash, Vec<usize>>,
}

impl<'r> Inserted<'r> {
    /// The numbers of the records whose parents are nowhere, in order.
    pub(crate) fn waiting(&self) -> Vec<usize> {
        let mut waiting: Vec<_> = self.waiting.values().flatten().copied().collect();
        waiting.sort_unstable();
        waiting
    }

    fn refuse(&mut self, index: &HeaderIndex, record: &'r Record, reject: Reject) {
        let parent = index.find(&record.header.prev_block_hash);
        // A header without work is refused whether its parent is known or not.
        let before = parent.map_or(Work::default(), |parent| index.entry(parent).work);
        let claim = Claim {
            work: before + block_work(record.header.bits),
            sequence: index.next_sequence(),
        };
        self.refused.insert(record.hash, (self.refusals.len(), claim.work));
        self.refusals.push(Refusal { record, reject, claim });
    }

    /// Notes a record whose parent is not in the index. Returns whether the parent was refused.
    fn leave_out(&mut self, index: &HeaderIndex, record: &Record) -> bool {
        let Some(&(number, before)) = self.refused.get(&record.header.prev_block_hash) else {
            return false;
        };
        let work = before + block_work(record.header.bits);
        self.left_out += 1;
        self.refused.insert(record.hash, (number, work));
        let claim = &mut self.refusals[number].claim;
        if work > claim.work {
            (claim.work, claim.sequence) = (work, index.next_sequence());
        }
        true
    }
}

/// Inserts the headers of records into an index, and notes where their blocks lie.
pub(crate) fn insert_blocks<'r>(index: &mut HeaderIndex, records: &'r [Record]) -> Inserted<'r> {
    // Copies have come in the order of the records, whatever waits for whatever.
    let first = index.next_arrivals(records.len());
    let inserted = insert_records(index, records, |index, id, number| {
        index.receive_as(id, records[number].position, first + number as u64);
    });
    index.order_copies();
    inserted
}

/// Inserts the headers of records into an index. A record whose parent comes later waits for it.
/// Records that waited for one parent follow it in their own order, before those that waited for
/// them. `take` gets the number of each record that is inserted, or was known.
pub(crate) fn insert_records<'r>(
    index: &mut HeaderIndex,
    records: &'r [Record],
    mut take: impl FnMut(&mut HeaderIndex, BlockId, usize),
) -> Inserted<'r> {
    let now = clock();
    // Where the index has as many already, most of them are known.
    if index.len() < records.len() {
        let unknown = records.iter().filter(|record| index.find(&record.hash).is_none());
        index.reserve(unknown.count());
    }
    let mut inserted = Inserted::default();
    let mut ready = VecDeque::new();
    for number in 0..records.len() {
        ready.push_back(number);
        while let Some(number) = ready.pop_front() {
            let record = &records[number];
            match index.accept_header(&record.header, record.hash, now) {
                Ok(id) => take(index, id, number),
                Err(HeaderRefusal::Invalid(reject)) => inserted.refuse(index, record, reject),
                Err(HeaderRefusal::MissingParent) => {
                    if !inserted.leave_out(index, record) {
                        let parent = record.header.prev_block_hash;
                        inserted.waiting.entry(parent).or_default().push(number);
                        continue;
                    }
                }
            }
            if !inserted.waiting.is_empty() {
                ready.extend(inserted.waiting.remove(&record.hash).unwrap_or_default());
            }
        }
    }
    inserted
}

/// Records of headers whose blocks are nowhere.
pub(crate) fn without_position(headers: &[Header]) -> Vec<Record> {
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

/// Seconds since 1970.
pub(crate) fn clock() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |elapsed| i64::try_from(elapsed.as_secs()).unwrap_or(i64::MAX))
}
