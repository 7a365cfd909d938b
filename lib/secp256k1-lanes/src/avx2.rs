//! Eight lanes of AVX2, which multiply by the multiply-add of floating point (`floats.rs`). Each
//! word has two vectors.

#![expect(unsafe_code, reason = "intrinsics need their instructions")]

use crate::floats::{Floats, Fma, apart_in_this_file};
use crate::four::Four;
use crate::multiplier::{compute, with_instructions};
use crate::two::Two;
use std::arch::asm;
use std::arch::x86_64::*;

/// Four lanes of 64 bits.
type Vector = Four<Fma>;

/// Eight lanes of 64 bits.
pub(crate) type Avx2 = Two<Vector>;

/// Whether the processor has what [`Avx2`] uses.
pub(crate) fn is_available() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")
}

/// There are sixteen registers: the compiler would compute all products first, for which these are
/// too few.
#[inline]
#[target_feature(enable = "avx2")]
fn in_turn(end: &mut __m256d, a: &mut Vector, b: &mut Vector) {
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

impl Floats for Vector {
    type Float = __m256d;

    with_instructions!(with_instructions, "avx2,fma");
    apart_in_this_file!(Vector);
    #[inline(always)]
    fn splat_float(value: f64) -> __m256d {
        compute!(_mm256_set1_pd(value))
    }
    #[inline(always)]
    fn as_float(self) -> __m256d {
        compute!(_mm256_castsi256_pd(self.0))
    }
    #[inline(always)]
    fn bits(float: __m256d) -> Self {
        Self::new(compute!(_mm256_castpd_si256(float)))
    }
    #[inline(always)]
    fn add_floats(a: __m256d, b: __m256d) -> __m256d {
        compute!(_mm256_add_pd(a, b))
    }
    #[inline(always)]
    fn sub_floats(a: __m256d, b: __m256d) -> __m256d {
        compute!(_mm256_sub_pd(a, b))
    }
    #[inline(always)]
    fn multiply_add(a: __m256d, b: __m256d, sum: __m256d) -> __m256d {
        compute!(_mm256_fmadd_pd(a, b, sum))
    }
    #[inline(always)]
    fn in_turn(end: &mut __m256d, a: &mut Self, b: &mut Self) {
        compute!(in_turn(end, a, b));
    }
}
