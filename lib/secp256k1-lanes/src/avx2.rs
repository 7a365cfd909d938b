//! Four lanes of AVX2 whose products come from the multiply-add of floating point.
//!
//! A product of two limbs has 104 bits, a float 53. The first multiply-add rounds the product to
//! the nearest multiple of 2^52, its high part. The second one subtracts that part from the
//! product. What is left, the low part, is at most 2^51 on either side of zero, so it is exact.
//! Where it is below zero, the high half is one less and the low half 2^52 more: the halves are
//! those of the exact product, as IFMA computes them (`tests/agreement.rs`). Floats are rounded to
//! nearest, as Rust has it.
//!
//! Products by `vpmuludq`, in halves of 26 bits, take 35 ns for 25 pairs, and these 31 ns at most.

#![expect(unsafe_code, reason = "intrinsics need their instructions")]

use crate::four::{Four, Multiplier, compute};
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
    compute!({
        let limb = _mm256_and_si256(limb, splat(LIMB_MASK));
        // AVX2 has no conversion from 64-bit integers. In 2^52 plus a limb the limb is the
        // mantissa.
        let above = _mm256_castsi256_pd(_mm256_or_si256(limb, bits(splat_float(LIMB_END))));
        _mm256_sub_pd(above, splat_float(LIMB_END))
    })
}

/// A product in two parts.
struct Parts {
    /// 2^104 plus the multiple of 2^52 that is nearest to the product.
    high: __m256d,
    /// What the product has more than that: from -2^51 to 2^51.
    low: __m256d,
    /// 1 where `low` is below 0.
    borrow: __m256i,
}

#[inline(always)]
fn product(a: __m256d, b: __m256d, end: __m256d) -> Parts {
    compute!({
        let high = _mm256_fmadd_pd(a, b, end);
        // The difference is exact, and the multiply-subtract rounds once: nothing is lost.
        let low = _mm256_fmsub_pd(a, b, _mm256_sub_pd(high, end));
        let borrow = _mm256_srli_epi64::<63>(bits(low));
        Parts { high, low, borrow }
    })
}

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

/// What the bits of one low part and of one high part have beside their values.
const LOW_BITS: u64 = SIGNED_END.to_bits();
const HIGH_BITS: u64 = PRODUCT_END.to_bits();

/// What one column hands to the next.
struct Carried {
    /// [`PRODUCT_END`].
    end: __m256d,
    /// The sum of high halves.
    high: Avx2,
}

impl Carried {
    #[inline(always)]
    fn new() -> Self {
        Self {
            end: splat_float(PRODUCT_END),
            high: Avx2::splat(0),
        }
    }
}

/// Makes the products of the next column depend on the sum of this one. Without it the compiler
/// computes all products first, for which there are too few registers.
#[inline]
#[target_feature(enable = "avx2")]
fn in_turn(carried: &mut Carried) {
    // SAFETY: the text is a comment, no instruction.
    unsafe {
        asm!(
            "/* {0} {1} */",
            inout(ymm_reg) carried.end,
            inout(ymm_reg) carried.high.0,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
}

/// Sums of the products of one column.
#[derive(Clone, Copy)]
struct Sums {
    /// [`PRODUCT_END`].
    end: __m256d,
    /// Bits of low parts, each plus [`SIGNED_END`].
    low: Avx2,
    /// Bits of high parts.
    high: Avx2,
    borrows: Avx2,
}

impl Sums {
    #[inline(always)]
    fn new(low: Avx2, end: __m256d) -> Self {
        Self {
            end,
            low,
            high: Avx2::splat(0),
            borrows: Avx2::splat(0),
        }
    }

    #[inline(always)]
    fn plus(self, a: __m256d, b: __m256d) -> Self {
        let Parts { high, low, borrow } = product(a, b, self.end);
        Self {
            end: self.end,
            low: self
                .low
                .add(Four::new(bits(compute!(_mm256_add_pd(low, splat_float(SIGNED_END)))))),
            high: self.high.add(Four::new(bits(high))),
            borrows: self.borrows.add(Four::new(borrow)),
        }
    }

    #[inline(always)]
    fn twice(self) -> Self {
        Self {
            end: self.end,
            low: self.low.add(self.low),
            high: self.high.add(self.high),
            borrows: self.borrows.add(self.borrows),
        }
    }

    /// The column; what it carries to the next one is `carried`.
    #[inline(always)]
    fn finish(self, carried: &mut Carried) -> Avx2 {
        // The high halves of this column belong to the next one.
        carried.high = self.high.sub(self.borrows);
        compute!(in_turn(carried));
        self.low.add(self.borrows.shift_left::<LIMB_BITS>())
    }
}

/// How many pairs of limbs have their product's low half in a column.
const fn pairs(column: usize) -> u64 {
    5_u64.saturating_sub(column.abs_diff(4) as u64)
}

/// A column of a product, or of a square of `a`, and what it carries to the next one.
///
/// A sum is made of bits of floating point numbers. What those have beside their values is
/// subtracted beforehand.
#[inline(always)]
fn column<const COLUMN: usize, const SQUARE: bool>(carried: &mut Carried, a: &[__m256d; 5], b: &[__m256d; 5]) -> Avx2 {
    let beside = const {
        let high = if COLUMN == 0 {
            0
        } else {
            HIGH_BITS.wrapping_mul(pairs(COLUMN - 1))
        };
        LOW_BITS.wrapping_mul(pairs(COLUMN)).wrapping_add(high)
    };
    let before = carried.high.sub(Avx2::splat(beside));
    let first = const { COLUMN.saturating_sub(4) };
    let sums = if SQUARE {
        let mut sums = Sums::new(Avx2::splat(0), carried.end);
        // Products of two different limbs come twice in a square: their sum is doubled.
        for i in first..const { COLUMN.div_ceil(2) } {
            sums = sums.plus(a[i], a[COLUMN - i]);
        }
        sums = sums.twice();
        if COLUMN.is_multiple_of(2) {
            sums = sums.plus(a[COLUMN / 2], a[COLUMN / 2]);
        }
        // After the doubling, which must not double what came from the column before.
        sums.low = sums.low.add(before);
        sums
    } else {
        let mut sums = Sums::new(before, carried.end);
        for i in first..const { if COLUMN < 5 { COLUMN + 1 } else { 5 } } {
            sums = sums.plus(a[i], b[COLUMN - i]);
        }
        sums
    };
    sums.finish(carried)
}

#[inline(always)]
fn all_columns<const SQUARE: bool>(a: &[__m256d; 5], b: &[__m256d; 5]) -> [Avx2; 10] {
    let mut carried = Carried::new();
    [
        column::<0, SQUARE>(&mut carried, a, b),
        column::<1, SQUARE>(&mut carried, a, b),
        column::<2, SQUARE>(&mut carried, a, b),
        column::<3, SQUARE>(&mut carried, a, b),
        column::<4, SQUARE>(&mut carried, a, b),
        column::<5, SQUARE>(&mut carried, a, b),
        column::<6, SQUARE>(&mut carried, a, b),
        column::<7, SQUARE>(&mut carried, a, b),
        column::<8, SQUARE>(&mut carried, a, b),
        carried.high.sub(Avx2::splat(HIGH_BITS)),
    ]
}

impl Multiplier for Fma {
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
        let Parts { low, borrow, .. } = product(float(a), float(b), splat_float(PRODUCT_END));
        compute!({
            let signed_end = splat_float(SIGNED_END);
            let low = _mm256_sub_epi64(bits(_mm256_add_pd(low, signed_end)), bits(signed_end));
            let borrowed = _mm256_slli_epi64::<{ LIMB_BITS as i32 }>(borrow);
            _mm256_add_epi64(sum, _mm256_add_epi64(low, borrowed))
        })
    }
    #[inline(always)]
    fn add_high(sum: __m256i, a: __m256i, b: __m256i) -> __m256i {
        let Parts { high, borrow, .. } = product(float(a), float(b), splat_float(PRODUCT_END));
        compute!({
            let high = _mm256_sub_epi64(bits(high), bits(splat_float(PRODUCT_END)));
            _mm256_add_epi64(sum, _mm256_sub_epi64(high, borrow))
        })
    }
    #[inline(always)]
    fn add_product(columns: &mut [Avx2; 10], a: &[Avx2; 5], b: &[Avx2; 5]) {
        for (column, product) in columns.iter_mut().zip(Self::product(a, b)) {
            *column = column.add(product);
        }
    }
    #[inline(always)]
    fn product(a: &[Avx2; 5], b: &[Avx2; 5]) -> [Avx2; 10] {
        all_columns::<false>(&floats(a), &floats(b))
    }
    #[inline(always)]
    fn square(a: &[Avx2; 5]) -> [Avx2; 10] {
        let a = floats(a);
        all_columns::<true>(&a, &a)
    }
    #[inline(always)]
    fn add_multiple(columns: &mut [Avx2; 6], number: &[Avx2; 5], limb: Avx2) {
        let limb = float(limb.0);
        let mut carried = Carried::new();
        for (column, number) in number.iter().enumerate() {
            let beside = LOW_BITS.wrapping_add(if column == 0 { 0 } else { HIGH_BITS });
            let before = carried.high.sub(Avx2::splat(beside));
            let sums = Sums::new(before, carried.end).plus(float(number.0), limb);
            columns[column] = columns[column].add(sums.finish(&mut carried));
        }
        columns[5] = columns[5].add(carried.high.sub(Avx2::splat(HIGH_BITS)));
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
