//! Eight lanes of AVX-512 with IFMA.

#![expect(unsafe_code, reason = "intrinsics need their instructions")]

use crate::columns::HalfProducts;
use crate::eight::Eight;
use crate::multiplier::{Multiplier, compute, with_instructions};
use std::arch::x86_64::*;

/// The multiply-add instructions of IFMA in the encoding of AVX-512.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ifma;

/// Eight lanes of 64 bits.
pub(crate) type Avx512 = Eight<Ifma>;

/// Whether the processor has what [`Avx512`] uses.
pub(crate) fn is_available() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512ifma")
}

impl HalfProducts<Avx512> for Ifma {}

impl Multiplier<Avx512> for Ifma {
    with_instructions!(vectorize, "avx512f,avx512dq,avx512vl,avx512ifma");
    #[inline(always)]
    fn add_low(sum: Avx512, a: Avx512, b: Avx512) -> Avx512 {
        Eight::new(compute!(_mm512_madd52lo_epu64(sum.0, a.0, b.0)))
    }
    #[inline(always)]
    fn add_high(sum: Avx512, a: Avx512, b: Avx512) -> Avx512 {
        Eight::new(compute!(_mm512_madd52hi_epu64(sum.0, a.0, b.0)))
    }
}
