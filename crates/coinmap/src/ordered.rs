//! Entries of a map in the order of their keys, as a store wants them.
//!
//! The places of the wanted entries are sorted shard by shard, and the shards merged as the iterator goes on. It takes four bytes
//! of memory for each entry, and for a moment sixteen more for those of one shard.

use super::record::EntryRef;
use super::{CoinMap, SHARDS};
use crate::key::OutpointKey;
use blockmill_block::{Coin, OutPoint};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::sync::Arc;

/// How many entries of a shard before its turn one begins to come from memory.
const PREFETCH_AHEAD: usize = 2;

/// Entries that were chosen of a map that nobody changes meanwhile.
pub struct Ordered {
    map: Arc<CoinMap>,
    /// For each shard the places that are still to come, the next one last.
    shards: Vec<Vec<u32>>,
    /// The next key of each shard that has one.
    next: BinaryHeap<Reverse<(OutpointKey, usize)>>,
    len: usize,
}

impl Ordered {
    /// The entries for which `wanted` says so.
    pub fn new(map: Arc<CoinMap>, wanted: impl Fn(EntryRef<'_>) -> bool) -> Self {
        let mut shards: Vec<Vec<u32>> = Vec::with_capacity(SHARDS);
        let mut next = BinaryHeap::with_capacity(SHARDS);
        let mut len = 0;
        for number in 0..SHARDS {
            let places = sorted_places(&map, number, &wanted);
            len += places.len();
            if let Some(&first) = places.last() {
                next.push(Reverse((*map.read(number).at(first).key(), number)));
            }
            shards.push(places);
        }
        Self { map, shards, next, len }
    }

    /// Entries still to come.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Bytes of memory that are taken for so many entries.
    pub const fn bytes_for(entries: usize) -> usize {
        // A shard's share of the sixteen bytes, twice as it may be larger than the others.
        entries * size_of::<u32>() + entries * size_of::<(u64, u32)>() * 2 / SHARDS
    }
}

/// The places of the wanted entries of a shard, from the largest key to the smallest.
fn sorted_places(map: &CoinMap, shard: usize, wanted: impl Fn(EntryRef<'_>) -> bool) -> Vec<u32> {
    let shard = map.read(shard);
    let mut places: Vec<(u64, u32)> = shard
        .places()
        .filter(|&place| wanted(shard.at(place)))
        .map(|place| (beginning(shard.at(place).key()), place))
        .collect();
    // The first eight bytes decide nearly always; for the rest the records are looked up.
    places.sort_unstable_by(|one, other| {
        let keys = |place| *shard.at(place).key();
        other.0.cmp(&one.0).then_with(|| keys(other.1).cmp(&keys(one.1)))
    });
    places.into_iter().map(|(_, place)| place).collect()
}

fn beginning(key: &OutpointKey) -> u64 {
    u64::from_be_bytes(std::array::from_fn(|place| key[place]))
}

impl Iterator for Ordered {
    type Item = (OutPoint, Option<Coin>);

    fn next(&mut self) -> Option<Self::Item> {
        let mut first = self.next.peek_mut()?;
        let Reverse((_, number)) = *first;
        let places = &mut self.shards[number];
        let place = places.pop()?;
        let shard = self.map.read(number);
        let entry = shard.at(place);
        let item = (entry.outpoint(), entry.coin());
        // Neighbours in this order lie anywhere in memory.
        if let Some(soon) = places.len().checked_sub(PREFETCH_AHEAD) {
            shard.prefetch_at(places[soon]);
        }
        match places.last() {
            Some(&place) => first.0.0 = *shard.at(place).key(),
            None => drop(PeekMut::pop(first)),
        }
        self.len -= 1;
        Some(item)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.len, Some(self.len))
    }
}
