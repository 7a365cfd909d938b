//! Whole products, for words that are multiplied without losing a bit: plain integers.
//!
//! Nine columns of products of limbs are sums of twice the bits of a word. So limbs need not be
//! carried before they are multiplied, and a reduction carries each column once.

use crate::fault::{Fault, is_planted};
use crate::limbs::{TOP_BITS, TOP_MASK, carry_and_clear, each, negative};
use crate::word::{Columns, FOLD_256, FOLD_260, LIMB_BITS, Word};
use std::fmt::Debug;

/// A word whose products have twice its bits.
pub(crate) trait Widen: Word {
    /// Twice the bits of a word.
    type Wide: Copy + Debug;

    fn widen(self) -> Self::Wide;
    fn times(self, other: Self) -> Self::Wide;
    fn sum(a: Self::Wide, b: Self::Wide) -> Self::Wide;
    /// The low 52 bits.
    fn limb(wide: Self::Wide) -> Self;
    /// What is above the low 52 bits.
    fn above_limb(wide: Self::Wide) -> Self::Wide;
    /// The lower and the upper half of the bits.
    fn words(wide: Self::Wide) -> [Self; 2];
    /// The same number in a word, which it fits.
    fn narrow(wide: Self::Wide) -> Self;
}

/// A term of a sum.
#[derive(Debug, Clone, Copy)]
enum Term<W> {
    Product([W; 5], [W; 5]),
    Square([W; 5]),
}

/// A sum of at most two products and a number. Columns are computed when the reduction takes them,
/// one after the other: all nine would not fit the registers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WideColumns<W> {
    first: Term<W>,
    second: Option<Term<W>>,
    added: [W; 5],
}

impl<W: Widen> Term<W> {
    /// The column `K`, and what was there before.
    #[inline(always)]
    fn add_column<const K: usize>(&self, mut sum: W::Wide) -> W::Wide {
        let (lowest, highest) = (K.saturating_sub(4), K.min(4));
        match self {
            Self::Product(a, b) => {
                for i in lowest..=highest {
                    sum = W::sum(sum, a[i].times(b[K - i]));
                }
            }
            Self::Square(a) => {
                // Each product of two different limbs stands for two.
                for i in lowest..K.div_ceil(2) {
                    sum = W::sum(sum, a[i].add(a[i]).times(a[K - i]));
                }
                if K.is_multiple_of(2) {
                    sum = W::sum(sum, a[K / 2].times(a[K / 2]));
                }
            }
        }
        sum
    }
}

impl<W: Widen> WideColumns<W> {
    #[inline(always)]
    fn new(first: Term<W>) -> Self {
        Self {
            first,
            second: None,
            added: [W::splat(0); 5],
        }
    }

    #[inline(always)]
    fn add_column<const K: usize>(&self, mut sum: W::Wide) -> W::Wide {
        sum = self.first.add_column::<K>(sum);
        if let Some(second) = &self.second {
            sum = second.add_column::<K>(sum);
        }
        match self.added.get(K) {
            Some(added) => W::sum(sum, added.widen()),
            None => sum,
        }
    }

    /// The limb of a column, and what it carries to the next one. `NUMBER` is that of a planted
    /// fault.
    #[inline(always)]
    fn carry<const NUMBER: usize>(column: W::Wide) -> (W, W::Wide) {
        let carried = if is_planted::<W>(Fault::WideCarry(NUMBER)) {
            W::splat(0).widen()
        } else {
            W::above_limb(column)
        };
        (W::limb(column), carried)
    }
}

impl<W: Widen> Columns<W> for WideColumns<W> {
    #[inline(always)]
    fn product(a: &[W; 5], b: &[W; 5]) -> Self {
        Self::new(Term::Product(*a, *b))
    }

    #[inline(always)]
    fn square(a: &[W; 5]) -> Self {
        Self::new(Term::Square(*a))
    }

    #[inline(always)]
    fn add_product(mut self, a: &[W; 5], b: &[W; 5]) -> Self {
        assert!(self.second.is_none(), "at most two products");
        self.second = Some(Term::Product(*a, *b));
        self
    }

    #[inline(always)]
    fn add(mut self, limbs: &[W; 5]) -> Self {
        for (added, limb) in self.added.iter_mut().zip(limbs) {
            *added = added.add(*limb);
        }
        self
    }

    #[inline(always)]
    fn subtract_scaled<const BITS: u32>(self, other: &Self) -> Self {
        let scaled = each(
            &other.lazy(),
            #[inline(always)]
            |limb| limb.shift_left::<BITS>(),
        );
        self.add(&negative(&scaled))
    }

    #[inline(always)]
    fn lazy(self) -> [W; 5] {
        let fold = W::splat(FOLD_260);
        // Column 8 first, which ends in columns 3 and 4: 2^260 is the fold, and the upper word is a
        // limb and 12 bits above the lower one. Then what column 4 has above 2^256 can go the way
        // of all other columns, upwards and around.
        let [low, high] = W::words(self.add_column::<8>(W::splat(0).widen()));
        let high = if is_planted::<W>(Fault::WideCarry(0)) {
            W::splat(0)
        } else {
            high
        };
        let (third, up) = Self::carry::<1>(self.add_column::<3>(low.times(fold)));
        let up = W::sum(up, high.times(W::splat(FOLD_260 << (64 - LIMB_BITS))));
        let (fourth, up) = Self::carry::<2>(self.add_column::<4>(up));
        let (fifth, up) = Self::carry::<3>(self.add_column::<5>(up));
        let top = if is_planted::<W>(Fault::WideTopFold) {
            W::splat(0)
        } else {
            fourth.shift_right::<TOP_BITS>()
        };
        let fourth = if is_planted::<W>(Fault::WideTopMask) {
            fourth
        } else {
            fourth.and(W::splat(TOP_MASK))
        };
        let above = fifth.shift_left::<{ LIMB_BITS - TOP_BITS }>().or(top);
        let (zeroth, down) = Self::carry::<4>(self.add_column::<0>(above.times(W::splat(FOLD_256))));
        let (sixth, up) = Self::carry::<5>(self.add_column::<6>(up));
        let (first, down) = Self::carry::<6>(self.add_column::<1>(W::sum(down, sixth.times(fold))));
        let (seventh, up) = Self::carry::<7>(self.add_column::<7>(up));
        let (second, down) = Self::carry::<8>(self.add_column::<2>(W::sum(down, seventh.times(fold))));
        // What column 7 carries is column 8 once more.
        let down = W::sum(down, W::narrow(up).times(fold));
        let (third, down) = Self::carry::<9>(W::sum(down, third.widen()));
        let fourth = fourth.add(W::narrow(down));
        fourth.promise_below::<LIMB_BITS>();
        [zeroth, first, second, third, fourth]
    }

    #[inline(always)]
    fn lazy_double(self) -> [W; 5] {
        each(
            &self.lazy(),
            #[inline(always)]
            |limb| limb.add(limb),
        )
    }

    #[inline(always)]
    fn reduce(self) -> [W; 5] {
        self.lazy()
    }

    #[inline(always)]
    fn factor(limbs: [W; 5]) -> [W; 5] {
        limbs
    }

    #[inline(always)]
    fn clear_factor(limbs: &[W; 5]) -> [W; 5] {
        carry_and_clear(*limbs)
    }
}
