//! Two vectors as one word, for products from floating point.
//!
//! A product ends with a chain of carries, each of which waits for the one before it, and a
//! processor looks only a few hundred instructions ahead: about one product. So each operation is
//! done on both vectors, and one product fills the time in which the other waits.

use crate::floats::{Floats, Fma};
use crate::multiplier::{Multiplier, multiply_with};
use crate::word::{LANES_MAX, Mask, Row, Word, lanewise};

/// The lower lanes, and the upper ones.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Two<W>(W, W);

/// The masks of both.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Masks<W: Word>(W::Mask, W::Mask);

impl<W: Word> Masks<W> {
    #[inline(always)]
    fn zip(self, other: Self, work: impl Fn(W::Mask, W::Mask) -> W::Mask) -> Self {
        Self(work(self.0, other.0), work(self.1, other.1))
    }
}

impl<W: Word> Mask for Masks<W> {
    #[inline(always)]
    fn from_bits(bits: u8) -> Self {
        Self(W::Mask::from_bits(bits), W::Mask::from_bits(bits >> W::LANES))
    }
    #[inline(always)]
    fn bits(self) -> u8 {
        self.0.bits() | self.1.bits() << W::LANES
    }
    lanewise! {
        and(self, other) = self.zip(other, W::Mask::and);
        or(self, other) = self.zip(other, W::Mask::or);
        xor(self, other) = self.zip(other, W::Mask::xor);
    }
    #[inline(always)]
    fn not(self) -> Self {
        Self(self.0.not(), self.1.not())
    }
}

impl<W: Word> Two<W> {
    #[inline(always)]
    fn each(self, work: impl Fn(W) -> W) -> Self {
        Self(work(self.0), work(self.1))
    }
    #[inline(always)]
    fn zip(self, other: Self, work: impl Fn(W, W) -> W) -> Self {
        Self(work(self.0, other.0), work(self.1, other.1))
    }
}

impl<W: Floats> Floats for Two<W> {
    type Float = (W::Float, W::Float);

    #[inline(always)]
    fn with_instructions<R>(work: impl FnOnce() -> R) -> R {
        W::with_instructions(work)
    }
    #[inline(always)]
    fn apart_with_instructions<R>(work: impl FnOnce() -> R) -> R {
        W::apart_with_instructions(work)
    }
    #[inline(always)]
    fn splat_float(value: f64) -> Self::Float {
        (W::splat_float(value), W::splat_float(value))
    }
    #[inline(always)]
    fn as_float(self) -> Self::Float {
        (self.0.as_float(), self.1.as_float())
    }
    #[inline(always)]
    fn bits(float: Self::Float) -> Self {
        Self(W::bits(float.0), W::bits(float.1))
    }
    #[inline(always)]
    fn add_floats(a: Self::Float, b: Self::Float) -> Self::Float {
        (W::add_floats(a.0, b.0), W::add_floats(a.1, b.1))
    }
    #[inline(always)]
    fn sub_floats(a: Self::Float, b: Self::Float) -> Self::Float {
        (W::sub_floats(a.0, b.0), W::sub_floats(a.1, b.1))
    }
    #[inline(always)]
    fn multiply_add(a: Self::Float, b: Self::Float, sum: Self::Float) -> Self::Float {
        (W::multiply_add(a.0, b.0, sum.0), W::multiply_add(a.1, b.1, sum.1))
    }
    #[inline(always)]
    fn in_turn(end: &mut Self::Float, a: &mut Self, b: &mut Self) {
        W::in_turn(&mut end.0, &mut a.0, &mut b.0);
        W::in_turn(&mut end.1, &mut a.1, &mut b.1);
    }
}

impl<W: Floats> Word for Two<W> {
    const LANES: usize = {
        assert!(2 * W::LANES <= LANES_MAX);
        2 * W::LANES
    };

    type Mask = Masks<W>;

    #[inline(always)]
    fn splat(value: u64) -> Self {
        Self(W::splat(value), W::splat(value))
    }
    #[inline(always)]
    fn from_lanes(lanes: &[u64; LANES_MAX]) -> Self {
        let mut upper = [0; LANES_MAX];
        upper[..W::LANES].copy_from_slice(&lanes[W::LANES..Self::LANES]);
        Self(W::from_lanes(lanes), W::from_lanes(&upper))
    }
    #[inline(always)]
    fn to_lanes(self) -> [u64; LANES_MAX] {
        let mut lanes = self.0.to_lanes();
        lanes[W::LANES..Self::LANES].copy_from_slice(&self.1.to_lanes()[..W::LANES]);
        lanes
    }
    lanewise! {
        add(self, other) = self.zip(other, W::add);
        sub(self, other) = self.zip(other, W::sub);
        and(self, other) = self.zip(other, W::and);
        or(self, other) = self.zip(other, W::or);
    }
    #[inline(always)]
    fn shift_left<const BITS: u32>(self) -> Self {
        self.each(W::shift_left::<BITS>)
    }
    #[inline(always)]
    fn shift_right<const BITS: u32>(self) -> Self {
        self.each(W::shift_right::<BITS>)
    }
    #[inline(always)]
    fn shift_right_signed<const BITS: u32>(self) -> Self {
        self.each(W::shift_right_signed::<BITS>)
    }
    #[inline(always)]
    fn shift_left_by(self, bits: u32) -> Self {
        Self(self.0.shift_left_by(bits), self.1.shift_left_by(bits))
    }
    #[inline(always)]
    fn shift_right_by(self, bits: u32) -> Self {
        Self(self.0.shift_right_by(bits), self.1.shift_right_by(bits))
    }
    multiply_with!(Fma);
    #[inline(always)]
    fn is_zero(self) -> Masks<W> {
        Masks(self.0.is_zero(), self.1.is_zero())
    }
    #[inline(always)]
    fn is_below(self, other: Self) -> Masks<W> {
        Masks(self.0.is_below(other.0), self.1.is_below(other.1))
    }
    #[inline(always)]
    fn select(mask: Masks<W>, yes: Self, no: Self) -> Self {
        Self(W::select(mask.0, yes.0, no.0), W::select(mask.1, yes.1, no.1))
    }
    #[inline(always)]
    fn load_rows(table: &[Row], index: Self) -> [Self; 8] {
        let (lower, upper) = (W::load_rows(table, index.0), W::load_rows(table, index.1));
        let mut words = [Self::splat(0); 8];
        for (word, (lower, upper)) in words.iter_mut().zip(lower.into_iter().zip(upper)) {
            *word = Self(lower, upper);
        }
        words
    }
    #[inline(always)]
    fn store_rows(table: &mut [Row], first: usize, stride: usize, words: [Self; 8]) {
        let [a, b, c, d, e, f, g, h] = words;
        let lower = [a.0, b.0, c.0, d.0, e.0, f.0, g.0, h.0];
        let upper = [a.1, b.1, c.1, d.1, e.1, f.1, g.1, h.1];
        W::store_rows(table, first, stride, lower);
        W::store_rows(table, first + W::LANES * stride, stride, upper);
    }
}
