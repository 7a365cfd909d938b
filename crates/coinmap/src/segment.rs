//! A piece of the index: a table of words, sorted by hash, with gaps.
//!
//! A word is a hash (upper half) and the place of a record (lower half). Each hash has a *home*, the part of the table that
//! its value is of all values; the words stand in the order of their hashes, at their homes or behind them. So a search begins at
//! the home and ends at the first word that is not smaller, found or not; and a table can be copied into a larger one
//! from front to back.
//!
//! # Bounds
//!
//! No word stands more than [`DISTANCE_MAX`] behind its home, and no hash has more than [`EQUAL_MAX`] words: what would break
//! this goes to the overflow, a sorted list. With hashes that nobody can foresee hardly anything does; with a million that collide
//! every search is still a binary one. The table grows by a quarter, when it is full to [`FULL_OF_16`] sixteenths, or when a
//! word finds no place though it is half full: so who makes collisions cannot make it grow without end.

use super::overflow::Overflow;
use super::pool::{ALLOCATION_BYTES, NOWHERE, Pool};
use super::record::has_key;
use crate::key::OutpointKey;

/// Farthest from its home that a word may stand.
pub(crate) const DISTANCE_MAX: usize = 512;

/// Most words with one hash.
const EQUAL_MAX: usize = 16;

/// Sixteenths of the homes that may be taken before the table grows.
const FULL_OF_16: usize = 14;

/// Words that a search compares at once: a line of the cache has as many.
const WORDS_AT_ONCE: usize = 8;

/// A gap. It is larger than each word, as no record lies at the last place.
const GAP: u64 = word(u32::MAX, NOWHERE);

/// Most words of the overflow that are put into the table when it grows.
const TAKEN_BACK_MAX: usize = 64;

pub(crate) const fn hash_of(word: u64) -> u32 {
    (word >> 32) as u32
}

pub(crate) const fn place_of(word: u64) -> u32 {
    word as u32
}

pub(crate) const fn word(hash: u32, place: u32) -> u64 {
    (hash as u64) << 32 | place as u64
}

/// Words for the end of a table of so many homes, and one gap that always stays.
const fn tail(homes: usize) -> usize {
    let tail = 8 + homes / 16;
    if tail < DISTANCE_MAX {
        tail + 1
    } else {
        DISTANCE_MAX + 1
    }
}

/// Where a search has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// A record has the key: its place, and that of its word in the table.
    InTable { at: usize, place: u32 },
    /// The same, with its word in the overflow.
    InOverflow { place: u32 },
    /// None has it: where its word would stand, and whether its hash has too many already.
    Nowhere { at: usize, crowded: bool },
}

/// Distances of words from their homes.
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
pub(crate) struct Segment {
    /// As many as there are homes, and the tail; the last is always a gap. Empty without homes.
    words: Vec<u64>,
    homes: u32,
    used: u32,
    overflow: Overflow,
}

impl Segment {
    /// Bytes of memory beside the segment itself.
    pub(crate) fn bytes(&self) -> usize {
        let table = self.words.capacity() * size_of::<u64>();
        let allocation = if table > 0 { ALLOCATION_BYTES } else { 0 };
        table + allocation + self.overflow.bytes()
    }

    #[inline]
    fn home(&self, hash: u32) -> usize {
        ((u64::from(hash) * u64::from(self.homes)) >> 32) as usize
    }

    /// Where a search for this hash begins to read.
    #[inline]
    pub(crate) fn first_word(&self, hash: u32) -> Option<&u64> {
        self.words.get(self.home(hash))
    }

    /// Where the words with this hash begin, or would begin. Of several words none is looked at by a branch of its own: how many are
    /// smaller cannot be foreseen, and a wrong guess would keep the processor from the searches behind this one.
    #[inline]
    fn lower_bound(&self, hash: u32) -> usize {
        let mut at = self.home(hash);
        // A gap is larger than all hashes, and behind one stand only words of later homes: so those that are smaller come first.
        while let Some(several) = self.words.get(at..at + WORDS_AT_ONCE) {
            let smaller: usize = several.iter().map(|&word| usize::from(hash_of(word) < hash)).sum();
            at += smaller;
            if smaller < WORDS_AT_ONCE {
                return at;
            }
        }
        while self.words.get(at).is_some_and(|&word| hash_of(word) < hash) {
            at += 1;
        }
        at
    }

    /// The place of the first record with this hash, without a look at its key.
    #[inline]
    pub(crate) fn candidate(&self, hash: u32) -> Option<u32> {
        let found = *self.words.get(self.lower_bound(hash))?;
        (hash_of(found) == hash && found != GAP).then(|| place_of(found))
    }

    /// Searches a key.
    #[inline]
    pub(crate) fn find(&self, hash: u32, key: &OutpointKey, pool: &Pool) -> Found {
        let mut at = self.lower_bound(hash);
        let mut equal = 0;
        // The last word is a gap, so this ends inside of the table.
        while let Some(&word) = self.words.get(at)
            && hash_of(word) == hash
            && word != GAP
        {
            let place = place_of(word);
            if has_key(pool.at(place), key) {
                return Found::InTable { at, place };
            }
            equal += 1;
            at += 1;
        }
        if !self.overflow.is_empty()
            && let Some(place) = self.overflow.find(hash, key, pool)
        {
            return Found::InOverflow { place };
        }
        Found::Nowhere {
            at,
            crowded: equal >= EQUAL_MAX,
        }
    }

    /// Adds the word of a record whose key was not found: `at` and `crowded` are what the search said.
    #[inline]
    pub(crate) fn insert(&mut self, hash: u32, place: u32, at: usize, crowded: bool, pool: &Pool) {
        if crowded {
            self.overflow.insert(word(hash, place), pool);
            return;
        }
        let full = self.used as usize * 16 >= self.homes as usize * FULL_OF_16;
        if !full && self.insert_at(at, word(hash, place)) {
            return;
        }
        self.insert_slow(hash, place, full, pool);
    }

    #[cold]
    fn insert_slow(&mut self, hash: u32, place: u32, full: bool, pool: &Pool) {
        let half_full = self.used * 2 >= self.homes;
        if full || half_full {
            self.grow(pool);
        }
        let at = self.end_of(hash);
        if !self.insert_at(at, word(hash, place)) {
            self.overflow.insert(word(hash, place), pool);
        }
    }

    /// Where a word with this hash would stand.
    fn end_of(&self, hash: u32) -> usize {
        let mut at = self.home(hash);
        while self
            .words
            .get(at)
            .is_some_and(|&word| hash_of(word) <= hash && word != GAP)
        {
            at += 1;
        }
        at
    }

    /// Puts a word at its place, and those behind it one farther, up to the next gap. Returns false, with nothing done, if one
    /// would stand too far from its home.
    #[inline]
    fn insert_at(&mut self, at: usize, word: u64) -> bool {
        if at > self.home(hash_of(word)) + DISTANCE_MAX {
            return false;
        }
        let mut gap = at;
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
        self.words.copy_within(at..gap, at + 1);
        self.words[at] = word;
        self.used += 1;
        true
    }

    /// Removes the word at a place of the table.
    pub(crate) fn remove_at(&mut self, mut at: usize) {
        while let Some(&next) = self.words.get(at + 1) {
            if next == GAP || self.home(hash_of(next)) > at {
                break;
            }
            self.words[at] = next;
            at += 1;
        }
        self.words[at] = GAP;
        self.used -= 1;
    }

    /// Removes a record's word from the overflow.
    pub(crate) fn remove_overflowed(&mut self, hash: u32, key: &OutpointKey, pool: &Pool) {
        self.overflow.remove(hash, key, pool);
    }

    /// Gives a record another place.
    #[inline]
    pub(crate) fn replace_at(&mut self, at: usize, place: u32) {
        self.words[at] = word(hash_of(self.words[at]), place);
    }

    /// Gives a record whose word is in the overflow another place.
    pub(crate) fn replace_overflowed(&mut self, hash: u32, key: &OutpointKey, place: u32, pool: &Pool) {
        self.overflow.replace(hash, key, place, pool);
    }

    /// Makes the table a quarter larger.
    #[cold]
    fn grow(&mut self, pool: &Pool) {
        let homes = self.homes as usize + (self.homes as usize / 4).max(8);
        let larger = Self {
            words: vec![GAP; homes + tail(homes)],
            // A segment of 2^32 words would have records of 200 GiB.
            homes: homes as u32,
            used: 0,
            overflow: Overflow::default(),
        };
        let old = std::mem::replace(self, larger);
        self.overflow = old.overflow;
        let mut free = 0;
        for &word in old.words.iter().filter(|&&word| word != GAP) {
            let home = self.home(hash_of(word));
            let at = free.max(home);
            if at > home + DISTANCE_MAX || at + 1 >= self.words.len() {
                self.overflow.insert(word, pool);
                continue;
            }
            self.words[at] = word;
            self.used += 1;
            free = at + 1;
        }
        if self.overflow.len() <= TAKEN_BACK_MAX {
            for word in self.overflow.take() {
                let at = self.end_of(hash_of(word));
                let before = self.words[..at].iter().rev().take(EQUAL_MAX);
                let crowded = before.filter(|&&other| hash_of(other) == hash_of(word)).count() == EQUAL_MAX;
                if crowded || !self.insert_at(at, word) {
                    self.overflow.insert(word, pool);
                }
            }
        }
    }

    /// Places of all records.
    pub(crate) fn places(&self) -> impl Iterator<Item = u32> {
        let words = self.words.iter().copied().filter(|&word| word != GAP);
        words.chain(self.overflow.words()).map(place_of)
    }

    /// Adds this table's distances.
    pub(crate) fn add_statistics(&self, statistics: &mut IndexStatistics) {
        statistics.words += self.used as usize;
        statistics.overflowed += self.overflow.len();
        statistics.homes += self.homes as usize;
        for (at, &word) in self.words.iter().enumerate().filter(|&(_, &word)| word != GAP) {
            let distance = at - self.home(hash_of(word));
            statistics.distance_sum += distance;
            statistics.distance_max = statistics.distance_max.max(distance);
        }
    }

    /// Whether all that the head of the file says holds.
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
        for (at, &word) in self.words.iter().enumerate().filter(|&(_, &word)| word != GAP) {
            let home = self.home(hash_of(word));
            assert!((home..=home + DISTANCE_MAX).contains(&at));
            assert!(
                self.words[home..at].iter().all(|&other| other != GAP),
                "a search would end too early"
            );
        }
    }
}
