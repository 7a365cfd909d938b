//! Eight lanes of AVX-512. Two multipliers complete them: `avx512.rs` and `avx512f.rs`.

#![expect(
    unsafe_code,
    reason = "intrinsics need their instructions, loads and stores a pointer"
)]

use crate::multiplier::{Multiplier, compute, multiply_with};
use crate::word::{LANES_MAX, Mask, Row, Word, lanewise};
use std::arch::x86_64::*;
use std::marker::PhantomData;

/// Eight lanes of 64 bits.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Eight<M>(pub(crate) __m512i, PhantomData<M>);

/// A bit a lane.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Mask8(__mmask8);

impl Mask for Mask8 {
    #[inline(always)]
    fn from_bits(bits: u8) -> Self {
        Self(bits)
    }
    #[inline(always)]
    fn bits(self) -> u8 {
        self.0
    }
    lanewise! {
        and(self, other) = Self(self.0 & other.0);
        or(self, other) = Self(self.0 | other.0);
        xor(self, other) = Self(self.0 ^ other.0);
    }
    #[inline(always)]
    fn not(self) -> Self {
        Self(!self.0)
    }
}

impl<M: Multiplier<Self>> Word for Eight<M> {
    const LANES: usize = 8;

    type Mask = Mask8;

    #[inline(always)]
    fn splat(value: u64) -> Self {
        Self::new(compute!(_mm512_set1_epi64(value.cast_signed())))
    }
    #[inline(always)]
    fn from_lanes(lanes: &[u64; LANES_MAX]) -> Self {
        Self::load(lanes)
    }
    #[inline(always)]
    fn to_lanes(self) -> [u64; LANES_MAX] {
        let mut lanes = [0; LANES_MAX];
        // SAFETY: the array is 64 bytes of this function; the store asks for no alignment. For the
        // instruction see `compute`.
        unsafe {
            _mm512_storeu_epi64(lanes.as_mut_ptr().cast(), self.0);
        }
        lanes
    }
    lanewise! {
        add(self, other) = Self::new(compute!(_mm512_add_epi64(self.0, other.0)));
        sub(self, other) = Self::new(compute!(_mm512_sub_epi64(self.0, other.0)));
        and(self, other) = Self::new(compute!(_mm512_and_si512(self.0, other.0)));
        or(self, other) = Self::new(compute!(_mm512_or_si512(self.0, other.0)));
    }
    #[inline(always)]
    fn shift_left<const BITS: u32>(self) -> Self {
        Self::new(compute!(_mm512_slli_epi64::<BITS>(self.0)))
    }
    #[inline(always)]
    fn shift_right<const BITS: u32>(self) -> Self {
        Self::new(compute!(_mm512_srli_epi64::<BITS>(self.0)))
    }
    #[inline(always)]
    fn shift_right_signed<const BITS: u32>(self) -> Self {
        Self::new(compute!(_mm512_srai_epi64::<BITS>(self.0)))
    }
    #[inline(always)]
    fn shift_left_by(self, bits: u32) -> Self {
        Self::new(compute!(_mm512_sll_epi64(self.0, _mm_cvtsi64_si128(bits.into()))))
    }
    #[inline(always)]
    fn shift_right_by(self, bits: u32) -> Self {
        Self::new(compute!(_mm512_srl_epi64(self.0, _mm_cvtsi64_si128(bits.into()))))
    }
    multiply_with!(M);
    #[inline(always)]
    fn is_zero(self) -> Mask8 {
        Mask8(compute!(_mm512_testn_epi64_mask(self.0, self.0)))
    }
    #[inline(always)]
    fn is_below(self, other: Self) -> Mask8 {
        Mask8(compute!(_mm512_cmplt_epu64_mask(self.0, other.0)))
    }
    #[inline(always)]
    fn select(mask: Mask8, yes: Self, no: Self) -> Self {
        Self::new(compute!(_mm512_mask_blend_epi64(mask.0, no.0, yes.0)))
    }
    #[inline(always)]
    fn load_rows(table: &[Row], index: Self) -> [Self; 8] {
        // Eight loads of a whole cache line, and a transposition. A gather would load each of the
        // eight words of each row by itself.
        let index = index.to_lanes();
        let mut rows = [Self::splat(0); 8];
        for (lane, row) in rows.iter_mut().enumerate() {
            *row = Self::from_lanes(&table[index[lane] as usize].0);
        }
        transpose(rows)
    }
    #[inline(always)]
    fn store_rows(table: &mut [Row], first: usize, stride: usize, words: [Self; 8]) {
        for (lane, row) in transpose(words).into_iter().enumerate() {
            table[first + lane * stride] = Row(row.to_lanes());
        }
    }
}

impl<M: Copy> Eight<M> {
    #[inline(always)]
    pub(crate) fn new(lanes: __m512i) -> Self {
        Self(lanes, PhantomData)
    }

    #[inline(always)]
    fn load(lanes: &[u64; LANES_MAX]) -> Self {
        // SAFETY: the reference is to 64 bytes that can be read; the load asks for no alignment.
        // For the instruction see `compute`.
        Self::new(unsafe { _mm512_loadu_epi64(lanes.as_ptr().cast()) })
    }

    lanewise! {
        /// The lanes of even index of both, in turns.
        unpack_low(self, other) = Self::new(compute!(_mm512_unpacklo_epi64(self.0, other.0)));
        /// The lanes of odd index of both, in turns.
        unpack_high(self, other) = Self::new(compute!(_mm512_unpackhi_epi64(self.0, other.0)));
        /// The quarters 0 and 2 of each.
        even_quarters(self, other) = Self::new(compute!(_mm512_shuffle_i64x2::<0b10_00_10_00>(self.0, other.0)));
        /// The quarters 1 and 3 of each.
        odd_quarters(self, other) = Self::new(compute!(_mm512_shuffle_i64x2::<0b11_01_11_01>(self.0, other.0)));
    }
}

/// Rows become columns.
#[inline(always)]
fn transpose<M: Copy>(rows: [Eight<M>; 8]) -> [Eight<M>; 8] {
    let [r0, r1, r2, r3, r4, r5, r6, r7] = rows;
    // Each quarter has a column of two rows.
    let even = [
        r0.unpack_low(r1),
        r2.unpack_low(r3),
        r4.unpack_low(r5),
        r6.unpack_low(r7),
    ];
    let odd = [
        r0.unpack_high(r1),
        r2.unpack_high(r3),
        r4.unpack_high(r5),
        r6.unpack_high(r7),
    ];
    let [c0, c2, c4, c6] = quarters(even);
    let [c1, c3, c5, c7] = quarters(odd);
    [c0, c1, c2, c3, c4, c5, c6, c7]
}

/// The same quarter of all four, for each of the quarters.
#[inline(always)]
fn quarters<M: Copy>(pairs: [Eight<M>; 4]) -> [Eight<M>; 4] {
    let [p0, p1, p2, p3] = pairs;
    let (a, b) = (p0.even_quarters(p1), p2.even_quarters(p3));
    let (c, d) = (p0.odd_quarters(p1), p2.odd_quarters(p3));
    [
        a.even_quarters(b),
        c.even_quarters(d),
        a.odd_quarters(b),
        c.odd_quarters(d),
    ]
}
