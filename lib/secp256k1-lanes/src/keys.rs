//! The keys of a batch, each of them once.
//!
//! Many checks of a block have keys that other checks near them have, too. A key has one table of
//! multiples, or one for each block of a comb (`src/comb.rs`). The two keys with one x coordinate
//! have the same tables.

use crate::curve::Curve;
use crate::field::Fe;
use crate::number::Number;
use crate::point::Affine;
use crate::positions::SIDE_BY_SIDE;
use crate::word::{BATCH, LANES_MAX, Mask, Word};

/// What a key is known by here: its x coordinate.
pub(crate) type Key = Number;

/// A key for lanes that nobody asks.
const STAND_IN: Key = [1, 0, 0, 0];

/// How many words of keys are computed at a time: a group, or one of a single lane.
pub(crate) const fn side_by_side<W: Word>() -> usize {
    if W::LANES == 1 { 1 } else { SIDE_BY_SIDE }
}

/// Slots in which keys are found: twice as many as keys, so that few are looked at. If somebody
/// chose all keys for one slot, a batch would take a twentieth longer.
const SLOTS: usize = 2 * BATCH;

/// A slot without a key.
const EMPTY: u16 = u16::MAX;

/// The keys of a batch.
#[derive(Debug)]
pub(crate) struct Keys<W: Word> {
    distinct: Vec<Key>,
    /// How many checks each key has.
    pub(crate) counts: Vec<u16>,
    slots: [u16; SLOTS],
    /// The points of the keys, then those of the other blocks of a comb.
    pub(crate) points: Vec<Affine<W>>,
    /// Points whose table met a special case.
    pub(crate) unsure: Vec<W::Mask>,
}

impl<W: Word> Default for Keys<W> {
    fn default() -> Self {
        Self {
            distinct: Vec::new(),
            counts: Vec::new(),
            slots: [EMPTY; SLOTS],
            points: Vec::new(),
            unsure: Vec::new(),
        }
    }
}

impl<W: Word> Keys<W> {
    pub(crate) fn clear(&mut self) {
        self.distinct.clear();
        self.counts.clear();
        self.slots.fill(EMPTY);
        self.points.clear();
        self.unsure.clear();
    }

    /// The number of a check's key, which is the next one if it is new. A batch has [`BATCH`] keys
    /// at most.
    pub(crate) fn number(&mut self, key: &Key) -> u16 {
        let mut slot = key[0] as usize % SLOTS;
        loop {
            let number = self.slots[slot];
            if number == EMPTY {
                self.slots[slot] = self.distinct.len() as u16;
                self.distinct.push(*key);
                self.counts.push(1);
                return self.slots[slot];
            }
            if self.distinct[usize::from(number)] == *key {
                self.counts[usize::from(number)] += 1;
                return number;
            }
            slot = (slot + 1) % SLOTS;
        }
    }

    #[cfg(test)]
    pub(crate) fn key(&self, number: u16) -> Key {
        self.distinct[usize::from(number)]
    }

    /// Puts the keys in another order, after the last one has its number. Gives their new numbers.
    pub(crate) fn put_in_order(&mut self, order: &[u16]) -> [u16; BATCH] {
        let mut numbers = [0; BATCH];
        for (new, &old) in (0..).zip(order) {
            numbers[usize::from(old)] = new;
        }
        self.distinct = order.iter().map(|&old| self.distinct[usize::from(old)]).collect();
        numbers
    }

    /// The points of the keys, of which there must be one, each on a curve of its own, where it is
    /// known without a root (`compare.rs`).
    #[inline(always)]
    pub(crate) fn make_points(&mut self, curve: &Curve) {
        // Whole groups of words, as the comb takes them.
        let together = side_by_side::<W>();
        let words = self.distinct.len().div_ceil(together * W::LANES) * together;
        for word in 0..words {
            self.points.push(on_own_curve(curve.b, &self.word(word * W::LANES)));
        }
        self.unsure.resize(self.points.len(), W::Mask::from_bits(0));
    }

    /// The x coordinates of the keys from `first` on, one a lane.
    #[inline(always)]
    fn word(&self, first: usize) -> Fe<W> {
        let mut numbers = [STAND_IN; LANES_MAX];
        let keys = self.distinct[first.min(self.distinct.len())..].iter().take(W::LANES);
        for (number, key) in numbers.iter_mut().zip(keys) {
            *number = *key;
        }
        Fe::from_numbers(&numbers)
    }

    /// Of the tables of these keys that begin at `first`, those that are unsure.
    pub(crate) fn unsure_from(&self, first: u64, numbers: &W) -> W::Mask {
        lanes_of(&self.unsure, first as usize, numbers)
    }
}

/// For each lane the bit with its number, counted from `first` on.
fn lanes_of<W: Word>(masks: &[W::Mask], first: usize, numbers: &W) -> W::Mask {
    let mut bits = 0;
    for (lane, &number) in numbers.to_lanes().iter().enumerate().take(W::LANES) {
        let number = first + number as usize;
        let (word, bit) = (number / W::LANES, number % W::LANES);
        bits |= (masks[word].bits() >> bit & 1) << lane;
    }
    W::Mask::from_bits(bits)
}

/// A point with the x coordinate x, on the curve y^2 = x^3 + b c^3 that c = x^3 + b belongs to:
/// (c x, c^2).
#[inline(always)]
pub(crate) fn on_own_curve<W: Word>(b: u64, x: &Fe<W>) -> Affine<W> {
    let square = right_side(b, x);
    Affine {
        x: x.mul(&square),
        y: square.square(),
    }
}

/// x^3 + b.
#[inline(always)]
pub(crate) fn right_side<W: Word>(b: u64, x: &Fe<W>) -> Fe<W> {
    x.square().mul(x).add(&Fe::small(b))
}
