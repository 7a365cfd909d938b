//! Entries of a map in the order of their keys, as a store needs them.
//!
//! One pass over the map deals the wanted entries out to parts, by the first bits of their keys. A
//! part is sorted when it is visited, so several threads may sort and visit parts at once. An entry
//! takes eight bytes: the next bits of its key, its shard, its slot.

use super::record::EntryRef;
use super::shard::Shard;
use super::{CoinMap, SHARDS};
use crate::key::{OutpointKey, outpoint_from_key};
use std::sync::{Arc, RwLockReadGuard};

/// Entries of a part, about.
const PART_ENTRIES: usize = 1 << 13;

/// Most bits of a key that choose its part.
const PART_BITS_MAX: u32 = 12;

/// Bits of a word for the shard and the slot.
const SLOT_BITS: u32 = 38;

/// An entry is prefetched this many entries in advance.
const PREFETCH_AHEAD: usize = 16;

const _: () = assert!(SHARDS <= 1 << (SLOT_BITS - u32::BITS));

/// Chosen entries of a map, sorted by key: parts, each above the one before.
///
/// The map must not change until this is dropped. If it does, entries may be wrong, or
/// [`visit`](Self::visit) may panic.
pub struct SortedEntries {
    map: Arc<CoinMap>,
    /// For each part the words of its entries, in no order.
    parts: Vec<Vec<u64>>,
    len: usize,
}

impl SortedEntries {
    /// The entries for which `wanted` returns true, `expected` of them, about.
    pub fn new(map: Arc<CoinMap>, expected: usize, mut wanted: impl FnMut(EntryRef<'_>) -> bool) -> Self {
        let bits = (expected / PART_ENTRIES)
            .checked_ilog2()
            .map_or(0, |bits| (bits + 1).min(PART_BITS_MAX));
        let share = expected >> bits;
        // Ids are spread evenly, and so are the entries, unless someone has chosen ids.
        // Parts differ by chance. A part that grows would move all of its words.
        let capacity = share + share / 16;
        let mut parts: Vec<Vec<u64>> = (0..1 << bits).map(|_| Vec::with_capacity(capacity)).collect();
        let mut len = 0;
        for number in 0..SHARDS {
            let shard = map.read(number);
            shard.for_each_slot(|slot| {
                let entry = shard.entry_at(slot);
                if wanted(entry) {
                    // With a single part the shift below is by 64 bits, which `checked_shr`
                    // refuses.
                    let prefix = key_prefix(entry.key());
                    let part = prefix.checked_shr(u64::BITS - bits).unwrap_or(0);
                    parts[part as usize].push(word(prefix << bits, number, slot));
                    len += 1;
                }
            });
        }
        Self { map, parts, len }
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Number of parts.
    pub fn parts(&self) -> usize {
        self.parts.len()
    }

    /// Calls `each` with the entries of a part, from the smallest key to the largest.
    ///
    /// # Panics
    /// If `part` is not below [`parts`](Self::parts).
    pub fn visit(&self, part: usize, mut each: impl FnMut(EntryRef<'_>)) {
        let shards: Vec<RwLockReadGuard<'_, Shard>> = (0..SHARDS).map(|shard| self.map.read(shard)).collect();
        let key = |word: &u64| -> OutpointKey { *shards[shard_of(*word)].entry_at(slot_of(*word)).key() };
        // A part may be visited again: a commit may go through all changes twice.
        let mut words = self.parts[part].clone();
        words.sort_unstable();
        let mut outputs: Vec<(u32, u64)> = Vec::new();
        for same in words.chunk_by_mut(|one, other| one >> SLOT_BITS == other >> SLOT_BITS) {
            if same.len() > 1 {
                for &word in &*same {
                    shards[shard_of(word)].prefetch_at(slot_of(word));
                }
                // Outputs of one transaction, as a rule: their numbers alone differ.
                let txid = outpoint_from_key(&key(&same[0])).txid;
                outputs.clear();
                outputs.extend(same.iter().map_while(|word| {
                    let outpoint = outpoint_from_key(&key(word));
                    (outpoint.txid == txid).then_some((outpoint.vout, *word))
                }));
                // Two ids begin with the same bytes.
                if outputs.len() < same.len() {
                    same.sort_unstable_by_key(key);
                    continue;
                }
                outputs.sort_unstable();
                for (word, &(_, sorted)) in same.iter_mut().zip(&outputs) {
                    *word = sorted;
                }
            }
        }
        for (index, &word) in words.iter().enumerate() {
            // Neighbours in this order lie anywhere in memory.
            if let Some(&soon) = words.get(index + PREFETCH_AHEAD) {
                shards[shard_of(soon)].prefetch_at(slot_of(soon));
            }
            each(shards[shard_of(word)].entry_at(slot_of(word)));
        }
    }

    /// Memory in bytes for this number of entries.
    pub const fn bytes_for(entries: usize) -> usize {
        (entries + entries / 16) * size_of::<u64>()
    }
}

const fn word(prefix: u64, shard: usize, slot: u32) -> u64 {
    prefix >> SLOT_BITS << SLOT_BITS | (shard as u64) << u32::BITS | slot as u64
}

const fn shard_of(word: u64) -> usize {
    (word >> u32::BITS) as usize & ((1 << (SLOT_BITS - u32::BITS)) - 1)
}

const fn slot_of(word: u64) -> u32 {
    word as u32
}

fn key_prefix(key: &OutpointKey) -> u64 {
    u64::from_be_bytes(std::array::from_fn(|slot| key[slot]))
}
