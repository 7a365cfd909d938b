//! Four lanes of AVX2. Two multipliers complete them: `avx_ifma.rs` and `avx2.rs`.

#![expect(
    unsafe_code,
    reason = "intrinsics need their instructions, loads and stores a pointer"
)]

use crate::word::{
    LANES_MAX, Mask, Row, Word, add_multiple_by_halves, add_product_by_rows, add_top_by_halves, square_by_rows,
};
use std::arch::x86_64::*;
use std::fmt::Debug;
use std::marker::PhantomData;

/// What the four lanes multiply with.
pub(crate) trait Multiplier: Copy + Debug {
    /// As [`Word::SIGNED_HALVES`].
    #[cfg(test)]
    const SIGNED_HALVES: bool = false;
    /// As [`Word::vectorize`]; the instructions of AVX2 are among those of the multiplier.
    fn vectorize<R>(work: impl FnOnce() -> R) -> R;
    /// As [`Word::add_product_low`].
    fn add_low(sum: __m256i, a: __m256i, b: __m256i) -> __m256i;
    /// As [`Word::add_product_high`].
    fn add_high(sum: __m256i, a: __m256i, b: __m256i) -> __m256i;
    /// As [`Word::add_product`].
    #[inline(always)]
    fn add_product(columns: &mut [Four<Self>; 10], a: &[Four<Self>; 5], b: &[Four<Self>; 5]) {
        add_product_by_rows(columns, a, b);
    }
    /// As [`Word::product`].
    #[inline(always)]
    fn product(a: &[Four<Self>; 5], b: &[Four<Self>; 5]) -> [Four<Self>; 10] {
        let mut columns = [Four::splat(0); 10];
        Self::add_product(&mut columns, a, b);
        columns
    }
    /// As [`Word::square`].
    #[inline(always)]
    fn square(a: &[Four<Self>; 5]) -> [Four<Self>; 10] {
        square_by_rows(a)
    }
    /// As [`Word::add_multiple`].
    #[inline(always)]
    fn add_multiple(columns: &mut [Four<Self>; 6], number: &[Four<Self>; 5], limb: u64) {
        add_multiple_by_halves(columns, number, limb);
    }
    /// As [`Word::add_top`].
    #[inline(always)]
    fn add_top(low: [Four<Self>; 2], top: Four<Self>) -> [Four<Self>; 2] {
        add_top_by_halves(low, top)
    }
    /// As [`Word::apart`].
    #[inline(always)]
    fn apart<R>(work: impl FnOnce() -> R) -> R {
        work()
    }
}

/// Four lanes of 64 bits.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Four<M>(pub(crate) __m256i, PhantomData<M>);

/// All bits of a lane, or none.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Mask4(__m256i);

/// An intrinsic that only computes.
macro_rules! compute {
    ($call:expr) => {
        // SAFETY: the intrinsic touches no memory. Its instructions are there: a type of four lanes
        // is used only by a `Verifier` whose backend was chosen after its `is_available` had said
        // so, and by tests that ask the same.
        unsafe { $call }
    };
}
pub(crate) use compute;

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
    #[inline(always)]
    fn and(self, other: Self) -> Self {
        Self(compute!(_mm256_and_si256(self.0, other.0)))
    }
    #[inline(always)]
    fn or(self, other: Self) -> Self {
        Self(compute!(_mm256_or_si256(self.0, other.0)))
    }
    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        Self(compute!(_mm256_xor_si256(self.0, other.0)))
    }
    #[inline(always)]
    fn not(self) -> Self {
        Self(compute!(_mm256_xor_si256(self.0, splat(u64::MAX))))
    }
}

impl<M: Multiplier> Four<M> {
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

    /// The lanes of even index of both, in turns.
    #[inline(always)]
    fn unpack_low(self, other: Self) -> Self {
        Self::new(compute!(_mm256_unpacklo_epi64(self.0, other.0)))
    }
    /// The lanes of odd index of both, in turns.
    #[inline(always)]
    fn unpack_high(self, other: Self) -> Self {
        Self::new(compute!(_mm256_unpackhi_epi64(self.0, other.0)))
    }
    /// The lower half of each.
    #[inline(always)]
    fn low_halves(self, other: Self) -> Self {
        Self::new(compute!(_mm256_permute2x128_si256::<0x20>(self.0, other.0)))
    }
    /// The upper half of each.
    #[inline(always)]
    fn high_halves(self, other: Self) -> Self {
        Self::new(compute!(_mm256_permute2x128_si256::<0x31>(self.0, other.0)))
    }
}

/// Rows become columns.
#[inline(always)]
fn transpose<M: Multiplier>(rows: [Four<M>; 4]) -> [Four<M>; 4] {
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

impl<M: Multiplier> Word for Four<M> {
    const LANES: usize = 4;
    #[cfg(test)]
    const SIGNED_HALVES: bool = M::SIGNED_HALVES;

    type Mask = Mask4;

    #[inline(always)]
    fn vectorize<R>(work: impl FnOnce() -> R) -> R {
        M::vectorize(work)
    }
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
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Self::new(compute!(_mm256_add_epi64(self.0, other.0)))
    }
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        Self::new(compute!(_mm256_sub_epi64(self.0, other.0)))
    }
    #[inline(always)]
    fn and(self, other: Self) -> Self {
        Self::new(compute!(_mm256_and_si256(self.0, other.0)))
    }
    #[inline(always)]
    fn or(self, other: Self) -> Self {
        Self::new(compute!(_mm256_or_si256(self.0, other.0)))
    }
    #[inline(always)]
    fn shift_left<const BITS: u32>(self) -> Self {
        self.shift_left_by(BITS)
    }
    #[inline(always)]
    fn shift_right<const BITS: u32>(self) -> Self {
        self.shift_right_by(BITS)
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
    #[inline(always)]
    fn add_product_low(self, a: Self, b: Self) -> Self {
        Self::new(M::add_low(self.0, a.0, b.0))
    }
    #[inline(always)]
    fn add_product_high(self, a: Self, b: Self) -> Self {
        Self::new(M::add_high(self.0, a.0, b.0))
    }
    #[inline(always)]
    fn add_product(columns: &mut [Self; 10], a: &[Self; 5], b: &[Self; 5]) {
        M::add_product(columns, a, b);
    }
    #[inline(always)]
    fn product(a: &[Self; 5], b: &[Self; 5]) -> [Self; 10] {
        M::product(a, b)
    }
    #[inline(always)]
    fn square(a: &[Self; 5]) -> [Self; 10] {
        M::square(a)
    }
    #[inline(always)]
    fn add_multiple(columns: &mut [Self; 6], number: &[Self; 5], limb: u64) {
        M::add_multiple(columns, number, limb);
    }
    #[inline(always)]
    fn add_top(low: [Self; 2], top: Self) -> [Self; 2] {
        M::add_top(low, top)
    }
    #[inline(always)]
    fn apart<R>(work: impl FnOnce() -> R) -> R {
        M::apart(work)
    }
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
