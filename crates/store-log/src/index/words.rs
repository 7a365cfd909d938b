//! A long row of words, in pieces.
//!
//! An allocator rounds a large block up, to the next of four sizes in each doubling: a tenth of the
//! memory on average, and a quarter at worst. Here all pieces but the last have one size, which no
//! allocator rounds up.

use blockmill_coinmap::prefetch;

/// A word that stands for none.
pub(crate) const GAP: u64 = u64::MAX;

/// Words of a piece: 5 KiB.
const PIECE: usize = 640;

/// Words by which the last piece grows.
const STEP: usize = 64;

/// Words of a line of the CPU's cache.
pub(crate) const LINE_WORDS: usize = 8;

/// Words, some of them gaps.
#[derive(Debug, Default)]
pub(crate) struct Words {
    /// All of [`PIECE`] words, but the last, which has a multiple of [`STEP`].
    pieces: Vec<Box<[u64]>>,
}

fn gaps(count: usize) -> Box<[u64]> {
    vec![GAP; count].into_boxed_slice()
}

impl Words {
    /// Gaps, at least this many.
    pub(crate) fn gaps(count: usize) -> Self {
        let last = (count % PIECE).next_multiple_of(STEP);
        // The index has very many such rows, so none has room to spare.
        let mut pieces = Vec::with_capacity(count.div_ceil(PIECE));
        pieces.extend((0..count / PIECE).map(|_| gaps(PIECE)));
        if last > 0 {
            pieces.push(gaps(last));
        }
        Self { pieces }
    }

    /// Number of words, gaps included.
    pub(crate) fn len(&self) -> usize {
        let last = self.pieces.last().map_or(0, |last| last.len());
        self.pieces.len().saturating_sub(1) * PIECE + last
    }

    /// Appends gaps.
    pub(crate) fn extend(&mut self) {
        match self.pieces.last_mut().filter(|last| last.len() < PIECE) {
            Some(last) => {
                // A vector would grow to twice its length.
                let mut longer = gaps(last.len() + STEP);
                longer[..last.len()].copy_from_slice(last);
                *last = longer;
            }
            None => self.pieces.push(gaps(STEP)),
        }
    }

    /// The word at an index. None after the end.
    pub(crate) fn get(&self, index: usize) -> Option<u64> {
        self.pieces.get(index / PIECE)?.get(index % PIECE).copied()
    }

    /// Sets the word at an index, which must not be after the end.
    pub(crate) fn set(&mut self, index: usize, word: u64) {
        self.pieces[index / PIECE][index % PIECE] = word;
    }

    /// The words from an index on.
    pub(crate) fn from(&self, index: usize) -> impl Iterator<Item = u64> {
        let (piece, offset) = (index / PIECE, index % PIECE);
        let first = self.pieces.get(piece).and_then(|piece| piece.get(offset..));
        let later = self.pieces.iter().skip(piece + 1).flatten();
        first.unwrap_or_default().iter().chain(later).copied()
    }

    /// The index of the first word from an index on that is not below `word`; the length if there
    /// is none.
    ///
    /// Several words are compared without a branch for each: how many are below cannot be
    /// predicted, and a wrong guess would delay the searches after this one.
    pub(crate) fn lower_bound(&self, index: usize, word: u64) -> usize {
        let (mut number, mut offset) = (index / PIECE, index % PIECE);
        while let Some(piece) = self.pieces.get(number) {
            let (lines, rest) = piece.get(offset..).unwrap_or_default().as_chunks::<LINE_WORDS>();
            for line in lines {
                // One bit for each word of the line, the first word in the lowest bit.
                let not_below = line
                    .iter()
                    .rev()
                    .fold(0, |bits, &other| bits << 1 | u32::from(other >= word));
                if not_below != 0 {
                    return number * PIECE + offset + not_below.trailing_zeros() as usize;
                }
                offset += LINE_WORDS;
            }
            if let Some(found) = rest.iter().position(|&other| other >= word) {
                return number * PIECE + offset + found;
            }
            (number, offset) = (number + 1, 0);
        }
        self.len().max(index)
    }

    /// Starts loading the word at an index, and those of its line of the CPU's cache.
    pub(crate) fn prefetch(&self, index: usize) {
        if let Some(word) = self
            .pieces
            .get(index / PIECE)
            .and_then(|piece| piece.get(index % PIECE))
        {
            prefetch(word);
        }
    }

    /// The first index from one on at which `is_found` says so of the index and its word; the
    /// length if there is none.
    pub(crate) fn position(&self, index: usize, mut is_found: impl FnMut(usize, u64) -> bool) -> usize {
        let (mut number, mut offset) = (index / PIECE, index % PIECE);
        while let Some(piece) = self.pieces.get(number) {
            let start = number * PIECE + offset;
            let mut rest = piece.get(offset..).unwrap_or_default().iter().zip(start..);
            if let Some(found) = rest.find_map(|(&word, index)| is_found(index, word).then_some(index)) {
                return found;
            }
            (number, offset) = (number + 1, 0);
        }
        self.len().max(index)
    }

    /// The first index from one on that has a gap, or the first of two copies of a word.
    pub(crate) fn free_from(&self, index: usize) -> usize {
        // No word is the gap, so the first is no copy.
        let mut before = GAP;
        let found = self.position(index, |_, word| {
            word == GAP || std::mem::replace(&mut before, word) == word
        });
        match self.get(found) {
            Some(word) if word != GAP => found - 1,
            _ => found,
        }
    }

    /// Moves the words of a range up by one, over the word after them.
    pub(crate) fn move_up(&mut self, range: std::ops::Range<usize>) {
        let (piece, start) = (range.start / PIECE, range.start % PIECE);
        let end = start + range.len();
        // The word after the range lies in the same piece.
        if end < PIECE {
            self.pieces[piece].copy_within(start..end, start + 1);
            return;
        }
        // From the end: each word is moved before another comes over it.
        for index in range.rev() {
            let word = self.pieces[index / PIECE][index % PIECE];
            self.set(index + 1, word);
        }
    }

    /// Moves the words of a range down by one, over the word before them.
    pub(crate) fn move_down(&mut self, range: std::ops::Range<usize>) {
        let (piece, start) = (range.start / PIECE, range.start % PIECE);
        let end = start + range.len();
        // The word before the range lies in the same piece.
        if start > 0 && end <= PIECE {
            self.pieces[piece].copy_within(start..end, start - 1);
            return;
        }
        for index in range {
            let word = self.pieces[index / PIECE][index % PIECE];
            self.set(index - 1, word);
        }
    }

    /// Memory in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.len() * size_of::<u64>() + self.pieces.capacity() * size_of::<Box<[u64]>>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// As in a plain vector.
        #[test]
        fn words_behave_as_a_vector(
            count in 0usize..2000,
            steps in proptest::collection::vec((0u8..6, any::<u16>(), any::<u8>()), 1..300),
        ) {
            let mut words = Words::gaps(count);
            let mut model = vec![GAP; words.len()];
            prop_assert!(words.len() >= count && words.len() < count + STEP);
            for (step, index, length) in steps {
                let index = usize::from(index) % (model.len() + 1);
                match step {
                    0 => {
                        words.extend();
                        model.extend([GAP; STEP]);
                    }
                    1 if index < model.len() => {
                        words.set(index, index as u64);
                        model[index] = index as u64;
                    }
                    2 => {
                        let end = (index + usize::from(length)).min(model.len().saturating_sub(1));
                        if index <= end && end < model.len() {
                            words.move_up(index..end);
                            model.copy_within(index..end, index + 1);
                        }
                    }
                    3 => {
                        let end = (index + usize::from(length)).min(model.len());
                        if 0 < index && index < end {
                            words.move_down(index..end);
                            model.copy_within(index..end, index - 1);
                        }
                    }
                    4 => {
                        let free = words.free_from(index);
                        let is_free = |&index: &usize| {
                            model[index] == GAP || model.get(index + 1) == Some(&model[index])
                        };
                        let wanted = (index..model.len()).find(is_free);
                        prop_assert_eq!(free, wanted.unwrap_or(model.len()));
                    }
                    _ => {
                        let bound = words.lower_bound(index, u64::from(length) * 8);
                        let rest = model.get(index..).unwrap_or_default();
                        let wanted = rest.iter().position(|&word| word >= u64::from(length) * 8);
                        prop_assert_eq!(bound, wanted.map_or(model.len(), |found| index + found));
                    }
                }
                prop_assert_eq!(words.len(), model.len());
                prop_assert_eq!(words.get(index), model.get(index).copied());
                prop_assert!(words.from(index).eq(model.get(index..).unwrap_or_default().iter().copied()));
            }
            prop_assert!(words.from(0).eq(model.iter().copied()));
        }
    }
}
