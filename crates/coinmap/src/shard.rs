//! A shard of the map: records in a pool, and the index over them in segments.
//!
//! Each segment has a table of its own. So growth moves a small part of the shard at a time.

use super::pool::RecordPool;
use super::prefetch::prefetch;
use super::record::{EntryFlags, EntryRef, NewRecord, key_of, set_flags};
#[cfg(test)]
use super::segment::IndexStatistics;
use super::segment::{IndexSegment, SearchResult};
use super::word::{hash_of, slot_of};
use crate::hash::HashedOutPoint;
use crate::key::{OutpointKey, outpoint_key};
use blockmill_block::{CoinRef, OutPoint};

/// Bits of a hash that choose the shard: the highest. Fuzzing has few shards and segments, since
/// its maps are small and many, and their entries should meet.
pub(crate) const SHARD_BITS: u32 = if cfg!(fuzzing) { 1 } else { 6 };

/// Bits of a hash that choose the segment: the bits below those of the shard.
const SEGMENT_BITS: u32 = if cfg!(fuzzing) { 1 } else { 4 };

pub(crate) const SEGMENTS: usize = 1 << SEGMENT_BITS;

/// Searches of a batch that overlap. The number is large enough to hide the latency of memory, and
/// small enough for the processor's line fill buffers.
const WINDOW: usize = 16;

/// How far ahead of a walk over all records they are prefetched.
const WORDS_AHEAD: usize = 16;

/// What [`update`](crate::CoinMap::update) does with an entry.
#[derive(Debug, Clone, Copy)]
pub enum Update<'a> {
    /// Nothing.
    Keep,
    /// Sets other flags. Does nothing if there is no entry.
    SetFlags(EntryFlags),
    /// Inserts a coin or a spent marker, or replaces the entry by it.
    Put(EntryFlags, Option<CoinRef<'a>>),
    /// Removes the entry, if there is one.
    Remove,
}

#[derive(Debug, Default)]
pub(crate) struct Shard {
    pool: RecordPool,
    segments: [IndexSegment; SEGMENTS],
    len: usize,
    /// Memory of the tables of all segments in bytes.
    index_bytes: usize,
}

/// The change of memory and number of entries.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Difference {
    pub(crate) bytes: isize,
    pub(crate) entries: isize,
}

const fn segment_of(hash: u64) -> usize {
    (hash << SHARD_BITS >> (64 - SEGMENT_BITS)) as usize
}

/// The bits of a hash by which a segment sorts.
const fn segment_hash(hash: u64) -> u32 {
    (hash << (SHARD_BITS + SEGMENT_BITS) >> 32) as u32
}

impl Shard {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(crate) fn bytes(&self) -> usize {
        self.pool.bytes() + self.index_bytes
    }

    /// The entry of an outpoint.
    #[inline]
    pub(crate) fn get(&self, hash: u64, outpoint: &OutPoint) -> Option<EntryRef<'_>> {
        self.get_by_key(hash, &outpoint_key(outpoint))
    }

    #[inline]
    fn get_by_key(&self, hash: u64, key: &OutpointKey) -> Option<EntryRef<'_>> {
        match self.segments[segment_of(hash)].find(segment_hash(hash), key, &self.pool) {
            SearchResult::InTable { slot, .. } | SearchResult::InOverflow { slot } => {
                Some(EntryRef::new(self.pool.at(slot)))
            }
            SearchResult::Absent { .. } => None,
        }
    }

    /// Starts loading the word of the index at which a search begins.
    #[inline]
    pub(crate) fn prefetch_word(&self, hash: u64) {
        if let Some(word) = self.segments[segment_of(hash)].first_word(segment_hash(hash)) {
            prefetch(word);
        }
    }

    /// Starts loading the words of the index that an insertion will probably move.
    #[inline]
    pub(crate) fn prefetch_insertion(&self, hash: u64) {
        self.segments[segment_of(hash)]
            .lines(segment_hash(hash))
            .for_each(prefetch);
    }

    /// Starts loading the record that a search will probably find. Returns whether there is one.
    #[inline]
    pub(crate) fn prefetch_record(&self, hash: u64) -> bool {
        let candidate = self.segments[segment_of(hash)].candidate(segment_hash(hash));
        if let Some(slot) = candidate {
            self.prefetch_at(slot);
        }
        candidate.is_some()
    }

    /// Starts loading the record in a slot.
    #[inline]
    pub(crate) fn prefetch_at(&self, slot: u32) {
        let record = self.pool.at(slot);
        prefetch(&record[0]);
        // A line has 64 bytes, and a usual record 72.
        if let Some(second_line) = record.get(64) {
            prefetch(second_line);
        }
    }

    /// Calls `found` with the entries of those of the outpoints that have these numbers. The
    /// searches of one window overlap.
    pub(crate) fn get_many(
        &self,
        numbers: &[u32],
        outpoints: &[HashedOutPoint],
        mut found: impl FnMut(usize, Option<EntryRef<'_>>),
    ) {
        let at = |number: &u32| &outpoints[*number as usize];
        for window in numbers.chunks(WINDOW) {
            for number in window {
                self.prefetch_word(at(number).hash());
            }
            for number in window {
                self.prefetch_record(at(number).hash());
            }
            for number in window {
                found(*number as usize, self.get(at(number).hash(), at(number).outpoint()));
            }
        }
    }

    /// Calls `change` with the entry of an outpoint, and does what `change` returns.
    #[inline]
    pub(crate) fn update<'a, R>(
        &mut self,
        hash: u64,
        outpoint: &OutPoint,
        change: impl FnOnce(Option<EntryRef<'_>>) -> (Update<'a>, R),
    ) -> (Difference, R) {
        let key = outpoint_key(outpoint);
        let found = self.segments[segment_of(hash)].find(segment_hash(hash), &key, &self.pool);
        let slot = match found {
            SearchResult::InTable { slot, .. } | SearchResult::InOverflow { slot } => Some(slot),
            SearchResult::Absent { .. } => None,
        };
        let entry = slot.map(|slot| EntryRef::new(self.pool.at(slot)));
        let old_length = entry.map_or(0, |entry| entry.length());
        let (update, result) = change(entry);
        let difference = match (update, slot) {
            (Update::Keep, _) | (Update::SetFlags(_) | Update::Remove, None) => Difference::default(),
            (Update::SetFlags(flags), Some(slot)) => {
                set_flags(self.pool.at_mut(slot), flags);
                Difference::default()
            }
            (Update::Remove, Some(slot)) => self.remove(hash, &key, found, slot, old_length),
            (Update::Put(flags, coin), slot) => self.put(hash, outpoint, found, slot, old_length, flags, coin),
        };
        (difference, result)
    }

    #[expect(clippy::too_many_arguments, reason = "the one caller has all of it at hand")]
    #[inline]
    fn put(
        &mut self,
        hash: u64,
        outpoint: &OutPoint,
        found: SearchResult,
        old: Option<u32>,
        old_length: usize,
        flags: EntryFlags,
        coin: Option<CoinRef<'_>>,
    ) -> Difference {
        let bytes_before = self.bytes();
        let record = NewRecord::new(coin);
        let slot = match old {
            Some(old) if RecordPool::same_size(old_length, record.length()) => old,
            // The old slot is freed at the end: its record may be what the caller copies.
            _ => self.pool.allocate(record.length()),
        };
        record.write(outpoint, flags, self.pool.at_mut(slot));
        if old == Some(slot) {
            return Difference::default();
        }
        let segment = &mut self.segments[segment_of(hash)];
        let segment_bytes = segment.bytes();
        match found {
            SearchResult::InTable { index, .. } => segment.replace_at(index, slot),
            SearchResult::InOverflow { .. } => {
                segment.replace_overflowed(segment_hash(hash), &outpoint_key(outpoint), slot, &self.pool)
            }
            SearchResult::Absent { index, crowded } => {
                segment.insert(segment_hash(hash), slot, index, crowded, &self.pool);
                self.len += 1;
            }
        }
        self.index_bytes = self.index_bytes + segment.bytes() - segment_bytes;
        if let Some(old) = old {
            self.pool.release(old, old_length);
        }
        Difference {
            bytes: self.bytes() as isize - bytes_before as isize,
            entries: isize::from(old.is_none()),
        }
    }

    fn remove(&mut self, hash: u64, key: &OutpointKey, found: SearchResult, slot: u32, length: usize) -> Difference {
        let bytes_before = self.bytes();
        let segment = &mut self.segments[segment_of(hash)];
        let segment_bytes = segment.bytes();
        match found {
            SearchResult::InTable { index, .. } => segment.remove_at(index),
            _ => segment.remove_overflowed(segment_hash(hash), key, &self.pool),
        }
        self.index_bytes = self.index_bytes + segment.bytes() - segment_bytes;
        self.pool.release(slot, length);
        self.len -= 1;
        Difference {
            bytes: self.bytes() as isize - bytes_before as isize,
            entries: -1,
        }
    }

    /// The entry in a slot, which [`for_each_slot`](Self::for_each_slot) found.
    #[inline]
    pub(crate) fn entry_at(&self, slot: u32) -> EntryRef<'_> {
        EntryRef::new(self.pool.at(slot))
    }

    /// Gives every entry the flags that `change` returns. Entries for which it returns none are
    /// added to `removed`.
    pub(crate) fn retain_with_flags(
        &mut self,
        mut change: impl FnMut(EntryRef<'_>) -> Option<EntryFlags>,
        removed: &mut Vec<OutPoint>,
    ) {
        for slot in self.segments.iter().flat_map(IndexSegment::words).map(slot_of) {
            let entry = EntryRef::new(self.pool.at(slot));
            match change(entry) {
                Some(flags) => set_flags(self.pool.at_mut(slot), flags),
                None => removed.push(entry.outpoint()),
            }
        }
    }

    /// Calls `visit` with all slots.
    pub(crate) fn for_each_slot(&self, mut visit: impl FnMut(u32)) {
        self.prefetched(self.segments.iter().flat_map(IndexSegment::words), |word| {
            visit(slot_of(word))
        });
    }

    /// Calls `visit` with all words of a segment, in the order of their hashes.
    pub(crate) fn for_each_word(&self, segment: usize, visit: impl FnMut(u64)) {
        self.prefetched(self.segments[segment].words(), visit);
    }

    /// Calls `visit` with these words. Their records lie anywhere in memory, and are prefetched.
    fn prefetched(&self, words: impl Iterator<Item = u64>, mut visit: impl FnMut(u64)) {
        let mut ahead = [0; WORDS_AHEAD];
        let mut count = 0;
        for word in words {
            self.prefetch_at(slot_of(word));
            let ready = std::mem::replace(&mut ahead[count % WORDS_AHEAD], word);
            if count >= WORDS_AHEAD {
                visit(ready);
            }
            count += 1;
        }
        // The last words still wait for their turn.
        for number in count.saturating_sub(WORDS_AHEAD)..count {
            visit(ahead[number % WORDS_AHEAD]);
        }
    }

    /// Copies entries of another shard that this one has no entry of, with other flags. `chosen`
    /// has their words in one segment, in the order of their hashes.
    pub(crate) fn adopt(&mut self, number: usize, from: &Self, chosen: &[(u64, EntryFlags)]) -> Difference {
        let (bytes_before, len_before) = (self.bytes(), self.len);
        let (segment, pool) = (&mut self.segments[number], &mut self.pool);
        let segment_bytes = segment.bytes();
        // Words that come in order would crowd together in a table that is too small for all.
        segment.reserve(chosen.len(), pool);
        for &(word, flags) in chosen {
            let (hash, record) = (hash_of(word), from.pool.at(slot_of(word)));
            let SearchResult::Absent { index, crowded } = segment.find(hash, key_of(record), pool) else {
                continue;
            };
            let length = EntryRef::new(record).length();
            let slot = pool.allocate(length);
            let copy = pool.at_mut(slot);
            copy[..length].copy_from_slice(&record[..length]);
            set_flags(copy, flags);
            segment.insert(hash, slot, index, crowded, pool);
            self.len += 1;
        }
        self.index_bytes = self.index_bytes + segment.bytes() - segment_bytes;
        Difference {
            bytes: self.bytes() as isize - bytes_before as isize,
            entries: self.len as isize - len_before as isize,
        }
    }

    #[cfg(test)]
    pub(crate) fn add_statistics(&self, statistics: &mut IndexStatistics) {
        for segment in &self.segments {
            segment.add_statistics(statistics);
        }
    }

    /// Checks the index and the counts.
    #[cfg(test)]
    pub(crate) fn check(&self) {
        self.segments.iter().for_each(IndexSegment::check);
        assert_eq!(self.segments.iter().flat_map(IndexSegment::words).count(), self.len);
        assert_eq!(
            self.segments.iter().map(IndexSegment::bytes).sum::<usize>(),
            self.index_bytes
        );
    }
}
