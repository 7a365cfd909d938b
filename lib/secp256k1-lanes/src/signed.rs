//! Products whose low halves have a sign.
//!
//! A product of two limbs is high times 2^52 plus low. Where the low half is taken from -2^51 to
//! 2^51, no borrow is needed, but a column may come below 0. So the columns of a product begin with
//! a number that is 0 modulo p.

use crate::word::{FOLD_256, FOLD_260, LIMB_BITS};

/// 2^256 modulo p is 2^32 plus this.
pub(crate) const FOLD_256_LOW: u64 = FOLD_256 - (1 << FOLD_256_SHIFT);
pub(crate) const FOLD_256_SHIFT: u32 = 32;

/// More than the low halves of any column can be below 0, and a multiple of 2^52.
const BIAS: u64 = 1 << 54;

/// What columns begin with.
///
/// What a column gains the next one loses. The highest column has only high halves and carries: it
/// gets 1 back, and the column that 2^468 folds into loses that.
pub(crate) const START: [u64; 10] = {
    let mut start = [0_u64; 10];
    let mut column = 0;
    while column < 9 {
        start[column] = start[column].wrapping_add(BIAS);
        start[column + 1] = 0_u64.wrapping_sub(BIAS >> LIMB_BITS);
        column += 1;
    }
    start[9] = start[9].wrapping_add(1);
    start[4] -= FOLD_260;
    start
};

#[cfg(test)]
pub(crate) mod model {
    //! What types with signed halves compute, in the operations that plain integers and intervals
    //! have: the first show every bit, the second that nothing overflows.

    use super::*;
    use crate::fault::{Fault, is_planted};
    use crate::word::{LIMB_MASK, Word};
    use std::cell::Cell;

    thread_local! {
        static SIGNED: Cell<bool> = const { Cell::new(false) };
    }

    /// Whether plain integers and intervals have signed halves on this thread.
    pub(crate) fn is_signed() -> bool {
        SIGNED.get()
    }

    /// Runs `work` with signed halves in plain integers and intervals.
    pub(crate) fn with_signed_halves<R>(work: impl FnOnce() -> R) -> R {
        struct Restore(bool);
        impl Drop for Restore {
            fn drop(&mut self) {
                SIGNED.set(self.0);
            }
        }
        let _restore = Restore(SIGNED.replace(true));
        work()
    }

    /// A word whose products can be taken in signed halves.
    pub(crate) trait SignedHalves: Word {
        /// The low half, from -2^51 to 2^51, and the high one. Of two high halves that are as near,
        /// the even one.
        fn halves(a: Self, b: Self) -> [Self; 2];
    }

    fn add_at<W: SignedHalves>(columns: &mut [W], column: usize, a: W, b: W) {
        let [low, high] = W::halves(a, b);
        columns[column] = columns[column].add(low);
        columns[column + 1] = columns[column + 1].add(high);
    }

    pub(crate) fn add_product<W: SignedHalves>(columns: &mut [W; 10], a: &[W; 5], b: &[W; 5]) {
        for (k, column) in columns.iter_mut().enumerate() {
            if is_planted::<W>(Fault::Start(k)) {
                continue;
            }
            let start = START[k].cast_signed();
            let size = W::splat(start.unsigned_abs());
            *column = if start < 0 { column.sub(size) } else { column.add(size) };
        }
        for (i, a) in a.iter().enumerate() {
            for (j, b) in b.iter().enumerate() {
                add_at(columns, i + j, *a, *b);
            }
        }
    }

    pub(crate) fn add_multiple<W: SignedHalves>(columns: &mut [W; 6], number: &[W; 5], limb: u64) {
        for (k, number) in number.iter().enumerate() {
            add_at(columns, k, *number, W::splat(limb));
        }
    }

    pub(crate) fn add_top<W: SignedHalves>(low: [W; 2], top: W) -> [W; 2] {
        let shifted = top.shift_left_wrapping::<FOLD_256_SHIFT>().and(W::splat(LIMB_MASK));
        [
            low[0].add_product_low(top, W::splat(FOLD_256_LOW)).add(shifted),
            low[1].add(top.shift_right::<{ LIMB_BITS - FOLD_256_SHIFT }>()),
        ]
    }

    /// The operations of [`Word`] that differ, for a type that has either kind of halves.
    macro_rules! either_kind_of_halves {
        () => {
            #[inline(never)]
            fn add_product(columns: &mut [Self; 10], a: &[Self; 5], b: &[Self; 5]) {
                if $crate::signed::model::is_signed() {
                    $crate::signed::model::add_product(columns, a, b);
                } else {
                    $crate::word::add_product_by_rows(columns, a, b);
                }
            }
            #[inline(never)]
            fn square(a: &[Self; 5]) -> [Self; 10] {
                if $crate::signed::model::is_signed() {
                    Self::product(a, a)
                } else {
                    $crate::word::square_by_rows(a)
                }
            }
            #[inline(never)]
            fn add_multiple(columns: &mut [Self; 6], number: &[Self; 5], limb: u64) {
                if $crate::signed::model::is_signed() {
                    $crate::signed::model::add_multiple(columns, number, limb);
                } else {
                    $crate::word::add_multiple_by_halves(columns, number, limb);
                }
            }
            #[inline(never)]
            fn add_top(low: [Self; 2], top: Self) -> [Self; 2] {
                if $crate::signed::model::is_signed() {
                    $crate::signed::model::add_top(low, top)
                } else {
                    $crate::word::add_top_by_halves(low, top)
                }
            }
        };
    }
    pub(crate) use either_kind_of_halves;
}
