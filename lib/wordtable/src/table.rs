//! The table.
//!
//! A table may be so full that more than a hundred words stand between one and the next gap. A
//! removal moves only a few of them back, and leaves the last of these twice. The first of two copies
//! is as good as a gap for an insertion. All copies stand at the home of their word or after it, so a
//! search finds the first.

use crate::row::{GAP, LINE_WORDS, Row};
use std::marker::PhantomData;

/// Homes of the first table.
const HOMES_MIN: usize = 8;

/// Gaps after the last home of a new table.
const TAIL: usize = 8;

/// Most words that a removal moves back.
const MOVED_MAX: usize = 64;

/// How full a table gets, and how far its words may be from their homes.
pub trait Shape {
    /// A table is full when fewer of its homes are free than one in this many. At least 2.
    const FREE_SHARE: usize;

    /// A full table grows by one home in this many.
    const GROWTH_SHARE: usize;

    /// A table that is made for known words has one home in this many besides. This should leave
    /// more homes free than [`FREE_SHARE`](Self::FREE_SHARE) wants.
    const SPARE_SHARE: usize;

    /// No word is farther from its home. Tables without a bound take every word, and with tags that
    /// are not spread evenly their searches are long.
    const DISTANCE_MAX: usize = usize::MAX;
}

/// What became of an insertion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Insertion {
    /// The word is in the table now.
    Inserted,
    /// The word was there already.
    Present,
    /// Nothing has changed. The table should [`grow`](WordTable::grow) first.
    Full,
    /// Nothing has changed. A word would be farther from its home than the shape allows.
    TooFar,
}

/// Distances of words from their homes, in words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Distances {
    /// The sum.
    pub sum: usize,
    /// The largest.
    pub max: usize,
}

/// The tag of a word.
#[inline]
pub const fn tag_of(word: u64) -> u32 {
    (word >> u32::BITS) as u32
}

/// Sorted words without copies.
fn distinct(words: impl Iterator<Item = u64>) -> impl Iterator<Item = u64> {
    let mut last = GAP;
    words.filter(move |&word| std::mem::replace(&mut last, word) != word)
}

/// A sorted set of words, none of them [`GAP`]. See the [crate].
pub struct WordTable<S> {
    /// One word for each home, and a tail. The last is always a gap. Empty if there are no homes.
    row: Row,
    homes: usize,
    used: usize,
    shape: PhantomData<fn() -> S>,
}

impl<S> std::fmt::Debug for WordTable<S> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut debug = formatter.debug_struct("WordTable");
        debug.field("homes", &self.homes).field("used", &self.used);
        debug.finish_non_exhaustive()
    }
}

impl<S> Default for WordTable<S> {
    /// An empty table, without memory.
    fn default() -> Self {
        Self {
            row: Row::default(),
            homes: 0,
            used: 0,
            shape: PhantomData,
        }
    }
}

impl<S: Shape> WordTable<S> {
    fn with_homes(homes: usize) -> Self {
        Self {
            row: Row::gaps(homes + TAIL),
            homes,
            ..Self::default()
        }
    }

    /// A table of those words that are wanted. None if the words are not sorted, if one of them is
    /// there twice or is [`GAP`], or if they do not fit the shape.
    pub fn from_sorted(words: &[u64], wanted: impl Fn(u64) -> bool) -> Option<Self> {
        if !words.is_sorted_by(|one, other| one < other) || words.last() == Some(&GAP) {
            return None;
        }
        let wanted = || words.iter().copied().filter(|&word| wanted(word));
        let count = wanted().count();
        let mut table = Self::default();
        if count > 0 {
            table = Self::with_homes((count + count / S::SPARE_SHARE + 1).max(HOMES_MIN));
        }
        table.fill(wanted()).is_empty().then_some(table)
    }

    /// Number of words.
    pub fn len(&self) -> usize {
        self.used
    }

    /// Whether there are no words.
    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Number of homes: words that the table would have without gaps and tail.
    pub fn homes(&self) -> usize {
        self.homes
    }

    /// Memory in bytes, without the table itself and without what the allocator adds.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.row.bytes()
    }

    /// Number of blocks of memory that it has.
    #[inline]
    pub fn allocations(&self) -> usize {
        self.row.allocations()
    }

    #[inline]
    fn home(&self, tag: u32) -> usize {
        ((u64::from(tag) * self.homes as u64) >> u32::BITS) as usize
    }

    /// The index of the first word that is not smaller.
    #[inline]
    fn lower_bound(&self, word: u64) -> usize {
        self.row.lower_bound(self.home(tag_of(word)), word)
    }

    /// Starts loading this many cache lines, from the home of a tag on.
    #[inline]
    pub fn prefetch(&self, tag: u32, lines: usize) {
        let home = self.home(tag);
        for line in 0..lines {
            self.row.prefetch(home + line * LINE_WORDS);
        }
    }

    /// All words with a tag, sorted.
    #[inline]
    pub fn with_tag(&self, tag: u32) -> impl Iterator<Item = u64> {
        let mut index = self.lower_bound(u64::from(tag) << u32::BITS);
        distinct(std::iter::from_fn(move || {
            let word = self.row.get(index)?;
            index += 1;
            (tag_of(word) == tag && word != GAP).then_some(word)
        }))
    }

    /// All words, sorted.
    pub fn iter(&self) -> impl Iterator<Item = u64> {
        distinct(self.row.from(0).filter(|&word| word != GAP))
    }

    /// Adds a word, which MUST NOT be [`GAP`].
    #[inline]
    pub fn insert(&mut self, word: u64) -> Insertion {
        debug_assert!(word != GAP, "a gap is no word");
        if (self.homes - self.used) * S::FREE_SHARE <= self.homes {
            return Insertion::Full;
        }
        let index = self.lower_bound(word);
        if self.row.get(index) == Some(word) {
            return Insertion::Present;
        }
        let Some(free) = self.free_from(index, word) else {
            return Insertion::TooFar;
        };
        if free + 1 == self.row.len() {
            // The last gap stays.
            self.row.extend();
        }
        self.row.move_up(index..free);
        self.row.set(index, word);
        self.used += 1;
        Insertion::Inserted
    }

    /// The first gap from an index on, or the first of two copies. None if `new` at the index, or a
    /// word that moves up to make room for it, would be too far from its home.
    #[inline]
    fn free_from(&self, index: usize, new: u64) -> Option<usize> {
        let is_far = |index, word| {
            S::DISTANCE_MAX < usize::MAX && index > self.home(tag_of(word)).saturating_add(S::DISTANCE_MAX)
        };
        if is_far(index, new) {
            return None;
        }
        let mut before = GAP;
        let stop = self.row.position(index, |index, word| {
            word == GAP || std::mem::replace(&mut before, word) == word || is_far(index + 1, word)
        });
        match self.row.get(stop) {
            None | Some(GAP) => Some(stop),
            // The last but one was stored in `before` when it was passed.
            Some(word) if stop > index && self.row.get(stop - 1) == Some(word) => Some(stop - 1),
            Some(_) => None,
        }
    }

    /// Removes a word. Returns whether it was there.
    pub fn remove(&mut self, word: u64) -> bool {
        let index = self.lower_bound(word);
        if word == GAP || self.row.get(index) != Some(word) {
            return false;
        }
        let after = self.row.position(index, |_, other| other != word);
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
            .row
            .position(index + 1, |index, word| index == limit || stays(index, word));
        let is_gap = self.row.get(end).is_none_or(|word| stays(end, word));
        self.row.move_down(index + 1..end);
        if is_gap {
            self.row.set(end - 1, GAP);
        }
    }

    /// Replaces a word by another. Returns false, with nothing changed, if it is not there, or if
    /// the other would stand between other words. Then removal and insertion do it.
    pub fn replace(&mut self, old: u64, new: u64) -> bool {
        let index = self.lower_bound(old);
        if tag_of(old) != tag_of(new) || old == GAP || self.row.get(index) != Some(old) {
            return false;
        }
        // Copies of the old word fail the comparison, too.
        let is_above = |before: u64| before == GAP || before < new;
        let above = index.checked_sub(1).and_then(|before| self.row.get(before));
        let stays =
            above.is_none_or(is_above) && self.row.get(index + 1).is_some_and(|after| new < after && old != after);
        if stays {
            self.row.set(index, new);
        }
        stays
    }

    /// Grows, so that words can be inserted again. Returns the words that are too far from their
    /// homes then: none where the shape has no bound.
    #[cold]
    pub fn grow(&mut self) -> Vec<u64> {
        self.grow_to(self.homes + (self.homes / S::GROWTH_SHARE).max(HOMES_MIN))
    }

    /// Makes room for more words, so that the table grows once for all of them. Returns what
    /// [`grow`](Self::grow) does.
    pub fn reserve(&mut self, more: usize) -> Vec<u64> {
        let words = self.used + more;
        if more == 0 || self.homes.saturating_sub(words) * S::FREE_SHARE > self.homes {
            return Vec::new();
        }
        self.grow_to((words + words / S::SPARE_SHARE).max(HOMES_MIN))
    }

    fn grow_to(&mut self, homes: usize) -> Vec<u64> {
        let old = std::mem::replace(self, Self::with_homes(homes));
        self.fill(old.iter())
    }

    /// Adds sorted words to an empty table. Returns those that are too far from their homes.
    fn fill(&mut self, words: impl Iterator<Item = u64>) -> Vec<u64> {
        let (mut next, mut too_far) = (0, Vec::new());
        for word in words {
            let home = self.home(tag_of(word));
            let index = home.max(next);
            if index - home > S::DISTANCE_MAX {
                too_far.push(word);
                continue;
            }
            while index + 1 >= self.row.len() {
                self.row.extend();
            }
            self.row.set(index, word);
            self.used += 1;
            next = index + 1;
        }
        too_far
    }

    /// How far words are from their homes: the first copy of each.
    pub fn distances(&self) -> Distances {
        let mut distances = Distances::default();
        let mut last = GAP;
        for (index, word) in self.row.from(0).enumerate() {
            if word != GAP && std::mem::replace(&mut last, word) != word {
                let distance = index - self.home(tag_of(word));
                distances.sum += distance;
                distances.max = distances.max.max(distance);
            }
        }
        distances
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    struct Dense;

    impl Shape for Dense {
        const FREE_SHARE: usize = 16;
        const GROWTH_SHARE: usize = 16;
        const SPARE_SHARE: usize = 10;
    }

    /// With a bound that tests reach.
    struct Near;

    impl Shape for Near {
        const FREE_SHARE: usize = 8;
        const GROWTH_SHARE: usize = 4;
        const SPARE_SHARE: usize = 4;
        const DISTANCE_MAX: usize = 20;
    }

    fn word(tag: u32, rest: u32) -> u64 {
        u64::from(tag) << 32 | u64::from(rest)
    }

    fn insert<S: Shape>(table: &mut WordTable<S>, word: u64) -> Insertion {
        loop {
            match table.insert(word) {
                Insertion::Full => assert!(table.grow().is_empty()),
                done => return done,
            }
        }
    }

    fn check<S: Shape>(table: &WordTable<S>, model: &BTreeSet<u64>) {
        assert!(table.iter().eq(model.iter().copied()));
        assert_eq!((table.len(), table.is_empty()), (model.len(), model.is_empty()));
        for (index, word) in table.row.from(0).enumerate().filter(|&(_, word)| word != GAP) {
            let home = table.home(tag_of(word));
            assert!(home <= index && index - home <= S::DISTANCE_MAX);
        }
        assert!(table.row.from(0).last().is_none_or(|word| word == GAP));
    }

    fn check_copies(model: &BTreeSet<u64>) {
        let words: Vec<u64> = model.iter().copied().collect();
        let copied = WordTable::<Dense>::from_sorted(&words, |_| true).unwrap();
        check(&copied, model);
        let kept = WordTable::<Dense>::from_sorted(&words, |word| word % 2 == 0).unwrap();
        assert!(kept.iter().eq(model.iter().copied().filter(|word| word % 2 == 0)));
    }

    proptest! {
        #[test]
        fn a_table_behaves_as_a_set(
            steps in proptest::collection::vec((0u8..8, any::<u32>(), 0u32..4), 1..600),
            kept_bits in prop_oneof![Just(0u32), Just(0xffff_ffff), Just(0x8000_0003), Just(0xffff_ff00)],
        ) {
            let mut table = WordTable::<Dense>::default();
            let mut model = BTreeSet::new();
            for (step, tag, rest) in steps {
                let word = word(tag & kept_bits, rest);
                match step {
                    0 | 1 => prop_assert_eq!(table.remove(word), model.remove(&word)),
                    2 => {
                        let other = word ^ 1;
                        let replaced = table.replace(word, other);
                        // What it does not do in its stead, removal and insertion do.
                        if model.contains(&word) && !model.contains(&other) {
                            prop_assert!(replaced || (table.remove(word) && insert(&mut table, other) == Insertion::Inserted));
                            model.remove(&word);
                            model.insert(other);
                        } else {
                            prop_assert!(!replaced);
                        }
                    }
                    _ => prop_assert_eq!(insert(&mut table, word) == Insertion::Inserted, model.insert(word)),
                }
                let wanted = model.iter().copied().filter(|&word| tag_of(word) == tag & kept_bits);
                prop_assert!(table.with_tag(tag & kept_bits).eq(wanted));
            }
            check(&table, &model);
            check_copies(&model);
        }

        /// Words that are refused, or come back from a growth, are those that the table lacks.
        #[test]
        fn no_word_is_too_far_from_its_home(
            steps in proptest::collection::vec((0u8..8, any::<u32>(), 0u32..100), 1..600),
            kept_bits in prop_oneof![Just(0u32), Just(0xffff_ffff), Just(0x8000_0003), Just(0xff00_0000)],
        ) {
            let mut table = WordTable::<Near>::default();
            let mut model = BTreeSet::new();
            for (step, tag, rest) in steps {
                let word = word(tag & kept_bits, rest);
                match step {
                    0 | 1 => prop_assert_eq!(table.remove(word), model.remove(&word)),
                    2 => for far in table.reserve(usize::from(step) + rest as usize) {
                        prop_assert!(model.remove(&far));
                    },
                    _ => loop {
                        match table.insert(word) {
                            Insertion::Full => for far in table.grow() {
                                prop_assert!(model.remove(&far));
                            },
                            Insertion::Inserted => prop_assert!(model.insert(word)),
                            Insertion::Present => prop_assert!(model.contains(&word)),
                            Insertion::TooFar => prop_assert!(!model.contains(&word)),
                        }
                        if table.len() * Near::FREE_SHARE < table.homes() * (Near::FREE_SHARE - 1) {
                            break;
                        }
                    },
                }
                check(&table, &model);
            }
            prop_assert!(table.distances().max <= Near::DISTANCE_MAX);
        }
    }

    #[test]
    fn a_bound_refuses_words() {
        let mut table = WordTable::<Near>::default();
        let refused = (0..1000).filter(|&rest| {
            let mut outcome = table.insert(word(7, rest));
            if outcome == Insertion::Full {
                assert!(table.grow().is_empty());
                outcome = table.insert(word(7, rest));
            }
            outcome == Insertion::TooFar
        });
        let refused = refused.count();
        assert_eq!(
            (table.len(), refused),
            (Near::DISTANCE_MAX + 1, 1000 - Near::DISTANCE_MAX - 1)
        );
    }

    /// Bytes for each word, from one growth to the next.
    #[test]
    fn a_word_takes_nine_bytes() {
        let mut table = WordTable::<Dense>::default();
        let mut tag = 1u32;
        let mut worst: f64 = 0.0;
        for number in 1..200_000 {
            tag = tag.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let _ = insert(&mut table, word(tag, number));
            if number > 10_000 {
                worst = worst.max(table.bytes() as f64 / f64::from(number));
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
        let mut table = WordTable::<Dense>::default();
        let mut words: Vec<u64> = Vec::new();
        let mut model = BTreeSet::new();
        let mut worst: f64 = 0.0;
        for step in 0..40 * WORDS {
            if words.len() == WORDS {
                let removed = words.swap_remove(random() as usize % WORDS);
                assert!(table.remove(removed));
                model.remove(&removed);
            }
            let added = word(random(), step as u32);
            assert_eq!(insert(&mut table, added), Insertion::Inserted);
            words.push(added);
            model.insert(added);
            if step % WORDS == WORDS - 1 {
                check(&table, &model);
                worst = worst.max(table.distances().sum as f64 / WORDS as f64);
            }
        }
        let all = table.row.from(0).filter(|&word| word != GAP).count();
        assert!(all > WORDS, "no word has a copy");
        assert!(worst < 20.0, "{worst}");
    }

    #[test]
    fn words_out_of_order_are_no_table() {
        let table = |words: &[u64]| WordTable::<Dense>::from_sorted(words, |_| true);
        assert!(table(&[1, 2]).is_some());
        assert!(table(&[2, 1]).is_none() && table(&[1, 1]).is_none());
        assert!(table(&[GAP]).is_none());
    }
}
