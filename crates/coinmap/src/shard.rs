//! A shard of the map: records in a pool, and the index over them in segments.
//!
//! Each segment has a table of its own, so that growth moves a small part of the shard at a time.

use super::pool::Pool;
use super::prefetch::prefetch;
use super::record::{CoinRef, Draft, EntryFlags, EntryRef, set_flags};
use super::segment::{Found, IndexStatistics, Segment};
use crate::key::{OutpointKey, outpoint_key};
use blockmill_block::OutPoint;

/// Bits of a hash that choose the shard: the highest. In fuzzing, where maps are small and many, few, so that entries meet.
pub(crate) const SHARD_BITS: u32 = if cfg!(fuzzing) { 1 } else { 6 };

/// Bits of a hash that choose the segment: those below.
const SEGMENT_BITS: u32 = if cfg!(fuzzing) { 1 } else { 4 };

const SEGMENTS: usize = 1 << SEGMENT_BITS;

/// Searches of a batch that are under way at once: enough to hide the way to memory, few enough for the processor's line buffers.
const WINDOW: usize = 16;

/// What becomes of an entry.
#[derive(Debug, Clone, Copy)]
pub enum Update<'a> {
    /// It stays, or stays absent.
    Keep,
    /// It gets other flags. Nothing happens if there is none.
    SetFlags(EntryFlags),
    /// It becomes this coin, or a spent marker.
    Put(EntryFlags, Option<CoinRef<'a>>),
    /// It goes.
    Remove,
}

#[derive(Debug, Default)]
pub(crate) struct Shard {
    pool: Pool,
    segments: [Segment; SEGMENTS],
    len: usize,
    /// Bytes of the tables of all segments.
    index_bytes: usize,
}

/// How memory and entries have changed.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Difference {
    pub(crate) bytes: isize,
    pub(crate) entries: isize,
}

const fn segment_of(hash: u64) -> usize {
    (hash << SHARD_BITS >> (64 - SEGMENT_BITS)) as usize
}

/// The bits that a segment sorts by.
const fn short(hash: u64) -> u32 {
    (hash << (SHARD_BITS + SEGMENT_BITS) >> 32) as u32
}

impl Shard {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

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
        match self.segments[segment_of(hash)].find(short(hash), key, &self.pool) {
            Found::InTable { place, .. } | Found::InOverflow { place } => Some(EntryRef::new(self.pool.at(place))),
            Found::Nowhere { .. } => None,
        }
    }

    /// Begins to bring the place in the index where a search begins into the caches.
    #[inline]
    pub(crate) fn prefetch_word(&self, hash: u64) {
        if let Some(word) = self.segments[segment_of(hash)].first_word(short(hash)) {
            prefetch(word);
        }
    }

    /// Begins to bring the record that a search will probably find into the caches.
    #[inline]
    pub(crate) fn prefetch_record(&self, hash: u64) {
        if let Some(place) = self.segments[segment_of(hash)].candidate(short(hash)) {
            self.prefetch_at(place);
        }
    }

    /// Begins to bring the record at a place into the caches.
    #[inline]
    pub(crate) fn prefetch_at(&self, place: u32) {
        let record = self.pool.at(place);
        prefetch(&record[0]);
        if let Some(behind) = record.get(64) {
            prefetch(behind);
        }
    }

    /// The entries of several outpoints: for each, the number that it was given with. All of one window are on their way through
    /// memory at the same time.
    pub(crate) fn get_many(
        &self,
        wanted: &[(u64, u32)],
        outpoints: &[OutPoint],
        mut found: impl FnMut(usize, Option<EntryRef<'_>>),
    ) {
        for window in wanted.chunks(WINDOW) {
            window.iter().for_each(|&(hash, _)| self.prefetch_word(hash));
            window.iter().for_each(|&(hash, _)| self.prefetch_record(hash));
            for &(hash, number) in window {
                let number = number as usize;
                found(number, self.get(hash, &outpoints[number]));
            }
        }
    }

    /// Lets `change` see the entry of an outpoint and say what becomes of it.
    #[inline]
    pub(crate) fn update<'a, R>(
        &mut self,
        hash: u64,
        outpoint: &OutPoint,
        change: impl FnOnce(Option<EntryRef<'_>>) -> (Update<'a>, R),
    ) -> (Difference, R) {
        let key = outpoint_key(outpoint);
        let found = self.segments[segment_of(hash)].find(short(hash), &key, &self.pool);
        let place = match found {
            Found::InTable { place, .. } | Found::InOverflow { place } => Some(place),
            Found::Nowhere { .. } => None,
        };
        let entry = place.map(|place| EntryRef::new(self.pool.at(place)));
        let old_length = entry.map_or(0, |entry| entry.length());
        let (update, result) = change(entry);
        let difference = match (update, place) {
            (Update::Keep, _) | (Update::SetFlags(_) | Update::Remove, None) => Difference::default(),
            (Update::SetFlags(flags), Some(place)) => {
                set_flags(self.pool.at_mut(place), flags);
                Difference::default()
            }
            (Update::Remove, Some(place)) => self.remove(hash, &key, found, place, old_length),
            (Update::Put(flags, coin), place) => self.put(hash, outpoint, found, place, old_length, flags, coin),
        };
        (difference, result)
    }

    #[expect(clippy::too_many_arguments, reason = "the one caller has all of it at hand")]
    #[inline]
    fn put(
        &mut self,
        hash: u64,
        outpoint: &OutPoint,
        found: Found,
        old: Option<u32>,
        old_length: usize,
        flags: EntryFlags,
        coin: Option<CoinRef<'_>>,
    ) -> Difference {
        let bytes_before = self.bytes();
        let draft = Draft::new(coin);
        let place = match old {
            Some(old) if Pool::same_size(old_length, draft.length()) => old,
            _ => self.pool.allocate(draft.length()),
        };
        draft.write(outpoint, flags, self.pool.at_mut(place));
        if old == Some(place) {
            return Difference::default();
        }
        let segment = &mut self.segments[segment_of(hash)];
        let segment_bytes = segment.bytes();
        match found {
            Found::InTable { at, .. } => segment.replace_at(at, place),
            Found::InOverflow { .. } => {
                segment.replace_overflowed(short(hash), &outpoint_key(outpoint), place, &self.pool)
            }
            Found::Nowhere { at, crowded } => {
                segment.insert(short(hash), place, at, crowded, &self.pool);
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

    fn remove(&mut self, hash: u64, key: &OutpointKey, found: Found, place: u32, length: usize) -> Difference {
        let bytes_before = self.bytes();
        let segment = &mut self.segments[segment_of(hash)];
        let segment_bytes = segment.bytes();
        match found {
            Found::InTable { at, .. } => segment.remove_at(at),
            _ => segment.remove_overflowed(short(hash), key, &self.pool),
        }
        self.index_bytes = self.index_bytes + segment.bytes() - segment_bytes;
        self.pool.release(place, length);
        self.len -= 1;
        Difference {
            bytes: self.bytes() as isize - bytes_before as isize,
            entries: -1,
        }
    }

    /// The entry at a place that [`places`](Self::places) gave.
    #[inline]
    pub(crate) fn at(&self, place: u32) -> EntryRef<'_> {
        EntryRef::new(self.pool.at(place))
    }

    /// Gives every entry the flags that `change` makes of it. Those of which it makes none are added to `gone`.
    pub(crate) fn retain_with_flags(
        &mut self,
        mut change: impl FnMut(EntryRef<'_>) -> Option<EntryFlags>,
        gone: &mut Vec<OutPoint>,
    ) {
        for place in self.segments.iter().flat_map(Segment::places) {
            let entry = EntryRef::new(self.pool.at(place));
            match change(entry) {
                Some(flags) => set_flags(self.pool.at_mut(place), flags),
                None => gone.push(entry.outpoint()),
            }
        }
    }

    /// Places of all records. They hold until the shard is changed.
    pub(crate) fn places(&self) -> impl Iterator<Item = u32> {
        self.segments.iter().flat_map(Segment::places)
    }

    pub(crate) fn add_statistics(&self, statistics: &mut IndexStatistics) {
        for segment in &self.segments {
            segment.add_statistics(statistics);
        }
    }

    /// Whether the index holds what its file says, and the counts are right.
    #[cfg(test)]
    pub(crate) fn check(&self) {
        self.segments.iter().for_each(Segment::check);
        assert_eq!(self.places().count(), self.len);
        assert_eq!(
            self.segments.iter().map(Segment::bytes).sum::<usize>(),
            self.index_bytes
        );
    }
}
