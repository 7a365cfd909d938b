//! Records that a commit adds, removes and moves.

use super::grouped::Grouped;
use crate::format::location::Location;
use crate::format::page::{RECORDS_MAX, RecordSlot};
use crate::index::table::{GROUPS, IndexKey};

/// A record that is taken out of the set.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Removed {
    pub(crate) hash: u64,
    pub(crate) location: Location,
}

/// A record that moves from a victim to a page that is being made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moved {
    /// As it lies in the victim.
    pub(crate) old: Removed,
    pub(crate) new: RecordSlot,
}

/// Bits of a word of an added record for its page, and for its number on the page.
const PAGE_BITS: u32 = 24;
const RECORD_BITS: u32 = RECORDS_MAX.ilog2();

/// Records that a frame adds: for each a word of shard, tag, page, and number on the page.
#[derive(Debug, Default)]
pub(crate) struct Added {
    /// The number in the frame of the page that counts as 0.
    first_page: u32,
    words: Grouped<u64>,
}

impl Added {
    /// Of records with their hashes. Pages count from `first_page` of the frame.
    pub(crate) fn new(records: &[(u64, RecordSlot)], first_page: u32) -> Self {
        let entries: Vec<(usize, u64)> = records
            .iter()
            .map(|&(hash, slot)| {
                let key = IndexKey::of(hash);
                let identity = (key.shard as u64) << u32::BITS | u64::from(key.tag);
                // A part of the changes has far fewer than 2^24 pages.
                let page = u64::from(slot.page) & ((1 << PAGE_BITS) - 1);
                let word = (identity << PAGE_BITS | page) << RECORD_BITS | u64::from(slot.record);
                (key.group, word)
            })
            .collect();
        Self {
            first_page,
            words: Grouped::new(&entries, GROUPS),
        }
    }

    /// Shard, tag and slot of each record of a group.
    pub(crate) fn group(&self, group: usize) -> impl Iterator<Item = (usize, u32, RecordSlot)> {
        self.words.group(group).iter().map(|&word| {
            let slot = RecordSlot {
                page: self.first_page + (word >> RECORD_BITS & ((1 << PAGE_BITS) - 1)) as u32,
                record: word as u32 % RECORDS_MAX as u32,
            };
            let identity = word >> (PAGE_BITS + RECORD_BITS);
            ((identity >> u32::BITS) as usize, identity as u32, slot)
        })
    }
}
