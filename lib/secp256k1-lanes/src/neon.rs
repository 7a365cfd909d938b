//! Two lanes of NEON, which multiply by the multiply-add of floating point (`floats.rs`).

#![expect(
    unsafe_code,
    reason = "intrinsics need their instructions, loads and stores a pointer"
)]

use crate::floats::{BITS_START, Floats, Fma, apart_in_this_file};
use crate::multiplier::{Multiplier, compute, multiply_with};
use crate::word::{LANES_MAX, Mask, Row, Word, lanewise};
use std::arch::aarch64::*;
use std::arch::is_aarch64_feature_detected;
use std::hint::black_box;

/// Two lanes of 64 bits.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Neon(uint64x2_t);

/// All bits of a lane, or none.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Mask2(uint64x2_t);

/// Whether the processor has what [`Neon`] uses. All 64-bit ones have it.
pub(crate) fn is_available() -> bool {
    is_aarch64_feature_detected!("neon")
}

#[inline(always)]
fn splat(value: u64) -> uint64x2_t {
    compute!(vdupq_n_u64(value))
}

impl Mask for Mask2 {
    #[inline(always)]
    fn from_bits(bits: u8) -> Self {
        // There are no mask registers: a mask is all ones in the lanes that it has.
        Self(compute!(vtstq_u64(
            splat(bits.into()),
            vcombine_u64(vcreate_u64(1), vcreate_u64(2))
        )))
    }
    #[inline(always)]
    fn bits(self) -> u8 {
        let lanes = compute!([vgetq_lane_u64::<0>(self.0), vgetq_lane_u64::<1>(self.0)]);
        (lanes[0] & 1 | lanes[1] & 2) as u8
    }
    lanewise! {
        and(self, other) = Self(compute!(vandq_u64(self.0, other.0)));
        or(self, other) = Self(compute!(vorrq_u64(self.0, other.0)));
        xor(self, other) = Self(compute!(veorq_u64(self.0, other.0)));
    }
    #[inline(always)]
    fn not(self) -> Self {
        Self(compute!(veorq_u64(self.0, splat(u64::MAX))))
    }
}

impl Neon {
    /// A quarter of a row, or of what has eight lanes.
    #[inline(always)]
    fn load(numbers: &[u64; 2]) -> Self {
        // SAFETY: the reference is to 16 bytes that can be read; the load asks for no alignment.
        // For the instruction see `compute`.
        Self(unsafe { vld1q_u64(numbers.as_ptr()) })
    }
    #[inline(always)]
    fn store(self, numbers: &mut [u64; 2]) {
        // SAFETY: the reference is to 16 bytes that can be written; the store asks for no
        // alignment. For the instruction see `compute`.
        unsafe { vst1q_u64(numbers.as_mut_ptr(), self.0) };
    }
}

/// Rows become columns.
#[inline(always)]
fn transpose([first, second]: [Neon; 2]) -> [Neon; 2] {
    compute!([Neon(vtrn1q_u64(first.0, second.0)), Neon(vtrn2q_u64(first.0, second.0)),])
}

impl Floats for Neon {
    type Float = float64x2_t;

    #[inline(always)]
    fn with_instructions<R>(work: impl FnOnce() -> R) -> R {
        // All that is built for these processors has the instructions.
        work()
    }
    apart_in_this_file!(Neon);
    #[inline(always)]
    fn splat_float(value: f64) -> float64x2_t {
        compute!(vdupq_n_f64(value))
    }
    #[inline(always)]
    fn as_float(self) -> float64x2_t {
        compute!(vreinterpretq_f64_u64(self.0))
    }
    #[inline(always)]
    fn bits(float: float64x2_t) -> Self {
        Self(compute!(vreinterpretq_u64_f64(float)))
    }
    #[inline(always)]
    fn add_floats(a: float64x2_t, b: float64x2_t) -> float64x2_t {
        compute!(vaddq_f64(a, b))
    }
    #[inline(always)]
    fn sub_floats(a: float64x2_t, b: float64x2_t) -> float64x2_t {
        compute!(vsubq_f64(a, b))
    }
    #[inline(always)]
    fn multiply_add(a: float64x2_t, b: float64x2_t, sum: float64x2_t) -> float64x2_t {
        compute!(vfmaq_f64(sum, a, b))
    }
    #[inline(always)]
    fn float_below(self) -> float64x2_t {
        compute!(vcvtq_f64_u64(self.0))
    }
    #[inline(always)]
    fn start() -> [Self; 10] {
        // Loads are fewer instructions than what makes such constants, which the compiler would
        // choose if it saw them.
        static BOTH_LANES: [[u64; 2]; 10] = {
            let mut lanes = [[0; 2]; 10];
            let mut column = 0;
            while column < 10 {
                lanes[column] = [BITS_START[column]; 2];
                column += 1;
            }
            lanes
        };
        let mut start = [Self::splat(0); 10];
        for (start, lanes) in start.iter_mut().zip(black_box(&BOTH_LANES)) {
            *start = Self::load(lanes);
        }
        start
    }
}

impl Word for Neon {
    const LANES: usize = 2;

    type Mask = Mask2;

    #[inline(always)]
    fn splat(value: u64) -> Self {
        Self(splat(value))
    }
    #[inline(always)]
    fn from_lanes(lanes: &[u64; LANES_MAX]) -> Self {
        Self::load(&lanes.as_chunks().0[0])
    }
    #[inline(always)]
    fn to_lanes(self) -> [u64; LANES_MAX] {
        let mut lanes = [0; LANES_MAX];
        self.store(&mut lanes.as_chunks_mut().0[0]);
        lanes
    }
    lanewise! {
        add(self, other) = Self(compute!(vaddq_u64(self.0, other.0)));
        sub(self, other) = Self(compute!(vsubq_u64(self.0, other.0)));
        and(self, other) = Self(compute!(vandq_u64(self.0, other.0)));
        or(self, other) = Self(compute!(vorrq_u64(self.0, other.0)));
    }
    #[inline(always)]
    fn shift_right_signed<const BITS: u32>(self) -> Self {
        // To the right is to the left by a negative number.
        compute!({
            let shifted = vshlq_s64(vreinterpretq_s64_u64(self.0), vdupq_n_s64(-i64::from(BITS)));
            Self(vreinterpretq_u64_s64(shifted))
        })
    }
    #[inline(always)]
    fn shift_left_by(self, bits: u32) -> Self {
        Self(compute!(vshlq_u64(self.0, vdupq_n_s64(bits.into()))))
    }
    #[inline(always)]
    fn shift_right_by(self, bits: u32) -> Self {
        Self(compute!(vshlq_u64(self.0, vdupq_n_s64(-i64::from(bits)))))
    }
    multiply_with!(Fma);
    #[inline(always)]
    fn is_zero(self) -> Mask2 {
        Mask2(compute!(vceqzq_u64(self.0)))
    }
    #[inline(always)]
    fn is_below(self, other: Self) -> Mask2 {
        Mask2(compute!(vcltq_u64(self.0, other.0)))
    }
    #[inline(always)]
    fn select(mask: Mask2, yes: Self, no: Self) -> Self {
        Self(compute!(vbslq_u64(mask.0, yes.0, no.0)))
    }
    #[inline(always)]
    fn load_rows(table: &[Row], index: Self) -> [Self; 8] {
        let index = index.to_lanes();
        let Row(first) = &table[index[0] as usize];
        let Row(second) = &table[index[1] as usize];
        let mut columns = [Self::splat(0); 8];
        let (pairs, _) = columns.as_chunks_mut::<2>();
        let rows = first.as_chunks().0.iter().zip(second.as_chunks().0);
        for (pair, (first, second)) in pairs.iter_mut().zip(rows) {
            *pair = transpose([Self::load(first), Self::load(second)]);
        }
        columns
    }
    #[inline(always)]
    fn store_rows(table: &mut [Row], first: usize, stride: usize, words: [Self; 8]) {
        for (number, pair) in words.as_chunks::<2>().0.iter().enumerate() {
            for (lane, half) in transpose(*pair).into_iter().enumerate() {
                let Row(numbers) = &mut table[first + lane * stride];
                half.store(&mut numbers.as_chunks_mut().0[number]);
            }
        }
    }
}
