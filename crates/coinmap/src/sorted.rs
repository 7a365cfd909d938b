//! Entries of a map in the order of their keys, as a store needs them.
//!
//! The slots of the wanted entries are sorted shard by shard, and the iterator merges the shards.
//! This takes four bytes for each entry. While a shard is sorted its entries take sixteen bytes
//! more.

use super::record::EntryRef;
use super::{CoinMap, SHARDS};
use crate::key::OutpointKey;
use blockmill_block::{Coin, OutPoint};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::sync::Arc;

/// An entry is prefetched this many entries of its shard in advance.
const PREFETCH_AHEAD: usize = 2;

/// Chosen entries of a map, sorted by key. An iterator over outpoints, with the coin, or with none
/// for a spent outpoint.
///
/// The map must not change until the iterator is dropped. If it does, entries may be wrong, or
/// [`next`](Iterator::next) may panic.
pub struct SortedEntries {
    map: Arc<CoinMap>,
    /// The remaining slots of each shard, the next slot last.
    shards: Vec<Vec<u32>>,
    /// The next key of each shard with remaining entries.
    next: BinaryHeap<Reverse<(OutpointKey, usize)>>,
    len: usize,
}

impl SortedEntries {
    /// The entries for which `wanted` returns true.
    pub fn new(map: Arc<CoinMap>, wanted: impl Fn(EntryRef<'_>) -> bool) -> Self {
        let mut shards: Vec<Vec<u32>> = Vec::with_capacity(SHARDS);
        let mut next = BinaryHeap::with_capacity(SHARDS);
        let mut len = 0;
        for number in 0..SHARDS {
            let slots = sorted_slots(&map, number, &wanted);
            len += slots.len();
            if let Some(&first) = slots.last() {
                next.push(Reverse((*map.read(number).entry_at(first).key(), number)));
            }
            shards.push(slots);
        }
        Self { map, shards, next, len }
    }

    /// Number of remaining entries.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no entries remain.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Memory in bytes for this number of entries.
    pub const fn bytes_for(entries: usize) -> usize {
        // Twice one shard's share of the sixteen bytes, since a shard may be larger than the
        // others.
        entries * size_of::<u32>() + entries * size_of::<(u64, u32)>() * 2 / SHARDS
    }
}

/// The slots of the wanted entries of a shard, from the largest key to the smallest.
fn sorted_slots(map: &CoinMap, shard: usize, wanted: impl Fn(EntryRef<'_>) -> bool) -> Vec<u32> {
    let shard = map.read(shard);
    let mut slots: Vec<(u64, u32)> = shard
        .slots()
        .filter(|&slot| wanted(shard.entry_at(slot)))
        .map(|slot| (key_prefix(shard.entry_at(slot).key()), slot))
        .collect();
    // The first eight bytes nearly always decide. If not, the records are compared.
    slots.sort_unstable_by(|one, other| {
        let keys = |slot| *shard.entry_at(slot).key();
        other.0.cmp(&one.0).then_with(|| keys(other.1).cmp(&keys(one.1)))
    });
    slots.into_iter().map(|(_, slot)| slot).collect()
}

fn key_prefix(key: &OutpointKey) -> u64 {
    u64::from_be_bytes(std::array::from_fn(|slot| key[slot]))
}

impl Iterator for SortedEntries {
    type Item = (OutPoint, Option<Coin>);

    fn next(&mut self) -> Option<Self::Item> {
        let mut first = self.next.peek_mut()?;
        let Reverse((_, number)) = *first;
        let slots = &mut self.shards[number];
        let slot = slots.pop()?;
        let shard = self.map.read(number);
        let entry = shard.entry_at(slot);
        let item = (entry.outpoint(), entry.coin());
        // Neighbours in this order lie anywhere in memory.
        if let Some(soon) = slots.len().checked_sub(PREFETCH_AHEAD) {
            shard.prefetch_at(slots[soon]);
        }
        match slots.last() {
            Some(&slot) => first.0.0 = *shard.entry_at(slot).key(),
            None => drop(PeekMut::pop(first)),
        }
        self.len -= 1;
        Some(item)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.len, Some(self.len))
    }
}
