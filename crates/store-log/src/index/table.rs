//! The index in memory: for each coin a part of its hash, and where its record lies.
//!
//! The hash of an outpoint chooses a group (10 bits) and a shard in it (2 bits). The next 32 bits
//! are its *tag*. A shard is a table of words, a tag in the upper half and a location in the lower
//! half.
//!
//! A group has a lock of its own. Groups change one after the other in a commit, so each look-up
//! sees a coin as it was before the commit or as it is after.
//!
//! Words of coins with one tag stand side by side, however many there are. Nothing here decides
//! between them: that takes the records.

use crate::format::location::Location;
use blockmill_wordtable::{Insertion, Shape, WordTable, tag_of};
use std::ops::Range;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Bits of a hash that choose the group. Fuzz targets have few groups, for the sake of speed.
const GROUP_BITS: u32 = if cfg!(fuzzing) { 4 } else { 10 };

/// Number of groups.
pub(crate) const GROUPS: usize = 1 << GROUP_BITS;

/// Groups that one job of several threads works on. Small commits have few words for each group.
const GROUPS_PER_JOB: usize = if cfg!(fuzzing) { GROUPS } else { 8 };

/// All groups, in runs for jobs.
pub(crate) fn groups_of_jobs() -> impl Iterator<Item = Range<usize>> + Send {
    (0..GROUPS)
        .step_by(GROUPS_PER_JOB)
        .map(|first| first..first + GROUPS_PER_JOB)
}

/// Bits of a hash that choose the shard in a group.
const SHARD_BITS: u32 = 2;

/// Number of shards in a group.
pub(crate) const GROUP_SHARDS: usize = 1 << SHARD_BITS;

/// Lines of the CPU's cache that a search reads, most of the time.
pub(crate) const LINES_OF_SEARCH: usize = 3;

/// Searches that overlap.
pub(crate) const TOGETHER: usize = 32;

/// Where the words of a hash are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct IndexKey {
    pub(crate) group: usize,
    pub(crate) shard: usize,
    pub(crate) tag: u32,
}

impl IndexKey {
    pub(crate) const fn of(hash: u64) -> Self {
        Self {
            group: (hash >> (u64::BITS - GROUP_BITS)) as usize,
            shard: (hash >> (u64::BITS - GROUP_BITS - SHARD_BITS)) as usize % GROUP_SHARDS,
            tag: (hash >> (u64::BITS - GROUP_BITS - SHARD_BITS - u32::BITS)) as u32,
        }
    }
}

const fn word(tag: u32, location: Location) -> u64 {
    (tag as u64) << u32::BITS | location.bits() as u64
}

const fn location_of(word: u64) -> Location {
    Location::from_bits(word as u32)
}

/// The locations of those words of a sorted list that have a tag.
pub(crate) fn locations(words: &[u64], tag: u32) -> impl Iterator<Item = Location> {
    let start = words.partition_point(|&word| tag_of(word) < tag);
    let found = words[start..].iter().take_while(move |&&word| tag_of(word) == tag);
    found.copied().map(location_of)
}

/// Nine bytes for each word, and searches of two or three lines.
#[derive(Debug)]
struct Dense;

impl Shape for Dense {
    const FREE_SHARE: usize = 16;
    const GROWTH_SHARE: usize = 16;
    const SPARE_SHARE: usize = 10;
}

/// A part of the index. No record has the last location, so no word is a gap.
#[derive(Debug, Default)]
pub(crate) struct IndexShard(WordTable<Dense>);

impl IndexShard {
    /// The locations of all words with a tag.
    pub(crate) fn candidates(&self, tag: u32) -> impl Iterator<Item = Location> {
        self.0.with_tag(tag).map(location_of)
    }

    /// Adds a word. Returns false, with nothing changed, if it is there already.
    pub(crate) fn insert(&mut self, tag: u32, location: Location) -> bool {
        loop {
            match self.0.insert(word(tag, location)) {
                Insertion::Inserted => return true,
                Insertion::Present => return false,
                // Without a bound no word is too far, and a growth returns none.
                Insertion::Full | Insertion::TooFar => drop(self.0.grow()),
            }
        }
    }

    /// Removes a word. Returns whether it was there.
    pub(crate) fn remove(&mut self, tag: u32, location: Location) -> bool {
        self.0.remove(word(tag, location))
    }

    /// Gives a word another location. Returns false, with nothing changed, if it is not there.
    pub(crate) fn replace(&mut self, tag: u32, from: Location, to: Location) -> bool {
        self.0.replace(word(tag, from), word(tag, to)) || (self.remove(tag, from) && self.insert(tag, to))
    }

    /// Starts loading this many lines of the CPU's cache, from the home of a tag on.
    pub(crate) fn prefetch(&self, tag: u32, lines: usize) {
        self.0.prefetch(tag, lines);
    }

    /// Makes room for more words, so that the table grows once for all of them.
    pub(crate) fn reserve(&mut self, words: usize) {
        drop(self.0.reserve(words));
    }

    /// All words, sorted.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u64> {
        self.0.iter()
    }

    /// A shard of those words whose locations are wanted. None if the words are not sorted.
    pub(crate) fn from_words(words: &[u64], wanted: impl Fn(Location) -> bool) -> Option<Self> {
        WordTable::from_sorted(words, |word| wanted(location_of(word))).map(Self)
    }

    /// Number of words.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

/// The shards that share a lock.
pub(crate) type Group = [IndexShard; GROUP_SHARDS];

/// The whole index.
#[derive(Debug)]
pub(crate) struct Index(Box<[RwLock<Group>]>);

impl Default for Index {
    fn default() -> Self {
        Self((0..GROUPS).map(|_| RwLock::default()).collect())
    }
}

impl Index {
    pub(crate) fn read(&self, group: usize) -> RwLockReadGuard<'_, Group> {
        self.0[group].read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn write(&self, group: usize) -> RwLockWriteGuard<'_, Group> {
        self.0[group].write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Number of words.
    pub(crate) fn len(&self) -> u64 {
        (0..GROUPS)
            .map(|group| self.read(group).iter().map(IndexShard::len).sum::<usize>() as u64)
            .sum()
    }

    /// Memory in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let shards = |group| self.read(group).iter().map(|shard| shard.0.bytes()).sum::<usize>();
        (0..GROUPS).map(shards).sum::<usize>() + GROUPS * size_of::<RwLock<Group>>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bits_of_a_hash_are_used_once() {
        let key = IndexKey::of(0x8040_2000_0010_0000);
        assert_eq!((key.group, key.shard, key.tag), (0x201, 0, 0x0200_0001));
        assert_eq!(IndexKey::of(3 << 52).shard, 3);
    }

    #[test]
    fn a_word_gets_another_location() {
        let at = Location::from_bits;
        let mut shard = IndexShard::default();
        for number in [4, 7, 9] {
            assert!(shard.insert(1, at(number)) && !shard.insert(1, at(number)));
        }
        // Between its neighbours, and past them.
        assert!(shard.replace(1, at(7), at(8)) && shard.replace(1, at(4), at(20)));
        assert!(!shard.replace(1, at(7), at(30)) && !shard.remove(1, at(7)));
        assert!(shard.candidates(1).eq([at(8), at(9), at(20)]));
        let words: Vec<u64> = shard.iter().collect();
        assert!(locations(&words, 1).eq(shard.candidates(1)));
        assert!(locations(&words, 2).next().is_none() && shard.len() == 3);
    }
}
