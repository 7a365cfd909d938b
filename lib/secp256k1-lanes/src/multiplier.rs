//! What a vector type multiplies with. One type of lanes may have several: integers of 52 bits, or
//! floats (`floats.rs`).

use crate::word::{Word, add_multiple_by_halves, add_product_by_rows, add_top_by_halves, square_by_rows};
use std::fmt::Debug;

/// The operations of a [`Word`] that depend on the multiplier.
pub(crate) trait Multiplier<W: Word>: Copy + Debug {
    /// As [`Word::SIGNED_HALVES`].
    #[cfg(test)]
    const SIGNED_HALVES: bool = false;
    /// As [`Word::vectorize`]; the instructions of the lanes are among those of the multiplier.
    fn vectorize<R>(work: impl FnOnce() -> R) -> R;
    /// As [`Word::add_product_low`].
    fn add_low(sum: W, a: W, b: W) -> W;
    /// As [`Word::add_product_high`].
    fn add_high(sum: W, a: W, b: W) -> W;
    /// As [`Word::add_product`].
    #[inline(always)]
    fn add_product(columns: &mut [W; 10], a: &[W; 5], b: &[W; 5]) {
        add_product_by_rows(columns, a, b);
    }
    /// As [`Word::product`].
    #[inline(always)]
    fn product(a: &[W; 5], b: &[W; 5]) -> [W; 10] {
        let mut columns = [W::splat(0); 10];
        Self::add_product(&mut columns, a, b);
        columns
    }
    /// As [`Word::square`].
    #[inline(always)]
    fn square(a: &[W; 5]) -> [W; 10] {
        square_by_rows(a)
    }
    /// As [`Word::add_multiple`].
    #[inline(always)]
    fn add_multiple(columns: &mut [W; 6], number: &[W; 5], limb: u64) {
        add_multiple_by_halves(columns, number, limb);
    }
    /// As [`Word::add_top`].
    #[inline(always)]
    fn add_top(low: [W; 2], top: W) -> [W; 2] {
        add_top_by_halves(low, top)
    }
    /// As [`Word::apart`].
    #[inline(always)]
    fn apart<R>(work: impl FnOnce() -> R) -> R {
        work()
    }
}

/// An intrinsic of a vector type that only computes.
macro_rules! compute {
    ($call:expr) => {
        // SAFETY: the intrinsic touches no memory. Its instructions are there: a vector type is
        // used only by a `Verifier` whose backend was chosen after its `is_available` had said so,
        // and by tests that ask the same.
        unsafe { $call }
    };
}
pub(crate) use compute;

/// A function that runs work where these instructions may be used.
#[cfg(target_arch = "x86_64")]
macro_rules! with_instructions {
    ($name:ident, $features:literal) => {
        #[inline]
        fn $name<R>(work: impl FnOnce() -> R) -> R {
            #[target_feature(enable = $features)]
            fn inner<R>(work: impl FnOnce() -> R) -> R {
                work()
            }
            // Not an intrinsic, but the same holds.
            $crate::multiplier::compute!(inner(work))
        }
    };
}
#[cfg(target_arch = "x86_64")]
pub(crate) use with_instructions;

/// The operations of a [`Word`] that its multiplier has.
macro_rules! multiply_with {
    ($multiplier:ty) => {
        type Columns = $crate::columns::HalfColumns<Self>;
        #[cfg(test)]
        const SIGNED_HALVES: bool = <$multiplier as $crate::multiplier::Multiplier<Self>>::SIGNED_HALVES;
        #[inline(always)]
        fn vectorize<R>(work: impl FnOnce() -> R) -> R {
            <$multiplier as $crate::multiplier::Multiplier<Self>>::vectorize(work)
        }
        #[inline(always)]
        fn add_product_low(self, a: Self, b: Self) -> Self {
            <$multiplier>::add_low(self, a, b)
        }
        #[inline(always)]
        fn add_product_high(self, a: Self, b: Self) -> Self {
            <$multiplier>::add_high(self, a, b)
        }
        #[inline(always)]
        fn add_product(columns: &mut [Self; 10], a: &[Self; 5], b: &[Self; 5]) {
            <$multiplier>::add_product(columns, a, b);
        }
        #[inline(always)]
        fn product(a: &[Self; 5], b: &[Self; 5]) -> [Self; 10] {
            <$multiplier>::product(a, b)
        }
        #[inline(always)]
        fn square(a: &[Self; 5]) -> [Self; 10] {
            <$multiplier>::square(a)
        }
        #[inline(always)]
        fn add_multiple(columns: &mut [Self; 6], number: &[Self; 5], limb: u64) {
            <$multiplier>::add_multiple(columns, number, limb);
        }
        #[inline(always)]
        fn add_top(low: [Self; 2], top: Self) -> [Self; 2] {
            <$multiplier>::add_top(low, top)
        }
        #[inline(always)]
        fn apart<R>(work: impl FnOnce() -> R) -> R {
            <$multiplier as $crate::multiplier::Multiplier<Self>>::apart(work)
        }
    };
}
pub(crate) use multiply_with;
