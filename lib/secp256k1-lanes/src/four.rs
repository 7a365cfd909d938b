//! Four lanes of AVX2. Two multipliers complete them: `avx_ifma.rs`, and `avx2.rs` for a pair.

#![expect(
    unsafe_code,
    reason = "intrinsics need their instructions, loads and stores a pointer"
)]

use crate::multiplier::{Multiplier, compute, multiply_with};
use crate::word::{LANES_MAX, Mask, Row, Word, lanewise};
use std::arch::x86_64::*;
use std::marker::PhantomData;

/// Four lanes of 64 bits.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Four<M>(pub(crate) __m256i, PhantomData<M>);

/// All bits of a lane, or none.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Mask4(__m256i);

#[inline(always)]
fn splat(value: u64) -> __m256i {
    compute!(_mm256_set1_epi64x(value.cast_signed()))
}

impl Mask for Mask4 {
    #[inline(always)]
    fn from_bits(bits: u8) -> Self {
        // AVX2 has no mask registers: a mask is all ones in the lanes that it has.
        let bit = compute!(_mm256_setr_epi64x(1, 2, 4, 8));
        Self(compute!(_mm256_cmpeq_epi64(
            _mm256_and_si256(splat(bits.into()), bit),
            bit
        )))
    }
    #[inline(always)]
    fn bits(self) -> u8 {
        compute!(_mm256_movemask_pd(_mm256_castsi256_pd(self.0))) as u8
    }
    lanewise! {
        and(self, other) = Self(compute!(_mm256_and_si256(self.0, other.0)));
        or(self, other) = Self(compute!(_mm256_or_si256(self.0, other.0)));
        xor(self, other) = Self(compute!(_mm256_xor_si256(self.0, other.0)));
    }
    #[inline(always)]
    fn not(self) -> Self {
        Self(compute!(_mm256_xor_si256(self.0, splat(u64::MAX))))
    }
}

impl<M: Copy> Four<M> {
    #[inline(always)]
    pub(crate) fn new(lanes: __m256i) -> Self {
        Self(lanes, PhantomData)
    }

    /// Half of a row, or of what has eight lanes.
    #[inline(always)]
    fn load<const HALF: usize>(numbers: &[u64; 8]) -> Self {
        let (halves, _) = numbers.as_chunks::<4>();
        // SAFETY: the reference is to 32 bytes that can be read; the load asks for no alignment.
        // For the instruction see `compute`.
        Self::new(unsafe { _mm256_loadu_si256(halves[HALF].as_ptr().cast()) })
    }
    #[inline(always)]
    fn store<const HALF: usize>(self, numbers: &mut [u64; 8]) {
        let (halves, _) = numbers.as_chunks_mut::<4>();
        // SAFETY: the reference is to 32 bytes that can be written; the store asks for no
        // alignment. For the instruction see `compute`.
        unsafe {
            _mm256_storeu_si256(halves[HALF].as_mut_ptr().cast(), self.0);
        }
    }

    lanewise! {
        /// The lanes of even index of both, in turns.
        unpack_low(self, other) = Self::new(compute!(_mm256_unpacklo_epi64(self.0, other.0)));
        /// The lanes of odd index of both, in turns.
        unpack_high(self, other) = Self::new(compute!(_mm256_unpackhi_epi64(self.0, other.0)));
        /// The lower half of each.
        low_halves(self, other) = Self::new(compute!(_mm256_permute2x128_si256::<0x20>(self.0, other.0)));
        /// The upper half of each.
        high_halves(self, other) = Self::new(compute!(_mm256_permute2x128_si256::<0x31>(self.0, other.0)));
    }
}

/// Rows become columns.
#[inline(always)]
fn transpose<M: Copy>(rows: [Four<M>; 4]) -> [Four<M>; 4] {
    let [r0, r1, r2, r3] = rows;
    // Each half has a column of two rows.
    let (even, other_even) = (r0.unpack_low(r1), r2.unpack_low(r3));
    let (odd, other_odd) = (r0.unpack_high(r1), r2.unpack_high(r3));
    [
        even.low_halves(other_even),
        odd.low_halves(other_odd),
        even.high_halves(other_even),
        odd.high_halves(other_odd),
    ]
}

impl<M: Multiplier<Self>> Word for Four<M> {
    const LANES: usize = 4;

    type Mask = Mask4;

    #[inline(always)]
    fn splat(value: u64) -> Self {
        Self::new(splat(value))
    }
    #[inline(always)]
    fn from_lanes(lanes: &[u64; LANES_MAX]) -> Self {
        Self::load::<0>(lanes)
    }
    #[inline(always)]
    fn to_lanes(self) -> [u64; LANES_MAX] {
        let mut lanes = [0; LANES_MAX];
        self.store::<0>(&mut lanes);
        lanes
    }
    lanewise! {
        add(self, other) = Self::new(compute!(_mm256_add_epi64(self.0, other.0)));
        sub(self, other) = Self::new(compute!(_mm256_sub_epi64(self.0, other.0)));
        and(self, other) = Self::new(compute!(_mm256_and_si256(self.0, other.0)));
        or(self, other) = Self::new(compute!(_mm256_or_si256(self.0, other.0)));
    }
    #[inline(always)]
    fn shift_right_signed<const BITS: u32>(self) -> Self {
        // AVX2 has no such shift of 64 bits. The sign comes down as a bit, and the bits above it
        // are its copies.
        let sign = Self::splat(1 << (63 - BITS));
        let shifted = self.shift_right::<BITS>();
        Self::new(compute!(_mm256_xor_si256(shifted.0, sign.0))).sub(sign)
    }
    #[inline(always)]
    fn shift_left_by(self, bits: u32) -> Self {
        Self::new(compute!(_mm256_sll_epi64(self.0, _mm_cvtsi64_si128(bits.into()))))
    }
    #[inline(always)]
    fn shift_right_by(self, bits: u32) -> Self {
        Self::new(compute!(_mm256_srl_epi64(self.0, _mm_cvtsi64_si128(bits.into()))))
    }
    multiply_with!(M);
    #[inline(always)]
    fn is_zero(self) -> Mask4 {
        Mask4(compute!(_mm256_cmpeq_epi64(self.0, _mm256_setzero_si256())))
    }
    #[inline(always)]
    fn is_below(self, other: Self) -> Mask4 {
        // Below 2^63 the sign does not matter.
        Mask4(compute!(_mm256_cmpgt_epi64(other.0, self.0)))
    }
    #[inline(always)]
    fn select(mask: Mask4, yes: Self, no: Self) -> Self {
        Self::new(compute!(_mm256_blendv_epi8(no.0, yes.0, mask.0)))
    }
    #[inline(always)]
    fn load_rows(table: &[Row], index: Self) -> [Self; 8] {
        let index = index.to_lanes();
        let mut low = [Self::splat(0); 4];
        let mut high = low;
        for (lane, (low, high)) in low.iter_mut().zip(&mut high).enumerate() {
            let Row(numbers) = &table[index[lane] as usize];
            *low = Self::load::<0>(numbers);
            *high = Self::load::<1>(numbers);
        }
        let ([a, b, c, d], [e, f, g, h]) = (transpose(low), transpose(high));
        [a, b, c, d, e, f, g, h]
    }
    #[inline(always)]
    fn store_rows(table: &mut [Row], first: usize, stride: usize, words: [Self; 8]) {
        let [a, b, c, d, e, f, g, h] = words;
        let halves = transpose([a, b, c, d]).into_iter().zip(transpose([e, f, g, h]));
        for (lane, (low, high)) in halves.enumerate() {
            let Row(numbers) = &mut table[first + lane * stride];
            low.store::<0>(numbers);
            high.store::<1>(numbers);
        }
    }
}
