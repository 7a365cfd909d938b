//! The index in memory: for each coin a part of its hash, and where its record lies.
//!
//! The hash of an outpoint chooses a group (10 bits) and a shard in it (2 bits). The next 32 bits
//! are its *tag*. A shard is a table of words, a tag in the upper half and a location in the lower
//! half, sorted, with gaps. Each tag has a *home*: the index in the table in proportion to its
//! value. A word is at its home or after it, so a search begins at the home and ends at the first
//! word that is not smaller.
//!
//! The table is nearly full, so more than a hundred words may stand between one and the next gap.
//! A removal moves only a few of them back, and leaves the last of these twice. The first of two
//! copies is as good as a gap for an insertion. All copies stand at the home of their word or after
//! it, so a search finds the first.
//!
//! A group has a lock of its own. Groups change one after the other in a commit, so each look-up
//! sees a coin as it was before the commit or as it is after.
//!
//! Words of coins with one tag stand side by side, however many there are. Nothing here decides
//! between them: that takes the records.

use super::words::{GAP, LINE_WORDS, Words};
use crate::format::location::Location;
use std::ops::Range;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Bits of a hash that choose the group. Fuzz targets have few groups, for the sake of speed.
const GROUP_BITS: u32 = if cfg!(fuzzing) { 4 } else { 10 };

/// Number of groups.
pub const GROUPS: usize = 1 << GROUP_BITS;

/// Groups that one job of several threads works on. Small commits have few words for each group.
const GROUPS_PER_JOB: usize = if cfg!(fuzzing) { GROUPS } else { 8 };

/// All groups, in runs for jobs.
pub fn groups_of_jobs() -> impl Iterator<Item = Range<usize>> + Send {
    (0..GROUPS)
        .step_by(GROUPS_PER_JOB)
        .map(|first| first..first + GROUPS_PER_JOB)
}

/// Bits of a hash that choose the shard in a group.
const SHARD_BITS: u32 = 2;

/// Number of shards in a group.
pub const GROUP_SHARDS: usize = 1 << SHARD_BITS;

/// Homes of the first table of a shard.
const HOMES_MIN: usize = 8;

/// Gaps after the last home of a new table.
const TAIL: usize = 8;

/// A table grows when it has fewer free homes than one in this many, and then by one in this many.
const FREE_SHARE: usize = 16;

/// A table is filled with this share of its homes beyond those that must be free, so that it does
/// not grow at its next insertion.
const SPARE_SHARE: usize = 32;

/// Lines of the CPU's cache that a search reads, most of the time.
pub const LINES_OF_SEARCH: usize = 3;

/// Searches that overlap.
pub const TOGETHER: usize = 32;

/// Most words that a removal moves back.
const MOVED_MAX: usize = 64;

/// Where the words of a hash are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexKey {
    pub group: usize,
    pub shard: usize,
    pub tag: u32,
}

impl IndexKey {
    pub const fn of(hash: u64) -> Self {
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

const fn tag_of(word: u64) -> u32 {
    (word >> u32::BITS) as u32
}

/// Sorted words without copies.
fn distinct(words: impl Iterator<Item = u64>) -> impl Iterator<Item = u64> {
    let mut last = GAP;
    words.filter(move |&word| std::mem::replace(&mut last, word) != word)
}

/// The locations of those words of a sorted list that have a tag.
pub fn locations(words: &[u64], tag: u32) -> impl Iterator<Item = Location> {
    let start = words.partition_point(|&word| tag_of(word) < tag);
    let found = words[start..].iter().take_while(move |&&word| tag_of(word) == tag);
    found.map(|&word| Location::from_bits(word as u32))
}

/// A table of words. A gap is larger than every word: no record has the last location.
#[derive(Debug, Default)]
pub struct IndexShard {
    /// One word for each home, and a tail. The last is always a gap. Empty if there are no homes.
    words: Words,
    homes: usize,
    used: usize,
}

impl IndexShard {
    fn home(&self, tag: u32) -> usize {
        ((u64::from(tag) * self.homes as u64) >> u32::BITS) as usize
    }

    /// The index of the first word that is not smaller.
    fn lower_bound(&self, word: u64) -> usize {
        self.words.lower_bound(self.home(tag_of(word)), word)
    }

    /// The locations of all words with a tag.
    pub fn candidates(&self, tag: u32) -> impl Iterator<Item = Location> {
        let words = self.words.from(self.lower_bound(u64::from(tag) << u32::BITS));
        distinct(words.take_while(move |&word| tag_of(word) == tag && word != GAP))
            .map(|word| Location::from_bits(word as u32))
    }

    /// Adds a word. Returns false, with nothing changed, if it is there already.
    pub fn insert(&mut self, tag: u32, location: Location) -> bool {
        // An empty table has no homes, and grows here.
        if (self.homes - self.used) * FREE_SHARE <= self.homes {
            self.grow(self.homes + (self.homes / FREE_SHARE).max(HOMES_MIN));
        }
        let word = word(tag, location);
        let index = self.lower_bound(word);
        if self.words.get(index) == Some(word) {
            return false;
        }
        let free = self.words.free_from(index);
        if free + 1 == self.words.len() {
            // The last gap stays.
            self.words.extend();
        }
        self.words.move_up(index..free);
        self.words.set(index, word);
        self.used += 1;
        true
    }

    /// Removes a word. Returns whether it was there.
    pub fn remove(&mut self, tag: u32, location: Location) -> bool {
        let word = word(tag, location);
        let index = self.lower_bound(word);
        if self.words.get(index) != Some(word) {
            return false;
        }
        let after = self.words.position(index, |_, other| other != word);
        for copy in (index..after).rev() {
            self.clear(copy);
        }
        self.used -= 1;
        true
    }

    /// Takes the word at an index away. No copy of it is after it.
    fn clear(&mut self, index: usize) {
        // Words that are after their homes move back by one.
        let limit = index + 1 + MOVED_MAX;
        // The second is `self.home(tag_of(word)) >= index`.
        let stays = |index: usize, word: u64| {
            word == GAP || u64::from(tag_of(word)) * self.homes as u64 >= (index as u64) << u32::BITS
        };
        let end = self
            .words
            .position(index + 1, |index, word| index == limit || stays(index, word));
        let is_gap = self.words.get(end).is_none_or(|word| stays(end, word));
        self.words.move_down(index + 1..end);
        if is_gap {
            self.words.set(end - 1, GAP);
        }
    }

    /// Gives a word another location. Returns false, with nothing changed, if it is not there.
    pub fn replace(&mut self, tag: u32, from: Location, to: Location) -> bool {
        let (old, new) = (word(tag, from), word(tag, to));
        let index = self.lower_bound(old);
        if self.words.get(index) != Some(old) {
            return false;
        }
        let before = index.checked_sub(1).and_then(|index| self.words.get(index));
        let after = self.words.get(index + 1);
        // Copies of the word, too, have its tag.
        if [before, after].into_iter().flatten().any(|other| tag_of(other) == tag) {
            // Words with one tag are rare: a shard has some ten thousand words, and 2^32 tags.
            return self.remove(tag, from) && self.insert(tag, to);
        }
        self.words.set(index, new);
        true
    }

    /// Starts loading this many lines of the CPU's cache, from the home of a tag on.
    pub fn prefetch(&self, tag: u32, lines: usize) {
        let home = self.home(tag);
        for line in 0..lines {
            self.words.prefetch(home + line * LINE_WORDS);
        }
    }

    /// Moves all words to a table with this many homes.
    fn grow(&mut self, homes: usize) {
        let old = std::mem::replace(self, Self::with_homes(homes));
        self.fill(old.iter());
    }

    /// Makes room for more words, so that the table grows once for all of them.
    pub fn reserve(&mut self, words: usize) {
        let homes = (self.used + words) * (FREE_SHARE + 1) / FREE_SHARE;
        if homes > self.homes {
            self.grow(homes + (homes / FREE_SHARE).max(HOMES_MIN));
        }
    }

    fn with_homes(homes: usize) -> Self {
        Self {
            words: Words::gaps(homes + TAIL),
            homes,
            used: 0,
        }
    }

    /// Adds sorted words to an empty table.
    fn fill(&mut self, words: impl Iterator<Item = u64>) {
        let mut next = 0;
        for word in words {
            // From front to back: each word goes to its home, or after the one before.
            let index = self.home(tag_of(word)).max(next);
            while index + 1 >= self.words.len() {
                self.words.extend();
            }
            self.words.set(index, word);
            self.used += 1;
            next = index + 1;
        }
    }

    /// All words, sorted.
    pub fn iter(&self) -> impl Iterator<Item = u64> {
        distinct(self.words.from(0).filter(|&word| word != GAP))
    }

    /// A shard of those words whose locations are wanted. None if the words are not sorted.
    pub fn from_words(words: &[u64], wanted: impl Fn(Location) -> bool) -> Option<Self> {
        // A gap is larger than every word, so it could only be the last.
        if !words.is_sorted_by(|one, other| one < other) || words.last() == Some(&GAP) {
            return None;
        }
        let wanted = |word: &u64| wanted(Location::from_bits(*word as u32));
        let count = words.iter().copied().filter(wanted).count();
        let mut shard = Self::default();
        if count > 0 {
            let homes = count * (FREE_SHARE + 1) / FREE_SHARE;
            let homes = homes + homes / SPARE_SHARE + 1;
            shard = Self::with_homes(homes.max(HOMES_MIN));
            shard.fill(words.iter().copied().filter(wanted));
        }
        Some(shard)
    }

    /// Number of words.
    pub fn len(&self) -> usize {
        self.used
    }

    fn bytes(&self) -> usize {
        self.words.bytes()
    }
}

/// The shards that share a lock.
pub type Group = [IndexShard; GROUP_SHARDS];

/// The whole index.
#[derive(Debug)]
pub struct Index(Box<[RwLock<Group>]>);

impl Default for Index {
    fn default() -> Self {
        Self((0..GROUPS).map(|_| RwLock::default()).collect())
    }
}

impl Index {
    pub fn read(&self, group: usize) -> RwLockReadGuard<'_, Group> {
        self.0[group].read().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn write(&self, group: usize) -> RwLockWriteGuard<'_, Group> {
        self.0[group].write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Number of words.
    pub fn len(&self) -> u64 {
        (0..GROUPS)
            .map(|group| self.read(group).iter().map(IndexShard::len).sum::<usize>() as u64)
            .sum()
    }

    /// Memory in bytes.
    pub fn bytes(&self) -> usize {
        let shards = |group| self.read(group).iter().map(IndexShard::bytes).sum::<usize>();
        (0..GROUPS).map(shards).sum::<usize>() + GROUPS * size_of::<RwLock<Group>>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn check(shard: &IndexShard, model: &BTreeSet<u64>) {
        assert!(shard.iter().eq(model.iter().copied()));
        assert_eq!(shard.len(), model.len());
        for (index, word) in shard.words.from(0).enumerate() {
            assert!(word == GAP || shard.home(tag_of(word)) <= index);
        }
        assert!(shard.words.from(0).last().is_none_or(|word| word == GAP));
        let words: Vec<u64> = model.iter().copied().collect();
        let copied = IndexShard::from_words(&words, |_| true).unwrap();
        assert!(copied.iter().eq(model.iter().copied()));
        let kept = IndexShard::from_words(&words, |location| location.bits().is_multiple_of(2)).unwrap();
        assert!(kept.iter().eq(model.iter().copied().filter(|word| word % 2 == 0)));
    }

    proptest! {
        #[test]
        fn a_shard_behaves_as_a_set(
            steps in proptest::collection::vec((any::<bool>(), any::<u32>(), 0u32..4), 1..600),
            kept_bits in prop_oneof![Just(0u32), Just(0xffff_ffff), Just(0x8000_0003), Just(0xffff_ff00)],
        ) {
            let mut shard = IndexShard::default();
            let mut model = BTreeSet::new();
            for (number, (inserts, tag, location)) in steps.iter().enumerate() {
                let (tag, location) = (tag & kept_bits, Location::from_bits(*location));
                if *inserts || number % 3 > 0 {
                    prop_assert_eq!(shard.insert(tag, location), model.insert(word(tag, location)));
                } else {
                    prop_assert_eq!(shard.remove(tag, location), model.remove(&word(tag, location)));
                }
                let wanted = model.iter().filter(|&&word| tag_of(word) == tag).map(|&word| Location::from_bits(word as u32));
                prop_assert!(shard.candidates(tag).eq(wanted));
            }
            check(&shard, &model);
        }
    }

    /// Bytes for each word, from one growth to the next.
    #[test]
    fn a_word_takes_nine_bytes() {
        let mut shard = IndexShard::default();
        let mut tag = 1u32;
        let mut worst: f64 = 0.0;
        for number in 1..200_000 {
            tag = tag.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            shard.insert(tag, Location::from_bits(number));
            if number > 10_000 {
                worst = worst.max(shard.bytes() as f64 / f64::from(number));
            }
        }
        assert!(worst < 9.2, "{worst}");
    }

    /// Words come and go at random while their number stays. The table keeps copies then, and words
    /// stay near their homes.
    #[test]
    fn a_table_in_use_stays_in_order() {
        const WORDS: usize = 6250;
        let mut state = 1u64;
        let mut random = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 32) as u32
        };
        let mut shard = IndexShard::default();
        let mut words: Vec<u64> = Vec::new();
        let mut model = BTreeSet::new();
        let mut worst: f64 = 0.0;
        for step in 0..40 * WORDS {
            if words.len() == WORDS {
                let removed = words.swap_remove(random() as usize % WORDS);
                assert!(shard.remove(tag_of(removed), Location::from_bits(removed as u32)));
                model.remove(&removed);
            }
            let added = word(random(), Location::from_bits(step as u32));
            assert!(shard.insert(tag_of(added), Location::from_bits(added as u32)));
            words.push(added);
            model.insert(added);
            if step % WORDS == WORDS - 1 {
                check(&shard, &model);
                let far = |&word: &u64| shard.lower_bound(word) - shard.home(tag_of(word));
                let mean = words.iter().map(far).sum::<usize>() as f64 / WORDS as f64;
                worst = worst.max(mean);
            }
        }
        let all = shard.words.from(0).filter(|&word| word != GAP).count();
        assert!(all > WORDS, "no word has a copy");
        assert!(worst < 20.0, "{worst}");
    }

    #[test]
    fn the_bits_of_a_hash_are_used_once() {
        let key = IndexKey::of(0x8040_2000_0010_0000);
        assert_eq!((key.group, key.shard, key.tag), (0x201, 0, 0x0200_0001));
        assert_eq!(IndexKey::of(3 << 52).shard, 3);
    }

    #[test]
    fn words_out_of_order_are_no_shard() {
        let shard = |words: &[u64]| IndexShard::from_words(words, |_| true);
        assert!(shard(&[1, 2]).is_some());
        assert!(shard(&[2, 1]).is_none() && shard(&[1, 1]).is_none());
        assert!(shard(&[GAP]).is_none());
    }
}
