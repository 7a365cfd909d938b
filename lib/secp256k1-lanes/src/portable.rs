//! One lane: plain integers. The same source as the vectors, on any machine.

use crate::wide::Widen;
use crate::word::{LANES_MAX, LIMB_BITS, LIMB_MASK, Mask, Row, Word, lanewise};

impl Mask for bool {
    #[inline(always)]
    fn from_bits(bits: u8) -> Self {
        bits & 1 == 1
    }
    #[inline(always)]
    fn bits(self) -> u8 {
        self.into()
    }
    lanewise! {
        and(self, other) = self & other;
        or(self, other) = self | other;
        xor(self, other) = self ^ other;
    }
    #[inline(always)]
    fn not(self) -> Self {
        !self
    }
}

#[inline(always)]
fn product(a: u64, b: u64) -> u128 {
    u128::from(a & LIMB_MASK) * u128::from(b & LIMB_MASK)
}

impl Word for u64 {
    const LANES: usize = 1;

    type Mask = bool;

    #[cfg(not(test))]
    type Columns = crate::wide::WideColumns<Self>;
    #[cfg(test)]
    type Columns = crate::model::AnyColumns<Self>;

    #[inline(always)]
    fn vectorize<R>(work: impl FnOnce() -> R) -> R {
        work()
    }
    #[inline(always)]
    fn splat(value: u64) -> Self {
        value
    }
    #[inline(always)]
    fn from_lanes(lanes: &[u64; LANES_MAX]) -> Self {
        lanes[0]
    }
    #[inline(always)]
    fn to_lanes(self) -> [u64; LANES_MAX] {
        [self, 0, 0, 0, 0, 0, 0, 0]
    }
    lanewise! {
        add(self, other) = self.wrapping_add(other);
        sub(self, other) = self.wrapping_sub(other);
        and(self, other) = self & other;
        or(self, other) = self | other;
    }
    #[inline(always)]
    fn shift_left<const BITS: u32>(self) -> Self {
        self << BITS
    }
    #[inline(always)]
    fn shift_right<const BITS: u32>(self) -> Self {
        self >> BITS
    }
    #[inline(always)]
    fn shift_right_signed<const BITS: u32>(self) -> Self {
        (self.cast_signed() >> BITS).cast_unsigned()
    }
    #[inline(always)]
    fn shift_left_by(self, bits: u32) -> Self {
        self << bits
    }
    #[inline(always)]
    fn shift_right_by(self, bits: u32) -> Self {
        self >> bits
    }
    #[inline(always)]
    fn add_product_low(self, a: Self, b: Self) -> Self {
        self.wrapping_add(product(a, b) as u64 & LIMB_MASK)
    }
    #[inline(always)]
    fn add_product_high(self, a: Self, b: Self) -> Self {
        self.wrapping_add((product(a, b) >> LIMB_BITS) as u64)
    }
    /// With the planted faults the code would take minutes to build in one piece.
    #[cfg(test)]
    #[inline(never)]
    fn apart<R>(work: impl FnOnce() -> R) -> R {
        work()
    }
    #[inline(always)]
    fn is_zero(self) -> bool {
        self == 0
    }
    #[inline(always)]
    fn is_below(self, other: Self) -> bool {
        self < other
    }
    #[inline(always)]
    fn select(mask: bool, yes: Self, no: Self) -> Self {
        if mask { yes } else { no }
    }
    #[inline(always)]
    fn load_rows(table: &[Row], index: Self) -> [Self; 8] {
        table[index as usize].0
    }
    #[inline(always)]
    fn store_rows(table: &mut [Row], first: usize, _stride: usize, words: [Self; 8]) {
        table[first] = Row(words);
    }
    #[inline(always)]
    fn promise_below<const BITS: u32>(self) {
        debug_assert!(self >> BITS == 0);
    }
}

impl Widen for u64 {
    type Wide = u128;

    #[inline(always)]
    fn widen(self) -> u128 {
        self.into()
    }
    #[inline(always)]
    fn times(self, other: Self) -> u128 {
        u128::from(self) * u128::from(other)
    }
    #[inline(always)]
    fn sum(a: u128, b: u128) -> u128 {
        a.wrapping_add(b)
    }
    #[inline(always)]
    fn limb(wide: u128) -> Self {
        wide as Self & LIMB_MASK
    }
    #[inline(always)]
    fn above_limb(wide: u128) -> u128 {
        wide >> LIMB_BITS
    }
    #[inline(always)]
    fn words(wide: u128) -> [Self; 2] {
        [wide as Self, (wide >> 64) as Self]
    }
    #[inline(always)]
    fn narrow(wide: u128) -> Self {
        wide as Self
    }
}

#[cfg(test)]
impl crate::model::SignedHalves for u64 {
    fn halves(a: u64, b: u64) -> [u64; 2] {
        let product = product(a, b);
        let (down, rest) = ((product >> LIMB_BITS) as u64, product as u64 & LIMB_MASK);
        let half = 1 << (LIMB_BITS - 1);
        let up = rest > half || rest == half && down & 1 == 1;
        if up {
            [rest.wrapping_sub(1 << LIMB_BITS), down + 1]
        } else {
            [rest, down]
        }
    }
}
