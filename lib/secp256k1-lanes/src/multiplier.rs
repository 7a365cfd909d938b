//! What a vector type multiplies with. One type of lanes may have several: integers of 52 bits, or
//! floats (`floats.rs`).

use crate::columns::HalfProducts;
use crate::word::Word;

/// The operations of a [`Word`] that depend on the multiplier.
pub(crate) trait Multiplier<W: Word>: HalfProducts<W> {
    /// As [`Word::vectorize`]; the instructions of the lanes are among those of the multiplier.
    fn vectorize<R>(work: impl FnOnce() -> R) -> R;
    /// As [`Word::add_product_low`].
    fn add_low(sum: W, a: W, b: W) -> W;
    /// As [`Word::add_product_high`].
    fn add_high(sum: W, a: W, b: W) -> W;
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
        type Columns = $crate::columns::HalfColumns<Self, $multiplier>;
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
        fn apart<R>(work: impl FnOnce() -> R) -> R {
            <$multiplier as $crate::multiplier::Multiplier<Self>>::apart(work)
        }
    };
}
pub(crate) use multiply_with;
