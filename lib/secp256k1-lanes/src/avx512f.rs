//! Eight lanes of AVX-512 without IFMA, which multiply by the multiply-add of floating point
//! (`floats.rs`).

#![expect(unsafe_code, reason = "intrinsics need their instructions")]

use crate::eight::Eight;
use crate::floats::{Floats, Fma, apart_in_this_file};
use crate::multiplier::{compute, with_instructions};
use std::arch::x86_64::*;

/// Eight lanes of 64 bits.
pub(crate) type Avx512F = Eight<Fma>;

/// Whether the processor has what [`Avx512F`] uses.
pub(crate) fn is_available() -> bool {
    is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512dq") && is_x86_feature_detected!("avx512vl")
}

impl Floats for Avx512F {
    type Float = __m512d;

    with_instructions!(with_instructions, "avx512f,avx512dq,avx512vl");
    apart_in_this_file!(Avx512F);
    #[inline(always)]
    fn splat_float(value: f64) -> __m512d {
        compute!(_mm512_set1_pd(value))
    }
    #[inline(always)]
    fn as_float(self) -> __m512d {
        compute!(_mm512_castsi512_pd(self.0))
    }
    #[inline(always)]
    fn bits(float: __m512d) -> Self {
        Self::new(compute!(_mm512_castpd_si512(float)))
    }
    #[inline(always)]
    fn add_floats(a: __m512d, b: __m512d) -> __m512d {
        compute!(_mm512_add_pd(a, b))
    }
    #[inline(always)]
    fn sub_floats(a: __m512d, b: __m512d) -> __m512d {
        compute!(_mm512_sub_pd(a, b))
    }
    #[inline(always)]
    fn multiply_add(a: __m512d, b: __m512d, sum: __m512d) -> __m512d {
        compute!(_mm512_fmadd_pd(a, b, sum))
    }
}
