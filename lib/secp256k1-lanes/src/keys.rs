//! The keys of a batch, each of them once.
//!
//! Many checks of a block have keys that other checks near them have, too. A key is lifted once,
//! and has one table of multiples, or one for each block of a comb (`src/comb.rs`).

use crate::curve::Curve;
use crate::fault::{Fault, is_planted};
use crate::field::{Fe, Multiplicand, square_roots};
use crate::number::Number;
use crate::point::Affine;
use crate::word::{BATCH, LANES_MAX, Mask, Word, is_odd, side_by_side};

/// A key: its x coordinate, and whether its y is odd.
pub(crate) type Key = (Number, bool);

/// A key for lanes that nobody asks.
const STAND_IN: Key = ([1, 0, 0, 0], false);

/// Words of keys that are computed side by side; not on a single lane.
pub(crate) const SIDE_BY_SIDE: usize = 2;

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
    /// Keys that are no point.
    refused: Vec<W::Mask>,
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
            refused: Vec::new(),
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
        self.refused.clear();
        self.unsure.clear();
    }

    /// The number of a check's key, which is the next one if it is new. A batch has [`BATCH`] keys
    /// at most.
    pub(crate) fn number(&mut self, key: &Key) -> u16 {
        let mut slot = key.0[0] as usize % SLOTS;
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

    /// The points of the x coordinates and parities.
    #[inline(always)]
    pub(crate) fn lift(&mut self, curve: &Curve) {
        if self.distinct.is_empty() {
            // Lanes without a check compute with the first key.
            self.distinct.push(STAND_IN);
        }
        if W::LANES == 1 {
            self.lift_together::<1>(curve);
        } else {
            self.lift_together::<SIDE_BY_SIDE>(curve);
        }
        self.unsure.resize(self.points.len(), W::Mask::from_bits(0));
    }

    /// The x coordinates and parities of the keys from `first` on, one a lane.
    #[inline(always)]
    fn word(&self, first: usize) -> (Fe<W>, W::Mask) {
        let mut numbers = [STAND_IN.0; LANES_MAX];
        let mut odd = 0;
        let keys = self.distinct[first.min(self.distinct.len())..].iter().take(W::LANES);
        for (lane, key) in keys.enumerate() {
            numbers[lane] = key.0;
            odd |= u8::from(key.1) << lane;
        }
        (Fe::from_numbers(&numbers), W::Mask::from_bits(odd))
    }

    #[inline(always)]
    fn lift_together<const N: usize>(&mut self, curve: &Curve) {
        let stand_in = Affine {
            x: Fe::broadcast(&curve.stand_in[0]),
            y: Fe::broadcast(&curve.stand_in[1]),
        };
        for first in (0..self.distinct.len()).step_by(N * W::LANES) {
            let keys: [(Fe<W>, W::Mask); N] = side_by_side(
                #[inline(always)]
                |k| self.word(first + k * W::LANES),
            );
            let squares: [Fe<W>; N] = side_by_side(
                #[inline(always)]
                |k| right_side(curve.b, &keys[k].0),
            );
            let roots = square_roots(&squares);
            for k in 0..N {
                let (x, wanted) = &keys[k];
                let root = roots[k].normalize();
                // The power is a root only if there is one.
                let is_point = root.squared().subtract(&squares[k].lazy()).reduce().is_zero();
                let odd = is_odd(root.0[0]);
                let odd = if is_planted::<W>(Fault::KeyParity) {
                    *wanted
                } else {
                    odd
                };
                // The other root has the other parity, since p is odd.
                let y = Fe::select(odd.xor(*wanted), &root.negate(), &root).normalize();
                self.points.push(Affine {
                    // A lane without a point must not spoil the inversions that it shares with
                    // others.
                    x: Fe::select(is_point, x, &stand_in.x),
                    y: Fe::select(is_point, &y, &stand_in.y),
                });
                self.refused.push(if is_planted::<W>(Fault::NoPoint) {
                    W::Mask::from_bits(0)
                } else {
                    is_point.not()
                });
            }
        }
    }

    /// What is known of the keys with these numbers, one a lane: those that are no point, and those
    /// that are unsure.
    pub(crate) fn masks(&self, numbers: &W) -> [W::Mask; 2] {
        [lanes_of(&self.refused, 0, numbers), lanes_of(&self.unsure, 0, numbers)]
    }

    /// Of the other tables of these keys, which begin at `first`, those that are unsure.
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

/// x^3 + b.
#[inline(always)]
pub(crate) fn right_side<W: Word>(b: u64, x: &Fe<W>) -> Fe<W> {
    x.square().mul(x).add(&Fe::small(b))
}
