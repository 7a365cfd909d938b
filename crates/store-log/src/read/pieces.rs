//! A part of a scan in pieces: its coins are long, or very many of its keys begin with the same two
//! bytes.
//!
//! Keys are read first, without the coins: the lowest of those that were not given yet. Then the
//! records of these keys are read, some at a time. A part with more keys is gone through again.

use super::view::{LivePage, SortedRecords, View};
use crate::format::location::Location;
use crate::format::page::{Page, PageHead, PageKind, long_length, long_part, read_record, record};
use crate::format::records::PageReader;
use crate::format::segment::{Segment, page_damaged};
use blockmill_coins::StoreError;
use blockmill_coins::store::{OutpointKey, outpoint_key};
use std::collections::BinaryHeap;
use std::ops::ControlFlow;

/// Keys that are in memory at a time, unless the set has many coins.
const KEYS: usize = 1 << 17;

/// A part is gone through about as often at most: a key for so many coins of the set is in memory,
/// three bytes for each coin.
const ROUNDS_MAX: u64 = 16;

/// Bytes of the records of a piece, about.
const PIECE_BYTES: usize = 6 << 20;

/// The key of a record.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Keyed {
    key: OutpointKey,
    location: Location,
    /// Bytes of the record.
    length: u32,
}

/// The records of a part in pieces, sorted. The iterator ends after an error.
pub(crate) struct Pieces<'a> {
    view: &'a View,
    part: usize,
    /// Keys whose records were not given yet, the lowest last.
    keys: Vec<Keyed>,
    /// The highest key that was read.
    last: Option<OutpointKey>,
    /// Whether there may be higher ones.
    more: bool,
    keys_together: usize,
}

impl<'a> Pieces<'a> {
    pub(crate) fn new(view: &'a View, part: usize) -> Self {
        Self {
            view,
            part,
            keys: Vec::new(),
            last: None,
            more: true,
            keys_together: KEYS.max((view.coins / ROUNDS_MAX) as usize),
        }
    }

    /// Reads the lowest keys above the last ones.
    fn read_keys(&mut self) -> Result<(), StoreError> {
        let prefixes = self.view.prefixes(self.part);
        // The highest is on top, and goes when a lower one comes. Until then there is one more.
        let mut lowest: BinaryHeap<Keyed> = BinaryHeap::with_capacity(self.keys_together + 1);
        self.more = false;
        let mut visit = |live: &LivePage, page: &Page, head: &PageHead, segment: &Segment| {
            for location in live.locations() {
                let damaged = || page_damaged(&segment.path, location.page(), "has no such record");
                // Of a long record the first page is enough.
                let (bytes, length) = match head.kind {
                    PageKind::Long => (long_part(page, head), long_length(page, head).ok_or_else(damaged)?),
                    _ => {
                        let bytes = record(page, head, location.record() as usize).ok_or_else(damaged)?;
                        (bytes, bytes.len())
                    }
                };
                let key = outpoint_key(&read_record(bytes).map_err(|_| damaged())?.0);
                let prefix = usize::from(u16::from_be_bytes([key[0], key[1]]));
                if !prefixes.contains(&prefix) || self.last.is_some_and(|last| key <= last) {
                    continue;
                }
                // The heap has the lowest keys so far, the highest of them on top.
                lowest.push(Keyed {
                    key,
                    location,
                    length: length as u32,
                });
                if lowest.len() > self.keys_together {
                    lowest.pop();
                    self.more = true;
                }
            }
            Ok(ControlFlow::Continue(()))
        };
        // The closure never breaks off.
        let _ = self.view.visit_pages(self.part, &mut visit)?;
        self.keys = lowest.into_sorted_vec();
        self.last = self.keys.last().map(|keyed| keyed.key).or(self.last);
        // The lowest is taken first, from the end.
        self.keys.reverse();
        Ok(())
    }

    fn read_next(&mut self) -> Result<Option<SortedRecords>, StoreError> {
        if self.keys.is_empty() && self.more {
            self.read_keys()?;
        }
        let (mut locations, mut bytes) = (Vec::new(), 0);
        while bytes < PIECE_BYTES {
            let Some(keyed) = self.keys.pop() else { break };
            bytes += keyed.length as usize;
            locations.push(keyed.location);
        }
        if locations.is_empty() {
            return Ok(None);
        }
        // In the order of the disk.
        locations.sort_unstable();
        let prefixes = self.view.prefixes(self.part);
        let mut reader = PageReader::new(&self.view.table);
        let mut piece = SortedRecords::default();
        for location in locations {
            let record = reader.record(location)?;
            piece
                .add(record, &prefixes)
                .ok_or_else(|| StoreError::Corrupt("a record is none".to_owned()))?;
        }
        piece.sort();
        Ok(Some(piece))
    }
}

impl Iterator for Pieces<'_> {
    type Item = Result<SortedRecords, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.read_next().transpose();
        if matches!(next, Some(Err(_))) {
            self.keys.clear();
            self.more = false;
        }
        next
    }
}
