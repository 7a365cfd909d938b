//! A comb for keys that repeat.
//!
//! Most of a check is doublings, from each position of the digits to the next. With tables of P,
//! 2^35 P, 2^70 P and 2^105 P, the positions fall into blocks that are walked side by side, with
//! the doublings of one block (Lim and Lee, "More flexible exponentiation with precomputation",
//! 1994). Those tables of a key cost 105 doublings and three tables, about 1,050 field
//! multiplications. Each check with them saves about 760.
//!
//! Words of checks are walked in groups, and a group walks as one. So the checks of a batch are put
//! in an order: first whole groups of checks with the most frequent keys, which take the comb. All
//! others are computed without it, so no word is added to a batch.

use crate::fault::{Fault, is_planted};
use crate::field::Fe;
use crate::keys::{self, Keys};
use crate::point::{Affine, Jacobian, SideBySide, invert_all};
use crate::positions::{BLOCK_BITS, BLOCKS, SIDE_BY_SIDE};
use crate::word::{BATCH, LANES_MAX, Mask, Word, side_by_side};
use std::cmp::Reverse;

/// Most tables of a batch.
pub(crate) const TABLES: usize = 2 * BATCH;

/// Most keys of a batch that have tables for all blocks.
const KEYS_MAX: usize = (TABLES - BATCH) / (BLOCKS - 1) / (SIDE_BY_SIDE * LANES_MAX) * (SIDE_BY_SIDE * LANES_MAX);

/// A word of keys costs as much as so many words of checks save. Measured: by multiplications alone
/// it would be 1.4.
const COST: usize = 2;

/// What of a batch takes the comb.
#[derive(Debug)]
pub(crate) struct Comb<W> {
    /// Words of keys with tables for all blocks; they are the first ones.
    pub(crate) key_words: usize,
    /// Words of checks on the comb; they are the first ones.
    pub(crate) check_words: usize,
    /// The number of each block's first table.
    pub(crate) first_tables: [u64; BLOCKS],
    /// Memory that is used again.
    points: Vec<Jacobian<W>>,
    denominators: Vec<Fe<W>>,
    before: Vec<Fe<W>>,
}

impl<W> Default for Comb<W> {
    fn default() -> Self {
        Self {
            key_words: 0,
            check_words: 0,
            first_tables: [0; BLOCKS],
            points: Vec::new(),
            denominators: Vec::new(),
            before: Vec::new(),
        }
    }
}

impl<W: Word> Comb<W> {
    /// Chooses what takes the comb, and puts that first: keys in `keys`, and checks in `order`.
    /// `numbers` has the number of the key of each check.
    pub(crate) fn choose(&mut self, keys: &mut Keys<W>, numbers: &mut [Option<u16>], order: &mut Vec<u16>) {
        (self.key_words, self.check_words) = (0, 0);
        order.clear();
        order.extend(0..numbers.len() as u16);
        let mut by_count: Vec<u16> = (0..keys.counts.len() as u16).collect();
        by_count.sort_by_key(|&number| Reverse(keys.counts[usize::from(number)]));
        let counts: Vec<usize> = by_count
            .iter()
            .map(|&number| keys.counts[usize::from(number)].into())
            .collect();
        (self.key_words, self.check_words) = most_saved::<W>(&counts);
        if self.check_words > 0 {
            let new_numbers = keys.put_in_order(&by_count);
            for number in numbers.iter_mut().flatten() {
                *number = new_numbers[usize::from(*number)];
            }
            order.sort_by_key(|&check| numbers[usize::from(check)].unwrap_or(u16::MAX));
        }
    }

    /// Appends the first points of the tables of the other blocks: 2^35 P, 2^70 P and 2^105 P of
    /// the first [`key_words`](Self::key_words) of `points`, block by block.
    #[inline(always)]
    pub(crate) fn append_points(&mut self, points: &mut Vec<Affine<W>>, unsure: &mut Vec<W::Mask>) {
        if self.key_words == 0 {
            return;
        }
        if W::LANES == 1 {
            self.double_together::<1>(points);
        } else {
            self.double_together::<SIDE_BY_SIDE>(points);
        }
        let first = points.len();
        for (block, table) in self.first_tables.iter_mut().enumerate().skip(1) {
            *table = ((first + (block - 1) * self.key_words) * W::LANES) as u64;
        }
        unsure.resize(first + self.points.len(), W::Mask::from_bits(0));
        self.denominators.clear();
        for point in &self.points {
            self.denominators.push(point.z.clear());
        }
        // No point has the order 2, so no Z is 0. That is not relied on.
        invert_all(&mut self.denominators, &mut self.before, &mut |index, zero| {
            unsure[first + index] = unsure[first + index].or(zero);
        });
        for (point, inverse) in self.points.iter().zip(&self.denominators) {
            let square = inverse.square();
            points.push(Affine {
                x: point.x.mul(&square),
                y: point.y.mul(&square.mul(inverse)),
            });
        }
    }

    /// The points of the other blocks, before they are made affine.
    #[inline(always)]
    fn double_together<const N: usize>(&mut self, keys: &[Affine<W>]) {
        self.points.clear();
        for block in 1..BLOCKS {
            for first in (0..self.key_words).step_by(N) {
                let mut words = SideBySide::<W, N>::new(side_by_side(
                    #[inline(always)]
                    |k| match block {
                        1 => keys[first + k].jacobian(),
                        _ => self.points[(block - 2) * self.key_words + first + k],
                    },
                ));
                for _ in usize::from(is_planted::<W>(Fault::BlockDoubling))..BLOCK_BITS {
                    words.double();
                }
                self.points.extend_from_slice(&words.points);
            }
        }
    }
}

/// The words of keys and the words of checks for which the comb saves most; `counts` says how many
/// checks each key has, the highest number first.
fn most_saved<W: Word>(counts: &[usize]) -> (usize, usize) {
    let together = keys::side_by_side::<W>();
    let (mut best, mut most) = ((0, 0), 0);
    let (mut key_words, mut checks) = (0, 0);
    // All lanes of the words have keys. Where the last ones have one check each, these are free.
    for counts in counts[..counts.len().min(KEYS_MAX)].chunks(together * W::LANES) {
        key_words += together;
        checks += counts.iter().sum::<usize>();
        // Whole groups.
        let check_words = checks / (SIDE_BY_SIDE * W::LANES) * SIDE_BY_SIDE;
        let saved = check_words.saturating_sub(key_words * COST);
        if saved > most {
            (best, most) = ((key_words, check_words), saved);
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::Rng;

    #[test]
    fn the_comb_takes_what_saves_most() {
        let saved = most_saved::<u64>;
        assert_eq!(saved(&[]), (0, 0));
        assert_eq!(saved(&[1; 256]), (0, 0));
        // A group is two checks here. Checks that do not fill one are left out.
        assert_eq!(saved(&[3, 1]), (0, 0));
        assert_eq!(saved(&[4]), (1, 4));
        assert_eq!(saved(&[7, 1]), (1, 6));
        assert_eq!(saved(&[7, 2, 1]), (1, 6));
        assert_eq!(saved(&[7, 4, 1]), (2, 10));
        assert_eq!(saved(&[2; 128]), (0, 0));
        assert_eq!(saved(&[3; 85]), (80, 240));
        assert_eq!(saved(&[4, 4, 4, 2, 2]), (3, 12));
        assert_eq!(saved(&[256]), (1, 256));
    }

    #[test]
    fn checks_are_put_in_order() {
        let mut dice = Rng(51);
        let mut with_comb = 0;
        for case in 0..200 {
            let (mut comb, mut keys) = (Comb::<u64>::default(), Keys::<u64>::default());
            let kinds = 1 + dice.below(1 + case);
            let asked: Vec<Option<crate::number::Number>> = (0..dice.below(257))
                .map(|_| (dice.below(9) > 0).then(|| [dice.below(kinds), 0, 0, 7]))
                .collect();
            let mut numbers: Vec<Option<u16>> = asked.iter().map(|key| Some(keys.number(&(*key)?))).collect();
            let mut order = vec![7];
            comb.choose(&mut keys, &mut numbers, &mut order);
            // Each check once, each with its key.
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert!(sorted.into_iter().eq(0..asked.len() as u16));
            for (asked, number) in asked.iter().zip(&numbers) {
                assert_eq!(*asked, number.map(|number| keys.key(number)));
            }
            for &check in &order[..comb.check_words] {
                assert!(usize::from(numbers[usize::from(check)].unwrap()) < comb.key_words);
            }
            with_comb += usize::from(comb.check_words > 0);
        }
        assert!((50..195).contains(&with_comb), "{with_comb}");
    }
}
