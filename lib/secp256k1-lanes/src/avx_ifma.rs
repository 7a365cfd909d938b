//! Four lanes with AVX-IFMA.

#![expect(unsafe_code, reason = "intrinsics need their instructions")]

use crate::columns::HalfProducts;
use crate::four::Four;
use crate::multiplier::{Multiplier, compute, with_instructions};
use std::arch::x86_64::*;

/// The multiply-add instructions of IFMA in the encoding of AVX.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ifma;

/// Four lanes of 64 bits.
pub(crate) type AvxIfma = Four<Ifma>;

/// Whether the processor has what [`AvxIfma`] uses.
pub(crate) fn is_available() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("avxifma")
}

impl HalfProducts<AvxIfma> for Ifma {}

impl Multiplier<AvxIfma> for Ifma {
    with_instructions!(vectorize, "avx2,avxifma");
    #[inline(always)]
    fn add_low(sum: AvxIfma, a: AvxIfma, b: AvxIfma) -> AvxIfma {
        Four::new(compute!(_mm256_madd52lo_avx_epu64(sum.0, a.0, b.0)))
    }
    #[inline(always)]
    fn add_high(sum: AvxIfma, a: AvxIfma, b: AvxIfma) -> AvxIfma {
        Four::new(compute!(_mm256_madd52hi_avx_epu64(sum.0, a.0, b.0)))
    }
}

/// The same with the other encoding of the two instructions, which processors with AVX-512 have,
/// and still with the sixteen registers of AVX: all else is tested there.
#[cfg(test)]
pub(crate) mod twin {
    use super::*;
    use std::arch::asm;

    #[derive(Debug, Clone, Copy)]
    pub(crate) struct Evex;

    pub(crate) type Twin = Four<Evex>;

    pub(crate) fn is_available() -> bool {
        is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("avx512ifma")
            && is_x86_feature_detected!("avx512vl")
    }

    macro_rules! instruction {
        ($name:ident, $text:literal) => {
            #[inline]
            #[target_feature(enable = "avx2")]
            fn $name(mut sum: __m256i, a: __m256i, b: __m256i) -> __m256i {
                // SAFETY: the instruction only computes. It is there: tests ask `is_available`.
                unsafe {
                    asm!(
                        $text,
                        inout(ymm_reg) sum,
                        in(ymm_reg) a,
                        in(ymm_reg) b,
                        options(pure, nomem, nostack, preserves_flags),
                    );
                }
                sum
            }
        };
    }
    instruction!(add_low, "{{evex}} vpmadd52luq {0}, {1}, {2}");
    instruction!(add_high, "{{evex}} vpmadd52huq {0}, {1}, {2}");

    impl HalfProducts<Twin> for Evex {}

    impl Multiplier<Twin> for Evex {
        with_instructions!(vectorize, "avx2");
        #[inline(always)]
        fn add_low(sum: Twin, a: Twin, b: Twin) -> Twin {
            Four::new(compute!(add_low(sum.0, a.0, b.0)))
        }
        #[inline(always)]
        fn add_high(sum: Twin, a: Twin, b: Twin) -> Twin {
            Four::new(compute!(add_high(sum.0, a.0, b.0)))
        }
    }
}
