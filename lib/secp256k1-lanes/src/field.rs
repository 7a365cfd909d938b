//! Arithmetic modulo p = 2^256 - 2^32 - 977, in five limbs of 52 bits.
//!
//! Three forms of a number keep carries from being propagated more often than they must be. All of
//! them stand for a residue modulo p, none is unique.
//!
//! | type | limbs | what it may be used for |
//! |---|---|---|
//! | [`Fe`] | below 2^52 | everything |
//! | [`Factor`] | as [`Columns::factor`] makes them | to be multiplied |
//! | [`Lazy`] | about 2^58 at most, perhaps negative | to be subtracted from a product |
//!
//! The tests run every formula over intervals: no limb overflows for any input of these forms
//! (`intervals.rs`).

use crate::fault::{Fault, is_planted};
use crate::limbs::{LIFTED_SMALL, TOP_BITS, TOP_MASK, carry_and_clear, each, negative, splat, zip};
use crate::word::{Columns, FOLD_256, LIMB_MASK, Word};

/// A number with limbs below 2^52.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fe<W>(pub(crate) [W; 5]);

/// A number in the form that a product takes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Factor<W>(pub(crate) [W; 5]);

/// A number whose carries are not propagated.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lazy<W>(pub(crate) [W; 5]);

/// What can be multiplied.
pub(crate) trait Multiplicand<W: Word>: Copy {
    fn limbs(&self) -> &[W; 5];

    #[inline(always)]
    fn times(&self, other: &impl Multiplicand<W>) -> Product<W> {
        Product(W::Columns::product(self.limbs(), other.limbs()))
    }

    #[inline(always)]
    fn squared(&self) -> Product<W> {
        Product(W::Columns::square(self.limbs()))
    }
}

impl<W: Word> Multiplicand<W> for Fe<W> {
    #[inline(always)]
    fn limbs(&self) -> &[W; 5] {
        &self.0
    }
}

impl<W: Word> Multiplicand<W> for Factor<W> {
    #[inline(always)]
    fn limbs(&self) -> &[W; 5] {
        &self.0
    }
}

/// A product before its reduction.
#[derive(Debug, Clone, Copy)]
#[must_use]
pub(crate) struct Product<W: Word>(W::Columns);

impl<W: Word> Product<W> {
    #[inline(always)]
    pub(crate) fn add_product(self, a: &impl Multiplicand<W>, b: &impl Multiplicand<W>) -> Self {
        Self(self.0.add_product(a.limbs(), b.limbs()))
    }

    /// Minus a number of any form.
    #[inline(always)]
    pub(crate) fn subtract(self, lazy: &Lazy<W>) -> Self {
        Self(self.0.add(&negative(&lazy.0)))
    }

    /// Minus 2^`BITS` times another product; 3 bits at most.
    #[inline(always)]
    pub(crate) fn subtract_scaled<const BITS: u32>(self, other: &Self) -> Self {
        Self(self.0.subtract_scaled::<BITS>(&other.0))
    }

    #[inline(always)]
    pub(crate) fn lazy(self) -> Lazy<W> {
        Lazy(self.0.lazy())
    }

    /// Twice the product.
    #[inline(always)]
    pub(crate) fn lazy_double(self) -> Lazy<W> {
        Lazy(self.0.lazy_double())
    }

    #[inline(always)]
    pub(crate) fn factor(self) -> Factor<W> {
        self.lazy().factor()
    }

    #[inline(always)]
    pub(crate) fn reduce(self) -> Fe<W> {
        Fe(self.0.reduce())
    }

    /// Minus the product.
    #[inline(always)]
    pub(crate) fn reduce_negated(self) -> Fe<W> {
        self.lazy().negate()
    }
}

/// A number that is not negative, with limbs of a few bits more than 52.
impl<W: Word> Lazy<W> {
    #[inline(always)]
    pub(crate) fn factor(&self) -> Factor<W> {
        Factor(W::Columns::factor(self.0))
    }

    #[inline(always)]
    pub(crate) fn carried(&self) -> Fe<W> {
        Fe(carry_and_clear(self.0))
    }

    #[inline(always)]
    pub(crate) fn add(&self, other: &Self) -> Self {
        Self(zip(&self.0, &other.0, W::add))
    }

    /// Times 2^`BITS`.
    #[inline(always)]
    pub(crate) fn scale<const BITS: u32>(&self) -> Self {
        Self(each(
            &self.0,
            #[inline(always)]
            |limb| limb.shift_left::<BITS>(),
        ))
    }

    #[inline(always)]
    pub(crate) fn triple(&self) -> Self {
        Self(each(
            &self.0,
            #[inline(always)]
            |limb| limb.add(limb.add(limb)),
        ))
    }

    #[inline(always)]
    pub(crate) fn negate(&self) -> Fe<W> {
        Fe(carry_and_clear(zip(&splat(&LIFTED_SMALL), &self.0, W::sub)))
    }

    /// Minus a number below 4p.
    #[inline(always)]
    pub(crate) fn subtract(&self, other: &Self) -> Self {
        let difference = zip(&splat(&LIFTED_SMALL), &other.0, W::sub);
        Self(zip(&self.0, &difference, W::add))
    }

    /// Minus the number, limb by limb: not a form that can be carried.
    #[inline(always)]
    pub(crate) fn minus(&self, other: &Self) -> Self {
        Self(zip(&self.0, &other.0, W::sub))
    }
}

impl<W: Word> Factor<W> {
    /// The same number with limbs below 2^52.
    #[inline(always)]
    pub(crate) fn clear(&self) -> Fe<W> {
        Fe(W::Columns::clear_factor(&self.0))
    }
}

impl<W: Word> Fe<W> {
    #[inline(always)]
    pub(crate) fn small(value: u64) -> Self {
        Self(splat(&[value, 0, 0, 0, 0]))
    }

    #[inline(always)]
    pub(crate) fn lazy(&self) -> Lazy<W> {
        Lazy(self.0)
    }

    #[inline(always)]
    pub(crate) fn as_factor(&self) -> Factor<W> {
        Factor(self.0)
    }

    #[inline(always)]
    pub(crate) fn mul(&self, other: &Self) -> Self {
        W::apart(
            #[inline(always)]
            || self.times(other).reduce(),
        )
    }

    #[inline(always)]
    pub(crate) fn square(&self) -> Self {
        W::apart(
            #[inline(always)]
            || self.squared().reduce(),
        )
    }

    #[inline(always)]
    pub(crate) fn add(&self, other: &Self) -> Self {
        Fe(carry_and_clear(zip(&self.0, &other.0, W::add)))
    }

    #[inline(always)]
    pub(crate) fn twice(&self) -> Self {
        self.add(self)
    }

    #[inline(always)]
    pub(crate) fn sub(&self, other: &Self) -> Self {
        self.sub_lazy(&other.lazy())
    }

    /// Minus a number below 4p, which may be negative.
    #[inline(always)]
    pub(crate) fn sub_lazy(&self, other: &Lazy<W>) -> Self {
        self.lazy().subtract(other).carried()
    }

    #[inline(always)]
    pub(crate) fn triple(&self) -> Self {
        self.lazy().triple().carried()
    }

    /// Minus the number where the mask is set.
    #[inline(always)]
    pub(crate) fn negate_lazy_where(&self, mask: W::Mask) -> Lazy<W> {
        Lazy(each(
            &self.0,
            #[inline(always)]
            |limb| W::select(mask, W::splat(0).sub(limb), limb),
        ))
    }

    #[inline(always)]
    pub(crate) fn select(mask: W::Mask, yes: &Self, no: &Self) -> Self {
        Self(zip(
            &yes.0,
            &no.0,
            #[inline(always)]
            |yes, no| W::select(mask, yes, no),
        ))
    }

    /// The number from 0 to p - 1.
    #[inline(always)]
    pub(crate) fn normalize(&self) -> Self {
        let mut limbs = self.0;
        let top = limbs[4].shift_right::<TOP_BITS>();
        limbs[4] = limbs[4].and(W::splat(TOP_MASK));
        if !is_planted::<W>(Fault::NormalFold) {
            limbs[0] = limbs[0].add_product_low(top, W::splat(FOLD_256));
        }
        // Below 2^256 + 2^37 now: at most one p too much.
        // To subtract p is to add 2^256 - p and to drop bit 256. Whether that bit is set says
        // whether the number was p or more.
        let low = carry_and_clear(limbs);
        let mut plus = low;
        plus[0] = plus[0].add(W::splat(FOLD_256));
        let plus = carry_and_clear(plus);
        // No branch: lanes differ in this.
        let below = plus[4].shift_right::<TOP_BITS>().is_zero();
        if is_planted::<W>(Fault::NormalSubtraction) {
            return Self(low);
        }
        let mut normal = zip(
            &low,
            &plus,
            #[inline(always)]
            |low, plus| W::select(below, low, plus),
        );
        normal[4] = normal[4].and(W::splat(TOP_MASK));
        Self(normal)
    }

    /// Lanes that are 0 modulo p.
    #[inline(always)]
    pub(crate) fn is_zero(&self) -> W::Mask {
        // Without the normal form p itself, which is 0 too, would not be noticed.
        let Self(n) = self.normalize();
        n[0].or(n[1]).or(n[2].or(n[3])).or(n[4]).is_zero()
    }

    /// Four numbers of 64 bits, from one below 2^256.
    #[inline(always)]
    pub(crate) fn pack(&self) -> [W; 4] {
        let x = &self.0;
        [
            x[0].or(x[1].shift_left_wrapping::<52>()),
            x[1].shift_right::<12>().or(x[2].shift_left_wrapping::<40>()),
            x[2].shift_right::<24>().or(x[3].shift_left_wrapping::<28>()),
            x[3].shift_right::<36>().or(x[4].shift_left_wrapping::<16>()),
        ]
    }

    #[inline(always)]
    pub(crate) fn unpack(q: &[W; 4]) -> Self {
        let mask = W::splat(LIMB_MASK);
        Self([
            q[0].and(mask),
            q[0].shift_right::<52>().or(q[1].shift_left_wrapping::<12>()).and(mask),
            q[1].shift_right::<40>().or(q[2].shift_left_wrapping::<24>()).and(mask),
            q[2].shift_right::<28>().or(q[3].shift_left_wrapping::<36>()).and(mask),
            // No mask: 48 bits are left.
            q[3].shift_right::<16>(),
        ])
    }

    /// The same number in all lanes.
    #[inline(always)]
    pub(crate) fn broadcast(number: &[u64; 4]) -> Self {
        Self::unpack(&[
            W::splat(number[0]),
            W::splat(number[1]),
            W::splat(number[2]),
            W::splat(number[3]),
        ])
    }

    /// A number for each lane.
    #[inline(always)]
    pub(crate) fn from_numbers(numbers: &[[u64; 4]; 8]) -> Self {
        let lanes = |k: usize| std::array::from_fn(|lane| numbers[lane][k]);
        Self::unpack(&[
            W::from_lanes(&lanes(0)),
            W::from_lanes(&lanes(1)),
            W::from_lanes(&lanes(2)),
            W::from_lanes(&lanes(3)),
        ])
    }

    /// The number of a lane, from 0 to p - 1.
    #[inline(always)]
    pub(crate) fn number(&self, lane: usize) -> [u64; 4] {
        let q = self.normalize().pack();
        [
            q[0].to_lanes()[lane],
            q[1].to_lanes()[lane],
            q[2].to_lanes()[lane],
            q[3].to_lanes()[lane],
        ]
    }
}

/// A root, if there is one: the power (p + 1) / 4.
#[inline(always)]
pub(crate) fn square_root<W: Word>(number: &Fe<W>) -> Fe<W> {
    // `x[k]` is the power 2^k - 1. A step squares so often, multiplies by an earlier power, and
    // keeps the product. The exponent is a run of 223 ones, a zero, 22 ones, four zeros, two ones
    // and two zeros, in binary.
    struct Step {
        squarings: u32,
        factor: usize,
        keep: usize,
    }
    const fn step(squarings: u32, factor: usize, keep: usize) -> Step {
        Step {
            squarings,
            factor,
            keep,
        }
    }
    // Powers: 0 x1, 1 x2, 2 x3, 3 x22, 4 x44, 5 x88, 6 what need not be kept.
    const STEPS: [Step; 14] = [
        step(1, 0, 1),  // x2
        step(1, 0, 2),  // x3
        step(3, 2, 6),  // x6
        step(3, 2, 6),  // x9
        step(2, 1, 3),  // x11, over x22
        step(11, 3, 3), // x22
        step(22, 3, 4), // x44
        step(44, 4, 5), // x88
        step(88, 5, 6), // x176
        step(44, 4, 6), // x220
        step(3, 2, 6),  // x223
        step(23, 3, 6),
        step(6, 1, 6),
        step(2, 7, 6),
    ];
    let mut kept = [*number; 7];
    let mut power = *number;
    for step in &STEPS {
        for _ in 0..step.squarings {
            power = power.square();
        }
        // The last step multiplies by nothing.
        if let Some(factor) = kept.get(step.factor) {
            power = power.mul(factor);
        }
        kept[step.keep] = power;
    }
    power
}
