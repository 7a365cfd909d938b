//! A segment of the index: a table of words, and what it has no room for.
//!
//! # Bounds
//!
//! No word of the table is more than [`DISTANCE_MAX`](Shape::DISTANCE_MAX) after its home, and no
//! hash has more than [`EQUAL_MAX`] words there. A word that would break a bound goes to the overflow,
//! a sorted list. With hashes that an attacker cannot foresee the overflow stays nearly empty. With a
//! million hashes that collide every search is still a binary search.
//!
//! The table grows by a quarter when it is full. It also grows when a half-full table has no room for
//! a word near its home. So collisions cannot make it grow without end.

use super::overflow::Overflow;
use super::pool::{ALLOCATION_BYTES, RecordPool};
use super::record::has_key;
use super::word::{hash_of, slot_of, word};
use crate::key::OutpointKey;
use blockmill_wordtable::{Insertion, Shape, WordTable};

/// Most words with one hash.
const EQUAL_MAX: usize = 16;

/// Cache lines that an insertion reads, most of the time: at 7/8 of its homes used, a table has its
/// next gap 32 words on, on average, and earlier as long as it is emptier.
const LINES_MOVED: usize = 3;

/// The table takes words back from the overflow when it grows, if there are at most this many.
const REINSERT_MAX: usize = 64;

/// Searches read one line, most of the time.
#[derive(Debug)]
struct Roomy;

impl Shape for Roomy {
    const FREE_SHARE: usize = 8;
    const GROWTH_SHARE: usize = 4;
    const SPARE_SHARE: usize = 4;
    const DISTANCE_MAX: usize = 512;
}

/// The result of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SearchResult {
    /// A record has the key: its slot.
    InTable { slot: u32 },
    /// A record has the key: its slot. Its word is in the overflow.
    InOverflow { slot: u32 },
    /// No record has the key. Whether its hash has [`EQUAL_MAX`] words already.
    Absent { crowded: bool },
}

/// Distances of words from their homes, in words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct IndexStatistics {
    /// Words in tables.
    pub words: usize,
    /// Words in overflows.
    pub overflowed: usize,
    /// Homes.
    pub homes: usize,
    /// Sum of the distances.
    pub distance_sum: usize,
    /// Largest distance.
    pub distance_max: usize,
}

#[derive(Debug, Default)]
pub(crate) struct IndexSegment {
    table: WordTable<Roomy>,
    overflow: Overflow,
}

impl IndexSegment {
    /// Memory in bytes, without the segment itself.
    #[inline]
    pub(crate) fn bytes(&self) -> usize {
        self.table.bytes() + self.table.allocations() * ALLOCATION_BYTES + self.overflow.bytes()
    }

    /// Starts loading the word at which a search for this hash begins.
    #[inline]
    pub(crate) fn prefetch_word(&self, hash: u32) {
        self.table.prefetch(hash, 1);
    }

    /// Starts loading the words that an insertion usually moves.
    #[inline]
    pub(crate) fn prefetch_insertion(&self, hash: u32) {
        self.table.prefetch(hash, LINES_MOVED);
    }

    /// The slot of the first record with this hash. Its key is not compared.
    #[inline]
    pub(crate) fn candidate(&self, hash: u32) -> Option<u32> {
        self.table.with_tag(hash).next().map(slot_of)
    }

    /// Searches for a key.
    #[inline]
    pub(crate) fn find(&self, hash: u32, key: &OutpointKey, pool: &RecordPool) -> SearchResult {
        let mut equal = 0;
        for slot in self.table.with_tag(hash).map(slot_of) {
            if has_key(pool.at(slot), key) {
                return SearchResult::InTable { slot };
            }
            equal += 1;
        }
        if !self.overflow.is_empty()
            && let Some(slot) = self.overflow.find(hash, key, pool)
        {
            return SearchResult::InOverflow { slot };
        }
        SearchResult::Absent {
            crowded: equal >= EQUAL_MAX,
        }
    }

    /// Adds the word of a record whose key was not found. `crowded` comes from the search.
    #[inline]
    pub(crate) fn insert(&mut self, hash: u32, slot: u32, crowded: bool, pool: &RecordPool) {
        let word = word(hash, slot);
        if crowded {
            self.overflow.insert(word, pool);
            return;
        }
        let outcome = self.table.insert(word);
        if outcome != Insertion::Inserted {
            self.insert_slow(word, outcome == Insertion::Full, pool);
        }
    }

    #[cold]
    fn insert_slow(&mut self, word: u64, full: bool, pool: &RecordPool) {
        // A table that is less than half full is crowded by collisions, which no growth separates.
        if full || self.table.len() * 2 >= self.table.homes() {
            let too_far = self.table.grow();
            self.after_growth(too_far, pool);
        }
        if self.table.insert(word) != Insertion::Inserted {
            self.overflow.insert(word, pool);
        }
    }

    /// Removes the word of a record in a slot.
    #[inline]
    pub(crate) fn remove(&mut self, hash: u32, slot: u32) {
        self.table.remove(word(hash, slot));
    }

    /// Removes a record's word from the overflow.
    pub(crate) fn remove_overflowed(&mut self, hash: u32, key: &OutpointKey, pool: &RecordPool) {
        self.overflow.remove(hash, key, pool);
    }

    /// Changes the slot of a record.
    #[inline]
    pub(crate) fn replace(&mut self, hash: u32, from: u32, to: u32, pool: &RecordPool) {
        if !self.table.replace(word(hash, from), word(hash, to)) {
            self.remove(hash, from);
            self.insert(hash, to, false, pool);
        }
    }

    /// Changes the slot of a record whose word is in the overflow.
    pub(crate) fn replace_overflowed(&mut self, hash: u32, key: &OutpointKey, slot: u32, pool: &RecordPool) {
        self.overflow.replace(hash, key, slot, pool);
    }

    /// Makes room for more words, so that the table grows once for all of them.
    pub(crate) fn reserve(&mut self, more: usize, pool: &RecordPool) {
        let too_far = self.table.reserve(more);
        self.after_growth(too_far, pool);
    }

    fn after_growth(&mut self, too_far: Vec<u64>, pool: &RecordPool) {
        for word in too_far {
            self.overflow.insert(word, pool);
        }
        // A large overflow is an attack, or bad luck that stays: its words would not fit either.
        if self.overflow.len() <= REINSERT_MAX {
            for word in self.overflow.take() {
                let crowded = self.table.with_tag(hash_of(word)).take(EQUAL_MAX).count() == EQUAL_MAX;
                if crowded || self.table.insert(word) != Insertion::Inserted {
                    self.overflow.insert(word, pool);
                }
            }
        }
    }

    /// The words of all records, those of the table in the order of their hashes.
    pub(crate) fn words(&self) -> impl Iterator<Item = u64> {
        self.table.iter().chain(self.overflow.words())
    }

    /// Adds the distances of this table.
    pub(crate) fn add_statistics(&self, statistics: &mut IndexStatistics) {
        let distances = self.table.distances();
        statistics.words += self.table.len();
        statistics.overflowed += self.overflow.len();
        statistics.homes += self.table.homes();
        statistics.distance_sum += distances.sum;
        statistics.distance_max = statistics.distance_max.max(distances.max);
    }

    /// Checks what the head of this file promises.
    #[cfg(test)]
    pub(crate) fn check(&self) {
        let words: Vec<u64> = self.table.iter().collect();
        assert_eq!(words.len(), self.table.len());
        assert!(words.is_sorted());
        let runs = words.chunk_by(|one, other| hash_of(*one) == hash_of(*other));
        assert!(runs.into_iter().all(|run| run.len() <= EQUAL_MAX));
        assert!(self.table.distances().max <= Roomy::DISTANCE_MAX);
        for word in words {
            let mut found = self.table.with_tag(hash_of(word));
            assert!(found.any(|other| other == word), "a search would end too early");
        }
    }
}
