//! Four lanes of AVX2 whose products come from the multiply-add of floating point.

#![expect(unsafe_code, reason = "intrinsics need their instructions")]

use crate::four::{Four, Multiplier, compute};
use crate::word::{LIMB_BITS, LIMB_MASK};
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

/// 2^52 + 2^51: the same as [`LIMB_END`], for integers from -2^51 to 2^51.
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
fn product(a: __m256d, b: __m256d) -> Parts {
    compute!({
        let end = splat_float(PRODUCT_END);
        let high = _mm256_fmadd_pd(a, b, end);
        let low = _mm256_fmsub_pd(a, b, _mm256_sub_pd(high, end));
        let borrow = _mm256_srli_epi64::<63>(bits(low));
        Parts { high, low, borrow }
    })
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
        let Parts { low, borrow, .. } = product(float(a), float(b));
        compute!({
            let signed_end = splat_float(SIGNED_END);
            let low = _mm256_sub_epi64(bits(_mm256_add_pd(low, signed_end)), bits(signed_end));
            let borrowed = _mm256_slli_epi64::<{ LIMB_BITS as i32 }>(borrow);
            _mm256_add_epi64(sum, _mm256_add_epi64(low, borrowed))
        })
    }
    #[inline(always)]
    fn add_high(sum: __m256i, a: __m256i, b: __m256i) -> __m256i {
        let Parts { high, borrow, .. } = product(float(a), float(b));
        compute!({
            let high = _mm256_sub_epi64(bits(high), bits(splat_float(PRODUCT_END)));
            _mm256_add_epi64(sum, _mm256_sub_epi64(high, borrow))
        })
    }
}
