//! A segment of the index: a table of words, sorted by hash, with gaps.
//!
//! A word is a hash (upper half) and the number of a record's slot (lower half). Each hash has a
//! *home*: the index in the table in proportion to its value. Words are sorted by their hashes, and
//! each is at its home or after it. So a search begins at the home, and ends at the first word that
//! is not smaller. For the same reason a table can be copied into a larger table from front to
//! back.
//!
//! # Bounds
//!
//! No word is more than [`DISTANCE_MAX`] after its home, and no hash has more than [`EQUAL_MAX`]
//! words. A word that would break a bound goes to the overflow, a sorted list. With hashes that an
//! attacker cannot foresee the overflow stays nearly empty. With a million hashes that collide
//! every search is still a binary search.
//!
//! The table grows by a quarter when [`LOAD_MAX_16`] sixteenths of it are used. It also grows when
//! a half-full table has no room for a word near its home. So collisions cannot make it grow
//! without end.

use super::overflow::Overflow;
use super::pool::{ALLOCATION_BYTES, NO_SLOT, RecordPool};
use super::record::has_key;
use super::word::{hash_of, slot_of, word};
use crate::key::OutpointKey;

/// Largest distance of a word from its home.
pub(crate) const DISTANCE_MAX: usize = 512;

/// Most words with one hash.
const EQUAL_MAX: usize = 16;

/// Sixteenths of the homes that may be used before the table grows.
const LOAD_MAX_16: usize = 14;

/// Words that a search compares at once: as many as a cache line holds.
const WORDS_AT_ONCE: usize = 8;

/// Cache lines that an insertion reads, most of the time: at 7/8 of its homes used, a table has its
/// next gap 32 words on, on average, and earlier as long as it is emptier.
const LINES_MOVED: usize = 3;

/// A gap. It is larger than every word, since no slot has the number `NO_SLOT`.
const GAP: u64 = word(u32::MAX, NO_SLOT);

/// The table takes words back from the overflow when it grows, if there are at most this many.
const REINSERT_MAX: usize = 64;

/// Words after the last home of a table, with one gap that always stays.
const fn tail(homes: usize) -> usize {
    let tail = 8 + homes / 16;
    if tail < DISTANCE_MAX {
        tail + 1
    } else {
        DISTANCE_MAX + 1
    }
}

/// The result of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SearchResult {
    /// A record has the key: its slot, and the index of its word in the table.
    InTable { index: usize, slot: u32 },
    /// A record has the key: its slot. Its word is in the overflow.
    InOverflow { slot: u32 },
    /// No record has the key: the index for a new word, and whether its hash has [`EQUAL_MAX`]
    /// words already.
    Absent { index: usize, crowded: bool },
}

/// Distances of words from their homes, in words.
#[cfg(test)]
#[derive(Debug, Default)]
pub(crate) struct IndexStatistics {
    /// Words in tables.
    pub(crate) words: usize,
    /// Words in overflows.
    pub(crate) overflowed: usize,
    pub(crate) homes: usize,
    /// Sum of the distances.
    pub(crate) distance_sum: usize,
    /// Largest distance.
    pub(crate) distance_max: usize,
}

#[derive(Debug, Default)]
pub(crate) struct IndexSegment {
    /// One word for each home, and the tail. The last word is always a gap. Empty if there are no
    /// homes.
    words: Vec<u64>,
    homes: u32,
    used: u32,
    overflow: Overflow,
}

impl IndexSegment {
    /// Memory in bytes, without the segment itself.
    #[inline]
    pub(crate) fn bytes(&self) -> usize {
        let table = self.words.capacity() * size_of::<u64>();
        let allocation = if table > 0 { ALLOCATION_BYTES } else { 0 };
        table + allocation + self.overflow.bytes()
    }

    #[inline]
    fn home(&self, hash: u32) -> usize {
        // In proportion to the hash, and always below `homes`.
        ((u64::from(hash) * u64::from(self.homes)) >> 32) as usize
    }

    /// The word at which a search for this hash begins.
    #[inline]
    pub(crate) fn first_word(&self, hash: u32) -> Option<&u64> {
        self.words.get(self.home(hash))
    }

    /// A word of each line of the table from there on, as far as an insertion usually moves words.
    #[inline]
    pub(crate) fn lines(&self, hash: u32) -> impl Iterator<Item = &u64> {
        let home = self.home(hash);
        let lines = (home..home + LINES_MOVED * WORDS_AT_ONCE).step_by(WORDS_AT_ONCE);
        lines.map_while(|index| self.words.get(index))
    }

    /// The index of the first word with this hash, or the index for a new word with it. Several
    /// words are compared without a branch for each: how many are smaller cannot be predicted, and
    /// a wrong guess would delay the searches after this one.
    #[inline]
    fn lower_bound(&self, hash: u32) -> usize {
        let mut index = self.home(hash);
        // A gap is larger than every hash, and after a gap come only words of later homes. So the
        // smaller words come first.
        while let Some(several) = self.words.get(index..index + WORDS_AT_ONCE) {
            let smaller: usize = several.iter().map(|&word| usize::from(hash_of(word) < hash)).sum();
            index += smaller;
            if smaller < WORDS_AT_ONCE {
                return index;
            }
        }
        while self.words.get(index).is_some_and(|&word| hash_of(word) < hash) {
            index += 1;
        }
        index
    }

    /// The slot of the first record with this hash. Its key is not compared.
    #[inline]
    pub(crate) fn candidate(&self, hash: u32) -> Option<u32> {
        let found = *self.words.get(self.lower_bound(hash))?;
        (hash_of(found) == hash && found != GAP).then(|| slot_of(found))
    }

    /// Searches for a key.
    #[inline]
    pub(crate) fn find(&self, hash: u32, key: &OutpointKey, pool: &RecordPool) -> SearchResult {
        let mut index = self.lower_bound(hash);
        let mut equal = 0;
        // The last word is a gap, so the loop ends inside of the table.
        while let Some(&word) = self.words.get(index)
            && hash_of(word) == hash
            && word != GAP
        {
            let slot = slot_of(word);
            if has_key(pool.at(slot), key) {
                return SearchResult::InTable { index, slot };
            }
            equal += 1;
            index += 1;
        }
        if !self.overflow.is_empty()
            && let Some(slot) = self.overflow.find(hash, key, pool)
        {
            return SearchResult::InOverflow { slot };
        }
        SearchResult::Absent {
            index,
            crowded: equal >= EQUAL_MAX,
        }
    }

    /// Adds the word of a record whose key was not found. `index` and `crowded` come from the
    /// search.
    #[inline]
    pub(crate) fn insert(&mut self, hash: u32, slot: u32, index: usize, crowded: bool, pool: &RecordPool) {
        if crowded {
            self.overflow.insert(word(hash, slot), pool);
            return;
        }
        let full = self.used as usize * 16 >= self.homes as usize * LOAD_MAX_16;
        if !full && self.insert_at(index, word(hash, slot)) {
            return;
        }
        self.insert_slow(hash, slot, full, pool);
    }

    #[cold]
    fn insert_slow(&mut self, hash: u32, slot: u32, full: bool, pool: &RecordPool) {
        let half_full = self.used * 2 >= self.homes;
        // A table that is less than half full is crowded by collisions, which no growth separates.
        if full || half_full {
            self.grow(pool);
        }
        let index = self.end_of(hash);
        if !self.insert_at(index, word(hash, slot)) {
            self.overflow.insert(word(hash, slot), pool);
        }
    }

    /// The index for a new word with this hash.
    fn end_of(&self, hash: u32) -> usize {
        let mut index = self.home(hash);
        while self
            .words
            .get(index)
            .is_some_and(|&word| hash_of(word) <= hash && word != GAP)
        {
            index += 1;
        }
        index
    }

    /// Inserts a word at an index, and moves the words from there to the next gap by one. Returns
    /// false, with nothing changed, if a word would be too far from its home.
    #[inline]
    fn insert_at(&mut self, index: usize, word: u64) -> bool {
        if index > self.home(hash_of(word)) + DISTANCE_MAX {
            return false;
        }
        let mut gap = index;
        while let Some(&other) = self.words.get(gap) {
            if other == GAP {
                break;
            }
            if gap >= self.home(hash_of(other)) + DISTANCE_MAX {
                return false;
            }
            gap += 1;
        }
        // The last gap stays.
        if gap + 1 >= self.words.len() {
            return false;
        }
        self.words.copy_within(index..gap, index + 1);
        self.words[index] = word;
        self.used += 1;
        true
    }

    /// Removes the word at an index of the table.
    pub(crate) fn remove_at(&mut self, mut index: usize) {
        while let Some(&next) = self.words.get(index + 1) {
            // A word never moves before its home.
            if next == GAP || self.home(hash_of(next)) > index {
                break;
            }
            self.words[index] = next;
            index += 1;
        }
        self.words[index] = GAP;
        self.used -= 1;
    }

    /// Removes a record's word from the overflow.
    pub(crate) fn remove_overflowed(&mut self, hash: u32, key: &OutpointKey, pool: &RecordPool) {
        self.overflow.remove(hash, key, pool);
    }

    /// Changes the slot of the word at an index.
    #[inline]
    pub(crate) fn replace_at(&mut self, index: usize, slot: u32) {
        self.words[index] = word(hash_of(self.words[index]), slot);
    }

    /// Changes the slot of a record whose word is in the overflow.
    pub(crate) fn replace_overflowed(&mut self, hash: u32, key: &OutpointKey, slot: u32, pool: &RecordPool) {
        self.overflow.replace(hash, key, slot, pool);
    }

    /// Grows the table by a quarter.
    #[cold]
    fn grow(&mut self, pool: &RecordPool) {
        self.grow_to(self.homes as usize + (self.homes as usize / 4).max(8), pool);
    }

    /// Makes room for more words, so that the table grows once for all of them.
    pub(crate) fn reserve(&mut self, more: usize, pool: &RecordPool) {
        let used = self.used as usize + more;
        if used * 16 > self.homes as usize * LOAD_MAX_16 {
            self.grow_to(used + used / 4, pool);
        }
    }

    fn grow_to(&mut self, homes: usize, pool: &RecordPool) {
        let larger = Self {
            words: vec![GAP; homes + tail(homes)],
            // A segment of 2^32 words would have records of 200 GiB.
            homes: homes as u32,
            used: 0,
            overflow: Overflow::default(),
        };
        let old = std::mem::replace(self, larger);
        self.overflow = old.overflow;
        // From front to back: each word goes to its home, or after the one before.
        let mut free = 0;
        for &word in old.words.iter().filter(|&&word| word != GAP) {
            let home = self.home(hash_of(word));
            let index = free.max(home);
            if index > home + DISTANCE_MAX || index + 1 >= self.words.len() {
                self.overflow.insert(word, pool);
                continue;
            }
            self.words[index] = word;
            self.used += 1;
            free = index + 1;
        }
        // A large overflow is an attack, or bad luck that stays: its words would not fit either.
        if self.overflow.len() <= REINSERT_MAX {
            for word in self.overflow.take() {
                let index = self.end_of(hash_of(word));
                // Words with one hash stand together, so the nearest ones are enough.
                let before = self.words[..index].iter().rev().take(EQUAL_MAX);
                let crowded = before.filter(|&&other| hash_of(other) == hash_of(word)).count() == EQUAL_MAX;
                if crowded || !self.insert_at(index, word) {
                    self.overflow.insert(word, pool);
                }
            }
        }
    }

    /// The words of all records, those of the table in the order of their hashes.
    pub(crate) fn words(&self) -> impl Iterator<Item = u64> {
        let words = self.words.iter().copied().filter(|&word| word != GAP);
        words.chain(self.overflow.words())
    }

    /// Adds the distances of this table.
    #[cfg(test)]
    pub(crate) fn add_statistics(&self, statistics: &mut IndexStatistics) {
        statistics.words += self.used as usize;
        statistics.overflowed += self.overflow.len();
        statistics.homes += self.homes as usize;
        for (index, &word) in self.words.iter().enumerate().filter(|&(_, &word)| word != GAP) {
            let distance = index - self.home(hash_of(word));
            statistics.distance_sum += distance;
            statistics.distance_max = statistics.distance_max.max(distance);
        }
    }

    /// Checks what the head of this file promises.
    #[cfg(test)]
    pub(crate) fn check(&self) {
        let words: Vec<u64> = self.words.iter().copied().filter(|&word| word != GAP).collect();
        assert_eq!(words.len(), self.used as usize);
        assert!(words.is_sorted_by_key(|&word| hash_of(word)));
        assert!(
            words
                .chunk_by(|a, b| hash_of(*a) == hash_of(*b))
                .all(|run| run.len() <= EQUAL_MAX)
        );
        assert!(self.words.last().is_none_or(|&word| word == GAP));
        for (index, &word) in self.words.iter().enumerate().filter(|&(_, &word)| word != GAP) {
            let home = self.home(hash_of(word));
            assert!((home..=home + DISTANCE_MAX).contains(&index));
            assert!(
                self.words[home..index].iter().all(|&other| other != GAP),
                "a search would end too early"
            );
        }
    }
}
