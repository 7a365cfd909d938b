//! Products from the multiply-add of floating point, for vectors whose processors multiply no
//! integers of 52 bits.
//!
//! A product of two limbs has 104 bits, a float 53. The first multiply-add rounds the product to
//! the nearest multiple of 2^52, its high half. The second one takes that half away from the
//! product. What is left, the low half, is at most 2^51 on either side of zero, so it is exact
//! (`signed.rs`). Floats are rounded to nearest, and to even between two, as Rust has it.
//!
//! A sum of floats as they are would be rounded. So their bits are added up as integers: an integer
//! below 2^52 plus 2^52 has the integer in the lowest bits. What the bits have beside their values
//! is a constant, and is taken away where the sum begins.
//!
//! # Order
//!
//! A product is 25 pairs of limbs, which processors compute side by side, and then a chain: the
//! upper columns are carried, folded into the lower ones, and these are carried and folded again.
//! The chain takes as long as the pairs. So the pairs of the upper columns come first, and what the
//! chain can do without a multiply-add it does without.

use crate::columns::HalfProducts;
use crate::multiplier::Multiplier;
use crate::signed::{FOLD_256_LOW, FOLD_256_SHIFT, START};
use crate::word::{LIMB_BITS, LIMB_MASK, Word};

/// A word that can be read as floats: as many lanes, of 64 bits each.
pub(crate) trait Floats: Word {
    type Float: Copy;

    /// As [`Word::vectorize`].
    fn with_instructions<R>(work: impl FnOnce() -> R) -> R;
    /// As [`Word::apart`].
    fn apart_with_instructions<R>(work: impl FnOnce() -> R) -> R;
    fn splat_float(value: f64) -> Self::Float;
    /// The floats that have these bits.
    fn as_float(self) -> Self::Float;
    fn bits(float: Self::Float) -> Self;
    fn add_floats(a: Self::Float, b: Self::Float) -> Self::Float;
    fn sub_floats(a: Self::Float, b: Self::Float) -> Self::Float;
    /// `a` times `b` plus `sum`, rounded once.
    fn multiply_add(a: Self::Float, b: Self::Float, sum: Self::Float) -> Self::Float;

    /// A number below 2^52 as a floating point number.
    #[inline(always)]
    fn float_below(self) -> Self::Float {
        // AVX2 has no conversion from 64-bit integers. In 2^52 plus a number the number is the
        // mantissa.
        let end = Self::splat_float(LIMB_END);
        Self::sub_floats(self.or(Self::bits(end)).as_float(), end)
    }
    /// What the sums of bits of a product begin with.
    #[inline(always)]
    fn start() -> [Self; 10] {
        let [a, b, c, d, e, f, g, h, i, j] = BITS_START;
        [
            Self::splat(a),
            Self::splat(b),
            Self::splat(c),
            Self::splat(d),
            Self::splat(e),
            Self::splat(f),
            Self::splat(g),
            Self::splat(h),
            Self::splat(i),
            Self::splat(j),
        ]
    }

    /// Keeps the compiler from changing the order of sums and products, for types that have too few
    /// registers for all products at once. The next product takes its `end` from here.
    #[inline(always)]
    fn in_turn(_end: &mut Self::Float, _a: &mut Self, _b: &mut Self) {}
}

/// [`Floats::apart_with_instructions`] of a type. Each type has it in its own file: functions of
/// one file are optimised together, and otherwise results would be copied once more.
macro_rules! apart_in_this_file {
    ($word:ty) => {
        #[inline(always)]
        fn apart_with_instructions<R>(work: impl FnOnce() -> R) -> R {
            // rustc 1.95 ignores `inline(never)` on functions with target features. This function
            // has none, so it stays a function, and the one inside `with_instructions` cannot
            // become part of it.
            #[inline(never)]
            fn outer<R>(work: impl FnOnce() -> R) -> R {
                <$word>::with_instructions(work)
            }
            outer(work)
        }
    };
}
pub(crate) use apart_in_this_file;

/// 2^52: the bits of its sum with an integer below are its own bits plus the integer.
const LIMB_END: f64 = (1_u64 << 52) as f64;

/// 2^104: its sums with smaller numbers are rounded to multiples of 2^52.
const PRODUCT_END: f64 = (1_u128 << 104) as f64;

/// 2^52 + 2^51: the same as [`LIMB_END`], for integers from -2^51 to 2^51. The bits of 2^53, too,
/// are those of 2^52 plus 2^52.
const SIGNED_END: f64 = (3_u64 << 51) as f64;

/// The low 52 bits as a floating point number.
#[inline(always)]
fn float<W: Floats>(limb: W) -> W::Float {
    limb.and(W::splat(LIMB_MASK)).float_below()
}

/// What the bits of one low half and of one high half have beside their values.
const LOW_BITS: u64 = SIGNED_END.to_bits();
const HIGH_BITS: u64 = PRODUCT_END.to_bits();

#[inline(always)]
fn floats<W: Floats>(limbs: &[W; 5]) -> [W::Float; 5] {
    [
        float(limbs[0]),
        float(limbs[1]),
        float(limbs[2]),
        float(limbs[3]),
        float(limbs[4]),
    ]
}

/// The bits of both halves of a product: the low half, which has a sign, and the high half.
#[inline(always)]
fn halves<W: Floats>(a: W::Float, b: W::Float, end: W::Float) -> [W; 2] {
    let high = W::multiply_add(a, b, end);
    // The difference is exact, and the multiply-add rounds once: nothing is lost.
    let low = W::multiply_add(a, b, W::sub_floats(end, high));
    let low = W::add_floats(low, W::splat_float(SIGNED_END));
    [W::bits(low), W::bits(high)]
}

/// The low and the high half of a product, as IFMA has them: none is below 0.
#[inline(always)]
fn exact_halves<W: Floats>(a: W, b: W) -> [W; 2] {
    let [low, high] = halves::<W>(float(a), float(b), W::splat_float(PRODUCT_END));
    let (low, high) = (low.sub(W::splat(LOW_BITS)), high.sub(W::splat(HIGH_BITS)));
    let borrow = low.shift_right::<63>();
    [low.add(borrow.shift_left::<LIMB_BITS>()), high.sub(borrow)]
}

/// How many pairs of limbs have the low half of their product in a column.
const fn pairs(column: usize) -> u64 {
    5_u64.saturating_sub(column.abs_diff(4) as u64)
}

/// What the bits of `low` low halves and of `high` high halves have beside their values, as a
/// number to add.
const fn without_bits(low: u64, high: u64) -> u64 {
    0_u64
        .wrapping_sub(LOW_BITS.wrapping_mul(low))
        .wrapping_sub(HIGH_BITS.wrapping_mul(high))
}

/// What the sums of bits of a product begin with.
pub(crate) const BITS_START: [u64; 10] = {
    let mut start = START;
    let mut column = 0;
    while column < 10 {
        let high = if column == 0 { 0 } else { pairs(column - 1) };
        let low = if column == 9 { 0 } else { pairs(column) };
        start[column] = start[column].wrapping_add(without_bits(low, high));
        column += 1;
    }
    start
};

/// Adds the product of two limbs to its columns, as bits.
#[inline(always)]
fn add_bits_at<W: Floats, const N: usize>(
    columns: &mut [W; N],
    column: usize,
    a: W::Float,
    b: W::Float,
    end: &mut W::Float,
) {
    let [low, high] = halves::<W>(a, b, *end);
    let [mut first, mut second] = [columns[column].add(low), columns[column + 1].add(high)];
    W::in_turn(end, &mut first, &mut second);
    columns[column] = first;
    columns[column + 1] = second;
}

/// Adds the products of pairs of limbs, as bits. Pairs are written out: what the compiler leaves as
/// a loop keeps its columns in memory.
macro_rules! add_pairs {
    ($columns:expr, $end:expr, $a:expr, $b:expr, $($i:literal $j:literal),+) => {
        $(add_bits_at($columns, $i + $j, $a[$i], $b[$j], $end);)+
    };
}

/// Adds the products of all pairs of limbs. Those of the upper columns come first: what folds them
/// into the lower ones is a long chain, which the others are computed beside.
#[inline(always)]
fn add_all<W: Floats>(columns: &mut [W; 10], a: &[W::Float; 5], b: &[W::Float; 5]) {
    let mut end = W::splat_float(PRODUCT_END);
    add_pairs!(columns, &mut end, a, b, 4 4, 4 3, 4 2, 4 1, 4 0);
    add_pairs!(columns, &mut end, a, b, 3 4, 3 3, 3 2, 3 1);
    add_pairs!(columns, &mut end, a, b, 2 4, 2 3, 2 2);
    add_pairs!(columns, &mut end, a, b, 1 4, 1 3, 0 4);
    add_pairs!(columns, &mut end, a, b, 3 0, 2 1, 1 2, 0 3);
    add_pairs!(columns, &mut end, a, b, 2 0, 1 1, 0 2, 1 0, 0 1, 0 0);
}

/// The multiply-add of floating point.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fma;

impl<W: Floats> Multiplier<W> for Fma {
    #[inline(always)]
    fn vectorize<R>(work: impl FnOnce() -> R) -> R {
        W::with_instructions(work)
    }
    #[inline(always)]
    fn add_low(sum: W, a: W, b: W) -> W {
        let [low, _] = exact_halves(a, b);
        sum.add(low)
    }
    #[inline(always)]
    fn add_high(sum: W, a: W, b: W) -> W {
        let [_, high] = exact_halves(a, b);
        sum.add(high)
    }
    #[inline(always)]
    fn apart<R>(work: impl FnOnce() -> R) -> R {
        W::apart_with_instructions(work)
    }
}

impl<W: Floats> HalfProducts<W> for Fma {
    #[cfg(test)]
    const SIGNED: bool = true;

    #[inline(always)]
    fn add_product(columns: &mut [W; 10], a: &[W; 5], b: &[W; 5]) {
        for (column, start) in columns.iter_mut().zip(W::start()) {
            *column = column.add(start);
        }
        add_all(columns, &floats(a), &floats(b));
    }
    #[inline(always)]
    fn product(a: &[W; 5], b: &[W; 5]) -> [W; 10] {
        let mut columns = W::start();
        add_all(&mut columns, &floats(a), &floats(b));
        columns
    }
    /// Products of two different limbs come twice: their sums are doubled. The middle column is the
    /// upper ones' and the lower ones', and is doubled last.
    #[inline(always)]
    fn square(a: &[W; 5]) -> [W; 10] {
        let a = floats(a);
        let mut end = W::splat_float(PRODUCT_END);
        let mut columns = [W::splat(0); 10];
        add_pairs!(&mut columns, &mut end, a, a, 4 3, 4 2, 4 1, 4 0, 3 2, 3 1);
        let start = W::start();
        for column in 5..10 {
            columns[column] = columns[column].add(columns[column]).add(start[column]);
        }
        add_pairs!(&mut columns, &mut end, a, a, 4 4, 3 3);
        let [middle, high] = halves::<W>(a[2], a[2], end);
        columns[5] = columns[5].add(high);
        add_pairs!(&mut columns, &mut end, a, a, 3 0, 2 1, 2 0, 1 0);
        for column in 0..5 {
            columns[column] = columns[column].add(columns[column]).add(start[column]);
        }
        columns[4] = columns[4].add(middle);
        add_pairs!(&mut columns, &mut end, a, a, 1 1, 0 0);
        columns
    }
    #[inline(always)]
    fn add_multiple(columns: &mut [W; 6], number: &[W; 5], limb: u64) {
        let limb = W::splat_float(limb as f64);
        let mut end = W::splat_float(PRODUCT_END);
        for (k, number) in number.iter().enumerate() {
            add_bits_at(columns, k, float(*number), limb, &mut end);
        }
        for (k, column) in columns.iter_mut().enumerate() {
            let beside = without_bits(u64::from(k < 5), u64::from(k > 0));
            *column = column.add(W::splat(beside));
        }
    }
    #[inline(always)]
    fn add_top(low: [W; 2], top: W) -> [W; 2] {
        // 2^256 modulo p is 2^32 and a small number. One multiply-add for that, and shifts, are a
        // shorter chain than two multiply-adds.
        let end = W::splat_float(LIMB_END);
        // Exact: a number below 2^42 times one of 10 bits.
        let product = W::multiply_add(top.float_below(), W::splat_float(FOLD_256_LOW as f64), end);
        let first = low[0].add(W::bits(product).sub(W::bits(end)));
        let shifted = top.shift_left_by(FOLD_256_SHIFT).and(W::splat(LIMB_MASK));
        [
            first.add(shifted),
            low[1].add(top.shift_right_by(LIMB_BITS - FOLD_256_SHIFT)),
        ]
    }
}
