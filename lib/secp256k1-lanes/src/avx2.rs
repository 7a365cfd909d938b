//! Four lanes of AVX2 whose products come from the multiply-add of floating point.
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

#![expect(unsafe_code, reason = "intrinsics need their instructions")]

use crate::four::{Four, Multiplier, compute};
use crate::signed::{FOLD_256_LOW, FOLD_256_SHIFT, START};
use crate::word::{LIMB_BITS, LIMB_MASK, Word};
use std::arch::asm;
use std::arch::x86_64::*;

/// The multiply-add instructions of FMA.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fma;

/// Four lanes of 64 bits.
pub(crate) type Avx2 = Four<Fma>;

/// Whether the processor has what [`Avx2`] uses.
pub(crate) fn is_available() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")
}

/// 2^52: the bits of its sum with an integer below are its own bits plus the integer.
const LIMB_END: f64 = (1_u64 << 52) as f64;

/// 2^104: its sums with smaller numbers are rounded to multiples of 2^52.
const PRODUCT_END: f64 = (1_u128 << 104) as f64;

/// 2^52 + 2^51: the same as [`LIMB_END`], for integers from -2^51 to 2^51. The bits of 2^53, too,
/// are those of 2^52 plus 2^52.
const SIGNED_END: f64 = (3_u64 << 51) as f64;

#[inline(always)]
fn splat(value: u64) -> __m256i {
    compute!(_mm256_set1_epi64x(value.cast_signed()))
}

#[inline(always)]
fn splat_float(value: f64) -> __m256d {
    compute!(_mm256_set1_pd(value))
}

#[inline(always)]
fn bits(float: __m256d) -> __m256i {
    compute!(_mm256_castpd_si256(float))
}

/// The low 52 bits as a floating point number.
#[inline(always)]
fn float(limb: __m256i) -> __m256d {
    float_below(compute!(_mm256_and_si256(limb, splat(LIMB_MASK))))
}

/// A number below 2^52 as a floating point number.
#[inline(always)]
fn float_below(number: __m256i) -> __m256d {
    compute!({
        // AVX2 has no conversion from 64-bit integers. In 2^52 plus a number the number is the
        // mantissa.
        let above = _mm256_castsi256_pd(_mm256_or_si256(number, bits(splat_float(LIMB_END))));
        _mm256_sub_pd(above, splat_float(LIMB_END))
    })
}

/// What the bits of one low half and of one high half have beside their values.
const LOW_BITS: u64 = SIGNED_END.to_bits();
const HIGH_BITS: u64 = PRODUCT_END.to_bits();

#[inline(always)]
fn floats(limbs: &[Avx2; 5]) -> [__m256d; 5] {
    [
        float(limbs[0].0),
        float(limbs[1].0),
        float(limbs[2].0),
        float(limbs[3].0),
        float(limbs[4].0),
    ]
}

/// The bits of both halves of a product: the low half, which has a sign, and the high half.
#[inline(always)]
fn halves(a: __m256d, b: __m256d, end: __m256d) -> [Avx2; 2] {
    compute!({
        let high = _mm256_fmadd_pd(a, b, end);
        // The difference is exact, and the multiply-add rounds once: nothing is lost.
        let low = _mm256_fmadd_pd(a, b, _mm256_sub_pd(end, high));
        let low = _mm256_add_pd(low, splat_float(SIGNED_END));
        [Four::new(bits(low)), Four::new(bits(high))]
    })
}

/// The low and the high half of a product, as IFMA has them: none is below 0.
#[inline(always)]
fn exact_halves(a: __m256i, b: __m256i) -> [Avx2; 2] {
    let [low, high] = halves(float(a), float(b), splat_float(PRODUCT_END));
    let (low, high) = (low.sub(Avx2::splat(LOW_BITS)), high.sub(Avx2::splat(HIGH_BITS)));
    let borrow = low.shift_right::<63>();
    [low.add(borrow.shift_left_by(LIMB_BITS)), high.sub(borrow)]
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
const BITS_START: [u64; 10] = {
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

#[inline(always)]
fn start() -> [Avx2; 10] {
    let [a, b, c, d, e, f, g, h, i, j] = BITS_START;
    [
        Avx2::splat(a),
        Avx2::splat(b),
        Avx2::splat(c),
        Avx2::splat(d),
        Avx2::splat(e),
        Avx2::splat(f),
        Avx2::splat(g),
        Avx2::splat(h),
        Avx2::splat(i),
        Avx2::splat(j),
    ]
}

/// Keeps the compiler from changing the order of sums and products: it would compute all products
/// first, for which there are too few registers. The next product takes its `end` from here.
#[inline]
#[target_feature(enable = "avx2")]
fn in_turn(end: &mut __m256d, a: &mut Avx2, b: &mut Avx2) {
    // SAFETY: the text is a comment, no instruction.
    unsafe {
        asm!(
            "/* {0} {1} {2} */",
            inout(ymm_reg) *end,
            inout(ymm_reg) a.0,
            inout(ymm_reg) b.0,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
}

/// Adds the product of two limbs to its columns, as bits.
#[inline(always)]
fn add_bits_at<const N: usize>(columns: &mut [Avx2; N], column: usize, a: __m256d, b: __m256d, end: &mut __m256d) {
    let [low, high] = halves(a, b, *end);
    let [mut first, mut second] = [columns[column].add(low), columns[column + 1].add(high)];
    compute!(in_turn(end, &mut first, &mut second));
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
fn add_all(columns: &mut [Avx2; 10], a: &[__m256d; 5], b: &[__m256d; 5]) {
    let mut end = splat_float(PRODUCT_END);
    add_pairs!(columns, &mut end, a, b, 4 4, 4 3, 4 2, 4 1, 4 0);
    add_pairs!(columns, &mut end, a, b, 3 4, 3 3, 3 2, 3 1);
    add_pairs!(columns, &mut end, a, b, 2 4, 2 3, 2 2);
    add_pairs!(columns, &mut end, a, b, 1 4, 1 3, 0 4);
    add_pairs!(columns, &mut end, a, b, 3 0, 2 1, 1 2, 0 3);
    add_pairs!(columns, &mut end, a, b, 2 0, 1 1, 0 2, 1 0, 0 1, 0 0);
}

impl Multiplier for Fma {
    #[cfg(test)]
    const SIGNED_HALVES: bool = true;
    #[inline]
    fn vectorize<R>(work: impl FnOnce() -> R) -> R {
        #[target_feature(enable = "avx2,fma")]
        fn inner<R>(work: impl FnOnce() -> R) -> R {
            work()
        }
        // Not an intrinsic, but the same holds.
        compute!(inner(work))
    }
    #[inline(always)]
    fn add_low(sum: __m256i, a: __m256i, b: __m256i) -> __m256i {
        let [low, _] = exact_halves(a, b);
        compute!(_mm256_add_epi64(sum, low.0))
    }
    #[inline(always)]
    fn add_high(sum: __m256i, a: __m256i, b: __m256i) -> __m256i {
        let [_, high] = exact_halves(a, b);
        compute!(_mm256_add_epi64(sum, high.0))
    }
    #[inline(always)]
    fn add_product(columns: &mut [Avx2; 10], a: &[Avx2; 5], b: &[Avx2; 5]) {
        for (column, start) in columns.iter_mut().zip(BITS_START) {
            *column = column.add(Avx2::splat(start));
        }
        add_all(columns, &floats(a), &floats(b));
    }
    #[inline(always)]
    fn product(a: &[Avx2; 5], b: &[Avx2; 5]) -> [Avx2; 10] {
        let mut columns = start();
        add_all(&mut columns, &floats(a), &floats(b));
        columns
    }
    /// Products of two different limbs come twice: their sums are doubled. The middle column is the
    /// upper ones' and the lower ones', and is doubled last.
    #[inline(always)]
    fn square(a: &[Avx2; 5]) -> [Avx2; 10] {
        let a = floats(a);
        let mut end = splat_float(PRODUCT_END);
        let mut columns = [Avx2::splat(0); 10];
        add_pairs!(&mut columns, &mut end, a, a, 4 3, 4 2, 4 1, 4 0, 3 2, 3 1);
        let start = start();
        for column in 5..10 {
            columns[column] = columns[column].add(columns[column]).add(start[column]);
        }
        add_pairs!(&mut columns, &mut end, a, a, 4 4, 3 3);
        let [middle, high] = halves(a[2], a[2], end);
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
    fn add_multiple(columns: &mut [Avx2; 6], number: &[Avx2; 5], limb: u64) {
        let limb = splat_float(limb as f64);
        let mut end = splat_float(PRODUCT_END);
        for (k, number) in number.iter().enumerate() {
            add_bits_at(columns, k, float(number.0), limb, &mut end);
        }
        for (k, column) in columns.iter_mut().enumerate() {
            let beside = without_bits(u64::from(k < 5), u64::from(k > 0));
            *column = column.add(Avx2::splat(beside));
        }
    }
    #[inline(always)]
    fn add_top(low: [Avx2; 2], top: Avx2) -> [Avx2; 2] {
        // 2^256 modulo p is 2^32 and a small number. One multiply-add for that, and shifts, are a
        // shorter chain than two multiply-adds.
        compute!({
            let end = splat_float(LIMB_END);
            // Exact: a number below 2^42 times one of 10 bits.
            let product = _mm256_fmadd_pd(float_below(top.0), splat_float(FOLD_256_LOW as f64), end);
            let first = low[0].add(Four::new(bits(product)).sub(Four::new(bits(end))));
            let shifted = top.shift_left_by(FOLD_256_SHIFT).and(Avx2::splat(LIMB_MASK));
            [
                first.add(shifted),
                low[1].add(top.shift_right_by(LIMB_BITS - FOLD_256_SHIFT)),
            ]
        })
    }
    #[inline(always)]
    fn apart<R>(work: impl FnOnce() -> R) -> R {
        // rustc 1.95 ignores `inline(never)` on functions with target features. This function has
        // none, so it stays a function, and the one inside `vectorize` cannot become part of it.
        #[inline(never)]
        fn outer<R>(work: impl FnOnce() -> R) -> R {
            Fma::vectorize(work)
        }
        outer(work)
    }
}
